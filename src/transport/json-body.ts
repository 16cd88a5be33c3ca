/**
 * Parses the bytes of a body as JSON, with the limits that apply before `JSON.parse` sees the text. [D38, D49]
 *
 * JSON-BODY-1  Bytes that are not UTF-8, and text that is not JSON, are refused: 400/2001.
 * JSON-BODY-2  A scan of the bytes limits nesting before parsing: `JSON.parse` accepts a million levels, but the code
 *     that processes the value does not. It limits the number of values, too, by the bytes that they take: 4 MiB may be two
 *     million zeros, which the parser takes a tenth of a second for, and the code behind it longer. What a partner may
 *     send is counted in bytes, so values cost it what they cost the hub.
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

export function readJson(received: Uint8Array): JsonBody {
  const hasMark = received[0] === 0xef && received[1] === 0xbb && received[2] === 0xbf;
  const bytes = hasMark ? received.subarray(3) : received;
  if (!isUtf8(bytes)) throw new HubError('notJson', { message: 'Body is not valid UTF-8' });
  const most = valuesMax(bytes.length);
  const { isTooDeep, commas, values } = formOf(bytes, depthMax, most);
  if (isTooDeep) throw new HubError('tooDeep', { message: `Body is nested more than ${depthMax} levels deep` });
  if (values > most)
    throw new HubError('tooLarge', { message: `Body of ${bytes.length} bytes has too many values: ${most} at most` });
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  try {
    return { text, value: JSON.parse(text), names: commas + 1, hasMark };
  } catch {
    // The parser's own message would quote the body.
    throw new HubError('notJson');
  }
}

/** Whether objects and arrays are nested deeper than `max`. Undefined result for text that is not JSON. */
export function isDeeperThan(text: string, max: number): boolean {
  return text.length >= 2 * (max + 1) && formOf(Buffer.from(text), max, Number.POSITIVE_INFINITY).isTooDeep;
}

interface Form {
  readonly isTooDeep: boolean;
  /** Commas between the members of the outermost object or array. */
  readonly commas: number;
  /** At least as many as there are (an empty object or array counts twice): commas, openings of both, and one. */
  readonly values: number;
}

/**
 * Any result is possible for bytes that are not JSON. Ends early when there are more than `most` values. Scans bytes and not a string, because every character access of a
 * string first checks the string's representation.
 */
function formOf(bytes: Uint8Array, max: number, most: number): Form {
  let depth = 0;
  let commas = 0;
  let values = 1;
  for (let at = 0; at < bytes.length && values <= most; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) at = closingQuote(bytes, at);
    // `{` is 0x7b and `[` is 0x5b, `}` is 0x7d and `]` is 0x5d: each pair differs only in bit 0x20.
    else if ((byte | 0x20) === 0x7b) {
      values++;
      if (++depth > max) return { isTooDeep: true, commas, values };
    } else if ((byte | 0x20) === 0x7d) depth--;
    else if (byte === COMMA) {
      values++;
      if (depth === 1) commas++;
    }
  }
  return { isTooDeep: false, commas, values };
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
