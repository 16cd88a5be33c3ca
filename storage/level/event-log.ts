/**
 * The event log of the embedded store: events in a dense sequence, with an index by stream and one by correlation id.
 *
 * EVENT-LOG-1  Above the horizon sequences are 1, 2, 3 … without a hole. A read that finds a hole reports damage, never
 *     a shorter log.
 * EVENT-LOG-2  The last event of a commit carries the commit's idempotency key, its number of events and the names of
 *     the rows that it wrote: the log alone says what was committed and which rows must exist.
 * EVENT-LOG-3  `prepare` makes every check that can refuse a commit, before the commit joins a batch: no commit fails
 *     because of another one in its batch.
 * EVENT-LOG-4  Until the whole store is verified, a read checks every record that it meets, and the parts of an index
 *     that it relies on: it never gives less than there is.
 * EVENT-LOG-5  `stage` yields behind each large record, so that the next one is staged in another turn: the engine copies it in the thread
 *     of the event loop. It also copies what a batch has when the batch grows, by doubling: small records come before large ones.
 */
import { closing } from '../../src/kit/concurrency.ts';
import {
  type Commit,
  Damaged,
  type EventQuery,
  type NewEvent,
  type Put,
  type RowKey,
  type Seq,
  type StoredEvent,
  smallBody,
} from '../contract.ts';
import * as keys from '../keys.ts';
import { CONTENT_AT, type Content, decode, encode, encodeBytes, headOf, inspect } from '../records.ts';
import type { TwoGenerations } from './caches.ts';
import { type Batch, chunks, type Database, fetch, IN_BYTES, soughtKeys, type Unreadable } from './leveldb.ts';
import type { Horizon } from './trim-point.ts';

/** `gone`: 1 when the commit removed the row. */
export type Touched = [kind: string, owner: string, id: string, gone: 0 | 1];
type Fields = [
  stream: string,
  type: string,
  at: string,
  party: string | null,
  correlationId: string | null,
  to: readonly string[],
];
/** EVENT-LOG-2: only the last event of a commit, and an event kept by a trim, has the last three fields. */
export type EventHead = [...Fields, idem?: string, events?: number, touched?: Touched[]];
export type RowHead = [seq: Seq, shelf: string | null, upd: string];

interface PreparedEvent {
  readonly event: NewEvent;
  readonly head: string;
  readonly data: string;
}

interface PreparedPut {
  readonly put: Put;
  readonly key: string;
  readonly data: string;
}

export interface Prepared {
  readonly idem: string;
  readonly events: readonly PreparedEvent[];
  readonly puts: readonly PreparedPut[];
  readonly due: readonly { readonly key: string; readonly at: string | null }[];
  readonly seen: readonly keys.NamedSeen[];
  /** Characters; close enough to bytes for the limits of a batch. */
  readonly size: number;
}

const json = (value: unknown): string => JSON.stringify(value) ?? 'null';

/** EVENT-LOG-3. */
export function prepare(commit: Commit): Prepared {
  if (commit.events.length === 0) throw new TypeError('a commit holds at least one event');
  keys.checkUnfenced(commit);
  const puts = (commit.puts ?? []).map(preparePut);
  const touched = puts.map(({ put: { kind, owner, id, gone } }): Touched => [kind, owner, id, gone ? 1 : 0]);
  const last = commit.events.length - 1;
  let size = 0;
  const events = commit.events.map((event, i): PreparedEvent => {
    checkEvent(event);
    const fields: Fields = [event.stream, event.type, event.at, event.party, event.correlationId, event.to];
    const head = json(i < last ? fields : [...fields, commit.idem, commit.events.length, touched]);
    const data = json(event.data);
    size += head.length + data.length + (event.body?.length ?? 0);
    return { event, head, data };
  });
  for (const { put, data } of puts) size += data.length + (put.gone ? 0 : (put.body?.length ?? 0));
  const due = commit.due ?? [];
  for (const { key } of due) keys.checkName('the key of a timer', key);
  return { idem: commit.idem, events, puts, due, seen: keys.named(commit.seen ?? []), size };
}

function preparePut(put: Put): PreparedPut {
  keys.checkRow(put);
  if (put.gone) return { put, key: keys.rowKey(put), data: '' };
  keys.checkName('upd', put.upd);
  if (put.shelf !== null) keys.checkName('shelf', put.shelf);
  if (put.body !== null) keys.checkText('the body of a row', put.body);
  return { put, key: keys.rowKey(put), data: json(put.data) };
}

function checkEvent(event: NewEvent): void {
  keys.checkName('stream', event.stream);
  if (event.correlationId !== null) keys.checkName('correlation id', event.correlationId);
  if (event.body !== null) keys.checkText('the body of an event', event.body);
}

/** Adds a commit to a batch, beginning at the sequence `first`. Returns its last sequence. [EVENT-LOG-5] */
export function* stage(batch: Batch, { events, puts, due }: Prepared, first: Seq): Generator<void, Seq> {
  let next = first;
  for (const { event } of events) stageIndexes(batch, event.stream, event.correlationId, next++);
  const last = next - 1;
  for (const { key: name, at } of due) {
    const key = keys.dueKey(name);
    if (at === null) batch.del(key);
    else batch.put(key, encode(key, json([at])));
  }
  let seq = first;
  for (const { event, head, data } of events) {
    putRecord(batch, keys.eventKey(seq++), head, data, event.body);
    if (isLarge(event.body)) yield;
  }
  for (const { put, key, data } of puts) {
    if (put.gone) {
      batch.del(key);
      continue;
    }
    putRecord(batch, key, json([last, put.shelf, put.upd] satisfies RowHead), data, put.body);
    if (isLarge(put.body)) yield;
  }
  return last;
}

const isLarge = (body: string | null) => body !== null && body.length > smallBody;

/** `encodeBytes` returns a shared buffer, which is safe because the engine copies a value within `put`. */
function putRecord(batch: Batch, key: string, head: string, data: string, body: string | null): void {
  if (body === null) batch.put(key, encode(key, head, data));
  else batch.put(key, encodeBytes(key, head, data, body), IN_BYTES);
}

export function stageIndexes(batch: Batch, stream: string, correlationId: string | null, seq: Seq): void {
  for (const key of indexKeys(stream, correlationId, seq)) batch.put(key, encode(key, '[]'));
}

/** Keys of an event in the indexes. */
export const indexKeys = (stream: string, correlationId: string | null, seq: Seq): string[] =>
  correlationId === null
    ? [keys.streamKey(stream, seq)]
    : [keys.streamKey(stream, seq), keys.correlationKey(correlationId, seq)];

/** Matches a head up to its correlation id when none of its texts has an escape: the stream and the id can then be used without parsing. */
const PLAIN_NAMES = /\["([^"\\]*)","[^"\\]*","[^"\\]*",(?:null|"[^"\\]*"),(?:null|"([^"\\]*)")/y;

/** Keys in the indexes of a sound event. Most heads need not be parsed for them, which would take eight times as long. */
export function indexKeysOf(key: string, value: string): string[] {
  PLAIN_NAMES.lastIndex = CONTENT_AT;
  const plain = PLAIN_NAMES.exec(value);
  if (plain !== null) return indexKeys(plain[1] ?? '', plain[2] ?? null, keys.seqOf(key));
  const [stream, , , , correlationId] = headOf(value) as EventHead;
  return indexKeys(stream, correlationId, keys.seqOf(key));
}

export function toEvent(key: string, { head, data, body }: Content): StoredEvent {
  const [stream, type, at, party, correlationId, to] = head as EventHead;
  return { seq: keys.seqOf(key), stream, type, at, party, correlationId, to, data, body };
}

const touchedIn = (value: string): RowKey[] =>
  ((headOf(value) as EventHead)[8] ?? []).map(([kind, owner, id]) => ({ kind, owner, id }));

/** Records in memory at a time, with their bodies, while events are read without them. */
const bodiesAtOnce = 16;

/** What was verified of an open database. */
export interface Verified {
  /** Every record was read and is sound. */
  readonly isWhole: boolean;
  /** Rejects with `Damaged` unless the parts of an index that hold this range are complete and sound. */
  checkIndex(range: keys.Range): Promise<void>;
}

/**
 * Reads the log. A quarantined store, whose damage is already reported, passes `tolerate`: reads then skip what they
 * cannot read. Without it, unreadable data is an error.
 */
export class EventReader {
  readonly #db: Database;
  readonly #tolerate: Unreadable | null;
  readonly #verified: Verified;

  constructor(db: Database, tolerate: Unreadable | null, verified: Verified) {
    this.#db = db;
    this.#tolerate = tolerate;
    this.#verified = verified;
  }

  async read(
    { limit, size = Number.POSITIVE_INFINITY, to, kept, withTouched, ...query }: EventQuery,
    head: Seq,
    horizon: Seq,
    withBody = true,
  ): Promise<StoredEvent[]> {
    const after = kept ? query.after : Math.max(query.after, horizon);
    const found: StoredEvent[] = [];
    if (limit <= 0 || after >= head) return found;
    // The receiver as JSON, as it appears in the head of an event owed to it: a text search avoids parsing most others.
    const named = to === undefined ? '' : json(to);
    const range = keys.between(keys.eventKey, after + 1, head);
    let expected = Math.max(after, horizon) + 1;
    let characters = 0;
    for await (const chunk of chunks(this.#db, range, limit, this.#tolerate)) {
      for (const [key, value] of chunk) {
        if (keys.seqOf(key) > horizon) {
          this.#dense(expected, keys.seqOf(key));
          expected = keys.seqOf(key) + 1;
        }
        if (!this.#verified.isWhole && inspect(key, value) !== 'sound') throw new Damaged(key);
        if (!value.includes(named)) continue;
        const event = this.#event(key, value, withBody);
        if (event === null || (to !== undefined && !event.to.includes(to))) continue;
        found.push(withTouched ? { ...event, touched: touchedIn(value) } : event);
        characters += value.length;
        if (found.length === limit || characters >= size) return found;
      }
    }
    this.#dense(expected, head + 1);
    return found;
  }

  /** Events that an index names, in the order of the index. */
  async indexed(range: keys.Range, limit: number): Promise<StoredEvent[]> {
    const found: StoredEvent[] = [];
    if (limit <= 0) return found;
    await this.#verified.checkIndex(range);
    // A trim may run meanwhile: index and events are read from one snapshot.
    await closing(this.#db.snapshot(), async (snapshot) => {
      for await (const chunk of chunks(this.#db, range, limit, this.#tolerate, snapshot)) {
        const named = chunk.slice(0, limit - found.length);
        const wanted = named.map(([key]) => keys.eventKey(keys.seqOf(key)));
        const values = await fetch(this.#db, wanted, this.#tolerate, snapshot);
        found.push(...wanted.flatMap((key, i) => this.#event(key, values[i] ?? '') ?? []));
        if (found.length >= limit) break;
      }
    });
    return found;
  }

  /** The newest events that an index names, oldest of them first, without their bodies. */
  async newest(range: keys.Range, limit: number): Promise<StoredEvent[]> {
    const found: StoredEvent[] = [];
    await this.#verified.checkIndex(range);
    await closing(this.#db.snapshot(), async (snapshot) => {
      const named: string[] = [];
      for await (const chunk of chunks(this.#db, range, undefined, this.#tolerate, snapshot)) {
        for (const [key] of chunk) named.push(keys.eventKey(keys.seqOf(key)));
        if (named.length > limit) named.splice(0, named.length - limit);
      }
      for (let from = 0; from < named.length; from += bodiesAtOnce) {
        const wanted = named.slice(from, from + bodiesAtOnce);
        const values = await fetch(this.#db, wanted, this.#tolerate, snapshot);
        found.push(...wanted.flatMap((key, i) => this.#event(key, values[i] ?? '', false) ?? []));
      }
    });
    return found;
  }

  /** What trims kept of these streams. */
  async kept(
    streams: readonly string[],
    at: { readonly kept: TwoGenerations<readonly Seq[]>; readonly horizon: Horizon },
  ): Promise<StoredEvent[]> {
    const seqs = await this.keptSeqs(streams, at);
    const wanted = seqs.flat().map(keys.eventKey);
    const values = await fetch(this.#db, wanted, this.#tolerate);
    return wanted.flatMap((key, i) => this.#event(key, values[i] ?? '') ?? []);
  }

  /** Sequences of the kept events of each stream. One iterator seeks the streams that memory does not know. */
  async keptSeqs(
    streams: readonly string[],
    { kept, horizon }: { readonly kept: TwoGenerations<readonly Seq[]>; readonly horizon: Horizon },
  ): Promise<(readonly Seq[])[]> {
    return closing(this.#db.keys(keys.under('s/')), async (iterator) => {
      const found: (readonly Seq[])[] = [];
      for (const stream of streams) {
        let seqs = kept.get(stream);
        if (seqs === undefined) {
          await this.#verified.checkIndex(keys.indexFrom('s', stream, 0));
          const isKept = (key: string) => keys.streamOf(key) === stream && keys.seqOf(key) <= horizon.seq;
          const start = keys.streamKey(stream, 0);
          seqs = horizon.kept === 0 ? [] : (await soughtKeys(iterator, start, isKept)).map(keys.seqOf);
          kept.set(stream, seqs);
        }
        found.push(seqs);
      }
      return found;
    });
  }

  /** EVENT-LOG-1. */
  #dense(expected: Seq, seq: Seq): void {
    if (seq !== expected && this.#tolerate === null) throw new Damaged(keys.eventKey(expected));
  }

  #event(key: string, value: string, withBody = true): StoredEvent | null {
    try {
      const content = decode(key, value);
      return toEvent(key, withBody ? content : { head: content.head, data: content.data, body: null });
    } catch (error) {
      if (this.#tolerate !== null && error instanceof Damaged) return null;
      throw error;
    }
  }
}
