/** Readers of the inspector, in a process of their own: they take all that is sent and look at nothing of it. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Part } from './part.ts';

export interface Reading {
  readonly url: string;
  readonly adminToken: string;
  readonly readers: number;
}

export async function start(): Promise<Part> {
  const sockets: Socket[] = [];
  let bytes = 0;

  async function open({ url, adminToken, readers }: Reading): Promise<void> {
    await Promise.all(Array.from({ length: readers }, () => openOne(url, adminToken)));
  }

  async function openOne(url: string, adminToken: string): Promise<void> {
    const { hostname, port, host } = new URL(url);
    const socket = connect(Number(port), hostname);
    const head = [
      ...['GET /admin/v1/inspector HTTP/1.1', `Host: ${host}`, 'Connection: Upgrade', 'Upgrade: websocket'],
      ...['Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='],
      `Authorization: Bearer ${adminToken}`,
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    if (!answer.toString('latin1').startsWith('HTTP/1.1 101')) throw new Error(`the inspector answered ${answer}`);
    socket.on('data', (data) => {
      bytes += data.length;
    });
    sockets.push(socket);
  }

  /** Gives how much all of them were sent since they were opened. */
  function close(): number {
    for (const socket of sockets.splice(0)) socket.destroy();
    const sent = bytes;
    bytes = 0;
    return sent;
  }

  return { ready: {}, verbs: { open, close } };
}
