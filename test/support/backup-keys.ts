/** A pair of keys for sealed backups, in files as operators have them. */
import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BackupKey, privateKeyIn, publicKeyIn } from '../../storage/level/backup-keys.ts';

export interface BackupKeys {
  readonly publicPath: string;
  readonly privatePath: string;
  readonly publicKey: BackupKey;
  readonly privateKey: BackupKey;
}

export function backupKeysIn(directory: string): BackupKeys {
  mkdirSync(directory, { recursive: true });
  const { publicKey, privateKey } = generateKeyPairSync('x25519', {
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const [publicPath, privatePath] = [join(directory, 'backup-public.pem'), join(directory, 'backup-private.pem')];
  writeFileSync(publicPath, publicKey);
  writeFileSync(privatePath, privateKey, { mode: 0o600 });
  return { publicPath, privatePath, publicKey: publicKeyIn(publicKey), privateKey: privateKeyIn(privateKey) };
}
