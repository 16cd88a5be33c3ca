import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createNetServer, Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { Duplex } from 'node:stream';
import { gzipSync } from 'node:zlib';
import type { Outcome } from '../../src/domain/errors.ts';
import type { OutboundCall } from '../../src/hub/ports/ports.ts';
import { nextTurn } from '../../src/kit/system-clock.ts';
import { largeTurn } from '../../src/kit/turns.ts';
import { type PartnerClientOptions, partnerClient } from '../../src/partners/client.ts';
import { egressGuard } from '../../src/partners/egress.ts';
import { Exchange, type Met } from '../../src/partners/wire/exchange.ts';
import { eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';
import { authority, expired, key, valid } from './certificates.ts';
import { endless, envelope, http, stranger } from './stranger.ts';

const token = 'partner-token-1234567890';

function callOf(url: string, changes: Partial<OutboundCall> = {}): OutboundCall {
  return {
    method: 'PUT',
    url: `${url}/ocpi/2.2.1/sessions/NL/TNM/101`,
    token,
    encoding: 'base64',
    from: { country_code: 'NL', party_id: 'TNM' },
    to: { country_code: 'DE', party_id: 'EMS' },
    requestId: 'request-1',
    correlationId: 'correlation-1',
    body: '{"id":"101","kwh":1.10}',
    timeoutMs: limitMs,
    emptyOk: false,
    resend: true,
    ...changes,
  };
}

function clientOf(test: Tap, options: Partial<PartnerClientOptions> = {}) {
  const client = partnerClient({ egress: egressGuard(['127.0.0.0/8', '::1']), ...options });
  test.teardown(() => client.close());
  return client;
}

type Tap = { teardown(fn: () => unknown): void };
type Answering = (socket: Socket, request: string, nth: number) => void;

async function partnerOf(test: Tap, answer: Answering | string) {
  const partner = await stranger(typeof answer === 'string' ? (socket) => socket.write(answer) : answer);
  test.teardown(() => partner.close());
  return partner;
}

const limitMs = 10_000;

/** Resolves when a client has read the head of an answer. */
function headArrives(): Promise<void> {
  const { headRead } = Exchange.prototype;
  return new Promise((resolve) => {
    Exchange.prototype.headRead = function (status) {
      Exchange.prototype.headRead = headRead;
      headRead.call(this, status);
      resolve();
    };
  });
}

const asked = ({ requests }: { readonly requests: readonly string[] }, count = 1) =>
  eventually(`${count} requests have arrived`, () => requests.length >= count);

/** What is compared; what is not named here is looked at by the tests that care. */
const gist = ({ class: kind, httpStatus, ocpiStatus }: Outcome) => [kind, httpStatus, ocpiStatus];

const soon = (seconds: number) => new Date(Date.now() + seconds * 1000).toUTCString();
const ok = envelope(1000, { data: { id: '101' } });

interface Row {
  readonly name: string;
  readonly answer: Answering | string;
  readonly expected: readonly [string, number | null, number | null];
  readonly call?: Partial<OutboundCall>;
}

const rows: readonly Row[] = [
  { name: '200 with OCPI 1000', answer: http(200, ok), expected: ['delivered', 200, 1000] },
  { name: '201 with OCPI 1000', answer: http(201, ok), expected: ['delivered', 201, 1000] },
  {
    name: '200 behind a 100 Continue that nothing asked for',
    answer: `HTTP/1.1 100 Continue\r\n\r\n${http(200, ok)}`,
    expected: ['delivered', 200, 1000],
  },
  { name: '200 with OCPI 1900', answer: http(200, envelope(1900)), expected: ['delivered', 200, 1900] },
  {
    name: 'a byte order mark before the envelope',
    answer: http(200, `\ufeff${ok}`),
    expected: ['delivered', 200, 1000],
  },
  { name: 'an empty 200', answer: http(200, ''), expected: ['invalid_response', 200, null] },
  { name: 'an empty 204', answer: 'HTTP/1.1 204 None\r\n\r\n', expected: ['invalid_response', 204, null] },
  {
    name: 'an empty 200 where that is fine',
    answer: http(200, ''),
    call: { emptyOk: true },
    expected: ['delivered', 200, null],
  },
  ...['OK', 'ok\n', '"OK"', 'null', '{}', '""'].map((text) => ({
    name: `a 200 that says no more than ${JSON.stringify(text)}, where an empty one is fine`,
    answer: http(200, text),
    call: { emptyOk: true },
    expected: ['delivered', 200, null] as const,
  })),
  {
    name: 'a 201 with the words of its status, where an empty one is fine',
    answer: http(201, 'Created'),
    call: { emptyOk: true },
    expected: ['delivered', 201, null],
  },
  ...['Created', '<html>OK</html>', '{"ok":true}', '[]'].map((text) => ({
    name: `a 200 that says ${text}, where an empty one is fine`,
    answer: http(200, text),
    call: { emptyOk: true },
    expected: ['invalid_response', 200, null] as const,
  })),
  { name: 'a 200 that says OK', answer: http(200, 'OK'), expected: ['invalid_response', 200, null] },
  {
    name: 'an empty 204 where that is fine',
    answer: 'HTTP/1.1 204 None\r\n\r\n',
    call: { emptyOk: true },
    expected: ['delivered', 204, null],
  },
  { name: '200 with OCPI 2001', answer: http(200, envelope(2001)), expected: ['client_error', 200, 2001] },
  { name: '200 with OCPI 2004', answer: http(200, envelope(2004)), expected: ['client_error', 200, 2004] },
  { name: '200 with OCPI 3000', answer: http(200, envelope(3000)), expected: ['unavailable', 200, 3000] },
  { name: '200 with OCPI 4002', answer: http(200, envelope(4002)), expected: ['unavailable', 200, 4002] },
  { name: '200 with OCPI 42', answer: http(200, envelope(42)), expected: ['invalid_response', 200, 42] },
  { name: '200 with HTML', answer: http(200, '<html>hello</html>'), expected: ['invalid_response', 200, null] },
  { name: '200 with half an envelope', answer: http(200, ok.slice(0, -3)), expected: ['invalid_response', 200, null] },
  { name: '200 without status_code', answer: http(200, '{"data":[]}'), expected: ['invalid_response', 200, null] },
  {
    name: '200 with a status_code as text',
    answer: http(200, '{"status_code":"done"}'),
    expected: ['invalid_response', 200, null],
  },
  { name: '200 with an array', answer: http(200, '[1000]'), expected: ['invalid_response', 200, null] },
  {
    name: '301',
    answer: http(301, '', { location: 'http://127.0.0.1:1/' }),
    expected: ['invalid_response', 301, null],
  },
  { name: '307 with an envelope', answer: http(307, ok), expected: ['invalid_response', 307, 1000] },
  { name: '400', answer: http(400, 'no'), expected: ['client_error', 400, null] },
  {
    name: '400 with OCPI 3000 to a delivery',
    answer: http(400, envelope(3000)),
    call: { isDelivery: true },
    expected: ['unavailable', 400, 3000],
  },
  {
    name: '405 with OCPI 3000 to a delivery',
    answer: http(405, envelope(3000)),
    call: { isDelivery: true },
    expected: ['client_error', 405, 3000],
  },
  {
    name: '400 with OCPI 3000 to a call that is not retried',
    answer: http(400, envelope(3000)),
    expected: ['client_error', 400, 3000],
  },
  { name: '401', answer: http(401, envelope(2000)), expected: ['auth_error', 401, 2000] },
  { name: '403', answer: http(403, ''), expected: ['auth_error', 403, null] },
  { name: '404', answer: http(404, '<h1>nothing here</h1>'), expected: ['not_found', 404, null] },
  { name: '404 with OCPI 2004', answer: http(404, envelope(2004)), expected: ['not_found', 404, 2004] },
  { name: '405', answer: http(405, ''), expected: ['client_error', 405, null] },
  { name: '408', answer: http(408, ''), expected: ['unavailable', 408, null] },
  { name: '410', answer: http(410, ''), expected: ['not_found', 410, null] },
  { name: '422 with OCPI 1000', answer: http(422, ok), expected: ['client_error', 422, 1000] },
  { name: '425', answer: http(425, ''), expected: ['unavailable', 425, null] },
  { name: '429', answer: http(429, ''), expected: ['throttled', 429, null] },
  { name: '500', answer: http(500, 'stack trace'), expected: ['unavailable', 500, null] },
  { name: '500 with OCPI 1000', answer: http(500, ok), expected: ['unavailable', 500, 1000] },
  { name: '501', answer: http(501, ''), call: { isDelivery: true }, expected: ['unavailable', 501, null] },
  {
    name: '501 to a delivery by PATCH',
    answer: http(501, ''),
    call: { isDelivery: true, method: 'PATCH', body: '{}' },
    expected: ['client_error', 501, null],
  },
  { name: '502', answer: http(502, ''), expected: ['unavailable', 502, null] },
  { name: '503 without Retry-After', answer: http(503, ''), expected: ['unavailable', 503, null] },
  { name: '503 with Retry-After', answer: http(503, '', { 'retry-after': '7' }), expected: ['throttled', 503, null] },
  {
    name: '503 with a Retry-After nobody can read',
    answer: http(503, '', { 'retry-after': 'next week' }),
    expected: ['unavailable', 503, null],
  },
  {
    name: 'a connection closed before the head',
    answer: (socket) => socket.end(),
    expected: ['unavailable', null, null],
  },
  {
    name: 'a connection reset before the head',
    answer: (socket) => socket.resetAndDestroy(),
    expected: ['unavailable', null, null],
  },
  {
    name: 'a connection closed inside the head',
    answer: (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-ty'),
    expected: ['unavailable', null, null],
  },
  {
    name: 'a body shorter than announced',
    answer: (socket) => socket.end(http(200, ok, { 'content-length': '5000' })),
    expected: ['unavailable', 200, null],
  },
  {
    name: 'a chunked body that breaks off',
    answer: (socket) => socket.end(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10\r\n{"status_`),
    expected: ['unavailable', 200, null],
  },
  { name: 'bytes that are not HTTP', answer: '%%% hello %%%\r\n\r\n', expected: ['invalid_response', null, null] },
  {
    name: 'silence',
    answer: () => {},
    expected: ['timeout', null, null],
  },
  {
    name: 'a head and then silence',
    answer: (socket) => socket.write(http(200, ok).slice(0, -10)),
    expected: ['timeout', 200, null],
  },
];

for (const { name, answer, call, expected } of rows) {
  t.test(`${name} is ${expected[0]} [delivery, Outcome of an attempt]`, async (t) => {
    const partner = await partnerOf(t, answer);
    const clock = new SimulatedClock();
    const head = headArrives();
    const called = clientOf(t, { clock }).call(callOf(partner.url, call));
    const [kind, status] = expected;
    if (kind === 'timeout') {
      await (status === null ? asked(partner) : head);
      clock.advance(limitMs);
    }
    const outcome = await called;
    t.same(gist(outcome), expected);
    t.match(outcome.message, /^[A-Z][^\n]+$/, 'one sentence for people');
  });
}

t.test('A refused connection is unavailable, and so is a name that does not resolve', async (t) => {
  const client = clientOf(t, { connectMs: 60_000, headMs: 60_000 });
  const gone = await stranger(() => {});
  await gone.close();
  t.same(gist(await client.call(callOf(gone.url))), ['unavailable', null, null]);
  t.same(gist(await client.call(callOf('http://partner.invalid', { timeoutMs: 60_000 }))), ['unavailable', null, null]);
});

t.test('Slowly dripping bytes do not extend the limit of the exchange', async (t) => {
  const partner = await partnerOf(t, (socket) => {
    socket.write(http(200, ok, { 'content-length': '100000' }));
    const drip = setInterval(() => socket.write(' '), 20);
    socket.on('close', () => clearInterval(drip));
  });
  const clock = new SimulatedClock();
  const head = headArrives();
  const called = clientOf(t, { clock }).call(callOf(partner.url));
  await head;
  clock.advance(limitMs);
  t.same(gist(await called), ['timeout', 200, null]);
});

t.test(
  'The head has a time limit of its own, except for calls that must not be sent twice [interface, Commands 2]',
  async (t) => {
    const held: Socket[] = [];
    const partner = await partnerOf(t, (socket) => void held.push(socket));
    const clock = new SimulatedClock();
    const client = clientOf(t, { clock, headMs: 50 });
    const first = client.call(callOf(partner.url, { resend: true }));
    await asked(partner);
    clock.advance(50);
    t.equal((await first).class, 'timeout');
    const second = client.call(callOf(partner.url, { resend: false }));
    await asked(partner, 2);
    clock.advance(limitMs - 1);
    held[1]?.write(http(200, ok));
    t.equal((await second).class, 'delivered');
  },
);

t.test('Many calls that hang until their time-out cause no leak warning of Node', async (t) => {
  const warnings: Error[] = [];
  const warned = (warning: Error) => void warnings.push(warning);
  process.on('warning', warned);
  t.teardown(() => process.off('warning', warned));
  const clock = new SimulatedClock();
  const client = clientOf(t, { clock, mayCall: () => false });
  const calls = Array.from({ length: 20 }, () => client.call(callOf('http://127.0.0.1:1')));
  await nextTurn();
  clock.advance(limitMs);
  await Promise.all(calls);
  t.same(warnings, []);
});

t.test('A body may take longer than the head', async (t) => {
  const answer = http(200, ok);
  const partner = await partnerOf(t, (socket) => socket.write(answer.slice(0, -5)));
  const clock = new SimulatedClock();
  const head = headArrives();
  const called = clientOf(t, { clock, headMs: 3_000 }).call(callOf(partner.url, { timeoutMs: 60_000 }));
  await head;
  clock.advance(3_000);
  clock.advance(56_999);
  partner.sockets[0]?.write(answer.slice(-5));
  t.equal((await called).class, 'delivered');
});

t.test('A TLS handshake that never ends is a time-out of the connection', async (t) => {
  const partner = await stranger(() => {});
  t.teardown(() => partner.close());
  const outcome = await clientOf(t, { connectMs: 100 }).call(callOf(partner.url.replace('http:', 'https:')));
  t.same(gist(outcome), ['timeout', null, null]);
  t.match(outcome.message, /connection/);
});

t.test('An address is not given up because this process was stopped while connecting', async (t) => {
  const partner = await partnerOf(t, (socket) => void socket.write(http(200, ok)));
  const guard = egressGuard(['127.0.0.0/8', '::1']);
  const lookup: typeof guard.lookup = (name, options, callback) =>
    guard.lookup(name, options, (...found) => {
      callback(...found);
      for (const until = performance.now() + 400; performance.now() < until; );
    });
  // Nobody listens at the second address of the name.
  const url = partner.url.replace('127.0.0.1', 'localhost');
  const outcome = await clientOf(t, { egress: { ...guard, lookup } }).call(callOf(url));
  t.same(gist(outcome), ['delivered', 200, 1000]);
});

t.test('A call that waits for a free connection keeps its own limit, and is not sent after it', async (t) => {
  const held: Socket[] = [];
  const partner = await partnerOf(t, (socket) => void held.push(socket));
  const clock = new SimulatedClock();
  const client = clientOf(t, { clock, connectionsMax: 1 });
  const first = client.call(callOf(partner.url, { timeoutMs: 60_000 }));
  while (held.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
  const waiting = client.call(callOf(partner.url, { timeoutMs: 100, correlationId: 'waiting' }));
  clock.advance(100);
  t.equal((await waiting).class, 'timeout');
  held[0]?.write(http(200, ok));
  t.equal((await first).class, 'delivered');
  const last = client.call(callOf(partner.url, { correlationId: 'last' }));
  while (partner.requests.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  held[1]?.write(http(200, ok));
  t.equal((await last).class, 'delivered');
  t.match(partner.requests[1], /correlation-id: last/i, 'the one that waited too long was never sent');
  t.equal(partner.sockets.length, 1, 'one connection for all');
});

t.test('Partners of one platform do not wait for each other [WIRE-CONNECTIONS-1]', async (t) => {
  const held: Socket[] = [];
  const platform = await partnerOf(t, (socket, request) => {
    if (/correlation-id: awaited/i.test(request)) socket.write(http(200, ok));
    else held.push(socket);
  });
  const client = clientOf(t, { connectionsMax: 1 });
  const about = (partner: string) => ({ about: { partner, module: 'tokens', object: null } });
  const hanging = [1, 2].map(() => client.call(callOf(platform.url, { ...about('NL-ONE'), timeoutMs: 60_000 })));
  while (held.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
  const awaited = await client.call(callOf(platform.url, { ...about('NL-TWO'), correlationId: 'awaited' }));
  t.equal(awaited.class, 'delivered');
  t.equal(held.length, 1, 'the second call of the other one waits for its first');
  held[0]?.write(http(200, ok));
  while (held.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  held[1]?.write(http(200, ok));
  t.ok((await Promise.all(hanging)).every((outcome) => outcome.class === 'delivered'));
  t.equal(platform.sockets.length, 2);
});

t.test(
  'Hanging calls on behalf of some partners leave half of the sockets to others, and one to each [WIRE-CONNECTIONS-4]',
  async (t) => {
    const held: Socket[] = [];
    const partner = await partnerOf(t, (socket, request) => {
      if (/correlation-id: awaited/i.test(request)) socket.write(http(200, ok));
      else held.push(socket);
    });
    const client = clientOf(t, { connectionsMax: 4 });
    const arrived = async (count: number) => {
      while (held.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
    };
    const hang = (source: string) => client.call(callOf(partner.url, { source, timeoutMs: 60_000 }));
    const hanging = Array.from({ length: 5 }, () => hang('NL-ONE'));
    await arrived(2);
    const ask = (source: string) => client.call(callOf(partner.url, { source, correlationId: 'awaited' }));
    for (const source of ['NL-TWO', 'NL-SIX', 'NL-TWO']) t.equal((await ask(source)).class, 'delivered');
    t.equal(held.length, 2, 'the others of the one that hangs wait');
    const all = [...hanging, hang('NL-TWO'), hang('NL-TWO')];
    await arrived(4);
    for (const source of ['NL-SIX', 'NL-TEN'])
      t.equal((await ask(source)).class, 'delivered', 'who has none under way waits for nobody');
    const own = client.call(callOf(partner.url, { correlationId: 'awaited' }));
    t.equal((await own).class, 'delivered', 'nor does the hub itself');
    for (let at = 0; at < all.length; at++) {
      await arrived(at + 1);
      held[at]?.write(http(200, ok));
    }
    t.ok((await Promise.all(all)).every((outcome) => outcome.class === 'delivered'));
    t.equal(partner.sockets.length, 5, 'one beside the four');
  },
);

t.test(
  'The source with the fewest calls in flight goes first, and sources take turns [WIRE-CONNECTIONS-4]',
  async (t) => {
    const held = new Map<string, Socket>();
    const idOf = (request: string) => /correlation-id: (\S+)/i.exec(request)?.[1] ?? '';
    const partner = await partnerOf(t, (socket, request) => {
      const id = idOf(request);
      if (id.startsWith('held')) held.set(id, socket);
      else socket.write(http(200, ok));
    });
    const client = clientOf(t, { connectionsMax: 6, clock: new SimulatedClock() });
    const send = (name: string) => {
      const [, source = ''] = name.split('-');
      return client.call(callOf(partner.url, { source, correlationId: name, timeoutMs: 60_000 }));
    };
    const release = (name: string) => {
      held.get(name)?.write(http(200, ok));
      held.delete(name);
    };
    const calls = ['held-A-1', 'held-A-2', 'held-B-1', 'held-C-1', 'held-C-2', 'held-C-3'].map(send);
    await asked(partner, 6);
    const fewest = ['asked-A-1', 'asked-A-2', 'asked-B-1'].map(send);
    release('held-C-1');
    await Promise.all(fewest);
    t.same(partner.requests.slice(6).map(idOf), ['asked-B-1', 'asked-A-1', 'asked-A-2']);

    calls.push(...['held-C-4', 'held-D-1'].map(send));
    await asked(partner, 11);
    const inTurn = ['asked-B-2', 'asked-B-3', 'asked-D-1'].map(send);
    for (const name of ['held-C-2', 'held-C-3']) release(name);
    await Promise.all(inTurn);
    t.same(partner.requests.slice(11).map(idOf), ['asked-B-2', 'asked-D-1', 'asked-B-3']);
    for (const name of [...held.keys()]) release(name);
    t.ok((await Promise.all(calls)).every((outcome) => outcome.class === 'delivered'));
  },
);

t.test(
  'Deliveries have sockets of their own: no other call to the same address waits behind hanging ones',
  async (t) => {
    const held: Socket[] = [];
    const partner = await partnerOf(t, (socket, request) => {
      if (/correlation-id: awaited/i.test(request)) socket.write(http(200, ok));
      else held.push(socket);
    });
    const client = clientOf(t, { connectionsMax: 1 });
    const deliveries = Array.from({ length: 100 }, () =>
      client.call(callOf(partner.url, { isDelivery: true, timeoutMs: 60_000 })),
    );
    while (held.length < 100) await new Promise((resolve) => setTimeout(resolve, 5));
    const awaited = await client.call(callOf(partner.url, { correlationId: 'awaited', resend: false }));
    t.equal(awaited.class, 'delivered');
    for (const socket of held) socket.write(http(200, ok));
    t.ok((await Promise.all(deliveries)).every((outcome) => outcome.class === 'delivered'));
  },
);

t.test('Sockets of deliveries beyond those that may be kept close after their answer', async (t) => {
  const held: Socket[] = [];
  const partner = await partnerOf(t, (socket) => void held.push(socket));
  const client = clientOf(t, { keptMax: 2, keepAliveMs: 60_000 });
  const send = () => client.call(callOf(partner.url, { isDelivery: true, timeoutMs: 60_000 }));
  const arrived = async (count: number) => {
    while (held.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  const round = async () => {
    const calls = Array.from({ length: 5 }, send);
    await arrived(5);
    for (const socket of held.splice(0)) socket.write(http(200, ok));
    await Promise.all(calls);
  };
  await round();
  t.notMatch(partner.requests.join(), /connection: close/i, 'none was open yet when they were sent');
  await round();
  t.ok(
    partner.requests.slice(5).every((request) => /connection: close/i.test(request)),
    'five are open when the next five are sent',
  );
  const open = () => partner.sockets.filter((socket) => !socket.destroyed).length;
  while (open() > 5) await new Promise((resolve) => setTimeout(resolve, 5));
  await round();
  while (open() > 5) await new Promise((resolve) => setTimeout(resolve, 5));
  t.pass('however many follow, no more are kept');
});

t.test('Retry-After becomes milliseconds, in both forms, at most 15 minutes', async (t) => {
  const table: readonly [string, string, (ms: number | undefined) => boolean][] = [
    ['429', '7', (ms) => ms === 7_000],
    ['503', '0', (ms) => ms === 0],
    ['503', '86400', (ms) => ms === 15 * 60_000],
    ['429', soon(120), (ms) => ms !== undefined && ms > 60_000 && ms <= 120_000],
    ['503', soon(-120), (ms) => ms === 0],
    ['429', 'soon', (ms) => ms === undefined],
    ['429', '-5', (ms) => ms === undefined],
    ['429', '1.5', (ms) => ms === undefined],
    ['429', '2026', (ms) => ms === 15 * 60_000],
  ];
  for (const [status, value, isRight] of table) {
    const partner = await partnerOf(t, http(Number(status), '', { 'retry-after': value }));
    const outcome = await clientOf(t).call(callOf(partner.url));
    t.equal(outcome.class, 'throttled', value);
    t.ok(isRight(outcome.retryAfterMs), `${value} gives ${outcome.retryAfterMs}`);
  }
  const partner = await partnerOf(t, http(500, '', { 'retry-after': '7' }));
  const outcome = await clientOf(t).call(callOf(partner.url));
  t.equal(outcome.retryAfterMs, undefined, 'only a throttling partner is obeyed');
});

const many = 'x'.repeat(65_536);
const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';

const tooLarge = 'The answer is larger than 1 MiB';
const headTooLarge = /^The headers of the answer are too large/;

t.test('An endless answer is cut, valid or not [EXCHANGE-4] [HAND-OVER-2]', async (t) => {
  const floods: Record<string, readonly [ReturnType<typeof endless>, RegExp | string]> = {
    'a status line': [endless('HTTP/1.1 200 ', many), headTooLarge],
    fields: [endless('HTTP/1.1 200 OK\r\n', 'a:b\r\n'.repeat(10_000)), headTooLarge],
    'interim answers': [endless('', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(1_000)), headTooLarge],
    'a chunk extension': [endless(`${chunked}1;`, many), tooLarge],
    trailers: [endless(`${chunked}1\r\n1\r\n0\r\n`, 'a:b\r\n'.repeat(10_000)), tooLarge],
    'chunks of one byte': [endless(chunked, '1\r\n \r\n'.repeat(10_000)), tooLarge],
  };
  for (const [what, [answer, expected]] of Object.entries(floods)) {
    const partner = await partnerOf(t, answer);
    const { class: outcome, message } = await clientOf(t, { clock: new SimulatedClock() }).call(callOf(partner.url));
    t.match([outcome, message], ['invalid_response', expected], what);
    await eventually('its connection is closed', () => partner.sockets.every(({ destroyed }) => destroyed));
  }
  const answerOf = (interim: number) =>
    partnerOf(t, `${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(interim)}${http(200, ok)}`);
  t.equal((await clientOf(t).call(callOf((await answerOf(100)).url))).class, 'delivered', 'some interim answers');
  const outcome = await clientOf(t).call(callOf((await answerOf(2_500)).url));
  t.match(outcome, { class: 'invalid_response', message: headTooLarge }, 'interim answers of 70 kB');
});

t.test(
  'An unusual answer is parsed piece by piece, one in a turn; those of others take turns with it [HAND-OVER-1]',
  async (t) => {
    const slices = envelope(1000, { data: 'x'.repeat(100_000) }).replace(/./gs, (byte) => `1\r\n${byte}\r\n`);
    const partner = await partnerOf(t, (socket) => void socket.write(`${chunked}${slices}0\r\n\r\n`));
    const small = await partnerOf(t, http(200, ok).replace('HTTP/1.1', 'HTTP/1.0'));
    let turns = 0;
    const others = Array.from({ length: 30 }, () => largeTurn('another')?.then(() => turns++));
    t.equal((await clientOf(t).call(callOf(small.url))).class, 'delivered', 'a small one waits for no turn');
    t.ok(turns < 30);
    const before = turns;
    t.equal((await clientOf(t).call(callOf(partner.url))).class, 'delivered', 'in chunks of one byte');
    t.ok(turns - before >= 8, `${turns - before} turns of others beside 600 kB on the wire`);
    await Promise.all(others);
  },
);

t.test('Of a long answer to a delivery only the status is read [ENVELOPE-3]', async (t) => {
  const values = (count: number) => Array.from({ length: count }, () => [[[[[0]]]]]);
  const delivery = (url: string) => callOf(url, { isDelivery: true });
  const flood = await partnerOf(t, http(200, envelope(1000, { data: values(70_000) })));
  t.match(await clientOf(t).call(delivery(flood.url)), { class: 'invalid_response' }, 'too many values are no answer');
  const refused = { data: { name: 'x'.repeat(70_000) }, status_message: 'no such token' };
  const told = await clientOf(t).call(delivery((await partnerOf(t, http(200, envelope(2001, refused)))).url));
  t.match(told, { class: 'client_error', ocpiStatus: 2001, message: /OCPI 2001: no such token$/ });
  t.equal(told.data, null);
  const echo = { status_message: 'unknown object', echo: 'x'.repeat(70_000), data: {} };
  const unknown = await clientOf(t).call(delivery((await partnerOf(t, http(404, envelope(2003, echo)))).url));
  t.match(unknown, { class: 'not_found', ocpiStatus: 2003, message: /OCPI 2003: unknown object$/ });
  const whole = envelope(1000, { data: { id: '101', name: 'x'.repeat(70_000) } });
  const answers = {
    delivered: [
      ...[whole, whole.replace('1000', '"1000"'), whole.replace('"data"', '"d\\u0061ta"')],
      ...[whole.replace('"data"', '"location"'), whole.replace('status_code', 'status_cod\\u0065')],
    ],
    invalid_response: [
      ...[whole.slice(0, -1), whole.replace('status_code', 'status'), whole.replace('"data"', '"d\\x"')],
      ...['x'.repeat(70_000), `{${'"a":0,'.repeat(20_000)}"data":0,"status_code":1000}`, `[${whole}]`],
    ],
  };
  for (const [expected, texts] of Object.entries(answers))
    for (const [n, text] of texts.entries()) {
      const partner = await partnerOf(t, http(200, text));
      t.equal((await clientOf(t).call(delivery(partner.url))).class, expected, `${expected} ${n}`);
    }
});

t.test(
  'Large answers that arrive together are parsed in separate turns, small ones are not [EXCHANGE-6, TURNS-2]',
  async (t) => {
    const large = gzipSync(envelope(1000, { data: 'x'.repeat(500_000) }));
    const small = gzipSync(envelope(1000, { data: 'x' }));
    const ended: { readonly what: string; readonly turn: number }[] = [];
    let turn = 0;
    const limits = { clock: new SimulatedClock(), timeoutMs: 1000, headMs: 1000, answerMax: 1024 * 1024 };
    const sent = { method: 'PUT', origin: '', hostname: '', path: '', fields: '', body: null } as const;
    const arrives = (partner: string, body: Buffer) => {
      const end = ({ kind }: Met) => ended.push({ what: `${partner} ${kind}`, turn });
      const exchange = new Exchange({ ...sent, partner }, limits, null, end);
      exchange.cutBy(() => t.fail("the connection is another exchange's by now"));
      exchange.answered(200, 'content-encoding: gzip\r\n', body);
    };
    await largeTurn('C');
    for (let n = 0; n < 2; n++) arrives('A', large);
    arrives('A', small);
    arrives('B', large);
    t.same(ended, [{ what: 'A answer', turn: 0 }]);
    for (; ended.length < 3; turn++) await nextTurn();
    const [, first, second] = ended;
    t.same([first?.what, second?.what], ['A answer', 'B answer'], 'partners take turns');
    t.ok(
      (first?.turn ?? 0) >= 3 && (second?.turn ?? 0) - (first?.turn ?? 0) >= 4,
      'four turns of the event loop apart',
    );
    await limits.clock.advance(1000);
    await largeTurn('A');
    t.same(
      ended.slice(3).map(({ what }) => what),
      ['A answer'],
      'what has come in full is in time [EXCHANGE-2]',
    );
  },
);

t.test('An answer over 1 MiB is refused and its connection dropped, announced or not', async (t) => {
  const big = envelope(1000, { data: 'x'.repeat(2 * 1024 * 1024) });
  const chunk = 'y'.repeat(65_536);
  const unannounced: Answering = (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
    const more = setInterval(() => socket.write(`10000\r\n${chunk}\r\n`), 1);
    socket.on('close', () => clearInterval(more));
  };
  for (const answer of [http(200, big), unannounced]) {
    const partner = await partnerOf(t, answer);
    const outcome = await clientOf(t).call(callOf(partner.url));
    t.same(gist(outcome), ['invalid_response', 200, null]);
    t.equal(outcome.message, 'The answer is larger than 1 MiB');
    await new Promise<void>((resolve) => {
      const [socket] = partner.sockets;
      if (!socket || socket.destroyed) resolve();
      else socket.once('close', () => resolve());
    });
    t.pass('the connection is gone');
  }
  const partner = await partnerOf(t, http(500, big));
  t.equal(
    (await clientOf(t).call(callOf(partner.url))).class,
    'unavailable',
    'an error page of any size stays an error',
  );
  const roomier = await partnerOf(t, http(200, envelope(1000, { data: 'x'.repeat(4 * 1024 * 1024) })));
  const { outcome } = await clientOf(t, { answerMax: 3 * 1024 * 1024 }).read(callOf(roomier.url));
  t.equal(outcome.message, 'The answer is larger than 3 MiB', 'the limit of this client');
  const echoed = { name: '☃'.repeat(500_000) };
  const echo = await partnerOf(t, http(200, envelope(1000, { data: echoed })));
  const pushed = callOf(echo.url, { body: JSON.stringify(echoed) });
  t.equal((await clientOf(t).call(pushed)).class, 'delivered', 'an answer may hold all that was sent');
  const more = await partnerOf(t, http(200, envelope(1000, { data: { ...echoed, more: 'x'.repeat(70_000) } })));
  t.equal((await clientOf(t).call({ ...pushed, url: more.url })).message, 'The answer is larger than 1.49 MiB');
  const long = await partnerOf(t, http(200, envelope(1000, { data: 'x'.repeat(70_000) })));
  for (const oneObject of ['allowed', 'result'] as const) {
    const { message } = await clientOf(t).call(callOf(long.url, { method: 'POST', body: '{}', oneObject }));
    t.match(message, /^The answer is larger than 0\.0625 MiB/, 'while a driver waits it is small');
  }
  const other = callOf(long.url, { method: 'POST', body: '{}' });
  t.equal((await clientOf(t).call(other)).class, 'delivered', 'credentials and CDRs may be long');
  const full = envelope(1000, { data: 'x'.repeat(1024 * 1024 - 80) });
  const near = await partnerOf(t, http(200, full));
  t.equal((await clientOf(t).call(callOf(near.url))).class, 'delivered', 'just under the limit is fine');
});

t.test(
  'A call on a re-used connection that closes before any byte of the answer is sent again, once, on a fresh one',
  async (t) => {
    const onReuse: Record<string, Answering> = {
      closed: (socket) => socket.end(),
      reset: (socket) => socket.resetAndDestroy(),
    };
    for (const [how, onSecond] of Object.entries(onReuse)) {
      const partner = await partnerOf(t, (socket, request, nth) => {
        if (nth === 1) socket.write(http(200, ok));
        else onSecond(socket, request, nth);
      });
      const client = clientOf(t, { connectionsMax: 1 });
      t.equal((await client.call(callOf(partner.url))).class, 'delivered');
      t.equal((await client.call(callOf(partner.url))).class, 'delivered', `${how}: sent again`);
      t.equal(partner.requests.length, 3);
      t.equal(partner.sockets.length, 2);
      t.equal(partner.requests[1]?.split('\r\n\r\n')[1], partner.requests[2]?.split('\r\n\r\n')[1], 'the same bytes');
    }
  },
);

t.test(
  'A server that silently closes its connections after their first answer fails no call [CONNECTION-2]',
  async (t) => {
    const partner = await partnerOf(t, (socket) => socket.end(http(200, ok)));
    const client = clientOf(t, { connectionsMax: 1 });
    for (let n = 0; n < 5; n++) t.equal((await client.call(callOf(partner.url, { resend: false }))).class, 'delivered');
  },
);

t.test('Once the server has kept a connection open, requests are written at once [CONNECTION-2]', async (t) => {
  const partner = await partnerOf(t, http(200, ok));
  const client = clientOf(t, { connectionsMax: 1 });
  const { write } = Socket.prototype;
  t.teardown(() => {
    Socket.prototype.write = write;
  });
  let written = 0;
  Socket.prototype.write = function (this: Socket, ...args: Parameters<typeof write>) {
    written++;
    return write.apply(this, args);
  } as typeof write;
  for (const isAtOnce of [false, false, true, true]) {
    const before = written;
    const answered = client.call(callOf(partner.url));
    t.equal(written > before, isAtOnce);
    await answered;
  }
  t.equal(partner.sockets.length, 1);
});

t.test('A call that must not be sent twice is not, whatever happened to its connection', async (t) => {
  const partner = await partnerOf(t, (socket, _, nth) => {
    if (nth === 1) socket.write(http(200, ok));
    else socket.end();
  });
  const client = clientOf(t, { connectionsMax: 1 });
  t.equal((await client.call(callOf(partner.url, { resend: false }))).class, 'delivered');
  t.equal((await client.call(callOf(partner.url, { resend: false }))).class, 'unavailable');
  t.equal(partner.requests.length, 2);
});

t.test('A call that must not be sent twice uses no connection that may have ended [PARTNERS-CLIENT-5]', async (t) => {
  const clock = new SimulatedClock();
  const partner = await partnerOf(t, (socket, _, nth) => {
    if (nth === 1) socket.write(http(200, ok));
    else socket.end();
  });
  const client = clientOf(t, { connectionsMax: 1, clock });
  const call = (resend = false) => client.call(callOf(partner.url, { resend }));
  t.equal((await call()).class, 'delivered');
  t.match(await call(), { class: 'unavailable', isStale: true }, 'the server ended it');
  t.same([(await call()).class, (await call()).class], ['delivered', 'delivered'], 'new ones are used');
  t.match(partner.requests.at(-1), /\r\nconnection: close\r\n/);
  t.equal((await call(true)).class, 'delivered');
  clock.advance(600_000);
  t.match(await call(), { class: 'unavailable', isStale: true }, 'until ten minutes later');
  const rude = await partnerOf(t, (socket) => socket.end());
  const met = await client.call(callOf(rude.url, { resend: false }));
  t.notOk(met.isStale, 'the end of a new connection is another matter');
});

t.test(
  'A call on a fresh connection that is closed, or on a re-used one with a partial answer, is not sent again',
  async (t) => {
    const rude = await partnerOf(t, (socket) => socket.end());
    t.equal((await clientOf(t, { connectionsMax: 1 }).call(callOf(rude.url))).class, 'unavailable');
    t.equal(rude.requests.length, 1);
    const begun = await partnerOf(t, (socket, _, nth) => {
      if (nth === 1) socket.write(http(200, ok));
      else socket.end('HTTP/1.1 2');
    });
    const client = clientOf(t, { connectionsMax: 1 });
    t.equal((await client.call(callOf(begun.url))).class, 'delivered');
    t.equal((await client.call(callOf(begun.url))).class, 'unavailable');
    t.equal(begun.requests.length, 2);
  },
);

t.test('A second close, on the fresh connection, ends the call', async (t) => {
  let answered = false;
  const partner = await partnerOf(t, (socket) => {
    if (answered) return void socket.end();
    answered = true;
    socket.write(http(200, ok));
  });
  const client = clientOf(t, { connectionsMax: 1 });
  t.equal((await client.call(callOf(partner.url))).class, 'delivered');
  t.equal((await client.call(callOf(partner.url))).class, 'unavailable');
  t.equal(partner.requests.length, 3);
});

t.test(
  'TLS is verified: expired, self-signed and foreign certificates are unavailable, a good one is used',
  async (t) => {
    const answer: Answering = (socket, _, nth) => (nth === 1 ? socket.write(http(200, ok)) : socket.end());
    const secure = async (cert: string) => {
      const partner = await stranger(answer, { key, cert });
      t.teardown(() => partner.close());
      return partner;
    };
    const past = await secure(expired);
    const late = await clientOf(t, { trusted: authority, connectionsMax: 1 }).call(callOf(past.url));
    t.same(gist(late), ['unavailable', null, null]);
    t.match(late.message, /TLS.*CERT_HAS_EXPIRED/);
    const good = await secure(valid);
    const stranded = await clientOf(t, { connectionsMax: 1 }).call(callOf(good.url));
    t.same(gist(stranded), ['unavailable', null, null]);
    t.match(stranded.message, /TLS/);
    const trusting = clientOf(t, { trusted: authority, connectionsMax: 1 });
    t.equal((await trusting.call(callOf(good.url))).class, 'delivered');
    t.equal(
      (await trusting.call(callOf(good.url))).class,
      'delivered',
      'the stale connection was replaced under TLS too',
    );
    t.equal(past.requests.length, 0, 'nothing is said before the certificate is accepted');
  },
);

t.test(
  'The hub offers no finite-field key exchange: the server would choose how long it blocks the thread',
  async (t) => {
    const server = createNetServer((socket) => {
      socket
        .on('error', () => {})
        .once('data', (bytes) => {
          hello = bytes;
          socket.destroy();
        });
    });
    let hello = Buffer.alloc(0);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => void server.close());
    await clientOf(t).call(callOf(`https://127.0.0.1:${(server.address() as AddressInfo).port}`));
    const { ciphers, groups } = offered(hello);
    t.ok(ciphers.includes(0x1301) && ciphers.includes(0xc02f), 'it offers TLS 1.3, and ECDHE of TLS 1.2');
    t.same(
      ciphers.filter((cipher) => primeCiphers.has(cipher)),
      [],
    );
    t.same(groups, [0x1d, 0x17, 0x18, 0x19], 'X25519, P-256, P-384, P-521');
  },
);

/** DHE with RSA in TLS 1.2: AES in CBC, CCM and GCM, ChaCha20, ARIA. [RFC 5246, 6655, 5288, 7905, 6209] */
const primeCiphers = new Set([
  ...[0x33, 0x39, 0x67, 0x6b, 0x9e, 0x9f, 0xc052, 0xc053],
  ...[0xc09e, 0xc09f, 0xc0a2, 0xc0a3, 0xccaa],
]);

/** What a ClientHello offers. [RFC 8446, 4.1.2] */
function offered(hello: Buffer) {
  const numbers = (from: number, bytes: number) =>
    Array.from({ length: bytes / 2 }, (_, n) => hello.readUInt16BE(from + 2 * n));
  // Record, handshake, version and random come before the session id.
  const atCiphers = 43 + 1 + (hello[43] ?? 0);
  const ciphers = numbers(atCiphers + 2, hello.readUInt16BE(atCiphers));
  const atCompression = atCiphers + 2 + 2 * ciphers.length;
  let at = atCompression + 1 + (hello[atCompression] ?? 0) + 2;
  while (hello.readUInt16BE(at) !== 10) at += 4 + hello.readUInt16BE(at + 2);
  return { ciphers, groups: numbers(at + 6, hello.readUInt16BE(at + 4)) };
}

t.test('The request has exactly the specified bytes and headers [D8, D14, D15, D17]', async (t) => {
  const partner = await partnerOf(t, http(200, ok));
  const client = clientOf(t);
  const body = '{"id":"101","kwh":1.10,"name":"Käthe \\u00e9 🚗"}';
  await client.call(callOf(partner.url, { body }));
  await client.call(callOf(partner.url, { method: 'GET', body: null, encoding: 'plain', from: null, to: null }));
  await client.call(callOf(partner.url, { isAnonymous: true }));
  const [put = '', get = '', anonymous = ''] = partner.requests;
  const [head = '', sent = ''] = put.split('\r\n\r\n');
  t.equal(Buffer.from(sent, 'latin1').toString('utf8'), body);
  t.match(head, /^PUT \/ocpi\/2\.2\.1\/sessions\/NL\/TNM\/101 HTTP\/1\.1\r\n/);
  for (const line of [
    `authorization: Token ${Buffer.from(token).toString('base64')}`,
    'content-type: application/json',
    'x-request-id: request-1',
    'x-correlation-id: correlation-1',
    'ocpi-from-country-code: NL',
    'ocpi-from-party-id: TNM',
    'ocpi-to-country-code: DE',
    'ocpi-to-party-id: EMS',
  ]) {
    t.ok(`${head}\r\n`.toLowerCase().includes(`\r\n${line.toLowerCase()}\r\n`), line);
  }
  t.match(get, new RegExp(`\r\nauthorization: Token ${token}\r\n`, 'i'));
  t.match(get.toLowerCase(), /\r\nuser-agent: ocpi-hub\r\n/);
  t.notMatch(get.toLowerCase(), /ocpi-(from|to)|content-type/);
  t.match(anonymous.toLowerCase(), /\r\ncontent-type: application\/json\r\n/, 'its body has its type');
  t.notMatch(anonymous.toLowerCase(), /user-agent/);
});

t.test('The partner’s answer is kept for people: data, at most 512 characters, never a token', async (t) => {
  const sent = Buffer.from(token).toString('base64');
  const echo = envelope(2001, {
    status_message: `bad token ${token}`,
    data: { a: 1 },
    echo: `${sent} ${token}`,
    pad: 'x'.repeat(900),
  });
  const partner = await partnerOf(t, http(200, echo));
  const outcome = await clientOf(t).call(callOf(partner.url));
  t.same(outcome.data, { a: 1 });
  t.equal(outcome.excerpt.length, 512);
  t.notOk(outcome.excerpt.includes(token) || outcome.excerpt.includes(sent) || outcome.message.includes(token));
  t.match(outcome.message, /OCPI 2001: bad token …/);
  t.ok(outcome.durationMs > 0);
});

t.test('`read` returns the text and the headers of an answer as received [D17]', async (t) => {
  const text = '{"status_code":1000,"data":[{"kwh":1.10}]}';
  const partner = await partnerOf(t, http(200, text, { link: '<http://next>; rel="next"' }));
  const read = await clientOf(t).read(callOf(partner.url));
  t.equal(read.text, text);
  t.equal(read.headers.link, '<http://next>; rel="next"');
  t.equal(read.outcome.class, 'delivered');
});

t.test('A forbidden address is unavailable, as a literal, as a name, and in unusual notations', async (t) => {
  const partner = await partnerOf(t, http(200, ok));
  const client = clientOf(t, { egress: egressGuard([]) });
  const hosts = [
    '127.0.0.1',
    'localhost',
    '0x7f000001',
    '2130706433',
    '0177.0.0.1',
    '127.1',
    '[::ffff:127.0.0.1]',
    '[::1]',
    '0',
  ];
  for (const host of hosts) {
    const outcome = await client.call(callOf(`http://${host}:${partner.port}`));
    t.same(gist(outcome), ['unavailable', null, null], host);
    t.match(outcome.message, /not allowed/, host);
  }
  t.equal(partner.sockets.length, 0, 'no connection was tried');
  const allowed = clientOf(t, { egress: egressGuard(['127.0.0.0/8']) });
  t.equal(
    (await allowed.call(callOf(`http://localhost:${partner.port}`))).class,
    'delivered',
    'the allow list opens it',
  );
});

t.test('A listener on all interfaces is not called at any address of its machine [EGRESS-4]', async (t) => {
  const first = Object.values(networkInterfaces()).flatMap((found) => found?.[0] ?? []);
  const outside = first.filter(({ family, internal }) => family === 'IPv4' && !internal).map(({ address }) => address);
  const both = ['127.0.0.1', '127.0.0.2', ...outside].flatMap((address) => [address, `[::ffff:${address}]`]);
  const everything = ['0.0.0.0/0', '::/0'];
  for (const [all, hosts] of [
    ['0.0.0.0', both],
    ['::', [...both, '[::1]']],
  ] as const) {
    let requests = 0;
    const server = createServer((_, response) => {
      requests++;
      response.setHeader('Content-Type', 'application/json').end(ok);
    });
    await once(server.listen(0, all), 'listening');
    t.teardown(() => server.close().closeAllConnections());
    const place = server.address() as AddressInfo;
    const own = { publicUrl: null, listeners: () => [place], nodes: () => [] };
    const [guarded, open] = [egressGuard(everything, own), egressGuard(everything)].map((egress) =>
      clientOf(t, { egress }),
    );
    for (const url of hosts.map((host) => `http://${host}:${place.port}`)) {
      const outcome = await guarded?.call(callOf(url));
      t.match(outcome, { class: 'unavailable', message: /own address/ }, url);
    }
    t.equal(requests, 0, 'nothing was sent');
    for (const host of hosts) await open?.call(callOf(`http://${host}:${place.port}`));
    t.equal(requests, hosts.length, 'each of them leads there');
  }
});

t.test('A connection that cannot be judged is refused, and ends nothing else [PARTNERS-CLIENT-1]', async (t) => {
  const partner = await partnerOf(t, http(200, ok));
  const connectionRefusal = () => {
    throw new Error('the list of interfaces may not be read');
  };
  const client = clientOf(t, { egress: { ...egressGuard(['127.0.0.0/8']), connectionRefusal } });
  const outcome = await client.call(callOf(partner.url));
  t.same(gist(outcome), ['unavailable', null, null]);
  t.match(outcome.message, /cannot be judged \(the list of interfaces may not be read\)/);
  t.equal(partner.requests.length, 0);
});

t.test('URLs that the hub never calls are unavailable, and say why', async (t) => {
  const client = clientOf(t);
  for (const url of ['ftp://127.0.0.1/x', 'http://user:secret@127.0.0.1:9/x', 'file:///etc/passwd', 'not a url', '']) {
    const outcome = await client.call({ ...callOf(''), url });
    t.equal(outcome.class, 'unavailable', url);
    t.notMatch(outcome.message, /secret/, 'and no password in the message');
  }
});

t.test('A token that cannot be a header value is an outcome, too', async (t) => {
  const partner = await partnerOf(t, http(200, ok));
  const outcome = await clientOf(t).call(callOf(partner.url, { encoding: 'plain', token: 'line\r\nbreak' }));
  t.equal(outcome.class, 'unavailable');
  t.equal(partner.requests.length, 0);
});

for (const [how, begun] of [
  ['nothing has come', ''],
  ['a part of a plain answer has come', http(200, ok).slice(0, -5)],
  ['a part of an answer in chunks has come', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"sta'],
] as const) {
  for (const nth of [1, 2]) {
    t.test(`A client is closed when ${how}, call ${nth} of a connection: the hub has cut it off`, async (t) => {
      const partner = await partnerOf(t, (socket, _, at) => void socket.write(at < nth ? http(200, ok) : begun));
      const client = clientOf(t, { connectionsMax: 1 });
      if (nth > 1) await client.call(callOf(partner.url));
      const head = headArrives();
      const [cut, waiting] = [1, 2].map(() => client.call(callOf(partner.url, { resend: false })));
      await (begun === '' ? asked(partner, nth) : head);
      await client.close();
      const shutting = { class: 'unavailable', message: 'The hub is shutting down (UND_ERR_DESTROYED)' };
      t.match(await cut, { ...shutting, isCutOff: true });
      t.equal((await waiting)?.isCutOff, undefined, 'a call that waited was never sent');
      t.equal((await client.call(callOf(partner.url))).class, 'unavailable', 'nor is a later one');
      t.equal(partner.requests.length, nth);
    });
  }
}

t.test('A request that cannot be written fails alone, however many wait with it [CONNECTION-3]', async (t) => {
  const held: Socket[] = [];
  const partner = await partnerOf(t, (socket) => void held.push(socket));
  const client = clientOf(t, { connectionsMax: 1 });
  const first = client.call(callOf(partner.url, { timeoutMs: 60_000 }));
  await asked(partner);
  const unwritable = Array.from({ length: 5_000 }, () => client.call(callOf(partner.url, { requestId: 'a\r\nb: c' })));
  t.ok((await Promise.all(unwritable)).every((outcome) => outcome.class === 'unavailable'));
  held[0]?.write(http(200, ok));
  t.equal((await first).class, 'delivered');
  t.equal(partner.requests.length, 1);
});

t.test('No value of a request adds a line to its head, also when it comes again [CONNECTION-3]', async (t) => {
  const partner = await partnerOf(t, http(200, ok));
  const client = clientOf(t);
  const bent = 'a\r\nx: y';
  const usual = { country_code: 'NL', party_id: 'TNM' };
  const [country, party] = [
    { ...usual, country_code: bent },
    { ...usual, party_id: bent },
  ];
  const values: Partial<OutboundCall>[] = [
    { token: bent, encoding: 'plain' },
    { requestId: bent },
    { correlationId: bent },
  ];
  values.push({ from: country }, { from: party }, { to: country }, { to: party });
  for (const value of [...values, ...values]) {
    const { class: met, message } = await client.call(callOf(partner.url, value));
    t.strictSame([met, /UND_ERR_INVALID_ARG/.test(message)], ['unavailable', true], JSON.stringify(value));
  }
  t.equal(partner.requests.length, 0);
});

t.test('Bytes between two answers are no answer to the second request [CONNECTION-2]', async (t) => {
  const surplus = http(200, envelope(1000, { data: 'nobody asked for this' }));
  for (const how of ['at once', 'in a write of its own'] as const) {
    const partner = await partnerOf(t, (socket) => {
      if (how === 'at once') return void socket.write(http(200, ok) + surplus);
      socket.write(http(200, ok));
      setImmediate(() => socket.write(surplus));
    });
    const client = clientOf(t, { connectionsMax: 1 });
    for (let n = 0; n < 20; n++) {
      const outcome = await client.call(callOf(partner.url, { resend: n % 2 === 0 }));
      t.same(outcome.data, { id: '101' }, `${how}, ${n}`);
    }
    t.ok(partner.sockets.length > 1, 'a connection with more than was asked for is not used again');
  }
});

t.test('A server that answers before it reads gets each request on a separate connection [CONNECTION-4]', async (t) => {
  const accepted: Socket[] = [];
  const server = createNetServer({ pauseOnConnect: true }, (socket) => {
    accepted.push(socket.on('error', () => {}));
    socket.write(http(200, ok));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => {
    for (const socket of accepted) socket.destroy();
    server.close();
  });
  const client = clientOf(t);
  // More than the system takes for a server that reads nothing.
  const body = JSON.stringify({ id: '101', x: 'x'.repeat(16 * 1024 * 1024) });
  for (const many of [1, 2]) {
    const call = callOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { body });
    t.same(gist(await client.call(call)), ['delivered', 200, 1000]);
    t.equal(accepted.length, many);
  }
});

t.test('A connection whose write ends a turn after the answer, as with TLS, is kept [CONNECTION-4]', async (t) => {
  const partner = await partnerOf(t, http(200, ok));
  const client = clientOf(t, { connectionsMax: 1 });
  const written = new WeakSet<Socket>();
  const own = Object.getOwnPropertyDescriptor(Duplex.prototype, 'writableLength');
  Object.defineProperty(Socket.prototype, 'writableLength', {
    configurable: true,
    get(this: Socket) {
      if (written.has(this)) return own?.get?.call(this);
      setImmediate(() => written.add(this));
      return 1;
    },
  });
  t.teardown(() => Reflect.deleteProperty(Socket.prototype, 'writableLength'));
  for (let n = 0; n < 3; n++) {
    t.equal((await client.call(callOf(partner.url))).class, 'delivered');
    for (let turn = 0; turn < 4; turn++) await nextTurn();
  }
  t.equal(partner.sockets.length, 1);
});

t.test('A closed client opens no connection, not even for waiting calls [WIRE-CONNECTIONS-5]', async (t) => {
  const partner = await partnerOf(t, () => {});
  const client = clientOf(t, { connectionsMax: 1 });
  const calls = Array.from({ length: 3 }, () => client.call(callOf(partner.url, { timeoutMs: 60_000 })));
  await asked(partner);
  await client.close();
  t.same((await Promise.all(calls)).map(gist), Array(3).fill(['unavailable', null, null]));
  t.equal(partner.sockets.length, 1);
});

t.test('A repeated header is a list, read once', async (t) => {
  const many = 'X-Same: 1\r\n'.repeat(1_000);
  const partner = await partnerOf(t, `HTTP/1.1 200 OK\r\n${many}Content-Length: ${ok.length}\r\n\r\n${ok}`);
  const { headers } = await clientOf(t).read(callOf(partner.url));
  t.same(headers['x-same'], Array(1_000).fill('1'));
});
