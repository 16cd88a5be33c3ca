/**
 * Collects the bytes of a request's body. A refusal is returned as the result, not thrown: the HTTP server would answer an error by cutting
 * the connection, and a caller that is still sending would see a reset instead of the refusal.
 *
 * COLLECT-BODY-1  A body takes memory for its bytes, however small the pieces are in which it arrives: chunks of HTTP may have one
 *     byte each.
 * COLLECT-BODY-2  Each piece takes the thread microseconds, so a body in more than `piecesMax` is refused.
 */
import type { IncomingMessage } from 'node:http';
import { HubError } from '../domain/errors.ts';
import { Growing } from '../kit/growing.ts';

export interface Room {
  /** Size limit of the body, bytes. */
  readonly limit: number;
  /** Called for each piece that is kept; false when there is no room for it. */
  readonly hold?: ((bytes: number) => boolean) | undefined;
}

/** Pieces of so many bytes, at most. A network brings some 1,400 bytes in one. [COLLECT-BODY-2] */
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
