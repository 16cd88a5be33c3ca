/**
 * Partners with one habit each that OCPI does not foresee: everything that the hub sends arrives, whatever they do, and
 * their report names the habit and counts its uses. [D55 to D59, D70]
 */
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import type { ReportView } from '../../src/api/report.ts';
import { type Quirk, quirks } from '../../src/domain/quirks.ts';
import { callsOfAllKinds, type Habit } from '../support/all-calls.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { hubFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, type Received, type Reply } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';

async function quirksOf(hub: TestHub, partner: string): Promise<string[]> {
  const report = (await admin(hub, 'GET', `/parties/${partner}/report`)) as unknown as ReportView;
  return report.quirks.map(({ module, quirk, count }) => `${module} ${quirk} ${count}`).sort();
}

const envelope = ({ body }: Reply, code: unknown = 1000) =>
  JSON.stringify({ data: body, status_code: code, timestamp: '2026-05-01T10:00:00Z' });
const isAwaited = ({ path }: Received) => /authorize|\/commands\//.test(path);
const isPush = ({ method, path }: Received) => method !== 'GET' && !isAwaited({ path } as Received);

/** Answers everything in another form. */
const everywhere = (form: (reply: Reply) => Reply): Habit => {
  return (usual) => (received) => form(usual(received));
};

/** Answers some calls in another form. */
const where = (holds: (received: Received) => boolean, form: (reply: Reply) => Reply): Habit => {
  return (usual) => (received) => (holds(received) ? form(usual(received)) : usual(received));
};

/** What every call of `callsOfAllKinds` is counted as, when all answers have the habit. */
const allOf = (quirk: Quirk) => ({
  cpo: [`commands ${quirk} 1`, `locations ${quirk} 1`, `versions ${quirk} 2`],
  emsp: [
    ...[`cdrs ${quirk} 1`, `commands ${quirk} 1`, `locations ${quirk} 1`, `sessions ${quirk} 2`, `tokens ${quirk} 1`],
    `versions ${quirk} 1`,
  ],
});

const gzip = everywhere((reply) => ({
  ...{ text: gzipSync(envelope(reply)), headers: { 'Content-Encoding': 'gzip' } },
}));

/** Redirects to the path with a slash at its end. */
const slashed: Habit = (usual) => (received) => {
  const [path = '', query] = received.path.split('?');
  if (path.endsWith('/')) return usual({ ...received, path: path.slice(0, -1) + (query ? `?${query}` : '') });
  return { status: 308, text: '', headers: { Location: `${path}/${query ? `?${query}` : ''}` } };
};

interface Row {
  readonly habit: string;
  readonly around: Habit;
  readonly settings?: object;
  readonly cpo: readonly string[];
  readonly emsp: readonly string[];
}

const rows: readonly Row[] = [
  { habit: 'none', around: (usual) => usual, cpo: [], emsp: [] },
  { habit: 'answers are compressed', around: gzip, ...allOf('gzip') },
  {
    ...{ habit: 'answers begin with a byte order mark', ...allOf('byte-order-mark') },
    around: everywhere((reply) => ({ text: `\uFEFF${envelope(reply)}` })),
  },
  {
    ...{ habit: 'status_code is a text', ...allOf('status-code-text') },
    around: everywhere((reply) => ({ text: envelope(reply, '1000') })),
  },
  {
    habit: 'a 100 Continue comes first',
    around: everywhere((reply) => ({ ...reply, isContinued: true })),
    ...allOf('unasked-continue'),
  },
  { habit: 'paths want a slash', around: slashed, ...allOf('slash-redirect') },
  {
    habit: 'one object comes in an array',
    around: where(isAwaited, (reply) => ({ body: [reply.body] })),
    cpo: ['commands array-of-one 1'],
    emsp: ['tokens array-of-one 1'],
  },
  {
    habit: 'the timeout of a command is a text',
    around: where(
      ({ path }) => path.includes('/commands/'),
      () => ({ body: { result: 'ACCEPTED', timeout: '45' } }),
    ),
    cpo: ['commands timeout-text 1'],
    emsp: [],
  },
  {
    habit: 'version details come in an array',
    around: where(
      ({ path }) => path === '/ocpi/2.2.1',
      (reply) => ({ body: [reply.body] }),
    ),
    cpo: ['versions array-of-one 1'],
    emsp: ['versions array-of-one 1'],
  },
  {
    habit: 'version details have no interface roles',
    around: (usual) => (received) => {
      const reply = usual(received);
      if (received.path !== '/ocpi/2.2.1') return reply;
      const { endpoints } = reply.body as { endpoints: { identifier: string; role: string; url: string }[] };
      const once = endpoints.filter(({ role }) => role === 'SENDER');
      return { body: { version: '2.2.1', endpoints: once.map(({ identifier, url }) => ({ identifier, url })) } };
    },
    cpo: ['versions no-endpoint-role 1'],
    emsp: ['versions no-endpoint-role 1'],
  },
  {
    habit: 'answers that a driver waits for have no envelope',
    around: where(isAwaited, (reply) => ({ text: JSON.stringify(reply.body) })),
    cpo: ['commands raw-answer 1'],
    emsp: ['tokens raw-answer 1'],
  },
  {
    habit: 'pushes are answered without a body',
    around: where(isPush, () => ({ status: 204, text: '' })),
    settings: { empty_2xx_ok: true },
    cpo: [],
    emsp: ['cdrs empty-2xx 1', 'commands empty-2xx 1', 'locations empty-2xx 1', 'sessions empty-2xx 2'],
  },
  {
    habit: 'pushes are answered with the words of the status alone',
    around: where(isPush, () => ({ status: 201, text: 'Created' })),
    settings: { empty_2xx_ok: true },
    cpo: [],
    emsp: ['cdrs empty-2xx 1', 'commands empty-2xx 1', 'locations empty-2xx 1', 'sessions empty-2xx 2'],
  },
  {
    habit: 'PATCH is refused',
    around: (usual) => (received) => (received.method === 'PATCH' ? { status: 405, text: '' } : usual(received)),
    cpo: [],
    emsp: ['sessions patch-refused 1'],
  },
];

for (const { habit, around, settings, cpo, emsp } of rows) {
  t.test(`every call succeeds, and the report says: ${habit} [D70]`, async (t) => {
    const { hub } = await callsOfAllKinds(t, around, settings);
    t.same(await quirksOf(hub, 'NL-CPO'), cpo, 'the CPO');
    t.same(await quirksOf(hub, 'NL-EMS'), emsp, 'the eMSP');
  });
}

t.test('docs/RUNBOOK.md lists every quirk', async (t) => {
  const listed = readFileSync('docs/RUNBOOK.md', 'utf8').matchAll(/^\| `([a-z0-9-]+)` \|/gm);
  const names = new Set([...listed].map(([, name]) => name));
  for (const name of Object.keys(quirks)) t.ok(names.has(name), name);
});

t.test('a result in an envelope is forwarded without it, and counted [D29] [D70]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, { cpo: () => ({ body: { result: 'ACCEPTED', timeout: 20 } }) });
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { status: 'ACTIVE' }));
  await hub.settled();
  const response_url = `${emsp.url}/results/1`;
  await emsp.push('POST', '/2.2.1/commands/STOP_SESSION', { response_url, session_id: 'S1' });
  const sent = cpo.received.find(({ path }) => path.includes('/commands/'))?.body ?? '{}';
  const callback = new URL((JSON.parse(sent) as { response_url: string }).response_url).pathname.replace('/ocpi', '');
  await cpo.push('POST', callback, {
    status_code: 1000,
    data: { result: 'ACCEPTED' },
    timestamp: '2026-05-01T10:00:00Z',
  });
  t.equal(emsp.received.at(-1)?.body, '{"result":"ACCEPTED"}');
  await cpo.push('POST', callback, { result: 'ACCEPTED' });
  t.same(await quirksOf(hub, 'NL-CPO'), ['commands enveloped-callback 1']);
  t.same(await itemsOf(hub, '/deliveries?state=DEAD'), []);
});

t.test('the hub in OCPI-to is counted where one party is needed, and not in a push for all [D68] [D70]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const to = {
    'OCPI-to-country-code': hub.created.hub.party.country_code,
    'OCPI-to-party-id': hub.created.hub.party.party_id,
  };
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'), to);
  t.same(await quirksOf(hub, 'NL-CPO'), []);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { status: 'ACTIVE' }), to);
  t.same(await quirksOf(hub, 'NL-CPO'), ['sessions to-hub 1']);
});
