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
  const handles: number[] = [];
  for (let at = bytes.length - 48; handles.length < 4; ) {
    let [value, scale, byte] = [0, 1, 0x80];
    for (; byte >= 0x80; scale *= 0x80) {
      byte = bytes[at++] ?? 0;
      value += (byte & 0x7f) * scale;
    }
    handles.push(value);
  }
  const [, , index = 0, length = 0] = handles;
  const type = index + length;
  bytes.fill(0, index, type + 1);
  bytes.set([0, 3, 1, ...Buffer.from('abc')], index);
  bytes[type - 4] = 1;
  writeFileSync(table ?? '', bytes);
}
