/**
 * The engine (LevelDB) as this room uses it: opening, batches, and range reads in chunks.
 *
 * LEVELDB-1  The engine skips a block that it cannot read, and reports that only at the last chunk of the range, which
 *     it then withholds. Here this is an error; a caller that passes `unreadable` gets the error reported instead, and
 *     reads everything that can be read.
 * LEVELDB-2  A look-up first asks the filter of a table, and a rotted bit in that filter hides records of the table. A
 *     record that a look-up does not find is therefore read again with `sought`.
 */
import { getHeapStatistics } from 'node:v8';
import { Level } from 'level';
import { closing } from '../../src/kit/concurrency.ts';
import { StoreUnavailable } from '../contract.ts';
import type { Range } from '../keys.ts';

export type Database = Level<string, string>;
export type Batch = ReturnType<Database['batch']>;
/** A point-in-time view of the database. */
export type Snapshot = ReturnType<Database['snapshot']>;

/** Test hook: called at the points where a test kills the process; unset in production. */
export type OnPoint = (name: string) => void;

/** Options of a synced batch: the types do not declare `sync`, but the engine supports it. */
export const SYNCED: object = { sync: true };

/** Options for a value given as bytes. */
export const IN_BYTES = { valueEncoding: 'buffer' } as const;

/** A block of a large value would displace all others in the cache, or stay in their place. The types do not declare it. */
const UNCACHED: object = { fillCache: false };

/**
 * Options of a read by the bytes of a key: the text encoding of the engine can cut off a key that ends in a multi-byte
 * character.
 */
export const lookUp = <Encoding extends 'utf8' | 'buffer'>(valueEncoding: Encoding, isLarge: boolean) =>
  ({ keyEncoding: 'buffer', valueEncoding, ...(isLarge && UNCACHED) }) as const;

/** Memory buffered before the engine writes a table, bytes. Opening replays up to twice as much from the log. */
const WRITE_BUFFER_BYTES = 16 << 20;
/**
 * Records of a table that the engine compresses, reads and caches together, bytes. Less costs each push more: compactions, which write every
 * record several times, take longer, and records compress less. A larger block costs a look-up that is not cached more, and takes more with it when it rots.
 */
const BLOCK_BYTES = 16 << 10;
/** Block cache of the engine, bytes: outside the heap, and less where the process has a small heap. */
const CACHE_BYTES = Math.min(32 << 20, Math.floor(getHeapStatistics().heap_size_limit / 32));
/** Disk space that opening may need, bytes: the replayed log is written as tables, while the log still exists. */
export const BALLAST_BYTES = 2 * WRITE_BUFFER_BYTES;

export async function openDatabase(directory: string, createIfMissing: boolean): Promise<Database> {
  const sizes = { writeBufferSize: WRITE_BUFFER_BYTES, blockSize: BLOCK_BYTES, cacheSize: CACHE_BYTES };
  const db: Database = new Level(directory, sizes);
  try {
    await db.open({ createIfMissing });
    return db;
  } catch (error) {
    if (isLocked(error)) throw new StoreUnavailable(`${directory} is in use by another process`);
    // The engine's own message only says that opening failed; the cause has the reason.
    const why = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new Error(`${directory} cannot be opened: ${why}`, { cause: error });
  }
}

/**
 * Whether another process has the database open. Changes nothing: the engine locks first, then `errorIfExists` stops
 * it.
 */
export async function isInUse(directory: string): Promise<boolean> {
  const db: Database = new Level(directory);
  try {
    await db.open({ createIfMissing: false, errorIfExists: true });
    await db.close();
    return false;
  } catch (error) {
    return isLocked(error);
  }
}

function isLocked(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && 'code' in cause && cause.code === 'LEVEL_LOCKED';
}

/** Reclaims the disk space of deleted records in a range. The types omit what only some engines support. */
export function compact(db: Database, from: string, to: string): Promise<void> {
  return (db as Database & { compactRange(from: string, to: string): Promise<void> }).compactRange(from, to);
}

/** Records per fetch: enough for throughput, few enough not to block the event loop. */
const CHUNK = 1000;
const READ_AHEAD_BYTES = 1 << 20;

/** Entries of one seek: more than an index usually has in a range. */
const SOUGHT = 2;

/** An iterator over keys, as far as it is used here. */
interface Keys {
  seek(target: string): void;
  nextv(size: number): Promise<string[]>;
}

/** The keys from `start` on for as long as they are wanted, few of which are expected. `iterator` is moved there. */
export async function soughtKeys(iterator: Keys, start: string, isWanted: (key: string) => boolean): Promise<string[]> {
  iterator.seek(start);
  const wanted: string[] = [];
  for (let size = SOUGHT; ; size = CHUNK) {
    const next = await iterator.nextv(size);
    const end = next.findIndex((key) => !isWanted(key));
    wanted.push(...(end === -1 ? next : next.slice(0, end)));
    if (end !== -1 || next.length === 0) return wanted;
  }
}

export type Unreadable = (error: unknown) => void;

export async function* chunks(
  db: Database,
  range: Range,
  atMost = CHUNK,
  unreadable: Unreadable | null = null,
  snapshot?: Snapshot,
): AsyncGenerator<[string, string][]> {
  let rest: Range | { gt: string; lt: string } = range;
  let size = Math.min(atMost, CHUNK);
  for (;;) {
    const iterator = db.iterator({ ...rest, highWaterMarkBytes: READ_AHEAD_BYTES, ...(snapshot && { snapshot }) });
    try {
      for (;;) {
        const chunk: [string, string][] = await iterator.nextv(size);
        const last = chunk.at(-1);
        if (last === undefined) return;
        rest = { gt: last[0], lt: range.lt };
        yield chunk;
      }
    } catch (error) {
      if (unreadable === null || db.status !== 'open') throw error;
      if (size === 1) return;
      unreadable(error);
      size = 1;
    } finally {
      await iterator.close();
    }
  }
}

/** How many records a range has; a block that cannot be read is an error. [LEVELDB-1] */
export async function countIn(db: Database, range: Range): Promise<number> {
  return closing(db.keys({ ...range, highWaterMarkBytes: READ_AHEAD_BYTES }), async (iterator) => {
    for (let count = 0; ; ) {
      const { length } = await iterator.nextv(CHUNK);
      if (length === 0) return count;
      count += length;
    }
  });
}

/** The values of these keys. When that fails and `unreadable` is given, returns every value that can be read. */
export async function fetch(
  db: Database,
  keys: string[],
  unreadable: Unreadable | null = null,
  snapshot?: Snapshot,
): Promise<(string | undefined)[]> {
  try {
    const values = await db.getMany(keys, snapshot ? { snapshot } : {});
    return await Promise.all(keys.map((key, i) => values[i] ?? sought(db, key, snapshot)));
  } catch (error) {
    if (unreadable === null || db.status !== 'open') throw error;
    unreadable(error);
    return Promise.all(keys.map((key) => db.get(key).catch(() => undefined)));
  }
}

/**
 * Reads with an iterator a key that a look-up did not find. [LEVELDB-2] The key goes as bytes: the engine's text
 * encoding can cut it off.
 */
export async function sought(db: Database, key: string, snapshot?: Snapshot): Promise<string | undefined> {
  const at = Buffer.from(key);
  const range = { gte: at, lte: at, limit: 1, keyEncoding: 'buffer' } as const;
  const [found] = await db.iterator<Buffer, string>({ ...range, ...(snapshot && { snapshot }) }).all();
  return found?.[1];
}
