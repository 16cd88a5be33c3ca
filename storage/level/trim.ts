/**
 * Trimming of the embedded store: moves the horizon, at or below which only kept events remain.
 *
 * TRIM-1  A trim is one atomic batch: it removes events, rewrites the kept ones, sets the horizon and writes the seal.
 *     A crash leaves the old horizon or the new one.
 * TRIM-2  In memory the horizon moves before the batch is written: a read that begins then does not ask for the events
 *     being removed, and a read that began earlier has its own snapshot.
 * TRIM-3  A trim has a batch of its own, so that it reads from the disk while staging: it sees a row that a later event
 *     wrote, and keeps it.
 * TRIM-4  Disk space is reclaimed range by range, once enough events were trimmed to be worth it: one range at a time,
 *     while the next trims go on.
 * TRIM-5  A trim is synced before the next one is prepared. Each horizon counts the kept events of the trims before it:
 *     if a power cut took an earlier trim but not a later one, events would remain that no horizon counts.
 */

import type { Kept, RowKey, Seq, StoredEvent, Trim } from '../contract.ts';
import * as keys from '../keys.ts';
import { encode, headOf, inspect } from '../records.ts';
import { type EventHead, type EventReader, indexKeys, type RowHead, type Touched } from './event-log.ts';
import { type Batch, compact, type Database } from './leveldb.ts';
import type { IndexDigest } from './seal.ts';
import { encodeHorizon, minus, plus } from './trim-point.ts';
import type { Found } from './verify.ts';

/** TRIM-4: 20,000 events are a few tens of megabytes. */
const COMPACT_EVENTS = 20_000;

/** A trim with everything checked and encoded that does not depend on its turn in the queue. */
export interface PreparedTrim extends Omit<Trim, 'keeps'> {
  readonly from: Seq;
  readonly keeps: ReadonlyMap<Seq, { readonly kept: Kept; readonly value: string }>;
}

export async function prepareTrim(
  { reader, found }: { reader: EventReader; found: Found },
  { keeps, ...trim }: Trim,
): Promise<PreparedTrim> {
  const from = found.horizon.seq;
  const { upTo, events, drops, rows } = trim;
  if (!Number.isSafeInteger(upTo) || upTo <= from || upTo > found.head) {
    throw new RangeError(`cannot trim up to ${upTo}: the log contains ${from + 1} to ${found.head}`);
  }
  if (events.length !== upTo - from || events.some(({ seq }, i) => seq !== from + 1 + i)) {
    throw new RangeError(`cannot trim other events than ${from + 1} to ${upTo}`);
  }
  for (const row of rows) keys.checkRow(row);
  const prepared = new Map<Seq, { kept: Kept; value: string }>();
  for (const kept of keeps) {
    const original = events[kept.seq - from - 1];
    if (original?.stream !== kept.stream) {
      throw new RangeError(`cannot keep ${kept.stream} at ${kept.seq}: that stream has no event there`);
    }
    prepared.set(kept.seq, { kept, value: encodeKept(kept) });
  }
  const before = await reader.keptSeqs(
    drops.map(({ stream }) => stream),
    found,
  );
  const dropped = new Set(drops.map(({ seq }) => seq));
  if (dropped.size < drops.length || drops.some(({ seq }, i) => !before[i]?.includes(seq)))
    throw new RangeError('only what an earlier trim kept can be dropped, and only once');
  return { ...trim, from, keeps: prepared };
}

function encodeKept(kept: Kept): string {
  const { seq, stream, type, at, party, correlationId, to, data, body, rows } = kept;
  if (body !== null) keys.checkText('the body of an event', body);
  const touched = rows.map(({ kind, owner, id }): Touched => [kind, owner, id, 0]);
  const head: EventHead = [stream, type, at, party, correlationId, to, '', 1, touched];
  return encode(keys.eventKey(seq), JSON.stringify(head), JSON.stringify(data) ?? 'null', body);
}

/**
 * Adds a trim to its batch and moves the horizon in memory. Returns the rows that it removes; returns null and adds
 * nothing when the database was reopened meanwhile and has another horizon. [TRIM-2, TRIM-3]
 */
export function stageTrim(batch: Batch, db: Database, found: Found, trim: PreparedTrim): RowKey[] | null {
  if (found.horizon.seq !== trim.from) return null;
  let { kept, sum } = found.horizon;
  const { digest } = found.sealing;
  for (const event of trim.events) {
    const keep = trim.keeps.get(event.seq);
    if (keep === undefined) stageGone(batch, digest, event);
    else {
      batch.put(keys.eventKey(event.seq), keep.value);
      if (keep.kept.correlationId !== event.correlationId) stageCorrelated(batch, digest, event, keep.kept);
      kept += 1;
      sum = plus(sum, event.seq);
    }
    for (const dest of event.to) batch.del(keys.deliveredKey(dest, event.seq));
  }
  for (const event of trim.drops) {
    stageGone(batch, digest, event);
    kept -= 1;
    sum = minus(sum, event.seq);
  }
  for (const { dest, seq } of found.open.upTo(trim.upTo)) batch.del(keys.openKey(dest, seq));
  const rows = trim.rows.filter((row) => writtenUpTo(db, row, trim.upTo));
  for (const row of rows) batch.del(keys.rowKey(row));
  found.horizon = { seq: trim.upTo, kept, sum };
  batch.put(keys.HORIZON_KEY, encodeHorizon(found.horizon));
  found.sealing.stage(batch, found);
  return rows;
}

/** Updates the rest of memory once the batch is written. */
export function applyTrim(found: Found, trim: PreparedTrim, rows: readonly RowKey[]): void {
  for (const { dest, seq } of found.open.upTo(trim.upTo)) found.open.remove(dest, seq);
  for (const row of rows) {
    found.order.remove(row);
    found.recent.delete(keys.rowKey(row));
  }
  rememberKept(found.kept, trim);
}

/** A stream of which it is not known what was kept before stays unknown. */
function rememberKept(index: Found['kept'], { events, drops, keeps }: PreparedTrim): void {
  const dropped = new Set(drops.map(({ seq }) => seq));
  const kept = new Map<string, Seq[]>();
  for (const { stream, seq } of [...drops, ...events]) {
    const before = index.get(stream);
    if (before === undefined) continue;
    let list = kept.get(stream);
    if (list === undefined) {
      list = before.filter((at) => !dropped.has(at));
      kept.set(stream, list);
    }
    if (keeps.has(seq)) list.push(seq);
  }
  for (const [stream, list] of kept) index.set(stream, list);
}

/** The index by correlation id follows an event that is kept under another one. */
function stageCorrelated(batch: Batch, digest: IndexDigest, { seq, correlationId }: StoredEvent, kept: Kept): void {
  if (correlationId !== null) {
    const key = keys.correlationKey(correlationId, seq);
    batch.del(key);
    digest.remove(key);
  }
  if (kept.correlationId !== null) {
    const key = keys.correlationKey(kept.correlationId, seq);
    batch.put(key, encode(key, '[]'));
    digest.add(key);
  }
}

function stageGone(batch: Batch, digest: IndexDigest, { seq, stream, correlationId }: StoredEvent): void {
  batch.del(keys.eventKey(seq));
  for (const key of indexKeys(stream, correlationId, seq)) {
    batch.del(key);
    digest.remove(key);
  }
}

function writtenUpTo(db: Database, row: RowKey, upTo: Seq): boolean {
  const key = keys.rowKey(row);
  const value = db.getSync(Buffer.from(key), { keyEncoding: 'buffer', valueEncoding: 'utf8' });
  return value !== undefined && inspect(key, value) === 'sound' && (headOf(value) as RowHead)[0] <= upTo;
}

/** Reclaims disk space at or below the horizon, in the background. [TRIM-4] */
export class Compaction {
  #from: Seq = 0;
  #running: Promise<void> = Promise.resolve();

  /** Waits for the previous range before it starts the next one, and rejects with the error of the previous one. */
  async after(db: Database, { from, upTo }: PreparedTrim): Promise<void> {
    if (this.#from === 0) this.#from = from + 1;
    // A later trim compacts what a database that was closed meanwhile could not.
    if (upTo - this.#from + 1 < COMPACT_EVENTS || db.status !== 'open') return;
    const begin = this.#from;
    this.#from = upTo + 1;
    await this.#running;
    if (db.status !== 'open') return;
    this.#running = compact(db, keys.eventKey(begin), keys.eventKey(upTo)).catch((error: unknown) => {
      if (db.status === 'open') throw error;
    });
    this.#running.catch(() => {});
  }

  /** Resolves when no compaction runs. */
  async idle(): Promise<void> {
    await this.#running.catch(() => {});
  }
}
