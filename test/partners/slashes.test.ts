/**
 * Partners whose server wants a slash at the end of its paths, or wants none, and redirects from the other form; and URLs that end with a
 * slash because the partner gave them so. [D55]
 */
import type { Socket } from 'node:net';
import type { OutboundCall } from '../../src/hub/ports/ports.ts';
import type { RunningHub } from '../../src/main.ts';
import { partnerClient } from '../../src/partners/client.ts';
import { egressGuard } from '../../src/partners/egress.ts';
import { cdrBody, locationBody, sessionBody, tariffBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { arrivals, ended, itemsOf, lines, quiet, statusOf } from '../support/observed.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin, eventually, type PlainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { envelope, http, stranger } from './stranger.ts';

// A hub between partners of that kind

/** What any module of either side answers. */
function usual({ path, headers }: Received): Reply {
  const base = `http://${headers.host}/ocpi`;
  const modules = ['credentials', 'tokens', 'commands', 'locations', 'tariffs', 'sessions', 'cdrs'];
  const roles = (identifier: string) =>
    ['SENDER', 'RECEIVER'].map((role) => ({ identifier, role, url: at(identifier) }));
  const at = (identifier: string) => `${base}/2.2.1/${identifier}`;
  if (path === '/ocpi/versions/') return { body: [{ version: '2.2.1', url: `${base}/2.2.1` }] };
  if (path === '/ocpi/2.2.1/') return { body: { version: '2.2.1', endpoints: modules.flatMap(roles) } };
  if (path.includes('/authorize')) return { body: { allowed: 'ALLOWED' } };
  if (path.startsWith('/ocpi/2.2.1/commands')) return { body: { result: 'ACCEPTED', timeout: 20 } };
  return /^\/ocpi\/2\.2\.1\/locations\/?\?/.test(path) ? { body: [locationBody('PULLED')] } : {};
}

/** Redirects to the same path with a slash at its end, with the query. */
function slashed(received: Received): Reply {
  const [path = '', query] = received.path.split('?');
  if (path.endsWith('/')) return usual(received);
  const Location = query === undefined ? `${path}/` : `${path}/?${query}`;
  return { status: received.method === 'GET' ? 307 : 308, text: '', headers: { Location } };
}

async function slashedPair(t: Test, hub: RunningHub): Promise<{ cpo: PlainPartner; emsp: PlainPartner }> {
  const make = (role: 'CPO' | 'EMSP', partyId: string) =>
    partnerFor(t, hub, { role, countryCode: 'NL', partyId, answer: slashed, discovery: slashed });
  const [cpo, emsp] = [await make('CPO', 'CPO'), await make('EMSP', 'EMS')];
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  return { cpo, emsp };
}

const toParty = (partyId: string) => ({ 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': partyId });

t.test(
  'each kind of call follows a redirect to the slash once, and uses that form at once afterwards [D55]',
  async (t) => {
    const hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '3600' });
    const { cpo, emsp } = await slashedPair(t, hub);
    const start = {
      ...{ response_url: `${emsp.url}/results/1?secret=1`, location_id: 'LOC1' },
      token: { uid: 'CARD1', type: 'RFID', contract_id: 'C1' },
    };
    await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
    await quiet(hub);
    const pull = async () => {
      const { id } = await admin(hub, 'POST', '/parties/NL-CPO/pull/locations', { full: true });
      const { state, error } = await ended(hub, `/pulls/${String(id)}`);
      t.equal(state, 'DONE', String(error));
    };
    const cdr = (id: string) => () => cpo.call('POST', '/2.2.1/cdrs', cdrBody(id));
    const session = (id: string) => () => cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
    const tariff = (id: string) => () => cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariffBody(id));
    const authorize = () => cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', {}, toParty('EMS'));
    const ask = () => emsp.call('PUT', '/2.2.1/tokens/NL/EMS/CARD1/authorize', {}, toParty('CPO'));
    const command = () => emsp.call('POST', '/2.2.1/commands/START_SESSION', start);
    const rows: [name: string, partner: PlainPartner, first: () => Promise<unknown>, next: () => Promise<unknown>][] = [
      ['a CDR', emsp, cdr('C1'), cdr('C2')],
      ['a session', emsp, session('S1'), session('S2')],
      ['a tariff', emsp, tariff('T1'), tariff('T2')],
      ['an authorize toward the eMSP', emsp, authorize, authorize],
      ['an authorize toward the CPO', cpo, ask, ask],
      ['a command', cpo, command, command],
      ['a pull', cpo, pull, pull],
    ];
    for (const [name, partner, first, next] of rows) {
      const learning = await arrivals(hub, partner, first);
      t.equal(learning.length, 2, `${name}: ${lines(learning).join(', ')}`);
      const [given, followed] = learning;
      const [path = '', query] = given?.path.split('?') ?? [];
      t.notOk(path.endsWith('/'), `${name}: first as it was given`);
      t.equal(followed?.path, query === undefined ? `${path}/` : `${path}/?${query}`, `${name}: then where it leads`);
      t.equal(followed?.method, given?.method, `${name}: the same method`);
      t.equal(followed?.body, given?.body, `${name}: the same body`);
      for (const header of ['authorization', 'x-request-id', 'ocpi-to-party-id', 'content-type']) {
        t.equal(followed?.headers[header], given?.headers[header], `${name}: the same ${header}`);
      }
      const known = await arrivals(hub, partner, next);
      t.equal(known.length, 1, `${name}, again: ${lines(known).join(', ')}`);
      t.match(known[0]?.path, /\/(\?|$)/, `${name}, again: the form that worked`);
    }
    t.same(await itemsOf(hub, '/deliveries?state=DEAD'), [], 'no delivery died');

    const callback = JSON.parse(cpo.received.find(({ body }) => body.includes('response_url'))?.body ?? '{}');
    const path = new URL(String(callback.response_url)).pathname.slice('/ocpi'.length);
    const results = await arrivals(hub, emsp, async () =>
      t.equal(statusOf(await cpo.call('POST', path, { result: 'ACCEPTED' })), '200/1000', 'the result is relayed'),
    );
    t.same(
      lines(results),
      ['POST /results/1?secret=1', 'POST /results/1/?secret=1'],
      'a response_url is used as given',
    );

    const asked = cpo.asked.length;
    t.equal((await hub.created.hub.operations.probe('NL-CPO')).status, 'reachable');
    t.equal(cpo.asked.length, asked, 'a probe knows the form from the registration');
  },
);

t.test('a restart forgets the form that worked, which costs one more request, once [D55]', async (t) => {
  const directory = directoryFor(t);
  // No probe comes in between.
  const clock = new SimulatedClock('2026-05-04T10:00:00Z');
  const hub = await hubFor(t, {}, { clock }, directory);
  const { cpo, emsp } = await slashedPair(t, hub);
  await arrivals(hub, emsp, () => cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1')));
  await hub.close();
  const again = await hubFor(t, {}, { clock }, directory);
  const post = (id: string) => () => ocpi(again, 'POST', '/2.2.1/cdrs', { token: cpo.hubToken, body: cdrBody(id) });
  t.same(lines(await arrivals(again, emsp, post('C2'))), ['POST /ocpi/2.2.1/cdrs', 'POST /ocpi/2.2.1/cdrs/']);
  t.same(lines(await arrivals(again, emsp, post('C3'))), ['POST /ocpi/2.2.1/cdrs/']);
});

t.test('a URL is used as it was given, with its slash and its query [D55]', async (t) => {
  const hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '3600' });
  const answer = (received: Received): Reply =>
    usual({ ...received, path: received.path.replace(/^\/own\/\/?/, '/ocpi/2.2.1/') });
  const make = (role: 'CPO' | 'EMSP', partyId: string, all: [string, string, string][]) => {
    const discovery = ({ path, headers }: Received): Reply | undefined => {
      if (path !== '/ocpi/2.2.1') return undefined;
      const endpoints = [['credentials', 'SENDER', '/own/credentials/'], ...all].map(([identifier, of, below]) => ({
        ...{ identifier, role: of, url: `http://${headers.host}${below}` },
      }));
      return { body: { version: '2.2.1', endpoints } };
    };
    return partnerFor(t, hub, { role, countryCode: 'NL', partyId, answer, discovery });
  };
  const cpo = await make('CPO', 'CPO', [
    ['locations', 'SENDER', '/own/locations/?key=3'],
    ['commands', 'RECEIVER', '/own/commands/'],
  ]);
  const emsp = await make('EMSP', 'EMS', [
    ['cdrs', 'RECEIVER', '/own/cdrs/?key=1'],
    ['sessions', 'RECEIVER', '/own/sessions/'],
    ['tokens', 'SENDER', '/own/tokens//?key=2'],
  ]);
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  const toEmsp = await arrivals(hub, emsp, async () => {
    await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'));
    await quiet(hub);
    await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
    await quiet(hub);
    await cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', {}, toParty('EMS'));
  });
  t.same(lines(toEmsp), [
    'POST /own/cdrs/?key=1',
    'PUT /own/sessions/NL/CPO/S1',
    'POST /own/tokens/CARD1/authorize?key=2&type=RFID',
  ]);
  const toCpo = await arrivals(hub, cpo, async () => {
    await admin(hub, 'POST', '/parties/NL-CPO/pull/locations', { full: true });
    await hub.settled();
    t.ok(cpo.received.length > 0, 'the list was read');
    await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', { session_id: 'S1', response_url: `${emsp.url}/r/` });
  });
  const [pulled, ...commanded] = lines(toCpo);
  t.match(pulled, /^GET \/own\/locations\/\?key=3&.*limit=/);
  t.strictSame(commanded, ['POST /own/commands/STOP_SESSION']);
});

// The client alone

type Answering = (socket: Socket, request: string, nth: number) => void;

const lineOf = (request: string) => request.slice(0, request.indexOf(' HTTP/1.1'));
const done = http(200, envelope(1000));

async function clientAt(t: Test, answer: Answering, clock?: SimulatedClock) {
  const partner = await stranger(answer);
  const client = partnerClient({
    ...{ egress: egressGuard(['127.0.0.0/8', '::1']) },
    ...(clock && { clock }),
  });
  t.teardown(async () => {
    await client.close();
    await partner.close();
  });
  const call = (path: string, changes: Partial<OutboundCall> = {}) =>
    client.call({
      ...{ method: 'POST', url: `${partner.url}${path}`, token: 'partner-token', encoding: 'base64' },
      ...{ from: null, to: null, requestId: 'request-1', correlationId: 'correlation-1', body: '{"id":"1"}' },
      ...{ timeoutMs: 30_000, emptyOk: false, resend: true, ...changes },
    });
  return { partner, call };
}

t.test('a 307 or 308 that differs by the slash alone is followed, in any notation [D55]', async (t) => {
  const rows: [path: string, location: (url: string) => string, then: string][] = [
    ['/a/cdrs', () => '/a/cdrs/', '/a/cdrs/'],
    ['/a/cdrs', (url) => `${url}/a/cdrs/`, '/a/cdrs/'],
    ['/a/cdrs', (url) => `${url.replace('http', 'HTTP')}/a/cdrs/#part`, '/a/cdrs/'],
    ['/a/cdrs', () => 'cdrs/', '/a/cdrs/'],
    // As a server behind a proxy writes it that does not know the scheme, or the port, of its callers.
    ['/a/cdrs', (url) => `${url.replace('http', 'https')}/a/cdrs/`, '/a/cdrs/'],
    ['/a/cdrs', () => 'http://127.0.0.1/a/cdrs/', '/a/cdrs/'],
    ['/a/cdrs', () => 'http://127.0.0.1:443/a/cdrs/', '/a/cdrs/'],
    ['/a/cdrs/', () => '/a/cdrs', '/a/cdrs'],
    ['/a/cdrs?x=1&y=%20', () => '/a/cdrs/?x=1&y=%20', '/a/cdrs/?x=1&y=%20'],
  ];
  for (const status of [307, 308]) {
    for (const [path, location, then] of rows) {
      const { partner, call } = await clientAt(t, (socket, request) => {
        const isFirst = lineOf(request).endsWith(` ${path}`);
        socket.write(isFirst ? http(status, '', { location: location(partner.url) }) : done);
      });
      const outcome = await call(path);
      t.equal(outcome.class, 'delivered', `${status} ${path} to ${location('')}: ${outcome.message}`);
      t.same(partner.requests.map(lineOf), [`POST ${path}`, `POST ${then}`]);
      const [given, followed] = partner.requests.map((request) => request.slice(request.indexOf('\r\n')));
      t.equal(followed, given, 'headers and body are the same');
    }
  }
});

t.test('a redirect with other escapes in its path is followed with the original path [D55]', async (t) => {
  const rows: [path: string, location: string, then: string | null][] = [
    ['/a%3Ab', '/a:b/', '/a%3Ab/'],
    ['/a:b', '/a%3ab/', '/a:b/'],
    ['/a%20b/', '/a%20b', '/a%20b'],
    ['/%C3%A9', '/%c3%a9/', '/%C3%A9/'],
    ['/a%3ab?x=1', '/a%3Ab/?x=1', '/a%3ab/?x=1'],
    ['/50%', '/50%/', '/50%/'],
    ['/a%2Fb', '/a/b/', null],
    ['/a/b', '/a%2Fb/', null],
    ['/a%2F', '/a//', null],
    ['/a', '/a%2F', null],
    ['/a%253Ab', '/a%3Ab/', null],
    ['/a%3Ab', '/a:c/', null],
  ];
  for (const [path, location, then] of rows) {
    const { partner, call } = await clientAt(t, (socket, request) =>
      socket.write(lineOf(request).endsWith(` ${path}`) ? http(308, '', { location }) : done),
    );
    t.equal((await call(path)).class, then === null ? 'invalid_response' : 'delivered', `${path} to ${location}`);
    const asked = [path, ...(then === null ? [] : [then])].map((one) => `POST ${one}`);
    t.same(partner.requests.map(lineOf), asked, `${path} to ${location}: what was asked`);
  }
});

t.test('no other redirect is followed, and none twice [D55]', async (t) => {
  const rows: [name: string, status: number, location: ((url: string) => string) | null][] = [
    ...[300, 301, 302, 303, 305].map((status): [string, number, () => string] => [String(status), status, () => '/a/']),
    ['no Location', 308, null],
    ['an empty Location', 308, () => ''],
    ['a Location that is no URL', 308, () => 'http://['],
    ['the same URL', 308, () => '/a'],
    ['another path', 308, () => '/b/'],
    ['a path below', 308, () => '/a/b'],
    ['two slashes', 308, () => '/a//'],
    ['another query', 307, () => '/a/?x=1'],
    ['another port', 308, () => 'http://127.0.0.1:1/a/'],
    ['another host', 308, (url) => `${url.replace('127.0.0.1', 'localhost')}/a/`],
    ['another scheme and host', 308, (url) => `${url.replace('http://127.0.0.1', 'https://localhost')}/a/`],
  ];
  for (const [name, status, location] of rows) {
    const { partner, call } = await clientAt(t, (socket) =>
      socket.write(http(status, '', location ? { location: location(partner.url) } : {})),
    );
    const { class: met, httpStatus, message } = await call('/a');
    t.same([met, httpStatus], ['invalid_response', status], name);
    t.match(message, /redirect/, name);
    t.same(partner.requests.map(lineOf), ['POST /a'], `${name}: what was asked`);
  }
  const { partner, call } = await clientAt(t, (socket, request) =>
    socket.write(http(308, '', { location: lineOf(request).endsWith('/') ? '/a' : '/a/' })),
  );
  t.equal((await call('/a')).class, 'invalid_response', 'to and fro');
  t.same(partner.requests.map(lineOf), ['POST /a', 'POST /a/'], 'to and fro: what was asked');
});

t.test(
  'the outcome names the target of a redirect that is not followed, without its query and the token',
  async (t) => {
    const rows: [location: string, says: string][] = [
      ['https://user:pw@other.example/a/?key=1#x', ' to https://other.example/a/ (HTTP 308), which'],
      ['/login/partner-token', `/login/… (HTTP 308), which`],
      ['http://[', 'a redirect (HTTP 308), which'],
      ['', 'a redirect (HTTP 308), which'],
    ];
    for (const [location, says] of rows) {
      const { call } = await clientAt(t, (socket) => socket.write(http(308, '', { location })));
      const { message } = await call('/a');
      t.ok(message.includes(says), `${location}: ${message}`);
    }
  },
);

t.test('a followed redirect extends no time limit of the call [D55]', async (t) => {
  const clock = new SimulatedClock();
  const { partner, call } = await clientAt(
    t,
    (socket, request) => {
      if (lineOf(request) !== 'POST /a') return;
      clock.advance(600);
      socket.write(http(308, '', { location: '/a/' }));
    },
    clock,
  );
  const called = call('/a', { timeoutMs: 1_000 });
  await eventually('it follows', () => partner.requests.length === 2);
  clock.advance(400);
  t.equal((await called).class, 'timeout');
});

t.test(
  'the form is remembered for an endpoint and the depth below it, and for links that already have it [D55]',
  async (t) => {
    const { partner, call } = await clientAt(t, (socket, request) => {
      const [, path = ''] = lineOf(request).split(' ');
      const isDeep = path.split('?')[0]?.split('/').length === 4;
      const wantsSlash = !isDeep;
      const [bare = '', query] = path.split('?');
      const isRight = bare.endsWith('/') === wantsSlash;
      const other = `${wantsSlash ? `${bare}/` : bare.slice(0, -1)}${query === undefined ? '' : `?${query}`}`;
      socket.write(isRight || isDeep ? done : http(307, '', { location: other }));
    });
    const endpoint = `${partner.url}/tokens?key=1`;
    for (const path of [
      '/tokens?key=1',
      '/tokens?key=1',
      '/tokens/?key=1',
      '/tokens/a/authorize',
      '/other',
      '/other',
    ]) {
      t.equal((await call(path, { endpoint })).class, 'delivered', path);
    }
    t.same(partner.requests.map(lineOf), [
      ...['POST /tokens?key=1', 'POST /tokens/?key=1', 'POST /tokens/?key=1', 'POST /tokens/?key=1'],
      ...['POST /tokens/a/authorize', 'POST /other', 'POST /other/', 'POST /other', 'POST /other/'],
    ]);
  },
);

t.test(
  'a remembered form that stops working costs no delivery, and a 404 of OCPI remains the answer [D55]',
  async (t) => {
    let isMoved = false;
    let gone = '<h1>Not Found</h1>';
    const { partner, call } = await clientAt(t, (socket, request) => {
      const isSlashed = lineOf(request).endsWith('/');
      if (lineOf(request).includes('/ocpi404')) socket.write(http(404, envelope(2003)));
      else if (isMoved) socket.write(isSlashed ? http(404, gone) : done);
      else socket.write(isSlashed ? done : http(308, '', { location: `${lineOf(request).split(' ')[1]}/` }));
    });
    const endpoint = `${partner.url}/cdrs`;
    const asked = async (path: string) => {
      const before = partner.requests.length;
      const { class: met } = await call(path, { endpoint });
      return [met, ...partner.requests.slice(before).map(lineOf)];
    };
    t.same(await asked('/cdrs'), ['delivered', 'POST /cdrs', 'POST /cdrs/']);
    t.same(await asked('/cdrs'), ['delivered', 'POST /cdrs/']);
    t.same(await asked('/cdrs/x'), ['delivered', 'POST /cdrs/x', 'POST /cdrs/x/']);
    t.same(await asked('/cdrs/ocpi404'), ['not_found', 'POST /cdrs/ocpi404/'], 'an answer of OCPI is asked for once');
    isMoved = true;
    t.same(await asked('/cdrs'), ['delivered', 'POST /cdrs/', 'POST /cdrs']);
    t.same(await asked('/cdrs'), ['delivered', 'POST /cdrs'], 'the other form is forgotten');
    isMoved = false;
    t.same(await asked('/cdrs'), ['delivered', 'POST /cdrs', 'POST /cdrs/']);
    [isMoved, gone] = [true, envelope(2003)];
    t.same(
      await asked('/cdrs'),
      ['delivered', 'POST /cdrs/', 'POST /cdrs'],
      'at the endpoint itself there is no object',
    );
  },
);

t.test('a command is never sent twice after an answer: its endpoint learns the form again [D55]', async (t) => {
  let isMoved = false;
  const { partner, call } = await clientAt(t, (socket, request) => {
    const isSlashed = lineOf(request).endsWith('/');
    if (isMoved) socket.write(isSlashed ? http(404, '<h1>Not Found</h1>') : done);
    else socket.write(isSlashed ? done : http(308, '', { location: `${lineOf(request).split(' ')[1]}/` }));
  });
  const endpoint = `${partner.url}/commands`;
  const asked = async (resend: boolean) => {
    const before = partner.requests.length;
    const { class: met } = await call('/commands/START_SESSION', { endpoint, resend });
    return [met, ...partner.requests.slice(before).map(lineOf)];
  };
  const [bare, slashed] = ['POST /commands/START_SESSION', 'POST /commands/START_SESSION/'];
  t.same(await asked(false), ['delivered', bare, slashed]);
  t.same(await asked(false), ['delivered', slashed]);
  isMoved = true;
  t.same(await asked(false), ['not_found', slashed], 'the 404 is its answer');
  t.same(await asked(false), ['delivered', bare], 'the next one goes as it was given');
  isMoved = false;
  t.same(await asked(true), ['delivered', bare, slashed]);
  isMoved = true;
  t.same(await asked(true), ['delivered', slashed, bare], 'what may be sent again is asked again');
});
