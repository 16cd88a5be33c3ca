/**
 * Reads a request's body as bytes. A refusal is the result, not an error: the HTTP server would answer an error by cutting the
 * connection, and a caller that is still sending would then see a reset instead of our answer.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { HubError } from '../domain/errors.ts';

/**
 * The bytes; null for an empty body; what is wrong with it. `limit` in bytes. `hold` is told of all that is kept, and says whether
 * there is room for it.
 */
export async function receiveBody(
  headers: IncomingHttpHeaders,
  payload: Readable,
  limit: number,
  hold: (bytes: number) => boolean = () => true,
): Promise<Buffer | HubError | null> {
  const length = headers['content-length'];
  if (length === '0') return null;
  const wrongType = mediaTypeRefusal(headers);
  if (length !== undefined && wrongType) return wrongType;
  if (Number(length) > limit) return tooLarge(limit);
  const received = await collect(payload, limit, hold);
  if (received instanceof Buffer && received.length === 0) return null;
  return wrongType ?? received;
}

const noRoomRetryS = 2;

const tooLarge = (limit: number) => new HubError('tooLarge', { message: `Body is larger than ${limit} bytes` });

function mediaTypeRefusal(headers: IncomingHttpHeaders): HubError | null {
  const isJson = /^application\/json\s*(?:;|$)/i.test(headers['content-type'] ?? '');
  const isPlain = /^(?:identity)?$/i.test(headers['content-encoding'] ?? '');
  if (!isJson) return new HubError('unsupportedMediaType');
  return isPlain ? null : new HubError('unsupportedMediaType', { message: 'Content-Encoding is not supported' });
}

/** All bytes, unless there are more than `limit` or than there is room for; then the rest is thrown away as it comes. */
function collect(payload: Readable, limit: number, hold: (bytes: number) => boolean): Promise<Buffer | HubError> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    let isRefused = false;
    const refuse = (refusal: HubError) => {
      isRefused = true;
      chunks.length = 0;
      resolve(refusal);
    };
    payload.on('data', (chunk: Buffer) => {
      if (isRefused) return;
      length += chunk.length;
      if (length > limit) return refuse(tooLarge(limit));
      if (!hold(chunk.length)) return refuse(new HubError('unavailable', { retryAfterS: noRoomRetryS }));
      chunks.push(chunk);
    });
    payload.on('end', () => resolve(Buffer.concat(chunks)));
    // The caller has gone: nobody reads the refusal, and it is no bug of ours.
    payload.on('error', () => resolve(new HubError('notJson', { message: 'Body ended early' })));
  });
}
