/**
 * Which connections a server ends when it has room for few: real sockets, plain and with TLS.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { admission } from '../../src/ocpi/admission.ts';
import { createFrontServer, createHttpServer } from '../../src/ocpi/http-server.ts';
import { trust } from '../../src/transport/client-connection.ts';
import { eventually } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';
import { testCert, testKey } from '../support/tls.ts';
import { within } from '../support/within.ts';

const ask = (path: string, field = '') => `GET ${path} HTTP/1.1\r\nHost: hub\r\n${field}\r\n`;
const get = (path: string) => ask(path, 'Authorization: Token good\r\n');

async function scene(t: Test, tls: { cert: string; key: string } | null) {
  const app = createHttpServer({ connectionsMax: 8, ...(tls && { tls }) });
  const held: (() => void)[] = [];
  app.addHook('onRequest', async ({ raw }) => {
    const { authorization } = raw.headers;
    if (authorization !== undefined) trust(raw.socket, authorization.split(' of ')[1]);
  });
  app.get('/quick', async () => 'quick');
  app.get('/open', (_request, reply) => void held.push(() => reply.send('open')));
  app.get('/closed', async (_request, reply) => reply.code(401).send('closed'));
  app.get('/held', (_request, reply) => void held.push(() => reply.send('held')));
  app.server.on('upgrade', (_request, socket: Socket) => {
    socket
      .on('error', () => socket.destroy())
      .on('end', () => socket.destroy())
      .resume();
    socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n');
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as { port: number };
  const sockets: Socket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    // Some requests are never answered.
    app.server.closeAllConnections();
    return app.close();
  });
  const open = async (sent = '', answer = /\r\n\r\n/) => {
    const socket = tls
      ? connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false })
      : connect({ host: '127.0.0.1', port });
    sockets.push(socket.on('error', () => socket.destroy()));
    await Promise.race([once(socket, tls ? 'secureConnect' : 'connect'), once(socket, 'close')]);
    if (sent === '') return socket;
    let came = '';
    socket.setEncoding('latin1').on('data', (text: string) => {
      came += text;
    });
    socket.write(sent);
    await eventually('it is answered', () => answer.test(came) || socket.destroyed);
    return socket;
  };
  const upgrade = 'GET / HTTP/1.1\r\nHost: hub\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n';
  const wait = async (sent = get('/held')) => {
    const before = held.length;
    const socket = await open();
    socket.write(sent);
    await eventually('it is under way', () => held.length > before);
    return socket;
  };
  const answerAll = () => {
    for (const one of held.splice(0)) one();
  };
  return { app, port, open, wait, upgraded: () => open(upgrade), answerAll };
}

const ended = (socket: Socket) => eventually('it was ended', () => socket.destroyed || socket.readableEnded);

for (const tls of [null, { cert: testCert, key: testKey }]) {
  t.test(
    `where room is short, those end that nobody uses, strangers first (N2)${tls ? ', with TLS' : ''}`,
    async (t) => {
      const { open, wait, upgraded } = await scene(t, tls);
      const watched = await upgraded();
      const busy = await wait();
      const used = await open(get('/quick'));
      const usedLater = await open(get('/quick'));
      const refused = await open(get('/closed'));
      const silent = await open();
      for (const socket of [refused, silent]) socket.resume();
      used.resume();
      await open(get('/quick'));
      await ended(refused);
      t.notOk(silent.destroyed, 'of strangers the one that has been there for longest goes first');
      await open(get('/quick'));
      await ended(silent);
      await open(get('/quick'));
      await ended(used);
      t.notOk(usedLater.destroyed, 'of the others the one that has been idle for longest');
      for (let n = 0; n < 20; n++) await open(get('/quick'));
      t.notOk(busy.destroyed, 'one that waits for its answer stays');
      t.notOk(watched.destroyed, 'and one that has left HTTP');
    },
  );
}

for (const tls of [null, { cert: testCert, key: testKey }]) {
  t.test(
    `where room is short, those end first that a partner leaves idle beyond a quarter [CONNECTIONS-5]${tls ? ', with TLS' : ''}`,
    async (t) => {
      const { port, open } = await scene(t, tls);
      const other = (await open(get('/quick'))).resume();
      const own: Socket[] = [];
      const another = async () =>
        own.push((await open(ask('/quick', 'Authorization: Token good of NL-BAD\r\n'))).resume());
      for (let n = 0; n < 5; n++) await another();
      const slow = connect({ host: '127.0.0.1', port }).on('error', () => {});
      t.teardown(() => slow.destroy());
      await once(slow, 'connect');
      for (let n = 0; n < 6; n++) await another();
      await ended(own[0] as Socket);
      const asking = tls ? connectTls({ socket: slow, rejectUnauthorized: false }).on('error', () => {}) : slow;
      let came = '';
      asking.setEncoding('latin1').on('data', (text: string) => {
        came += text;
      });
      asking.write(get('/quick'));
      await eventually('it is over', () => came !== '' || slow.destroyed);
      t.match(came, /^HTTP\/1\.1 200/, 'one that had sent nothing yet stays');
      t.notOk(other.destroyed, 'so does one that has been idle for longer');
    },
  );
}

t.test(
  'when the last place is taken and no connection is idle, the oldest untrusted connection is closed [CONNECTIONS-3]',
  async (t) => {
    const { open, wait, upgraded, answerAll } = await scene(t, null);
    const busy = await wait();
    const watched = await upgraded();
    const strangers = [];
    for (let n = 0; n < 12; n++) strangers.push((await wait(ask('/open'))).resume());
    const later = await wait();
    await ended(strangers[0] as Socket);
    t.notOk(strangers.at(-1)?.destroyed, 'the last one stays');
    t.strictSame([busy, watched, later].filter(({ destroyed }) => destroyed).length, 0, 'those with a token stay');
    answerAll();
    t.notOk((await open(get('/quick'))).destroyed);
  },
);

t.test(
  'there are never more connections than places, and requests in progress are not cut [CONNECTIONS-1]',
  async (t) => {
    const { open, wait, answerAll } = await scene(t, null);
    const busy = [];
    for (let n = 0; n < 8; n++) busy.push(await wait());
    await ended((await open()).resume());
    t.strictSame(busy.filter(({ destroyed }) => destroyed).length, 0);
    answerAll();
    await eventually('one of them is idle', async () => !(await open(get('/quick'))).destroyed);
  },
);

for (const tls of [null, { cert: testCert, key: testKey }]) {
  t.test(`a connection on which nothing came keeps no server from closing${tls ? ', with TLS' : ''}`, async (t) => {
    const { app, open } = await scene(t, tls);
    await endsUnused(t, await open(), () => app.close());
  });

  t.test(
    `what a request holds ends with its connection, and those behind it hold nothing${tls ? ', with TLS' : ''}`,
    async (t) => {
      const app = createHttpServer(tls ? { tls } : {});
      const felt = () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 });
      const { take, shares } = admission({ felt, bytesMax: 1000, shed: () => {} });
      const begun: string[] = [];
      const ended: string[] = [];
      app.get<{ Params: { name: string } }>('/held/:name', ({ params: { name } }, { raw }) => {
        const pass = take('NL-CPO', 'push');
        pass.hold(10);
        begun.push(name);
        raw.on('close', () => {
          pass.closed();
          ended.push(name);
        });
      });
      await app.listen({ host: '127.0.0.1', port: 0 });
      t.teardown(() => app.close());
      const { port } = app.server.address() as { port: number };
      const cut = async () => {
        const before = begun.length;
        const plain = connect({ host: '127.0.0.1', port }).on('error', () => {});
        const socket = tls ? connectTls({ socket: plain, rejectUnauthorized: false }) : plain;
        await once(
          socket.on('error', () => {}),
          tls ? 'secureConnect' : 'connect',
        );
        socket.write(['first', 'second', 'third'].map((name) => get(`/held/${name}`)).join(''));
        await eventually('the first is under way', () => begun.length > before);
        plain.resetAndDestroy();
      };
      await cut();
      await cut();
      await eventually('both have ended', () => ended.length >= 2);
      t.strictSame(
        [begun, ended],
        [
          ['first', 'first'],
          ['first', 'first'],
        ],
        'each once',
      );
      t.strictSame([shares().requests, shares().ofPartner, shares().bytes], [0, 0, 0], 'nothing is counted any more');
    },
  );
}

t.test('a connection without any data does not prevent a server in front of a node from closing', async (t) => {
  const server = createFrontServer({}, () => {});
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const socket = connect({ host: '127.0.0.1', port });
  t.teardown(() => socket.destroy());
  await once(server, 'connection');
  await endsUnused(t, socket, () => new Promise((resolve) => server.close(resolve)));
});

t.test('a TLS handshake that does not go on ends with its time limit, or with the server', async (t) => {
  for (const requestTimeoutMs of [200, 600_000]) {
    const app = createHttpServer({ tls: { cert: testCert, key: testKey }, requestTimeoutMs });
    await app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = app.server.address() as { port: number };
    const accepted = once(app.server, 'connection') as Promise<[Socket]>;
    const socket = connect({ host: '127.0.0.1', port });
    t.teardown(() => socket.destroy());
    socket.on('error', () => {}).write(Buffer.from('1603010200010001fc0303', 'hex'));
    const [served] = await accepted;
    await eventually('the beginning of it came', () => served.bytesRead > 0);
    if (requestTimeoutMs < 1000) await eventually('it ends', () => served.destroyed);
    await within(60_000, app.close(), () => 'the server did not close');
    await eventually('the client sees it', () => socket.destroyed);
  }
});

/** A server that closes ends a connection on which nothing came at once, not by the time limit of a request. */
async function endsUnused(t: Test, socket: Socket, close: () => Promise<unknown>): Promise<void> {
  const received: Buffer[] = [];
  socket.on('data', (bytes: Buffer) => received.push(bytes)).on('error', () => {});
  await within(60_000, close(), () => 'the server did not close');
  await ended(socket);
  t.strictSame(received, [], 'no answer of a time limit came');
}

t.test('a caller that leaves its request costs no stack trace', async (t) => {
  const { app, wait } = await scene(t, null);
  const { stackTraceLimit } = Error;
  const met: Error[] = [];
  app.server.on('request', (request) => {
    const { destroy } = request;
    request.destroy = (error?: Error) => {
      if (error) met.push(error);
      return destroy.call(request, error);
    };
  });
  const socket = await wait();
  socket.resetAndDestroy();
  await eventually('its request has ended', () => met.length > 0);
  t.match(met, [{ message: 'aborted', stack: /^Error: aborted$/ }]);
  t.equal(Error.stackTraceLimit, stackTraceLimit);
});
