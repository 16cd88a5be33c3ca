/**
 * Appends to the text of an array those items of another that it does not have yet.
 *
 * JSON-ITEMS-1  Items are the same when their values are. If one array has more than `parsedMax` characters, they are the same
 *     when their texts differ only by insignificant white space: to parse so many values takes the thread for too long.
 * JSON-ITEMS-2  The time is in proportion to the length of both texts, whatever the items are.
 */
import {
  appendItems,
  BACKSLASH,
  COMMA,
  closes,
  isSpace,
  items,
  opens,
  QUOTE,
  type Span,
  skipSpace,
  slice,
} from './json-text.ts';

/** So many items are looked for in the text of an array before its items are compared. */
const soughtMax = 16;
/** Characters of an array up to which its items are compared by value. [JSON-ITEMS-1] */
const parsedMax = 65_536;

export function appendNewItems(array: string, more: string): string {
  const wanted = more.length <= parsedMax ? plainItems(more) : null;
  if (wanted && isCertainlyNew(array, wanted)) return appendItems(array, more);
  const known = wanted && array.length <= parsedMax ? sameByValue(array, wanted) : sameAsWritten(array, more);
  if (!known.includes(1)) return appendItems(array, more);
  const fresh = items(more, wholeOf(more)).filter((_, at) => known[at] === 0);
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

/** For each wanted item 1 if `array` has it, else 0. */
function sameByValue(array: string, wanted: readonly string[]): Int32Array {
  const known = new Set(plainItems(array));
  return Int32Array.from(wanted, (item) => (known.has(item) ? 1 : 0));
}

/**
 * For each item of `more` 1 if `array` has it, else 0. Numbers in typed arrays and an open hash table, because an object for
 * each of so many items costs more than the comparison.
 */
function sameAsWritten(array: string, more: string): Int32Array {
  /** By the last bits of a hash, whether an item of `more` has them. */
  const isWanted = new Uint8Array(2 ** 16);
  let count = 0;
  eachItem(more, (_start, _end, hash) => {
    isWanted[hash & 0xffff] = 1;
    count++;
  });
  let isPossible = false;
  eachItem(array, (_start, _end, hash) => {
    if (isWanted[hash & 0xffff] === 1) isPossible = true;
  });
  if (!isPossible) return new Int32Array(0);
  const starts = new Int32Array(count);
  const ends = new Int32Array(count);
  const hashes = new Int32Array(count);
  /** For each item the first one that is the same. */
  const firsts = new Int32Array(count);
  const isThere = new Uint8Array(count);
  /** By slot, 1 + the position of an item; 0 in a free one. */
  const slots = new Int32Array(2 ** Math.ceil(Math.log2(2 * count + 1)));
  /** The slot of an item, or the free one where it belongs. */
  const slotOf = (text: string, start: number, end: number, hash: number): number => {
    for (let slot = hash; ; slot++) {
      slot &= slots.length - 1;
      const at = (slots[slot] ?? 0) - 1;
      if (at === -1) return slot;
      if (hashes[at] === hash && isSameText(text, start, end, more, starts[at] ?? 0, ends[at] ?? 0)) return slot;
    }
  };
  let next = 0;
  eachItem(more, (start, end, hash) => {
    starts[next] = start;
    ends[next] = end;
    hashes[next] = hash;
    const slot = slotOf(more, start, end, hash);
    firsts[next] = slots[slot] === 0 ? next : (slots[slot] ?? 0) - 1;
    if (slots[slot] === 0) slots[slot] = next + 1;
    next += 1;
  });
  eachItem(array, (start, end, hash) => {
    const at = (slots[slotOf(array, start, end, hash)] ?? 0) - 1;
    if (at !== -1) isThere[at] = 1;
  });
  return firsts.map((first) => isThere[first] ?? 0);
}

const wholeOf = (array: string): Span => ({ start: array.indexOf('['), end: array.lastIndexOf(']') + 1 });

/** Another in each process: no sender can write many items that have one hash. [JSON-ITEMS-2] */
const hashKey = Math.floor(Math.random() * 2 ** 31) * 2 + 1;

/** Visits the items of an array text in order, each with a hash of its text without insignificant white space. */
function eachItem(array: string, visit: (start: number, end: number, hash: number) => void): void {
  const { start: open, end: close } = wholeOf(array);
  let start = open;
  let end = open;
  let hash = 0;
  let depth = 0;
  let isInString = false;
  let isEscaped = false;
  for (let at = open + 1; at < close; at++) {
    const code = array.charCodeAt(at);
    if (!isInString) {
      if (isSpace(code)) continue;
      if (depth === 0 && (code === COMMA || at === close - 1)) {
        if (start > open) visit(start, end, hash);
        start = open;
        hash = 0;
        continue;
      }
      if (opens(code)) depth++;
      else if (closes(code)) depth--;
    }
    if (start === open) start = at;
    end = at + 1;
    hash = Math.imul(hash ^ code, hashKey);
    hash ^= hash >>> 15;
    if (isEscaped) isEscaped = false;
    else if (code === BACKSLASH) isEscaped = true;
    else if (code === QUOTE) isInString = !isInString;
  }
}

/** Whether two pieces of JSON text, ends exclusive, differ at most by insignificant white space. */
function isSameText(one: string, from: number, to: number, other: string, otherFrom: number, otherTo: number): boolean {
  let at = from;
  let otherAt = otherFrom;
  let isInString = false;
  let isEscaped = false;
  while (at < to && otherAt < otherTo) {
    if (!isInString) {
      at = skipSpace(one, at);
      otherAt = skipSpace(other, otherAt);
    }
    const code = one.charCodeAt(at);
    if (code !== other.charCodeAt(otherAt)) return false;
    if (isEscaped) isEscaped = false;
    else if (code === BACKSLASH) isEscaped = true;
    else if (code === QUOTE) isInString = !isInString;
    at++;
    otherAt++;
  }
  return at === to && otherAt === otherTo;
}
