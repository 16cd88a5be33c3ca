/**
 * Scans and splices JSON text without rewriting the rest: numbers, escapes, white space and field order of a partner's
 * body survive every merge byte for byte. [D17]
 *
 * JSON-TEXT-1  Callers pass only text that `JSON.parse` has accepted: this scanner finds boundaries, it does not
 *     validate.
 * JSON-TEXT-2  The last of several duplicate keys counts, as in `JSON.parse`.
 * JSON-TEXT-3  The time is in proportion to the length of the text.
 */

export interface Span {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

/** Characters of a long text that are looked at in one piece: a millisecond. */
export const pieceMax = 65_536;

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const COMMA = 0x2c;
const COLON = 0x3a;
const BRACE = 0x7b;

export const isSpace = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
export const opens = (code: number) => code === 0x7b || code === 0x5b;
export const closes = (code: number) => code === 0x7d || code === 0x5d;

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
  const nested = { at, depth: 0 };
  skipNested(text, nested, text.length);
  return nested.at;
}

/** Goes on to the end of an object or array, or to the first place at or behind `until`. False: it has ended. */
function skipNested(text: string, nested: { at: number; depth: number }, until: number): boolean {
  let { at, depth } = nested;
  while (at < until) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = skipString(text, at);
      continue;
    }
    at++;
    if (opens(code)) depth++;
    else if (closes(code) && --depth === 0) break;
  }
  nested.at = at;
  nested.depth = depth;
  return depth > 0 && at < text.length;
}

/** As `skipValue`. */
function* skipInPieces(text: string, from: number): Generator<void, number> {
  if (!opens(text.charCodeAt(from))) return skipValue(text, from);
  const nested = { at: from, depth: 0 };
  while (skipNested(text, nested, Math.min(text.length, nested.at + pieceMax))) yield;
  return nested.at;
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

/** Visits the names of an object's own fields in order. */
export function eachName(text: string, visit: (name: string) => void): void {
  eachMember(text, 0, visit);
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
  for (let at = firstName(text, from); text.charCodeAt(at) === QUOTE; ) {
    const keyEnd = skipString(text, at);
    const start = valueBehind(text, keyEnd);
    const end = skipValue(text, start);
    if (visit(keyOf(text, at, keyEnd), { start, end }) === false) return;
    at = nextName(text, end);
  }
}

/** As `members`, in pieces. */
export function* membersInPieces(text: string): Generator<void, Map<string, Span>> {
  if (text.length <= pieceMax) return members(text);
  const found = new Map<string, Span>();
  for (let at = firstName(text, 0); text.charCodeAt(at) === QUOTE; ) {
    const keyEnd = skipString(text, at);
    const start = valueBehind(text, keyEnd);
    const end = yield* skipInPieces(text, start);
    found.set(keyOf(text, at, keyEnd), { start, end });
    at = nextName(text, end);
  }
  return found;
}

function firstName(text: string, from: number): number {
  const open = skipSpace(text, from);
  return text.charCodeAt(open) === BRACE ? skipSpace(text, open + 1) : text.length;
}

function keyOf(text: string, start: number, end: number): string {
  const quoted = text.slice(start, end);
  return quoted.includes('\\') ? (JSON.parse(quoted) as string) : quoted.slice(1, -1);
}

function valueBehind(text: string, keyEnd: number): number {
  const colon = skipSpace(text, keyEnd);
  return skipSpace(text, text.charCodeAt(colon) === COLON ? colon + 1 : colon);
}

function nextName(text: string, end: number): number {
  const comma = skipSpace(text, end);
  return text.charCodeAt(comma) === COMMA ? skipSpace(text, comma + 1) : text.length;
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

/** Does all pieces of work that a generator does in pieces. */
export function atOnce<T>(work: Generator<void, T>): T {
  for (;;) {
    const piece = work.next();
    if (piece.done) return piece.value;
  }
}
