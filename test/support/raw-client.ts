/** A client that writes bytes of its own on a connection, for what an HTTP client would not send. A real socket. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Test } from './tap.ts';

interface RawClient {
  /** The TCP connection; with TLS, below `socket`. */
  readonly plain: Socket;
  readonly socket: Socket;
  /** All that came, as Latin-1. */
  readonly came: () => string;
}

/** Connected, with TLS when its handshake is over; destroyed when the test ends. Errors of the connection are ignored. */
export async function rawClient(t: Test, port: number, isTls: boolean, allowHalfOpen = false): Promise<RawClient> {
  const plain = connect({ host: '127.0.0.1', port, allowHalfOpen }).on('error', () => {});
  const socket: Socket = isTls ? connectTls({ socket: plain, rejectUnauthorized: false }) : plain;
  t.teardown(() => socket.destroy());
  let came = '';
  socket.setEncoding('latin1').on('error', () => {});
  socket.on('data', (text: string) => {
    came += text;
  });
  await once(socket, isTls ? 'secureConnect' : 'connect');
  return { plain, socket, came: () => came };
}
