/** What operators see of dead letters, and what they may do to a circuit. */
import { cdrBody, locationBody, sessionBody, tariffBody } from '../support/bodies.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { arrivals, quiet } from '../support/observed.ts';
import { admin, eventually, type Received } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';
import { HeldWrites } from './held-writes.ts';
import { Holding } from './watched.ts';

interface Group {
  readonly receiver: string;
  readonly module: string;
  readonly class: string;
  readonly count: number;
  readonly sample: string;
}

t.test('dead letters are counted by receiver, module and class, and show how they ended', async (t) => {
  const hub = await hubFor(t);
  const status = ({ path }: Received) => ({ status: path.includes('/sessions/') ? 404 : 401 });
  const { cpo, emsp } = await routedPair(t, hub, { emsp: status });
  for (const id of ['S1', 'S2', 'S3']) await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  const groups = async () => (await admin(hub, 'GET', '/dead-letters')).items as Group[];
  await hub.settled(emsp);
  t.equal(
    (await groups()).reduce((sum, { count }) => sum + count, 0),
    4,
    'all four are dead',
  );
  t.match(await groups(), [
    { receiver: 'NL-EMS', module: 'sessions', class: 'not_found', count: 3 },
    { receiver: 'NL-EMS', module: 'locations', class: 'auth_error', count: 1 },
  ]);
  for (const { sample, class: met } of await groups()) {
    t.match(await admin(hub, 'GET', `/deliveries/${sample}`), {
      state: 'DEAD',
      class: met,
      attempts: [{ class: met }],
    });
  }
});

t.test('[DEAD-COUNTS-2] the groups of dead letters are counted without reading a row', async (t) => {
  let reads = 0;
  const wrap = wrapStore((store) => ({
    deliveries: (query) => {
      reads += 1;
      return store.deliveries(query);
    },
  }));
  const clock = new SimulatedClock('2026-01-10T08:00:00.000Z');
  const hub = await hubFor(t, {}, { clock, wrap });
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  for (const id of ['S1', 'S2', 'S3']) {
    await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
    await hub.settled(emsp);
    clock.advance(1000);
  }
  const dead = (await admin(hub, 'GET', '/deliveries?state=DEAD&order=oldest')).items as Record<string, string>[];
  t.equal(dead.length, 3);
  reads = 0;
  const { items } = await admin(hub, 'GET', '/dead-letters');
  t.equal(reads, 0);
  const [first, , last] = dead;
  const instants = { oldest_at: first?.accepted_at, newest_at: last?.accepted_at };
  const group = { receiver: 'NL-EMS', module: 'sessions', class: 'not_found', count: 3 };
  t.strictSame(items, [{ ...group, sample: first?.id, ...instants, triage: null }]);
});

t.test('a re-drive to a receiver that is not registered is refused, and a job skips it', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  const dead = async () => (await admin(hub, 'GET', '/deliveries?state=DEAD')).items as { id: string }[];
  await hub.settled(emsp);
  t.equal((await dead()).length, 1, 'it is dead');
  const [letter] = await dead();
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  await t.rejects(admin(hub, 'POST', `/deliveries/${letter?.id}/redrive`), { message: /409 .*not registered/ });
  const { id } = await admin(hub, 'POST', '/redrive', { filter: { receiver: 'NL-EMS' } });
  await hub.settled(emsp);
  t.equal((await admin(hub, 'GET', `/redrives/${id}`)).state, 'DONE', 'the job is done');
  t.match(await admin(hub, 'GET', `/redrives/${id}`), { matched: 1, queued: 0, skipped_unregistered: 1 });
  t.equal((await dead()).length, 1, 'it is dead still, as it was');
});

t.test('an operator opens a circuit and closes it again: nothing is sent in between', async (t) => {
  const hub = await hubFor(t, { HUB_CIRCUIT_OPEN_MS: '60000' });
  const { cpo, emsp } = await routedPair(t, hub);
  const set = (state: string) => admin(hub, 'POST', '/parties/NL-EMS/circuits/async', { state });
  t.match(await set('open'), {
    circuits: [
      { circuit: 'sync', state: 'closed' },
      { circuit: 'async', state: 'open' },
    ],
  });
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  t.match(await admin(hub, 'GET', '/deliveries'), { items: [{ state: 'PENDING', attempts: { length: 0 } }] });
  t.equal(emsp.received.length, 0);
  t.match(await set('closed'), { circuits: [{}, { circuit: 'async', state: 'closed', failures: 0 }] });
  await hub.settled(emsp);
  t.equal(emsp.received.length, 1, 'it arrived');
});

t.test('a delivery whose routing rule has ended is not sent, except the end of an object [ATTEMPTS-4]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  const pause = (paused: boolean) => admin(hub, 'PATCH', '/parties/NL-EMS', { paused });
  const route = (active: boolean) => admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active });
  const came = async () =>
    (await arrivals(hub, emsp, () => pause(false))).map(({ method, path }) => `${method} ${path.split('/').at(-1)}`);
  const push = (method: string, path: string, body?: object) => cpo.push(method, `/2.2.1/${path}`, body);
  await push('PUT', 'tariffs/NL/CPO/T1', tariffBody('T1'));
  await hub.settled(emsp);
  await pause(true);
  await push('PUT', 'sessions/NL/CPO/S1', sessionBody('S1'));
  await push('PUT', 'locations/NL/CPO/L1', locationBody('L1'));
  await push('POST', 'cdrs', cdrBody('C1'));
  await push('DELETE', 'tariffs/NL/CPO/T1');
  await route(false);
  t.same(await came(), ['DELETE T1']);
  const dead = (await admin(hub, 'GET', '/deliveries?state=DEAD')).items as { module: string }[];
  t.match(new Set(dead.map(({ module }) => module)), new Set(['sessions', 'locations', 'cdrs']));
  for (const letter of dead)
    t.match(letter, { class: 'not_found', reason: 'no routing rule', attempts: { length: 0 } });
  await pause(true);
  await route(true);
  await admin(hub, 'POST', '/redrive', { filter: { receiver: 'NL-EMS' } });
  t.same((await came()).sort(), ['POST cdrs', 'PUT L1', 'PUT S1'], 'a re-drive sends it when there is a rule again');
});

t.test('a delivery is sent when its routing rule has returned before its turn [ATTEMPTS-4]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await admin(hub, 'DELETE', '/routes/NL-EMS/NL-CPO');
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  const came = await arrivals(hub, emsp, () => admin(hub, 'PATCH', '/parties/NL-EMS', { paused: false }));
  t.match(came, [{ method: 'PUT' }]);
});

t.test('a dead letter that is re-driven while its event is trimmed, and dies again, is not counted', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:30:00Z');
  const held = new HeldWrites();
  const hub = await hubFor(t, { HUB_EVENTS_KEEP_DAYS: '1' }, { clock, wrap: held.wrap });
  const holding = new Holding();
  holding.open = { status: 404 };
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await quiet(hub);
  const [letter] = (await admin(hub, 'GET', '/deliveries?state=DEAD')).items as { id: string; seq: number }[];
  holding.open = null;
  const { store } = hub.created.context;
  const isBehind = async () => (await store.floors()).every(({ seq }) => seq >= Number(letter?.seq));
  // The floors move up to the dead letter before it is old enough.
  clock.advance(22 * 3_600_000);
  await quiet(hub);
  clock.advance(3_600_000);
  await eventually('the floors have passed it', isBehind);
  let isTrimming = false;
  void held.hold('trim').then(() => {
    isTrimming = true;
  });
  // A sweep arms the next one when it has ended.
  await eventually('a sweep trims', () => {
    if (!isTrimming) clock.advance(600_000);
    return isTrimming;
  });
  await admin(hub, 'POST', `/deliveries/${letter?.id}/redrive`);
  await emsp.gotCalls(2);
  held.release('trim');
  await eventually('its event is gone', () => store.horizon() >= Number(letter?.seq), 30_000);
  t.match(await admin(hub, 'GET', '/parties/NL-EMS'), { queue: { depth: 1, dead: 0 } });
  holding.releaseAll({ status: 404 });
  await quiet(hub);
  t.match(await admin(hub, 'GET', '/parties/NL-EMS'), { queue: { depth: 0, dead: 0 } });
});
