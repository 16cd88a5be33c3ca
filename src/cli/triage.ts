/**
 * `ocpi-hub orphans triage` and `ocpi-hub deliveries triage`: who takes care of a case or a group of dead letters, until
 * when it may wait, and remarks.
 */
import type { TriageView } from '../api/common.ts';
import { Failure } from './client.ts';
import { type Column, when } from './table.ts';
import { ahead, type Option } from './verb.ts';

export interface TriageFlags {
  readonly assign?: string;
  /** False: `--no-assign`. */
  readonly snooze?: string | false;
  readonly remark?: string;
}

export const triageOptions: readonly Option[] = [
  ['--assign <operator>', 'who takes care of it; an empty name: nobody'],
  ['--snooze <until>', 'needs no attention until then: 4h, 2d, 2026-01-31T12:00:00Z', ahead],
  ['--no-snooze', 'needs attention at once'],
  ['--remark <text>', 'shown to all operators'],
];

export const assigneeOption: Option = ['--assignee <operator>', 'those that this operator takes care of'];

/** The body of the request. Throws a `Failure` when no flag was given. */
export function triageOf({ assign, snooze, remark }: TriageFlags): object {
  const body = {
    assignee: assign === '' ? null : assign,
    // Commander sets an option that has a `--no-` form to true when neither was given.
    snooze_until: typeof snooze === 'string' || snooze === false ? snooze || null : undefined,
    remark,
  };
  if (Object.values(body).some((value) => value !== undefined)) return body;
  throw new Failure('expected --assign, --snooze, --no-snooze or --remark', { exitCode: 2 });
}

export function triageLine(triage: TriageView | null, now: number): string {
  if (triage === null) return '';
  const { assignee, snoozed_until, remarks } = triage;
  const isSnoozed = snoozed_until !== null && Date.parse(snoozed_until) > now;
  const last = remarks.at(-1);
  return [assignee, isSnoozed && `snoozed until ${when(snoozed_until, now)}`, last && `“${last.text}”`]
    .filter(Boolean)
    .join(', ');
}

export const assignedColumn: Column<{ readonly triage: TriageView | null }> = {
  title: 'taken care of by',
  of: ({ triage }, now) => triageLine(triage, now),
  shrinksTo: 16,
};
