/**
 * The data directory. It holds card numbers, and the keys of everything else, so nobody but the hub's user may read it.
 *
 * DATA-DIRECTORY-1  Root starts no hub on the store of another user: the engine writes files, and the hub, which runs as that user,
 *     could not open what root has written. A file system that gives that user what root writes, as NFS with `root_squash`, is taken.
 */
import { lstatSync, mkdtempSync, rmdirSync, statSync } from 'node:fs';
import { access, constants, mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, settingIs } from './config/config.ts';

/** Permissions of group and others. */
const ofOthers = 0o077;

/**
 * Makes the directory (mode 0700) if it is missing, and returns where its store is. Throws `ConfigError` when other users may read or
 * write the directory, or when this is root and the store is another user's.
 */
export async function ownDirectory(path: string): Promise<string> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    await access(path, constants.W_OK | constants.X_OK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const expected = `a directory that the user of the hub can make and write (${code ?? message})`;
    throw new Error(settingIs('HUB_DATA_DIR', JSON.stringify(path), expected), { cause: error });
  }
  await refuseShared(path);
  const store = join(path, 'store');
  const owner = otherThanRoot(store);
  if (owner !== null) throw new ConfigError(`${owner.why}: run the hub as that user (sudo -u '#${owner.uid}')`);
  return store;
}

/**
 * The user, not root, of what root is about to open; null when this process is not root, when there is no such user or path, and when the
 * file system gives that user what root writes there.
 */
export function otherThanRoot(
  path: string,
  ownerOf = ownerOfNew,
): { readonly uid: number; readonly why: string } | null {
  const uid = statSync(path, { throwIfNoEntry: false })?.uid ?? 0;
  // Windows has no such users.
  if (process.geteuid?.() !== 0 || uid === 0 || uid === ownerOf(path)) return null;
  return { uid, why: `${path} belongs to user ${uid}, who cannot open what root writes there` };
}

/** The user to whom the file system gives what this process makes in a directory; null when it can make nothing there. */
function ownerOfNew(directory: string): number | null {
  try {
    const made = mkdtempSync(join(directory, '.owner-'));
    try {
      return lstatSync(made).uid;
    } finally {
      rmdirSync(made);
    }
  } catch {
    return null;
  }
}

/** Throws `ConfigError` when other users may read or write the directory; one that is missing passes. */
export async function refuseShared(path: string): Promise<void> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  // Windows has no such permissions.
  if (found === null || process.platform === 'win32' || (found.mode & ofOthers) === 0) return;
  const mode = (found.mode & 0o777).toString(8).padStart(4, '0');
  throw new ConfigError(
    `HUB_DATA_DIR (--data-dir) is ${JSON.stringify(path)}, which other users may read or write (mode ${mode}): ` +
      'expected a directory for the user of the hub alone (chmod 700)',
  );
}
