/** Repair of what the log implies, after a verification without faults. */
import * as keys from '../keys.ts';
import { headOf } from '../records.ts';
import { type EventHead, indexKeysOf, stageIndexes } from './event-log.ts';
import { type Batch, chunks, type Database, fetch, type OnPoint } from './leveldb.ts';
import { DigestMaker, type Floors, type IndexDigest, Sealing, type Tally } from './seal.ts';

/** Of an examination. */
interface Repairs {
  readonly found: { readonly floors: Floors; sealing: Sealing };
  readonly drop: readonly string[];
  readonly reindex: boolean;
  readonly implied: Tally;
}

const INDEXES = ['c/', 's/'].map(keys.under);

/** [VERIFY-4] */
export async function mend(db: Database, { found, drop, reindex, implied }: Repairs, point: OnPoint): Promise<void> {
  if (drop.length > 0) await inBatches(db, drop, (batch, key) => batch.del(key));
  if (!reindex) return;
  for await (const chunk of chunks(db, keys.under('e/'))) {
    point('rebuild');
    await inBatches(db, chunk, (batch, [key, value]) => {
      const [stream, , , , correlationId] = headOf(value) as EventHead;
      stageIndexes(batch, stream, correlationId, keys.seqOf(key));
    });
  }
  let digest = await digestOf(db);
  if (!implied.equals(digest.whole)) {
    await dropStale(db);
    digest = await digestOf(db);
  }
  found.sealing = new Sealing(digest, found.floors);
}

async function digestOf(db: Database): Promise<IndexDigest> {
  const digest = new DigestMaker();
  for (const range of INDEXES) for await (const chunk of chunks(db, range)) for (const [key] of chunk) digest.add(key);
  return digest.made();
}

/** Removes the index entries that no event implies. */
async function dropStale(db: Database): Promise<void> {
  for (const range of INDEXES) {
    for await (const chunk of chunks(db, range)) {
      const entries = chunk.map(([key]) => key);
      const events = await fetch(
        db,
        entries.map((key) => keys.eventKey(keys.seqOf(key))),
      );
      const stale = entries.filter((key, i) => !implies(events[i], key));
      await inBatches(db, stale, (batch, key) => batch.del(key));
    }
  }
}

function implies(event: string | undefined, key: string): boolean {
  if (event === undefined) return false;
  return indexKeysOf(key, event).includes(key);
}

async function inBatches<T>(db: Database, items: readonly T[], add: (batch: Batch, item: T) => void): Promise<void> {
  const batch = db.batch();
  for (const item of items) add(batch, item);
  await batch.write();
}
