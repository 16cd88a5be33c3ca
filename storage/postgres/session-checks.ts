/**
 * What is asked about a session of the database: whether its server works on it, and whether its server has the log that
 * this node knows.
 *
 * SESSION-CHECKS-1  The server of each new session for writes or beats must have the last event that this node has written
 *     or read, before the session is used. A standby that is promoted without having confirmed every commit lacks the end
 *     of the log, and so does a server that was restored from a backup; new events would get the sequences of lost ones,
 *     which this node counts as delivered.
 * SESSION-CHECKS-2  A loss is reported until the node restarts, and the next one is found from where the log ends then.
 */
import type { Client } from 'pg';
import { type Seq, StoreUnavailable } from '../contract.ts';
import { ask, destroy, pidOf, within } from './connect.ts';
import { LOG } from './write-sql.ts';

const WORKING = "select 1 from pg_stat_activity where pid = $1 and state = 'active'";

/** Whether the server executes a statement of `other`; it is asked on `client`. */
export async function isWorking(client: Client, other: Client): Promise<boolean> {
  return (await ask(client, 'working', WORKING, [pidOf(other)])).length > 0;
}

/** Longest wait for the answer, ms: a session that falls silent here would hold up every write. */
const CHECK_MS = 1500;
const END = `select l.head, l.horizon, (select at from events where seq = $1) as at from ${LOG} l`;

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

  /** Destroys the session, and rejects, when its server lacks what is known or does not answer. [SESSION-CHECKS-1] */
  async check(client: Client): Promise<void> {
    try {
      await within(client, CHECK_MS, this.#compare(client));
    } catch (error) {
      destroy(client);
      throw error;
    }
  }

  async #compare(client: Client): Promise<void> {
    const [last, { head }] = [this.#last, this];
    const rows = await ask<Ends & { at: string | null }>(client, 'end', END, [last.seq]);
    const [end] = rows as [Ends & { at: string | null }];
    if (end.head >= head && (last.seq <= end.horizon || last.at === end.at)) return;
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
