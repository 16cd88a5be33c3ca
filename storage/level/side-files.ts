/**
 * Two small files beside the database, `mark` and `ballast`: a database that lost its beginning or its end cannot tell,
 * and one on a full disk cannot reopen.
 *
 * SIDE-FILES-1  An existing `mark` means that a database was made here; it is never created again in the same place.
 *     (An engine that may create missing files "opens" a directory without its CURRENT file and shows only some of the
 *     keys.)
 * SIDE-FILES-2  `mark` contains a sequence that was durable when it was written. It is written from time to time, not
 *     with each commit, and promises only this: a log whose head is lower is damaged.
 * SIDE-FILES-3  `mark` contains the name of the engine's MANIFEST and a size that it had. A shorter MANIFEST opens as
 *     an empty or older database, and opening deletes the tables that it does not name. So the size is checked first,
 *     and a shorter MANIFEST is not opened.
 * SIDE-FILES-4  `mark` has two slots, written in turn, each with a checksum and synced before the other is written: a
 *     torn write leaves the other slot intact.
 * SIDE-FILES-5  `ballast` is reserved disk space that is released when a write failed, because reopening writes, too.
 *     Writes resume only when it exists again, which proves that there is room.
 * SIDE-FILES-6  The engine syncs what it writes, but not the directory entry of a new log file. Until its directory is
 *     synced, too, a power cut may take the entry, and with it every commit in that log. The same holds for the entries
 *     of the directories above.
 * SIDE-FILES-7  The engine closes a full log without a sync: what was written to it after its last synced batch may not
 *     be on the disk, while batches in the next log are. A commit in the next log is acknowledged only after the closed
 *     log has been synced.
 * SIDE-FILES-8  `mark` records a clean close, with everything on the disk. Opening writes a mark without that flag
 *     before the first write: a mark without the flag means that the last use ended uncleanly, perhaps by a power cut.
 */
import { randomFillSync } from 'node:crypto';
import { statSync } from 'node:fs';
import { type FileHandle, open, readdir, readFile, rm, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Seq } from '../contract.ts';
import { encode, headOf, inspect } from '../records.ts';

const SLOT_BYTES = 512;
const FORMAT = 1;
/** In ns; 1 s is longer than the resolution of any file system clock. */
const STILL_NS = 1_000_000_000n;

export interface Mark {
  readonly head: Seq;
  readonly token: number;
  /** Name and size of the MANIFEST. */
  readonly manifest: readonly [name: string, bytes: number] | null;
  /** SIDE-FILES-8: the store was closed cleanly. Marks of earlier versions never have it. */
  readonly clean?: boolean;
}

type MarkHead = [format: number, turn: number, head: Seq, token: number, manifest: Mark['manifest'], clean?: boolean];

const slotKey = (slot: number): string => `mark/${slot}`;

export class MarkFile {
  readonly #path: string;
  #file: FileHandle | null = null;
  #turn = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** The latest mark; null when no database was made here; `damaged` when neither slot can be read. */
  async read(): Promise<Mark | 'damaged' | null> {
    const text = await readFile(this.#path, 'latin1').catch(absent);
    if (text === null) return null;
    let latest: MarkHead | null = null;
    for (const slot of [0, 1]) {
      const value = text.slice(slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES).replace(/\0+$/, '');
      if (inspect(slotKey(slot), value) !== 'sound') continue;
      const head = headOf(value) as MarkHead;
      if (head[0] !== FORMAT) throw new Error(`${this.#path} has format ${head[0]}; this version knows ${FORMAT}`);
      if (latest === null || head[1] > latest[1]) latest = head;
    }
    if (latest === null) return 'damaged';
    this.#turn = latest[1];
    return { head: latest[2], token: latest[3], manifest: latest[4], clean: latest[5] ?? false };
  }

  async write(mark: Mark): Promise<void> {
    const fresh = this.#file === null;
    this.#file ??= await open(this.#path, 'r+').catch(() => open(this.#path, 'w+'));
    this.#turn += 1;
    const slot = this.#turn % 2;
    const head: MarkHead = [FORMAT, this.#turn, mark.head, mark.token, mark.manifest, mark.clean ?? false];
    const bytes = Buffer.alloc(SLOT_BYTES);
    bytes.write(encode(slotKey(slot), JSON.stringify(head)), 'latin1');
    await this.#file.write(bytes, 0, SLOT_BYTES, slot * SLOT_BYTES);
    await this.#file.sync();
    if (fresh) await syncDirectory(dirname(this.#path));
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = null;
  }
}

/** SIDE-FILES-8: there is no proof of a clean close. */
export const endedUncleanly = (mark: Mark | 'damaged' | null): boolean =>
  mark === null || mark === 'damaged' || mark.clean !== true;

/** The MANIFEST that the engine would open; null when there is none. */
export async function manifestOf(database: string): Promise<Mark['manifest']> {
  const name = (await readFile(join(database, 'CURRENT'), 'latin1').catch(absent))?.trim();
  if (name === undefined) return null;
  if (!/^MANIFEST-\d+$/.test(name))
    throw new Error(`${database} has a CURRENT file that names no MANIFEST: it is damaged`);
  return [name, (await stat(join(database, name)).catch(absent))?.size ?? 0];
}

/**
 * SIDE-FILES-1, SIDE-FILES-3: throws when opening would hide or destroy data. Returns whether to create the database.
 */
export async function mustCreate(database: string, mark: Mark | 'damaged' | null): Promise<boolean> {
  const manifest = await manifestOf(database);
  if (manifest === null) {
    const files = (await readdir(database).catch(absent)) ?? [];
    if (mark === null && !files.some((file) => /\.(ldb|sst|log)$/.test(file))) return true;
    throw new Error(`${database} holds a database without its CURRENT file: restore it from a backup`);
  }
  const known = mark === null || mark === 'damaged' ? null : mark.manifest;
  if (known !== null && known[0] === manifest[0] && manifest[1] < known[1]) {
    throw new Error(
      `${database} has a ${manifest[0]} of ${manifest[1]} bytes that had ${known[1]}: restore it from a backup`,
    );
  }
  return false;
}

/**
 * What the engine dropped from its log at the last open, or null. Source: the engine's `LOG` file, which alone says so.
 */
export async function droppedAtOpen(database: string): Promise<string | null> {
  const diary = (await readFile(join(database, 'LOG'), 'latin1').catch(absent)) ?? '';
  const drops = [...diary.matchAll(/dropping (\d+) bytes; (.*)/g)];
  const bytes = drops.reduce((sum, [, count]) => sum + Number(count), 0);
  return drops.length === 0 ? null : `the engine dropped ${bytes} bytes of its log when it opened (${drops[0]?.[2]})`;
}

/** SIDE-FILES-5: creates the ballast unless it exists, or throws. Needs twice its size as free space. */
export async function raiseBallast(path: string, bytes: number): Promise<void> {
  if (bytes === 0 || (await stat(path).catch(absent))?.size === bytes) return;
  await releaseBallast(path);
  const { bavail, bsize } = await statfs(dirname(path));
  if (bavail * bsize < 2 * bytes) throw new Error(`the disk has less than ${2 * bytes} bytes of room`);
  const file = await open(path, 'w');
  try {
    // Random bytes: a file system with compression or sparse files would reserve no space for anything else.
    const block = randomFillSync(Buffer.alloc(Math.min(bytes, 1 << 20)));
    for (let done = 0; done < bytes; ) {
      done += (await file.write(block, 0, Math.min(block.length, bytes - done))).bytesWritten;
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

export async function releaseBallast(path: string): Promise<void> {
  await rm(path, { force: true });
}

/** SIDE-FILES-6, SIDE-FILES-7: makes durable what the engine itself does not sync in its directory. */
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

  /** SIDE-FILES-7: syncs all logs but the newest. The engine removes a log only once a synced table has its records. */
  async #keepClosedLogs(): Promise<void> {
    const logs = (await readdir(this.#directory)).filter((name) => /^\d+\.log$/.test(name));
    const numbers = logs.map((name) => Number.parseInt(name, 10));
    const newest = Math.max(...numbers);
    for (const [i, number] of numbers.entries()) {
      if (number === newest || number <= this.#closedLog) continue;
      const log = await open(join(this.#directory, logs[i] ?? ''), 'r').catch(absent);
      try {
        await log?.datasync();
      } finally {
        await log?.close();
      }
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
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

export function absent(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}
