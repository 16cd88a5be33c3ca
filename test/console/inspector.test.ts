/** The inspector of a whole hub: who may watch, what is shown of whom, and what never is. */
import { setup } from 'xstate';
import { loadConfig } from '../../src/config/config.ts';
import { type RunningHub, startHub } from '../../src/main.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { setCircuit } from '../support/forward-failures.ts';
import { hubFor, partnerFor, routedPair, secretKey } from '../support/hub-in-process.ts';
import { admin, eventually, type Received } from '../support/plain-partner.ts';
import { poison } from '../support/poison.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { browserProtocols, inspect, knock, path } from './inspected.ts';

const viewerToken = 'viewer/token=of+the/inspector';

/** With what looks like secrets. */
const words = 'poisoned with "S3CR3T-quoted" and S3CR3T-0123456789abcdefghij on purpose';

function problem(text: string): { status: number; title: string; detail: string } {
  return JSON.parse(text) as { status: number; title: string; detail: string };
}

t.test('a reader without a token is refused before the upgrade, in HTTP [contract, 4]', async (t) => {
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
  const protocols = (token: string) => ({ 'sec-websocket-protocol': browserProtocols(token).join(', ') });
  for (const headers of [
    {},
    { authorization: 'Bearer wrong' },
    { authorization: `Token ${hub.adminToken}` },
    { 'sec-websocket-protocol': 'ocpi-hub.inspector' },
    protocols('wrong'),
    protocols('%'),
    { 'sec-websocket-protocol': 'ocpi-hub.inspector, bearer.%E0%A4%A' },
  ]) {
    const answer = await knock(hub, headers);
    t.equal(answer.status, 401, JSON.stringify(headers));
    t.match(answer.headers, { 'content-type': /^application\/problem\+json/, 'www-authenticate': /^Bearer/ });
    t.match(problem(answer.text), { status: 401, title: 'Token required', instance: path });
  }
  for (const token of [hub.adminToken, viewerToken]) {
    t.equal((await knock(hub, { authorization: `Bearer ${token}` })).status, 101);
    const answer = await knock(hub, protocols(token));
    t.equal(answer.status, 101, 'by sub-protocol');
    t.equal(answer.protocol, 'ocpi-hub.inspector', 'the token is not sent back');
  }
  t.equal((await knock(hub, { 'sec-websocket-protocol': `bearer.${hub.adminToken}` })).protocol, '', 'nor alone');
});

t.test('a page of another origin is refused, whatever its token', async (t) => {
  const hub = await hubFor(t, { HUB_PUBLIC_URL: 'https://hub.example.com' });
  const authorization = `Bearer ${hub.adminToken}`;
  const statusOf = async (origin: string) => (await knock(hub, { authorization, origin })).status;
  t.equal(await statusOf(hub.url), 101, 'its own address');
  t.equal(await statusOf('https://hub.example.com'), 101, 'its public address');
  for (const origin of [
    'https://evil.example.com',
    'http://hub.example.com',
    'null',
    'file://',
    hub.url.replace(/\d+$/, '1'),
  ]) {
    t.equal(await statusOf(origin), 403, origin);
  }
});

t.test('only a GET of the inspector upgrades; any other upgrade header is ignored', async (t) => {
  const hub = await hubFor(t);
  const authorization = `Bearer ${hub.adminToken}`;
  t.equal((await knock(hub, { authorization }, { at: '/admin/v1/status' })).status, 404);
  t.equal(
    (await knock(hub, { authorization }, { at: '/ocpi/versions' })).status,
    401,
    'the door answers as to anybody',
  );
  t.equal((await knock(hub, { authorization }, { method: 'POST' })).status, 405);
  const plain = await callOnce('GET', `${hub.url}${path}`, undefined, { authorization });
  t.equal(plain.status, 426);
  t.equal(plain.headers.get('upgrade'), 'websocket');
  t.match(JSON.parse(plain.text), { status: 426, title: 'Upgrade required', instance: path });
  t.equal((await callOnce('GET', `${hub.url}${path}`)).status, 401, 'without a token not even that shows');
  t.equal((await callOnce('POST', `${hub.url}${path}`, undefined, { authorization })).status, 405);
  // Some HTTP clients offer HTTP/2 with each first request.
  const h2c = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAARAAAAA' };
  const healthy = await knock(hub, h2c, { at: '/healthz' });
  t.equal(healthy.status, 200);
  t.equal((await knock(hub, { ...h2c, authorization }, { at: path })).status, 426);
  const query = await knock(hub, { authorization }, { at: `${path}?colour=red` });
  t.equal(query.status, 422);
  t.match(problem(query.text).detail, /colour/);
});

t.test('a new reader gets every live actor with its definition and snapshot, and then each change', async (t) => {
  const hub = await hubFor(t, { HUB_CIRCUIT_OPEN_MS: '600000' });
  await routedPair(t, hub);
  const reader = await inspect(t, hub);
  const told = reader.messages.slice(0, -1);
  t.same(
    told.map(({ type, sessionId, name }) => `${type} ${sessionId} ${name}`),
    [
      '@xstate.actor partner:NL-CPO partner',
      '@xstate.actor courier:NL-CPO courier',
      '@xstate.actor partner:NL-EMS partner',
      '@xstate.actor courier:NL-EMS courier',
    ],
  );
  t.match(reader.messages.at(-1), { type: 'ocpi-hub.complete', actors: 4 });
  for (const { definition, name } of told) t.equal(JSON.parse(definition ?? '{}').id, name, 'each with its definition');
  const value = { connection: 'connected' };
  t.match(reader.actors.get('partner:NL-EMS'), { parties: ['NL-EMS'], snapshot: { status: 'active', value } });

  setCircuit(hub, 'NL-EMS', 'sessions', 'open');
  const id = 'circuit:NL-EMS/sessions';
  await eventually('the circuit is open', () => reader.actors.get(id)?.snapshot.value === 'open');
  const before = reader.messages.length;
  setCircuit(hub, 'NL-EMS', 'sessions', 'closed');
  await eventually('it is closed', () => reader.actors.get(id)?.snapshot.value === 'closed');
  const changes = reader.messages.slice(before);
  t.notOk(JSON.stringify(reader.messages).includes('sampledObjects'), 'no ids of objects');
  t.match(changes, [
    { type: '@xstate.event', event: { type: 'operator.closed' } },
    {
      type: '@xstate.snapshot',
      event: { type: 'operator.closed' },
      snapshot: { status: 'active', value: 'closed', context: { slots: 1 } },
      supervision: { state: 'active', restarts: 0, error: null },
    },
  ]);
  t.equal(changes.length, 2);
});

t.test('a partner that is added appears, and a command from its beginning to its end', async (t) => {
  const hub = await hubFor(t);
  const reader = await inspect(t, hub, '?definitions=once');
  t.equal(reader.actors.size, 0, 'nobody is there');
  let callback = '';
  const { cpo, emsp } = await routedPair(t, hub, {
    cpo: ({ path: asked, body }: Received) => {
      if (!asked.includes('/commands/')) return {};
      callback = new URL((JSON.parse(body) as { response_url: string }).response_url).pathname;
      return { body: { result: 'ACCEPTED', timeout: 30 } };
    },
  });
  await eventually('both show', () => reader.actors.size === 4);
  const defined = reader.messages.filter(({ definition }) => definition !== undefined);
  t.same(defined.map(({ name }) => name).sort(), ['courier', 'partner'], 'each definition once, as it was asked for');
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  const place = { location_id: 'LOC1', evse_uid: 'EVSE1', connector_id: '1' };
  const unlock = { response_url: `${emsp.url}/results/S3CR3T`, ...place };
  await emsp.call('POST', '/2.2.1/commands/UNLOCK_CONNECTOR', unlock);
  const commands = () => reader.messages.filter(({ sessionId }) => sessionId?.startsWith('command:'));
  await eventually('it waits', () => commands().some(({ snapshot }) => snapshot?.value === 'awaiting'));
  t.match(commands()[0], {
    type: '@xstate.actor',
    name: 'command',
    parties: ['NL-EMS', 'NL-CPO'],
    definition: /forwarding/,
  });
  await cpo.call('POST', callback.replace(/^\/ocpi/, ''), { result: 'S3CR3T-RESULT' });
  await eventually('it ends', () => commands().at(-1)?.supervision?.state === 'ended');
  t.match(commands().at(-1), {
    type: '@xstate.snapshot',
    snapshot: { status: 'stopped', value: 'relayed', context: { result: 'other' } },
  });
  const events = commands().filter(({ type }) => type === '@xstate.event');
  t.same(
    events.map(({ event }) => event?.type),
    ['command.answered', 'command.resultReceived', 'command.relayed'],
  );
  t.same(
    [...reader.actors.keys()].filter((id) => id.startsWith('command:')),
    [],
    'it is gone',
  );
  t.notMatch(JSON.stringify(reader.messages), /S3CR3T/, 'a result that OCPI does not know is not shown');
});

t.test('a reader filters in the address or by a message; all of its conditions must match', async (t) => {
  const hub = await hubFor(t);
  await routedPair(t, hub);
  const seen = (reader: { actors: Map<string, unknown> }) => [...reader.actors.keys()].sort();
  const byKind = await inspect(t, hub, '?kinds=partner');
  t.same(seen(byKind), ['partner:NL-CPO', 'partner:NL-EMS']);
  t.same(
    seen(await inspect(t, hub, '?parties=nl-cpo')),
    ['courier:NL-CPO', 'partner:NL-CPO'],
    'without regard to case',
  );
  t.same(seen(await inspect(t, hub, '?kinds=partner,courier&ids=courier:NL-EMS,command:1')), ['courier:NL-EMS']);
  t.same(seen(await inspect(t, hub, '?kinds=courier&parties=NL-EMS&ids=partner:NL-EMS')), []);

  const asked = byKind.messages.length;
  await byKind.subscribe({ kinds: ['courier', 'partner'], parties: ['NL-EMS'] });
  t.match(
    byKind.messages.slice(asked),
    [
      { type: '@xstate.actor', sessionId: 'courier:NL-EMS' },
      { type: 'ocpi-hub.complete', actors: 2 },
    ],
    'what matches now is sent in full, what is known already is not sent again',
  );
  const before = byKind.messages.length;
  setCircuit(hub, 'NL-EMS', 'async', 'open');
  for (const id of ['courier:NL-CPO', 'courier:NL-EMS']) hub.created.context.supervisor.send(id, { type: 'pause' });
  const told = () => byKind.messages.slice(before);
  await eventually('the courier pauses', () => told().some(({ sessionId }) => sessionId === 'courier:NL-EMS'));
  t.notOk(
    told().some(({ sessionId }) => sessionId.endsWith('CPO') || sessionId.startsWith('circuit:')),
    'what matches no longer is not told',
  );
  await byKind.subscribe({ kinds: null });
  t.match(byKind.messages.at(-1), { actors: 8 }, 'null narrows nothing');
  await byKind.subscribe({ kinds: [] });
  t.match(byKind.messages.at(-1), { actors: 0 }, 'an empty list matches nothing');
});

t.test('a partner with several parties is found by each of them', async (t) => {
  const hub = await hubFor(t);
  const role = (name: string, party_id: string) => ({ role: name, country_code: 'NL', party_id });
  await admin(hub, 'POST', '/parties', { roles: [role('CPO', 'AAA'), role('EMSP', 'BBB')] });
  const reader = await inspect(t, hub, '?parties=NL-BBB');
  t.match(reader.actors.get('partner:NL-AAA'), { parties: ['NL-AAA', 'NL-BBB'] });
  t.equal(reader.actors.size, 2);
});

t.test('a message of a reader that cannot be understood closes its connection with the reason', async (t) => {
  const hub = await hubFor(t);
  const cases = [
    { sends: 'no json', code: 1008, reason: /must be JSON/ },
    { sends: '[]', code: 1008, reason: /JSON object/ },
    { sends: '{"type":"publish"}', code: 1008, reason: /type must be "subscribe"/ },
    { sends: '{"type":"subscribe","colours":["red"]}', code: 1008, reason: /colours is not known/ },
    { sends: '{"type":"subscribe","kinds":"partner"}', code: 1008, reason: /kinds must be a list of strings/ },
    { sends: '{"type":"subscribe","ids":[1]}', code: 1008, reason: /ids must be a list of strings/ },
    { sends: '{"type":"subscribe","definitions":"never"}', code: 1008, reason: /each or once/ },
    { sends: Buffer.from('{"type":"subscribe"}'), code: 1003, reason: /text/ },
    { sends: JSON.stringify({ type: 'subscribe', ids: ['x'.repeat(4096)] }), code: 1009, reason: /^$/ },
  ];
  for (const { sends, code, reason } of cases) {
    const reader = await inspect(t, hub);
    reader.socket.send(sends);
    await eventually('it is closed', () => reader.ended() !== null);
    t.equal(reader.ended()?.code, code, String(sends).slice(0, 50));
    t.match(reader.ended()?.reason, reason);
  }
  const reader = await inspect(t, hub);
  for (let n = 0; n < 100; n++) reader.socket.send('{"type":"subscribe"}');
  await eventually('who asks too much is closed', () => reader.ended() !== null);
  t.match(reader.ended(), { code: 1008, reason: /20 messages at once/ });
  t.equal((await callOnce('GET', `${hub.url}/readyz`)).status, 200, 'the hub goes on');
});

t.test(
  'an actor that throws is shown as restarting, then as running again, and finally as quarantined',
  atLength,
  async (t) => {
    const hub = await hubFor(t);
    await routedPair(t, hub);
    const reader = await inspect(t, hub, '?ids=partner:NL-EMS');
    const { supervisor } = hub.created.context;
    const now = () => reader.actors.get('partner:NL-EMS');
    supervisor.send('partner:NL-EMS', poison(words));
    await eventually('it shows', () => now()?.supervision.state === 'restarting');
    t.match(now(), {
      snapshot: { status: 'error', error: /poisoned/ },
      supervision: { restarts: 1, error: /poisoned/ },
    });
    await eventually('it is back', () => now()?.supervision.state === 'active');
    t.match(now(), {
      snapshot: { status: 'active', value: { connection: 'connected' } },
      supervision: { restarts: 1 },
    });
    for (let round = 2; round <= 6; round++) {
      supervisor.send('partner:NL-EMS', poison(words));
      await eventually('it is up again or given up', () => supervisor.view('partner:NL-EMS')?.status !== 'restarting');
    }
    await eventually('it was given up', () => now()?.supervision.state === 'quarantined');
    t.match(now(), { snapshot: { status: 'error' }, supervision: { restarts: 5, error: /poisoned/ } });
    t.notMatch(JSON.stringify(reader.messages), /S3CR3T/, 'what an error quotes is not shown');
  },
);

t.test('secrets never leave the hub, neither of a context nor of an event or a partner', async (t) => {
  const hub = await hubFor(t);
  const partner = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const reader = await inspect(t, hub);
  const careless = setup({
    types: { context: {} as { responseUrl: string; due: number; rules: string } },
  }).createMachine({
    id: 'careless',
    context: { responseUrl: 'https://user:S3CR3T@example.com', due: 7, rules: 'S3CR3T' },
    on: { '*': {} },
  });
  const { supervisor } = hub.created.context;
  const spec = { input: undefined, parties: ['NL-CPO'], history: async () => [] };
  supervisor.start({ ...spec, id: 'command:1', kind: 'command', machine: careless });
  supervisor.start({ ...spec, id: 'other:1', kind: 'other', machine: careless });
  supervisor.send('command:1', { type: 'told', at: 1, data: { token: 'S3CR3T', body: 'S3CR3T', result: 'S3CR3T' } });
  await eventually('both show', () => reader.messages.some(({ event }) => event?.type === 'told'));
  await partner.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  t.same(reader.actors.get('command:1')?.snapshot.context, { due: 7 }, 'what stands on the list');
  t.same(reader.actors.get('other:1')?.snapshot.context, {}, 'nothing of a kind that is not on it');
  await inspectedTokens(t, hub, reader.messages);
});

async function inspectedTokens(t: Test, hub: RunningHub, messages: readonly object[]): Promise<void> {
  const text = JSON.stringify(messages);
  t.notMatch(text, /S3CR3T/);
  const [stored] = [...hub.created.context.directory.partners()];
  for (const secret of [hub.adminToken, stored?.partnerToken, stored?.hubTokenDigest]) {
    t.type(secret, 'string');
    t.notOk(text.includes(String(secret)));
  }
}

t.test('a reader that reconnects after a restart gets everything again, and the hub says goodbye before', async (t) => {
  const dataDir = directoryFor(t);
  const env = { HUB_PORT: '0', HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent', HUB_SECRET_KEY: secretKey };
  const first = await startHub(loadConfig({ env, flags: {} }));
  const { emsp } = await routedPair(t, first);
  const reader = await inspect(t, first);
  await first.close();
  await eventually('it hears', () => reader.ended() !== null);
  t.match(reader.ended(), { code: 1001, reason: 'the hub stops' });
  const second = await hubFor(t, {}, {}, dataDir);
  const again = await inspect(t, second);
  t.match(again.actors.get(`partner:${emsp.id}`), {
    type: '@xstate.actor',
    snapshot: { value: { connection: 'connected' } },
  });
  t.equal(again.actors.size, 4);
});

t.test('no reader is admitted while the hub starts, and at most 64 at a time', async (t) => {
  const hub = await hubFor(t);
  const readers = await Promise.all(Array.from({ length: 64 }, () => inspect(t, hub)));
  const full = await knock(hub, { authorization: `Bearer ${hub.adminToken}` });
  t.equal(full.status, 503);
  t.equal(full.headers['retry-after'], '1');
  t.match(problem(full.text).detail, /64 readers/);
  readers[0]?.socket.close();
  await eventually('one may come when one has gone', async () => {
    return (await knock(hub, { authorization: `Bearer ${hub.adminToken}` })).status === 101;
  });
});

t.test('nothing is watched while there is no reader, and everything is counted when there are', async (t) => {
  const hub = await hubFor(t);
  await routedPair(t, hub);
  const { operations } = hub.created.hub;
  const metric = async (name: string) => {
    const headers = { authorization: `Bearer ${hub.adminToken}` };
    const { text } = await callOnce('GET', `${hub.url}/metrics`, undefined, headers);
    return Number(new RegExp(`^ocpi_hub_inspector_${name} (\\d+)$`, 'm').exec(text)?.[1]);
  };
  t.equal(await metric('readers'), 0);
  const reader = await inspect(t, hub, '?ids=courier:NL-EMS');
  t.equal(await metric('readers'), 1);
  for (let n = 0; n < 10; n++) {
    for (const type of ['pause', 'resume']) hub.created.context.supervisor.send('courier:NL-EMS', { type });
  }
  await eventually('it is told of what it missed', () => reader.messages.at(-1)?.type === 'ocpi-hub.missed');
  t.match(reader.messages.at(-1), { count: 12, total: 12 }, 'of twenty events the newest eight were shown');
  t.equal(reader.messages.filter(({ type }) => type === '@xstate.event').length, 8);
  t.equal(await metric('missed_total'), 12);
  t.equal(await metric('messages_total'), reader.messages.length);
  reader.socket.close();
  await eventually('it is gone', async () => (await metric('readers')) === 0);
  let watched = 0;
  const event = {
    get type() {
      watched++;
      return 'delivered';
    },
  };
  hub.created.context.supervisor.send('courier:NL-EMS', event);
  const unwatched = watched;
  const stop = operations.watch({ changed: () => {}, ended: () => {} });
  hub.created.context.supervisor.send('courier:NL-EMS', event);
  stop();
  t.ok(watched - unwatched > unwatched, 'an event is looked at for watchers only when there are some');
});
