/**
 * The files with the keys of backups: the hub and `store backup` read the public one, `store restore` and `store verify`
 * the private one.
 */
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type BackupKey, privateKeyIn, publicKeyIn, type Sealing } from '../storage/level/backup-keys.ts';
import { type Config, ConfigError } from './config/config.ts';

const stagingIn = (dataDir: string): string => join(dataDir, 'store.unsealed');

/** Null when backups are not sealed. Throws `ConfigError`. */
export function sealingOf({ backupPublicKey, dataDir }: Pick<Config, 'backupPublicKey' | 'dataDir'>): Sealing | null {
  if (backupPublicKey === null) return null;
  return {
    ...keyIn(backupPublicKey, publicKeyIn, 'HUB_BACKUP_PUBLIC_KEY (--backup-public-key)'),
    staging: stagingIn(dataDir),
  };
}

/** Throws `ConfigError`. */
export const privateKeyOf = (path: string): BackupKey => keyIn(path, privateKeyIn, '--private-key');

/** Removes the readable copy that a kill in the middle of a sealed backup left in the data directory. */
export async function removeUnsealed(dataDir: string): Promise<void> {
  await rm(stagingIn(dataDir), { recursive: true, force: true });
}

function keyIn(path: string, read: (pem: string) => BackupKey, setting: string): BackupKey {
  try {
    return read(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new ConfigError(`${setting} is ${JSON.stringify(path)}, which is not usable: ${(error as Error).message}`);
  }
}
