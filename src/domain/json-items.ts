/**
 * Appends to the text of an array those items of another that it does not have yet.
 *
 * JSON-ITEMS-1  Items are the same when their values are. If one array has more than `parsedMax` characters, they are the
 *     same when their texts differ only by insignificant white space: to parse so many values takes the thread for too
 *     long.
 * JSON-ITEMS-2  The time is in proportion to the length of both texts, whatever the items are, and is taken in pieces of `pieceMax` characters.
 */
import { appendItems, BACKSLASH, COMMA, closes, isSpace, opens, pieceMax, QUOTE } from './json-text.ts';

/** So many items are looked for in the text of an array before its items are compared. */
const soughtMax = 16;
/** Characters of an array up to which its items are compared by value. [JSON-ITEMS-1] */
const parsedMax = 65_536;

/** The array with those items of `more` that it does not have; in pieces, when they are long. */
export function* appendNewItems(array: string, more: string): Generator<void, string> {
  const wanted = more.length <= parsedMax ? plainItems(more) : null;
  if (wanted && isCertainlyNew(array, wanted)) return appendItems(array, more);
  const known = wanted && array.length <= parsedMax ? sameByValue(array, wanted) : yield* sameAsWritten(array, more);
  if (!known.includes(true)) return appendItems(array, more);
  const fresh: string[] = [];
  let at = 0;
  yield* eachItem(more, (start, end) => {
    if (!known[at++]) fresh.push(more.slice(start, end));
  });
  return appendItems(array, `[${fresh.join(',')}]`);
}

/** Whether an array certainly has none of a few items; false: it may have one. */
const isCertainlyNew = (array: string, wanted: readonly string[]): boolean =>
  wanted.length <= soughtMax && !array.includes('\\') && wanted.every((item) => !array.includes(markOf(item)));

/**
 * The longest string in a text of `plainItems`, in its quotes, which every text of the same value contains that has no
 * escapes; keys do not count. Empty when there is none, or when this text has escapes.
 */
function markOf(text: string): string {
  if (text.includes('\\')) return '';
  const strings = (text.match(/"[^"]*":?/g) ?? []).filter((string) => string.endsWith('"'));
  return strings.reduce((longest, string) => (string.length > longest.length ? string : longest), '');
}

/** The items of an array text, each without insignificant white space. */
const plainItems = (array: string): string[] => (JSON.parse(array) as unknown[]).map((item) => JSON.stringify(item));

/** For each wanted item whether `array` has it. */
function sameByValue(array: string, wanted: readonly string[]): readonly boolean[] {
  const known = new Set(plainItems(array));
  return wanted.map((item) => known.has(item));
}

/** For each item of `more` whether `array` has it. Items are copied only when one of the others may be the same. */
function* sameAsWritten(array: string, more: string): Generator<void, readonly boolean[]> {
  const wanted = new HashFilter();
  yield* eachItem(more, (_start, _end, hash) => wanted.add(hash));
  const common = new HashFilter();
  const known = new Set<string>();
  yield* eachItem(array, (start, end, hash, isSpaced) => {
    if (!wanted.mayHave(hash)) return;
    common.add(hash);
    known.add(textOf(array, start, end, isSpaced));
  });
  const found: boolean[] = [];
  if (known.size === 0) return found;
  yield* eachItem(more, (start, end, hash, isSpaced) => {
    found.push(common.mayHave(hash) && known.has(textOf(more, start, end, isSpaced)));
  });
  return found;
}

/** Says whether a hash was added; rarely true for one that was not. */
class HashFilter {
  /** A bit for each value of the last 20 bits of a hash. */
  readonly #words = new Int32Array(2 ** 15);

  add(hash: number): void {
    this.#words[this.#place(hash)] = this.#wordOf(hash) | (1 << hash);
  }

  mayHave(hash: number): boolean {
    return (this.#wordOf(hash) & (1 << hash)) !== 0;
  }

  #wordOf(hash: number): number {
    return this.#words[this.#place(hash)] ?? 0;
  }

  #place(hash: number): number {
    return (hash >>> 5) & 0x7fff;
  }
}

/** Called with the place of an item, a hash of its text without insignificant white space, and whether it has any. */
type Visit = (start: number, end: number, hash: number, isSpaced: boolean) => void;

/** Visits the items of an array text in order. */
function* eachItem(array: string, visit: Visit): Generator<void> {
  const walk = new Walk(array, visit);
  while (walk.goOn()) yield;
}

class Walk {
  readonly #array: string;
  readonly #visit: Visit;
  readonly #open: number;
  readonly #close: number;
  #at: number;
  /** Of the present item: its place, which is `#open` before it begins, its hash, and its characters without white space. */
  #start: number;
  #end: number;
  #hash = 0;
  #count = 0;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

  constructor(array: string, visit: Visit) {
    this.#array = array;
    this.#visit = visit;
    this.#open = array.indexOf('[');
    this.#close = array.lastIndexOf(']') + 1;
    this.#at = this.#open + 1;
    this.#start = this.#open;
    this.#end = this.#open;
  }

  /** Walks one piece. False: that was the last one. */
  goOn(): boolean {
    const [array, visit, open, close] = [this.#array, this.#visit, this.#open, this.#close];
    const until = Math.min(close, this.#at + pieceMax);
    let [at, start, end, hash] = [this.#at, this.#start, this.#end, this.#hash];
    let [count, depth, isInString, isEscaped] = [this.#count, this.#depth, this.#isInString, this.#isEscaped];
    for (; at < until; at++) {
      const code = array.charCodeAt(at);
      if (!isInString) {
        if (isSpace(code)) continue;
        if (depth === 0 && (code === COMMA || at === close - 1)) {
          if (start > open) visit(start, end, hash, count < end - start);
          start = open;
          hash = 0;
          count = 0;
          continue;
        }
        if (opens(code)) depth++;
        else if (closes(code)) depth--;
      }
      if (start === open) start = at;
      end = at + 1;
      count++;
      hash = Math.imul(hash ^ code, 0x01000193);
      hash ^= hash >>> 15;
      if (isEscaped) isEscaped = false;
      else if (code === BACKSLASH) isEscaped = true;
      else if (code === QUOTE) isInString = !isInString;
    }
    [this.#at, this.#start, this.#end, this.#hash] = [at, start, end, hash];
    [this.#count, this.#depth, this.#isInString, this.#isEscaped] = [count, depth, isInString, isEscaped];
    return at < close;
  }
}

const stringOrSpace = /("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\n\r]+/g;

/** An item without insignificant white space. */
function textOf(array: string, start: number, end: number, isSpaced: boolean): string {
  const text = array.slice(start, end);
  return isSpaced ? text.replace(stringOrSpace, '$1') : text;
}
