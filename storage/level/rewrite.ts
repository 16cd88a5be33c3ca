/**
 * Rewriting of stored records by the embedded store, for the erasure of personal data.
 *
 * LEVEL-REWRITE-1  A rewrite is one atomic, synced batch of its own: it reads from the disk while staging, so it
 *     rewrites the newest version of every record. It removes the seal, whose boundaries may hold a former name; the
 *     next start verifies the store whole and makes another one.
 * LEVEL-REWRITE-2  Keys change with the names in them: the indexes of an event follow its stream, and a row that is
 *     renamed leaves no record under its former name.
 * LEVEL-REWRITE-3  After `reclaim` no table and no log of the engine contains a former version.
 */
import type { Rewrite, RowKey, Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { encode, inspect, textsOf } from '../records.ts';
import { type EventHead, indexKeys, type RowHead, stageIndexes } from './event-log.ts';
import { type Batch, compact, type Database, SYNCED } from './leveldb.ts';
import type { Found } from './verify.ts';

/** A rewritten row: the in-memory indexes follow it. */
export interface Moved {
  readonly from: RowKey;
  readonly to: RowKey;
  readonly shelf: string | null;
  readonly upd: string;
  readonly size: number;
}

/** [LEVEL-REWRITE-1] A damaged record is skipped: it is rebuilt from others, or already reported. */
export function stageRewrite(batch: Batch, db: Database, found: Found, rewrite: Rewrite): Moved[] {
  for (const seq of rewrite.events) stageEvent(batch, db, seq, rewrite);
  found.sealing.drop(batch);
  return rewrite.rows.flatMap((row) => stageRow(batch, db, row, rewrite) ?? []);
}

function stageEvent(batch: Batch, db: Database, seq: Seq, { text }: Rewrite): void {
  const key = keys.eventKey(seq);
  const value = soundAt(db, key);
  if (value === null) return;
  const before = textsOf(value);
  const after = { head: text(before.head), data: text(before.data), body: before.body && text(before.body) };
  batch.put(key, encode(key, after.head, after.data, after.body));
  const [stream, , , , correlationId] = JSON.parse(before.head) as EventHead;
  const [newStream, , , , newId, to] = JSON.parse(after.head) as EventHead;
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
}

function stageRow(batch: Batch, db: Database, from: RowKey, { name, text }: Rewrite): Moved | null {
  keys.checkRow(from);
  const value = soundAt(db, keys.rowKey(from));
  if (value === null) return null;
  const { head, data, body } = textsOf(value);
  const to = { kind: from.kind, owner: name(from.owner), id: name(from.id) };
  const newKey = keys.rowKey(to);
  if (newKey !== keys.rowKey(from)) batch.del(keys.rowKey(from));
  const stored = encode(newKey, head, text(data), body && text(body));
  batch.put(newKey, stored);
  const [, shelf, upd] = JSON.parse(head) as RowHead;
  return { from, to, shelf, upd, size: stored.length };
}

function soundAt(db: Database, key: string): string | null {
  const value = db.getSync(Buffer.from(key), { keyEncoding: 'buffer', valueEncoding: 'utf8' });
  return value !== undefined && inspect(key, value) === 'sound' ? value : null;
}

/** Updates memory once the batch is written. */
export function applyRewrite({ order, recent }: Found, moved: readonly Moved[]): void {
  for (const { from, to, shelf, upd, size } of moved) {
    recent.delete(keys.rowKey(from));
    recent.delete(keys.rowKey(to));
    order.remove(from);
    order.place(to, shelf, upd, size);
  }
}

/**
 * [LEVEL-REWRITE-3] A table that the engine writes from memory keeps every version of a record, and a compaction skips
 * the deepest level. Markers at both ends of the key space lie above that level and make the next compaction merge all
 * of it.
 */
export async function reclaim(db: Database): Promise<void> {
  const { gte, lt } = keys.EVERYTHING;
  for (let pass = 0; pass < 2; pass += 1) {
    await db.batch().del(gte).del(lt).write(SYNCED);
    await compact(db, gte, lt);
  }
}
