/**
 * `ocpi-hub parties history` and `parties report --month`: print how many pushes, deliveries and errors there were
 * between the hub and a partner, with latency and availability, by minute or hour, and by day.
 */
import type { Command } from 'commander';
import type { MonthlyReport, PartnerHistory, PartnerPoint } from '../api/history.ts';
import { partyPath } from './complete.ts';
import { type FileFlags, fileOptions, isFiled } from './list-verb.ts';
import { type Column, type Page, plain, table } from './table.ts';
import { type Context, instant, verb } from './verb.ts';

interface Flags extends FileFlags {
  readonly hours?: boolean;
  readonly from?: string;
  readonly to?: string;
}

type Sums = Omit<PartnerPoint, 'at'>;

/** `99.95 %`; nothing when it is not known. */
const percent = (share: number | null) => (share === null ? '' : `${Number((share * 100).toFixed(2))} %`);
const latency = (ms: number | null) => (ms === null ? '' : `${Math.round(ms)} ms`);

const sums: readonly Column<Sums>[] = [
  { title: 'pushes', of: ({ pushes }) => pushes, align: 'right' },
  { title: 'deliveries', of: ({ deliveries }) => deliveries, align: 'right' },
  {
    title: 'errors',
    of: ({ errors }) => errors,
    align: 'right',
    colour: ({ errors }) => (errors > 0 ? 'red' : null),
  },
  { title: 'p50', of: ({ latency_p50_ms }) => latency(latency_p50_ms), align: 'right' },
  { title: 'p95', of: ({ latency_p95_ms }) => latency(latency_p95_ms), align: 'right' },
  { title: 'available', of: ({ availability }) => percent(availability), align: 'right' },
];
const points: readonly Column<PartnerPoint>[] = [{ title: 'begin', of: ({ at }) => `${at.slice(0, 16)}Z` }, ...sums];
const days: readonly Column<Sums & { readonly day: string }>[] = [{ title: 'day', of: ({ day }) => day }, ...sums];

export function historyVerb(): Command {
  return verb<Flags>({
    usage: 'history <id>',
    summary: 'show what passed between the hub and a partner, by minute or by hour',
    options: [
      ['--hours', 'by hour, of the last 90 days; else by minute, of the last 24 h'],
      ['--from <instant>', 'from then on', instant],
      ['--to <instant>', 'before then', instant],
      ...fileOptions,
    ],
    examples: ['parties history NL-EMS --from 1h', 'parties history NL-EMS --hours --csv'],
    async run(context, [given = ''], flags) {
      const { hub, screen } = context;
      const path = `${await partyPath(hub, given)}/history`;
      const query = { step: flags.hours ? 'hour' : 'minute', from: flags.from, to: flags.to };
      if (await isFiled(context, path, query, flags)) return;
      const found = await hub.get<PartnerHistory>(path, query);
      if (found.points.length === 0)
        screen.say(`No point of ${found.party} is recorded in that time; a minute is written when it has ended.`);
      if (found.points.length > 0 || screen.isJson)
        screen.answer(found, (view, page) => table(points, view.points, page));
    },
  });
}

/** Prints the report of a month. */
export async function monthlyReport(context: Context, id: string, month: string, flags: FileFlags): Promise<void> {
  const { hub, screen } = context;
  const path = `/parties/${encodeURIComponent(id)}/report/${encodeURIComponent(month)}`;
  if (await isFiled(context, path, {}, flags)) return;
  screen.answer(await hub.get<MonthlyReport>(path), lines);
}

function lines({ party, names, month, total, days: each }: MonthlyReport, page: Page): string[] {
  const title = page.paint('bold', plain([party, ...names, month].join(' · ')));
  if (each.length === 0)
    return [
      title,
      'Nothing is recorded for that month: a minute is written when it has ended, and hours are kept for 90 days.',
    ];
  return [title, ...table(days, [...each, { ...total, day: 'total' }], page)];
}
