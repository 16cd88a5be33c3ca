/**
 * Callers without a token at a server: how many answers an address gets, whose address counts, what a refused token
 * costs. Real sockets from several loopback addresses; the clock is simulated.
 */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { pacer } from '../../src/kit/pacer.ts';
import { createHttpServer } from '../../src/ocpi/http-server.ts';
import { clientAddresses, markAdmitted, setPassedOn } from '../../src/transport/client-connection.ts';
import { createVisitors } from '../../src/transport/visitors.ts';
import { eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

t.test('a pacer admits a second’s worth of turns at once, and the rest at a steady rate', async (t) => {
  let now = 1_000_000;
  const { take, isFree } = pacer(4, () => now);
  t.strictSame(
    [1, 2, 3, 4].map(() => take('a', 600)),
    [0, 0, 0, 0],
  );
  t.notOk(isFree('a'));
  t.ok(isFree('b'), 'each key has its own');
  t.strictSame([take('a'), take('a', 600), take('a', 600), take('a', 600)], [null, 250, 500, null]);
  now += 250;
  t.strictSame([take('a', 600), take('a', 600)], [500, null], 'a turn further, as one was taken back by time');
  now += 2000;
  t.strictSame(
    [1, 2, 3, 4, 5].map(() => take('a')),
    [0, 0, 0, 0, null],
  );
  const slow = pacer(0.5, () => now);
  t.strictSame([slow.take('a'), slow.take('a', 5000), slow.take('a', 5000)], [0, 2000, 4000], 'below one a second');
});

t.test('a pacer keeps a bounded number of keys; ended ones make room', async (t) => {
  let now = 0;
  const { take } = pacer(1, () => now);
  t.notOk(Array.from({ length: 10_000 }, (_, n) => take(`key ${n}`)).some((waitMs) => waitMs !== 0));
  t.equal(take('one more'), 0);
  t.equal(take('yet another'), null, 'further keys share one turn');
  now += 1000;
  t.strictSame([take('yet another'), take('a third')], [0, 0], 'the others are over');
});

t.test('log lines about parties do not depend on how many addresses are refused [VISITORS-3]', async (t) => {
  const limits = { trustedProxies: [], rateUnauthenticatedPerS: 100, rateFailedTokensPerS: 5 };
  const { refused, partyRefused } = createVisitors(limits, () => 0);
  // As many keys as a pacer keeps, and more lines than there are in a second.
  const lines = Array.from({ length: 10_000 }, (_, n) => refused(`192.0.${n >> 8}.${n & 255}`));
  t.equal(lines.filter((count) => count > 0).length, 20);
  t.equal(partyRefused('NL-CPO'), 1);
  t.equal(partyRefused('NL-CPO'), 0, 'once a second');
  t.equal(partyRefused('NL-EMS'), 1);
});

const requestFrom = (remoteAddress: string | undefined, forwarded?: string) =>
  ({
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
    socket: { remoteAddress },
  }) as unknown as IncomingMessage;

t.test('X-Forwarded-For is used from a trusted proxy alone, and only as far as trusted proxies wrote it', async (t) => {
  const addresses = clientAddresses(['10.0.0.0/8', 'fd00::/8']);
  for (const [peer, forwarded, counted] of [
    ['192.0.2.1', undefined, '192.0.2.1'],
    ['192.0.2.1', '198.51.100.7', '192.0.2.1'],
    ['10.1.1.1', undefined, '10.1.1.1'],
    ['10.1.1.1', '198.51.100.7', '198.51.100.7'],
    ['::ffff:10.1.1.1', '198.51.100.7', '198.51.100.7'],
    ['10.1.1.1', '203.0.113.9, 198.51.100.7', '198.51.100.7'],
    ['10.1.1.1', '203.0.113.9, 198.51.100.7, 10.2.2.2', '198.51.100.7'],
    ['10.1.1.1', '198.51.100.7:4711', '198.51.100.7'],
    ['10.1.1.1', '10.3.3.3', '10.1.1.1'],
    ['10.1.1.1', 'unknown', '10.1.1.1'],
    ['10.1.1.1', '198.51.100.7, garbage', '10.1.1.1'],
    ['10.1.1.1', '', '10.1.1.1'],
    ['fd00::1', '[2001:db8:1:2:3:4:5:6]:99', '2001:db8:1:2::/64'],
    ['2001:db8::1', undefined, '2001:db8:0:0::/64'],
    ['2001:0DB8:0:0:ffff::1', undefined, '2001:db8:0:0::/64'],
    ['fe80::1%eth0', undefined, 'fe80:0:0:0::/64'],
    ['::ffff:192.0.2.1', undefined, '192.0.2.1'],
    ['::1', undefined, '0:0:0:0::/64'],
    [undefined, undefined, ''],
  ] as const) {
    t.equal(addresses.of(requestFrom(peer, forwarded)), counted, `${peer}, ${forwarded}`);
  }
  t.equal(clientAddresses([]).of(requestFrom('127.0.0.1', '198.51.100.7')), '127.0.0.1', 'nobody is trusted unasked');
  t.equal(addresses.ofConnection({ remoteAddress: '10.1.1.1' } as Socket), null, 'many callers share a proxy');
  t.equal(addresses.ofConnection({ remoteAddress: '192.0.2.1' } as Socket), '192.0.2.1');
});

t.test('the caller of a request that another node passed on is known and counted as at its own node', async (t) => {
  const { of, exact } = clientAddresses([]);
  for (const [address, counted] of [
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['192.0.2.1', '192.0.2.1'],
    ['a node', 'a node'],
  ] as const) {
    const request = requestFrom('127.0.0.1');
    setPassedOn(request, address);
    t.strictSame([exact(request), of(request)], [address, counted]);
  }
});

async function scene(t: Test, { perS = 3, proxies = [] as string[], connectionsMax = 100 } = {}) {
  const clock = new SimulatedClock();
  const limits = { trustedProxies: proxies, rateUnauthenticatedPerS: perS, rateFailedTokensPerS: 5 };
  const visitors = createVisitors(limits, () => clock.monotonic());
  const app = createHttpServer({ visitors, clock, connectionsMax });
  let handled = 0;
  app.addHook('onRequest', async ({ raw, routeOptions }, reply) => {
    handled += 1;
    if (raw.headers.authorization === 'good') markAdmitted(raw);
    else if (routeOptions.url === '/door') return reply.code(401).send('closed');
  });
  for (const path of ['/door', '/page', '/healthz']) app.get(path, async () => path);
  app.post('/page', async () => 'it has a body');
  const accepted: Socket[] = [];
  app.server.on('connection', (socket: Socket) => accepted.push(socket));
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as { port: number };
  const sockets: Socket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    return app.close();
  });
  const open = async (sent: string, from = '127.0.0.1') => {
    const socket = connect({ host: '127.0.0.1', port, localAddress: from });
    sockets.push(socket.on('error', () => socket.destroy()));
    let came = '';
    socket.setEncoding('latin1').on('data', (text: string) => (came += text));
    await once(socket, 'connect');
    socket.write(sent);
    const statuses = () => [...came.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));
    return { socket, statuses, came: () => came };
  };
  const answered = async (what: string, sent: string, from?: string) => {
    const one = await open(sent, from);
    await eventually(what, () => one.statuses().length > 0);
    return one;
  };
  return { open, answered, accepted, clock, handled: () => handled, close: () => app.close() };
}

const get = (path: string, field = '') => `GET ${path} HTTP/1.1\r\nHost: hub\r\n${field}\r\n`;
const withToken = (path: string) => get(path, 'Authorization: good\r\n');

t.test(
  'beyond its share an answer to an address waits; those with tokens, health answers and other addresses do not',
  async (t) => {
    const { open, answered, clock, handled } = await scene(t);
    for (const path of ['/door', '/page', '/nowhere']) await answered(`${path} is answered`, get(path));
    const late = [await open(get('/door')), await open(get('/page'))];
    await eventually('both were seen', () => handled() === 5);
    t.equal((await answered('a token is accepted', withToken('/door'))).statuses()[0], 200);
    t.equal((await answered('health is asked', get('/healthz'))).statuses()[0], 200);
    t.equal((await answered('another address asks', get('/door'), '127.0.0.2')).statuses()[0], 401);
    t.strictSame(
      late.map(({ statuses }) => statuses()),
      [[], []],
      'these wait',
    );
    clock.advance(334);
    await eventually('the first is answered', () => late[0]?.statuses().length === 1);
    t.strictSame(late[1]?.statuses(), []);
    clock.advance(333);
    await eventually('the second is answered', () => late[1]?.statuses()[0] === 200);
  },
);

t.test('an answer that would wait for too long is not sent, and its connection is closed', async (t) => {
  const { open, handled } = await scene(t, { perS: 1, connectionsMax: 200 });
  const waiting = await Promise.all(Array.from({ length: 31 }, () => open(get('/page'))));
  await eventually('all were seen', () => handled() === 31);
  t.strictSame(waiting.filter(({ socket }) => socket.destroyed).length, 0, 'one at once, and 30 in 30 s');
  const beyond = await open(get('/page'));
  await eventually('it is closed', () => beyond.socket.destroyed);
  t.equal(beyond.came(), '');
});

t.test('a stop of the server does not wait for such answers', async (t) => {
  const { open, handled, close } = await scene(t, { perS: 1 });
  const all = [await open(get('/page')), await open(get('/page'))];
  await eventually('both were seen', () => handled() === 2);
  await close();
  await eventually('both connections ended', () => all.every(({ socket }) => socket.destroyed));
  t.strictSame(
    all.flatMap(({ statuses }) => statuses()),
    [200],
  );
});

t.test('an answer does not wait longer than its caller [UNADMITTED-1]', async (t) => {
  const { open, answered, handled } = await scene(t, { perS: 1 });
  await answered('the first', get('/page'));
  const waiting = [await open(get('/page')), await open(get('/page'))];
  await eventually('they wait', () => handled() === 3);
  for (const { socket } of waiting) socket.end();
  await eventually('they end', () => waiting.every(({ socket }) => socket.destroyed));
  t.strictSame(
    waiting.flatMap(({ statuses }) => statuses()),
    [],
    'without an answer',
  );
});

t.test(
  'what the parser refuses waits as well, and the connection is not read meanwhile [PARSER-REFUSALS-2]',
  async (t) => {
    const { open, answered, clock, handled, close } = await scene(t, { perS: 2, connectionsMax: 400 });
    const malformed = 'GET /page HTTP/9.9\r\n\r\n';
    for (const what of ['the first', 'the second']) {
      const { socket } = await answered(`${what} is refused`, malformed);
      await eventually('its connection ends', () => socket.destroyed);
    }
    const kept = await answered('a token is accepted', withToken('/page'));
    kept.socket.write(malformed);
    await eventually('a connection with a token waits for nobody', () => kept.statuses().length === 2);
    const late = await open(malformed.repeat(2));
    await answered('health is asked', get('/healthz'));
    t.strictSame(late.statuses(), []);
    clock.advance(501);
    await eventually('it is refused', () => late.statuses().length > 0 && late.socket.destroyed);
    t.strictSame(late.statuses(), [400], 'once');
    const many = await Promise.all(Array.from({ length: 61 }, () => open(malformed)));
    await eventually('one of them would wait for too long', () => many.some(({ socket }) => socket.destroyed));
    t.equal(handled(), 2, 'none was a request');
    await close();
    await eventually('a stop waits for none of them', () => many.every(({ socket }) => socket.destroyed));
    t.strictSame(
      many.flatMap(({ statuses }) => statuses()),
      [],
    );
  },
);

const chunks = 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n';
for (const [where, sent] of [
  ['behind an answer', `${get('/healthz')}GET /page HTTP/9.9\r\n\r\n`],
  ['in a body that a door reads', `${get('/page', chunks).replace('GET', 'POST')}no length of a chunk\r\n`],
] as const)
  t.test(`nor is it read while a refusal waits for what is malformed ${where} [PARSER-REFUSALS-2]`, async (t) => {
    const { open, answered, accepted, clock, handled } = await scene(t, { perS: 1 });
    await answered('the first', get('/page'));
    const { socket, statuses } = await open(sent);
    await eventually('it was seen', () => handled() === 2);
    socket.write(Buffer.alloc(8 << 20, 'a'));
    for (let asked = 0; asked < 8; asked += 1)
      await answered('health is asked', get('/healthz'), `127.0.0.${2 + asked}`);
    t.ok((accepted[1]?.bytesRead ?? 0) <= 2 << 16, 'two reads at most');
    clock.advance(1001);
    await eventually('it is refused', () => statuses().at(-1) === 400);
  });

t.test('what is malformed behind the last answer of a connection takes no turn', async (t) => {
  const { answered } = await scene(t, { perS: 2 });
  const { socket } = await answered('it is refused', `${get('/door')}GET /page HTTP/9.9\r\n\r\n`);
  await eventually('its connection ends', () => socket.destroyed);
  await answered('the next one does not wait', get('/page'));
});

t.test('a refused token closes the connection, and pipelined requests behind it are dropped', async (t) => {
  const { open, handled } = await scene(t, { perS: 1000 });
  const one = await open(get('/door').repeat(200));
  await eventually('it is closed', () => one.socket.destroyed);
  t.strictSame(one.statuses(), [401]);
  t.match(one.came(), /\r\nconnection: close\r\n/i);
  t.equal(handled(), 1, 'the others cost nothing');
  const trusted = await open(withToken('/door') + get('/page'));
  await eventually('both are answered', () => trusted.statuses().length === 2);
  t.notOk(trusted.socket.destroyed, 'a page needs no token');
});

t.test('an address has its share of connections without a token, and its oldest are closed first', async (t) => {
  const { open, answered } = await scene(t, { connectionsMax: 20 });
  const kept = await answered('a token is accepted', withToken('/page'));
  const idle: Awaited<ReturnType<typeof open>>[] = [];
  for (let n = 0; n < 7; n++) idle.push(await open(''));
  const left = () => idle.filter(({ socket }) => !socket.destroyed).length;
  await eventually('five are left', () => left() === 5);
  t.strictSame(
    idle.slice(0, 2).map(({ socket }) => socket.destroyed),
    [true, true],
    'the oldest went',
  );
  t.notOk(kept.socket.destroyed, 'one with a token does not count');
  await open('', '127.0.0.2');
  t.equal(left(), 5, 'another address has its own share');
});

t.test('behind a trusted proxy each caller has a share of answers, but none of connections', async (t) => {
  const { open, answered, handled } = await scene(t, { perS: 1, proxies: ['127.0.0.0/8'], connectionsMax: 20 });
  const from = (address: string) => get('/page', `X-Forwarded-For: ${address}\r\n`);
  await answered('the first caller', from('192.0.2.1'));
  const again = await open(from('192.0.2.1'));
  await eventually('it was seen', () => handled() === 2);
  await answered('the second caller', from('192.0.2.2'));
  t.strictSame(again.statuses(), [], 'it waits');
  const idle: Awaited<ReturnType<typeof open>>[] = [];
  for (let n = 0; n < 9; n++) idle.push(await open(''));
  await answered('a third caller', from('192.0.2.3'));
  t.equal(idle.filter(({ socket }) => socket.destroyed).length, 0);
});
