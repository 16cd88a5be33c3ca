/**
 * Verification in the background of what a start did not read (`verify-recent.ts`), while the store serves.
 *
 * VERIFY-REST-1  It reads every record that was not read at the start, in pieces with pauses, and checks all that
 *     `verify.ts` checks: checksums, a log without a hole, the kept events against the horizon, the index entries
 *     against the seal, blocks that cannot be read, keys that no store has.
 * VERIFY-REST-2  Until it has ended, nothing that it covers changes: trims and rewrites wait. Commits add behind it,
 *     and settles write records that were checked at the start or are checked one by one.
 * VERIFY-REST-3  A read that relies on an index does not wait for it: the parts concerned are checked before that read.
 *     [EVENT-LOG-4]
 * VERIFY-REST-4  It repairs nothing. Whatever it finds, the store is reopened and verified whole, as after a failed
 *     write.
 */

import { sleep } from '../../src/kit/clock.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import { Damaged, type Seq, StoreUnavailable } from '../contract.ts';
import * as keys from '../keys.ts';
import { inspect } from '../records.ts';
import { restful } from './backup.ts';
import type { Verified } from './event-log.ts';
import { chunks, type Database } from './leveldb.ts';
import { type IndexDigest, Tally } from './seal.ts';
import { type Horizon, plus } from './trim-point.ts';
import type { Found } from './verify.ts';

/** From an open to this verification, ms: time for a hub to restore. */
const AFTER_MS = 5000;
/** Pauses are so many times as long as the pieces: it has a quarter of the time at most. */
const PAUSES = 3;
/** Records of a piece. */
const PIECE = 500;
/** Sequences of a range that is read to its end, where the engine reports blocks that it could not read. [LEVELDB-1] */
const RANGE_EVENTS = 4096;
/** Key spaces in the order of the database. Between them there must be nothing. */
const SPACES = ['c/', 'd/', 'e/', 'f/', 'm/', 'o/', 'p/', 's/', 't/'] as const;

interface Pace {
  /** Awaited after each piece. */
  readonly rest: () => Promise<unknown>;
  readonly signal: AbortSignal;
}

/** Of a store that was verified whole. */
export const WHOLE: Verified & { readonly isWhole: true } = { isWhole: true, checkIndex: async () => {} };

export class Rest implements Verified {
  readonly #db: Database;
  readonly #head: Seq;
  readonly #horizon: Horizon;
  /** As of the start. */
  readonly #digest: IndexDigest;
  /** Checks of the index parts that were made or go on. */
  readonly #parts: Promise<void>[] = [];
  isWhole = false;
  /** Events verified so far. */
  verified = 0;
  readonly events: number;

  constructor(db: Database, { head, horizon, sealing }: Found) {
    this.#db = db;
    this.#head = head;
    this.#horizon = horizon;
    this.#digest = sealing.digest.copy();
    this.events = head - horizon.seq + horizon.kept;
  }

  async checkIndex(range: keys.Range): Promise<void> {
    if (this.isWhole) return;
    for (const part of this.#digest.partsIn(range)) await this.#checkPart(part);
  }

  /** Like `run`, after a while or at once. */
  async runLater(atOnce: boolean, signal: AbortSignal): Promise<void> {
    await sleep(systemClock, atOnce ? 0 : AFTER_MS, signal);
    await this.run({ rest: restful(PAUSES), signal });
  }

  /** Verifies everything else. Rejects with what is wrong, and when the database closes or the signal is aborted. */
  async run(pace: Pace): Promise<void> {
    for (const range of gaps()) for await (const [key] of this.#records(range, pace)) throw new Damaged(key);
    for (const part of this.#digest.starts.keys()) {
      await this.#checkPart(part, pace);
      await pace.rest();
    }
    await this.#checkLog(pace);
    await this.#checkDelivered(pace);
    this.isWhole = true;
  }

  #checkPart(part: number, pace?: Pace): Promise<void> {
    let check = this.#parts[part];
    if (check === undefined) {
      check = this.#readPart(part, pace);
      check.catch(() => {});
      this.#parts[part] = check;
    }
    return check;
  }

  async #readPart(part: number, pace?: Pace): Promise<void> {
    const tally = new Tally();
    for await (const [key] of this.#records(this.#digest.rangeOf(part), pace)) {
      if (keys.seqOf(key) <= this.#head) tally.add(key);
    }
    if (tally.count !== this.#digest.counts[part] || tally.sum !== this.#digest.sums[part])
      throw new Damaged(this.#digest.starts[part] ?? '');
  }

  async #checkLog(pace: Pace): Promise<void> {
    const { seq: horizon, kept, sum } = this.#horizon;
    let [keptCount, keptSum, expected] = [0, 0, horizon + 1];
    for (let from = 0; from <= this.#head; from += RANGE_EVENTS) {
      const upTo = Math.min(this.#head, from + RANGE_EVENTS - 1);
      for await (const [key] of this.#records(keys.between(keys.eventKey, from, upTo), pace)) {
        const seq = keys.seqOf(key);
        this.verified += 1;
        if (seq <= horizon) {
          keptCount += 1;
          keptSum = plus(keptSum, seq);
        } else if (seq === expected) expected += 1;
        else throw new Damaged(keys.eventKey(expected));
      }
    }
    if (expected !== this.#head + 1) throw new Damaged(keys.eventKey(expected));
    if (keptCount !== kept || keptSum !== sum) throw new Damaged(keys.HORIZON_KEY);
  }

  /** Seeks, receiver by receiver. */
  async #checkDelivered(pace: Pace): Promise<void> {
    const { gte, lt } = keys.under('d/');
    for (let from = gte; from < lt; ) {
      const [next] = await this.#db.keys({ gte: from, lt, limit: 1 }).all();
      const to = next === undefined ? lt : keys.deliveredKey(keys.destOf(next), keys.seqOf(next) + RANGE_EVENTS);
      if (to <= from) throw new Damaged(next ?? from);
      for await (const _ of this.#records({ gte: from, lt: to }, pace));
      from = to;
    }
  }

  /** Every record of a range, which must be sound. */
  async *#records(range: keys.Range, pace?: Pace): AsyncGenerator<[string, string]> {
    for await (const chunk of chunks(this.#db, range, PIECE)) {
      for (const [key, value] of chunk) {
        if (inspect(key, value) !== 'sound') throw new Damaged(key);
        yield [key, value];
      }
      if (pace?.signal.aborted) throw new StoreUnavailable('the store was closed');
      await pace?.rest();
    }
  }
}

/** What lies between the key spaces. */
function gaps(): keys.Range[] {
  const found: keys.Range[] = [];
  let gte = keys.EVERYTHING.gte;
  for (const space of SPACES) {
    const own = space === 'e/' ? keys.between(keys.eventKey, 0, Number.MAX_SAFE_INTEGER) : keys.under(space);
    found.push({ gte, lt: own.gte });
    gte = own.lt;
  }
  found.push({ gte, lt: keys.EVERYTHING.lt });
  return found;
}
