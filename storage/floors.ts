/**
 * Floors that rely on rows which the log has lost.
 *
 * A commit that is lost leaves a hole in the sequence. A batch of settles leaves none: where the engine dropped one from the middle of
 * its log, a later one has a floor that passes deliveries whose rows are gone, and they would count as delivered. Every delivery that
 * was tried has a row until the horizon passes it, so what was lost can be told from the log: it is owed, at or below the floor, and
 * has no row. Floors go back below it, and it is sent again. [S6]
 *
 * Only after a loss: a remembered success that was damaged is left out for good reason, and its floor stands for it. [V4]
 */
import type { Seq, Shard } from './contract.ts';
import { chunks, type Database, SYNCED } from './engine.ts';
import type { EventHead } from './event-log.ts';
import * as keys from './keys.ts';
import { readFloors } from './outbox.ts';
import { encode, headOf } from './records.ts';
import type { Found } from './verify.ts';

/** Of a database without faults. */
export async function lowerFloors(db: Database, shard: Shard, { horizon, open }: Found): Promise<void> {
  const floors = new Map((await readFloors(db)).filter((floor) => floor.shard === shard).map((f) => [f.dest, f.seq]));
  const highest = Math.max(0, ...floors.values());
  if (highest <= horizon.seq) return;
  const delivered = await deliveredIn(db, shard);
  const lowered = new Map<string, Seq>();
  const range = keys.between((seq) => keys.eventKey(shard, seq), horizon.seq + 1, highest);
  for await (const chunk of chunks(db, range)) {
    for (const [key, value] of chunk) {
      const seq = keys.seqOf(key);
      const [, , , , , to] = headOf(value) as EventHead;
      for (const dest of to) {
        if (seq > (floors.get(dest) ?? 0) || lowered.has(dest)) continue;
        if (!delivered.get(dest)?.has(seq) && !open.has(dest, shard, seq)) lowered.set(dest, seq - 1);
      }
    }
  }
  if (lowered.size === 0) return;
  const batch = db.batch();
  for (const [dest, seq] of lowered) {
    const key = keys.floorKey(dest, shard);
    batch.put(key, encode(key, JSON.stringify([seq])));
  }
  await batch.write(SYNCED);
}

async function deliveredIn(db: Database, shard: Shard): Promise<Map<string, Set<Seq>>> {
  const found = new Map<string, Set<Seq>>();
  for await (const chunk of chunks(db, keys.under('d/'))) {
    for (const [key] of chunk) {
      if (keys.shardOf(key) !== shard) continue;
      const dest = keys.destOf(key);
      const seqs = found.get(dest) ?? new Set();
      found.set(dest, seqs.add(keys.seqOf(key)));
    }
  }
  return found;
}
