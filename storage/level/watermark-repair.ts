/**
 * Floors that rely on rows which the log has lost.
 *
 * A commit that is lost leaves a hole in the sequence. A batch of settles leaves none: where the engine dropped one from the middle of
 * its log, or a power cut took the end of a closed log and left the next one, a later batch has a floor that passes deliveries whose
 * rows are gone, and they would count as delivered. Every delivery that was tried has a row until the horizon passes it, so what was
 * lost can be told from the log: it is owed, at or below the floor, and has no row. Floors go back below it, and it is sent again. [CONTRACT-6]
 *
 * Only after an unclean end or a loss that was seen: a remembered success that was damaged is left out for good reason, and after a
 * clean end its floor stands for it. [VERIFY-4] After an unclean one it is sent again: that is better than forgetting what was lost.
 */
import type { Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { encode, headOf } from '../records.ts';
import type { EventHead } from './event-log.ts';
import { chunks, type Database, SYNCED } from './leveldb.ts';
import { readFloors } from './outbox.ts';
import type { Found } from './verify.ts';

/** Of a database without faults. */
export async function lowerFloors(db: Database, found: Found): Promise<void> {
  const lowered = await doubtfulFloors(db, found);
  if (lowered.size === 0) return;
  const batch = db.batch();
  for (const [dest, seq] of lowered) {
    const key = keys.floorKey(dest);
    batch.put(key, encode(key, JSON.stringify([seq])));
  }
  await batch.write(SYNCED);
}

/** Receiver → how far its floor can be believed, of each whose floor stands too high. */
export async function doubtfulFloors(db: Database, { horizon, open }: Found): Promise<ReadonlyMap<string, Seq>> {
  const floors = new Map((await readFloors(db)).map(({ dest, seq }) => [dest, seq]));
  const highest = Math.max(0, ...floors.values());
  const lowered = new Map<string, Seq>();
  if (highest <= horizon.seq) return lowered;
  const range = keys.between(keys.eventKey, horizon.seq + 1, highest);
  for await (const chunk of chunks(db, range)) {
    // Receiver → sequences of this chunk that its floor passes and that are not open.
    const passed = new Map<string, Seq[]>();
    for (const [key, value] of chunk) {
      const seq = keys.seqOf(key);
      const [, , , , , to] = headOf(value) as EventHead;
      for (const dest of to) {
        if (seq > (floors.get(dest) ?? 0) || lowered.has(dest) || open.has(dest, seq)) continue;
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
  return lowered;
}

/** Successes that are remembered between the first and the last of these sequences. */
async function deliveredWithin(db: Database, dest: string, seqs: readonly Seq[]): Promise<Set<Seq>> {
  const range = keys.between((seq) => keys.deliveredKey(dest, seq), seqs[0] ?? 0, seqs.at(-1) ?? 0);
  return new Set((await db.keys(range).all()).map(keys.seqOf));
}
