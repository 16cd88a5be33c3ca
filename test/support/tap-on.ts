/** A tap on the wire: a TCP proxy on this machine that passes every byte on and keeps a copy. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import type { Test } from './tap.ts';

export interface WireTap {
  readonly url: string;
  readonly port: number;
  /** Everything that passed, both ways, as latin1 text. */
  seen(): string;
  /** What each connection sent to the server, in order of the connections. */
  toServer(): Buffer[];
}

export async function tapOn(t: Pick<Test, 'teardown'>, target: number): Promise<WireTap> {
  const connections: { readonly to: Buffer[]; readonly from: Buffer[] }[] = [];
  const ends: (() => void)[] = [];
  const server = createServer((client) => {
    const kept = { to: [] as Buffer[], from: [] as Buffer[] };
    connections.push(kept);
    const other = connect({ port: target, host: '127.0.0.1' });
    client.on('data', (bytes) => kept.to.push(bytes)).pipe(other);
    other.on('data', (bytes) => kept.from.push(bytes)).pipe(client);
    ends.push(() => client.destroy());
    client.on('error', () => other.destroy()).on('close', () => other.destroy());
    other.on('error', () => client.destroy()).on('close', () => client.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  t.teardown(() => {
    server.close();
    for (const end of ends) end();
  });
  return {
    ...{ port, url: `http://127.0.0.1:${port}` },
    seen: () =>
      connections.flatMap(({ to, from }) => [...to, ...from].map((bytes) => bytes.toString('latin1'))).join(''),
    toServer: () => connections.map(({ to }) => Buffer.concat(to)),
  };
}

/** Sends bytes on a connection of its own; what came back until it was closed, as latin1 text. */
export async function sentTo(port: number, bytes: Buffer | string): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' });
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk)).on('error', () => {});
  socket.end(bytes);
  // Also after an error.
  await new Promise((resolve) => socket.once('close', resolve));
  return Buffer.concat(chunks).toString('latin1');
}
