/**
 * The trace: the whole story of a session, also from its id alone, and what an id may mean. [D78]
 */
import { readFileSync } from 'node:fs';
import type { TraceView } from '../../src/api/trace.ts';
import { deliveriesOf } from '../delivery/watched.ts';
import { append, event } from '../storage/support.ts';
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { ended, quiet } from '../support/observed.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin, type PlainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { runCommand } from '../support/resident-command.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const clock = new SimulatedClock('2026-03-01T10:00:00Z');
let hub: TestHub;
let cpo: PlainPartner;
let emsp: PlainPartner;

const traceOf = async (key: string, query = '') =>
  (await admin(hub, 'GET', `/trace/${encodeURIComponent(key)}${query}`)) as unknown as TraceView;
const typesOf = ({ steps }: TraceView) => steps.map(({ type }) => type);

const answered = ({ path }: Received): Reply =>
  path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 25 } } : { body: { allowed: 'ALLOWED' } };
const card = { uid: 'CARD1', type: 'RFID', contract_id: 'NL-EMS-C1' };
const wholeCard = { country_code: 'NL', party_id: 'EMS', ...card };

async function command(name: string, fields: object): Promise<string> {
  cpo.received.length = 0;
  const body = { response_url: `${emsp.url}/result`, ...fields };
  await ocpi(hub, 'POST', `/2.2.1/commands/${name}`, { token: emsp.hubToken, body });
  const { response_url: url } = JSON.parse(cpo.received[0]?.body ?? '') as { response_url: string };
  const id = url.slice(url.lastIndexOf('/') + 1);
  await cpo.call('POST', `/2.2.1/commands/callback/${id}`, { result: 'ACCEPTED' });
  return id;
}

const session = (id: string, fields: object = {}) =>
  cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, { authorization_reference: `REF-${id}`, ...fields }));

let startId: string;

t.before(async () => {
  hub = await hubFor(t, { HUB_ORPHAN_GRACE_S: '60', HUB_ORPHAN_SWEEP_S: '60' }, { clock });
  ({ cpo, emsp } = await routedPair(t, hub, { cpo: answered, emsp: answered }));
  for (const type of ['RFID', 'APP_USER'])
    await emsp.push('PUT', `/2.2.1/tokens/NL/EMS/CARD1?type=${type}`, tokenBody('CARD1', { type }));
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  for (const id of ['S1', 'S2']) {
    const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
    await cpo.push('POST', '/2.2.1/tokens/CARD1/authorize', {}, to);
    const started = await command('START_SESSION', {
      ...{ token: wholeCard, location_id: 'LOC1', evse_uid: 'EVSE1', authorization_reference: `REF-${id}` },
    });
    if (id === 'S1') startId = started;
    await session(id);
    await command('STOP_SESSION', { session_id: id });
  }
  await session('S1', { status: 'COMPLETED' });
  await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C1', { session_id: 'S1', authorization_reference: 'REF-S1' }));
  // Authorizations are written together, a moment later.
  clock.advance(1_000);
  await hub.settled();
});

const wholeStory = [
  ...['token.authorized', 'command.requested', 'command.answered', 'command.resultReceived', 'command.relayed'],
  ...['object.put', 'command.requested', 'command.answered', 'command.resultReceived', 'command.relayed'],
];

t.test('a trace of a session has its authorization, commands, watches and CDR, oldest first [D78]', async (t) => {
  const story = await traceOf('NL-CPO/S1');
  t.match(story, { asked: 'NL-CPO/S1', key: 'NL-CPO/S1', kind: 'object', candidates: [], next_cursor: null });
  const types = typesOf(story);
  for (const type of [...wholeStory, 'orphan.armed', 'orphan.disarmed']) t.ok(types.includes(type), type);
  t.strictSame(
    story.steps.map(({ seq }) => seq),
    story.steps.map(({ seq }) => seq).sort((a, b) => a - b),
  );
  const commands = story.steps.filter(({ type }) => type === 'command.requested');
  t.same(
    commands.map(({ summary }) => summary),
    ['NL-EMS asked for START_SESSION at NL-CPO', 'NL-EMS asked for STOP_SESSION at NL-CPO'],
    'and none of the other session',
  );
  const bill = story.steps.filter(({ module }) => module === 'cdrs');
  t.match(bill, [{ object: 'NL-CPO/C1', deliveries: [{ receiver: 'NL-EMS', state: 'DELIVERED' }] }]);
});

t.test('a use of the same token at another time belongs to another trace', async (t) => {
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
  clock.advance(700_000);
  await cpo.push('POST', '/2.2.1/tokens/CARD1/authorize', {}, to);
  clock.advance(1_000);
  await hub.settled();
  const uses = async (key: string) => typesOf(await traceOf(key)).filter((type) => type === 'token.authorized').length;
  t.equal(await uses('NL-CPO/S1'), 2, 'two within the minutes before it');
  t.equal(await uses('NL-EMS/CARD1'), 3);
});

t.test('a trace of a CDR has its session, and a trace of a token its authorizations [D78]', async (t) => {
  const bill = await traceOf('NL-CPO/C1');
  t.match(
    bill.steps.filter(({ object }) => object === 'NL-CPO/S1').map(({ module }) => module),
    ['sessions', 'sessions'],
  );
  const token = await traceOf('NL-EMS/CARD1');
  t.equal(typesOf(token).filter((type) => type === 'object.put').length, 2, 'both types of token');
  t.equal(typesOf(token).filter((type) => type === 'token.authorized').length, 3);
});

t.test('an id alone finds a session, CDR, location, EVSE, token, contract or command [D78]', async (t) => {
  const meant: readonly (readonly [string, string])[] = [
    ['s1', 'NL-CPO/S1'],
    ['C1', 'NL-CPO/C1'],
    ['loc1', 'NL-CPO/LOC1'],
    ['EVSE1', 'NL-CPO/LOC1'],
    ['NL*CPO*E1', 'NL-CPO/LOC1'],
    ['CARD1', 'NL-EMS/CARD1'],
    ['nl-ems-c1', 'NL-EMS/CARD1'],
  ];
  for (const [asked, key] of meant) t.match(await traceOf(asked), { asked, key, kind: 'object' }, asked);
  t.same(typesOf(await traceOf(startId)), wholeStory.slice(1, 5));
  await t.rejects(traceOf('nothing-has-this-id'), /404/);
});

t.test(
  'the authorizations of a card that no eMSP pushed are found by its uid, alone or with its eMSP [D78]',
  async (t) => {
    const to = (partyId: string) => ({ 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': partyId });
    for (const party of ['EMS', 'NIL']) await cpo.push('POST', '/2.2.1/tokens/04A1B2C3/authorize', {}, to(party));
    await cpo.push('POST', '/2.2.1/tokens/04FFFFFF/authorize', {}, to('EMS'));
    clock.advance(1_000);
    await hub.settled();
    const summaries = async (key: string) => (await traceOf(key)).steps.map(({ summary }) => summary);
    const asked = 'NL-CPO asked NL-EMS to authorize a token: ALLOWED, answered';
    t.same(await summaries('04a1b2c3'), [
      asked,
      'NL-CPO asked nobody to authorize a token: NOT_ALLOWED, no routing rule',
    ]);
    t.same(await summaries('nl-ems/04A1B2C3'), [asked]);
  },
);

t.test('several objects with one id are listed for a choice [D78]', async (t) => {
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/DOUBLE', sessionBody('DOUBLE', { cdr_token: wholeCard }));
  await emsp.push('PUT', '/2.2.1/tokens/NL/EMS/DOUBLE?type=RFID', tokenBody('DOUBLE'));
  t.match(await traceOf('double'), {
    ...{ kind: 'candidates', steps: [] },
    candidates: [
      { module: 'sessions', key: 'NL-CPO/DOUBLE' },
      { module: 'tokens', key: 'NL-EMS/DOUBLE' },
    ],
  });
});

t.test('an orphan case is in the trace of its session, and is found by its own id [D78]', async (t) => {
  for (const _ of ['its grace', 'the next sweep']) {
    clock.advance(60_000);
    await hub.settled();
  }
  const { items } = (await admin(hub, 'GET', '/orphans')) as { items: { id: string; session: string }[] };
  const found = items.find(({ session: of }) => of === 'NL-CPO/S2');
  t.ok(found, 'S2 did not end after its STOP_SESSION');
  const story = await traceOf('NL-CPO/S2');
  t.match(story.steps.find(({ type }) => type === 'orphan.opened')?.about, `orphan:${found?.id}`);
  t.same(typesOf(await traceOf(found?.id ?? '')).slice(0, 2), ['orphan.armed', 'orphan.opened']);
});

t.test('a long log is searched in parts: the cursor continues where the previous answer ended', async (t) => {
  const { store } = hub.created.context;
  await session('LONG', { cdr_token: { ...wholeCard, uid: 'CARD2' } });
  const at = new Date(clock.now()).toISOString();
  const noise = event({
    stream: 'backup:b',
    type: 'backup.ended',
    data: { id: 'b', directory: 'd', state: 'DONE' },
    at,
  });
  for (let n = 0; n < 20_000; n += 1_000) await append(store, { events: Array(1_000).fill(noise) });
  const asked = { command: 'STOP_SESSION', emsp: 'NL-EMS', cpo: 'NL-CPO', sessionId: 'LONG', result: 'ACCEPTED' };
  await append(store, { events: [event({ stream: 'command:late', type: 'command.relayed', data: asked, at })] });
  const first = await traceOf('NL-CPO/LONG');
  t.same(typesOf(first), ['object.put']);
  t.match(first.next_cursor, /^\d+$/);
  const second = await traceOf('NL-CPO/LONG', `?cursor=${first.next_cursor}`);
  t.same(typesOf(second), ['command.relayed'], 'its own steps are not repeated');
  t.equal(second.next_cursor, null);
  await t.rejects(traceOf('NL-CPO/LONG', '?cursor=x'), /422/);
});

t.test(
  'the trace of a busy object shows its newest events, and says that there are older ones',
  atLength,
  async (t) => {
    const { store } = hub.created.context;
    await cpo.push('PUT', '/2.2.1/locations/NL/CPO/BUSY', locationBody('BUSY'));
    await hub.settled();
    t.equal((await traceOf('NL-CPO/BUSY')).has_older, false);
    const [{ seq: first = 0, data } = {}] = await store.history('locations/NL-CPO/busy');
    const change = event({ stream: 'locations/NL-CPO/busy', correlationId: 'busy', data });
    for (let n = 0; n < 10_001; n += 1_429) await append(store, { events: Array(1_429).fill(change) });
    const head = store.head();
    for (const key of ['NL-CPO/BUSY', 'busy']) {
      const { steps, has_older } = await traceOf(key);
      t.equal(has_older, true, key);
      t.strictSame([steps.length, steps[0]?.seq, steps.at(-1)?.seq], [10_000, head - 9_999, head], key);
    }
    t.ok(first < head - 9_999);
    const { out } = await runCommand(['trace', 'NL-CPO/BUSY'], { HUB_URL: hub.url, HUB_ADMIN_TOKEN: hub.adminToken });
    t.match(out, /^NL-CPO\/BUSY: the newest 10000 steps, oldest first/);
  },
);

t.test('the trace of an object with many receivers is bounded by a number of deliveries', async (t) => {
  const { store } = hub.created.context;
  const stream = 'locations/NL-CPO/wide';
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/WIDE', locationBody('WIDE'));
  await hub.settled();
  const [{ data } = {}] = await store.history(stream);
  const to = Array.from({ length: 50 }, (_, n) => `NL-E${String(n).padStart(2, '0')}`);
  await append(store, { events: Array(201).fill(event({ stream, data, to })) });
  const { delivery } = store;
  t.teardown(() => Object.assign(store, { delivery }));
  let [inFlight, most] = [0, 0];
  const counted: typeof delivery = async (...of) => {
    inFlight++;
    most = Math.max(most, inFlight);
    return delivery(...of).finally(() => inFlight--);
  };
  Object.assign(store, { delivery: counted });
  const head = store.head();
  const { steps, has_older } = await traceOf('NL-CPO/WIDE');
  t.strictSame([steps.length, steps.flatMap(({ deliveries }) => deliveries).length, has_older], [200, 10_000, true]);
  t.equal(steps.at(-1)?.seq, head);
  t.equal(most, 64, 'that many are looked up at the same time');

  Object.assign(store, { delivery: async () => null });
  await append(store, { events: [event({ stream, data, to: Array(10_001).fill('NL-E00') })] });
  t.equal((await traceOf('NL-CPO/WIDE')).steps.length, 1, 'the newest event is always shown');
});

t.test('every reason why a change is owed to nobody has a sentence in the trace', async (t) => {
  const domain = ['src/domain/ownership.ts', 'src/domain/routing.ts']
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n');
  const given = domain.match(/nobody\(.*/g)?.flatMap((line) => line.match(/'[^']+'/g) ?? []) ?? [];
  t.ok(given.includes("'pull only'") && given.includes("'no routing rule'"));
  const sentences = readFileSync('src/hub/views/trace.ts', 'utf8').replaceAll('  unpublished:', "  'unpublished':");
  for (const reason of given) t.match(sentences, `\n  ${reason}: '`, reason);
});

t.test(
  'the trace of an object has all dead letters, re-drives and discards of it and its parts, however late',
  async (t) => {
    const time = new SimulatedClock('2026-03-01T10:00:00Z');
    const own = await hubFor(t, {}, { clock: time });
    let reply: Reply = { status: 404 };
    const pair = await routedPair(t, own, { emsp: () => reply });
    await pair.cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
    await pair.cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
    await pair.cpo.push('POST', '/2.2.1/cdrs', cdrBody('C1', { session_id: 'S1' }));
    await quiet(own);
    time.advance(5 * 86_400_000);
    reply = {};
    const [bill, charge, place] = await deliveriesOf(own, '?state=DEAD');
    for (const id of [bill?.id, charge?.id]) await admin(own, 'POST', `/deliveries/${id}/redrive`);
    await admin(own, 'POST', `/deliveries/${place?.id}/discard`);
    await quiet(own);
    const ends = async (key: string) => {
      const { steps } = (await admin(own, 'GET', `/trace/${encodeURIComponent(key)}`)) as unknown as TraceView;
      return steps.filter(({ type }) => type.startsWith('delivery.')).map(({ summary }) => summary);
    };
    const dead = (id = '') => `the delivery ${id} is dead: not_found, The partner answered HTTP 404, OCPI 1000`;
    const back = (id = '') => `the delivery ${id} was put back into its lane`;
    t.strictSame(await ends('NL-CPO/L1'), [dead(place?.id), `the dead letter ${place?.id} was discarded`]);
    t.strictSame(await ends('NL-CPO/S1'), [dead(charge?.id), dead(bill?.id), back(bill?.id), back(charge?.id)]);
  },
);

t.test('a pulled object is not shown as sent by its owner', async (t) => {
  const own = await hubFor(t);
  const stay = tariffBody('STAY');
  let lists: Record<string, object[]> = { locations: [locationBody('L1')], tariffs: [tariffBody('T1'), stay] };
  const lister = await partnerFor(t, own, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO' },
    modules: Object.keys(lists).map((module) => [module, 'SENDER']),
    answer: ({ path }) => {
      const body = lists[path.replace(/^.*\/(\w+).*$/, '$1')] ?? [];
      return { body, headers: { 'X-Total-Count': `${body.length}` } };
    },
  });
  const pulled = async (module: string) => {
    const { id } = await admin(own, 'POST', `/parties/${lister.id}/pull/${module}`, { full: true });
    t.match(await ended(own, `/pulls/${id}`), { state: 'DONE' });
  };
  for (const module of Object.keys(lists)) await pulled(module);
  lists = { tariffs: [stay] };
  await pulled('tariffs');
  const summaries = async (key: string) => {
    const { steps } = (await admin(own, 'GET', `/trace/${encodeURIComponent(key)}`)) as unknown as TraceView;
    return steps.map(({ summary }) => summary);
  };
  t.strictSame(await summaries('NL-CPO/L1'), ['the hub pulled locations L1 from NL-CPO: stored, no receiver']);
  t.strictSame(await summaries('NL-CPO/T1'), [
    'the hub pulled tariffs T1 from NL-CPO: stored, no receiver',
    'the list of NL-CPO, which the hub pulled, lacks tariffs T1: deleted, no receiver',
  ]);
});
