/**
 * Compares sessions with the CDRs that bill them. Pure.
 *
 * RECONCILIATION-1  A CDR that a credit CDR takes back, and the credit itself, bill nothing and are compared with nothing.
 * RECONCILIATION-2  CDRs behind the period are known, too: what they take back bills nothing, and a further CDR of a session that is
 *     of the period, or billed in it, is a duplicate.
 * RECONCILIATION-3  A completed session lacks a CDR only after its grace: CPOs bill minutes to days after the end.
 */
import type { PartyId } from './party.ts';

export const findingKinds = [
  'no_cdr',
  'no_session',
  'no_session_id',
  'not_completed',
  'energy_differs',
  'token_differs',
  'duplicate',
] as const;

export type FindingKind = (typeof findingKinds)[number];

/** A session or a CDR as far as it is compared; keys and uids in lower case. */
interface Compared {
  readonly cpo: PartyId;
  /** Null when none is known. */
  readonly emsp: PartyId | null;
  readonly id: string;
  readonly key: string;
  /** `last_updated`. */
  readonly at: string;
  /** Null when the object has none that is a number. */
  readonly kwh: number | null;
  readonly uid: string | null;
}

export interface ComparedSession extends Compared {
  readonly status: string;
}

export interface ComparedCdr extends Compared {
  /** Of the session that it bills, as the CDR names it. */
  readonly sessionId: string | null;
  readonly isCredit: boolean;
  /** Key of the CDR that it takes back. */
  readonly credits: string | null;
}

export interface Finding {
  readonly kind: FindingKind;
  readonly session: ComparedSession | null;
  readonly cdr: ComparedCdr | null;
}

export interface Rules {
  /** A session that ended after this has its CDR still to come; `last_updated` as text that sorts. */
  readonly billedBefore: string;
  /** End of the period (exclusive). A later CDR is reported only as a duplicate. */
  readonly end: string;
  /** Difference of energies that is none, kWh. */
  readonly toleranceKwh: number;
}

/** What is known beside the objects of the period: both are asked only for what is not among those. */
export interface Elsewhere {
  readonly sessions: ReadonlyMap<string, ComparedSession>;
  /** Sessions that a CDR of before the period bills. */
  readonly billed: ReadonlySet<string>;
}

export const nameOf = (cpo: PartyId, key: string): string => `${cpo}/${key}`;

/** Name of the session that a CDR bills. */
export const billedBy = ({ cpo, sessionId }: ComparedCdr): string | null =>
  sessionId === null ? null : nameOf(cpo, sessionId.toLowerCase());

export const isCompleted = ({ status }: ComparedSession): boolean => status === 'COMPLETED';

/** CDRs that bill something. [RECONCILIATION-1] */
export function billing(cdrs: readonly ComparedCdr[]): ComparedCdr[] {
  const takenBack = new Set(
    cdrs.flatMap(({ cpo, credits, isCredit }) => (isCredit && credits !== null ? [nameOf(cpo, credits)] : [])),
  );
  return cdrs.filter(({ cpo, key, isCredit }) => !isCredit && !takenBack.has(nameOf(cpo, key)));
}

/** `cdrs`: those that bill something. */
export function reconciled(
  sessions: readonly ComparedSession[],
  cdrs: readonly ComparedCdr[],
  { billedBefore, end, toleranceKwh }: Rules,
  elsewhere: Elsewhere,
): Finding[] {
  const known = new Map([...elsewhere.sessions, ...sessions.map((one) => [nameOf(one.cpo, one.key), one] as const)]);
  const ofPeriod = new Set(sessions.map(({ cpo, key }) => nameOf(cpo, key)));
  const billed = new Set(elsewhere.billed);
  const findings: Finding[] = [];
  for (const cdr of cdrs) {
    const name = billedBy(cdr);
    const session = name === null ? null : (known.get(name) ?? null);
    const found = (kind: FindingKind) => findings.push({ kind, session, cdr });
    if (name !== null && billed.has(name)) found('duplicate');
    if (name !== null && (cdr.at < end || ofPeriod.has(name))) billed.add(name);
    if (cdr.at >= end) continue;
    if (name === null) found('no_session_id');
    if (name !== null && session === null) found('no_session');
    if (session === null) continue;
    if (!isCompleted(session)) found('not_completed');
    if (differ(session.kwh, cdr.kwh, toleranceKwh)) found('energy_differs');
    if (session.uid !== null && cdr.uid !== null && session.uid !== cdr.uid) found('token_differs');
  }
  for (const session of sessions) {
    const isDue = isCompleted(session) && session.at < billedBefore;
    if (isDue && !billed.has(nameOf(session.cpo, session.key))) findings.push({ kind: 'no_cdr', session, cdr: null });
  }
  return findings;
}

const differ = (a: number | null, b: number | null, tolerance: number): boolean =>
  a !== null && b !== null && Math.abs(a - b) > tolerance + Number.EPSILON * Math.max(Math.abs(a), Math.abs(b));
