/**
 * The body of a request: its media type, its bytes as they arrive, and the JSON in them, with the limits that apply before
 * `JSON.parse` sees the text. [D38, D49] A refusal of its bytes is returned as the result, not thrown: the HTTP server would answer
 * an error by cutting the connection, and a caller that is still sending would see a reset instead of the refusal.
 *
 * BODY-1  A body takes memory for its bytes, however small the pieces are in which it arrives: chunks of HTTP may have one byte
 *     each.
 * BODY-2  Each piece takes the thread microseconds, so a body in more than `piecesMax` is refused.
 * BODY-3  Bytes that are not UTF-8, and text that is not JSON, are refused: 400/2001.
 * BODY-4  A scan of the bytes limits nesting before parsing: `JSON.parse` accepts a million levels, but the code
 *     that processes the value does not. It limits the number of values, too, by the bytes that they take: 4 MiB may be two
 *     million zeros, which the parser takes a tenth of a second for, and the code behind it longer. What a partner may
 *     send is counted in bytes, so values cost it what they cost the hub. An object with very many names costs five to ten
 *     times as much as an array of as many values, so the members of one object are limited, too.
 * BODY-5  The text is kept beside the value, because the text is what is stored and forwarded. [D17]
 */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { HubError } from '../domain/errors.ts';
import { BACKSLASH, behindEscape, COMMA, nearMax, QUOTE } from '../domain/json-text.ts';
import { Growing } from '../kit/growing.ts';

interface Room {
  /** Size limit of the body, bytes. */
  readonly limit: number;
  /** Called for each piece that is kept; false when there is no room for it. */
  readonly hold?: ((bytes: number) => boolean) | undefined;
}

/** Reads a body of the media type of OCPI: its bytes, the refusal of it, or null for an empty one. Calls `tell` exactly once. */
export function receiveBody(
  payload: IncomingMessage,
  room: Room,
  tell: (received: Buffer | HubError | null) => void,
): void {
  const length = payload.headers['content-length'];
  if (length === '0') return tell(null);
  const wrongType = mediaTypeRefusal(payload);
  if (length !== undefined && wrongType) return tell(wrongType);
  collectBody(payload, room, (received) => {
    if (received instanceof Buffer && received.length === 0) tell(null);
    else tell(wrongType ?? received);
  });
}

function mediaTypeRefusal({ headers }: IncomingMessage): HubError | null {
  const isJson = /^application\/json\s*(?:;|$)/i.test(headers['content-type'] ?? '');
  const isPlain = /^(?:identity)?$/i.test(headers['content-encoding'] ?? '');
  if (!isJson) return new HubError('unsupportedMediaType');
  return isPlain ? null : new HubError('unsupportedMediaType', { message: 'Content-Encoding is not supported' });
}

/** Pieces of so many bytes, at most. A network brings some 1,400 bytes in one. [BODY-2] */
const piecesMax = (bytes: number): number => 4_096 + bytes / 64;

const noRoomRetryS = 2;

const tooLarge = (limit: number) => new HubError('tooLarge', { message: `Body is larger than ${limit} bytes` });

/** Calls `tell` exactly once. After a refusal the rest of the body is discarded as it arrives. */
export function collectBody(
  payload: IncomingMessage,
  { limit, hold }: Room,
  tell: (received: Buffer | HubError) => void,
): void {
  if (Number(payload.headers['content-length']) > limit) return tell(tooLarge(limit));
  let body: Growing | null = new Growing();
  let pieces = 0;
  const end = (received: Buffer | HubError) => {
    if (body === null) return;
    body = null;
    tell(received);
  };
  payload.on('data', (piece: Buffer) => {
    if (body === null) return;
    pieces += 1;
    const length = body.length + piece.length;
    if (length > limit) return end(tooLarge(limit));
    if (pieces > piecesMax(length)) return end(new HubError('tooFragmented'));
    if (hold?.(piece.length) === false) return end(new HubError('unavailable', { retryAfterS: noRoomRetryS }));
    body.add(piece);
  });
  payload.on('end', () => body && end(body.bytes));
  // The caller disconnected: nobody reads this refusal, and any other error would be logged as a bug of the hub.
  payload.on('error', () => end(new HubError('notJson', { message: 'Body ended early' })));
}

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

/** Why an answer in JSON is not parsed, `is nested more than 64 levels deep`; null when it is. [BODY-4] */
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
