/**
 * What the oracle knows: every write that was sent and what the sender was told, every call that a receiver got, and every kill.
 * It is filled from outside the hub alone, so it holds no opinion of the hub's.
 *
 * TEST-LEDGER-1  Every body is sent once only: it carries a number of its own, so a stored or delivered text names the write it came from.
 * TEST-LEDGER-2  A receiver `took` a call when it dealt with it. A call that it turned away or cut off it did not take, and must get again.
 * TEST-LEDGER-3  A life is the time of one hub process; a call belongs to the life in which it arrived.
 */

/** `unknown`: the connection ended before the answer. */
export type Ending = 'open' | 'acknowledged' | 'refused' | 'unknown';

export interface Write {
  readonly number: number;
  readonly method: 'PUT' | 'PATCH' | 'POST';
  readonly module: string;
  /** `{module}/{owner}/{key}`, the object. */
  readonly object: string;
  /** Below `/ocpi/2.2.1`, as receivers get it. */
  readonly path: string;
  readonly body: string;
  /** Parties that are owed it, by the rules of the interface. */
  readonly to: readonly string[];
  /** Its owner, and where it may be read. */
  readonly sender: string;
  readonly readAt: string;
  ending: Ending;
  /** What the sender was told. */
  answer: string;
}

export interface Arrival {
  readonly receiver: string;
  readonly method: string;
  /** Below `/ocpi/2.2.1`. */
  readonly path: string;
  readonly body: string;
  readonly life: number;
  readonly isTaken: boolean;
}

/** A command of an eMSP and what became of it. */
export interface Sent {
  /** Also its `authorization_reference`, and the end of its `response_url`. */
  readonly number: number;
  ending: Ending;
  answer: string;
  /** Times that the CPO got it. */
  forwarded: number;
  /** Results that the CPO sent, by their text. */
  readonly results: { readonly body: string; ending: Ending; answer: string; relayed: number }[];
}

export interface Ledger {
  readonly writes: Write[];
  readonly byBody: Map<string, Write>;
  readonly arrivals: Arrival[];
  readonly commands: Map<number, Sent>;
  /** Calls that nobody can have been owed. */
  readonly strange: string[];
  /** Number of the present hub process, from 1. */
  life: number;
  number: number;
}

export function emptyLedger(): Ledger {
  return {
    ...{ writes: [], byBody: new Map(), arrivals: [], commands: new Map(), strange: [] },
    ...{ life: 0, number: 0 },
  };
}

/** Notes a write before it is sent. */
export function enter(ledger: Ledger, write: Omit<Write, 'ending' | 'answer'>): Write {
  const entered: Write = { ...write, ending: 'open', answer: '' };
  ledger.writes.push(entered);
  ledger.byBody.set(entered.body, entered);
  return entered;
}

/** Receiver and write: the name of a delivery, seen from outside. */
export const deliveryOf = (receiver: string, { number }: Write): string => `${receiver}/${number}`;
