/**
 * The data directory. It holds card numbers, and the keys of everything else, so nobody but the hub's user may read it.
 */
import { mkdir, stat } from 'node:fs/promises';
import { ConfigError } from './config.ts';

/** Permissions of group and others. */
const ofOthers = 0o077;

/** Makes the directory (mode 0700) if it is missing. Throws `ConfigError` when other users may read or write it. */
export async function ownDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await refuseShared(path);
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
