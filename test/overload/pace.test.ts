/**
 * Which answers end because nobody takes them: real sockets, and looks that the test takes one by one.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { paceKeeper } from '../../src/ocpi/pace.ts';
import { eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const piece = 'x'.repeat(64 * 1024);
const pieces = 400;

/** A server whose answer is far larger than what the system holds for it, and a client that has asked and reads nothing by itself. */
async function scene(t: Test) {
  // The test alone looks.
  const pace = paceKeeper(() => null, new SimulatedClock());
  const server: Server = createServer((_request, response) => {
    pace.watch(response, 'NL-EMS');
    Readable.from(
      Array.from({ length: pieces }, () => piece),
      { objectMode: false },
    ).pipe(response);
  });
  const connections: Socket[] = [];
  server.on('connection', (socket) => connections.push(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' });
  t.teardown(() => {
    client.destroy();
    server.close();
    server.closeAllConnections();
  });
  client.on('error', () => client.destroy());
  await once(client, 'connect');
  client.write('GET / HTTP/1.1\r\nHost: hub\r\n\r\n');
  let before = -1;
  await eventually('the system holds as much as it takes', async () => {
    const now = connections[0]?.bytesWritten ?? 0;
    const isStill = now > 0 && now === before;
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 50));
    return isStill;
  });
  return { pace, client, isCut: () => connections[0]?.destroyed };
}

t.test(
  'a reader that takes 64 KiB a second is not cut, even if the system drains the answer in bursts [PACE-1]',
  async (t) => {
    const { pace, client, isCut } = await scene(t);
    let taken = 0;
    while (taken < (pieces * piece.length) / 2 && !isCut()) {
      const came = client.read(piece.length) ?? client.read();
      if (came === null) await new Promise((resolve) => setImmediate(resolve));
      else {
        taken += came.length;
        if (Math.floor(taken / piece.length) === Math.floor((taken - came.length) / piece.length)) continue;
        pace.look();
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    t.notOk(isCut(), `cut after ${taken} bytes`);
  },
);

t.test('a reader that takes nothing is cut [PACE-1]', async (t) => {
  const { pace, isCut } = await scene(t);
  let looks = 0;
  while (!isCut() && looks < 100) {
    pace.look();
    looks += 1;
  }
  t.equal(looks, 61, 'the first look only sees how far it is');
});

t.test('a reader that takes a few bytes now and then is cut, one of 4 KiB a second is not [PACE-1]', async (t) => {
  const looksUntilCut = async (bytesPerLook: number) => {
    const pace = paceKeeper(() => null, new SimulatedClock());
    const server = createServer((_request, response) => {
      pace.watch(response, 'NL-EMS');
      let looks = 0;
      const more = () => {
        response.write('x'.repeat(bytesPerLook), () => {
          pace.look();
          looks += 1;
          if (response.destroyed || looks === 200) server.emit('looked', looks);
          else more();
        });
      };
      more();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' });
    client.on('error', () => client.destroy()).resume();
    client.write('GET / HTTP/1.1\r\nHost: hub\r\n\r\n');
    const [looks] = await once(server, 'looked');
    client.destroy();
    server.close();
    server.closeAllConnections();
    return looks;
  };
  t.equal(await looksUntilCut(2 * 1024), 61);
  t.equal(await looksUntilCut(4 * 1024), 200);
});
