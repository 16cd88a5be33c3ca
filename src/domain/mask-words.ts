/**
 * Finds names of persons in a text: those that are known, in one pass however many they are, and words that have the
 * form of a uid or a contract id.
 *
 * MASK-WORDS-1  The time grows with the length of the text and of the names, not with their product.
 * MASK-WORDS-2  Percent-encoding, escapes of JSON and case hide no name, however often they were applied.
 */

/** Part of a text. */
export interface Found {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

/** A text as it reads without its encodings, and where each of its characters begins in the text; null: where it is. */
export interface Plain {
  readonly text: string;
  readonly at: Uint32Array | null;
}

const encodedByte = /%(?:25)*([0-9a-f]{2})/iy;
const unicodeEscape = /\\u([0-9a-f]{4})/iy;
const BACKSLASH = 0x5c;
const PERCENT = 0x25;
const SPACE = 0x20;

/** [MASK-WORDS-2] */
export function plainOf(text: string): Plain {
  if (!/[\\%]/.test(text)) return { text, at: null };
  const at = new Uint32Array(text.length + 1);
  const codes = new Uint16Array(text.length);
  let length = 0;
  const put = (code: number, from: number) => {
    at[length] = from;
    codes[length++] = code;
  };
  for (let from = 0; from < text.length; ) {
    const code = text.charCodeAt(from);
    if (code === PERCENT) {
      const { stands, end } = percentDecoded(text, from);
      for (let each = 0; each < stands.length; each++) put(stands.charCodeAt(each), from);
      from = end;
    } else if (code === BACKSLASH) {
      let end = from + 1;
      while (text.charCodeAt(end) === BACKSLASH) end++;
      unicodeEscape.lastIndex = end - 1;
      const unicode = unicodeEscape.exec(text)?.[1];
      const isControl = 'nrtbf'.includes(text.charAt(end) || ' ');
      if (unicode !== undefined) put(Number.parseInt(unicode, 16), from);
      else if (isControl) put(SPACE, from);
      from = unicode !== undefined ? end + 5 : end + (isControl ? 1 : 0);
    } else put(code, from++);
  }
  at[length] = text.length;
  return { text: textOf(codes.subarray(0, length)), at };
}

/** The character that begins with the `%` at `from`; a `%` that begins none stands for itself. */
function percentDecoded(text: string, from: number): { stands: string; end: number } {
  const byteAt = (at: number): number => {
    encodedByte.lastIndex = at;
    return Number.parseInt(encodedByte.exec(text)?.[1] ?? '', 16);
  };
  const first = byteAt(from);
  let end = encodedByte.lastIndex;
  if (first < 0x80) return { stands: String.fromCharCode(first), end };
  const more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : Number.NaN;
  let point = first & (0x3f >> more);
  for (let each = 0; each < more; each++) {
    point = point * 64 + (byteAt(end) ^ 0x80);
    end = encodedByte.lastIndex;
    if (end === 0) break;
  }
  return more > 0 && end > 0 && point <= 0x10ffff
    ? { stands: String.fromCodePoint(point), end }
    : { stands: '%', end: from + 1 };
}

/** Arguments of a call are bounded. */
const atOnce = 8192;

function textOf(codes: Uint16Array): string {
  let text = '';
  for (let at = 0; at < codes.length; at += atOnce) text += String.fromCharCode(...codes.subarray(at, at + atOnce));
  return text;
}

/** Lower case of the same length. */
export function folded(text: string): string {
  const lower = text.toLowerCase();
  if (lower.length === text.length) return lower;
  return Array.from(text, (each) => (each.toLowerCase().length === each.length ? each.toLowerCase() : each)).join('');
}

/** `NL-TNM-C12345-6` → `…45-6`. */
export function maskedName(name: string): string {
  const shown = Math.min(4, Math.floor(name.length / 3));
  return `…${shown === 0 ? '' : name.slice(-shown)}`;
}

/** The text with these parts of its plain form masked; parts that overlap are one. */
export function hidden(text: string, { text: plain, at }: Plain, found: readonly Found[]): string {
  const parts: string[] = [];
  let read = 0;
  for (const { start, end } of union(found)) {
    parts.push(text.slice(read, at ? at[start] : start), maskedName(plain.slice(start, end)));
    read = at ? (at[end] ?? text.length) : end;
  }
  return parts.length === 0 ? text : parts.join('') + text.slice(read);
}

function union(found: readonly Found[]): Found[] {
  const all: Found[] = [];
  for (const { start, end } of found.toSorted((a, b) => a.start - b.start)) {
    const last = all.at(-1);
    if (last === undefined || start >= last.end) all.push({ start, end });
    else all[all.length - 1] = { start: last.start, end: Math.max(last.end, end) };
  }
  return all;
}

/** Plain and folded names, as many as `searchOf` can hold. */
export class Names {
  readonly all = new Set<string>();
  readonly letters = new Set<number>();
  readonly #charactersMax: number;
  characters = 0;
  /** Whether one was left out. */
  isFull = false;

  constructor(charactersMax = Number.POSITIVE_INFINITY) {
    this.#charactersMax = charactersMax;
  }

  add(name: string): void {
    if (this.isFull) return;
    const plain = folded(plainOf(name).text);
    if (plain === '' || this.all.has(plain)) return;
    const characters = this.characters + plain.length;
    this.isFull = characters > this.#charactersMax || characters * this.#lettersWith(plain) > tableMax;
    if (this.isFull) return;
    this.characters = characters;
    this.all.add(plain);
  }

  #lettersWith(name: string): number {
    for (let at = 0; at < name.length; at++) this.letters.add(name.charCodeAt(at));
    return this.letters.size;
  }
}

/** Entries of the table of a search: characters by letters. 4 bytes each. */
const tableMax = 4_194_304;

/** Finds where any of the names occurs: the automaton of Aho and Corasick. Parts that overlap are one. [MASK-WORDS-1] */
export function searchOf({ all, letters, characters }: Names, lengthMin: number): (text: string) => Found[] {
  const numbers = new Map([...letters].map((unit, number) => [unit, number]));
  const size = letters.size;
  /** By state and letter: the next state. */
  const steps = new Int32Array((characters + 1) * size);
  /** By state: the length of the longest name that ends there, or 0. */
  const ends = new Int32Array(characters + 1);
  let states = 1;
  for (const name of all) {
    if (name.length < lengthMin) continue;
    let state = 0;
    for (let at = 0; at < name.length; at++) {
      const step = state * size + (numbers.get(name.charCodeAt(at)) ?? 0);
      if (steps[step] === 0) steps[step] = states++;
      state = steps[step] ?? 0;
    }
    ends[state] = name.length;
  }
  if (states === 1) return () => [];
  join(steps, ends, size, states);
  return (text) => {
    const found: { start: number; end: number }[] = [];
    for (let at = 0, state = 0; at < text.length; at++) {
      const letter = numbers.get(text.charCodeAt(at));
      state = letter === undefined ? 0 : (steps[state * size + letter] ?? 0);
      const length = ends[state] ?? 0;
      if (length === 0) continue;
      let start = at + 1 - length;
      for (let last = found.at(-1); last !== undefined && last.end > start; last = found.at(-1)) {
        start = Math.min(start, last.start);
        found.pop();
      }
      found.push({ start, end: at + 1 });
    }
    return found;
  };
}

/** Leads each state that has no step for a letter to where its longest proper suffix goes, breadth first. */
function join(steps: Int32Array, ends: Int32Array, size: number, states: number): void {
  const suffixes = new Int32Array(states);
  const queue = new Int32Array(states);
  for (let read = 0, written = 1; read < written; read++) {
    const state = queue[read] ?? 0;
    const suffix = suffixes[state] ?? 0;
    if (ends[state] === 0) ends[state] = ends[suffix] ?? 0;
    for (let letter = 0; letter < size; letter++) {
      const next = steps[state * size + letter] ?? 0;
      const other = state === 0 ? 0 : (steps[suffix * size + letter] ?? 0);
      if (next === 0) steps[state * size + letter] = other;
      else {
        suffixes[next] = other;
        queue[written++] = next;
      }
    }
  }
}

const word =
  /(?:\d{4}-\d\d-\d\d(?:T[\d:.]+Z?)?|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?)(?![\p{L}\p{N}])|[\p{L}\p{N}]+(?:[-:*][\p{L}\p{N}]+)*/gu;
const dateOrAddress = /^(?:\d{4}-\d\d-\d\d(?:T|$)|\d+\.)/;
const evseId = /^[A-Z]{2}\*[A-Z0-9]{3}\*E/i;
const contractId = /^[A-Z]{2}[-*]?[A-Z0-9]{3}[-*]?C?[A-Z0-9]{6,9}(?:[-*]?[A-Z0-9])?$/i;
const bytesOrDigits = /^(?:[0-9A-F]{2}(?:[-:][0-9A-F]{2}){3,}|(?=(?:[-:*]?\d){7})[\d:*-]+)$/i;
/** Characters from which a word with a digit may be a uid. */
const uidFrom = 7;

/** Words with the form of a uid or a contract id; not dates, addresses, ids of EVSEs, and what `isKept`. */
export function namesByForm(text: string, isKept: (word: string) => boolean): Found[] {
  const found: Found[] = [];
  for (const { 0: each, index } of text.matchAll(word)) {
    if (hasFormOfName(each) && !isKept(folded(each))) found.push({ start: index, end: index + each.length });
  }
  return found;
}

function hasFormOfName(each: string): boolean {
  if (each.length < uidFrom || !/\p{N}/u.test(each) || dateOrAddress.test(each) || evseId.test(each)) return false;
  if (contractId.test(each) || bytesOrDigits.test(each)) return true;
  return each.split(/[-:*]/).some((part) => part.length >= uidFrom && /\p{N}/u.test(part));
}
