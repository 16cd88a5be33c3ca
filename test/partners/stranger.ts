/**
 * A partner that misbehaves at will: a raw TCP (or TLS) server whose every connection is handled by the test. It stands beside the plain
 * partner, which speaks proper HTTP.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';

export interface Stranger {
  readonly port: number;
  readonly url: string;
  /** Every connection, in order. */
  readonly sockets: readonly Socket[];
  /** Every request, as text, in order. */
  readonly requests: readonly string[];
  close(): Promise<void>;
}

/** `onRequest` is called for each complete request with its socket, its text and its number on that socket, from 1. */
export async function stranger(
  onRequest: (socket: Socket, request: string, nth: number) => void,
  tls?: { readonly key: string; readonly cert: string },
): Promise<Stranger> {
  const sockets: Socket[] = [];
  const requests: string[] = [];
  const onSocket = (socket: Socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    let text = '';
    let nth = 0;
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      for (let end = requestEnd(text); end > 0; end = requestEnd(text)) {
        const request = text.slice(0, end);
        text = text.slice(end);
        nth++;
        requests.push(request);
        onRequest(socket, request, nth);
      }
    });
  };
  const server: Server = tls ? createTlsServer(tls, onSocket) : createServer(onSocket);
  server.on('tlsClientError', () => {});
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = () =>
    new Promise<void>((resolve) => {
      for (const socket of sockets) socket.destroy();
      server.close(() => resolve());
    });
  return { port, url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}`, sockets, requests, close };
}

/** Where the first request ends; 0 while it is incomplete. */
function requestEnd(text: string): number {
  const head = text.indexOf('\r\n\r\n');
  if (head < 0) return 0;
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, head))?.[1] ?? 0);
  const end = head + 4 + length;
  return text.length >= end ? end : 0;
}

/** An HTTP answer as text. */
export function http(status: number, body: string, headers: Readonly<Record<string, string>> = {}): string {
  const fields = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)), ...headers };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} Word\r\n${lines.join('')}\r\n${body}`;
}

export const envelope = (statusCode: number, fields: Readonly<Record<string, unknown>> = {}): string =>
  JSON.stringify({ status_code: statusCode, timestamp: '2026-05-04T10:00:00Z', ...fields });

/** Answers that are written as fast as they are read, for as long as somebody listens. */
export const endless =
  (head: string, piece: string) =>
  (socket: Socket): void => {
    socket.write(head);
    const more = () => {
      while (!socket.destroyed && socket.write(piece));
    };
    socket.on('drain', more);
    more();
  };
