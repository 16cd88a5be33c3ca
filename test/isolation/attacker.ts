/** Requests of an attacker, by hand on sockets of its own. */
import { connect, type Socket } from 'node:net';
import type { PlainPartner } from '../support/plain-partner.ts';
import type { Test } from '../support/tap.ts';

export interface Sent {
  readonly socket: Socket;
  /** The status line, once it came; null when the connection ended before. */
  readonly status: Promise<string | null>;
}

/** Sends the head of a request and some of its body, and reads no more than what tells the status. */
export function sendRaw(t: Test, hub: { url: string }, partner: PlainPartner, head: string, body = ''): Sent {
  const { hostname: host, port } = new URL(hub.url);
  const socket = connect({ host, port: Number(port) });
  t.teardown(() => socket.destroy());
  const token = Buffer.from(partner.hubToken).toString('base64');
  const status = new Promise<string | null>((resolve) => {
    socket.on('error', () => socket.destroy()).once('close', () => resolve(null));
    socket.once('data', (chunk) => {
      socket.pause();
      resolve(/^HTTP\/1\.1 (\d{3})/.exec(String(chunk))?.[1] ?? null);
    });
  });
  const [first = '', ...rest] = head.split('\n');
  const lines = [`${first} HTTP/1.1`, 'Host: hub', `Authorization: Token ${token}`, ...rest];
  socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`);
  return { socket, status };
}
