/** Requests that a client pipelines on one connection, and those that come at once on many: real sockets. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { IncomingMessage, Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { createHttpServer, type HttpServerOptions } from '../../src/ocpi/http-server.ts';
import { turnOfLoop } from '../../src/process-load.ts';
import { trust } from '../../src/transport/client-connection.ts';
import { tariffBody } from '../support/bodies.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { rawClient } from '../support/raw-client.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { testCert, testKey } from '../support/tls.ts';
import { welcome } from '../support/visitors.ts';

const tls = { cert: testCert, key: testKey };

/** One request; with a body it is a PUT. */
const ask = (path: string, body = '', fields = '') =>
  `${body === '' ? 'GET' : 'PUT'} ${path} HTTP/1.1\r\nHost: hub\r\n${fields}` +
  `${body === '' ? '' : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`}\r\n${body}`;

async function open(t: Test, port: number, isTls: boolean) {
  const client = await rawClient(t, port, isTls);
  /** Statuses and one-line bodies, in order. */
  const answers = () => client.came().match(/(?<=HTTP\/1\.1 )\d+|^\/.*?(?=HTTP|$)/gm) ?? [];
  return { ...client, answers };
}

/** A server whose answers are given by `release`, each with its path as its body. */
async function scene(t: Test, options: HttpServerOptions = {}) {
  const app = createHttpServer(options);
  const begun: string[] = [];
  /** In which turn of the event loop each of them began. */
  const turns: number[] = [];
  const held: (() => void)[] = [];
  let isHeld = true;
  let [underWay, most] = [0, 0];
  app.all('/*', ({ url, raw }, reply) => {
    begun.push(`${raw.method} ${url}`);
    turns.push(turnOfLoop());
    most = Math.max(most, ++underWay);
    reply.raw.once('close', () => {
      underWay -= 1;
    });
    const answer = () => void reply.send(url);
    if (isHeld) held.push(answer);
    else answer();
  });
  const parsed: Socket[] = [];
  const started = (message: unknown) => {
    const { request, server } = message as { request: IncomingMessage; server: Server };
    if (server === app.server) parsed.push(request.socket);
  };
  subscribe('http.server.request.start', started);
  const refused: string[] = [];
  app.server.on('clientError', ({ code }: NodeJS.ErrnoException) => refused.push(code ?? ''));
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as { port: number };
  t.teardown(() => {
    unsubscribe('http.server.request.start', started);
    return app.close();
  });
  return {
    app,
    port,
    begun,
    turns,
    parsed,
    refused,
    most: () => most,
    open: () => open(t, port, options.tls !== undefined),
    /** The request that is under way is answered. */
    release: () => held.shift()?.(),
    /** So is every later one, at once. */
    releaseAll() {
      isHeld = false;
      for (const answer of held.splice(0)) answer();
    },
  };
}

t.test('a DELETE behind the PUT of the same tariff is executed after it [PIPELINE-1]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  const path = '/2.2.1/tariffs/NL/CPO/T1';
  const token = Buffer.from(cpo.hubToken).toString('base64');
  const client = await open(t, Number(new URL(hub.url).port), false);
  const fields = `Authorization: Token ${token}\r\n`;
  const remove = ask(`/ocpi${path}`, '', fields).replace('GET', 'DELETE');
  client.socket.write(ask(`/ocpi${path}`, JSON.stringify(tariffBody('T1')), fields) + remove);
  await emsp.got('the end of the tariff', ({ method }) => method === 'DELETE');
  await eventually('both are answered', () => client.came().split('"status_code":1000').length === 3);
  t.match(await cpo.call('GET', path), { status: 404 }, 'what was deleted is gone');
  await hub.settled();
  const sent = emsp.received.filter(({ path }) => path.endsWith('/T1')).map(({ method }) => method);
  t.same(sent, ['PUT', 'DELETE'], 'for its receivers, too');
});

for (const isTls of [false, true]) {
  const options = isTls ? { tls } : {};
  t.test(`one is under way at a time, in order, whatever its body${isTls ? ', with TLS' : ''}`, async (t) => {
    const { open, begun, most, releaseAll } = await scene(t, { ...options, connectionsMax: 8 });
    const bodies = ['', '{}', '', `"${'x'.repeat(200_000)}"`, '', '{}', '', ''];
    const paths = Array.from({ length: 400 }, (_, n) => `/${n}`);
    const client = await open();
    client.socket.write(paths.map((path, n) => ask(path, bodies[n % bodies.length])).join(''));
    await eventually('the first is under way', () => begun.length > 0);
    releaseAll();
    await eventually('all are answered', () => client.answers().length === 2 * paths.length);
    t.same(
      client.answers(),
      paths.flatMap((path) => ['200', path]),
    );
    t.equal(most(), 1);
  });

  t.test(
    `a connection with many that wait is not read [PIPELINE-2]${isTls ? ', with TLS' : ''}`,
    isTls ? atLength : {},
    async (t) => {
      const { open, parsed, releaseAll } = await scene(t, options);
      const client = await open();
      const count = 600;
      // So large that few come with a read.
      client.socket.write(ask('/', '', `Padding: ${'x'.repeat(8_000)}\r\n`).repeat(count));
      await eventually('some wait', () => parsed.length > 4);
      // What another connection sends now is read later than what had come of the first.
      for (let n = 0; n < 20; n++) {
        const other = await open();
        const before = parsed.length;
        other.socket.write(ask('/'));
        await eventually('the other is read', () => parsed.length > before);
      }
      const read = parsed.filter((socket) => socket === parsed[0]).length;
      // With TLS what the decoder had read before comes, too.
      t.ok(read < count / 2, `${read} of ${count} were read`);
      releaseAll();
      await eventually('it is read on', () => parsed.length > count);
    },
  );

  t.test(
    `of one read no more than 12 wait, and the rest is dropped [PIPELINE-5]${isTls ? ', with TLS' : ''}`,
    async (t) => {
      const { open, begun, parsed, refused, releaseAll } = await scene(t, options);
      const client = await open();
      client.socket.write(ask('/').repeat(2_000));
      await eventually('the first is under way', () => begun.length > 0 && parsed.length > 12);
      t.equal(parsed.length, 13, 'one is under way, and 12 wait');
      await eventually('the next is refused', () => refused.length > 0);
      client.socket.write(ask('/'));
      const ended = once(client.socket, 'close');
      releaseAll();
      await ended;
      t.same(
        client.answers(),
        [...Array.from({ length: 13 }, () => ['200', '/']).flat(), '503'],
        'each has its answer',
      );
      t.match(client.came(), /503.*connection: close.*"status_code":3000/is);
      t.equal(begun.length, 13);
    },
  );
}

t.test('a connection with as many waiting requests as it may have goes on [PIPELINE-5]', async (t) => {
  const { open, parsed, refused, releaseAll } = await scene(t);
  const client = await open();
  client.socket.write(ask('/').repeat(13));
  await eventually('all wait but the first', () => parsed.length === 13);
  releaseAll();
  for (let answers = 13; answers <= 15; answers++) {
    await eventually('each is answered', () => client.answers().length === 2 * answers);
    client.socket.write(ask('/'));
  }
  t.same(refused, []);
});

t.test('waiting requests whose connection ends never start', async (t) => {
  const { open, begun, parsed, release } = await scene(t);
  const client = await open();
  client.socket.write(['/1', '/2', '/3'].map((path) => ask(path)).join(''));
  await eventually('they have come', () => parsed.length === 3);
  client.socket.resetAndDestroy();
  await eventually('it is gone', () => parsed[0]?.destroyed === true);
  release();
  const other = await open();
  other.socket.write(ask('/other'));
  await eventually('another begins', () => begun.length > 1);
  release();
  t.same(begun, ['GET /1', 'GET /other']);
});

for (const [what, sent, status] of [
  ['is malformed', 'nonsense\r\n\r\n', 400],
  [
    'has a malformed body',
    `${ask('/2', '{}', 'Transfer-Encoding: chunked\r\n').replace(/Content-Length.*\r\n/, '')}x`,
    400,
  ],
  ['is too large', `GET /2 HTTP/1.1\r\nLong: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
] as const) {
  t.test(`the refusal of what ${what} follows the answers before it [PIPELINE-3]`, async (t) => {
    for (const paths of [['/1'], ['/1', '/2', '/3']]) {
      const { open, begun, refused, releaseAll } = await scene(t);
      const client = await open();
      client.socket.write(paths.map((path) => ask(path)).join('') + sent);
      await eventually('it is refused', () => refused.length === 1 && begun.length === 1);
      t.equal(client.came(), '', 'in its turn');
      const ended = once(client.socket, 'close');
      releaseAll();
      await ended;
      t.same(client.answers(), [...paths.flatMap((path) => ['200', path]), String(status)]);
      t.same(begun.length, paths.length, 'it does not begin');
    }
  });
}

t.test('a request that is late because of others before it has its time once more [PIPELINE-4]', async (t) => {
  const whole = ask('/late', '{"a":1}');
  for (const [what, arrived] of [
    ['without its head', 10],
    ['without its body', whole.length - 3],
  ] as const) {
    for (const before of [['/1'], ['/1', '/2']]) {
      const { open, refused, releaseAll } = await scene(t, { requestTimeoutMs: 500 });
      const start = async () => {
        const client = await open();
        client.socket.write(before.map((path) => ask(path)).join('') + whole.slice(0, arrived));
        return client;
      };
      const [whenItsTurnComes, never] = [await start(), await start()];
      await eventually('both are late', () => refused.length === 2);
      t.equal(whenItsTurnComes.came() + never.came(), '', 'no 408 comes in the place of an answer');
      releaseAll();
      const answered = before.flatMap((path) => ['200', path]);
      await eventually('those before are answered', () => whenItsTurnComes.answers().length === answered.length);
      whenItsTurnComes.socket.write(whole.slice(arrived));
      await eventually('then it is', () => whenItsTurnComes.answers().length === answered.length + 2);
      t.same(whenItsTurnComes.answers(), [...answered, '200', '/late'], what);
      await eventually('the other ends', () => never.socket.destroyed);
      t.same(never.answers(), [...answered, '408'], `${what}, and it stays away`);
    }
  }
});

t.test(
  'a request whose turn comes too late is refused, and those behind it are not handled [HTTP-SERVER-6]',
  async (t) => {
    const clock = new SimulatedClock();
    const { open, begun, parsed, release } = await scene(t, { clock });
    const client = await open();
    client.socket.write(['/1', '/2', '/3'].map((path) => ask(path)).join(''));
    await eventually('they have come', () => parsed.length === 3);
    clock.advance(30_001);
    const ended = once(client.socket, 'close');
    release();
    await ended;
    t.same(client.answers(), ['200', '/1', '503']);
    t.match(client.came(), /503.*connection: close/is);
    t.same(begun, ['GET /1']);
  },
);

t.test('a stop closes a connection with the first answer that begins after it', async (t) => {
  const { app, open, begun, parsed, releaseAll } = await scene(t);
  const client = await open();
  client.socket.write(['/1', '/2', '/3'].map((path) => ask(path)).join(''));
  await eventually('they have come', () => parsed.length === 3);
  const closed = app.close();
  await eventually('it listens no more', () => !app.server.listening);
  releaseAll();
  await closed;
  await eventually('the connection ends', () => client.socket.destroyed);
  t.same(client.answers(), ['200', '/1', '200', '/2']);
  t.same(begun, ['GET /1', 'GET /2'], 'what is not answered was not begun');
});

t.test(
  'a WebSocket upgrade behind an unanswered request is answered over HTTP; 100 Continue is sent in turn',
  async (t) => {
    const { app, open, parsed, releaseAll } = await scene(t);
    app.server.on('upgrade', (_request, socket: Socket) => socket.destroy());
    const client = await open();
    client.socket.write(ask('/1') + ask('/2', '', 'Connection: upgrade\r\nUpgrade: websocket\r\n'));
    await eventually('both have come', () => parsed.length === 2);
    // Node drops what one read has brought behind an offer of an upgrade.
    client.socket.write(ask('/3', '{}', 'Expect: 100-continue\r\n').slice(0, -2));
    await eventually('the third has come', () => parsed.length === 3);
    t.equal(client.came(), '', 'nothing comes before the first answer');
    releaseAll();
    await eventually('the third is asked for its body', () => /100 Continue/.test(client.came()));
    t.same(client.answers(), ['200', '/1', '200', '/2', '100']);
    client.socket.write('{}');
    await eventually('and answered', () => client.answers().at(-1) === '/3');
  },
);

t.test('answers before and after that of a HEAD are distinguished', async (t) => {
  const { open, releaseAll } = await scene(t);
  releaseAll();
  const client = await open();
  client.socket.write(ask('/1') + ask('/2').replace('GET', 'HEAD') + ask('/3'));
  await eventually('all are answered', () => client.came().endsWith('/3'));
  t.same(client.answers(), ['200', '/1', '200', '200', '/3']);
});

/** A connection from each of these addresses of this machine. */
async function connected(t: Test, port: number, addresses: readonly string[]): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (const localAddress of addresses) {
    const socket = connect({ host: '127.0.0.1', port, localAddress });
    t.teardown(() => socket.destroy());
    await once(socket.resume(), 'connect');
    sockets.push(socket);
  }
  return sockets;
}

t.test('of requests that come at once 16 of a client begin in a turn, and 32 of all [HTTP-SERVER-9]', async (t) => {
  const clock = new SimulatedClock();
  const { app, port, begun, turns, releaseAll } = await scene(t, { clock });
  releaseAll();
  const served: Socket[] = [];
  app.server.on('connection', (socket: Socket) => served.push(socket));
  const clients = (count: number, address: number) =>
    connected(t, port, Array<string>(count).fill(`127.0.0.${address}`));
  const partner = await clients(40, 1);
  await eventually('all have been accepted', () => served.length === partner.length);
  for (const socket of served) trust(socket, 'NL-CPO');
  const strangers = [...(await clients(40, 1)), ...(await clients(40, 2))];
  const [last] = await clients(1, 3);
  await eventually('all have been accepted', () => served.length === 121);
  const most = (name: string) => {
    const inTurns = new Map<number, number>();
    for (const [n, turn] of turns.entries()) {
      if (begun[n]?.endsWith(name)) inTurns.set(turn, (inTurns.get(turn) ?? 0) + 1);
    }
    return Math.max(...inTurns.values());
  };
  // In one turn of this process, so that the server reads them in one, too.
  for (const [n, socket] of [...partner, ...strangers].entries()) socket.write(ask(`/${Math.floor(n / 40)}`));
  last?.write(ask('/last'));
  await eventually('all have begun', () => begun.length === 121);
  t.equal(most(''), 32, 'at most, of all');
  t.ok(Math.max(most('/0'), most('/1'), most('/2')) <= 16, `${most('/0')}, ${most('/1')}, ${most('/2')} of one client`);
  t.ok(begun.indexOf('GET /last') < 64, 'who has one request gets its turn before the second turn of the others ends');

  partner[0]?.write(ask('/latest'));
  await eventually('it has begun', () => begun.length === 122);
  clock.advance(5_000);
  for (const socket of partner) socket.write(ask('/alone'));
  await eventually('all have begun', () => begun.length === 162);
  t.ok(most('/alone') > 16, 'a client that is alone is not held back');
});

t.test(
  'addresses of one network are one client, and what waits too long for its turn is refused [HTTP-SERVER-9]',
  async (t) => {
    const clock = new SimulatedClock();
    const visitors = { ...welcome, ofConnection: () => '2001:db8::/64' };
    const { app, port, begun, turns, releaseAll } = await scene(t, { clock, visitors });
    releaseAll();
    const addresses = Array.from({ length: 40 }, (_, n) => `127.0.0.${n + 1}`);
    const sockets = await connected(t, port, addresses);
    for (const socket of sockets) socket.write(ask('/1'));
    await eventually('all have begun', () => begun.length === sockets.length);
    const counts = new Map<number, number>();
    for (const turn of turns) counts.set(turn, (counts.get(turn) ?? 0) + 1);
    t.equal(Math.max(...counts.values()), 16, 'in one turn');

    let [came, refused] = [0, 0];
    app.server.prependListener('request', (_request, response) => {
      came += 1;
      // Of those that came before it in this turn most wait.
      if (came === sockets.length) clock.advance(30_001);
      response.once('close', () => {
        if (response.statusCode === 503) refused += 1;
      });
    });
    for (const socket of sockets) socket.write(ask('/2'));
    await eventually('all are answered', () => begun.length + refused === 2 * sockets.length);
    t.ok(refused > 0, `${refused} refused`);
  },
);
