/**
 * Modules of one partner beside each other: one that is broken, throttled or hangs holds no other. Time is a simulated clock; sockets and
 * disk are real. [D79, D90]
 */
import { locationBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { itemsOf, quiet } from '../support/observed.ts';
import { admin, type PlainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { atLength, partOf } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';
import { Holding, type HubAddress, idOf, kwhOf, putSession, watchedMemory } from './watched.ts';

const start = '2026-01-02T03:00:00Z';
const isOf = (module: string) => (received: Received) => received.path.includes(`/${module}/`);
const [isLocation, isSession] = [isOf('locations'), isOf('sessions')];

const putLocation = (cpo: PlainPartner, id: string) =>
  cpo.push('PUT', `/2.2.1/locations/NL/CPO/${id}`, locationBody(id));

/** Circuits that are not closed. */
async function openCircuits(hub: HubAddress): Promise<string[]> {
  const { circuits } = await partyOf(hub);
  return circuits.filter(({ state }) => state !== 'closed').map(({ circuit, state }) => `${circuit} ${state}`);
}

type Party = {
  circuits: { circuit: string; state: string }[];
};

const partyOf = async (hub: HubAddress) => (await admin(hub, 'GET', '/parties/NL-EMS')) as Party;

const memory = watchedMemory(t);

const isOwed = async (hub: HubAddress) => (await itemsOf(hub, '/deliveries?state=PENDING')).length > 0;

/** Answers each call of a module with this, and any other with success. */
const only = (isIt: (received: Received) => boolean, reply: () => Reply) => (received: Received) =>
  isIt(received) ? reply() : {};

t.test('locations that answer 500 open the circuit of locations alone, also after a restart', async (t) => {
  const dir = directoryFor(t);
  const clock = new SimulatedClock(start);
  const env = { HUB_RETRY_JITTER: '0', HUB_CIRCUIT_OPEN_MS: '60000' };
  const hub = await hubFor(t, env, { clock }, dir);
  const { cpo, emsp } = await routedPair(t, hub, { emsp: only(isLocation, () => ({ status: 500 })) });
  for (let n = 0; n < 20; n++) await putLocation(cpo, `L${n}`);
  await hub.settled(emsp);
  t.same(await openCircuits(hub), ['async open', 'locations open']);
  const asked = emsp.received.length;
  for (let n = 0; n < 20; n++) await putSession(cpo, `S${n}`);
  await hub.settled(emsp);
  t.equal(emsp.received.filter(isSession).length, 20);
  t.equal(emsp.received.filter(isLocation).length, asked, 'no location is tried');
  t.match(await itemsOf(hub, '/events?type=circuit'), [{ data: { circuit: 'async', module: 'locations' } }]);
  await hub.close();

  const next = await hubFor(t, env, { clock }, dir);
  cpo.moveTo(next);
  await putSession(cpo, 'S20');
  await next.settled(emsp);
  t.same(await openCircuits(next), ['async open', 'locations open'], 'its one trial has failed');
  t.equal(emsp.received.filter(isSession).length, 21);
});

t.test('the circuit of an earlier version becomes that of each module', async (t) => {
  const dir = directoryFor(t);
  const hub = await hubFor(t, {}, {}, dir);
  await routedPair(t, hub);
  const { recorder } = hub.created.context;
  const data = { circuit: 'async', reason: '5 failures in a row', by: 'hub' } as const;
  await recorder.record({
    facts: [{ stream: 'partner:NL-EMS', event: { type: 'circuit.opened', data }, party: null }],
    trace: null,
    at: recorder.instant(),
  });
  await hub.close();
  const next = await hubFor(t, {}, {}, dir);
  const modules = ['locations', 'tariffs', 'sessions', 'cdrs'];
  t.same(
    await openCircuits(next),
    ['async', ...modules].map((name) => `${name} halfOpen`),
  );
});

t.test('one object that fails again and again backs off by itself, and opens no circuit [D79] [D90]', async (t) => {
  const clock = new SimulatedClock(start);
  const env = { HUB_RETRY_JITTER: '0', HUB_RETRY_SCHEDULE_S: '10' };
  const hub = await hubFor(t, env, { clock });
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: only(
      (call) => idOf(call) === 'A',
      () => ({ status: 500 }),
    ),
  });
  await putLocation(cpo, 'A');
  for (let n = 0; n < 20; n++) {
    await hub.settled(emsp);
    clock.advance(10_000);
  }
  await hub.settled(emsp);
  t.equal(emsp.received.length, 21);
  t.same(await openCircuits(hub), []);
  await putLocation(cpo, 'B');
  await hub.settled(emsp);
  t.equal(emsp.received.filter((call) => idOf(call) === 'B').length, 1, 'another one arrives');
});

t.test('a half-open circuit gives its trial to the lane whose turn it is', async (t) => {
  const clock = new SimulatedClock(start);
  const env = {
    HUB_RETRY_JITTER: '0',
    HUB_RETRY_SCHEDULE_S: '1',
    HUB_CIRCUIT_OPEN_MS: '5000',
    HUB_CIRCUIT_FAILURES: '3',
  };
  const hub = await hubFor(t, env, { clock });
  const broken = new Set(['A', 'B', 'C']);
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: only(
      (call) => broken.has(idOf(call)),
      () => ({ status: 500 }),
    ),
  });
  for (const id of ['A', 'B', 'C']) await putLocation(cpo, id);
  await hub.settled(emsp);
  t.same(await openCircuits(hub), ['async open', 'locations open']);
  for (const id of ['B', 'C']) broken.delete(id);
  for (let n = 0; n < 4; n++) {
    clock.advance(10_000);
    await hub.settled(emsp);
  }
  const arrived = emsp.received.map(idOf).filter((id) => id !== 'A');
  t.same(arrived.sort(), ['B', 'B', 'C', 'C'], 'both that are mended arrive beside one that stays broken');
  t.same(await openCircuits(hub), [], 'and close the circuit');
});

for (const { all, most } of [
  { all: 8, most: 6 },
  { all: 2, most: 1 },
])
  t.test(`a module whose calls hang gets ${most} of ${all} slots, the others the rest [LANES-5]`, async (t) => {
    const env = { HUB_DELIVERY_TIMEOUT_MS: '600000', HUB_DELIVERY_CONCURRENCY: String(all) };
    const hub = await hubFor(t, env, { headMs: 600_000 });
    const holding = new Holding();
    const { cpo, emsp } = await routedPair(t, hub, { emsp: (call) => (isLocation(call) ? holding.answer(call) : {}) });
    await putSession(cpo, 'S0');
    await hub.settled(emsp);
    for (let n = 0; n < 20; n++) await putLocation(cpo, `L${n}`);
    await hub.settled(emsp);
    t.equal(holding.held.length, most);
    for (let n = 1; n < 20; n++) await putSession(cpo, `S${n}`);
    await hub.settled(emsp);
    t.equal(emsp.received.filter(isSession).length, 20, 'all sessions arrive while locations hang');
    holding.releaseAll();
    await hub.settled(emsp);
    t.equal(emsp.received.filter(isLocation).length, 20);
  });

/** Locations of which memory holds a part, for a receiver that takes none, and sessions beside them. */
const windowMax = partOf(1_000);
const backlog = 2 * windowMax;

for (const [name, reply] of [
  ['answer 500', { status: 500 }],
  ['are throttled', { status: 429, headers: { 'retry-after': '600' } }],
] as const) {
  const tier = name === 'answer 500' ? {} : atLength;
  t.test(`sessions arrive beside a backlog of locations that ${name}, over a restart [WINDOW-2]`, tier, async (t) => {
    const dir = directoryFor(t);
    const clock = new SimulatedClock(start);
    const env = { HUB_RETRY_JITTER: '0', HUB_CIRCUIT_OPEN_MS: '60000', HUB_RATE_OTHER_PER_MIN: '1000000' };
    let hub = await hubFor(t, env, { clock, windowMax }, dir);
    let isBroken = true;
    const answer = (received: Received) => (isBroken && isLocation(received) ? reply : {});
    const { cpo, emsp } = await routedPair(t, hub, { emsp: answer });
    for (let n = 0; n < backlog; n++) await putLocation(cpo, `L${n}`);
    await hub.settled(emsp);
    const windowed = memory.size();
    t.ok(windowed > 0 && windowed < backlog / 2, `${windowed} of ${backlog} in memory`);
    for (let n = 0; n < 50; n++) await putSession(cpo, `S${n}`);
    await hub.settled(emsp);
    t.equal(emsp.received.filter(isSession).length, 50);
    await hub.close();

    hub = await hubFor(t, env, { clock, windowMax }, dir);
    cpo.moveTo(hub);
    for (let n = 50; n < 100; n++) await putSession(cpo, `S${n}`);
    await hub.settled(emsp);
    t.same(
      new Set(emsp.received.filter(isSession).map(idOf)).size,
      100,
      'also after a restart, past the backlog in the log',
    );
    t.equal(emsp.received.filter(isSession).length, 100, 'each once');

    isBroken = false;
    const before = emsp.received.length;
    for (let n = 0; n < 40 && (await isOwed(hub)); n++) {
      clock.advance(600_000);
      await hub.settled(emsp);
    }
    const arrived = emsp.received.slice(before).filter(isLocation).map(idOf);
    t.equal(arrived.length, backlog, 'then all locations arrive, once');
    t.equal(new Set(arrived).size, backlog);
  });
}

t.test('updates of one object beyond its lane stay in the log, and delay no other object [WINDOW-3]', async (t) => {
  const dir = directoryFor(t);
  const clock = new SimulatedClock(start);
  const env = { HUB_RETRY_JITTER: '0', HUB_RETRY_SCHEDULE_S: '60' };
  let hub = await hubFor(t, env, { clock, windowMax: 100 }, dir);
  let isBroken = true;
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: (received) => (isBroken && idOf(received) === 'A' ? { status: 500 } : {}),
  });
  for (let kwh = 1; kwh <= 40; kwh++) await putSession(cpo, 'A', { kwh });
  await hub.settled(emsp);
  t.equal(memory.size(), 8);
  for (let n = 0; n < 50; n++) await putSession(cpo, `B${n}`);
  await hub.settled(emsp);
  t.equal(emsp.received.filter((call) => idOf(call) !== 'A').length, 50);
  await hub.close();

  hub = await hubFor(t, env, { clock, windowMax: 100 }, dir);
  cpo.moveTo(hub);
  for (let kwh = 41; kwh <= 50; kwh++) await putSession(cpo, 'A', { kwh });
  isBroken = false;
  const before = emsp.received.length;
  clock.advance(60_000);
  await quiet(hub);
  t.same(
    emsp.received.slice(before).map(kwhOf),
    Array.from({ length: 50 }, (_, index) => index + 1),
    'then all arrive, in order and once',
  );
});

t.test('circuits that open together do not retry together, and none later than it would alone', async (t) => {
  let drawn = 0;
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, { HUB_RETRY_JITTER: '0.2' }, { clock, random: () => drawn });
  await routedPair(t, hub);
  const untilOf = async (id: string) => {
    await admin(hub, 'POST', `/parties/${id}/circuits/sync`, { state: 'open' });
    return ((await admin(hub, 'GET', `/parties/${id}`)) as { circuits: { until: string | null }[] }).circuits[0]?.until;
  };
  t.equal(await untilOf('NL-CPO'), '2026-01-02T03:00:05.000Z');
  drawn = 1;
  t.equal(await untilOf('NL-EMS'), '2026-01-02T03:00:04.500Z');
});
