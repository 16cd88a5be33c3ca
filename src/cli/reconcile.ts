/** `ocpi-hub reconcile`: compares the sessions of a period with the CDRs that bill them. */
import type { Command } from 'commander';
import { stringify } from 'csv-stringify/sync';
import type { FindingView, Reconciliation } from '../api/reconciliation.ts';
import { type Column, table } from './table.ts';
import { instant, pairOptions, verb } from './verb.ts';

interface Flags {
  readonly from?: string;
  readonly to?: string;
  readonly emsp?: string;
  readonly cpo?: string;
  readonly grace?: string;
  readonly tolerance?: string;
  readonly csv?: boolean;
}

type Pair = Reconciliation['pairs'][number];

const pairColumns: readonly Column<Pair>[] = [
  { title: 'day', of: ({ day }) => day },
  { title: 'CPO', of: ({ cpo }) => cpo },
  { title: 'eMSP', of: ({ emsp }) => emsp },
  { title: 'sessions', of: ({ sessions }) => sessions, align: 'right' },
  { title: 'kWh', of: ({ session_kwh }) => session_kwh, align: 'right' },
  { title: 'CDRs', of: ({ cdrs }) => cdrs, align: 'right' },
  { title: 'kWh', of: ({ cdr_kwh }) => cdr_kwh, align: 'right' },
  {
    title: 'findings',
    of: ({ findings }) => findings,
    align: 'right',
    colour: ({ findings }) => (findings > 0 ? 'red' : null),
  },
];

const findingColumns: readonly Column<FindingView>[] = [
  { title: 'finding', of: ({ kind }) => kind },
  { title: 'day', of: ({ day }) => day },
  { title: 'eMSP', of: ({ emsp }) => emsp },
  { title: 'session', of: ({ session }) => session, shrinksTo: 16 },
  { title: 'kWh', of: ({ session_kwh }) => session_kwh, align: 'right' },
  { title: 'CDR', of: ({ cdr }) => cdr, shrinksTo: 16 },
  { title: 'kWh', of: ({ cdr_kwh }) => cdr_kwh, align: 'right' },
];

const fields = ['kind', 'day', 'cpo', 'emsp', 'session', 'cdr', 'session_kwh', 'cdr_kwh'];

export function command(): Command {
  return verb<Flags>({
    usage: 'reconcile',
    summary: 'compare the sessions of a period with the CDRs that bill them',
    options: [
      ['--from <instant>', 'last updated from then on (default: 7d)', instant],
      ['--to <instant>', 'last updated before then (default: now)', instant],
      ...pairOptions,
      ['--grace <hours>', 'that a CPO has to bill a completed session (default: 24)'],
      ['--tolerance <kwh>', 'difference of energies that is none (default: 0.01)'],
      ['--csv', 'the findings as CSV'],
    ],
    examples: ['reconcile', 'reconcile --from 30d --cpo NL-TNM', 'reconcile --from 2026-10-01 --to 2026-11-01 --csv'],
    async run({ hub, screen }, _args, { from = instant('7d'), to, emsp, cpo, grace, tolerance, csv }) {
      const query = { from, to, emsp, cpo, grace_h: grace, tolerance_kwh: tolerance };
      const found = await hub.get<Reconciliation>('/reconciliation', query);
      if (csv && found.omitted > 0)
        screen.say(`${found.omitted} more findings are not listed: take less time, or one pair`);
      screen.answer(found, ({ pairs, findings, omitted }, page) => {
        // A cell that begins with an operator would be a formula to a spreadsheet.
        if (csv) return [stringify([...findings], { header: true, columns: fields, escape_formulas: true }).trimEnd()];
        if (pairs.length === 0) return ['No completed session and no CDR in that time.'];
        const none =
          'Nothing disagrees. A session that ended within the grace (24 h unless --grace says) may still lack its CDR.';
        return [
          ...table(pairColumns, pairs, page),
          '',
          ...(findings.length === 0 ? [none] : table(findingColumns, findings, page)),
          ...(omitted > 0 ? [`… and ${omitted} more: take less time, or one pair`] : []),
        ];
      });
    },
  });
}
