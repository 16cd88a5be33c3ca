/**
 * What the OCPI door refuses before the hub is asked for anything but a credential: the server on a real socket, with a
 * hub that knows tokens and nothing else.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { request } from 'undici';
import { HubError } from '../../src/domain/errors.ts';
import { defaultSettings } from '../../src/domain/partner-settings.ts';
import type { CredentialsBody, Partner, PartyRole } from '../../src/domain/party.ts';
import type { Accepted, Credential, Hub } from '../../src/hub/ports/hub.ts';
import { admission } from '../../src/ocpi/admission.ts';
import { createHttpServer } from '../../src/ocpi/http-server.ts';
import { rateLimiter } from '../../src/ocpi/limits.ts';
import { isAtEveryNode, ocpiServer, routes } from '../../src/ocpi/server.ts';
import { sessionBody } from '../support/bodies.ts';
import { eventually } from '../support/plain-partner.ts';
import { rawClient } from '../support/raw-client.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { welcome } from '../support/visitors.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const cpoRole: PartyRole = { role: 'CPO', country_code: 'NL', party_id: 'CPO' };
const emspRole: PartyRole = { role: 'EMSP', country_code: 'NL', party_id: 'EMS' };

function partner(roles: PartyRole[], hubTokenDigest: string | null): Partner {
  const unused = {
    initialTokenDigest: null,
    spentDigests: [],
    partnerToken: null,
    suspendedAt: null,
    endpoints: [],
    url: null,
  };
  const id = roles.map((role) => `${role.country_code}-${role.party_id}`)[0] ?? '';
  const lastUpdated = '2024-05-01T00:00:00Z';
  return { ...unused, id, roles, status: 'CONNECTED', settings: defaultSettings, hubTokenDigest, lastUpdated };
}

const credentials: Record<string, Omit<Credential, 'token'>> = {
  'cpo-token': { partner: partner([cpoRole], 'digest'), kind: 'hub' },
  'emsp-token': { partner: partner([emspRole], 'digest'), kind: 'hub' },
  'initial-token': { partner: partner([cpoRole], null), kind: 'initial' },
  'spent-token': { partner: partner([cpoRole], 'digest'), kind: 'spent' },
  'revoked-token': { partner: partner([cpoRole], null), kind: 'spent' },
};

const hub = {
  known: () => null,
  publicUrl: 'https://hub.example',
  suspendedAt: () => null,
  refused: () => {},
  used: () => {},
  caughtUp: async () => false,
  authenticate: (token: string) => {
    const credential = credentials[token];
    return credential ? { ...credential, token } : null;
  },
  register: async (_credential: Credential, read: () => CredentialsBody) => read(),
} as unknown as Hub;

/** A server that has room for everything. */
const roomy = admission({
  felt: () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 }),
  bytesMax: 2 ** 30,
  shed: () => {},
});

interface Line {
  readonly [field: string]: unknown;
}

/** A server of its own for each test, so that no test spends another's rate limits. */
async function startServer(t: Pick<Test, 'teardown'>, requestTimeoutMs = 15_000, of = hub) {
  const lines: Line[] = [];
  const bodies: WeakRef<object>[] = [];
  const app = createHttpServer({ requestTimeoutMs });
  app.addHook('preHandler', async ({ body }) => {
    if (body instanceof Buffer) bodies.push(new WeakRef(body));
  });
  const clock = new SimulatedClock();
  const rates = { listsPerMin: 2, commandsPerMin: 2, exchangesPerMin: 10, otherPerMin: 6000 };
  await app.register(
    ocpiServer(of, {
      isAlone: true,
      visitors: welcome,
      log: { info: (fields) => lines.push(fields as Line), error: (fields) => lines.push(fields as Line) },
      pages: { pageDefault: 100, pageMax: 1000 },
      limiter: rateLimiter(rates, () => clock.now()),
      admission: roomy,
      clock,
    }),
  );
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  t.teardown(() => app.close());
  return {
    url,
    server: app.server,
    lines,
    bodies,
    call: (method: string, path: string, options: CallOptions = {}) => call(url, method, path, options),
  };
}

interface CallOptions {
  readonly token?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}

async function call(url: string, method: string, path: string, { token, headers = {}, body }: CallOptions) {
  const answer = await request(url + path, {
    method: method as 'GET',
    headers: {
      ...(token !== undefined && { authorization: `Token ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body }),
  });
  const text = await answer.body.text();
  return { http: answer.statusCode, headers: answer.headers, envelope: text === '' ? null : JSON.parse(text) };
}

const address = (path: string) => `/ocpi${path.replaceAll(/:\w+/g, 'x')}`;
const pushPath = '/ocpi/2.2.1/sessions/NL/CPO/S1';
const invalidToken = { http: 401, envelope: { status_code: 2000, status_message: 'Invalid token' } };

t.test('every endpoint needs a token [interface, Authentication 1]', async (t) => {
  const { call } = await startServer(t);
  t.ok(routes.length > 30);
  for (const { method, path } of routes) {
    t.match(await call(method, address(path)), invalidToken, `${method} ${path} without a token`);
    t.match(await call(method, address(path), { token: 'wrong' }), invalidToken, `${method} ${path} with a wrong one`);
  }
  const { headers } = await call('GET', '/ocpi/versions');
  t.equal(headers['www-authenticate'], 'Token');
});

t.test('without a token nothing is revealed about which paths exist [D2]', async (t) => {
  const { call } = await startServer(t);
  for (const [method, path] of [
    ['GET', '/ocpi'],
    ['GET', '/ocpi/nothing/here'],
    ['DELETE', '/ocpi/versions'],
    ['GET', '/ocpi/2.2.1/sessions/%zz'],
  ] as const) {
    t.match(await call(method, path), invalidToken, `${method} ${path}`);
  }
});

t.test('a token is accepted plain and in base64 [D8]', async (t) => {
  const { call } = await startServer(t);
  for (const token of [
    'cpo-token',
    Buffer.from('cpo-token').toString('base64'),
    Buffer.from('cpo-token\n').toString('base64'),
  ]) {
    t.equal((await call('GET', '/ocpi/versions', { token })).http, 200, token);
  }
});

t.test('an initial token opens discovery and POST credentials alone [D9]', async (t) => {
  const { call } = await startServer(t);
  const token = 'initial-token';
  for (const route of routes) {
    const answer = await call(route.method, address(route.path), { token });
    const name = `${route.method} ${route.path}`;
    if (route.path === '/versions' || route.path === '/2.2.1') t.equal(answer.http, 200, name);
    else if (name === 'POST /2.2.1/credentials') t.match(answer, { http: 400 }, 'reaches the body, which is missing');
    else if (route.onboarding === 'changes') {
      t.match(answer, { http: 405, envelope: { status_code: 2000, status_message: 'Not registered' } }, name);
    } else t.match(answer, invalidToken, name);
  }
  t.match(await call('GET', '/ocpi/nothing', { token }), invalidToken, 'nor does it tell what exists');
});

t.test('a token that was valid once is refused, except for the 405 rules of credentials [D9, D10]', async (t) => {
  const { call } = await startServer(t);
  const path = '/ocpi/2.2.1/credentials';
  const registered = { http: 405, envelope: { status_code: 2000, status_message: 'Already registered' } };
  const unregistered = { http: 405, envelope: { status_code: 2000, status_message: 'Not registered' } };
  t.match(await call('POST', path, { token: 'spent-token' }), registered);
  t.match(await call('PUT', path, { token: 'spent-token' }), invalidToken);
  t.match(await call('DELETE', path, { token: 'spent-token' }), invalidToken);
  t.match(await call('PUT', path, { token: 'revoked-token' }), unregistered);
  t.match(await call('DELETE', path, { token: 'revoked-token' }), unregistered);
  t.match(await call('POST', path, { token: 'revoked-token' }), invalidToken);
  t.match(await call('GET', path, { token: 'revoked-token' }), invalidToken);
  t.match(await call('GET', '/ocpi/versions', { token: 'spent-token' }), invalidToken);
  const answer = await call('POST', path, { token: 'cpo-token' });
  t.match(answer, registered);
  t.equal(answer.headers.allow, 'GET, PUT, DELETE');
});

t.test('every other method on a known path is 405 with Allow [D2]', async (t) => {
  const { call } = await startServer(t);
  const methods = ['GET', 'PUT', 'PATCH', 'POST', 'DELETE', 'HEAD', 'OPTIONS', 'PROPFIND'];
  for (const path of new Set(routes.map((route) => route.path))) {
    // Literal segments where they would be read as a parameter of another route are not what is tested here.
    const named = routes.filter((route) => route.path === path).map((route) => route.method as string);
    const allowed = named.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
    for (const method of methods.filter((name) => !allowed.includes(name))) {
      const answer = await call(method, address(path), { token: 'cpo-token' });
      t.equal(answer.http, 405, `${method} ${path}`);
      t.equal(answer.headers.allow, allowed.join(', '), `${method} ${path}`);
      if (method !== 'HEAD') t.match(answer.envelope, { status_code: 2000, timestamp: String });
    }
  }
});

t.test('an unknown path is 404 in an envelope [D2]', async (t) => {
  const { call } = await startServer(t);
  const token = 'cpo-token';
  for (const path of [
    '/ocpi',
    '/ocpi/',
    '/ocpi/2.1.1',
    '/ocpi/2.2.1/chargingprofiles',
    '/ocpi/2.2.1/locations/a/b/c/d/e/f',
    '/ocpi/2.2.1/sessions/%zz',
  ]) {
    t.match(
      await call('GET', path, { token }),
      { http: 404, envelope: { status_code: 2000, status_message: 'Not found' } },
      path,
    );
  }
  t.equal((await call('GET', '/ocpi/versions/', { token })).http, 200, 'a slash at the end is overlooked');
  for (const path of ['/ocpi//versions', '/ocpi/versions//', '/ocpi//2.2.1///?x=//'])
    t.equal((await call('GET', path, { token })).http, 200, `slashes in a row count as one: ${path}`);
  t.equal((await call('GET', '//ocpi/versions', { token })).http, 404, 'but none before the door');
  t.equal((await call('GET', '/ocpi/versions/?x=1', { token })).http, 200);
});

t.test('percent-encoding reaches no door: the first two segments are compared as sent', async (t) => {
  const { call } = await startServer(t);
  const token = 'cpo-token';
  const notFound = { http: 404, envelope: { status_code: 2000, status_message: 'Not found' } };
  for (const path of ['/%6fcpi/versions', '/ocpi/%76ersions', '/ocpi/%32.2.1', '/ocpi%2fversions', '/%6Fcpi/%zz']) {
    t.match(await call('GET', path, { token }), notFound, path);
    t.match(await call('GET', path), invalidToken, `${path} without a token`);
  }
  t.equal((await call('GET', '/ocpi/versions?x=%6f', { token })).http, 200, 'a query may be encoded');
  t.not(
    (await call('GET', '/ocpi/2.2.1/tokens/NL/EMS/%55', { token: 'emsp-token' })).envelope.status_message,
    'Not found',
  );
});

t.test('the ids of a request are echoed, on refusals too, and minted when absent [D14]', async (t) => {
  const { call } = await startServer(t);
  const headers = { 'X-Request-ID': 'req-1', 'X-Correlation-ID': 'corr-1' };
  for (const [method, path, token] of [
    ['GET', '/ocpi/versions', 'cpo-token'],
    ['GET', '/ocpi/versions', undefined],
    ['GET', '/ocpi/nothing', 'cpo-token'],
    ['POST', '/ocpi/versions', 'cpo-token'],
  ] as const) {
    const answer = await call(method, path, { headers, ...(token && { token }) });
    t.equal(answer.headers['x-request-id'], 'req-1', `${method} ${path}`);
    t.equal(answer.headers['x-correlation-id'], 'corr-1', `${method} ${path}`);
  }
  const minted = await call('GET', '/ocpi/versions', {});
  t.match(minted.headers['x-request-id'], /^[0-9a-f-]{36}$/);
  t.match(minted.headers['x-correlation-id'], /^[0-9a-f-]{36}$/);
  t.not(minted.headers['x-request-id'], minted.headers['x-correlation-id']);
  const tooLong = await call('GET', '/ocpi/versions', { headers: { 'X-Request-ID': 'x'.repeat(129) } });
  t.match(tooLong.headers['x-request-id'], /^[0-9a-f-]{36}$/);
});

t.test('a refusal of the whole server is an envelope with both ids below /ocpi [D2, D14]', async (t) => {
  const app = createHttpServer();
  app.addHook('onRequest', async () => {
    throw new HubError('unavailable', { retryAfterS: 3 });
  });
  const log = { info: () => {}, error: () => {} };
  const rates = { listsPerMin: 1, commandsPerMin: 1, exchangesPerMin: 1, otherPerMin: 1 };
  await app.register(
    ocpiServer(hub, {
      isAlone: true,
      visitors: welcome,
      log,
      pages: { pageDefault: 1, pageMax: 1 },
      limiter: rateLimiter(rates, () => 0),
      admission: roomy,
      clock: new SimulatedClock(),
    }),
  );
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  t.teardown(() => app.close());
  for (const path of ['/ocpi/versions', '/ocpi/nothing']) {
    const answer = await call(url, 'GET', path, { token: 'cpo-token', headers: { 'X-Request-ID': 'req-1' } });
    t.match(answer, { http: 503, envelope: { status_code: 3000, timestamp: String } }, path);
    t.equal(answer.headers['retry-after'], '3');
    t.equal(answer.headers['x-request-id'], 'req-1');
    t.match(answer.headers['x-correlation-id'], /^[0-9a-f-]{36}$/);
  }
});

t.test('the bytes of a body are released while its push is written', async (t) => {
  let accept: (answer: Accepted) => void = () => {};
  const written = new Promise<Accepted>((resolve) => {
    accept = resolve;
  });
  const { call, bodies } = await startServer(t, 15_000, { ...hub, accept: () => written });
  const body = JSON.stringify(sessionBody('S1'));
  const answer = call('PUT', pushPath, { token: 'cpo-token', body });
  await eventually('the push is being written', () => bodies.length === 1);
  await eventually('its bytes are gone', () => {
    collect();
    return bodies[0]?.deref() === undefined;
  });
  accept({ result: 'created', object: { body } } as Accepted);
  t.match(await answer, { http: 200, envelope: { status_code: 1000 } });
});

t.test('a body that is not UTF-8, not JSON, missing or too deep is 400/2001 [D2, D38, D49]', async (t) => {
  const { call } = await startServer(t);
  const put = (body: string | Buffer) => call('PUT', pushPath, { token: 'cpo-token', body });
  const refused = (message: string | RegExp) => ({
    http: 400,
    envelope: { status_code: 2001, status_message: message },
  });
  t.match(await put('{"id":'), refused('Body is not valid JSON'));
  t.match(await put('{"id":"S1"} trailing'), refused('Body is not valid JSON'));
  t.match(await put(Buffer.from([0x7b, 0xff, 0x7d])), refused('Body is not valid UTF-8'));
  t.match(await put('['.repeat(65) + ']'.repeat(65)), refused(/64 levels/));
  t.match(await put('['.repeat(500_000)), refused(/64 levels/));
  t.match(await put(''), refused('Body is missing'));
  t.match(await call('PUT', pushPath, { token: 'cpo-token' }), refused('Body is missing'));
});

t.test('a body that fails validation is 200/2001 and names the field [D3]', async (t) => {
  const { call } = await startServer(t);
  const token = 'cpo-token';
  const session = {
    country_code: 'NL',
    party_id: 'CPO',
    id: 'S1',
    status: 'ACTIVE',
    last_updated: '2024-05-01T00:00:00Z',
  };
  const rows: [body: unknown, message: string][] = [
    [[], 'body: expected object'],
    [JSON.parse('{"__proto__":{"id":"S1"},"constructor":{}}'), 'country_code: expected string'],
    [{ ...session, kwh: '5' }, 'kwh: expected number'],
    [{ ...session, last_updated: undefined }, 'last_updated: expected string'],
    [{ ...session, id: 'S2' }, 'id: expected "S1", as in the path'],
    [{ ...session, party_id: 'TNM' }, 'party_id: expected "CPO", as in the path'],
  ];
  for (const [body, message] of rows) {
    const answer = await call('PUT', pushPath, { token, body: JSON.stringify(body) });
    t.match(
      answer,
      { http: 200, envelope: { status_code: 2001, status_message: message, timestamp: String } },
      message,
    );
  }
});

t.test('a body over its limit is 413, and the caller reads the answer while it still sends [D38]', async (t) => {
  const { call } = await startServer(t);
  const token = 'cpo-token';
  const body = (bytes: number) => `"${'x'.repeat(bytes - 2)}"`;
  const mebi = 1024 * 1024;
  const tooLarge = { http: 413, envelope: { status_code: 2000 } };
  t.equal((await call('PUT', pushPath, { token, body: body(mebi) })).envelope.status_message, 'body: expected object');
  t.match(await call('PUT', pushPath, { token, body: body(mebi + 1) }), tooLarge);
  t.match(await call('PUT', pushPath, { token, body: body(20 * mebi) }), tooLarge);
  const location = '/ocpi/2.2.1/locations/NL/CPO/L1';
  t.equal((await call('PUT', location, { token, body: body(4 * mebi) })).http, 200, 'locations may be larger');
  t.match(await call('PUT', location, { token, body: body(4 * mebi + 1) }), tooLarge);
});

t.test('a chunked body over its limit is 413 as well [D38]', async (t) => {
  const { url } = await startServer(t);
  const answer = await request(url + pushPath, {
    method: 'PUT',
    headers: { authorization: 'Token cpo-token', 'content-type': 'application/json' },
    body: (function* () {
      for (let at = 0; at < 40; at++) yield 'x'.repeat(64 * 1024);
    })() as unknown as AsyncIterable<Uint8Array> as never,
  });
  t.equal(answer.statusCode, 413);
  t.match(await answer.body.json(), { status_code: 2000 });
});

/** Heads of pushes in chunks, and chunks of one byte each. */
const chunkedPush = [
  `PUT ${pushPath} HTTP/1.1`,
  ...['Host: hub', 'Authorization: Token cpo-token', 'Content-Type: application/json', 'Transfer-Encoding: chunked'],
];
const bytewise = (body: string) => [...body].map((byte) => `1\r\n${byte}\r\n`).join('');

t.test('a body that arrives byte by byte takes memory for its bytes alone [BODY-1]', async (t) => {
  const { url, server } = await startServer(t);
  const [pushes, bytes] = [100, 4_000];
  const sent = `${chunkedPush.join('\r\n')}\r\n\r\n${bytewise('1'.repeat(bytes))}`;
  const accepted: Socket[] = [];
  server.on('connection', (socket: Socket) => accepted.push(socket));
  const heap = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = heap();
  const clients = await Promise.all(
    Array.from({ length: pushes }, () => rawClient(t, Number(new URL(url).port), false)),
  );
  for (const { socket } of clients) socket.write(sent);
  await eventually('all has arrived', () => accepted.filter((one) => one.bytesRead === sent.length).length === pushes);
  const perByte = (heap() - before) / (pushes * bytes);
  t.ok(perByte < 25, `${perByte.toFixed(1)} bytes of the heap for each byte`);
  const [first] = clients;
  first?.socket.write('0\r\n\r\n');
  await eventually('it is answered', () => first?.came() !== '');
  t.match(first?.came(), /^HTTP\/1\.1 200 .*body: expected object/s, 'and all of it is read');
});

t.test('a body in too many pieces is 413, and the rest is not read [BODY-2]', async (t) => {
  const { url } = await startServer(t);
  const { socket, came } = await rawClient(t, Number(new URL(url).port), false);
  const closed = once(socket, 'close');
  socket.write(`${chunkedPush.join('\r\n')}\r\n\r\n${bytewise('1'.repeat(5_000))}`);
  await closed;
  t.match(came(), /^HTTP\/1\.1 413 .*connection: close.*"status_code":2000.*Body is in too many pieces/is);
});

t.test('a body of another type or encoding is 415 [D49]', async (t) => {
  const { call } = await startServer(t);
  const token = 'cpo-token';
  const unsupported = { http: 415, envelope: { status_code: 2000 } };
  for (const type of [
    'text/plain',
    'text/json',
    'application/jsonp',
    'application/x-www-form-urlencoded',
    'nonsense',
    '',
  ]) {
    t.match(await call('PUT', pushPath, { token, body: '{}', headers: { 'content-type': type } }), unsupported, type);
  }
  const headers = { 'content-encoding': 'gzip' };
  t.match(await call('PUT', pushPath, { token, body: '{}', headers }), unsupported, 'gzip');
  for (const type of ['application/json; charset=utf-8', 'Application/JSON', 'application/json;charset=UTF-8']) {
    const answer = await call('PUT', pushPath, { token, body: '{}', headers: { 'content-type': type } });
    t.equal(answer.envelope.status_code, 2001, type);
    t.equal(answer.http, 200, type);
  }
});

t.test('a wrong role is 403, the party of another 404 [D7]', async (t) => {
  const { call } = await startServer(t);
  const emspOnly = { http: 403, envelope: { status_code: 2000, status_message: 'eMSP-only endpoint' } };
  const cpoOnly = { http: 403, envelope: { status_code: 2000, status_message: 'CPO-only endpoint' } };
  const notFound = { http: 404, envelope: { status_code: 2003, status_message: 'Not found' } };
  t.match(await call('GET', '/ocpi/2.2.1/locations', { token: 'cpo-token' }), emspOnly);
  t.match(await call('POST', '/ocpi/2.2.1/commands/START_SESSION', { token: 'cpo-token' }), emspOnly);
  t.match(await call('PUT', '/ocpi/2.2.1/tokens/NL/EMS/1', { token: 'cpo-token' }), emspOnly);
  t.match(await call('GET', '/ocpi/2.2.1/tokens', { token: 'emsp-token' }), cpoOnly);
  t.match(await call('PUT', pushPath, { token: 'emsp-token' }), cpoOnly);
  t.match(await call('PUT', '/ocpi/2.2.1/sessions/NL/TNM/S1', { token: 'cpo-token' }), notFound);
  t.match(await call('GET', '/ocpi/2.2.1/tariffs/NL/TNM/T1', { token: 'cpo-token' }), notFound);
  t.match(
    await call('POST', '/ocpi/2.2.1/commands/callback/1', { token: 'emsp-token' }),
    invalidToken,
    'callbacks say 401',
  );
});

t.test('OCPI-from naming a party that is not the caller’s is 2001 [D5]', async (t) => {
  const { call } = await startServer(t);
  const from = (party: string) => ({ 'OCPI-from-country-code': 'nl', 'OCPI-from-party-id': party });
  const path = '/ocpi/2.2.1/sessions';
  const strange = await call('GET', path, { token: 'emsp-token', headers: from('TNM') });
  t.match(strange, { http: 200, envelope: { status_code: 2001, status_message: /OCPI-from/ } });
  const own = await call('GET', path, { token: 'emsp-token', headers: from('ems') });
  t.match(own, { http: 200, envelope: { status_code: 2001, status_message: /date_from/ } });
});

t.test('an unknown command is 404/2000 [D45]', async (t) => {
  const { call } = await startServer(t);
  const answer = await call('POST', '/ocpi/2.2.1/commands/start_session', { token: 'emsp-token', body: '{}' });
  t.match(answer, {
    http: 404,
    envelope: { status_code: 2000, status_message: /^Unknown command: expected one of START_SESSION,/ },
  });
});

t.test('over its rate a party is refused with 429/2901 and Retry-After [D35]', async (t) => {
  const { call } = await startServer(t);
  const list = () => call('GET', '/ocpi/2.2.1/sessions', { token: 'emsp-token' });
  t.equal((await list()).envelope.status_code, 2001);
  t.equal((await list()).envelope.status_code, 2001);
  const answer = await list();
  t.match(answer, { http: 429, envelope: { status_code: 2901, status_message: 'Rate limited' } });
  t.equal(answer.headers['retry-after'], '60');
  t.equal((await call('GET', '/ocpi/versions', { token: 'emsp-token' })).http, 200, 'other budgets are untouched');
});

t.test('an error of the hub is 500/3000, without its cause', async (t) => {
  const { call, lines } = await startServer(t);
  const answer = await call('GET', '/ocpi/2.2.1/credentials', { token: 'cpo-token' });
  t.match(answer, { http: 500, envelope: { status_code: 3000, status_message: 'Internal error' } });
  t.ok(lines.some((line) => line.err instanceof TypeError));
});

t.test('version details list every module by role, under the public URL [interface, Versions; D33]', async (t) => {
  const { call } = await startServer(t);
  const headers = { host: 'evil.example' };
  const list = await call('GET', '/ocpi/versions', { token: 'cpo-token', headers });
  t.same(list.envelope.data, [{ version: '2.2.1', url: 'https://hub.example/ocpi/2.2.1' }]);
  const { data } = (await call('GET', '/ocpi/2.2.1', { token: 'cpo-token', headers })).envelope;
  const offered = data.endpoints.map(
    (endpoint: { identifier: string; role: string }) => `${endpoint.identifier} ${endpoint.role}`,
  );
  const both = (module: string) => [`${module} SENDER`, `${module} RECEIVER`];
  t.same(
    offered.sort(),
    [
      'credentials SENDER',
      'credentials RECEIVER',
      'hubclientinfo SENDER',
      'commands RECEIVER',
      ...['locations', 'tariffs', 'tokens', 'sessions', 'cdrs'].flatMap(both),
    ].sort(),
  );
  t.ok(
    data.endpoints.every(
      ({ url, identifier }: { url: string; identifier: string }) =>
        url === `https://hub.example/ocpi/2.2.1/${identifier}`,
    ),
  );
});

t.test('each request is one wide log line, without token or body', async (t) => {
  const { call, lines } = await startServer(t);
  await call('PUT', pushPath, {
    token: 'cpo-token',
    body: '{"secret":"s3cret"}',
    headers: { 'X-Request-ID': 'r1', 'X-Correlation-ID': 'c1' },
  });
  t.equal(lines.length, 1);
  t.match(lines[0], {
    method: 'PUT',
    route: '/ocpi/2.2.1/sessions/:country_code/:party_id/:id',
    party: 'NL-CPO',
    httpStatus: 200,
    ocpiStatus: 2001,
    durationMs: Number,
    requestId: 'r1',
    correlationId: 'c1',
  });
  t.notMatch(JSON.stringify(lines), /cpo-token|s3cret/);
});

t.test('a request that does not arrive in time is answered 408 and cut [D38]', async (t) => {
  const { url } = await startServer(t, 300);
  const text = await converse(
    url,
    `PUT ${pushPath} HTTP/1.1\r\nHost: x\r\nAuthorization: Token cpo-token\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"id":`,
  );
  t.match(text, /^HTTP\/1\.1 408 /);
  t.match(JSON.parse(text.slice(text.indexOf('\r\n\r\n'))), { status_code: 2000, timestamp: String });
});

t.test('bytes that are not HTTP are answered 400 and cut', async (t) => {
  const { url } = await startServer(t);
  const text = await converse(url, 'nonsense\r\n\r\n');
  t.match(text, /^HTTP\/1\.1 400 /);
  t.match(JSON.parse(text.slice(text.indexOf('\r\n\r\n'))), { status_code: 2000 });
});

/** Sends bytes and gives what comes back until the server closes the connection. */
function converse(url: string, sent: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(sent));
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('close', () => resolve(text));
    socket.on('error', reject);
  });
}

t.test('every node of a cluster answers every module but credentials [NODE-6]', async (t) => {
  for (const module of ['locations', 'tariffs', 'sessions', 'cdrs', 'tokens', 'hubclientinfo', 'commands']) {
    for (const rest of ['', '?limit=1', '/NL/CPO/1']) t.ok(isAtEveryNode(`/ocpi/2.2.1/${module}${rest}`));
  }
  for (const path of ['credentials', 'credentials/', '%63redentials', '', 'sessionsx', '?/sessions']) {
    t.notOk(isAtEveryNode(`/ocpi/2.2.1/${path}`), path);
  }
  for (const url of [
    '/ocpi/versions',
    '/ocpi/2.2.1',
    '/admin/v1/sessions',
    '/ocpi/2.1.1/sessions',
    '/ocpi?2.2.1/sessions',
  ]) {
    t.notOk(isAtEveryNode(url), url);
  }
});

t.test('a request that ends during the look-up of its token keeps no room', async (t) => {
  let learn = () => {};
  let isKnown = false;
  const of = {
    ...hub,
    authenticate: (token: string) => (isKnown ? { ...credentials['cpo-token'], token } : null),
    caughtUp: () =>
      new Promise<boolean>((resolve) => {
        learn = () => {
          isKnown = true;
          resolve(true);
        };
        asked();
      }),
  } as unknown as Hub;
  let asked = () => {};
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const { url, server } = await startServer(t, 15_000, of);
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.write('GET /ocpi/versions HTTP/1.1\r\nHost: hub.example\r\nAuthorization: Token new\r\n\r\n');
  await isAsked;
  socket.resetAndDestroy();
  const open = () => new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count)));
  await eventually('the connection has closed', async () => (await open()) === 0);
  learn();
  t.equal((await call(url, 'GET', '/ocpi/versions', { token: 'new' })).http, 200);
  t.notOk(roomy.partners().requests.get('NL-CPO'), 'nothing is in progress');
});
