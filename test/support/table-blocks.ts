/**
 * What is really in a table of LevelDB, former versions of records included: its blocks, decompressed. The engine itself hands out the
 * newest versions only, and its blocks are compressed with Snappy.
 */
import { readFileSync } from 'node:fs';

const FOOTER_BYTES = 48;
const SNAPPY = 1;

interface Cursor {
  at: number;
}

function varint(bytes: Buffer, cursor: Cursor): number {
  let value = 0;
  for (let scale = 1; ; scale *= 128) {
    const byte = bytes[cursor.at++] ?? 0;
    value += (byte & 127) * scale;
    if (byte < 128) return value;
  }
}

export function blocksOf(path: string): Buffer[] {
  const file = readFileSync(path);
  const cursor = { at: file.length - FOOTER_BYTES };
  const handle = () => ({ offset: varint(file, cursor), size: varint(file, cursor) });
  handle();
  const index = blockAt(file, handle());
  const restarts = index.readUInt32LE(index.length - 4);
  const blocks = [index];
  for (const entry = { at: 0 }; entry.at < index.length - 4 - 4 * restarts; ) {
    varint(index, entry);
    const unshared = varint(index, entry);
    const size = varint(index, entry);
    const value = { at: entry.at + unshared };
    blocks.push(blockAt(file, { offset: varint(index, value), size: varint(index, value) }));
    entry.at += unshared + size;
  }
  return blocks;
}

function blockAt(file: Buffer, { offset, size }: { offset: number; size: number }): Buffer {
  const raw = file.subarray(offset, offset + size);
  return file[offset + size] === SNAPPY ? unsnapped(raw) : raw;
}

/** The format of google/snappy, `format_description.txt`. */
function unsnapped(raw: Buffer): Buffer {
  const cursor = { at: 0 };
  const out = Buffer.alloc(varint(raw, cursor));
  let end = 0;
  const number = (bytes: number): number => {
    const value = raw.readUIntLE(cursor.at, bytes);
    cursor.at += bytes;
    return value;
  };
  while (cursor.at < raw.length) {
    const tag = number(1);
    if ((tag & 3) === 0) {
      const short = tag >> 2;
      const length = 1 + (short < 60 ? short : number(short - 59));
      raw.copy(out, end, cursor.at, cursor.at + length);
      cursor.at += length;
      end += length;
      continue;
    }
    const [length, back] =
      (tag & 3) === 1
        ? [4 + ((tag >> 2) & 7), ((tag >> 5) << 8) | number(1)]
        : [1 + (tag >> 2), number((tag & 3) === 2 ? 2 : 4)];
    // Byte by byte: a copy may reach into what it writes.
    for (let i = 0; i < length; i += 1, end += 1) out[end] = out[end - back] ?? 0;
  }
  return out;
}
