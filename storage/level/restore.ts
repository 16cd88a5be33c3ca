/**
 * Restores a store directory from a backup, and backs up or verifies a store that no process uses.
 *
 * RESTORE-1  Restoring opens a copy, never the backup: opening changes files, and a backup may be on a read-only
 *     medium.
 * RESTORE-2  A store at the target is moved aside under a name of its own; nothing is deleted.
 * RESTORE-3  Verifying repairs nothing: it reports what is wrong, and what the hub would do about it at its next start.
 */
import { cp, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { closing } from '../../src/kit/concurrency.ts';
import type { BackupManifest, BackupOptions } from '../contract.ts';
import { StoreUnavailable } from '../contract.ts';
import { examineCopy, readBackup, removeLeftover, syncTree, writeBackup } from './backup.ts';
import type { BackupKey, Sealing } from './backup-keys.ts';
import { DirtyFlag } from './dirty-flag.ts';
import { reportOf, type StoreReport } from './inspect.ts';
import { EngineDied, inspectIsolated } from './inspect-isolated.ts';
import { isInUse, openDatabase } from './leveldb.ts';
import { readMarks, writeMarks } from './marks.ts';
import { absent, syncDirectory } from './side-files.ts';
import { opening } from './unopened.ts';

export interface Restored {
  readonly manifest: BackupManifest;
  /** New path of the store that was at the target before; null when there was none. */
  readonly aside: string | null;
}

export interface RestoreOptions {
  /** Move a store at the target aside, instead of rejecting. */
  readonly replace: boolean;
  /** Time stamp in the name of the store moved aside. */
  readonly now: Date;
  readonly progress?: BackupOptions['progress'];
  /** The private key of a sealed backup. */
  readonly key?: BackupKey | null;
}

/**
 * Restores a backup to `target`. Rejects, and leaves the target unchanged, when the backup is not complete, when it is
 * sealed and the key is not its, when the target is in use, or when the target is not empty and `replace` is false.
 */
export async function restoreBackup(
  backup: string,
  target: string,
  { replace, progress, now, key = null }: RestoreOptions,
): Promise<Restored> {
  const { manifest, opened } = await readBackup(backup, key);
  const present = await unusedAt(target);
  if (present.length > 0 && !replace) throw new Error(`${target} is not empty: a store stands there already`);
  const partial = `${target}.partial`;
  await removeLeftover(partial);
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  try {
    if (opened !== null) await opened.write('store/', partial);
    else await cp(join(backup, 'store'), partial, { recursive: true });
    const copy = await examineCopy(partial, progress ? { progress } : {});
    if (copy.digest !== manifest.digest) throw new Error(`${backup} does not hold what its manifest says`);
    const [mark = { head: copy.head, token: 0, clean: false, store: null }] = (await readMarks(partial)).held;
    // The engine has rewritten its own files meanwhile; the marks must name the present ones.
    await writeMarks(partial, mark);
    await syncTree(partial);
    const aside = present.length > 0 ? `${target}.before-${now.toISOString().replaceAll(':', '')}` : null;
    // The copy took its time: a hub may have been started meanwhile.
    await unusedAt(target);
    if (aside !== null) await rename(target, aside);
    await rename(partial, target);
    await syncDirectory(dirname(target));
    return { manifest, aside };
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    throw error;
  }
}

/** The names in a directory. Rejects when a process uses the store there. */
async function unusedAt(directory: string): Promise<string[]> {
  const names = (await readdir(directory).catch(absent)) ?? [];
  if (names.includes('db') && (await isInUse(join(directory, 'db')))) {
    throw new StoreUnavailable(`${directory} is in use by another process: stop the hub first`);
  }
  return names;
}

/** Backs up a store that no process uses. Rejects like `Store.backup`. */
export async function backupStore(
  store: string,
  directory: string,
  { sealing = null, ...options }: BackupOptions & { readonly sealing?: Sealing | null } = {},
): Promise<BackupManifest> {
  const database = join(store, 'db');
  const { held, isNew } = await opening(store, readMarks(store));
  if (isNew) throw new Error(`${store} holds no store`);
  const { faults, warning } = (await inspectIsolated(store)).report;
  if (faults.length > 0) throw new Error(`a damaged store is not backed up: ${faults.join('; ')}`);
  return closing(await openDatabase(database, false), async (db) => {
    const [{ token, clean: wasClean } = { token: 0, clean: false }] = held;
    // What the log has lost is repaired when the copy is opened.
    const isLost = warning !== null || (await new DirtyFlag(store).read())?.lost === true;
    const clean = wasClean && !isLost;
    const place = { directory, within: store };
    const source = { db, token, ...place, point: () => {}, isRunning: false, clean, sealing };
    return await writeBackup(source, options);
  });
}

/** Whether a directory is one that `restoreBackup` takes. A copy that was interrupted looks like a data directory. */
export const isBackup = async (directory: string): Promise<boolean> =>
  (await namesIn(directory)).includes('manifest.json');

const namesIn = async (directory: string): Promise<string[]> =>
  (await opening(directory, readdir(directory).catch(absent))) ?? [];

export interface VerifiedStore extends StoreReport {
  /** Manifest of the backup; null for the store of a data directory. */
  readonly manifest: BackupManifest | null;
}

/**
 * Verifies a whole data directory or backup, a sealed one in a temporary copy. Rejects when it has no store, when the
 * store is in use, or when it is sealed and the key is not its. [RESTORE-3]
 */
export async function verifyStore(
  directory: string,
  progress: (records: number) => void = () => {},
  key: BackupKey | null = null,
): Promise<VerifiedStore> {
  const names = await namesIn(directory);
  const { manifest, opened } = (await isBackup(directory))
    ? await readBackup(directory, key)
    : { manifest: null, opened: null };
  if (opened === null && !names.includes('store')) throw new Error(`${directory} has no store`);
  if (opened === null) return verifyAt(join(directory, 'store'), manifest, progress);
  const readable = await mkdtemp(join(tmpdir(), 'ocpi-hub-verify-'));
  try {
    await opened.write('store/', readable);
    return await verifyAt(readable, manifest, progress);
  } finally {
    await rm(readable, { recursive: true, force: true });
  }
}

async function verifyAt(
  store: string,
  manifest: BackupManifest | null,
  progress: (records: number) => void,
): Promise<VerifiedStore> {
  const { report, digest } = await inspectIsolated(store, progress).catch((error: unknown) => {
    if (error instanceof EngineDied) return { report: reportOf(null, error.message), digest: null };
    throw error;
  });
  const differs = manifest !== null && digest !== null && digest !== manifest.digest;
  const faults = differs ? [...report.faults, 'it does not hold what its manifest says'] : report.faults;
  return { ...report, faults, manifest };
}
