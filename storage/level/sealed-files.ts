/**
 * The format of the files of a sealed backup: AES-256-GCM in chunks.
 *
 * SEALED-FILES-1  Each file has a key of its own, derived from the data key and the file's name. Each chunk
 *     authenticates the name, its number and whether it is the last: a file that was changed, cut, lengthened, renamed
 *     or put together from others does not open.
 * SEALED-FILES-2  Nothing that was not authenticated is given out.
 */
import { createCipheriv, createDecipheriv, createHash, hkdfSync } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cipher, tagBytes } from './backup-keys.ts';
import { withFile } from './side-files.ts';

/** Content of a chunk, bytes; part of the format. */
const CHUNK = 256 * 1024;
/** A file that must not exist yet, for its owner alone. */
const NEW_FILE = { flag: 'wx', mode: 0o600 };

export class NotOpened extends Error {
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
      sealing.setAAD(boundTo(name, number, number === count - 1));
      yield Buffer.concat([sealing.update(content), sealing.final(), sealing.getAuthTag()]);
      await rest();
    }
  }
  await withFile(from, (source) => writeFile(to, sealed(source), NEW_FILE));
  return digest.digest('hex');
}

/** The content of a sealed file, chunk by chunk. Throws `NotOpened`. [SEALED-FILES-2] */
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
export async function openTree(from: string, prefix: string, to: string, dataKey: Buffer): Promise<void> {
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
      .setAAD(boundTo(name, number, isLast))
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

const boundTo = (name: string, number: number, isLast: boolean): Buffer =>
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
