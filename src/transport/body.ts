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
import { atOnce } from '../domain/json-text.ts';
import { Growing } from '../kit/growing.ts';
import { depthMax, type Excess, JsonForm, membersMax, pieceBytes, valuesMax } from './json-form.ts';

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
  let body: Growing | null = new Growing(Number(payload.headers['content-length'] ?? 0));
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

/** Reads a body at once. */
export const readJson = (received: Uint8Array): JsonBody => atOnce(readingJson(received));

/** The same in pieces, which may run in several turns of the event loop. `pieceMax`: bytes. [JSON-FORM-1] */
export function* readingJson(received: Uint8Array, pieceMax = pieceBytes): Generator<void, JsonBody> {
  const hasMark = received[0] === 0xef && received[1] === 0xbb && received[2] === 0xbf;
  const bytes = hasMark ? received.subarray(3) : received;
  if (!isUtf8(bytes)) throw new HubError('notJson', { message: 'Body is not valid UTF-8' });
  const form = new JsonForm(bytes, pieceMax);
  while (form.scan()) yield;
  const { excess, commas } = form;
  if (excess)
    throw new HubError(excess === 'depth' ? 'tooDeep' : 'tooLarge', { message: `Body ${excessText(excess, bytes)}` });
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  if (bytes.length > pieceMax) yield;
  try {
    return { text, value: yield* form.parse(text), names: commas + 1, hasMark };
  } catch {
    // The parser's own message would quote the body.
    throw new HubError('notJson');
  }
}

/** Why an answer in JSON is not parsed, `is nested more than 64 levels deep`; null when it is. [BODY-4] */
export function excessOf(text: string): string | null {
  if (text.length < 2 * (depthMax + 1)) return null;
  const bytes = Buffer.from(text);
  const form = new JsonForm(bytes);
  form.scan();
  const { excess } = form;
  return excess && excessText(excess, bytes);
}

function excessText(excess: Excess, { length }: Uint8Array): string {
  if (excess === 'depth') return `is nested more than ${depthMax} levels deep`;
  if (excess === 'values') return `of ${length} bytes has too many values: ${valuesMax(length)} at most`;
  return `has an object of too many members: ${membersMax} at most`;
}
