/**
 * What is asked about a session of the database: whether its server works on it, and whether its server has the log that
 * this node knows.
 *
 * SESSION-CHECKS-1  The server of each new session for writes or beats must have the last event that this node has written
 *     or read, before the session is used. A standby that is promoted without having confirmed every commit lacks the end
 *     of the log, and so does a server that was restored from a backup; new events would get the sequences of lost ones,
 *     which this node counts as delivered.
 * SESSION-CHECKS-2  A loss is reported until the node restarts, and the next one is found from where the log ends then.
 * SESSION-CHECKS-3  While another session locks the events, as VACUUM FULL does, the last one cannot be compared, and no node can write any:
 *     a session for writes waits until the store closes, and one for beats renews the lease meanwhile and is compared again at its next beat.
 */
import type { Client, QueryResult } from 'pg';
import { type Seq, StoreUnavailable } from '../contract.ts';
import { ask, destroy, LOCKED, pidOf, within } from './connect.ts';
import { LOG } from './write-sql.ts';

const WORKING = "select 1 from pg_stat_activity where pid = $1 and state = 'active'";

/** Whether the server executes a statement of `other`; it is asked on `client`. */
export async function isWorking(client: Client, other: Client): Promise<boolean> {
  return (await ask(client, 'working', WORKING, [pidOf(other)])).length > 0;
}

/** Longest wait for the answer, ms: a session that falls silent here would hold up every write. */
const CHECK_MS = 1500;
/** Longest wait of the check for a lock, ms: with some round trips it stays below `CHECK_MS`. */
const LOCK_MS = 500;
const ENDS = `select l.head, l.horizon from ${LOG} l`;

/** Where a log ends and begins. */
interface Ends {
  readonly head: Seq;
  readonly horizon: Seq;
}

interface Placed {
  readonly seq: Seq;
  readonly at: string;
}

/** What this node knows of the log. */
export class KnownLog implements Ends {
  readonly #lost: (error: StoreUnavailable) => void;
  #ends: Ends = { head: 0, horizon: 0 };
  #last: Placed = { seq: 0, at: '' };
  /** One sentence for each loss. */
  readonly losses: string[] = [];

  /** `lost` runs before the check that finds a loss rejects. */
  constructor(lost: (error: StoreUnavailable) => void) {
    this.#lost = lost;
  }

  get head(): Seq {
    return this.#ends.head;
  }

  get horizon(): Seq {
    return this.#ends.horizon;
  }

  seen(head: Seq, horizon: Seq): void {
    this.#ends = { head: Math.max(this.head, head), horizon: Math.max(this.horizon, horizon) };
  }

  /** An event that was read, or written and acknowledged. */
  has(event: Placed | undefined): void {
    if (event !== undefined && event.seq > this.#last.seq) this.#last = { seq: event.seq, at: event.at };
  }

  /** From now on this is known, and nothing else: what was seen before may lack commits that were never acknowledged. */
  begins({ head, horizon }: Ends): void {
    this.#ends = { head, horizon };
    this.#last = { seq: 0, at: '' };
  }

  /**
   * Destroys the session, and rejects, when its server lacks what is known or does not answer. [SESSION-CHECKS-1] False when that is not
   * certain yet, because the events are locked. [SESSION-CHECKS-3]
   */
  async check(client: Client): Promise<boolean> {
    try {
      return await within(client, CHECK_MS, this.#compare(client));
    } catch (error) {
      destroy(client);
      throw error;
    }
  }

  async #compare(client: Client): Promise<boolean> {
    const [last, { head }] = [this.#last, this];
    const at = last.seq === 0 ? null : await instantOf(client, last.seq);
    // Afterwards: an event that was trimmed before is below this horizon.
    const [end] = (await ask<Ends>(client, 'ends', ENDS)) as [Ends];
    const isThere = at === 'locked' || last.seq <= end.horizon || last.at === at;
    if (end.head >= head && isThere) return at !== 'locked';
    const known = Math.max(head, last.seq);
    const now = end.head < known ? `it ends at event ${end.head}` : 'another one is in its place';
    const error = new StoreUnavailable(
      `the database has lost the end of the log: event ${known} was there, and now ${now}`,
    );
    // The check of another session may have found the same loss meanwhile.
    if (this.#last === last && this.head >= head) {
      this.losses.push(error.message);
      this.begins(end);
      this.#lost(error);
    }
    throw error;
  }
}

/** The `at` of an event; null when there is none. The time-out is of this read alone, which waits for no standby. [CONNECT-2] */
async function instantOf(client: Client, seq: Seq): Promise<string | null | 'locked'> {
  try {
    const text = `set local lock_timeout = ${LOCK_MS}; select at from events where seq = ${seq}`;
    const [, { rows }] = (await client.query(text)) as unknown as [unknown, QueryResult<{ at: string }>];
    return rows[0]?.at ?? null;
  } catch (error) {
    if ((error as { code?: unknown }).code === LOCKED) return 'locked';
    throw error;
  }
}
