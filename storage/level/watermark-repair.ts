/**
 * Repair of floors (low watermarks) whose delivery rows were lost, so that no delivery counts as delivered because of a
 * power cut.
 *
 * A lost commit leaves a hole in the sequence, but a lost batch of settles leaves none: the engine may drop a batch
 * from the middle of its log, or a power cut may take the end of a closed log and leave the next one. A later batch
 * then has a floor above deliveries whose rows are gone, and they would count as delivered. Every delivery that was
 * tried has a row until the horizon passes it, so the log reveals a loss: a delivery that is owed at or below the floor
 * and has no row. The floor goes back below it, and it is sent again. [CONTRACT-6]
 *
 * This runs only after an unclean end or a loss that was seen. A damaged remembered success is dropped on purpose, and
 * after a clean end its floor stands for it [VERIFY-4]; after an unclean end that delivery is sent again, which is
 * better than forgetting a lost one.
 */
import type { Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { encode, headOf, inspect } from '../records.ts';
import type { EventHead } from './event-log.ts';
import { chunks, type Database, SYNCED } from './leveldb.ts';
import { type Floors, readSeal } from './seal.ts';
import type { Found } from './verify.ts';

/**
 * Requires a database without faults. `sealed`: floors up to which nothing can be lost [SEAL-4]. Resolves with false,
 * and has changed nothing, when an event between those and the present floors is damaged or missing.
 */
export async function lowerFloors(db: Database, found: Found, sealed?: Floors): Promise<boolean> {
  const lowered = await doubtfulFloors(db, found, sealed);
  if (lowered === null) return false;
  if (lowered.size === 0) return true;
  // The sealed floors hold only as long as no floor goes back.
  const batch = db.batch().del(keys.SEAL_FLOORS_KEY);
  for (const [dest, seq] of lowered) {
    const key = keys.floorKey(dest);
    batch.put(key, encode(key, JSON.stringify([seq])));
    found.floors.set(dest, seq);
  }
  await batch.write(SYNCED);
  found.sealing.synced(found.floors);
  return true;
}

/**
 * The sealed floors of a database that was verified whole, so that the events up to them need not be read once more;
 * undefined when anything in it was damaged or missing. Only where the engine dropped nothing of its log. [SEAL-2]
 */
export async function sealedFloors(
  db: Database,
  { horizon, isSound, damagedRows }: Found,
): Promise<Floors | undefined> {
  return isSound && damagedRows.size === 0 ? (await readSeal(db, horizon))?.floors : undefined;
}

/**
 * Receiver → highest sequence at which its floor can be trusted, for each receiver whose floor is too high; null when
 * an event that must be read for it is damaged or missing.
 */
export async function doubtfulFloors(
  db: Database,
  { head, horizon, open, floors }: Found,
  sealed: Floors = new Map(),
): Promise<ReadonlyMap<string, Seq> | null> {
  const lowered = new Map<string, Seq>();
  const sealedOf = (dest: string): Seq => sealed.get(dest) ?? 0;
  const doubted = [...floors].filter(([dest, seq]) => seq > Math.max(horizon.seq, sealedOf(dest)));
  if (doubted.length === 0) return lowered;
  const highest = Math.min(head, Math.max(...doubted.map(([, seq]) => seq)));
  let expected = Math.max(horizon.seq, Math.min(...doubted.map(([dest]) => sealedOf(dest)))) + 1;
  const range = keys.between(keys.eventKey, expected, highest);
  for await (const chunk of chunks(db, range)) {
    // Receiver → sequences in this chunk at or below its floor that are not open.
    const passed = new Map<string, Seq[]>();
    for (const [key, value] of chunk) {
      const seq = keys.seqOf(key);
      if (seq !== expected || inspect(key, value) !== 'sound') return null;
      expected += 1;
      const [, , , , , to] = headOf(value) as EventHead;
      for (const dest of to) {
        if (seq > (floors.get(dest) ?? 0) || seq <= sealedOf(dest) || lowered.has(dest) || open.has(dest, seq))
          continue;
        const seqs = passed.get(dest);
        if (seqs === undefined) passed.set(dest, [seq]);
        else seqs.push(seq);
      }
    }
    for (const [dest, seqs] of passed) {
      const delivered = await deliveredWithin(db, dest, seqs);
      const lost = seqs.find((seq) => !delivered.has(seq));
      if (lost !== undefined) lowered.set(dest, lost - 1);
    }
  }
  return expected > highest ? lowered : null;
}

/** Sequences of remembered successes between the first and the last of `seqs`. */
async function deliveredWithin(db: Database, dest: string, seqs: readonly Seq[]): Promise<Set<Seq>> {
  const range = keys.between((seq) => keys.deliveredKey(dest, seq), seqs[0] ?? 0, seqs.at(-1) ?? 0);
  return new Set((await db.keys(range).all()).map(keys.seqOf));
}
