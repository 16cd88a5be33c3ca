/** Refusals of a partner beyond its rate, or its room: the first of a second come at once, the others in turn. [UNADMITTED-3] */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { locationBody } from '../support/bodies.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { admin, eventually, type PlainPartner } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const path = '/2.2.1/locations/NL/CPO/L1';

async function scene(t: Test, more: Readonly<Record<string, string>> = {}) {
  const clock = new SimulatedClock('2026-03-01T00:00:00Z');
  const rates = { HUB_RATE_OTHER_PER_MIN: '1', HUB_RATE_UNAUTHENTICATED_PER_S: '100' };
  const env = { HUB_PROBE_INTERVAL_S: '864000', ...rates, ...more };
  const lines: string[] = [];
  const hub = await hubFor(t, env, { clock, logTo: { write: (line) => void lines.push(line) } });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  await cpo.push('PUT', path, locationBody('L1'));
  return { clock, hub, cpo, lines };
}

/** So many requests at once, each on a connection of its own; the statuses that came so far. */
function atOnce(t: Test, hub: TestHub, request: string, count: number) {
  const { hostname: host, port } = new URL(hub.url);
  const came: string[] = [];
  const sockets = Array.from({ length: count }, () => {
    const socket = connect({ host, port: Number(port) });
    t.teardown(() => socket.destroy());
    socket.on('data', (chunk) => came.push(chunk.toString('latin1'))).write(request);
    return socket;
  });
  return {
    sockets,
    text: () => came.join(''),
    statuses: () => [...came.join('').matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status),
  };
}

function requestOf({ hubToken }: PlainPartner, line: string, ...fields: readonly string[]): string {
  const token = Buffer.from(hubToken).toString('base64');
  return [`${line} HTTP/1.1`, 'Host: hub', `Authorization: Token ${token}`, ...fields, '', ''].join('\r\n');
}

const refusedRequest = (from: PlainPartner) => requestOf(from, `GET /ocpi${path}`);

const refusedAtOnce = (t: Test, hub: TestHub, cpo: PlainPartner, count: number) =>
  atOnce(t, hub, refusedRequest(cpo), count);

/** What the hub says of a signal of its load. */
async function loadOf(hub: TestHub, signal: string): Promise<string | undefined> {
  const answer = await fetch(`${hub.url}/metrics`, { headers: { Authorization: `Bearer ${hub.adminToken}` } });
  return new RegExp(`ocpi_hub_load\\{signal="${signal}"\\} (\\S+)`).exec(await answer.text())?.[1];
}

t.test(
  'beyond a hundred a second a partner waits for its refusals, which take no room, and no other partner does',
  async (t) => {
    const { clock, hub, cpo } = await scene(t);
    const other = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'OTH' });
    const { statuses } = refusedAtOnce(t, hub, cpo, 103);
    await eventually('a hundred are refused', () => statuses().length >= 100);
    const own = locationBody('L1', { party_id: 'OTH' });
    await other.call('PUT', '/2.2.1/locations/NL/OTH/L1', own);
    const refused = await other.call('PUT', '/2.2.1/locations/NL/OTH/L1', own);
    t.match(refused, { status: 429 }, 'another partner is refused at once');
    t.equal(statuses().length, 100, 'while the others of the first one wait');
    t.equal(await loadOf(hub, 'requests'), '0', 'and are no load');
    clock.advance(10);
    await eventually('the next has its turn', () => statuses().length === 101);
    clock.advance(20);
    await eventually('and the others', () => statuses().length === 103);
    t.same(new Set(statuses()), new Set(['429']));
  },
);

t.test('so does a partner without room, and its refusals are one log line', async (t) => {
  const { clock, hub, cpo, lines } = await scene(t, { HUB_RATE_OTHER_PER_MIN: '1000', HUB_LOG_LEVEL: 'info' });
  const silent = { countryCode: 'NL', partyId: 'EMS', answer: () => new Promise<never>(() => {}) };
  const emsp = await partnerFor(t, hub, { role: 'EMSP', ...silent });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  const to = ['OCPI-to-country-code: NL', 'OCPI-to-party-id: EMS', 'Content-Length: 0'];
  atOnce(t, hub, requestOf(cpo, 'POST /ocpi/2.2.1/tokens/CARD1/authorize', ...to), 256);
  await eventually('half of its room is taken', async () => (await loadOf(hub, 'ofPartner')) === '0.5');
  const { statuses } = atOnce(t, hub, requestOf(cpo, 'GET /ocpi/2.2.1/tokens'), 103);
  await eventually('a hundred lists are refused', () => statuses().length >= 100);
  t.match(await emsp.call('GET', '/2.2.1/locations'), { status: 200 }, 'another partner is answered');
  t.equal(statuses().length, 100, 'while the others wait');
  clock.advance(30);
  await eventually('and have their turn', () => statuses().length === 103);
  t.same(new Set(statuses()), new Set(['503']));
  t.equal(lines.filter((line) => line.includes('"httpStatus":503')).length, 1);
});

t.test('every refused request counts for the partner’s rate, whatever the reason [OCPI-SERVER-7]', async (t) => {
  const { clock, hub, cpo } = await scene(t, { HUB_RATE_OTHER_PER_MIN: '5' });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  const unknown = ['GET', '/2.2.1/nothing', 404] as const;
  const callback = ['POST', '/2.2.1/commands/callback/C1', 401] as const;
  const refusedFor = async (from: PlainPartner, asked: readonly (readonly [string, string, number])[]) => {
    for (const [method, to, status] of asked) t.equal((await from.call(method, to)).status, status, `${method} ${to}`);
  };
  // Its push counted, too.
  await refusedFor(cpo, [unknown, ['POST', path, 405], ['GET', '/2.2.1/sessions', 403]]);
  await refusedFor(cpo, [
    ['PUT', '/2.2.1/locations/NL/OTH/L1', 404],
    ['GET', '/2.2.1/nothing', 429],
    ['GET', path, 429],
  ]);
  await refusedFor(emsp, [callback, callback, callback, callback, callback, ['GET', '/2.2.1/nothing', 429]]);
  clock.advance(60_000);
  await refusedFor(cpo, [unknown]);
});

t.test('a refusal that would wait longer than a second is sent at once and closes its connection', async (t) => {
  const { clock, hub, cpo } = await scene(t);
  const { sockets, statuses } = refusedAtOnce(t, hub, cpo, 200);
  await eventually('a hundred are refused', () => statuses().length >= 100);
  await hub.settled();
  const last = refusedAtOnce(t, hub, cpo, 1);
  await Promise.all(last.sockets.map((socket) => once(socket, 'close')));
  t.match(last.text(), /^HTTP\/1\.1 429 .*connection: close/is);
  clock.advance(1_000);
  await eventually('those that wait are answered', () => statuses().length === 200);
  t.notOk(
    sockets.some(({ destroyed }) => destroyed),
    'and their connections go on',
  );
});

/** Answers to requests for this path, and of each what it was ended with, once it was. */
function answersTo(t: Test, wanted: string) {
  const answers: { readonly response: ServerResponse; ended: unknown[] | null }[] = [];
  const started = (message: unknown) => {
    const { request, response } = message as { request: { url: string }; response: ServerResponse };
    if (request.url !== wanted) return;
    const one: (typeof answers)[number] = { response, ended: null };
    answers.push(one);
    const end = response.end.bind(response) as (...args: unknown[]) => ServerResponse;
    response.end = (...args: unknown[]) => {
      one.ended = args;
      return end(...args);
    };
  };
  subscribe('http.server.request.start', started);
  t.teardown(() => unsubscribe('http.server.request.start', started));
  return answers;
}

t.test('a waiting answer costs nothing more when its caller leaves: no error object is made', async (t) => {
  const { hub, cpo } = await scene(t);
  const refusals = answersTo(t, `/ocpi${path}`);
  const refused = refusedAtOnce(t, hub, cpo, 103);
  await eventually('a hundred are refused', () => refused.statuses().length >= 100);
  const pages = answersTo(t, '/console/');
  const visitors = atOnce(t, hub, 'GET /console/ HTTP/1.1\r\nHost: hub\r\n\r\n', 103);
  for (const [what, answers, { sockets }] of [
    ['refusals', refusals, refused],
    ['pages', pages, visitors],
  ] as const) {
    const waiting = () => answers.filter(({ ended }) => ended === null);
    await eventually(`${what} wait`, () => answers.length === 103 && waiting().length < 50);
    const left = waiting();
    t.ok(left.length >= 3, `${left.length} ${what} wait`);
    const counts = left.map(({ response }) => response.listenerCount('finish'));
    t.same(new Set(counts), new Set([2]), `Node and Fastify await the end of the ${what}, and nothing else`);
    for (const socket of sockets) socket.destroy();
    await eventually(`the ${what} have ended`, () => waiting().length === 0);
    t.same(new Set(left.map(({ ended }) => ended?.[0])), new Set([null]), `nothing is written of the ${what}`);
  }
});

t.test('a stop of the hub does not wait for delayed refusals', async (t) => {
  const { hub, cpo } = await scene(t);
  const half = refusedRequest(cpo).length - 2;
  const late = atOnce(t, hub, refusedRequest(cpo).slice(0, half), 1);
  const { sockets, statuses } = refusedAtOnce(t, hub, cpo, 103);
  await eventually('a hundred are refused', () => statuses().length >= 100);
  // One that had not been read yet ends with an error.
  const ends = (socket: Socket) => new Promise((resolve) => socket.on('error', () => {}).once('close', resolve));
  const cut = sockets.map(ends);
  const cutLate = late.sockets.map(ends);
  const closing = hub.close();
  await Promise.all(cut);
  for (const socket of late.sockets) socket.write(refusedRequest(cpo).slice(half));
  await Promise.all(cutLate);
  await closing;
  t.equal(statuses().length, 100, 'it cuts them');
  t.same(late.statuses(), [], 'also one that comes whole while it stops');
});

t.test('a driver does not wait behind refusals of pushes', async (t) => {
  const { hub, cpo } = await scene(t);
  const { statuses } = refusedAtOnce(t, hub, cpo, 103);
  await eventually('a hundred are refused', () => statuses().length >= 100);
  t.match(await cpo.call('POST', '/2.2.1/tokens/CARD1/authorize'), { status: 429 });
});
