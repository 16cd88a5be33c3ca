/**
 * Backups that are sealed for a public key.
 *
 *     {backup}/manifest.json    when it was made, the fingerprint of the key, the wrapped data key
 *     {backup}/sealed/          every file of a backup, its manifest included, each sealed
 *
 * SEALED-BACKUP-1  A backup is made and verified in the staging directory, then sealed into its place: no file there
 *     ever holds readable content. Each sealed file is read back and compared before the backup gets its name.
 * SEALED-BACKUP-2  A backup to which a file was added, or from which one was taken away, does not open.
 * SEALED-BACKUP-3  Nobody opens it without the private key; it does not authenticate who made it: anyone with the
 *     public key can make another one.
 * SEALED-BACKUP-4  Each file has a key of its own, derived from the data key and the file's name. Each chunk
 *     authenticates the name, its number and whether it is the last: a file that was changed, cut, lengthened, renamed
 *     or put together from others does not open.
 * SEALED-BACKUP-5  Nothing that was not authenticated is given out.
 */
import { createCipheriv, createDecipheriv, createHash, hkdfSync } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type BackupKey, cipher, newDataKey, tagBytes, unwrappedKey, type WrappedKey } from './backup-keys.ts';
import { withFile } from './side-files.ts';

export const SEALED_FORMAT = 3;
/** Directory of the sealed files. */
export const SEALED = 'sealed';

export interface SealedManifest extends WrappedKey {
  readonly format: typeof SEALED_FORMAT;
  readonly made_at: string;
  /** Fingerprint of the key that opens it. */
  readonly sealed_for: string;
}

interface Means {
  readonly signal?: AbortSignal | undefined;
  readonly rest: () => Promise<void>;
}

/** Seals every file of `plain` into `backup`. Resolves with the manifest. [SEALED-BACKUP-1] */
export async function sealBackup(
  plain: string,
  backup: string,
  key: BackupKey,
  { madeAt, signal, rest }: Means & { readonly madeAt: string },
): Promise<SealedManifest> {
  const said = { format: SEALED_FORMAT, made_at: madeAt, sealed_for: key.fingerprint } as const;
  const names = await filesBelow(plain);
  const { dataKey, wrapped } = newDataKey(key, boundTo(said, names));
  for (const name of names) {
    signal?.throwIfAborted();
    const path = join(backup, SEALED, name);
    const before = await sealFile(join(plain, name), path, { name, dataKey, rest });
    const digest = createHash('sha256');
    for await (const content of openedFile(path, name, dataKey)) {
      digest.update(content);
      signal?.throwIfAborted();
      await rest();
    }
    if (digest.digest('hex') !== before) throw new Error(`${path} does not hold what was sealed`);
  }
  return { ...said, ...wrapped };
}

/** What the wrap of the data key authenticates. [SEALED-BACKUP-2, BACKUP-KEYS-2] */
const boundTo = ({ format, made_at, sealed_for }: Omit<SealedManifest, keyof WrappedKey>, names: readonly string[]) =>
  JSON.stringify([format, made_at, sealed_for, names]);

/** A sealed backup with its private key. */
export class OpenedBackup {
  readonly #directory: string;
  readonly #dataKey: Buffer;

  private constructor(backup: string, dataKey: Buffer) {
    this.#directory = join(backup, SEALED);
    this.#dataKey = dataKey;
  }

  /** Rejects when the backup was not sealed for the key, or when its manifest or files are others than they were. */
  static async open(backup: string, manifest: SealedManifest, key: BackupKey | null): Promise<OpenedBackup> {
    const { sealed_for } = manifest;
    if (key === null) {
      throw new Error(`${backup} is sealed for the key ${sealed_for}: --private-key names a file with its private key`);
    }
    if (key.fingerprint !== sealed_for) {
      throw new Error(`${backup} is sealed for the key ${sealed_for}, and the private key given is ${key.fingerprint}`);
    }
    const names = await filesBelow(join(backup, SEALED));
    const dataKey = unwrappedKey(key, manifest, boundTo(manifest, names));
    if (dataKey === null) {
      throw new NotOpened(`${backup} is damaged: its manifest was changed, or a file was added or taken away`);
    }
    return new OpenedBackup(backup, dataKey);
  }

  async text(name: string): Promise<string> {
    const chunks: Buffer[] = [];
    for await (const content of openedFile(join(this.#directory, name), name, this.#dataKey)) chunks.push(content);
    return Buffer.concat(chunks).toString('utf8');
  }

  /** Writes the files below `prefix` (with its `/`; empty: all of them) into a directory. */
  write(prefix: string, target: string): Promise<void> {
    return openTree(this.#directory, prefix, target, this.#dataKey);
  }
}

// The format of the files of a sealed backup: AES-256-GCM in chunks.

/** Content of a chunk, bytes; part of the format. */
const CHUNK = 256 * 1024;
/** A file that must not exist yet, for its owner alone. */
const NEW_FILE = { flag: 'wx', mode: 0o600 };

class NotOpened extends Error {
  override readonly name = 'NotOpened';
}

/** Relative paths of all files below, with `/`, in order. */
export async function filesBelow(directory: string, prefix = ''): Promise<string[]> {
  const entries = await readdir(join(directory, prefix), { withFileTypes: true });
  const found = entries.map((entry) => {
    const path = `${prefix}${entry.name}`;
    return entry.isDirectory() ? filesBelow(directory, `${path}/`) : [path];
  });
  return (await Promise.all(found)).flat().sort();
}

/** Seals a file, and resolves with the SHA-256 of its content. `rest` is awaited between chunks. */
export async function sealFile(
  from: string,
  to: string,
  { name, dataKey, rest }: { readonly name: string; readonly dataKey: Buffer; readonly rest: () => Promise<void> },
): Promise<string> {
  await mkdir(dirname(to), { recursive: true });
  const key = keyOf(dataKey, name);
  const digest = createHash('sha256');
  async function* sealed(source: FileHandle): AsyncGenerator<Buffer> {
    const { size } = await source.stat();
    const count = Math.max(1, Math.ceil(size / CHUNK));
    for (let number = 0; number < count; number += 1) {
      const content = await readExactly(source, Math.min(CHUNK, size - number * CHUNK));
      digest.update(content);
      const sealing = createCipheriv(cipher, key, nonceOf(number), { authTagLength: tagBytes });
      sealing.setAAD(chunkBoundTo(name, number, number === count - 1));
      yield Buffer.concat([sealing.update(content), sealing.final(), sealing.getAuthTag()]);
      await rest();
    }
  }
  await withFile(from, (source) => writeFile(to, sealed(source), NEW_FILE));
  return digest.digest('hex');
}

/** The content of a sealed file, chunk by chunk. Throws `NotOpened`. [SEALED-BACKUP-5] */
export async function* openedFile(path: string, name: string, dataKey: Buffer): AsyncGenerator<Buffer> {
  const key = keyOf(dataKey, name);
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const count = Math.max(1, Math.ceil(size / (CHUNK + tagBytes)));
    for (let number = 0; number < count; number += 1) {
      const sealed = await readExactly(file, Math.min(CHUNK + tagBytes, size - number * (CHUNK + tagBytes)));
      const content = openedChunk(sealed, key, { name, number, isLast: number === count - 1 });
      if (content === null) throw new NotOpened(`${path} is damaged, or was changed since it was sealed`);
      yield content;
    }
  } finally {
    await file.close();
  }
}

/** Writes the content of all sealed files below `from/prefix` to `to`, without the prefix. */
async function openTree(from: string, prefix: string, to: string, dataKey: Buffer): Promise<void> {
  for (const name of await filesBelow(from, prefix)) {
    const target = join(to, name.slice(prefix.length));
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    await writeFile(target, openedFile(join(from, name), name, dataKey), NEW_FILE);
  }
}

interface Place {
  readonly name: string;
  readonly number: number;
  readonly isLast: boolean;
}

function openedChunk(sealed: Buffer, key: Buffer, { name, number, isLast }: Place): Buffer | null {
  const end = sealed.length - tagBytes;
  if (end < 0) return null;
  try {
    const opening = createDecipheriv(cipher, key, nonceOf(number), { authTagLength: tagBytes })
      .setAAD(chunkBoundTo(name, number, isLast))
      .setAuthTag(sealed.subarray(end));
    return Buffer.concat([opening.update(sealed.subarray(0, end)), opening.final()]);
  } catch {
    return null;
  }
}

function keyOf(dataKey: Buffer, name: string): Buffer {
  return Buffer.from(hkdfSync('sha256', dataKey, '', `ocpi-hub backup file 1 ${name}`, 32));
}

/** Never used twice: a key seals one file, once. */
function nonceOf(number: number): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeUInt32BE(number, 8);
  return nonce;
}

const chunkBoundTo = (name: string, number: number, isLast: boolean): Buffer =>
  Buffer.from(`${name}\n${number}\n${isLast ? 'last' : 'more'}`);

async function readExactly(file: FileHandle, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  let at = 0;
  while (at < length) {
    const { bytesRead } = await file.read(buffer, at, length - at, null);
    if (bytesRead === 0) throw new NotOpened('a file became shorter while it was read');
    at += bytesRead;
  }
  return buffer;
}
