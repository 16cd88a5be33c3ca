/**
 * What the engine does not do for its files: reserved disk space, because a database on a full disk cannot reopen, and
 * syncs of names and closed logs.
 *
 * SIDE-FILES-1  `ballast` is reserved disk space that is released when a write failed, because reopening writes, too.
 *     Writes resume only when it exists again, which proves that there is room.
 * SIDE-FILES-2  The engine syncs what it writes, but not the directory entry of a new log file. Until its directory is
 *     synced, too, a power cut may take the entry, and with it every commit in that log. The same holds for the entries
 *     of the directories above.
 * SIDE-FILES-3  The engine closes a full log without a sync: what was written to it after its last synced batch may not
 *     be on the disk, while batches in the next log are. A commit in the next log is acknowledged only after the closed
 *     log has been synced.
 */
import { randomFillSync } from 'node:crypto';
import { statSync } from 'node:fs';
import { type FileHandle, open, readdir, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { closing } from '../../src/kit/concurrency.ts';

/** In ns; 1 s is longer than the resolution of any file system clock. */
const STILL_NS = 1_000_000_000n;

/**
 * What the engine dropped from its log at the last open, or null. Source: the engine's `LOG` file, which alone says so.
 */
export async function droppedAtOpen(database: string): Promise<string | null> {
  const diary = (await readFile(join(database, 'LOG'), 'latin1').catch(absent)) ?? '';
  const drops = [...diary.matchAll(/dropping (\d+) bytes; (.*)/g)];
  const bytes = drops.reduce((sum, [, count]) => sum + Number(count), 0);
  return drops.length === 0 ? null : `the engine dropped ${bytes} bytes of its log when it opened (${drops[0]?.[2]})`;
}

/** Names of the engine's own files, besides tables and logs, with such text. */
export async function filesWith(database: string, isLeft: (text: string) => boolean): Promise<string[]> {
  const names = (await readdir(database)).filter((name) => /^(MANIFEST-|LOG)/.test(name));
  const texts = await Promise.all(names.map((name) => readFile(join(database, name), 'latin1')));
  return names.filter((_, i) => isLeft(texts[i] ?? ''));
}

/** SIDE-FILES-1: creates the ballast unless it exists, or throws. Needs twice its size as free space. */
export async function raiseBallast(path: string, bytes: number): Promise<void> {
  if (bytes === 0 || (await stat(path).catch(absent))?.size === bytes) return;
  await releaseBallast(path);
  const { bavail, bsize } = await statfs(dirname(path));
  if (bavail * bsize < 2 * bytes) throw new Error(`the disk has less than ${2 * bytes} bytes of room`);
  // Random bytes: a file system with compression or sparse files would reserve no space for anything else.
  const block = randomFillSync(Buffer.alloc(Math.min(bytes, 1 << 20)));
  const blocks = Array.from({ length: Math.ceil(bytes / block.length) }, (_, i) =>
    block.subarray(0, bytes - i * block.length),
  );
  await writeFile(path, blocks, { flush: true });
}

export async function releaseBallast(path: string): Promise<void> {
  await rm(path, { force: true });
}

/** SIDE-FILES-2, SIDE-FILES-3: makes durable what the engine itself does not sync in its directory. */
export class Names {
  readonly #directory: string;
  /** Number of the newest closed log that is on the disk. */
  #closedLog = 0;
  /** Modification time of the directory at its last sync that can be relied on, ns. */
  #syncedAt = -1n;
  #handle: FileHandle | null = null;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Resolves when all directory entries and closed logs are on the disk; takes microseconds when no file is new. */
  async keep(): Promise<void> {
    const { mtimeNs } = statSync(this.#directory, { bigint: true });
    if (mtimeNs === this.#syncedAt) return;
    const begun = BigInt(Date.now()) * 1_000_000n;
    this.#handle ??= await open(this.#directory, 'r');
    try {
      await this.#keepClosedLogs();
      await this.#handle.sync();
    } catch (error) {
      await this.close();
      throw error;
    }
    // A file system clock ticks only every few milliseconds: a later change may get the same time.
    if (begun - mtimeNs > STILL_NS) this.#syncedAt = mtimeNs;
  }

  async close(): Promise<void> {
    await this.#handle?.close();
    this.#handle = null;
  }

  /** SIDE-FILES-3: syncs all logs but the newest. The engine removes a log only once a synced table has its records. */
  async #keepClosedLogs(): Promise<void> {
    const logs = (await readdir(this.#directory)).filter((name) => /^\d+\.log$/.test(name));
    const numbers = logs.map((name) => Number.parseInt(name, 10));
    const newest = Math.max(...numbers);
    for (const [i, number] of numbers.entries()) {
      if (number === newest || number <= this.#closedLog) continue;
      await withFile(join(this.#directory, logs[i] ?? ''), (log) => log.datasync()).catch(absent);
    }
    this.#closedLog = Math.max(this.#closedLog, ...numbers.filter((number) => number !== newest));
  }
}

/** Makes the directory entry of a new directory durable, and that of its parent. */
export async function syncNames(directory: string): Promise<void> {
  await syncDirectory(dirname(directory));
  // This process may not be allowed to read the directory above: then its owner made that entry, not this process.
  await syncDirectory(dirname(dirname(directory))).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EACCES' && error.code !== 'EPERM') throw error;
  });
}

export async function syncDirectory(path: string): Promise<void> {
  await withFile(path, (directory) => directory.sync());
}

export const withFile = async <T>(path: string, use: (file: FileHandle) => Promise<T>): Promise<T> =>
  closing(await open(path, 'r'), use);

export function absent(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}
