/**
 * The keys of sealed backups: an X25519 pair, of which the hub has the public half alone.
 *
 * BACKUP-KEYS-1  Each backup has a random data key. It is wrapped for the public key (X25519 with a pair made for this
 *     backup, HKDF-SHA256, AES-256-GCM) and written nowhere else.
 * BACKUP-KEYS-2  The wrap authenticates what the manifest says. With another private key, or another manifest, the data
 *     key does not come out.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';

export interface BackupKey {
  readonly key: KeyObject;
  /** SHA-256 of the public key in DER form (SPKI), hexadecimal: the same for both halves. */
  readonly fingerprint: string;
}

/** Where and for whom a store seals its backups. */
export interface Sealing extends BackupKey {
  /** Directory outside the backup in which it is made and verified before it is sealed; removed afterwards. */
  readonly staging: string;
}

/** A data key as it is stored, base64url. */
export interface WrappedKey {
  readonly ephemeral: string;
  readonly wrapped: string;
}

export const cipher = 'aes-256-gcm';
export const tagBytes = 16;
const keyBytes = 32;
const type = 'x25519';
const purpose = 'ocpi-hub backup key 1';
/** Its key seals one text, ever. */
const onlyNonce = Buffer.alloc(12);

/** Reads a public key, PEM. Throws an Error with the reason. */
export function publicKeyIn(pem: string): BackupKey {
  if (pem.includes('PRIVATE KEY')) throw new Error('it holds a private key, which must not be where the hub is');
  return checked(() => createPublicKey(pem));
}

/** Reads a private key, PEM. Throws an Error with the reason. */
export function privateKeyIn(pem: string): BackupKey {
  if (pem.includes('ENCRYPTED')) throw new Error('it is encrypted: decrypt it with openssl pkey -in … -out …');
  return checked(() => createPrivateKey(pem));
}

function checked(read: () => KeyObject): BackupKey {
  let key: KeyObject | null = null;
  try {
    key = read();
  } catch {
    // Reported below. The error of the library may quote the text.
  }
  if (key?.asymmetricKeyType !== type) throw new Error('expected an X25519 key in PEM form');
  const half = key.type === 'private' ? createPublicKey(key) : key;
  const fingerprint = createHash('sha256')
    .update(half.export({ type: 'spki', format: 'der' }))
    .digest('hex');
  return { key, fingerprint };
}

/** Makes a data key. `said`: what the manifest says, authenticated by the wrap. [BACKUP-KEYS-1] */
export function newDataKey({ key }: BackupKey, said: string): { dataKey: Buffer; wrapped: WrappedKey } {
  const pair = generateKeyPairSync(type);
  const ephemeral = rawOf(pair.publicKey);
  const dataKey = randomBytes(keyBytes);
  const wrapping = createCipheriv(cipher, wrapKey(pair.privateKey, key, ephemeral, rawOf(key)), onlyNonce);
  wrapping.setAAD(Buffer.from(said));
  const wrapped = Buffer.concat([wrapping.update(dataKey), wrapping.final(), wrapping.getAuthTag()]);
  return {
    dataKey,
    wrapped: { ephemeral: ephemeral.toString('base64url'), wrapped: wrapped.toString('base64url') },
  };
}

/** Null when the key, the wrapped key or `said` is another than it was. [BACKUP-KEYS-2] */
export function unwrappedKey({ key }: BackupKey, { ephemeral, wrapped }: WrappedKey, said: string): Buffer | null {
  try {
    const [point, sealed] = [Buffer.from(ephemeral, 'base64url'), Buffer.from(wrapped, 'base64url')];
    if (sealed.length !== keyBytes + tagBytes) return null;
    const sender = createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x: ephemeral }, format: 'jwk' });
    const derived = wrapKey(key, sender, point, rawOf(createPublicKey(key)));
    const opening = createDecipheriv(cipher, derived, onlyNonce, { authTagLength: tagBytes })
      .setAAD(Buffer.from(said))
      .setAuthTag(sealed.subarray(keyBytes));
    return Buffer.concat([opening.update(sealed.subarray(0, keyBytes)), opening.final()]);
  } catch {
    return null;
  }
}

/** Both public keys are part of the derivation, so that the wrap fits this pair alone. */
function wrapKey(privateKey: KeyObject, publicKey: KeyObject, ephemeral: Buffer, recipient: Buffer): Buffer {
  const secret = diffieHellman({ privateKey, publicKey });
  return Buffer.from(hkdfSync('sha256', secret, Buffer.concat([ephemeral, recipient]), purpose, keyBytes));
}

const rawOf = (key: KeyObject): Buffer => Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url');
