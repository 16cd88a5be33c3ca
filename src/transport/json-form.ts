/**
 * The form of a JSON text: a scan of its bytes, before anything is parsed, counts levels and values, and finds where a long text may be
 * cut; then its pieces are parsed one by one.
 *
 * JSON-FORM-1  A text in pieces has the value that `JSON.parse` gives of the whole, and is refused when that refuses it: each element of
 *     a list and each member of an object is in one piece, or is cut itself; one comma lies between two pieces, and beside what is cut
 *     lie blanks alone.
 * JSON-FORM-2  A piece has `pieceMax` bytes and what no comma divides: a long name, or a long string with escapes. Of any other long string the value is a
 *     part of the text, and takes no memory of its own.
 */
import { BACKSLASH, behindEscape, COMMA, eachName, nearMax, QUOTE } from '../domain/json-text.ts';

/** Levels of objects and arrays in one body. [D38] */
export const depthMax = 64;
/**
 * Values in a body of so many bytes, at most. Written compactly, EVSEs with three capabilities and four tariffs each take
 * 17 bytes a value, charging periods 13, price components 10, dimensions of a CDR by themselves 9.
 */
export const valuesMax = (bytes: number): number => 20_000 + Math.floor(bytes / 8);

/** Members of one object. The largest of OCPI has some forty. */
export const membersMax = 2_000;

/** Bytes that are scanned, or parsed, in one piece. */
export const pieceBytes = 65_536;

export type Excess = 'depth' | 'values' | 'members';

const COLON = 0x3a;
const BRACKET = 0x5b;
const BRACE = 0x7b;

/** What is known of the open objects and arrays, by level. */
const newLevels = () => ({
  /** Members so far; far below zero in an array. */
  members: new Int32Array(depthMax + 1),
  /** Where it begins. */
  opens: new Int32Array(depthMax + 1),
  /** Where its elements begin that are in no piece yet. */
  runs: new Int32Array(depthMax + 1),
});
const inArray = -(2 ** 31);
/** Of a scan that is done at once. */
const levelsAtOnce = newLevels();

/** A cut. `open`, `string`: elements from `from` on, and then an object, an array or a string at `at`, which is cut itself. */
interface Cut {
  readonly kind: 'open' | 'string' | 'run' | 'blank' | 'close';
  readonly from: number;
  readonly at: number;
}

/**
 * Any result is possible for bytes that are not JSON. Scans bytes and not a string, because every character access of a
 * string first checks the string's representation. Values are at least as many as there are (an empty object or array
 * counts twice): commas, openings of both, and one.
 */
export class JsonForm {
  /** The limit that is passed first. */
  excess: Excess | null = null;
  /** Commas between the members of the outermost object or array. */
  commas = 0;
  readonly #bytes: Uint8Array;
  readonly #pieceMax: number;
  readonly #valuesMax: number;
  readonly #levels: typeof levelsAtOnce;
  #at = 0;
  #depth = 0;
  #values = 1;
  readonly #cuts: Cut[] = [];
  /** So many of the open levels, from the outermost on, are cut. */
  #cutLevels = 0;
  /** Whether the last of these has been cut right before what is scanned: a comma, or its end, must follow. */
  #isBehindCut = false;
  #isBroken = false;

  /** `pieceMax`: of a text that is parsed in pieces. */
  constructor(bytes: Uint8Array, pieceMax = Number.POSITIVE_INFINITY) {
    this.#bytes = bytes;
    this.#pieceMax = pieceMax;
    this.#valuesMax = valuesMax(bytes.length);
    this.#levels = bytes.length > pieceMax ? newLevels() : levelsAtOnce;
    // Around the outermost value is no object.
    this.#levels.members[0] = inArray;
    this.#levels.runs[0] = 0;
  }

  /** Scans the next piece. False: that was the last one. */
  scan(): boolean {
    const [bytes, most, { members, opens, runs }, pieceMax] = [
      this.#bytes,
      this.#valuesMax,
      this.#levels,
      this.#pieceMax,
    ];
    const end = Math.min(bytes.length, this.#at + pieceMax);
    let [at, depth, values] = [this.#at, this.#depth, this.#values];
    for (; at < end; at++) {
      const byte = bytes[at] as number;
      if (byte === QUOTE) {
        const from = at;
        at = closingQuote(bytes, from);
        if (at - from > pieceMax) this.#cutString(depth, from, at);
      }
      // `{` is 0x7b and `[` is 0x5b, `}` is 0x7d and `]` is 0x5d: each pair differs only in bit 0x20.
      else if ((byte | 0x20) === 0x7b) {
        if (++depth > depthMax) return this.#exceeds('depth');
        if (++values > most) return this.#exceeds('values');
        members[depth] = byte === BRACE ? 1 : inArray;
        opens[depth] = at;
        runs[depth] = at + 1;
      } else if ((byte | 0x20) === 0x7d) {
        if (depth === this.#cutLevels) this.#closed(depth, at);
        depth--;
      } else if (byte === COMMA) {
        if (depth === 1) this.commas++;
        if (++values > most) return this.#exceeds('values');
        const count = (members[depth] ?? inArray) + 1;
        if (count > membersMax) return this.#exceeds('members');
        members[depth] = count;
        if (depth === this.#cutLevels || at - (runs[depth] as number) > pieceMax) this.#comma(depth, at);
      }
    }
    [this.#at, this.#depth, this.#values] = [at, depth, values];
    return at < bytes.length;
  }

  #exceeds(excess: Excess): false {
    this.excess = excess;
    return false;
  }

  #comma(depth: number, at: number): void {
    const { runs } = this.#levels;
    const from = runs[depth] as number;
    if (depth < 1 || (!this.#isBehindCutAt(depth) && at - from <= this.#pieceMax)) return;
    this.#cut(this.#isBehindCutAt(depth) ? 'blank' : 'run', depth, at);
    this.#isBehindCut = false;
    runs[depth] = at + 1;
  }

  #closed(depth: number, at: number): void {
    if (depth < 1) {
      // What opens behind it would not be the outermost.
      this.#isBroken = true;
      return;
    }
    this.#cut(this.#isBehindCut ? 'blank' : 'run', depth, at);
    this.#cut('close', depth, at);
    this.#cutLevels = depth - 1;
    this.#isBehindCut = true;
    this.#levels.runs[depth - 1] = at + 1;
  }

  #cutString(depth: number, from: number, quote: number): void {
    let next = quote + 1;
    while (isBlank(this.#bytes[next])) next++;
    if (depth < 1 || quote >= this.#bytes.length || this.#bytes[next] === COLON) return;
    this.#cut('string', depth, from);
    this.#isBehindCut = true;
    this.#levels.runs[depth] = quote + 1;
  }

  #isBehindCutAt(depth: number): boolean {
    return this.#isBehindCut && depth === this.#cutLevels;
  }

  /** Cuts a level, and those around it. */
  #cut(kind: Cut['kind'], depth: number, at: number): void {
    const { opens, runs } = this.#levels;
    while (this.#cutLevels < depth) {
      const outer = this.#cutLevels++;
      if (this.#isBehindCut) this.#isBroken = true;
      this.#isBehindCut = false;
      this.#cuts.push({ kind: 'open', from: runs[outer] as number, at: opens[outer + 1] as number });
    }
    if (kind === 'string' && this.#isBehindCut) this.#isBroken = true;
    this.#cuts.push({ kind, from: runs[depth] as number, at });
  }

  /** The value of the text, which was scanned to its end; throws when it is not JSON. [JSON-FORM-1] */
  *parse(text: string): Generator<void, unknown> {
    if (this.#cuts.length === 0) return JSON.parse(text);
    const bytes = Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.byteLength);
    const part =
      text.length === bytes.length
        ? (from: number, to: number) => text.slice(from, to)
        : (from: number, to: number) => bytes.toString('utf8', from, to);
    const open: { readonly value: object; readonly key: string }[] = [];
    let whole: unknown;
    for (const { kind, from, at } of this.#cuts) {
      const inner = open.at(-1)?.value;
      if (kind === 'open') {
        const key = inner ? putLead(inner, part(from, at)) : needBlank(part(from, at));
        open.push({ value: bytes[at] === BRACKET ? [] : {}, key });
      } else if (kind === 'close') {
        const { value, key } = open.pop() ?? {};
        if (bytes[at] !== (Array.isArray(value) ? 0x5d : 0x7d)) throw new SyntaxError();
        const outer = open.at(-1)?.value;
        if (outer) put(outer, key ?? '', value);
        else whole = value;
      } else if (kind === 'blank') needBlank(part(from, at));
      else if (inner && kind === 'run') putRun(inner, part(from, at));
      else if (inner) {
        const key = putLead(inner, part(from, at));
        put(inner, key, yield* this.#string(part, at));
      }
      yield;
    }
    if (this.#isBroken || open.length > 0) throw new SyntaxError();
    needBlank(part(this.#levels.runs[0] as number, bytes.length));
    return whole;
  }

  /** [JSON-FORM-2] */
  *#string(part: (from: number, to: number) => string, from: number): Generator<void, unknown> {
    const quote = closingQuote(this.#bytes, from);
    const inner = part(from + 1, quote);
    for (let at = 0; at < inner.length; at += this.#pieceMax) {
      if (needsParser.test(inner.slice(at, at + this.#pieceMax))) return JSON.parse(part(from, quote + 1));
      yield;
    }
    return inner;
  }
}

/** An escape, or what a string must not have. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids them in a string.
const needsParser = /[\0-\x1f\\]/;

const isBlank = (byte: number | undefined) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

function needBlank(text: string): '' {
  if (/[^ \n\r\t]/.test(text)) throw new SyntaxError();
  return '';
}

/** Adds the elements of a text, of which there must be one. */
function putRun(to: object, text: string): void {
  if (putAll(to, text) === 0) throw new SyntaxError();
}

/** Adds the elements before one that is cut; returns the name under which that one comes. */
function putLead(to: object, text: string): string {
  // No token of JSON goes on with a bracket.
  putAll(to, `${text}[]`);
  if (Array.isArray(to)) {
    to.pop();
    return '';
  }
  let last = '';
  eachName(`{${text}[]}`, (name) => {
    last = name;
  });
  return last;
}

function putAll(to: object, text: string): number {
  if (Array.isArray(to)) {
    const items = JSON.parse(`[${text}]`) as unknown[];
    for (const item of items) to.push(item);
    return items.length;
  }
  const members = Object.entries(JSON.parse(`{${text}}`) as object);
  for (const [key, value] of members) put(to, key, value);
  return members.length;
}

function put(to: object, key: string, value: unknown): void {
  if (Array.isArray(to)) to.push(value);
  // An assignment would set the prototype.
  else if (key === '__proto__')
    Object.defineProperty(to, key, { value, writable: true, enumerable: true, configurable: true });
  else (to as Record<string, unknown>)[key] = value;
}

/** As `skipString` of `json-text.ts` does in a text. */
function closingQuote(bytes: Uint8Array, open: number): number {
  let at = open + 1;
  let far = at + nearMax;
  while (at < bytes.length) {
    const byte = bytes[at];
    if (byte === QUOTE) return at;
    at += byte === BACKSLASH ? 2 : 1;
    if (at < far) continue;
    at = behindEscape(bytes.indexOf(QUOTE, at), at, bytes.length, (place) => bytes[place]);
    far = at + nearMax;
  }
  return bytes.length;
}
