/**
 * Generates, digests, seals (encrypts) and stores all secrets of the hub.
 *
 * SECRETS-1  A token that the hub issued is stored as a digest; a token that the hub must send is stored sealed. [D8,
 *     D10]
 * SECRETS-2  The key is outside the database: in `HUB_SECRET_KEY`, else in a file that only its owner may read.
 * SECRETS-3  An error about a secret never contains it.
 * SECRETS-4  A hub starts only with keys that open every sealed text, and generates a key only when no sealed text
 *     needs a missing one.
 * SECRETS-5  A sealed token opens only for the partner for whom it was sealed: copied into the row or event of another
 *     one it is refused. A text of version v1 names no partner; it opens for any, and is stale.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  hash,
  randomBytes,
  randomUUID,
  scrypt,
  scryptSync,
} from 'node:crypto';
import { type FileHandle, mkdir, open, readFile, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { type Config, ConfigError } from './config/config.ts';
import type { Log, Secrets } from './hub/ports/ports.ts';
import { memoized } from './kit/memo.ts';

const cipher = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
/**
 * Format of a sealed text: version, then base64url of nonce, tag and ciphertext. Another format needs another version.
 * The purpose and the partner are associated data: authenticated, and not stored in the text. [SECRETS-5]
 */
const version = 'v2';
/** Names no partner. [SECRETS-5] */
const versionWithout = 'v1';
const boundTo = (partner: string): string => `${version} partner token ${partner}`;

export class SealError extends Error {
  override readonly name = 'SealError';
}

/**
 * `secretKey` is any text; a slow key derivation (scrypt, about 50 ms, once per key) makes short ones costly to guess.
 * It seals; texts that were sealed under one of the `previous` keys can still be opened.
 */
export function createSecrets(secretKey: string, previous: readonly string[] = []): Secrets {
  const key = derived(secretKey);
  const keys = [key, ...previous.map(derived)];
  // Memoized, because every call to a partner needs a token; the key that opens them is in memory anyway.
  const open = memoized((named) => {
    const [sealed = '', ...partner] = named.split(' ');
    const text = openedBy(keys, sealed, partner.join(' '));
    if (text === null) {
      throw new SealError(
        "a sealed text cannot be opened: it is damaged, another partner's, or HUB_SECRET_KEY has changed",
      );
    }
    return text;
  });
  return {
    newToken,
    // Memoized, because every request carries a token.
    digest: memoized((token) => hash('sha256', token, 'base64url')),
    seal: (token, partner) => seal(key, token, partner),
    open: (sealed, partner) => open(`${sealed} ${partner}`),
    isStale: (sealed, partner) => !sealed.startsWith(`${version}.`) || openedBy([key], sealed, partner) === null,
    // Keyed, because card numbers are short enough to try them all; 96 bits, so that it fits a uid of 36 characters.
    pseudonym: (name) =>
      `erased-${createHmac('sha256', key).update(`erased ${name.toLowerCase()}`).digest('hex').slice(0, 24)}`,
    // UUID version 4: native, needs no clock, and reveals neither time nor number of ids to a partner. Nothing in the
    // hub is ordered by id; order comes from the sequence of the event log.
    newId: () => randomUUID(),
  };
}

function newToken(): string {
  return randomBytes(32).toString('base64url');
}

function seal(key: Buffer, token: string, partner: string): string {
  const nonce = randomBytes(nonceBytes);
  const sealing = createCipheriv(cipher, key, nonce, { authTagLength: tagBytes });
  sealing.setAAD(Buffer.from(boundTo(partner)));
  const content = Buffer.concat([sealing.update(token, 'utf8'), sealing.final()]);
  return `${version}.${Buffer.concat([nonce, sealing.getAuthTag(), content]).toString('base64url')}`;
}

const salt = 'ocpi-hub sealed tokens';
const keyBytes = 32;

/** Keys by their secrets, kept because each derivation takes about 50 ms. They are as few as the settings name. */
const keysOf = new Map<string, Buffer>();

function derived(secretKey: string): Buffer {
  const key = keysOf.get(secretKey) ?? scryptSync(secretKey, salt, keyBytes);
  keysOf.set(secretKey, key);
  return key;
}

/**
 * Derives the keys of the settings on other threads, while the store opens. A key file that cannot be read yet, or not at all, is left to
 * `hubKeys`, which says why.
 */
export async function derivedAhead({
  dataDir,
  secretKey,
  secretKeyPrevious,
}: Pick<Config, 'dataDir' | 'secretKey' | 'secretKeyPrevious'>): Promise<void> {
  const kept = secretKey ?? (await readFile(join(dataDir, 'secret-key'), 'utf8').catch(() => '')).trim();
  const texts = [kept, ...(secretKeyPrevious ?? [])].filter((text) => text !== '' && !keysOf.has(text));
  // A failure is met, and reported, by the derivation that has to succeed.
  const derive = (text: string) => promisify(scrypt)(text, salt, keyBytes).catch(() => null);
  for (const [i, key] of (await Promise.all(texts.map(derive))).entries())
    if (key !== null) keysOf.set(texts[i] ?? '', key as Buffer);
}

/**
 * Opens a sealed text with the first key that fits, which its authentication tag shows; null when none fits. Throws
 * when the text does not have the format of a sealed text.
 */
function openedBy(keys: readonly Buffer[], sealed: string, partner: string): string | null {
  const [form, content, ...rest] = sealed.split('.');
  const isKnown = form === version || form === versionWithout;
  if (!isKnown || content === undefined || rest.length > 0) {
    throw new SealError(`not a sealed text of form ${version}`);
  }
  const bytes = Buffer.from(content, 'base64url');
  for (const key of keys) {
    const opened = unseal(key, bytes, form === version ? boundTo(partner) : versionWithout);
    if (opened !== null) return opened;
  }
  return null;
}

function unseal(key: Buffer, bytes: Buffer, data: string): string | null {
  const body = nonceBytes + tagBytes;
  try {
    const opening = createDecipheriv(cipher, key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
      .setAAD(Buffer.from(data))
      .setAuthTag(bytes.subarray(nonceBytes, body));
    return Buffer.concat([opening.update(bytes.subarray(body)), opening.final()]).toString('utf8');
  } catch {
    return null;
  }
}

export interface HubKeys {
  readonly adminToken: string;
  /** Opens every sealed text, and seals under the current key. */
  readonly secrets: Secrets;
}

/** The sealed token of a partner. */
export interface Sealed {
  readonly partner: string;
  readonly text: string;
}

/**
 * The admin token and the key: configured, else read from the data directory, else generated and stored there (mode
 * 0600). Throws `ConfigError` when the keys do not open the stored tokens; nothing has been changed or generated then.
 * Call it while holding the lock of the data directory, so that two hubs that start at once do not both generate a key.
 */
export async function hubKeys(
  config: Pick<Config, 'dataDir' | 'adminToken' | 'secretKey' | 'secretKeyPrevious'>,
  log: Log,
  sealed: readonly Sealed[] = [],
): Promise<HubKeys> {
  const path = (name: string) => join(config.dataDir, name);
  const previous = config.secretKeyPrevious ?? [];
  const present = config.secretKey ?? (await readSecret(path('secret-key'), log));
  const foreign = closedTo(present === null ? previous : [present, ...previous], sealed);
  if (foreign.length > 0) {
    const missing = present === null ? path('secret-key') : null;
    throw wrongKey(foreign, missing, foreign.length < sealed.length);
  }
  const secretKey = present ?? (await makeSecret(path('secret-key'), log));
  return {
    adminToken:
      config.adminToken ?? (await readSecret(path('admin-token'), log)) ?? (await makeSecret(path('admin-token'), log)),
    secrets: createSecrets(secretKey, previous),
  };
}

/** The partners and webhooks whose token or secret none of the keys opens. */
function closedTo(secretKeys: readonly string[], sealed: readonly Sealed[]): string[] {
  const keys = sealed.length > 0 ? secretKeys.map(derived) : [];
  return sealed.filter(({ text, partner }) => openedBy(keys, text, partner) === null).map(({ partner }) => partner);
}

function whoseOf(what: string, owner: string, [first, ...others]: readonly string[] = []): string {
  if (first === undefined) return '';
  return others.length === 0
    ? `the ${what} of ${first}`
    : `the ${what}s of ${others.length + 1} ${owner}s, ${first} first`;
}

/** `isSome` when the keys open other tokens: then the key may be right, and a text wrong. */
function wrongKey(partners: readonly string[], missing: string | null, isSome: boolean): ConfigError {
  // The secret of a webhook is sealed for `webhook:{id}`.
  const [webhooks, tokens] = [true, false].map((is) => partners.filter((one) => one.includes(':') === is));
  const whose = [whoseOf('token', 'partner', tokens), whoseOf('secret', 'webhook', webhooks)]
    .filter(Boolean)
    .join(', nor ');
  const expected = `expected the key under which it was sealed, or that key in HUB_SECRET_KEY_PREVIOUS`;
  const unless = isSome ? ", unless the text is damaged or was another partner's" : '';
  const was = missing === null ? 'another than it was' : `not set, and there is no ${missing}`;
  return new ConfigError(
    `HUB_SECRET_KEY (--secret-key) is ${was}: it does not open ${whose}; ${expected}${unless}. Nothing was changed`,
  );
}

async function makeSecret(path: string, log: Log): Promise<string> {
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
  // A truncated secret would be easy to guess, and one with other characters could not be sent in a header.
  if (!/^[\x21-\x7e]{24,1024}$/.test(text)) {
    throw new Error(`${path} is damaged: expected 24 to 1024 printable ASCII characters without spaces`);
  }
  const { mode } = await stat(path);
  if ((mode & 0o077) !== 0)
    log.warn({ path, mode: (mode & 0o777).toString(8) }, 'the secret file is readable by other users');
  return text;
}

/** Writes a file atomically and durably: after a crash it is complete or absent. */
async function writeDurably(path: string, text: string): Promise<void> {
  const directory = dirname(path);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const temporary = `${path}.${process.pid}.tmp`;
  await synced(temporary, 'w', async (file) => {
    // Opening an existing file keeps its old mode.
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
