/**
 * `ocpi-hub parties report`: prints what a partner does wrong, what the hub makes up for, and which deliveries from it
 * and to it are dead.
 */
import type { Command } from 'commander';
import type { ReportView } from '../api/report.ts';
import { Failure } from './client.ts';
import { complete, kinds } from './complete.ts';
import type { FileFlags } from './list-verb.ts';
import { monthlyReport } from './parties-history.ts';
import { age, type Column, type Page, plain, table } from './table.ts';
import { verb } from './verb.ts';

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
