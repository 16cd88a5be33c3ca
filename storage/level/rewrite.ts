/**
 * Rewriting of stored records by the embedded store, for the erasure of personal data.
 *
 * LEVEL-REWRITE-1  A rewrite is one atomic, synced batch of its own: it reads from the disk while staging, so it
 *     rewrites the newest version of every record. It removes the seal, whose boundaries may hold a former name; the
 *     next start verifies the store whole and makes another one.
 * LEVEL-REWRITE-2  Keys change with the names in them: the indexes of an event follow its stream, and a row that is
 *     renamed leaves no record under its former name. A row that an earlier build renamed without the events that name it
 *     counts as damaged under its former name until these are rewritten.
 * LEVEL-REWRITE-3  After `reclaim` no table and no log of the engine contains a former version.
 * LEVEL-REWRITE-4  `reclaim` compacts range by range: a store that closes meanwhile waits for one range, and `reclaim` rejects.
 */
import type { Rewrite, RowKey, Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { encode, inspect, textsOf } from '../records.ts';
import { type EventHead, indexKeys, type RowHead, stageIndexes, type Touched } from './event-log.ts';
import { type Batch, compact, type Database } from './leveldb.ts';
import type { Found } from './verify.ts';

/** Writes a synced batch of its own, in its turn among the commits. */
type Write = (stage: (batch: Batch) => void) => Promise<void>;

/**
 * Of a range that is compacted at a time: some tens of megabytes. More, and a store that closes waits longer; fewer, and
 * merging the upper levels with each range takes most of the time.
 */
const RANGE_RECORDS = 50_000;

/** A rewritten row: the in-memory indexes follow it. */
export interface Moved {
  readonly from: RowKey;
  readonly to: RowKey;
  readonly shelf: string | null;
  readonly upd: string;
  readonly size: number;
}

/** What memory follows once the batch is written. */
export interface Rewritten {
  readonly moved: readonly Moved[];
  /** Names that no event has any more, of rows that there are not. */
  readonly unnamed: readonly string[];
}

/** [LEVEL-REWRITE-1] A damaged record is skipped: it is rebuilt from others, or already reported. */
export function stageRewrite(batch: Batch, db: Database, found: Found, rewrite: Rewrite): Rewritten {
  const heads = [
    ...rewrite.events.flatMap((seq) => stageEvent(batch, db, seq, rewrite)),
    ...rewrite.heads.flatMap((seq) => stageHead(batch, db, seq, rewrite)),
  ];
  found.sealing.drop(batch);
  const moved = rewrite.rows.flatMap((row) => stageRow(batch, db, row, rewrite) ?? []);
  return { moved, unnamed: heads.filter((key) => found.damagedRows.has(key) && !isAt(db, key)) };
}

/** Returns the former names of the rows whose names change in the event's head. */
function stageEvent(batch: Batch, db: Database, seq: Seq, rewrite: Rewrite): string[] {
  const key = keys.eventKey(seq);
  const value = soundAt(db, key);
  if (value === null) return [];
  const { text } = rewrite;
  const { head: before, data, body } = textsOf(value);
  const [stream, type, at, party, correlationId, to, ...ends] = JSON.parse(before) as EventHead;
  const [newStream, newId] = JSON.parse(text(JSON.stringify([stream, correlationId]))) as [string, string | null];
  const { head, renamed } = withKeys([newStream, type, at, party, newId, to, ...ends], rewrite);
  batch.put(key, encode(key, head, text(data), body && text(body)));
  if (stream !== newStream || correlationId !== newId) {
    for (const old of indexKeys(stream, correlationId, seq)) batch.del(old);
    stageIndexes(batch, newStream, newId, seq);
  }
  for (const delivery of to.flatMap((dest) => [keys.openKey(dest, seq), keys.deliveredKey(dest, seq)])) {
    const stored = soundAt(db, delivery);
    if (stored === null) continue;
    const { head, data } = textsOf(stored);
    batch.put(delivery, encode(delivery, head, text(data)));
  }
  return renamed;
}

/** As `stageEvent`, and nothing else of the event changes. */
function stageHead(batch: Batch, db: Database, seq: Seq, rewrite: Rewrite): string[] {
  const key = keys.eventKey(seq);
  const value = soundAt(db, key);
  if (value === null) return [];
  const { head: before, data, body } = textsOf(value);
  const { head, renamed } = withKeys(JSON.parse(before) as EventHead, rewrite);
  batch.put(key, encode(key, head, data, body));
  return renamed;
}

function withKeys(head: EventHead, rewrite: Rewrite): { head: string; renamed: string[] } {
  const [stream, type, at, party, correlationId, to, idem, events, touched] = head;
  if (idem === undefined || events === undefined || touched === undefined)
    return { head: JSON.stringify(head), renamed: [] };
  const renamed: string[] = [];
  const newTouched = touched.map(([kind, owner, id, gone]): Touched => {
    const to = rewrite.key({ kind, owner, id });
    if (to.owner !== owner || to.id !== id) renamed.push(keys.rowKey({ kind, owner, id }));
    return [to.kind, to.owner, to.id, gone];
  });
  const after: EventHead = [stream, type, at, party, correlationId, to, idem, events, newTouched];
  return { head: JSON.stringify(after), renamed };
}

function stageRow(batch: Batch, db: Database, from: RowKey, { key, text }: Rewrite): Moved | null {
  keys.checkRow(from);
  const value = soundAt(db, keys.rowKey(from));
  if (value === null) return null;
  const { head, data, body } = textsOf(value);
  const to = key(from);
  const newKey = keys.rowKey(to);
  if (newKey !== keys.rowKey(from)) batch.del(keys.rowKey(from));
  const stored = encode(newKey, head, text(data), body && text(body));
  batch.put(newKey, stored);
  const [, shelf, upd] = JSON.parse(head) as RowHead;
  return { from, to, shelf, upd, size: stored.length };
}

const isAt = (db: Database, key: string): boolean =>
  db.getSync(Buffer.from(key), { keyEncoding: 'buffer', valueEncoding: 'utf8' }) !== undefined;

function soundAt(db: Database, key: string): string | null {
  const value = db.getSync(Buffer.from(key), { keyEncoding: 'buffer', valueEncoding: 'utf8' });
  return value !== undefined && inspect(key, value) === 'sound' ? value : null;
}

/** Updates memory once the batch is written. */
export function applyRewrite({ order, recent, damagedRows, kept }: Found, { moved, unnamed }: Rewritten): void {
  // The kept events may have other streams now.
  kept.clear();
  for (const key of unnamed) damagedRows.delete(key);
  for (const { from, to, shelf, upd, size } of moved) {
    recent.delete(keys.rowKey(from));
    recent.delete(keys.rowKey(to));
    order.remove(from);
    order.place(to, shelf, upd, size);
  }
}

/**
 * Removes former versions from the range of keys behind `from`, and resolves with its end. [LEVEL-REWRITE-4]
 *
 * A table that the engine writes from memory keeps every version of a record, and a compaction skips the deepest level.
 * Markers at both ends of the range lie above that level and make the next compaction merge all of it. A failed write of
 * them is one of the store's. [LEVEL-REWRITE-3, LIFECYCLE-1]
 */
export async function reclaimRange(db: Database, from: string, write: Write): Promise<string> {
  const records = await db.keys({ gt: from, lt: keys.EVERYTHING.lt, limit: RANGE_RECORDS }).all();
  // No record has such a key. [KEYS-1]
  const to = records.length < RANGE_RECORDS ? keys.EVERYTHING.lt : `${records.at(-1)}\0`;
  for (let pass = 0; pass < 2; pass += 1) {
    await write((batch) => void batch.del(from).del(to));
    await compact(db, from, to);
  }
  return to;
}
