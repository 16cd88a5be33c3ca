/**
 * Discarding dead letters, by the admin API as an operator does it: one, or all that a filter finds; what it means for counts, lists and
 * re-drives; and that it lasts.
 */
import { sessionBody, tariffBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair, secretKey } from '../support/hub-in-process.ts';
import { ended, itemsOf, quiet } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';
import { HeldWrites } from './held-writes.ts';
import { at, deliveriesOf, Holding, type HubAddress, kwhOf, putSession } from './watched.ts';

/** Status of an admin call that may be refused. */
const statusOf = async (hub: HubAddress, path: string, body: object = {}) =>
  (await callOnce('POST', `${hub.url}/admin/v1${path}`, body, { Authorization: `Bearer ${hub.adminToken}` })).status;

const queueOf = async (hub: HubAddress) => (await admin(hub, 'GET', '/parties/NL-EMS')).queue;

t.test(
  'a discarded dead letter keeps its attempts, is in no count, and no re-drive takes it unless asked to',
  async (t) => {
    const hub = await hubFor(t);
    let status = 404;
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status }) });
    await putSession(cpo, 'S1', {}, { 'X-Correlation-ID': 'story-1' });
    await putSession(cpo, 'S2');
    await quiet(hub);
    const [, dead] = await deliveriesOf(hub, '?state=DEAD');
    t.equal(await statusOf(hub, `/deliveries/${dead?.id}/discard?reason=a+test+site`), 200);
    t.match(await admin(hub, 'GET', `/deliveries/${dead?.id}`), {
      ...{ state: 'DISCARDED', class: 'not_found', reason: dead?.reason ?? '', attempts: [{ class: 'not_found' }] },
    });
    t.strictSame(await queueOf(hub), { depth: 0, oldest_age_s: null, dead: 1 });
    t.match(await itemsOf(hub, '/dead-letters'), [{ count: 1 }]);
    t.match(await deliveriesOf(hub, '?state=DISCARDED'), [{ id: dead?.id }]);
    t.equal((await deliveriesOf(hub, '?state=DEAD')).length, 1);
    for (const [filter, matched] of [
      [{}, 1],
      [{ state: 'ANY' }, 1],
      [{ state: 'DISCARDED' }, 1],
      [{ state: 'DISCARDED', object: 'NL-CPO/S2' }, 0],
    ] as const)
      t.match(await admin(hub, 'POST', '/redrive', { filter, dry_run: true }), { matched }, JSON.stringify(filter));
    t.equal(await statusOf(hub, `/deliveries/${dead?.id}/discard`), 409, 'it is not a dead letter any more');
    t.match(await itemsOf(hub, '/events?type=delivery.discarded'), [
      { about: `delivery:${dead?.id}`, by: 'operator', who: 'admin', object: 'NL-CPO/S1', correlation_id: 'story-1' },
    ]);
    t.match((await admin(hub, 'GET', '/trace/story-1')).steps, [
      { type: 'object.put' },
      { type: 'delivery.dead' },
      { type: 'delivery.discarded', summary: /was discarded/ },
    ]);
    t.match(await itemsOf(hub, '/audit?verb=discard'), [
      { status: 409 },
      { reason: 'a test site', status: 200, about: `/deliveries/${dead?.id}/discard` },
    ]);
    status = 200;
    t.equal(await statusOf(hub, `/deliveries/${dead?.id}/redrive`), 202, 'who asks for it by name gets it sent');
    await quiet(hub);
    t.match(await admin(hub, 'GET', `/deliveries/${dead?.id}`), { state: 'DELIVERED', attempts: { length: 2 } });
    t.strictSame(await queueOf(hub), { depth: 0, oldest_age_s: null, dead: 1 });
    t.equal(emsp.received.length, 3);
  },
);

t.test('only a dead letter is discarded', async (t) => {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '3600' });
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  await putSession(cpo, 'S1');
  await hub.settled(emsp);
  const [delivery] = await deliveriesOf(hub);
  t.equal(await statusOf(hub, `/deliveries/${delivery?.id}/discard`), 409, 'in flight');
  holding.releaseAll();
  await quiet(hub);
  t.equal(await statusOf(hub, `/deliveries/${delivery?.id}/discard`), 409, 'delivered');
  for (const id of ['999999-NL-EMS', '1-NL-EMS', 'nonsense'])
    t.equal(await statusOf(hub, `/deliveries/${id}/discard`), 404, id);
});

t.test(
  'when one operator discards and another one re-drives the same dead letter, one of them is refused',
  async (t) => {
    const hub = await hubFor(t);
    let status = 404;
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status }) });
    for (let n = 1; n <= 8; n++) await putSession(cpo, `S${n}`);
    await quiet(hub);
    status = 200;
    const dead = await deliveriesOf(hub);
    const both = await Promise.all(
      dead.map(({ id }) => Promise.all(['discard', 'redrive'].map((act) => statusOf(hub, `/deliveries/${id}/${act}`)))),
    );
    await quiet(hub);
    for (const [index, { id }] of dead.entries()) {
      const { state } = await admin(hub, 'GET', `/deliveries/${id}`);
      const [discarded, redriven] = both[index] ?? [];
      t.equal(redriven, 202);
      t.equal(state, 'DELIVERED', 'a re-drive by name takes a discarded one, too');
      t.ok(discarded === 200 || discarded === 409, `discard: ${discarded}`);
    }
    t.strictSame(await queueOf(hub), { depth: 0, oldest_age_s: null, dead: 0 });
    t.equal(emsp.received.length, 16, 'each was sent once more');
  },
);

t.test('a filter discards by receiver, module, class and time, after a count', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:00:00Z');
  const hub = await hubFor(t, {}, { clock });
  const { cpo } = await routedPair(t, hub, {
    emsp: ({ path }) => ({ status: path.includes('/tariffs/') ? 404 : 400 }),
  });
  for (const id of ['T1', 'T2']) await cpo.push('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariffBody(id));
  clock.advance(60_000);
  for (const id of ['S1', 'S2', 'S3']) await putSession(cpo, id);
  await quiet(hub);
  const plan = (filter: object) => admin(hub, 'POST', '/discard', { filter, dry_run: true });
  for (const [filter, matched] of [
    [{}, 5],
    [{ receiver: 'NL-CPO' }, 0],
    [{ sender: 'NL-CPO' }, 5],
    [{ sender: 'NL-EMS' }, 0],
    [{ module: 'sessions' }, 3],
    [{ class: 'not_found' }, 2],
    [{ class: 'not_found', module: 'sessions' }, 0],
    [{ to: '2026-01-02T03:01:00Z' }, 2],
  ] as const)
    t.match(await plan(filter), { matched }, JSON.stringify(filter));
  t.match(await plan({ class: 'not_found' }), { by_receiver: { 'NL-EMS': 2 }, sample: { length: 2 } });
  t.equal((await deliveriesOf(hub, '?state=DEAD')).length, 5, 'a dry run changes nothing');
  t.equal(
    (await deliveriesOf(hub, '?state=DEAD&class=client_error')).length,
    3,
    'lists have the class as a filter, too',
  );
  for (const filter of [{ class: 'nonsense' }, { state: 'DELIVERED' }, { nonsense: 1 }])
    t.equal(await statusOf(hub, '/discard', { filter }), 422, JSON.stringify(filter));
  const { id } = await admin(hub, 'POST', '/discard', { filter: { class: 'not_found' } });
  for (let left = 10; left > 0; left--) {
    await hub.settled();
    clock.advance(1);
  }
  t.match(await ended(hub, `/redrives/${id}`), { kind: 'discard', state: 'DONE', matched: 2, queued: 2 });
  t.match(await itemsOf(hub, '/dead-letters'), [{ module: 'sessions', class: 'client_error', count: 3 }]);
  t.match(await queueOf(hub), { dead: 3 });
});

t.test('a discarded delivery makes no earlier dead letter stale', async (t) => {
  const hub = await hubFor(t);
  let status = 400;
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status }) });
  for (const kwh of [1, 2]) await putSession(cpo, 'S1', { kwh, last_updated: at(kwh) });
  await quiet(hub);
  const [later, earlier] = await deliveriesOf(hub);
  t.equal(await statusOf(hub, `/deliveries/${later?.id}/discard`), 200);
  status = 200;
  t.equal(await statusOf(hub, `/deliveries/${earlier?.id}/redrive`), 202);
  await quiet(hub);
  t.equal(kwhOf(emsp.received.at(-1) ?? { body: '{}' }), 1);
});

t.test('a discard is answered once its row is on the disk', async (t) => {
  const held = new HeldWrites();
  const hub = await hubFor(t, {}, { wrap: held.wrap });
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  await putSession(cpo, 'S1');
  await quiet(hub);
  const [dead] = await deliveriesOf(hub);
  const isHeld = held.hold('DISCARDED');
  let answered: number | null = null;
  const answer = statusOf(hub, `/deliveries/${dead?.id}/discard`).then((status) => {
    answered = status;
  });
  await isHeld;
  // Each act is written into the audit log before its answer, so these take longer than an answer that waits for nothing.
  for (let n = 0; n < 3; n++) await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  t.equal(answered, null, 'while the write is held');
  held.release('DISCARDED');
  await answer;
  t.equal(answered, 200);
});

t.test('an acknowledged discard survives a kill', atLength, async (t) => {
  const dataDir = directoryFor(t);
  const first = await startChildHub({ dataDir, port: 0, env: { HUB_SECRET_KEY: secretKey } });
  t.teardown(() => first.kill());
  const { cpo } = await routedPair(t, first, { emsp: () => ({ status: 404 }) });
  for (let n = 1; n <= 5; n++) await putSession(cpo, `S${n}`);
  await quiet(first);
  const dead = await deliveriesOf(first);
  const gone = dead.slice(0, 3);
  await Promise.all(gone.map(({ id }) => admin(first, 'POST', `/deliveries/${id}/discard`)));
  await first.kill();
  const hub = await hubFor(t, {}, {}, dataDir);
  t.match(
    await deliveriesOf(hub, '?state=DISCARDED'),
    gone.map(({ id }) => ({ id })),
  );
  t.match(await queueOf(hub), { depth: 0, dead: 2 });
});

t.test('the log is trimmed past discarded dead letters, which do not count as lost', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:30:00Z');
  const hub = await hubFor(t, { HUB_EVENTS_KEEP_DAYS: '1' }, { clock });
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  for (const id of ['S1', 'S2']) await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
  await quiet(hub);
  const [one] = await deliveriesOf(hub);
  t.equal(await statusOf(hub, `/deliveries/${one?.id}/discard`), 200);
  for (let hours = 0; hours < 27; hours++) {
    clock.advance(3_600_000);
    await hub.settled();
  }
  t.match(await itemsOf(hub, '/events?type=log.trimmed'), [{ data: { dead: { 'NL-EMS': 1 } } }]);
  t.strictSame(await queueOf(hub), { depth: 0, oldest_age_s: null, dead: 0 });
});
