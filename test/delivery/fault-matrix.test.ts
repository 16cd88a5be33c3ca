/**
 * Every way in which a receiver can fail, against the table of outcomes: class, state, attempts and due time of each module's delivery,
 * as operators see them. [D39; interface, Delivery rules 3 and 4]
 */
import { createServer as tlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { expired, key, valid } from '../partners/certificates.ts';
import { http, type Stranger, stranger } from '../partners/stranger.ts';
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { callsTo, itemsOf } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { isAtLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { Changes } from '../support/within.ts';

type Outcome =
  | 'timeout'
  | 'unavailable'
  | 'throttled'
  | 'auth_error'
  | 'not_found'
  | 'client_error'
  | 'invalid_response'
  | 'delivered';

interface Fault {
  readonly outcome: Outcome;
  /** What the receiver does with a request; or the URL at which there is nobody to do anything. */
  readonly behaves: ((socket: Socket) => void) | { readonly at: string };
  readonly http?: number | null;
  readonly ocpi?: number | null;
  /** Words of the reason of a dead one. */
  readonly because?: RegExp;
  /** Milliseconds until the next attempt, when the receiver has a say in it; a range of it when it named an instant. */
  readonly waitsMs?: number | readonly [number, number];
  readonly settings?: object;
}

interface Delivery {
  readonly module: string;
  readonly state: string;
  readonly due_at: string | null;
  readonly reason: string | null;
  readonly attempts: readonly {
    readonly at: string;
    readonly http_status: number | null;
    readonly ocpi_status: number | null;
    readonly class: string;
    readonly excerpt: string;
  }[];
}

/** The second wait is so long that a test sees exactly two attempts of what is tried again. */
const [firstWaitMs, lastWaitMs] = [50, 3_600_000];
const schedule = `${firstWaitMs / 1000},${lastWaitMs / 1000}`;
/** Longer than a busy machine stands still: what answers at once must not time out. */
const timeoutMs = 120_000;

const ocpiText = (status_code: number) => JSON.stringify({ status_code, timestamp: '2026-01-02T03:04:05Z' });
const success = ocpiText(1000);
const says = (status: number, body: string, headers?: Record<string, string>) => (socket: Socket) =>
  void socket.write(http(status, body, headers));
const raw = (text: string) => (socket: Socket) => void socket.write(text, () => socket.resetAndDestroy());
const large = JSON.stringify({ status_code: 1000, data: 'x'.repeat(2 * 1024 * 1024) });

function drips(socket: Socket): void {
  socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{`);
  const timer = setInterval(() => (socket.destroyed ? clearInterval(timer) : socket.write(' ')), 50);
  socket.on('close', () => clearInterval(timer));
}

function dripsItsHead(socket: Socket): void {
  socket.write('HTTP/1.1 200 OK\r\nX-Drip: ');
  const timer = setInterval(() => (socket.destroyed ? clearInterval(timer) : socket.write('a')), 50);
  socket.on('close', () => clearInterval(timer));
}

const faults: Readonly<Record<string, Fault>> = {
  hang: { outcome: 'timeout', behaves: () => {}, http: null },
  drip: { outcome: 'timeout', behaves: drips, http: 200 },
  headDrip: { outcome: 'timeout', behaves: dripsItsHead, http: null },
  refused: { outcome: 'unavailable', behaves: { at: 'refused' }, http: null },
  unresolved: { outcome: 'unavailable', behaves: { at: 'http://no-such-name.invalid' }, http: null },
  forbiddenNetwork: { outcome: 'unavailable', behaves: { at: 'http://10.11.12.13' }, http: null },
  expiredTls: { outcome: 'unavailable', behaves: { at: 'expiredTls' }, http: null },
  untrustedTls: { outcome: 'unavailable', behaves: { at: 'untrustedTls' }, http: null },
  resetBefore: { outcome: 'unavailable', behaves: (socket) => void socket.resetAndDestroy(), http: null },
  closedBefore: { outcome: 'unavailable', behaves: (socket) => void socket.destroy(), http: null },
  resetInHead: { outcome: 'unavailable', behaves: raw('HTTP/1.1 200 OK\r\nContent-Ty'), http: null },
  resetInBody: { outcome: 'unavailable', behaves: raw(`HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"stat`) },
  tooShort: {
    outcome: 'unavailable',
    behaves: (socket) => void socket.end(http(200, success, { 'content-length': '5000' })),
  },
  e500: { outcome: 'unavailable', behaves: says(500, '<html>oops</html>'), http: 500, ocpi: null },
  e500InEnvelope: { outcome: 'unavailable', behaves: says(500, ocpiText(2000)), http: 500, ocpi: 2000 },
  e502: { outcome: 'unavailable', behaves: says(502, ''), http: 502 },
  e503: { outcome: 'unavailable', behaves: says(503, ''), http: 503 },
  e503Garbage: { outcome: 'unavailable', behaves: says(503, '', { 'Retry-After': 'in a while' }), http: 503 },
  e503Negative: { outcome: 'unavailable', behaves: says(503, '', { 'Retry-After': '-5' }), http: 503 },
  e408: { outcome: 'unavailable', behaves: says(408, ''), http: 408 },
  e425: { outcome: 'unavailable', behaves: says(425, ''), http: 425 },
  ocpi3000: { outcome: 'unavailable', behaves: says(200, ocpiText(3000)), http: 200, ocpi: 3000 },
  ocpi3001: { outcome: 'unavailable', behaves: says(201, ocpiText(3001)), http: 201, ocpi: 3001 },
  large500: { outcome: 'unavailable', behaves: says(500, large), http: 500 },
  e503Seconds: {
    ...{ outcome: 'throttled', behaves: says(503, '', { 'Retry-After': '120' }), http: 503 },
    waitsMs: 120_000,
  },
  e503Date: {
    outcome: 'throttled',
    behaves: (socket) => says(503, '', { 'Retry-After': new Date(Date.now() + 600_000).toUTCString() })(socket),
    waitsMs: [500_000, 600_000],
  },
  e503Long: { outcome: 'throttled', behaves: says(503, '', { 'Retry-After': '86400' }), waitsMs: 900_000 },
  e429: { outcome: 'throttled', behaves: says(429, ocpiText(2901)), http: 429, ocpi: 2901 },
  e429Seconds: { outcome: 'throttled', behaves: says(429, '', { 'Retry-After': '30' }), waitsMs: 30_000 },
  e429Garbage: { outcome: 'throttled', behaves: says(429, '', { 'Retry-After': 'soon' }), http: 429 },
  e401: { outcome: 'auth_error', behaves: says(401, ocpiText(2000)), http: 401, because: /HTTP 401/ },
  e403: { outcome: 'auth_error', behaves: says(403, '<html>'), http: 403, because: /HTTP 403/ },
  e404: { outcome: 'not_found', behaves: says(404, ocpiText(2003)), http: 404, ocpi: 2003, because: /HTTP 404/ },
  e410: { outcome: 'not_found', behaves: says(410, ''), http: 410, because: /HTTP 410/ },
  e400: { outcome: 'client_error', behaves: says(400, ocpiText(2001)), http: 400, because: /HTTP 400/ },
  e409: { outcome: 'client_error', behaves: says(409, ''), http: 409, because: /HTTP 409/ },
  e422: { outcome: 'client_error', behaves: says(422, '{}'), http: 422, because: /HTTP 422/ },
  ocpi2000: { outcome: 'client_error', behaves: says(200, ocpiText(2000)), ocpi: 2000, because: /OCPI 2000/ },
  ocpi2001: { outcome: 'client_error', behaves: says(200, ocpiText(2001)), ocpi: 2001, because: /OCPI 2001/ },
  e301: {
    ...{ outcome: 'invalid_response', behaves: says(301, '', { Location: '/followed/' }), http: 301 },
    because: /redirect/,
  },
  e307: {
    ...{ outcome: 'invalid_response', behaves: says(307, '', { Location: '/followed/' }), http: 307 },
    because: /redirect/,
  },
  html: { outcome: 'invalid_response', behaves: says(200, '<html>welcome</html>'), http: 200, because: /not JSON/ },
  cutJson: {
    ...{ outcome: 'invalid_response', behaves: says(200, success, { 'content-length': '9' }), http: 200 },
    because: /not JSON/,
  },
  noStatusCode: { outcome: 'invalid_response', behaves: says(200, '{"data":[]}'), because: /no status_code/ },
  notEnvelope: { outcome: 'invalid_response', behaves: says(200, '[1000]'), because: /not an envelope/ },
  textStatusCode: { outcome: 'invalid_response', behaves: says(200, '{"status_code":"done"}'), because: /status_code/ },
  deep: { outcome: 'invalid_response', behaves: says(200, '['.repeat(100_000)), because: /deep/ },
  large: { outcome: 'invalid_response', behaves: says(200, large), because: /larger than 1 MiB/ },
  largeInChunks: {
    outcome: 'invalid_response',
    behaves: (socket) => {
      const body = `${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`;
      socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}`);
    },
    because: /larger than 1 MiB/,
  },
  notHttp: { outcome: 'invalid_response', behaves: (socket) => void socket.end('SSH-2.0-OpenSSH\r\n'), http: null },
  empty: { outcome: 'invalid_response', behaves: says(200, ''), http: 200, because: /without an envelope/ },
  empty204: { outcome: 'invalid_response', behaves: (s) => void s.write('HTTP/1.1 204 No Content\r\n\r\n'), http: 204 },
  emptyOk: { outcome: 'delivered', behaves: says(200, ''), http: 200, settings: { empty_2xx_ok: true } },
  empty204Ok: {
    outcome: 'delivered',
    behaves: (socket) => void socket.write('HTTP/1.1 204 No Content\r\n\r\n'),
    settings: { empty_2xx_ok: true },
  },
  htmlNotEmpty: { outcome: 'invalid_response', behaves: says(200, '<p>'), settings: { empty_2xx_ok: true } },
  good: { outcome: 'delivered', behaves: says(200, success), http: 200, ocpi: 1000 },
  custom1900: { outcome: 'delivered', behaves: says(200, ocpiText(1900)), http: 200, ocpi: 1900 },
  informed: {
    outcome: 'delivered',
    behaves: (socket) => void socket.write(`HTTP/1.1 103 Early Hints\r\n\r\n${http(200, success)}`),
    http: 200,
  },
};

const modules = ['locations', 'tariffs', 'sessions', 'cdrs', 'tokens'] as const;
const transient: ReadonlySet<Outcome> = new Set(['timeout', 'unavailable', 'throttled']);

/** Those of which a partner for a fault is owed one; at length of every module, else either a session or a CDR, by turns. */
const owedTo = (index: number): readonly string[] =>
  isAtLength ? modules : modules.filter((name) => name !== (index % 2 === 0 ? 'sessions' : 'cdrs'));

type Faults = readonly (readonly [name: string, fault: Fault])[];

const all: Faults = Object.entries(faults);
/** Receivers that keep the hub waiting: their attempts end when the clock says so. */
const isSlow = ([, { outcome }]: Faults[number]) => outcome === 'timeout';

t.test('each failure of a receiver ends in the class and state of the table, in every module [D39]', async (t) => {
  const quick = all.filter((fault) => !isSlow(fault));
  const scene = await owingTo(t, quick);
  await scene.hub.settled();
  await judge(t, scene, quick);
});

t.test('an answer that does not end in time is a time-out, in every module [D39]', async (t) => {
  const clock = new SimulatedClock('2026-05-04T10:00:00Z');
  const slow = all.filter(isSlow);
  const changes = new Changes();
  const held = new Set<Socket>();
  const holder = {
    get holding() {
      return held.size;
    },
    changed: () => changes.next(),
  };
  const keep = (socket: Socket) => {
    socket.on('close', () => void (held.delete(socket) && changes.tell()));
    // What it answers first is on its way.
    socket.write('', () => {
      held.add(socket);
      changes.tell();
    });
  };
  const scene = await owingTo(t, slow, keep, clock);
  for (const waitMs of [timeoutMs, firstWaitMs, timeoutMs]) {
    await scene.hub.settled(holder);
    clock.advance(waitMs);
  }
  await scene.hub.settled(holder);
  await judge(t, scene, slow);
});

interface Scene {
  readonly hub: TestHub;
  readonly receiver: Stranger;
  readonly idOf: (name: string) => string;
}

/** A hub that owes an object of each module to a partner for each of these faults; `met` is called after what they do with a request. */
async function owingTo(
  t: Test,
  some: Faults,
  met: (socket: Socket) => void = () => {},
  clock?: SimulatedClock,
): Promise<Scene> {
  const hub = await hubFor(
    t,
    {
      ...{ HUB_DELIVERY_TIMEOUT_MS: String(timeoutMs), HUB_RETRY_SCHEDULE_S: schedule, HUB_RETRY_JITTER: '0' },
      ...{ HUB_CIRCUIT_FAILURES: '1000', HUB_RATE_OTHER_PER_MIN: '100000' },
    },
    clock && { clock },
  );
  const receiver = await stranger((socket, request) => {
    const fault = faults[/^\S+ \/([^/ ?]+)/.exec(request)?.[1] ?? ''];
    if (!fault || 'at' in fault.behaves) return;
    fault.behaves(socket);
    met(socket);
  });
  t.teardown(() => receiver.close());
  const places: Record<string, () => string | Promise<string>> = {
    refused: () => 'http://127.0.0.1:1',
    expiredTls: () => tlsUrl(t, expired),
    untrustedTls: () => tlsUrl(t, valid),
  };
  const urlOf = (name: string, { behaves }: Fault) =>
    'at' in behaves ? (places[behaves.at]?.() ?? behaves.at) : `${receiver.url}/${name}`;

  // One partner is both CPO and eMSP, so that it can push every module.
  const source = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO' },
    others: [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS' }],
  });
  const names = Object.keys(faults);
  const idOf = (name: string) => `DE-${String(100 + names.indexOf(name))}`;
  for (const [name, fault] of some) {
    const id = idOf(name);
    const own = { countryCode: 'DE', partyId: id.slice(3) };
    const others = [{ role: 'CPO', country_code: 'DE', party_id: own.partyId }] as const;
    await partnerFor(t, hub, { role: 'EMSP', ...own, others }, fault.settings);
    const url = await urlOf(name, fault);
    const endpoints = modules.map((identifier) => ({ identifier, role: 'RECEIVER', url: `${url}/${identifier}` }));
    await admin(hub, 'PUT', `/parties/${id}/endpoints`, { endpoints });
    await admin(hub, 'PUT', `/routes/${id}/NL-CPO`, { active: true });
    await admin(hub, 'PUT', `/routes/NL-EMS/${id}`, { active: true });
  }

  const accepted = async (call: ReturnType<typeof source.call>) => {
    const { status, text } = await call;
    if (status >= 300 || !text.includes('1000')) throw new Error(`not accepted: ${text}`);
  };
  await accepted(source.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1')));
  await accepted(source.call('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1')));
  await accepted(source.call('PUT', '/2.2.1/tokens/NL/EMS/CARD1', tokenBody('CARD1')));
  for (const [index, [name]] of some.entries()) {
    const owed = owedTo(index);
    const cdr_token = { ...(sessionBody('').cdr_token as object), country_code: 'DE', party_id: idOf(name).slice(3) };
    if (owed.includes('sessions'))
      await accepted(source.call('PUT', `/2.2.1/sessions/NL/CPO/S-${name}`, sessionBody(`S-${name}`, { cdr_token })));
    if (owed.includes('cdrs'))
      await accepted(source.call('POST', '/2.2.1/cdrs', cdrBody(`C-${name}`, { cdr_token, session_id: `-${name}` })));
  }
  return { hub, receiver, idOf };
}

/** What became of the deliveries, against the table. */
async function judge(t: Test, { hub, receiver, idOf }: Scene, some: Faults): Promise<void> {
  for (const [index, [name, fault]] of some.entries()) {
    const owed = owedTo(index);
    const isTransient = transient.has(fault.outcome);
    const attempts = isTransient && fault.waitsMs === undefined ? 2 : 1;
    const found = (await itemsOf(hub, `/deliveries?receiver=${idOf(name)}`)) as unknown as Delivery[];
    t.same(found.map(({ module }) => module).sort(), [...owed].sort(), `${name}: every module`);
    for (const delivery of found) {
      const title = `${name}, ${delivery.module}`;
      t.equal(delivery.attempts.length, attempts, `${title}: attempts`);
      for (const attempt of delivery.attempts) {
        t.equal(attempt.class, fault.outcome, `${title}: class`);
        if (fault.http !== undefined) t.equal(attempt.http_status, fault.http, `${title}: HTTP status`);
        if (fault.ocpi !== undefined) t.equal(attempt.ocpi_status, fault.ocpi, `${title}: OCPI status`);
        t.ok(attempt.excerpt.length <= 512, `${title}: a short excerpt`);
      }
      if (isTransient) {
        t.equal(delivery.state, 'PENDING', `${title}: state`);
        t.equal(delivery.reason, null, `${title}: reason`);
        const waitsMs = Date.parse(delivery.due_at ?? '') - Date.parse(delivery.attempts.at(-1)?.at ?? '');
        const [least, most] = [fault.waitsMs ?? lastWaitMs].flat() as [number, number?];
        t.ok(waitsMs >= least && waitsMs <= (most ?? least), `${title}: due ${waitsMs} ms after the last attempt`);
      } else {
        t.equal(delivery.state, fault.outcome === 'delivered' ? 'DELIVERED' : 'DEAD', `${title}: state`);
        t.equal(delivery.due_at, null, `${title}: never due`);
        if (fault.outcome === 'delivered') t.equal(delivery.reason, null, `${title}: reason`);
        else t.match(delivery.reason, fault.because ?? /\w/, `${title}: reason`);
      }
    }
  }
  t.notOk(
    receiver.requests.some((request) => /^.*followed/.test(request)),
    'no redirect was followed',
  );

  type Death = { data: { receiver: string; class: string } };
  const dead = (await itemsOf(hub, '/events?type=delivery.dead&limit=1000')) as unknown as Death[];
  for (const [index, [name, { outcome }]] of some.entries()) {
    const classes = dead.flatMap(({ data }) => (data.receiver === idOf(name) ? [data.class] : []));
    const isDead = !transient.has(outcome) && outcome !== 'delivered';
    t.same(classes, isDead ? owedTo(index).map(() => outcome) : [], `${name}: what the log says of dead letters`);
  }
}

t.test('a failure of a receiver is never the answer to the CPO [interface, Delivery rules 2]', async (t) => {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '3600' });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS', answer: () => ({ status: 401 }) });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  const { status, json } = await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  t.same([status, json.status_code], [200, 1000]);
  const again = await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { kwh: 2 }));
  t.same([again.status, again.json.status_code], [200, 1000]);
});

t.test('an idle connection that was closed meanwhile costs no attempt', async (t) => {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '3600' });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  const seen = new WeakSet<Socket>();
  const receiver = await stranger((socket) => {
    if (seen.has(socket)) socket.destroy();
    else socket.write(http(200, success));
    seen.add(socket);
  });
  t.teardown(() => receiver.close());
  const endpoints = [{ identifier: 'sessions', role: 'RECEIVER', url: `${receiver.url}/once` }];
  await admin(hub, 'PUT', '/parties/NL-EMS/endpoints', { endpoints });
  for (let kwh = 1; kwh <= 4; kwh++) await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { kwh }));
  await hub.settled();
  for (const { state, attempts } of (await itemsOf(hub, '/deliveries')) as unknown as Delivery[])
    t.strictSame([state, attempts.length], ['DELIVERED', 1], 'all four are delivered');
  t.ok(receiver.requests.length > 4, 'some were sent on a connection that was closed under them');
  t.same(callsTo(emsp, 'sessions'), [], 'the endpoint that the operator set is the one that counts');
});

/** A server whose certificate the hub must not accept. */
async function tlsUrl(t: Test, cert: string): Promise<string> {
  const server = tlsServer({ key, cert }, (_, response) => void response.end(success));
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `https://localhost:${(server.address() as AddressInfo).port}`;
}
