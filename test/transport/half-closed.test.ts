/** Clients that end their side of the connection behind their requests, as `nc -N` does: real sockets. [HTTP-SERVER-7] */
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { createHttpServer } from '../../src/ocpi/http-server.ts';
import { cdrBody } from '../support/bodies.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { rawClient } from '../support/raw-client.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { testCert, testKey } from '../support/tls.ts';

async function open(t: Test, port: number, isTls: boolean) {
  const client = await rawClient(t, port, isTls, true);
  return { ...client, statuses: () => client.came().match(/(?<=HTTP\/1\.1 )\d+/g) ?? [] };
}

const put = (body: string, length = body.length, version = '1.1') =>
  `PUT / HTTP/${version}\r\nHost: hub\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`;

for (const tls of [null, { cert: testCert, key: testKey }]) {
  const scene = async (t: Test) => {
    const app = createHttpServer({ connectionsMax: 8, ...(tls && { tls }) });
    const held: (() => void)[] = [];
    let left = 0;
    app.put('/', (_request, reply) => {
      reply.raw.once('close', () => {
        left += 1;
      });
      held.push(() => reply.send('an answer'));
    });
    app.get('/', async () => 'an answer');
    await app.listen({ host: '127.0.0.1', port: 0 });
    t.teardown(() => app.close());
    const ofServer: Socket[] = [];
    app.server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => ofServer.push(socket));
    const { port } = app.server.address() as { port: number };
    const areGone = () => ofServer.every(({ destroyed }) => destroyed);
    return {
      open: () => open(t, port, tls !== null),
      held,
      left: () => left,
      /** Whether the end of the clients' side has been read. */
      haveEnded: () => ofServer.every(({ readableEnded }) => readableEnded),
      areGone,
      allGone: () => eventually('no connection is left', areGone),
    };
  };
  const suffix = tls ? ', with TLS' : '';

  t.test(`an answer that comes later than the end of the client's side is sent${suffix}`, async (t) => {
    const { open, held, haveEnded, allGone } = await scene(t);
    const [one, three, old] = [await open(), await open(), await open()];
    one.socket.end(put('{}'));
    three.socket.end(put('{}').repeat(3));
    old.socket.end(put('{}', 2, '1.0'));
    await eventually('the end is read', () => held.length === 3 && haveEnded());
    const answered = () => [one, three, old].map(({ statuses }) => statuses().length);
    await eventually('all are answered', () => {
      held.shift()?.();
      return answered().join() === '1,3,1';
    });
    await Promise.all([one, three, old].map(({ socket }) => eventually('it ends', () => socket.destroyed)));
    await allGone();
  });

  t.test(`a connection that owes no answer ends with the client's side${suffix}`, async (t) => {
    const { open, allGone } = await scene(t);
    const [silent, used, partial] = [await open(), await open(), await open()];
    used.socket.write('GET / HTTP/1.1\r\nHost: hub\r\n\r\n');
    await eventually('one is answered', () => used.statuses().length === 1);
    silent.socket.end();
    used.socket.end();
    partial.socket.end(put('{', 2));
    await allGone();
    await eventually('the half-sent one is refused', () => partial.socket.destroyed);
    t.same([silent.statuses(), used.statuses(), partial.statuses()], [[], ['200'], ['400']]);
  });

  t.test(`a client that has gone holds nothing${suffix}`, async (t) => {
    const { open, held, left, areGone } = await scene(t);
    const [cut, gone] = [await open(), await open()];
    for (const { socket } of [cut, gone]) socket.write(put('{}').repeat(3));
    await eventually('one of each is under way', () => held.length === 2);
    cut.plain.resetAndDestroy();
    await eventually('what was cut is over, without an answer', () => left() === 1);
    // This is not told from one that waits for its answer until it is sent.
    gone.socket.destroy();
    for (const answer of held.splice(0)) answer();
    // Where its end was read before the first answer was sent, the second one meets the refusal of the first.
    await eventually('so is what nobody waits for', () => {
      held.shift()?.();
      return left() >= 2 && areGone();
    });
  });
}

t.test('a client that leaves with the last message of its handshake, or during it, holds no connection', async (t) => {
  const app = createHttpServer({ connectionsMax: 8, tls: { cert: testCert, key: testKey } });
  await app.listen({ host: '127.0.0.1', port: 0 });
  t.teardown(() => app.close());
  const { port } = app.server.address() as { port: number };
  const taken: Socket[] = [];
  app.server.on('connection', (socket: Socket) => taken.push(socket));
  const leaving = {
    'with its last message': {},
    'in it': { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
  } as const;
  for (const options of Object.values(leaving)) {
    const client = connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options });
    client.on('secureConnect', () => client.destroy()).on('error', () => client.destroy());
    await new Promise((resolve) => client.once('close', resolve));
  }
  await eventually('no connection is left', () => taken.length === 2 && taken.every(({ destroyed }) => destroyed));
});

t.test('a push whose CPO half-closes the connection is answered', async (t) => {
  // Behind a pause of the process its request would be stale.
  const hub = await hubFor(t, {}, { clock: new SimulatedClock('2026-05-04T10:00:00Z') });
  const { cpo } = await routedPair(t, hub);
  const token = Buffer.from(cpo.hubToken).toString('base64');
  const client = await open(t, Number(new URL(hub.url).port), false);
  const body = JSON.stringify(cdrBody('C1'));
  const head = ['POST /ocpi/2.2.1/cdrs HTTP/1.1', 'Host: hub', `Authorization: Token ${token}`];
  head.push('Content-Type: application/json', `Content-Length: ${body.length}`);
  client.socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  await eventually('the connection ends', () => client.socket.destroyed);
  t.same(client.statuses(), ['201']);
});
