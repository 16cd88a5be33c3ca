/**
 * Backups of a store: a second database of the same format, written from a snapshot of the running one.
 *
 *     {backup}/manifest.json    contents, and a digest over all of them
 *     {backup}/store/           a store in the layout of a data directory
 *
 * With a public key, it is sealed: `sealed-backup.ts`.
 *
 * BACKUP-1  A backup never copies or links files that the engine has open, because the engine goes on writing them.
 * BACKUP-2  A backup gets its final name last, after every byte was synced, read back and compared with the snapshot. A
 *     crash leaves a directory named `….partial`, which no command accepts as a backup.
 * BACKUP-3  Damaged records are not copied: a backup of a damaged store fails and names the damage.
 * BACKUP-4  A backup of a running store pauses after each piece for as long as the piece took: neither requests nor
 *     commits wait for it.
 */
import { createHash } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, realpath, rename, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { sleep } from '../../src/kit/clock.ts';
import { closing } from '../../src/kit/concurrency.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import type { BackupManifest, BackupOptions, Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { inspect, newerFormat } from '../records.ts';
import type { BackupKey, Sealing } from './backup-keys.ts';
import { chunks, type Database, type OnPoint, openDatabase } from './leveldb.ts';
import { MARK_FILES, readMarks, writeMarks } from './marks.ts';
import { OpenedBackup, SEALED, SEALED_FORMAT, type SealedManifest, sealBackup } from './sealed-backup.ts';
import { absent, syncDirectory, withFile } from './side-files.ts';
import { examine } from './verify.ts';

const FORMAT = 2;
const MANIFEST = 'manifest.json';
/** Manifest of format 1, which listed several logs. Every such backup has only log 0. */
type Format1 = Omit<BackupManifest, 'format' | 'head' | 'horizon'> & {
  readonly format: 1;
  readonly heads: Readonly<Record<string, Seq>>;
  readonly horizons: Readonly<Record<string, Seq>>;
};
/** Records per piece: a few milliseconds of work. */
const PIECE = 100;
const REST_MS_MAX = 50;

export interface Source {
  readonly db: Database;
  readonly token: number;
  /** Directory of the backup. */
  readonly directory: string;
  /** The store's own directory. The backup must be outside its parent, the data directory. */
  readonly within: string;
  readonly point: OnPoint;
  /** The store is in use during the backup. [BACKUP-4] */
  readonly isRunning: boolean;
  /** The last use ended cleanly, or its losses were repaired when the store was opened. [MARKS-5] */
  readonly clean: boolean;
  /** Null: the backup is not sealed. */
  readonly sealing: Sealing | null;
}

/** `rest` is awaited between two pieces. */
interface Pace {
  readonly rest: () => Promise<void>;
}

/** A backup to make, from any kind of source. */
export interface Plan extends Pick<Source, 'directory' | 'token' | 'point' | 'isRunning' | 'clean' | 'sealing'> {
  /** Free disk space that the backup may need. */
  readonly bytes: number;
  /** Writes the database into an empty directory. Resolves with the digest over every key and value in order. */
  readonly copy: (target: string, options: BackupOptions & Pace) => Promise<string>;
}

const restless = async (): Promise<void> => {};

/** Pauses for so many times as long as the previous piece took, at most so many times 50 ms. [BACKUP-4] */
export function restful(times = 1): () => Promise<void> {
  let begun = systemClock.monotonic();
  return async () => {
    await sleep(systemClock, times * Math.min(REST_MS_MAX, systemClock.monotonic() - begun));
    begun = systemClock.monotonic();
  };
}

export async function writeBackup(source: Source, options: BackupOptions): Promise<BackupManifest> {
  const { db, directory, within } = source;
  await mustBeOutside(directory, within);
  const copy = (target: string, paced: BackupOptions & Pace) => {
    const snapshot = db.snapshot();
    return copyRecords(db, snapshot, target, paced).finally(() => snapshot.close());
  };
  return makeBackup({ ...source, bytes: await sizeOf(join(within, 'db')), copy }, options);
}

export async function makeBackup(plan: Plan, options: BackupOptions): Promise<BackupManifest> {
  const { directory, token, clean, point, sealing } = plan;
  const paced = { ...options, rest: plan.isRunning ? restful() : restless };
  await mustBeFree(directory);
  await mustFit(directory, plan.bytes);
  const partial = `${directory}.partial`;
  await removeLeftover(partial);
  if (sealing !== null) await makeRoom(sealing.staging, plan.bytes, directory);
  const plain = sealing?.staging ?? partial;
  const target = join(plain, 'store', 'db');
  await mkdir(target, { recursive: true });
  try {
    const copied = await plan.copy(target, paced);
    point('backup.copied');
    const examined = await examineCopy(join(plain, 'store'), paced);
    const manifest = sealing === null ? examined : { ...examined, sealed_for: sealing.fingerprint };
    if (manifest.digest !== copied) throw new Error('the backup does not hold what was written to it');
    await writeMarks(join(plain, 'store'), { head: manifest.head, token, clean, store: null });
    await writeFile(join(plain, MANIFEST), withChecksum(manifest));
    if (sealing !== null) {
      const sealed = await sealBackup(plain, partial, sealing, { ...paced, madeAt: manifest.made_at });
      await writeFile(join(partial, MANIFEST), withChecksum(sealed));
      point('backup.sealed');
    }
    await syncTree(partial);
    point('backup.synced');
    options.signal?.throwIfAborted();
    await rename(partial, directory);
    await syncDirectory(dirname(directory));
    point('backup.named');
    return manifest;
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    throw error;
  } finally {
    if (sealing !== null) await rm(sealing.staging, { recursive: true, force: true });
  }
}

/** Makes room for a readable copy of the store, beside which a sealed one needs as much. */
async function makeRoom(staging: string, bytes: number, directory: string): Promise<void> {
  await removeLeftover(staging);
  const [parent, other] = [dirname(staging), dirname(directory)];
  await mkdir(parent, { recursive: true, mode: 0o700 });
  const isSameDisk = (await stat(parent)).dev === (await stat(other)).dev;
  await mustFit(staging, isSameDisk ? 2 * bytes : bytes);
}

export interface ReadableBackup {
  readonly manifest: BackupManifest;
  /** Null: the files are not sealed. */
  readonly opened: OpenedBackup | null;
}

/**
 * Reads the manifest of a backup, and opens a sealed one. Rejects when there is none, when the manifest was changed, or
 * when the backup is sealed and the key is not its.
 */
export async function readBackup(backup: string, key: BackupKey | null): Promise<ReadableBackup> {
  const text = await readFile(join(backup, MANIFEST), 'utf8').catch(absent);
  if (text === null) throw new Error(`${backup} is no backup: it has no ${MANIFEST}`);
  const outer = manifestIn(backup, text);
  if (outer.format !== SEALED_FORMAT) return { manifest: outer, opened: null };
  const opened = await OpenedBackup.open(backup, outer, key);
  const manifest = manifestIn(backup, await opened.text(MANIFEST));
  if (manifest.format === SEALED_FORMAT) throw new Error(`${backup} is sealed twice`);
  return { manifest, opened };
}

function manifestIn(backup: string, text: string): BackupManifest | SealedManifest {
  type Any = BackupManifest | Format1 | SealedManifest;
  let manifest: Any | null = null;
  try {
    const { checksum, ...rest } = JSON.parse(text) as Any & { checksum: string };
    if (checksum === sha256(JSON.stringify(rest))) manifest = rest;
  } catch {
    // Reported below: text that is not JSON is as damaged as one with a wrong checksum.
  }
  if (manifest === null) throw new Error(`${join(backup, MANIFEST)} is damaged`);
  if (manifest.format === 1) return ofFormat1(manifest);
  if (manifest.format === FORMAT || manifest.format === SEALED_FORMAT) return manifest;
  const { format }: { format: unknown } = manifest;
  throw newerFormat(backup, String(format), SEALED_FORMAT);
}

function ofFormat1({ format: _, heads, horizons, ...rest }: Format1): BackupManifest {
  return { ...rest, format: FORMAT, head: heads[0] ?? 0, horizon: horizons[0] ?? 0 };
}

/** Resolves with the digest of the records written. */
async function copyRecords(
  db: Database,
  snapshot: ReturnType<Database['snapshot']>,
  target: string,
  { progress, signal, rest }: BackupOptions & Pace,
): Promise<string> {
  const digest = createHash('sha256');
  let records = 0;
  await closing(await openDatabase(target, true), async (copy) => {
    for await (const piece of chunks(db, keys.EVERYTHING, PIECE, null, snapshot)) {
      signal?.throwIfAborted();
      const batch = copy.batch();
      for (const [key, value] of piece) {
        if (inspect(key, value) !== 'sound') throw new Error(`the record ${JSON.stringify(key)} is damaged`);
        batch.put(key, value);
        digest.update(key).update(value);
      }
      await batch.write();
      records += piece.length;
      progress?.('copying', records);
      await rest();
    }
  });
  return digest.digest('hex');
}

/** Opens a store that no process uses, verifies every record and counts them. Rejects when anything is wrong. */
export async function examineCopy(
  store: string,
  { progress, signal, rest = restless }: BackupOptions & Partial<Pace>,
): Promise<BackupManifest> {
  const database = join(store, 'db');
  const marks = await readMarks(store);
  if (marks.isNew) throw new Error(`${database} holds no database`);
  return closing(await openDatabase(database, false), async (db) => {
    const digest = createHash('sha256');
    let [records, bytes] = [0, 0];
    const each = (key: string, value: string): void => {
      digest.update(key).update(value);
      records += 1;
      bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
      if (records % 1000 === 0) progress?.('verifying', records);
      signal?.throwIfAborted();
    };
    const {
      found,
      records: counts,
      reindex,
      drop,
    } = await examine(db, marks, {
      each,
      lot: PIECE,
      between: rest,
      isCounting: true,
    });
    const wrong = [
      ...found.faults,
      ...[...found.damagedRows.keys(), ...drop].map((key) => `${JSON.stringify(key)} is damaged`),
    ];
    if (reindex) wrong.push('its indexes are damaged');
    if (wrong.length > 0) throw new Error(`the copy is not whole: ${wrong.slice(0, 3).join('; ')}`);
    const count = (space: string): number => counts.get(space) ?? 0;
    return {
      format: FORMAT,
      made_at: new Date().toISOString(),
      head: found.head,
      horizon: found.horizon.seq,
      events: count('e'),
      rows: count('o'),
      deliveries: count('p') + count('d'),
      timers: count('t'),
      records,
      bytes,
      digest: digest.digest('hex'),
    };
  });
}

/** Compares what the paths lead to: either may have symbolic links. */
async function mustBeOutside(directory: string, within: string): Promise<void> {
  const inside = relative(await placeOf(dirname(within)), await placeOf(directory));
  if (isAbsolute(directory) && (inside === '' || !(inside.startsWith('..') || isAbsolute(inside)))) {
    throw new Error(`${directory} is inside the data directory: choose a place outside it`);
  }
}

/** The real path of a file that need not exist yet. */
async function placeOf(path: string): Promise<string> {
  const parent = dirname(resolve(path));
  const real = await realpath(path).catch(absent);
  return real ?? (parent === resolve(path) ? parent : join(await placeOf(parent), basename(path)));
}

async function mustBeFree(directory: string): Promise<void> {
  if (!isAbsolute(directory)) throw new Error(`${JSON.stringify(directory)} is not an absolute path`);
  const kind = await stat(directory).catch(absent);
  if (kind !== null && !kind.isDirectory()) throw new Error(`${directory} is no directory`);
  if (kind !== null && (await readdir(directory)).length > 0) throw new Error(`${directory} is not empty`);
  const parent = await stat(dirname(directory)).catch(absent);
  if (!parent?.isDirectory()) throw new Error(`${dirname(directory)} is no directory`);
}

async function sizeOf(database: string): Promise<number> {
  const files = await readdir(database);
  const sizes = await Promise.all(
    files.map(async (file) => (await stat(join(database, file)).catch(absent))?.size ?? 0),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** The disk may be the hub's own: a backup that cannot fit must not fill it up. */
async function mustFit(directory: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(directory));
  if (bavail * bsize < bytes)
    throw new Error(`${dirname(directory)} has less free space than the store takes, ${bytes} bytes`);
}

/** Removes the partial copy that a crash left, and rejects when the directory is not one. [BACKUP-2] */
export async function removeLeftover(partial: string): Promise<void> {
  const names = await readdir(partial).catch(absent);
  if (names === null) return;
  const ours = new Set(['store', SEALED, MANIFEST, 'db', ...MARK_FILES, 'ballast']);
  if (names.some((name) => !ours.has(name)))
    throw new Error(`${partial} exists and was not made by ocpi-hub: move it away`);
  await rm(partial, { recursive: true });
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

function withChecksum(manifest: BackupManifest | SealedManifest): string {
  return `${JSON.stringify({ ...manifest, checksum: sha256(JSON.stringify(manifest)) }, null, 2)}\n`;
}

/** Syncs every file, then every directory. Restricts them to their owner, whatever the copied permissions. */
export async function syncTree(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) await syncTree(path);
    else await syncFile(path);
  }
  await chmod(directory, 0o700);
  await syncDirectory(directory);
}

async function syncFile(path: string): Promise<void> {
  await withFile(path, async (file) => {
    await file.chmod(0o600);
    await file.sync();
  });
}
