/** What the judge knows of one delivery that is owed, and of the lane that it stands in. */
import type { Outcome } from '../../src/domain/errors.ts';
import type { DeliveryRow } from '../../storage/contract.ts';
import type { Fact } from './facts.ts';

export interface Owed {
  readonly fact: Fact;
  readonly receiver: string;
  readonly lane: Lane;
  /** The hub heard of its success and has not been told to send it again. */
  isDelivered: boolean;
  /** The hub heard of a success at least once. */
  wasDelivered: boolean;
  /** Its receiver has taken it at least once. */
  isTaken: boolean;
  /** Its receiver has taken it, and no crash since made the hub send it again. */
  isSeen: boolean;
  /** Its receiver said of what was to be deleted that it is not there, which need not be true. */
  isAbsent: boolean;
  /** An operator gave it up, and nobody has put it back since. */
  isDiscarded: boolean;
  /** Its row says that the whole object goes in its place. */
  isAsWhole: boolean;
  row: DeliveryRow['state'] | null;
  /** It was a dead letter when it was put back, and no row says otherwise yet: one of before may be on its way to the disk. */
  mayBeDead: boolean;
  redriven: number;
  isForced: boolean;
  last: Outcome | null;
  since: number;
  /** The log was trimmed up to it. */
  isGone: boolean;
  /** Of a CDR: the updates of its session that go first, and the life in which it was accepted. */
  readonly ahead: readonly Owed[];
  life: number;
  /** When its next attempt is due, in the world's own time; null when it is not known, or at once. */
  due: number | null;
  /** Its next attempt comes so long, ms, after the time of day of the last one that was noted. */
  wait: { readonly from: string; readonly ms: number };
  /** All due times of its rows, each as it is written, in the world's own time. */
  readonly dues: Map<string, number>;
  /** Attempts that its row had when this life of the hub began, and the ends of those since. */
  attemptsBefore: number;
  endedAt: number[];
  /** Its receiver asked to be left alone until then. */
  notBefore: number;
  /** Of one that was put back: what waited in its lane then, as long as that life of the hub lasts. */
  behind: readonly Owed[];
}

export interface Lane {
  readonly owed: Owed[];
  /** Highest sequence that the receiver has seen and that does not come again, put back ones aside. */
  seenTo: number;
  inFlight: number;
  /** The earliest change that was sent, whatever came of it. */
  firstSent: number;
  /** When a call of it or a delivery in it last ended. */
  freeAt: number;
  /** It had more than memory holds of a lane, and has not been empty since. */
  isLong: boolean;
}

/** A call of a delivery on its way. */
export interface Flight {
  readonly owed: Owed;
  readonly company: string;
}

/** What the rules ask about the hub at the moment of a call. */
export interface AsyncState {
  readonly circuit: 'closed' | 'open' | 'halfOpen';
  readonly paused: boolean;
}

export interface DeliveryLimits {
  readonly concurrency: number;
  readonly windowMs: number;
  readonly windowCdrMs: number;
  /** How long events are kept at least. */
  readonly keepMs: number;
}

export const final: ReadonlySet<string> = new Set(['auth_error', 'not_found', 'client_error', 'invalid_response']);
export const unsent: ReadonlySet<string> = new Set(['suspended', 'no receiver endpoint']);

export const isFinal = (outcome: Outcome | null): boolean => final.has(outcome?.class ?? '');

/** It ended without success, and only an operator sends it again. */
export const isGivenUp = ({ row }: Pick<Owed, 'row'>): boolean => row === 'DEAD' || row === 'DISCARDED';

export const isOpen = (owed: Owed): boolean => !owed.isDelivered && !isGivenUp(owed);

export const moduleOf = ({ fact }: Owed): string => String(fact.data.module);

export function overlaps(a: Fact, b: Fact): boolean {
  const [one, other] = [a.data.within as string[], b.data.within as string[]];
  return one.every((id, index) => other[index] === undefined || other[index] === id);
}
