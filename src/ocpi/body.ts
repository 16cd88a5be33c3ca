/**
 * Reads a request's body as bytes, if its media type is that of OCPI.
 */
import type { IncomingMessage } from 'node:http';
import { HubError } from '../domain/errors.ts';
import { collectBody, type Room } from '../transport/collect-body.ts';

/** The bytes of a body, the refusal of it, or null for an empty one. */
export type Received = Buffer | HubError | null;

/** Calls `tell` exactly once. */
export function receiveBody(payload: IncomingMessage, room: Room, tell: (received: Received) => void): void {
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
