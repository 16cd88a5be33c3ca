/**
 * Answers HTTP that never became a request: late, oversized, malformed, or one too many on its connection. The connection ends with the answer.
 *
 * PARSER-REFUSALS-1  It follows the answers to the requests before it on the connection. [PIPELINE-3]
 * PARSER-REFUSALS-2  On a connection on which no token was accepted it waits for the turn of its address, as every answer to a stranger
 *     does; when the wait would be too long, the connection is closed without it. [VISITORS-1] The connection is not read meanwhile.
 */
import type { Socket } from 'node:net';
import type { Clock } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { isTrusted } from '../transport/client-connection.ts';
import { refusalText } from '../transport/envelope.ts';
import type { Visitors } from '../transport/visitors.ts';
import { beyondLine, firstUnsent, refuseInTurn } from './pipeline.ts';

/** Status line and OCPI status by code of the error; absent: 400. */
const refusals: Readonly<Record<string, readonly [status: string, ocpi: number]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 2000],
  HPE_HEADER_OVERFLOW: ['431 Request Header Fields Too Large', 2000],
  [beyondLine]: ['503 Service Unavailable', 3000],
};

/** The client has left, or never came to speak: what is written before the end of a TLS handshake is never sent, and would keep the connection. */
const unanswered: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'ERR_TLS_HANDSHAKE_TIMEOUT']);

/** Connections whose refusal waits for its turn. */
const waiting = new WeakSet<Socket>();
/** Whether nothing but a refusal is left to be sent on the connection. */
export const isRefusedLater = (socket: Socket): boolean => waiting.has(socket);

/** Refuses what the parser of a connection could not read. */
export type RefuseConnection = (error: NodeJS.ErrnoException, socket: Socket) => void;

interface Limits {
  /** Absent: nobody is limited. */
  readonly visitors?: Pick<Visitors, 'turn' | 'ofConnection'>;
  readonly clock?: Clock;
}

export function refuserOf({ visitors, clock = systemClock }: Limits): RefuseConnection {
  const refuse = (code: string | undefined, socket: Socket) => {
    // The parser meets its error again with what has been read already, and once a door reads the body of the request.
    if (waiting.has(socket)) return void socket.pause();
    // The answer before it ends the connection.
    if (!socket.writable) return void socket.resume();
    const address = isTrusted(socket) ? null : (visitors?.ofConnection(socket) ?? null);
    const waitMs = address === null ? 0 : visitors?.turn(address, false);
    if (waitMs === null) return void socket.destroy();
    if (!waitMs) return refuseNow(code, socket);
    waiting.add(socket);
    socket.pause();
    const timer = clock.setTimeout(() => refuseNow(code, socket), waitMs);
    socket.once('close', () => clock.clearTimeout(timer));
  };
  return ({ code }, socket) => {
    if (unanswered.has(code) || !socket.writable) return void socket.destroy();
    // The error holds all that the read has brought: its code alone waits. [PARSER-REFUSALS-1]
    refuseInTurn(code, socket, () => refuse(code, socket));
  };
}

function refuseNow(code: string | undefined, socket: Socket): void {
  // Not before a wait: Node would read on in spite of the pause that follows.
  socket.resume();
  // So may an answer that came meanwhile.
  if (!socket.writable) return;
  // An answer has begun: it ends incomplete, for the refusal would be taken for a part of it.
  if (firstUnsent(socket)?.headersSent) return void socket.destroy();
  const [status, ocpi] = refusals[code ?? ''] ?? ['400 Bad Request', 2000];
  const body = refusalText({ ocpi, message: status.slice(4) });
  const head = [`HTTP/1.1 ${status}`, 'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`];
  socket.end(`${head.join('\r\n')}\r\nConnection: close\r\n\r\n${body}`);
}
