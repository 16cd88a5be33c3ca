/** Damage by hand: bits turned over where a test wants them, and a table that the engine does not survive. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Text that no compression shortens, so that it is found in the files as it is. */
export const noise = (seed: number, length = 900): string => {
  let state = seed + 1;
  let text = '';
  while (text.length < length) {
    state = (state * 48_271) % 2_147_483_647;
    text += state.toString(36);
  }
  return text.slice(0, length);
};

export const files = (directory: string, ending: string): string[] =>
  readdirSync(directory)
    .filter((file) => file.endsWith(ending) || file.startsWith(ending))
    .map((file) => join(directory, file));

/** Flips one bit, in the one file with this ending that holds `text`, within it; or else in the middle of the largest. */
export function flip(directory: string, ending: string, text?: string): void {
  const contents = files(directory, ending).map((file) => ({ file, bytes: readFileSync(file) }));
  const chosen =
    text === undefined
      ? contents.sort((a, b) => b.bytes.length - a.bytes.length)[0]
      : contents.find(({ bytes }) => bytes.includes(text));
  if (chosen === undefined) throw new Error(`no ${ending} holds ${text}`);
  const at = text === undefined ? chosen.bytes.length >> 1 : chosen.bytes.indexOf(text) + (text.length >> 1);
  chosen.bytes[at] = (chosen.bytes[at] ?? 0) ^ 1;
  writeFileSync(chosen.file, chosen.bytes);
}

/**
 * Writes an index into the first table whose only key is shorter than the engine's own keys ever are: it asserts that when it
 * looks for anything. The form is that of LevelDB's tables: the footer names where the index lies; type 0 is uncompressed; an entry is
 * shared, unshared and value length, key, value; restarts and their number end the block.
 */
export function breakAssertion(database: string): void {
  const [table] = files(database, '.ldb');
  const bytes = readFileSync(table ?? '');
  const [, , index = 0, length = 0] = numbers(bytes, bytes.length - 48, 4);
  const type = index + length;
  bytes.fill(0, index, type + 1);
  bytes.set([0, 3, 1, ...Buffer.from('abc')], index);
  bytes[type - 4] = 1;
  writeFileSync(table ?? '', bytes);
}

/**
 * Puts a key of a table out of its order, which the engine meets when it compacts, and not when it reads. The table must not be compressed:
 * that puts parts of a key elsewhere, and once in forty times all but its first character.
 */
export function breakOrder(database: string, key: string): void {
  const beginning = key.slice(0, 8);
  for (const file of files(database, '.ldb')) {
    const bytes = readFileSync(file);
    for (let at = bytes.indexOf(beginning); at >= 0; at = bytes.indexOf(beginning, at + 1)) bytes[at] = 0x7e;
    writeFileSync(file, bytes);
  }
}

/**
 * Clears the filter of a table, which then denies every key to whoever looks one up. The footer names the block that names the filter;
 * the filter ends in where its parts begin, where that stands, and one byte more; each part ends in a byte of its own.
 */
export function clearFilter(table: string): void {
  const bytes = readFileSync(table);
  const [meta = 0] = numbers(bytes, bytes.length - 48, 1);
  const name = 'filter.leveldb.BuiltinBloomFilter2';
  const [filter = 0, length = 0] = numbers(bytes, bytes.indexOf(name, meta) + name.length, 2);
  const parts = filter + length - 5;
  const begins: number[] = [];
  for (let at = filter + bytes.readUInt32LE(parts); at <= parts; at += 4) begins.push(filter + bytes.readUInt32LE(at));
  for (const [i, begin] of begins.slice(0, -1).entries()) {
    const end = (begins[i + 1] ?? begin) - 1;
    if (end > begin) bytes.fill(0, begin, end);
  }
  writeFileSync(table, bytes);
}

/** Numbers as LevelDB writes them, seven bits a byte, lowest first. */
function numbers(bytes: Buffer, from: number, count: number): number[] {
  const found: number[] = [];
  for (let at = from; found.length < count; ) {
    let [value, scale, byte] = [0, 1, 0x80];
    for (; byte >= 0x80; scale *= 0x80) {
      byte = bytes[at++] ?? 0;
      value += (byte & 0x7f) * scale;
    }
    found.push(value);
  }
  return found;
}
