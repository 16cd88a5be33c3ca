/**
 * Two small files beside the database, because a database that lost its beginning or its end cannot say so itself.
 *
 * SIDE-FILES-1  `mark` exists: a database was made here. It is never made again in its place (an engine told to create what is
 *     missing "opens" a directory without its CURRENT file and shows a part of the keys).
 * SIDE-FILES-2  `mark` names a sequence that was durable when it was written. It is written now and then, not with each commit, and
 *     promises only this: a log whose head is below it is damaged.
 * SIDE-FILES-3  `mark` names the engine's MANIFEST and a size that it had: a shorter one opens as an empty or older database, and
 *     opening deletes the tables that it does not name. So it is checked before, and not opened.
 * SIDE-FILES-4  `mark` is two slots written in turn, each with a checksum, each synced before the other is written: a torn write leaves
 *     the other.
 * SIDE-FILES-5  `ballast` is room on the disk that is given back when a write failed, because reopening writes too. Writes resume
 *     only when it stands again: the proof that there is room.
 * SIDE-FILES-6  The engine syncs what it writes, but not the name of a log that it begins. Until its directory is synced too, a power cut
 *     may take the name, and with it every commit in that log. The same holds for the names of the directories that hold all this.
 * SIDE-FILES-7  The engine closes a full log without a sync: what was written to it since its last synced batch is on no disk, while batches in
 *     the next log are. A commit in the next log is acknowledged only after a sync of the closed one.
 * SIDE-FILES-8  `mark` says of a store that it was closed with everything on the disk. The mark that an opening writes says so no more, and
 *     writes begin only behind that one: without those words the last end was unclean, a power cut perhaps.
 */
import { randomFillSync } from 'node:crypto';
import { statSync } from 'node:fs';
import { type FileHandle, open, readdir, readFile, rm, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Seq } from '../contract.ts';
import { encode, headOf, inspect } from '../records.ts';

const SLOT_BYTES = 512;
const FORMAT = 1;
/** Longer than any clock of a file system stands still. */
const STILL_NS = 1_000_000_000n;

export interface Mark {
  readonly head: Seq;
  readonly token: number;
  /** Name and size of the MANIFEST. */
  readonly manifest: readonly [name: string, bytes: number] | null;
  /** SIDE-FILES-8. Marks of earlier versions never say so. */
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

/** SIDE-FILES-8: nothing says that its last end was clean. */
export const endedUncleanly = (mark: Mark | 'damaged' | null): boolean =>
  mark === null || mark === 'damaged' || mark.clean !== true;

/** The MANIFEST that the database would open with; null when it has none. */
export async function manifestOf(database: string): Promise<Mark['manifest']> {
  const name = (await readFile(join(database, 'CURRENT'), 'latin1').catch(absent))?.trim();
  if (name === undefined) return null;
  if (!/^MANIFEST-\d+$/.test(name))
    throw new Error(`${database} has a CURRENT file that names no MANIFEST: it is damaged`);
  return [name, (await stat(join(database, name)).catch(absent))?.size ?? 0];
}

/** SIDE-FILES-1, SIDE-FILES-3: throws when opening would hide or destroy something. Returns whether the database must be made. */
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

/** What the engine dropped from its own log when it last opened, from its diary: it tells nobody else. */
export async function droppedAtOpen(database: string): Promise<string | null> {
  const diary = (await readFile(join(database, 'LOG'), 'latin1').catch(absent)) ?? '';
  const drops = [...diary.matchAll(/dropping (\d+) bytes; (.*)/g)];
  const bytes = drops.reduce((sum, [, count]) => sum + Number(count), 0);
  return drops.length === 0 ? null : `the engine dropped ${bytes} bytes of its log when it opened (${drops[0]?.[2]})`;
}

/** SIDE-FILES-5: stands afterwards, or throws. Needs its own size again as free room. */
export async function raiseBallast(path: string, bytes: number): Promise<void> {
  if (bytes === 0 || (await stat(path).catch(absent))?.size === bytes) return;
  await releaseBallast(path);
  const { bavail, bsize } = await statfs(dirname(path));
  if (bavail * bsize < 2 * bytes) throw new Error(`the disk has less than ${2 * bytes} bytes of room`);
  const file = await open(path, 'w');
  try {
    // Random bytes: a file system that compresses or knows holes would keep no room for anything else.
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

/** SIDE-FILES-6, SIDE-FILES-7: what of the engine's directory has to be on the disk besides what the engine syncs. */
export class Names {
  readonly #directory: string;
  /** Number of the last log that the engine has closed and that is on the disk. */
  #closedLog = 0;
  /** When the names last changed, as far as they are on the disk; nanoseconds. */
  #syncedAt = -1n;
  #handle: FileHandle | null = null;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Resolves when every name that stands now, and every closed log, is on the disk. A few microseconds when no name is new. */
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
    // The clock of a file system stands still for some milliseconds: a later change may bear the same time.
    if (begun - mtimeNs > STILL_NS) this.#syncedAt = mtimeNs;
  }

  async close(): Promise<void> {
    await this.#handle?.close();
    this.#handle = null;
  }

  /** SIDE-FILES-7: all but the newest. The engine removes a log only when a synced table holds what was in it. */
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

/** Of a directory that was just made: its name, and that of the directory that holds it. */
export async function syncNames(directory: string): Promise<void> {
  await syncDirectory(dirname(directory));
  // Whose directory is above may be nobody that we may read: then its owner made the name, and not we.
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
