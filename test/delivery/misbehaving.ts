/**
 * A receiver that misbehaves on purpose, byte by byte: one server, the first segment of the path says how. It knows no OCPI and no
 * HTTP library's manners, so it can break a connection at any place.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

/** What a request meets. */
export type Misbehaviour = (socket: Socket, request: string) => void;

export interface MisbehavingReceiver {
  readonly url: string;
  /** First line of each request that came whole, in order of arrival. */
  readonly lines: string[];
  close(): Promise<void>;
}

/** Each call of `behaviours[name]` is one whole request to `{url}/{name}/…`. */
export async function misbehavingReceiver(
  behaviours: Readonly<Record<string, Misbehaviour>>,
): Promise<MisbehavingReceiver> {
  const lines: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
      for (let request = wholeRequest(text); request !== ''; request = wholeRequest(text)) {
        text = text.slice(request.length);
        const line = request.slice(0, request.indexOf('\r\n'));
        lines.push(line);
        behaviours[/ \/([^/ ?]+)/.exec(line)?.[1] ?? '']?.(socket, request);
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    lines,
    close: () => closed(server, sockets),
  };
}

function wholeRequest(text: string): string {
  const head = text.indexOf('\r\n\r\n') + 4;
  if (head < 4) return '';
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text.slice(0, head))?.[1] ?? 0);
  return text.length < head + length ? '' : text.slice(0, head + length);
}

async function closed(server: Server, sockets: Set<Socket>): Promise<void> {
  for (const socket of sockets) socket.destroy();
  server.close();
  if (server.listening) await once(server, 'close');
}

/** A whole answer as text, with its true length. */
export function answerText(status: number, body: string, headers: Readonly<Record<string, string>> = {}): string {
  const lines = Object.entries({ 'Content-Length': String(Buffer.byteLength(body)), ...headers });
  return `HTTP/1.1 ${status} X\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`;
}
