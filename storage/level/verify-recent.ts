/**
 * Verification at the start of a store that has a seal: reads at once what memory is made of, and leaves the rest to
 * `verify-rest.ts`.
 *
 * VERIFY-RECENT-1  Read at once: rows, open deliveries, floors, timers, the store's own records, and the end of the
 *     log: the last 65,536 events and everything behind the seal. All that `verify.ts` learns from records it learns
 *     from these.
 * VERIFY-RECENT-2  Anything wrong among them, or a seal that does not fit, means null: the store is verified whole.
 */
import { type Seq, StoreUnavailable } from '../contract.ts';
import * as keys from '../keys.ts';
import { chunks, type Database } from './leveldb.ts';
import { judge, type Marks } from './marks.ts';
import { readSeal, Sealing } from './seal.ts';
import { readHorizon } from './trim-point.ts';
import { ahead, conclude, type Found, lastKnown, learn, type Opening, Pass } from './verify.ts';
import { lowerFloors } from './watermark-repair.ts';

const PROGRESS_EVENTS = 1000;

export interface RecentOptions {
  /** Events at the end of the log that are read at once. A store without more is verified whole, which costs the same. */
  readonly recent: number;
  readonly progress: (opening: Opening) => void;
}

export async function verifyRecent(db: Database, marks: Marks, options: RecentOptions): Promise<Found | null> {
  try {
    return await readRecent(db, marks, options);
  } catch (error) {
    if (error instanceof StoreUnavailable || db.status !== 'open') throw error;
    return null;
  }
}

async function readRecent(db: Database, marks: Marks, { recent, progress }: RecentOptions): Promise<Found | null> {
  const horizon = await readHorizon(db);
  const last = await lastKnown(db);
  if (last - horizon.seq + horizon.kept <= recent) return null;
  const seal = await readSeal(db, horizon);
  if (seal === null) return null;
  const pass = new Pass(db, seal);
  const { found } = pass;
  pass.recentAfter = Math.max(0, Math.min(seal.seq, last - recent));
  found.horizon = horizon;
  found.head = Math.max(horizon.seq, pass.recentAfter);
  let verified = 0;
  const events = last - pass.recentAfter;
  let isReadable = true;
  const unreadable = (): void => {
    isReadable = false;
  };
  const recentEvents = keys.between(keys.eventKey, pass.recentAfter + 1, Number.MAX_SAFE_INTEGER);
  for (const range of [recentEvents, ...['f/', 'm/', 'o/', 'p/', 't/'].map(keys.under)]) {
    for await (const chunk of ahead(chunks(db, range, undefined, unreadable))) {
      for (const [key, value] of chunk) {
        learn(pass, key, value);
        if (range === recentEvents && ++verified % PROGRESS_EVENTS === 0)
          progress({ step: 'verifying the end of the store', verified, events });
      }
    }
  }
  if (await isAheadOf(db, found.head)) return null;
  conclude(pass, marks);
  const isSound = isReadable && found.isSound && found.faults.length + found.damagedRows.size + pass.drop.length === 0;
  const isCounted = seal.digest.events === found.head - horizon.seq + horizon.kept;
  if (!isSound || !isCounted || found.head < seal.seq) return null;
  const { wrong, isClean } = judge(marks, found);
  if (wrong.size > 0 || !(isClean || (await lowerFloors(db, found, seal.floors)))) return null;
  found.sealing = new Sealing(seal.digest, found.floors);
  return found;
}

/** Whether a delivery is remembered of an event behind the end of the log. Seeks, receiver by receiver. */
async function isAheadOf(db: Database, head: Seq): Promise<boolean> {
  const { gte, lt } = keys.under('d/');
  for (let from = gte; ; ) {
    const [first] = await db.keys({ gte: from, lt, limit: 1 }).all();
    if (first === undefined) return false;
    const dest = keys.destOf(first);
    const behind = keys.between((seq) => keys.deliveredKey(dest, seq), head + 1, Number.MAX_SAFE_INTEGER);
    if ((await db.keys({ ...behind, limit: 1 }).all()).length > 0) return true;
    // A key of another form, which only damage can have made.
    if (behind.lt <= from) return true;
    from = behind.lt;
  }
}
