/**
 * The 503 of a node that has nobody to answer a request, in the format of the door addressed: an OCPI envelope or
 * problem details. [D2, D14]
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { refusalText } from '../transport/envelope.ts';
import { correlationIdHeader, readId, requestIdHeader } from '../transport/headers.ts';
import { refusal } from '../transport/status-codes.ts';

export const pathOf = ({ url = '/' }: IncomingMessage): string =>
  (url.replace(/^https?:\/\/[^/?#]*/i, '') || '/').split('?', 1)[0] ?? '/';

const isBelow = (path: string, door: string) => path === door || path.startsWith(`${door}/`);

interface Answer {
  readonly headers: Record<string, string>;
  readonly body: string;
}

function unavailable(request: IncomingMessage, why: string): Answer {
  const path = pathOf(request);
  const { ocpi, message } = refusal({ code: 'unavailable', detail: {} });
  const ids = {
    [requestIdHeader]: readId(request.headers[requestIdHeader.toLowerCase()]),
    [correlationIdHeader]: readId(request.headers[correlationIdHeader.toLowerCase()]),
  };
  const isOcpi = isBelow(path, '/ocpi');
  const body = isOcpi
    ? refusalText({ ocpi, message })
    : JSON.stringify({
        type: 'urn:ocpi-hub:problem:unavailable',
        title: 'Unavailable',
        status: 503,
        detail: why,
        instance: path,
      });
  const type = isOcpi ? 'application/json' : 'application/problem+json; charset=utf-8';
  const length = String(Buffer.byteLength(body));
  return { headers: { ...ids, 'Retry-After': '1', 'Content-Type': type, 'Content-Length': length }, body };
}

const noNode = 'no node can answer this now';

/** Answers 503; destroys the response instead when its head has been sent. `why` is for operators only. */
export function refuse(request: IncomingMessage, response: ServerResponse, why = noNode): void {
  if (response.headersSent) return void response.destroy();
  const { headers, body } = unavailable(request, why);
  // Unread bytes of this request would precede the next request on a kept connection.
  const ending = request.complete ? {} : { Connection: 'close' };
  response.writeHead(503, { ...headers, ...ending }).end(body);
}

export function refuseUpgrade(request: IncomingMessage, socket: Duplex): void {
  const { headers, body } = unavailable(request, noNode);
  const lines = Object.entries({ ...headers, Connection: 'close' }).map(([name, value]) => `${name}: ${value}`);
  socket.on('error', () => socket.destroy());
  socket.once('finish', () => socket.destroy());
  socket.end(`HTTP/1.1 503 Service Unavailable\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
}
