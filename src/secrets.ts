/**
 * Everything secret is made, digested, sealed and kept here.
 *
 * K1  A token that the hub gave out is stored as a digest; a token that the hub must send is stored sealed. [D8, D10]
 * K2  The key stands outside the database: in `HUB_SECRET_KEY`, else in a file that only its owner may read.
 * K3  An error about a secret never holds it.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes, randomUUID, scryptSync } from 'node:crypto';
import { type FileHandle, mkdir, open, readFile, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Config } from './config.ts';
import type { Log, Secrets } from './hub/ports.ts';

const cipher = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
/** Form of a sealed text: version, then base64url of nonce, tag and ciphertext. A later form gets a later version. */
const version = 'v1';

export class SealError extends Error {
  override readonly name = 'SealError';
}

/** `secretKey` is any text; a slow derivation makes short ones costly to guess (about 50 ms, once). */
export function createSecrets(secretKey: string): Secrets {
  const key = scryptSync(secretKey, 'ocpi-hub sealed tokens', 32);
  return {
    newToken,
    digest: (token) => createHash('sha256').update(token).digest('base64url'),
    seal: (text) => seal(key, text),
    open: (sealed) => unseal(key, sealed),
    // Version 4: native, without a clock, and it tells a partner nothing about when or how many. Nothing in the hub is
    // ordered by id; the event log's sequence is the order.
    newId: () => randomUUID(),
  };
}

function newToken(): string {
  return randomBytes(32).toString('base64url');
}

function seal(key: Buffer, text: string): string {
  const nonce = randomBytes(nonceBytes);
  const sealing = createCipheriv(cipher, key, nonce, { authTagLength: tagBytes }).setAAD(Buffer.from(version));
  const content = Buffer.concat([sealing.update(text, 'utf8'), sealing.final()]);
  return `${version}.${Buffer.concat([nonce, sealing.getAuthTag(), content]).toString('base64url')}`;
}

function unseal(key: Buffer, sealed: string): string {
  const [form, content, ...rest] = sealed.split('.');
  if (form !== version || content === undefined || rest.length > 0) {
    throw new SealError(`not a sealed text of form ${version}`);
  }
  const bytes = Buffer.from(content, 'base64url');
  const body = nonceBytes + tagBytes;
  try {
    const opening = createDecipheriv(cipher, key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
      .setAAD(Buffer.from(version))
      .setAuthTag(bytes.subarray(nonceBytes, body));
    return Buffer.concat([opening.update(bytes.subarray(body)), opening.final()]).toString('utf8');
  } catch {
    throw new SealError('a sealed text cannot be opened: it is damaged or HUB_SECRET_KEY is another than it was');
  }
}

export interface HubKeys {
  readonly adminToken: string;
  readonly secretKey: string;
}

/**
 * The admin token and the secret key: configured, else kept in the data directory, else made and kept there (mode 0600).
 * Call it while holding the data directory, so that two hubs starting at once do not make one each.
 */
export async function hubKeys(
  config: Pick<Config, 'dataDir' | 'adminToken' | 'secretKey'>,
  log: Log,
): Promise<HubKeys> {
  const kept = (name: string) => keepSecret(join(config.dataDir, name), log);
  return {
    adminToken: config.adminToken ?? (await kept('admin-token')),
    secretKey: config.secretKey ?? (await kept('secret-key')),
  };
}

async function keepSecret(path: string, log: Log): Promise<string> {
  const present = await readSecret(path, log);
  if (present !== null) return present;
  const made = newToken();
  await writeDurably(path, `${made}\n`);
  log.info({ path }, 'made a secret and kept it in a file');
  return made;
}

async function readSecret(path: string, log: Log): Promise<string | null> {
  let text: string;
  try {
    text = (await readFile(path, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  if (text === '') throw new Error(`${path} is empty: expected the secret that was made at first start`);
  const { mode } = await stat(path);
  if ((mode & 0o077) !== 0) log.warn({ path, mode: (mode & 0o777).toString(8) }, 'a secret can be read by others');
  return text;
}

/** The file is whole or absent, whatever happens meanwhile. */
async function writeDurably(path: string, text: string): Promise<void> {
  const directory = dirname(path);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const temporary = `${path}.${process.pid}.tmp`;
  await synced(temporary, 'w', async (file) => {
    // An older file of this name keeps its mode when it is opened again.
    await file.chmod(0o600);
    await file.writeFile(text);
  });
  await rename(temporary, path);
  await synced(directory, 'r', async () => {});
}

async function synced(path: string, flags: string, use: (file: FileHandle) => Promise<void>) {
  const file = await open(path, flags, 0o600);
  try {
    await use(file);
    await file.sync();
  } finally {
    await file.close();
  }
}
