/**
 * Scans and splices JSON text without rewriting the rest: numbers, escapes, white space and field order of a partner's
 * body survive every merge byte for byte. [D17]
 *
 * JSON-TEXT-1  Callers pass only text that `JSON.parse` has accepted: this scanner finds boundaries, it does not
 *     validate.
 * JSON-TEXT-2  The last of several duplicate keys counts, as in `JSON.parse`.
 * JSON-TEXT-3  Items are the same when their values are. If one array has more than `parsedMax` characters, they are the
 *     same when their texts differ only by insignificant white space: to parse so many values takes the thread for too
 *     long.
 * JSON-TEXT-4  The time is in proportion to the length of both texts, whatever the items are.
 */

export interface Span {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const COMMA = 0x2c;
const COLON = 0x3a;
const BRACE = 0x7b;

const isSpace = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
const opens = (code: number) => code === 0x7b || code === 0x5b;
const closes = (code: number) => code === 0x7d || code === 0x5d;

function skipSpace(text: string, from: number): number {
  let at = from;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

/**
 * Characters of a string that are looked at one by one before the engine searches for its quote: a hundred times as fast
 * in a long string, slower where escaped quotes follow each other.
 */
export const nearMax = 64;

/** Position after the string that starts at `from`. */
function skipString(text: string, from: number): number {
  let at = from + 1;
  let far = at + nearMax;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    at += code === BACKSLASH ? 2 : 1;
    if (at < far) continue;
    at = behindEscape(text.indexOf('"', at), at, text.length, (place) => text.charCodeAt(place));
    far = at + nearMax;
  }
  return text.length;
}

/**
 * Where to look on in a string of which the next quote at or behind `from`, which is not escaped, was found: that quote,
 * or the position behind it when it is escaped; `length` when none was found. `codeAt`: the text, or its bytes.
 */
export function behindEscape(
  quote: number,
  from: number,
  length: number,
  codeAt: (place: number) => number | undefined,
): number {
  if (quote < 0) return length;
  let before = quote;
  while (before > from && codeAt(before - 1) === BACKSLASH) before--;
  return (quote - before) % 2 === 0 ? quote : quote + 1;
}

/** Position after the value that starts at `from`. */
function skipValue(text: string, from: number): number {
  const first = text.charCodeAt(from);
  if (first === QUOTE) return skipString(text, from);
  let at = from;
  if (!opens(first)) {
    while (at < text.length) {
      const code = text.charCodeAt(at);
      if (code === COMMA || closes(code) || isSpace(code)) break;
      at++;
    }
    return at;
  }
  let depth = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = skipString(text, at);
      continue;
    }
    if (opens(code)) depth++;
    else if (closes(code) && --depth === 0) return at + 1;
    at++;
  }
  return at;
}

/** Span of one field of the object that begins at `from`; undefined when it has none. [JSON-TEXT-2] */
export function member(text: string, from: number, name: string): Span | undefined {
  let found: Span | undefined;
  eachMember(text, from, (key, span) => {
    if (key === name) found = span;
  });
  return found;
}

/** Spans of the values of an object's own fields; empty when the text is not an object. */
export function members(text: string): Map<string, Span> {
  const found = new Map<string, Span>();
  eachMember(text, 0, (key, span) => found.set(key, span));
  return found;
}

/** Span of the first field of that name; undefined when there is none. Reads no further. */
export function firstMember(text: string, name: string): Span | undefined {
  let found: Span | undefined;
  eachMember(text, 0, (key, span) => {
    if (key === name) found = span;
    return found === undefined;
  });
  return found;
}

/** Names that case folding leaves unchanged. */
const isPlainName = /^[a-z_]+$/;

/** Case folding: upper case first, then lower case, so that letters that share an upper-case form become equal. */
const folded = (name: string): string => name.toUpperCase().toLowerCase();

/**
 * The first of `names` that JSON readers may resolve differently, because the object has it twice or in another case;
 * null when there is none. Some readers take the first of two equal keys, and some compare keys case-insensitively.
 */
export function ambiguousName(text: string, names: ReadonlySet<string>): string | null {
  const seen = new Set<string>();
  let found: string | null = null;
  eachMember(text, 0, (key) => {
    const name = names.has(key) || isPlainName.test(key) ? key : folded(key);
    if (!names.has(name)) return;
    if (key !== name || seen.has(name)) found ??= name;
    seen.add(name);
  });
  return found;
}

/**
 * Fast check on a parsed object: true when it certainly has no ambiguous name. `written` is the number of keys that its
 * text has; the text is not scanned again.
 */
export function isUnambiguous(object: object, written: number, names: ReadonlySet<string>): boolean {
  const keys = Object.keys(object);
  return (
    keys.length === written && keys.every((key) => names.has(key) || isPlainName.test(key) || !names.has(folded(key)))
  );
}

/** Visits the fields of the object that begins at `from`, in order, until `visit` returns false. */
function eachMember(text: string, from: number, visit: (key: string, span: Span) => unknown): void {
  const open = skipSpace(text, from);
  if (text.charCodeAt(open) !== BRACE) return;
  let at = skipSpace(text, open + 1);
  while (text.charCodeAt(at) === QUOTE) {
    const keyEnd = skipString(text, at);
    const quoted = text.slice(at, keyEnd);
    const key = quoted.includes('\\') ? (JSON.parse(quoted) as string) : quoted.slice(1, -1);
    const colon = skipSpace(text, keyEnd);
    const start = skipSpace(text, text.charCodeAt(colon) === COLON ? colon + 1 : colon);
    const end = skipValue(text, start);
    if (visit(key, { start, end }) === false) return;
    at = skipSpace(text, end);
    if (text.charCodeAt(at) !== COMMA) return;
    at = skipSpace(text, at + 1);
  }
}

/** Spans of the items of an array. */
export function items(text: string, array: Span): Span[] {
  const found: Span[] = [];
  let at = skipSpace(text, array.start + 1);
  while (at < array.end - 1) {
    const end = skipValue(text, at);
    found.push({ start: at, end });
    at = skipSpace(text, end);
    if (text.charCodeAt(at) !== COMMA) break;
    at = skipSpace(text, at + 1);
  }
  return found;
}

export const slice = (text: string, span: Span): string => text.slice(span.start, span.end);

/** Sets fields of an object to raw JSON values; new fields go to its end. `present`: the spans of its fields. */
export function setMembers(text: string, values: ReadonlyMap<string, string>, present = members(text)): string {
  const edits: { span: Span; value: string }[] = [];
  const added: string[] = [];
  for (const [key, value] of values) {
    const span = present.get(key);
    if (span) edits.push({ span, value });
    else added.push(`${JSON.stringify(key)}:${value}`);
  }
  if (added.length > 0) {
    const close = text.lastIndexOf('}');
    const glue = present.size > 0 ? ',' : '';
    edits.push({ span: { start: close, end: close }, value: glue + added.join(',') });
  }
  return splice(text, edits);
}

/** Replaces spans of the text; they must not overlap. */
export function splice(text: string, edits: readonly { span: Span; value: string }[]): string {
  let result = '';
  let from = 0;
  for (const { span, value } of [...edits].sort((a, b) => a.span.start - b.span.start)) {
    result += text.slice(from, span.start) + value;
    from = span.end;
  }
  return result + text.slice(from);
}

/** Appends the items of another array text to an array text. */
export function appendItems(array: string, more: string): string {
  const inner = more.slice(more.indexOf('[') + 1, more.lastIndexOf(']'));
  if (inner.trim() === '') return array;
  const close = array.lastIndexOf(']');
  const isEmpty = skipSpace(array, array.indexOf('[') + 1) === close;
  return `${array.slice(0, close)}${isEmpty ? '' : ','}${inner}]`;
}

/**
 * Puts `item` into the array field `field` of an object: it replaces the item at `existing`, or goes to the end.
 */
export function upsertItem(text: string, field: string, item: string, existing: Span | null): string {
  if (existing) return splice(text, [{ span: existing, value: item }]);
  const array = member(text, 0, field);
  if (!array || text.charCodeAt(array.start) !== 0x5b) return setMembers(text, new Map([[field, `[${item}]`]]));
  return splice(text, [{ span: array, value: appendItems(slice(text, array), `[${item}]`) }]);
}

/** Span of the item with this id in an array field; ids compare case-insensitively. [D12] */
export function findItem(text: string, field: string, idField: string, id: string): Span | null {
  const array = member(text, 0, field);
  if (!array || text.charCodeAt(array.start) !== 0x5b) return null;
  for (const span of items(text, array)) {
    const idSpan = member(text, span.start, idField);
    if (!idSpan) continue;
    const written = slice(text, idSpan);
    const value: unknown = /^"[^\\]*"$/.test(written) ? written.slice(1, -1) : JSON.parse(written);
    if (typeof value === 'string' && value.toLowerCase() === id.toLowerCase()) return span;
  }
  return null;
}

// Appends to the text of an array those items of another that it does not have yet.

/** So many items are looked for in the text of an array before its items are compared. */
const soughtMax = 16;
/** Characters of an array up to which its items are compared by value. [JSON-TEXT-3] */
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
