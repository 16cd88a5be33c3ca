/**
 * An ext4 file system of the kernel on a disk whose writes are logged (`child.ts`), and the same disk as a power cut may have left it.
 *
 * TEST-LOGGED-DISK-1  What was written before a flush is on the disk. Of what was written since, a cut leaves all, nothing, the first so many
 *     writes, some of them, or some sectors of some: disks have caches, and promise an order only by flushes.
 * TEST-LOGGED-DISK-2  A disk that was cut is mounted by the kernel, which replays the journal; nothing else mends it.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, ftruncateSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Random } from '../random.ts';
import { type Entry, readBlockLog } from './block-log.ts';

const sectorBytes = 512;
const pageBytes = 4096;
const mebibyte = 1 << 20;

export interface LoggedDisk {
  /** Where the file system is mounted. */
  readonly path: string;
  /** Lines that are written here go into the log of the disk. */
  readonly told: string;
}

export interface DiskOptions {
  readonly mebibytes: number;
  /** Of the mount, e.g. `data=writeback`. */
  readonly options: string;
}

/** Works on a fresh file system, and gives the log of its disk from the end of `mkfs` to the unmount. */
export async function onLoggedDisk(
  directory: string,
  { mebibytes, options }: DiskOptions,
  work: (disk: LoggedDisk) => Promise<void>,
): Promise<Entry[]> {
  const [image, log, fuse, path] = ['image', 'log', 'fuse', 'fs'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
    string,
  ];
  for (const each of [fuse, path]) mkdirSync(each, { recursive: true });
  makeFileSystem(image, mebibytes);
  const connection = openSync('/dev/fuse', 'r+');
  const server = spawn(process.execPath, [join(import.meta.dirname, 'child.js'), image, log], {
    stdio: ['ignore', 'inherit', 'inherit', connection],
  });
  const served = once(server, 'close');
  try {
    await run(
      'mount',
      ['-i', '-t', 'fuse', '-o', 'fd=3,rootmode=40000,user_id=0,group_id=0', 'disk', fuse],
      connection,
    );
    try {
      await run('mount', ['-t', 'ext4', '-o', `loop,commit=1,${options}`, join(fuse, 'disk'), path]);
      try {
        await work({ path, told: join(fuse, 'told') });
      } finally {
        await run('umount', [path]);
      }
    } finally {
      await run('umount', [fuse]);
    }
  } finally {
    closeSync(connection);
  }
  await served;
  return readBlockLog(log);
}

/** Why there is no such disk here; null when there is. */
export function whyNoLoggedDisk(): string | null {
  const directory = mkdtempSync(join(tmpdir(), 'cut-disk-'));
  const image = join(directory, 'image');
  try {
    closeSync(openSync('/dev/fuse', 'r+'));
    makeFileSystem(image, 8);
    const { status, stderr } = spawnSync('mount', ['-t', 'ext4', '-o', 'loop', image, directory], { encoding: 'utf8' });
    if (status === 0) spawnSync('umount', [directory]);
    return status === 0 ? null : `an image cannot be mounted here: ${stderr.trim()}`;
  } catch (error) {
    return `a disk cannot be made here: ${error instanceof Error ? error.message : String(error)}`;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** A power cut leaves of the writes since the last flush … [TEST-LOGGED-DISK-1] */
const losses = ['all', 'none', 'first', 'some', 'sectors'] as const;

/** The disk from its beginning on, entry by entry. */
export class CutDisk {
  readonly #size: number;
  /** What is on the disk for certain, by page. */
  readonly #pages = new Map<number, Buffer>();
  /** Writes since the last flush. */
  #cached: Entry[] = [];

  constructor(image: string) {
    const bytes = readFileSync(image);
    this.#size = bytes.length;
    const zero = Buffer.alloc(pageBytes);
    for (let at = 0; at < bytes.length; at += pageBytes) {
      const page = bytes.subarray(at, at + pageBytes);
      if (!page.equals(zero)) this.#pages.set(at / pageBytes, Buffer.from(page));
    }
  }

  take(entry: Entry): void {
    if (entry.kind === 'write') this.#cached.push(entry);
    if (entry.kind !== 'flush') return;
    for (const { at, data } of this.#cached) put(this.#pages, at, data);
    this.#cached = [];
  }

  /** Makes the image that a power cut now may leave. Says what was lost. */
  cut(image: string, random: Random): string {
    const loss = random.pick(losses);
    const cached = this.#cached;
    const first = random.below(cached.length + 1);
    const isKept = (n: number): boolean => {
      if (loss === 'first') return n < first;
      return loss === 'all' || loss === 'sectors' || (loss === 'some' && random.happens(0.5));
    };
    const step = loss === 'sectors' ? sectorBytes : Number.POSITIVE_INFINITY;
    const fresh = new Map<number, Buffer>();
    for (const { at, data } of cached.filter((_, n) => isKept(n))) {
      for (let from = 0; from < data.length; from += step) {
        if (loss !== 'sectors' || random.happens(0.5))
          overlay(this.#pages, fresh, at + from, data.subarray(from, from + step));
      }
    }
    const file = openSync(image, 'w');
    ftruncateSync(file, this.#size);
    for (const [n, page] of [...this.#pages, ...fresh]) writeSync(file, page, 0, page.length, n * pageBytes);
    closeSync(file);
    return `${loss} of ${cached.length} writes`;
  }
}

/** Writes into a copy of what is on the disk. */
function overlay(pages: ReadonlyMap<number, Buffer>, fresh: Map<number, Buffer>, at: number, data: Buffer): void {
  for (let n = Math.floor(at / pageBytes); n * pageBytes < at + data.length; n += 1) {
    if (!fresh.has(n)) fresh.set(n, Buffer.from(pages.get(n) ?? Buffer.alloc(pageBytes)));
  }
  put(fresh, at, data);
}

function put(pages: Map<number, Buffer>, at: number, data: Buffer): void {
  for (let from = 0; from < data.length; ) {
    const n = Math.floor((at + from) / pageBytes);
    const within = (at + from) % pageBytes;
    const page = pages.get(n) ?? Buffer.alloc(pageBytes);
    pages.set(n, page);
    from += data.copy(page, within, from, from + pageBytes - within);
  }
}

/** Mounts a disk that was cut, and looks at what is there. [TEST-LOGGED-DISK-2] */
export async function onCutDisk<T>(image: string, path: string, look: (path: string) => Promise<T>): Promise<T> {
  mkdirSync(path, { recursive: true });
  await run('mount', ['-t', 'ext4', '-o', 'loop', image, path]);
  try {
    return await look(path);
  } finally {
    await run('umount', [path]);
  }
}

function makeFileSystem(image: string, mebibytes: number): void {
  const file = openSync(image, 'w');
  ftruncateSync(file, mebibytes * mebibyte);
  closeSync(file);
  const { status, stderr, error } = spawnSync('mkfs.ext4', ['-q', '-F', image], { encoding: 'utf8' });
  if (status !== 0) throw error ?? new Error(`mkfs.ext4: ${stderr}`);
}

/** A server of this process's own may have to answer meanwhile: nothing may block. */
async function run(program: string, args: readonly string[], fd?: number): Promise<void> {
  const running = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit', ...(fd === undefined ? [] : [fd])] });
  const [code] = (await once(running, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${code}`);
}
