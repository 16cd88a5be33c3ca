/**
 * Triage: who takes care of an orphan case or of a group of dead letters, until when it may wait, and what operators
 * remarked.
 *
 * TRIAGE-1  A snooze ends by itself, and a remark is never changed: both stay in the log with who made them.
 */
import { HubError } from './errors.ts';
import type { PartyId } from './party.ts';

export interface Remark {
  /** RFC 3339. */
  readonly at: string;
  /** Name of an operator. */
  readonly by: string;
  readonly text: string;
}

export interface Triage {
  readonly assignee: string | null;
  /** RFC 3339; null when it is not snoozed. */
  readonly snoozedUntil: string | null;
  /** Oldest first, the last `remarksMax`. */
  readonly remarks: readonly Remark[];
}

/** What an operator changes; what is absent stays. */
export interface TriageChange {
  readonly assignee?: string | null;
  readonly snoozedUntil?: string | null;
  readonly remark?: string;
}

/** Dead letters with the same receiver, module and outcome class. */
export interface DeadGroupName {
  readonly receiver: PartyId;
  readonly module: string;
  readonly class: string;
}

/** `triage.ended`: the group has no dead letter any more. */
export type TriageEvent =
  | { type: 'triage.changed'; data: DeadGroupName & { readonly triage: Triage } }
  | { type: 'triage.ended'; data: DeadGroupName };

/** Older remarks are in the log alone. */
const remarksMax = 20;

export const nameOfGroup = ({ receiver, module, class: ended }: DeadGroupName): string =>
  `${receiver}:${module}:${ended}`;

/** Throws `invalid` for a snooze that is over already. */
export function triaged(
  before: Triage | null | undefined,
  { assignee = before?.assignee ?? null, snoozedUntil = before?.snoozedUntil ?? null, remark }: TriageChange,
  { at, by }: Pick<Remark, 'at' | 'by'>,
): Triage {
  const isNew = snoozedUntil !== null && snoozedUntil !== before?.snoozedUntil;
  if (isNew && Date.parse(snoozedUntil) <= Date.parse(at))
    throw new HubError('invalid', { message: 'snooze_until: expected an instant to come' });
  const known = before?.remarks ?? [];
  const remarks = remark === undefined ? known : [...known, { at, by, text: remark }].slice(-remarksMax);
  return { assignee, snoozedUntil, remarks };
}

export const isSnoozed = (triage: Pick<Triage, 'snoozedUntil'> | null | undefined, now: string): boolean =>
  triage != null && triage.snoozedUntil !== null && Date.parse(triage.snoozedUntil) > Date.parse(now);
