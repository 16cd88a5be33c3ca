/**
 * Appends to the text of an array those items of another that it does not have yet.
 *
 * JSON-ITEMS-1  Items are the same when their values are. If one array has more than `parsedMax` characters, they are the
 *     same when their texts differ only by insignificant white space: to parse so many values takes the thread for too
 *     long.
 * JSON-ITEMS-2  The time is in proportion to the length of both texts, whatever the items are.
 */
import { appendItems, BACKSLASH, COMMA, closes, isSpace, items, opens, QUOTE, type Span, slice } from './json-text.ts';

/** So many items are looked for in the text of an array before its items are compared. */
const soughtMax = 16;
/** Characters of an array up to which its items are compared by value. [JSON-ITEMS-1] */
const parsedMax = 65_536;

export function appendNewItems(array: string, more: string): string {
  const wanted = more.length <= parsedMax ? plainItems(more) : null;
  if (wanted && isCertainlyNew(array, wanted)) return appendItems(array, more);
  const known = wanted && array.length <= parsedMax ? sameByValue(array, wanted) : sameAsWritten(array, more);
  if (!known.includes(true)) return appendItems(array, more);
  const fresh = items(more, wholeOf(more)).filter((_, at) => !known[at]);
  return appendItems(array, `[${fresh.map((span) => slice(more, span)).join(',')}]`);
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
function sameAsWritten(array: string, more: string): readonly boolean[] {
  const wanted = new HashFilter();
  eachItem(more, (_start, _end, hash) => wanted.add(hash));
  const common = new HashFilter();
  const known = new Set<string>();
  eachItem(array, (start, end, hash, isSpaced) => {
    if (!wanted.mayHave(hash)) return;
    common.add(hash);
    known.add(textOf(array, start, end, isSpaced));
  });
  const found: boolean[] = [];
  if (known.size === 0) return found;
  eachItem(more, (start, end, hash, isSpaced) => {
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

const wholeOf = (array: string): Span => ({ start: array.indexOf('['), end: array.lastIndexOf(']') + 1 });

/** Visits the items of an array text in order. */
function eachItem(array: string, visit: Visit): void {
  const { start: open, end: close } = wholeOf(array);
  let start = open;
  let end = open;
  let hash = 0;
  let count = 0;
  let depth = 0;
  let isInString = false;
  let isEscaped = false;
  for (let at = open + 1; at < close; at++) {
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
}

const stringOrSpace = /("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\n\r]+/g;

/** An item without insignificant white space. */
function textOf(array: string, start: number, end: number, isSpaced: boolean): string {
  const text = array.slice(start, end);
  return isSpaced ? text.replace(stringOrSpace, '$1') : text;
}
