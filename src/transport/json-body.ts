/**
 * Parses the bytes of a body as JSON, with the limits that apply before `JSON.parse` sees the text. [D38, D49]
 *
 * JSON-BODY-1  Bytes that are not UTF-8, and text that is not JSON, are refused: 400/2001.
 * JSON-BODY-2  A scan of the bytes limits nesting before parsing: `JSON.parse` accepts a million levels, but the code
 *     that processes the value does not. It limits the number of values, too, by the bytes that they take: 4 MiB may be two
 *     million zeros, which the parser takes a tenth of a second for, and the code behind it longer. What a partner may
 *     send is counted in bytes, so values cost it what they cost the hub. An object with very many names costs five to ten
 *     times as much as an array of as many values, so the members of one object are limited, too.
 * JSON-BODY-3  The text is kept beside the value, because the text is what is stored and forwarded. [D17]
 */
import { isUtf8 } from 'node:buffer';
import { HubError } from '../domain/errors.ts';
import { BACKSLASH, behindEscape, COMMA, nearMax, QUOTE } from '../domain/json-text.ts';

export interface JsonBody {
  /** Without a byte order mark. */
  readonly text: string;
  readonly value: unknown;
  /** Members of the outermost object as written: a repeated name counts each time, although parsing keeps it once. */
  readonly names: number;
  /** The body began with a byte order mark, which RFC 8259 forbids. [D71] */
  readonly hasMark: boolean;
}

/** Levels of objects and arrays in one body. [D38] */
export const depthMax = 64;
/**
 * Values in a body of so many bytes, at most. Written compactly, EVSEs with three capabilities and four tariffs each take
 * 17 bytes a value, charging periods 13, price components 10, dimensions of a CDR by themselves 9.
 */
export const valuesMax = (bytes: number): number => 20_000 + Math.floor(bytes / 8);

/** Members of one object. The largest of OCPI has some forty. */
export const membersMax = 2_000;

export function readJson(received: Uint8Array): JsonBody {
  const hasMark = received[0] === 0xef && received[1] === 0xbb && received[2] === 0xbf;
  const bytes = hasMark ? received.subarray(3) : received;
  if (!isUtf8(bytes)) throw new HubError('notJson', { message: 'Body is not valid UTF-8' });
  const { excess, commas } = formOf(bytes);
  if (excess)
    throw new HubError(excess === 'depth' ? 'tooDeep' : 'tooLarge', { message: `Body ${excessText(excess, bytes)}` });
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  try {
    return { text, value: JSON.parse(text), names: commas + 1, hasMark };
  } catch {
    // The parser's own message would quote the body.
    throw new HubError('notJson');
  }
}

/** Why an answer in JSON is not parsed, `is nested more than 64 levels deep`; null when it is. [JSON-BODY-2] */
export function excessOf(text: string): string | null {
  if (text.length < 2 * (depthMax + 1)) return null;
  const bytes = Buffer.from(text);
  const { excess } = formOf(bytes);
  return excess && excessText(excess, bytes);
}

function excessText(excess: Excess, { length }: Uint8Array): string {
  if (excess === 'depth') return `is nested more than ${depthMax} levels deep`;
  if (excess === 'values') return `of ${length} bytes has too many values: ${valuesMax(length)} at most`;
  return `has an object of too many members: ${membersMax} at most`;
}

type Excess = 'depth' | 'values' | 'members';

interface Form {
  /** The limit that is passed first. */
  readonly excess: Excess | null;
  /** Commas between the members of the outermost object or array. */
  readonly commas: number;
}

/** Members of the present object at each level of nesting; far below zero in an array. */
const inArray = -(2 ** 31);
const membersAt = new Int32Array(depthMax + 1).fill(inArray);

/**
 * Any result is possible for bytes that are not JSON. Scans bytes and not a string, because every character access of a
 * string first checks the string's representation. Values are at least as many as there are (an empty object or array
 * counts twice): commas, openings of both, and one.
 */
function formOf(bytes: Uint8Array): Form {
  const most = valuesMax(bytes.length);
  let depth = 0;
  let commas = 0;
  let values = 1;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) at = closingQuote(bytes, at);
    // `{` is 0x7b and `[` is 0x5b, `}` is 0x7d and `]` is 0x5d: each pair differs only in bit 0x20.
    else if ((byte | 0x20) === 0x7b) {
      if (++depth > depthMax) return { excess: 'depth', commas };
      if (++values > most) return { excess: 'values', commas };
      membersAt[depth] = byte === 0x7b ? 1 : inArray;
    } else if ((byte | 0x20) === 0x7d) depth--;
    else if (byte === COMMA) {
      if (depth === 1) commas++;
      if (++values > most) return { excess: 'values', commas };
      const members = (membersAt[depth] ?? inArray) + 1;
      if (members > membersMax) return { excess: 'members', commas };
      membersAt[depth] = members;
    }
  }
  return { excess: null, commas };
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
