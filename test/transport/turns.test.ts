/** Connections that end by the hundred: real sockets. */
import { once } from 'node:events';
import type { RequestListener, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { createFrontServer } from '../../src/ocpi/http-server.ts';
import { eventually } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

/** Counts what happens by turn of the event loop. */
function perTurnCounts(t: Test) {
  const counts: number[] = [0];
  let isOver = false;
  const turned = () => {
    if (counts.at(-1) !== 0) counts.push(0);
    if (!isOver) setImmediate(turned);
  };
  setImmediate(turned);
  t.teardown(() => {
    isOver = true;
  });
  return {
    add: () => counts.splice(-1, 1, (counts.at(-1) ?? 0) + 1),
    most: () => Math.max(...counts),
    all: () => counts.reduce((sum, count) => sum + count, 0),
  };
}

async function serverFor(t: Test, answer: RequestListener): Promise<(count: number, sent: string) => Socket[]> {
  const server = createFrontServer({ connectionsMax: 1_000 }, answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const sockets: Socket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((done) => server.close(done));
  });
  return (count, sent) => {
    const opened = Array.from({ length: count }, () => connect({ host: '127.0.0.1', port }));
    for (const socket of opened) socket.on('error', () => {}).write(sent);
    sockets.push(...opened);
    return opened;
  };
}

const connections = 20;
const pipelined = 50;
const asked = 'GET / HTTP/1.1\r\nHost: hub\r\n\r\n';

t.test('what is pipelined on connections that end is closed in several turns [HTTP-SERVER-7]', async (t) => {
  const held: ServerResponse[] = [];
  const closed = perTurnCounts(t);
  const open = await serverFor(t, (_request, response) => {
    // Node itself closes the first one of a connection.
    if (held.push(response) % pipelined !== 1) response.once('close', closed.add);
  });
  const opened = open(connections, asked.repeat(pipelined));
  await eventually('they are under way', () => held.length === connections * pipelined);
  for (const socket of opened) socket.destroy();
  await eventually('they end', () => closed.all() === connections * (pipelined - 1));
  t.ok(closed.most() <= 16, `at most 16 in one turn: ${closed.most()}`);
});
