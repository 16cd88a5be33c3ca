/**
 * The engine as the rest of the room uses it: opening, batches, and reading a range in chunks.
 *
 * G1  A block that the engine cannot read is skipped by it, and reported only with the last chunk of the range, which it
 *     then withholds. Here that is an error, or, for whoever says so, a remark: then what can be read is read.
 */
import { Level } from 'level';
import { StoreUnavailable } from './contract.ts';
import type { Range } from './keys.ts';

export type Database = Level<string, string>;
export type Batch = ReturnType<Database['batch']>;

/** For writing a batch: the types know no `sync`, the engine does. */
export const SYNCED: object = { sync: true };

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
    const cause = error instanceof Error ? error.cause : undefined;
    const locked = cause instanceof Error && 'code' in cause && cause.code === 'LEVEL_LOCKED';
    throw locked ? new StoreUnavailable(`${directory} is in use by another process`) : error;
  }
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
): AsyncGenerator<[string, string][]> {
  let rest: Range | { gt: string; lt: string } = range;
  let size = Math.min(atMost, CHUNK);
  for (;;) {
    const iterator = db.iterator({ ...rest, highWaterMarkBytes: READ_AHEAD_BYTES });
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
): Promise<(string | undefined)[]> {
  try {
    return await db.getMany(keys);
  } catch (error) {
    if (unreadable === null || db.status !== 'open') throw error;
    unreadable(error);
    return Promise.all(keys.map((key) => db.get(key).catch(() => undefined)));
  }
}
