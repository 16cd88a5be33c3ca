/**
 * Reads a request's body as bytes. A refusal is returned as the result, not thrown: the HTTP server would answer an
 * error by cutting the connection, and a caller that is still sending would see a reset instead of the refusal.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { HubError } from '../domain/errors.ts';

/** The bytes of a body, the refusal of it, or null for an empty one. */
export type Received = Buffer | HubError | null;

export interface Room {
  /** Size limit of the body, bytes. */
  readonly limit: number;
  /** Called for each chunk that is kept; false when there is no room for it. */
  readonly hold?: ((bytes: number) => boolean) | undefined;
}

/** Calls `tell` exactly once. */
export function receiveBody(
  headers: IncomingHttpHeaders,
  payload: Readable,
  room: Room,
  tell: (received: Received) => void,
): void {
  const length = headers['content-length'];
  if (length === '0') return tell(null);
  const wrongType = mediaTypeRefusal(headers);
  if (length !== undefined && wrongType) return tell(wrongType);
  if (Number(length) > room.limit) return tell(tooLarge(room.limit));
  collect(payload, room, (received) => {
    if (received instanceof Buffer && received.length === 0) tell(null);
    else tell(wrongType ?? received);
  });
}

const noRoomRetryS = 2;

const tooLarge = (limit: number) => new HubError('tooLarge', { message: `Body is larger than ${limit} bytes` });

function mediaTypeRefusal(headers: IncomingHttpHeaders): HubError | null {
  const isJson = /^application\/json\s*(?:;|$)/i.test(headers['content-type'] ?? '');
  const isPlain = /^(?:identity)?$/i.test(headers['content-encoding'] ?? '');
  if (!isJson) return new HubError('unsupportedMediaType');
  return isPlain ? null : new HubError('unsupportedMediaType', { message: 'Content-Encoding is not supported' });
}

/** Collects all bytes. Beyond `limit`, or without room, it refuses and discards the rest as it arrives. */
function collect(payload: Readable, { limit, hold }: Room, tell: (received: Buffer | HubError) => void): void {
  const chunks: Buffer[] = [];
  let length = 0;
  let isTold = false;
  const end = (received: Buffer | HubError) => {
    if (isTold) return;
    isTold = true;
    chunks.length = 0;
    tell(received);
  };
  payload.on('data', (chunk: Buffer) => {
    if (isTold) return;
    length += chunk.length;
    if (length > limit) return end(tooLarge(limit));
    if (hold?.(chunk.length) === false) return end(new HubError('unavailable', { retryAfterS: noRoomRetryS }));
    chunks.push(chunk);
  });
  payload.on('end', () => {
    const [first] = chunks;
    end(chunks.length === 1 && first ? first : Buffer.concat(chunks));
  });
  // The caller disconnected: nobody reads this refusal, and any other error would be logged as a bug of the hub.
  payload.on('error', () => end(new HubError('notJson', { message: 'Body ended early' })));
}
