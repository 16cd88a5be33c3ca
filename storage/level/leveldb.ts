/**
 * The engine as the rest of the room uses it: opening, batches, and reading a range in chunks.
 *
 * LEVELDB-1  A block that the engine cannot read is skipped by it, and reported only with the last chunk of the range, which it
 *     then withholds. Here that is an error, or, for whoever says so, a remark: then what can be read is read.
 * LEVELDB-2  A look-up asks the filter of a table first, and a bit that rots there hides what the table holds. Whatever a look-up does
 *     not find is therefore sought.
 */
import { Level } from 'level';
import { StoreUnavailable } from '../contract.ts';
import type { Range } from '../keys.ts';

export type Database = Level<string, string>;
export type Batch = ReturnType<Database['batch']>;
/** One moment of the database. */
export type Snapshot = ReturnType<Database['snapshot']>;

/** Hears how far the store has come, at places where a test kills the process; nobody listens otherwise. */
export type OnPoint = (name: string) => void;

/** For writing a batch: the types know no `sync`, the engine does. */
export const SYNCED: object = { sync: true };

/** Of a value that comes as bytes. */
export const IN_BYTES = { valueEncoding: 'buffer' } as const;

/** What gathers in memory before a table is written. Up to twice as much is replayed from the log at open. */
const WRITE_BUFFER_BYTES = 16 << 20;
const CACHE_BYTES = 32 << 20;
/** Room that opening may need: what it replays is written as tables beside the log. */
export const BALLAST_BYTES = 2 * WRITE_BUFFER_BYTES;

export async function openDatabase(directory: string, createIfMissing: boolean): Promise<Database> {
  const db: Database = new Level(directory, { writeBufferSize: WRITE_BUFFER_BYTES, cacheSize: CACHE_BYTES });
  try {
    await db.open({ createIfMissing });
    return db;
  } catch (error) {
    if (isLocked(error)) throw new StoreUnavailable(`${directory} is in use by another process`);
    // The engine says only that it could not; why stands in the cause.
    const why = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new Error(`${directory} cannot be opened: ${why}`, { cause: error });
  }
}

/** The engine looks at its lock before anything else: told to refuse what exists, it goes no further and changes nothing. */
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

/** Gives the space of what was deleted in a range back. The types know only what every engine of the kind can do. */
export function compact(db: Database, from: string, to: string): Promise<void> {
  return (db as Database & { compactRange(from: string, to: string): Promise<void> }).compactRange(from, to);
}

/** Records fetched at a time: enough to be quick, few enough to leave the thread to others. */
const CHUNK = 1000;
const READ_AHEAD_BYTES = 1 << 20;

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

/** The values of these keys; where that fails and `unreadable` is given, each one that can be had. */
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

/** The value of a key that a look-up did not find. [LEVELDB-2] As bytes: the engine's own way with text can cut a key. */
export async function sought(db: Database, key: string, snapshot?: Snapshot): Promise<string | undefined> {
  const at = Buffer.from(key);
  const range = { gte: at, lte: at, limit: 1, keyEncoding: 'buffer' } as const;
  const [found] = await db.iterator<Buffer, string>({ ...range, ...(snapshot && { snapshot }) }).all();
  return found?.[1];
}
