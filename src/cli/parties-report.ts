/**
 * `ocpi-hub parties report`: prints what a partner does wrong, what the hub makes up for, and which deliveries from it
 * and to it are dead. `parties history` and `report --month`: how many pushes, deliveries and errors there were between
 * the hub and a partner, with latency and availability.
 */
import type { Command } from 'commander';
import type { MonthlyReport, PartnerHistory, PartnerPoint } from '../api/history.ts';
import type { ReportView } from '../api/report.ts';
import { Failure } from './client.ts';
import { complete, kinds, partyPath } from './complete.ts';
import { type FileFlags, fileOptions, isFiled } from './list-verb.ts';
import { age, type Column, type Page, plain, table } from './table.ts';
import { type Context, instant, verb } from './verb.ts';

type Refused = ReportView['refused'][number];
type Dead = ReportView['dead_letters'][number];
type Quirk = ReportView['quirks'][number];

/** A warning or a quirk. */
type Seen = Omit<ReportView['warnings'][number], 'field'> & { readonly name: string };

const refused: readonly Column<Refused>[] = [
  { title: 'times', of: ({ count }) => count, align: 'right' },
  { title: 'last', of: ({ last_at }, now) => age(last_at, now) },
  { title: 'push', of: ({ method, path }) => plain(`${method} ${path}`), shrinksTo: 24 },
  { title: 'reason', of: ({ reason }) => plain(reason), colour: () => 'red' },
];

const exampleColumn: Column<Seen> = {
  title: 'example',
  of: ({ object, example }) => plain([object, example].filter(Boolean).join(' ')),
  shrinksTo: 24,
};

const seen = (name: string): readonly Column<Seen>[] => [
  { title: 'times', of: ({ count }) => count, align: 'right' },
  { title: 'last', of: ({ last_at }, now) => age(last_at, now) },
  { title: 'module', of: ({ module }) => module },
  { title: name, of: (one) => plain(one.name) },
  exampleColumn,
];

const quirkColumns: readonly Column<Quirk & Seen>[] = [
  ...seen('quirk').slice(0, -1),
  { title: 'from', of: ({ source }) => source },
  exampleColumn,
];

const dead: readonly Column<Dead>[] = [
  { title: 'count', of: ({ count }) => count, align: 'right' },
  { title: 'sender', of: ({ sender }) => sender },
  { title: 'receiver', of: ({ receiver }) => receiver },
  { title: 'module', of: ({ module }) => module },
  { title: 'reason', of: ({ reason }) => plain(reason), shrinksTo: 24 },
  { title: 'one of them', of: ({ sample }) => sample },
];

export function reportVerb(): Command {
  return verb<FileFlags & { readonly month?: string }>({
    usage: 'report <id>',
    summary:
      'show what a partner does wrong: refused pushes, warnings, quirks, dead letters; or what passed in a month',
    options: [
      ['--month <month>', 'instead: pushes, deliveries, latency, errors and availability of each day, e.g. 2026-10'],
      ['--csv', 'with --month: the days as CSV'],
      ['--ndjson', 'with --month: each day as a line of JSON'],
    ],
    examples: ['parties report NL-CPO', 'parties report NL-CPO --json', 'parties report NL-CPO --month 2026-10 --csv'],
    run: async (context, [given = ''], { month, ...files }) => {
      const { hub, screen } = context;
      const id = await complete(hub, kinds.party, given);
      if (month !== undefined) return monthlyReport(context, id, month, files);
      if (files.csv || files.ndjson) throw new Failure('--csv and --ndjson need --month', { exitCode: 2 });
      screen.answer(await hub.get<ReportView>(`/parties/${encodeURIComponent(id)}/report`), report);
    },
  });
}

function report(view: ReportView, page: Page): string[] {
  const warnings = view.warnings.map(({ field: name, ...one }) => ({ ...one, name }));
  const quirks = view.quirks.map((one) => ({ ...one, name: one.quirk }));
  const parts: readonly (readonly [title: string, rows: string[]])[] = [
    ['Refused pushes', table(refused, view.refused, page)],
    ['Warnings', table(seen('field'), warnings, page)],
    ['Quirks that the hub makes up for', table(quirkColumns, quirks, page)],
    ['Dead letters', table(dead, view.dead_letters, page)],
  ];
  const met = parts.filter(([, rows]) => rows.length > 1);
  if (met.length === 0) return ['Nothing to report: no push refused, no warning, no quirk, no dead letter.'];
  return met.flatMap(([title, rows], index) => [...(index > 0 ? [''] : []), page.paint('bold', title), ...rows]);
}

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
async function monthlyReport(context: Context, id: string, month: string, flags: FileFlags): Promise<void> {
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
