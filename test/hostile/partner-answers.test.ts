/**
 * Hostile answers of partners to everything that the hub asks: versions, module endpoints, lists, authorize, commands, deliveries.
 * Each is met as a failure of that partner, within its time; the hub serves everybody else as before.
 */
import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import type { RunningHub } from '../../src/main.ts';
import { endless, envelope, http, type Stranger, stranger } from '../partners/stranger.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { closeCircuit } from '../support/forward-failures.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { callsTo, statusOf } from '../support/observed.ts';
import { changesOf } from '../support/ocpi-call.ts';
import { admin, eventually, type PlainPartner } from '../support/plain-partner.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

type Behaviour = (socket: Socket) => void;

const say =
  (text: string | Buffer): Behaviour =>
  (socket) =>
    socket.write(text);
const sayAndGo =
  (text: string | Buffer): Behaviour =>
  (socket) =>
    socket.end(text);
const json = (body: string, headers: Record<string, string> = {}) => say(http(200, body, headers));

/** Writes a piece now and then, for as long as somebody listens. */
const dripping =
  (head: string, piece: string): Behaviour =>
  (socket) => {
    socket.write(head);
    const drops = setInterval(() => socket.write(piece), 100);
    socket.once('close', () => clearInterval(drops));
  };

const gzipped = (bytes: Buffer) =>
  Buffer.concat([
    Buffer.from(
      `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: ${bytes.length}\r\n\r\n`,
    ),
    bytes,
  ]);

const chunkedHead = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
const deep = (levels: number) => `{"status_code":1000,"data":${'['.repeat(levels)}${']'.repeat(levels)}}`;

/** Ended by nothing but the time limit of the call: tried once, where that is the shortest, each with a partner of its own, and without haste. */
const lasting: Readonly<Record<string, Behaviour>> = {
  'an endless chunk extension': dripping(`${chunkedHead}1;`, 'x'.repeat(65_536)),
  'endless interim answers': dripping('', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(100)),
};

/** None of them is an answer. */
const behaviours: Readonly<Record<string, Behaviour>> = {
  'endless chunks': endless(chunkedHead, `10000\r\n${'x'.repeat(65_536)}\r\n`),
  'an endless body': endless('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n', ' '.repeat(65_536)),
  'endless header fields': endless('HTTP/1.1 200 OK\r\n', `X-Flood: ${'v'.repeat(1000)}\r\n`),
  'an endless status line': endless('HTTP/1.1 200 ', 'O'.repeat(65_536)),
  'a length without an end': json('{}', { 'content-length': '99999999999999' }),
  'a length that is negative': json('{}', { 'content-length': '-1' }),
  'two lengths': say('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 300\r\n\r\n{}'),
  'length and chunks': say('HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'),
  'chunks of nonsense': say(`${chunkedHead}zz\r\n{}\r\n`),
  'a socket closed at once': (socket) => socket.destroy(),
  'a socket closed midway': sayAndGo('HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"status_code":1000,"data":'),
  'a reset midway': (socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{', () => socket.resetAndDestroy()),
  'half a status line': sayAndGo('HTTP/1.1 2'),
  'no HTTP': sayAndGo('SSH-2.0-OpenSSH_9.6\r\n'),
  noise: sayAndGo(Buffer.from(Array.from({ length: 3_000 }, (_, n) => (n * 131) % 256))),
  'NUL in a field': sayAndGo('HTTP/1.1 200 OK\r\nX-A: a\u0000b\r\nContent-Length: 2\r\n\r\n{}'),
  'an upgrade': sayAndGo('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello'),
  'a gzip bomb': say(gzipped(gzipSync(Buffer.alloc(50_000_000, ' ')))),
  'gzip of noise': say(gzipped(gzipSync(Buffer.from('\u0000<html>')))),
  'half of a gzip': say(gzipped(gzipSync(Buffer.from(envelope(1000, { data: [] }))).subarray(0, 30))),
  'another type': json('<html></html>', { 'content-type': 'text/html' }),
  'UTF-16': json(Buffer.from(envelope(1000), 'utf16le').toString('latin1')),
  'invalid UTF-8': say(
    Buffer.concat([Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n'), Buffer.from([0x22, 0xff, 0xc0, 0x22])]),
  ),
  'deep JSON': json(deep(100_000)),
  'JSON a little too deep': json(deep(70)),
  'a status_code that is none': json('{"status_code":1e999,"data":[]}'),
  'a status_code as a word': json('{"status_code":"done","data":[]}'),
  'names of the language': json(
    '{"__proto__":{"status_code":1000,"data":[]},"constructor":{"prototype":{"status_code":1000}}}',
  ),
  'lone surrogates': json('{"status_code":2000,"status_message":"\\ud800\\u0000\\r\\nX: y"}'),
  'an array': json('[]'),
  null: json('null'),
  nothing: say('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'),
  'a Retry-After of ages': say(http(503, '', { 'retry-after': '99999999999999999999' })),
};

const doors = ['versions', 'authorize and commands', 'lists', 'deliveries'] as const;

/** What a door is answered: at length everything, else each behaviour at one of the doors, by turns. */
function metAt(door: (typeof doors)[number]): Readonly<Record<string, Behaviour>> {
  const mine = Object.entries(behaviours).filter((_, n) => isAtLength || n % doors.length === doors.indexOf(door));
  return Object.fromEntries(mine);
}

interface Scene {
  readonly hub: RunningHub;
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  readonly liar: Stranger;
}

/** A routed pair, and a stranger who takes the place of a module of one of them. */
async function sceneFor(t: Test): Promise<Scene & { behave(behaviour: Behaviour): void }> {
  let behaviour: Behaviour = say('');
  const liar = await stranger((socket) => behaviour(socket));
  t.teardown(() => liar.close());
  const behave = (next: Behaviour) => {
    behaviour = next;
  };
  const hub = await hubFor(t, { HUB_DELIVERY_TIMEOUT_MS: '5000' });
  const pair = await routedPair(t, hub);
  await pair.cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  return { hub, ...pair, liar, behave };
}

const endpoints = (...all: readonly (readonly [identifier: string, role: string, url: string])[]) => ({
  endpoints: all.map(([identifier, role, url]) => ({ identifier, role, url })),
});

async function stillServes(t: Test, { cpo, emsp }: Scene, n: string): Promise<void> {
  const id = `OK${n}`;
  t.equal(
    statusOf(await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id))),
    '200/1000',
    'a valid push right after',
  );
  await eventually('it arrives', () => callsTo(emsp, 'sessions').some(({ path }) => path.endsWith(`/${id}`)));
}

t.test(
  'versions: after any hostile answer nothing is registered and nothing recorded [interface, Credentials 2]',
  atLength,
  async (t) => {
    const scene = await sceneFor(t);
    const { hub, liar, behave } = scene;
    /** Presents the versions of a liar in the name of a party that was added for it. */
    const newcomer = async (party_id: string) => {
      const roles = [{ role: 'CPO', country_code: 'NL', party_id }];
      const initial = String((await admin(hub, 'POST', '/parties', { roles })).initial_token);
      return async (name: string, { url }: Stranger) => {
        const body = { token: 'x', url: `${url}/versions`, roles };
        const headers = { Authorization: `Token ${btoa(initial)}` };
        const { status, json } = await scene.cpo.call('POST', '/2.2.1/credentials', body, headers);
        t.match([status, json.status_code], [200, /^300[123]$/], `${name}: ${json.status_message}`);
      };
    };
    const register = await newcomer('LIE');
    const slow: (() => Promise<void>)[] = [];
    for (const [n, [name, behaviour]] of Object.entries(lasting).entries()) {
      const one = await stranger(behaviour);
      t.teardown(() => one.close());
      const registerSlow = await newcomer(`LI${n}`);
      slow.push(() => registerSlow(name, one));
    }
    const before = await changesOf(hub);
    const underWay = slow.map((begin) => begin());
    for (const [name, behaviour] of Object.entries(metAt('versions'))) {
      behave(behaviour);
      await register(name, liar);
    }
    await Promise.all(underWay);
    t.equal(await changesOf(hub), before, 'nothing was recorded');
    await stillServes(t, scene, 'V');
  },
);

t.test('authorize and commands: any hostile answer is a failure of the error table [D25, D44]', async (t) => {
  const scene = await sceneFor(t);
  const { hub, cpo, emsp, liar, behave } = scene;
  await admin(hub, 'PUT', '/parties/NL-CPO/endpoints', endpoints(['commands', 'RECEIVER', `${liar.url}/commands`]));
  await admin(hub, 'PUT', '/parties/NL-EMS/endpoints', endpoints(['tokens', 'SENDER', `${liar.url}/tokens`]));
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
  const start = {
    response_url: `${emsp.url}/x`,
    token: { uid: 'C', type: 'RFID', contract_id: 'C' },
    location_id: 'LOC1',
  };
  for (const [name, behaviour] of Object.entries(metAt('authorize and commands'))) {
    behave(behaviour);
    const [authorize, command] = await Promise.all([
      cpo.call('POST', '/2.2.1/tokens/C/authorize', {}, to),
      emsp.call('POST', '/2.2.1/commands/START_SESSION', start),
    ]);
    t.match(statusOf(authorize), /^(502\/4003|504\/4002)$/, `authorize, ${name}: ${authorize.json.status_message}`);
    t.match(statusOf(command), /^502\/2000$/, `command, ${name}: ${command.json.status_message}`);
    for (const partner of ['NL-CPO', 'NL-EMS']) closeCircuit(hub, partner);
  }
  const { items } = (await admin(hub, 'GET', '/commands?limit=1000')) as { items: { state: string }[] };
  t.strictSame([...new Set(items.map(({ state }) => state))].sort(), ['rejected'], 'no command is kept pending');
  await stillServes(t, scene, 'A');
});

t.test('lists: any hostile answer ends the pull, and stores nothing [interface, Admin pulls]', async (t) => {
  const scene = await sceneFor(t);
  const { hub, cpo, liar, behave } = scene;
  await admin(hub, 'PUT', '/parties/NL-CPO/endpoints', endpoints(['locations', 'SENDER', `${liar.url}/locations`]));
  const items: Record<string, string> = {
    'an item of another party': envelope(1000, { data: [locationBody('X', { party_id: 'EMS' })] }),
    'items that are no objects': envelope(1000, { data: [null, 1, 'x', [], [[]], true, {}] }),
    'items with loaded names':
      '{"status_code":1000,"data":[{"__proto__":{"id":"X"},"constructor":1},{"id":"__proto__","country_code":"NL","party_id":"CPO"}]}',
    'an item that says twice whose it is': `{"status_code":1000,"data":[${JSON.stringify(locationBody('X')).replace('{', '{"party_id":"EMS",')}]}`,
    'ids that climb': envelope(1000, {
      data: ['..', '.', '\u0000', '\ud800', 'x'.repeat(99)].map((id) => locationBody(id)),
    }),
  };
  const all = {
    ...metAt('lists'),
    ...Object.fromEntries(Object.entries(items).map(([name, text]) => [name, json(text)])),
  };
  const before = await cpo.call('GET', '/2.2.1/locations/NL/CPO/LOC1');
  for (const [name, behaviour] of Object.entries(all)) {
    behave(behaviour);
    const { id } = await admin(hub, 'POST', '/parties/NL-CPO/pull/locations', { full: true });
    let pull: Record<string, unknown> = {};
    await eventually(`the pull of ${name} ends`, async () => {
      pull = await admin(hub, 'GET', `/pulls/${String(id)}`);
      return pull.state !== 'RUNNING';
    });
    t.match(
      pull,
      { state: name in items ? 'DONE' : 'FAILED', stored: 0 },
      `${name}: ${String(pull.error ?? pull.note)}`,
    );
  }
  const after = await cpo.call('GET', '/2.2.1/locations/NL/CPO/LOC1');
  t.strictSame(after.json.data, before.json.data, 'what was there is there');
  await stillServes(t, scene, 'L');
});

t.test('deliveries: after any hostile answer only that receiver waits', async (t) => {
  const scene = await sceneFor(t);
  const { hub, cpo, liar, behave } = scene;
  await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'LIE' });
  await admin(hub, 'PUT', '/routes/NL-LIE/NL-CPO', { active: true });
  await admin(
    hub,
    'PUT',
    '/parties/NL-LIE/endpoints',
    endpoints(['tariffs', 'RECEIVER', `${liar.url}/t`], ['locations', 'RECEIVER', `${liar.url}/l`]),
  );
  let n = 0;
  for (const [name, behaviour] of Object.entries(metAt('deliveries'))) {
    behave(behaviour);
    const id = `D${n++}`;
    await cpo.call('PUT', `/2.2.1/locations/NL/CPO/${id}`, locationBody(id));
    await eventually(`the delivery that met ${name} has an attempt`, async () => {
      closeCircuit(hub, 'NL-LIE', 'async');
      const { items } = (await admin(hub, 'GET', `/deliveries?receiver=NL-LIE&object=NL-CPO/${id}`)) as {
        items: { attempts: { class: string }[] }[];
      };
      const met = items.flatMap(({ attempts }) => attempts.map((attempt) => attempt.class));
      return met.length > 0 && !met.includes('delivered');
    });
    await eventually('the other receiver has it', () =>
      callsTo(scene.emsp, 'locations').some(({ path }) => path.endsWith(`/${id}`)),
    );
  }
  t.ok(n >= Math.floor(Object.keys(behaviours).length / doors.length), `${n} deliveries`);
  await stillServes(t, scene, 'D');
});
