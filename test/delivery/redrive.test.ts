/**
 * Putting deliveries back, by the admin API as an operator does it: one, by a filter, a range of the log, a module anew; what is skipped
 * and why; and what a trace tells. [interface, Delivery rules 6; D39, D53]
 */
import { join } from 'node:path';
import type { EventQuery, StoredEvent } from '../../storage/contract.ts';
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { closed, hubFor, partnerFor, routedPair, secretKey } from '../support/hub-in-process.ts';
import { callsTo, ended as endedAt, itemsOf, quiet } from '../support/observed.ts';
import { operatorsFile, tokenOf } from '../support/operators.ts';
import { admin, endAdmin, eventually, type PlainPartner, plainPartner, type Reply } from '../support/plain-partner.ts';
import { runCommand } from '../support/resident-command.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';
import { at, deliveriesOf, Holding, type HubAddress, idOf, kwhOf, putSession } from './watched.ts';

interface Job {
  readonly id: string;
  readonly state: string;
  readonly matched: number;
  readonly queued: number;
  readonly skipped_stale: number;
  readonly skipped_pending: number;
}

/** Status and body of an admin call that may be refused. */
const asked = (hub: HubAddress, path: string, body: object = {}) =>
  callOnce('POST', `${hub.url}/admin/v1${path}`, body, { Authorization: `Bearer ${hub.adminToken}` });

const redrive = async (hub: HubAddress, request: object) =>
  (await admin(hub, 'POST', '/redrive', request)) as unknown as Job;

const ended = async (hub: HubAddress, { id }: Pick<Job, 'id'>) =>
  (await endedAt(hub, `/redrives/${id}`)) as unknown as Job;

t.test(
  'a re-driven delivery keeps its id and correlation id, has a new request id, and uses the partner’s present URL',
  async (t) => {
    const hub = await hubFor(t);
    let reply: Reply = { status: 404 };
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => reply });
    await putSession(cpo, 'S1', {}, { 'X-Correlation-ID': 'story-1' });
    await quiet(hub);
    const [dead] = await deliveriesOf(hub);
    reply = {};
    const endpoints = [{ identifier: 'sessions', role: 'RECEIVER', url: `${emsp.url}/moved` }];
    await admin(hub, 'PUT', '/parties/NL-EMS/endpoints', { endpoints });
    const { status } = await asked(hub, `/deliveries/${dead?.id}/redrive`);
    t.equal(status, 202);
    await quiet(hub);
    const [first, second] = emsp.received;
    t.equal(second?.path, '/moved/NL/CPO/S1');
    t.same(
      [first, second].map((call) => call?.headers['x-correlation-id']),
      ['story-1', 'story-1'],
    );
    t.not(first?.headers['x-request-id'], second?.headers['x-request-id']);
    t.equal(second?.body, first?.body, 'the same bytes');
    t.match(await deliveriesOf(hub), [
      { id: dead?.id, state: 'DELIVERED', reason: null, attempts: [{ class: 'not_found' }, { class: 'delivered' }] },
    ]);
    const { steps } = (await admin(hub, 'GET', '/trace/story-1')) as { steps: { type: string }[] };
    t.same(
      steps.map(({ type }) => type),
      ['object.put', 'delivery.dead', 'delivery.redriven'],
    );
  },
);

t.test(
  'a delivery that ended with a suspension is sent again once its partner registers again, also after a restart',
  async (t) => {
    const dir = directoryFor(t);
    const clock = new SimulatedClock(at(0));
    const env = { HUB_RETRY_SCHEDULE_S: '60', HUB_RETRY_JITTER: '0' };
    const first = await hubFor(t, env, { clock }, dir);
    let isIll = true;
    const { cpo, emsp } = await routedPair(t, first, { emsp: () => (isIll ? { status: 500 } : {}) });
    for (const id of ['S1', 'S2']) await putSession(cpo, id);
    await first.settled();
    await emsp.call('DELETE', '/2.2.1/credentials');
    await quiet(first);
    const dead = await deliveriesOf(first);
    t.match(dead, [
      { state: 'DEAD', reason: 'suspended' },
      { state: 'DEAD', reason: 'suspended' },
    ]);
    const { initial_token } = await admin(first, 'POST', '/parties/NL-EMS/initial-token');
    await emsp.registerAgain(String(initial_token));
    t.equal((await asked(first, `/deliveries/${dead[0]?.id}/redrive`)).status, 202);
    await first.settled();
    const states = async (hub: HubAddress) => (await deliveriesOf(hub)).map(({ state }) => state);
    t.strictSame(await states(first), ['PENDING', 'DEAD'], 'it fails, and is tried again');
    await closed(first, clock);
    isIll = false;
    const second = await hubFor(t, env, { clock }, dir);
    clock.advance(60_000);
    await quiet(second);
    t.strictSame(await states(second), ['DELIVERED', 'DEAD']);
  },
);

t.test('its retry window restarts', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:00:00Z');
  const env = { HUB_RETRY_JITTER: '0', HUB_RETRY_SCHEDULE_S: '7200', HUB_RETRY_WINDOW_H: '1' };
  const hub = await hubFor(t, env, { clock });
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status: 500 }) });
  await putSession(cpo, 'S1');
  const state = async () => (await deliveriesOf(hub))[0];
  await hub.settled(emsp);
  t.equal((await state())?.state, 'DEAD', 'it is dead');
  clock.advance(5 * 3_600_000);
  await admin(hub, 'POST', `/deliveries/${(await state())?.id}/redrive`);
  await hub.settled();
  t.match(await state(), { state: 'DEAD', attempts: { length: 2 } }, 'it was tried again, and is dead again');
});

t.test('a delivery in progress is left alone; an unknown id is not found', async (t) => {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '3600' });
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  await putSession(cpo, 'S1', { kwh: 1 });
  await putSession(cpo, 'S1', { kwh: 2 });
  await hub.settled(emsp);
  t.equal(holding.held.length, 1, 'the first is in flight');
  const found = await deliveriesOf(hub);
  for (const { id } of found) t.equal((await asked(hub, `/deliveries/${id}/redrive`)).status, 409);
  holding.releaseOne({ status: 500 });
  await hub.settled(emsp);
  t.ok((await deliveriesOf(hub))[1]?.due_at !== null, 'the first waits for another attempt');
  for (const { id } of found) t.equal((await asked(hub, `/deliveries/${id}/redrive`, { force: true })).status, 409);
  for (const id of ['999999-NL-EMS', '1-NL-EMS', 'nonsense']) {
    t.equal((await asked(hub, `/deliveries/${id}/redrive`)).status, 404, id);
  }
});

t.test('two operators who re-drive the same delivery at the same time send it once', async (t) => {
  const hub = await hubFor(t);
  const holding = new Holding();
  holding.open = { status: 404 };
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  await putSession(cpo, 'S1');
  await quiet(hub);
  const [dead] = await deliveriesOf(hub);
  holding.open = null;
  const statuses = await Promise.all([1, 2, 3, 4].map(() => asked(hub, `/deliveries/${dead?.id}/redrive`)));
  t.same(statuses.map(({ status }) => status).sort(), [202, 409, 409, 409]);
  holding.releaseAll();
  await quiet(hub);
  t.equal(emsp.received.length, 2);
  t.match(await admin(hub, 'GET', '/parties/NL-EMS'), { queue: { depth: 0, dead: 0 } });
});

t.test('a later version with the same last_updated is not overwritten: its clock counts seconds [D53]', async (t) => {
  const hub = await hubFor(t);
  let isIll = true;
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: (received) => (kwhOf(received) === 1 && isIll ? { status: 400 } : {}),
  });
  for (const kwh of [1, 2]) await putSession(cpo, 'S1', { kwh, last_updated: at(1) });
  await quiet(hub);
  isIll = false;
  const [dead] = await deliveriesOf(hub, '?state=DEAD');
  t.equal((await asked(hub, `/deliveries/${dead?.id}/redrive`)).status, 409);
  t.match(await redrive(hub, { filter: {}, dry_run: true }), { matched: 1, stale: 1 });
  await quiet(hub);
  t.same(emsp.received.map(kwhOf), [1, 2]);
});

t.test('a newer version that has arrived since is not overwritten, unless forced [D53]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: (received) => ([1, 2].includes(kwhOf(received)) && isIll ? { status: 400 } : {}),
  });
  let isIll = true;
  await putSession(cpo, 'S1', { kwh: 1, last_updated: at(1) });
  await putSession(cpo, 'S1', { kwh: 3, last_updated: at(3) });
  await putSession(cpo, 'S2', { kwh: 2, last_updated: at(2) });
  await quiet(hub);
  isIll = false;
  const [, stale] = await deliveriesOf(hub, '?state=DEAD');
  const refused = await asked(hub, `/deliveries/${stale?.id}/redrive`);
  t.match(refused, { status: 409, text: /only an operator may force it/ });
  const plan = await admin(hub, 'POST', '/redrive', { filter: { receiver: 'nl-ems' }, dry_run: true });
  t.match(plan, {
    matched: 2,
    stale: 1,
    by_receiver: { 'NL-EMS': 2 },
    sample: [{ object: 'NL-CPO/S1' }, { object: 'NL-CPO/S2' }],
  });
  t.equal((await deliveriesOf(hub, '?state=DEAD')).length, 2, 'a dry run changes nothing');
  const job = await ended(hub, await redrive(hub, { filter: {}, rate_per_s: 1000 }));
  t.match(job, { state: 'DONE', matched: 2, queued: 1, skipped_stale: 1, skipped_pending: 0 });
  await quiet(hub);
  t.same(emsp.received.map(kwhOf).slice(-1), [2]);
  const forced = await ended(
    hub,
    await redrive(hub, { filter: { object: 'NL-CPO/s1' }, force: true, rate_per_s: 1000 }),
  );
  t.match(forced, { matched: 1, queued: 1 });
  await quiet(hub);
  t.equal(emsp.received.map(kwhOf).at(-1), 1);
  t.same(await deliveriesOf(hub, '?state=DEAD'), []);
});

t.test('skipped deliveries do not count against the rate of a re-drive [JOBS-1]', async (t) => {
  const hub = await hubFor(t, {}, { clock: new SimulatedClock(at(0)) });
  const { cpo } = await routedPair(t, hub, { emsp: (received) => (kwhOf(received) === 1 ? { status: 400 } : {}) });
  for (const id of ['S1', 'S2', 'S3'])
    for (const kwh of [1, 2]) await putSession(cpo, id, { kwh, last_updated: at(kwh) });
  await quiet(hub);
  const { id } = await redrive(hub, { filter: {}, rate_per_s: 0.1 });
  await eventually(
    'it ends while no time passes',
    async () => {
      const { state } = await admin(hub, 'GET', `/redrives/${id}`);
      return state === 'DONE';
    },
    10_000,
  );
  t.match(await admin(hub, 'GET', `/redrives/${id}`), { matched: 3, queued: 0, skipped_stale: 3 });
});

t.test('an object that its receiver may no longer have is not sent again, unless forced [D21]', async (t) => {
  const hub = await hubFor(t);
  let status = 401;
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status }) });
  await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EM2' });
  await admin(hub, 'PUT', '/routes/NL-EM2/NL-CPO', { active: true });
  const location = (publish: boolean, minute: number) => locationBody('L1', { publish, last_updated: at(minute) });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', location(true, 1));
  await putSession(cpo, 'S1', { last_updated: at(1) });
  await quiet(hub);
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', location(false, 2));
  const cdr_token = { country_code: 'NL', party_id: 'EM2', uid: 'CARD2', type: 'RFID', contract_id: 'NL-EM2-C1' };
  await putSession(cpo, 'S1', { cdr_token, last_updated: at(2) });
  await quiet(hub);
  status = 200;
  const dead = await deliveriesOf(hub, '?receiver=NL-EMS');
  t.match(dead, [
    { module: 'sessions', state: 'DEAD' },
    { module: 'locations', state: 'DEAD' },
  ]);
  for (const { id } of dead) t.equal((await asked(hub, `/deliveries/${id}/redrive`)).status, 409, id);
  t.match(await redrive(hub, { filter: {}, dry_run: true }), { matched: 2, stale: 2 });
  t.equal(emsp.received.length, 2, 'nothing more was sent');
  for (const { id } of dead) t.equal((await asked(hub, `/deliveries/${id}/redrive`, { force: true })).status, 202, id);
  await quiet(hub);
  t.equal(emsp.received.length, 4);
});

t.test(
  'a re-drive reads the row of its delivery once, and at most a fixed number of later events [REDRIVE-4, REDRIVEN-AS-4]',
  async (t) => {
    const rows: number[] = [];
    const pages: number[] = [];
    /** The change that is read as 500 changes, whose sequences are within a half of its own. */
    let many = 0;
    const manyOf = (event: StoredEvent): StoredEvent[] =>
      event.seq === many ? Array.from({ length: 500 }, (_, n) => ({ ...event, seq: many + n / 1024 })) : [event];
    const wrap = wrapStore((store) => ({
      delivery: (dest, seq) => {
        rows.push(seq);
        return store.delivery(dest, Math.round(seq));
      },
      history: async (stream, after = 0, limit = Number.POSITIVE_INFINITY) => {
        if (stream.startsWith('sessions/')) pages.push(limit);
        if (many === 0) return store.history(stream, after, limit);
        const all = (await store.history(stream, 0)).flatMap(manyOf);
        return all.filter(({ seq }) => seq > after).slice(0, limit);
      },
    }));
    const hub = await hubFor(t, {}, { wrap });
    let status = 200;
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status }) });
    await putSession(cpo, 'S1', { last_updated: at(0) });
    await quiet(hub);
    status = 400;
    for (let n = 1; n <= 3; n++) await cpo.push('PATCH', '/2.2.1/sessions/NL/CPO/S1', { kwh: n, last_updated: at(n) });
    await quiet(hub);
    const dead = (await itemsOf(hub, '/deliveries?state=DEAD')).map(({ id }) => String(id)).reverse();
    t.equal(dead.length, 3);
    many = Number(dead[2]?.split('-')[0]);
    status = 200;
    const again = async (id = '') => {
      rows.length = 0;
      pages.length = 0;
      const answer = await asked(hub, `/deliveries/${id}/redrive`);
      const [seq] = id.split('-').map(Number);
      t.equal(rows.filter((read) => read === seq).length, 1, 'its own row once');
      t.ok(pages.length > 0 && pages.reduce((sum, limit) => sum + limit, 0) <= 1_100, `${pages.length} pages`);
      return answer.status;
    };
    t.equal(await again(dead[0]), 409, 'all 501 changes after it are dead; what is not read may be newer');
    t.equal(await again(dead[1]), 202, 'it is known that none of the 500 after it has arrived');
    await quiet(hub);
    t.equal(await again(dead[0]), 409, 'one has arrived now');
    t.same(emsp.received.map(kwhOf).slice(-1), [2]);
  },
);

t.test('a filter selects by receiver, module, object, time and sequence', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:00:00Z');
  const hub = await hubFor(t, {}, { clock });
  const refusing = { answer: () => ({ status: 404 }) };
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  for (const partyId of ['EMS', 'EM2']) {
    await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId, ...refusing });
    await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
  }
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  clock.advance(60_000);
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1'));
  clock.advance(60_000);
  await putSession(cpo, 'S1');
  await quiet(hub);
  const seqs = (await deliveriesOf(hub)).map(({ seq }) => seq);
  const [sessionSeq = 0, tariffSeq = 0] = [seqs[0], seqs[1]];
  for (const [filter, matched] of [
    [{}, 5],
    [{ receiver: 'NL-EM2' }, 2],
    [{ sender: 'nl-cpo' }, 5],
    [{ sender: 'NL-EMS' }, 0],
    [{ module: 'locations' }, 2],
    [{ object: 'nl-cpo/t1' }, 2],
    [{ from: '2026-01-02T03:01:00Z' }, 3],
    [{ to: '2026-01-02T04:01:00+01:00' }, 2],
    [{ from_seq: tariffSeq }, 3],
    [{ to_seq: tariffSeq }, 4],
    [{ from_seq: tariffSeq, to_seq: tariffSeq, receiver: 'NL-EMS' }, 1],
    [{ from_seq: sessionSeq + 100 }, 0],
    [{ state: 'DELIVERED' }, 0],
    [{ state: 'ANY', module: 'sessions' }, 1],
  ] as const) {
    t.match(await admin(hub, 'POST', '/redrive', { filter, dry_run: true }), { matched }, JSON.stringify(filter));
  }
  const plan = { filter: {}, dry_run: true };
  const { to_seq } = await admin(hub, 'POST', '/redrive', plan);
  t.ok(Number(to_seq) >= sessionSeq && Number(to_seq) <= hub.created.context.store.head(), 'what was counted');
  t.match(await admin(hub, 'POST', '/discard', { ...plan, filter: { to_seq: tariffSeq } }), { to_seq: tariffSeq });
  t.equal((await asked(hub, '/redrive', { filter: { state: 'PENDING' } })).status, 422);
  t.equal((await asked(hub, '/redrive', { filter: { nonsense: 1 } })).status, 422);
  t.equal((await asked(hub, '/redrive', { filter: { module: 'session' } })).status, 422);
});

t.test('a re-drive keeps to its rate, and a cancel takes effect before the next delivery', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:00:00Z');
  const HUB_OPERATORS_FILE = operatorsFile(join(directoryFor(t), 'file'), [{ name: 'ben', role: 'support' }]);
  const hub = await hubFor(t, { HUB_OPERATORS_FILE }, { clock });
  const ben = { url: hub.url, adminToken: tokenOf('ben') };
  t.teardown(() => endAdmin(ben));
  let isIll = true;
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => (isIll ? { status: 404 } : {}) });
  for (let n = 1; n <= 6; n++) await putSession(cpo, `S${n}`);
  await quiet(hub);
  isIll = false;
  const { id } = await redrive(hub, { filter: {}, rate_per_s: 0.5 });
  for (let n = 1; n <= 3; n++) {
    await hub.settled(emsp);
    t.equal(emsp.received.length, 6 + n, `number ${n} arrived`);
    clock.advance(1_999);
    await hub.settled(emsp);
    t.equal(emsp.received.length, 6 + n, 'two seconds between two');
    clock.advance(1);
  }
  await hub.settled(emsp);
  t.equal(emsp.received.length, 10, 'number 4 arrived');
  const row = await hub.created.context.store.get({ kind: 'jobs', owner: '', id });
  t.match(row?.data, { state: 'RUNNING', queued: 4 }, 'another node would know after a kill [JOBS-2]');
  const canceled = (await admin(ben, 'DELETE', `/redrives/${id}`)) as unknown as Job;
  t.match(canceled, { state: 'CANCELED', queued: 4 }, 'without waiting for the next one to be due');
  const told = (await itemsOf(hub, '/events?type=job')).map(({ type, who }) => [type, who]);
  t.strictSame(
    [told.at(0), told.at(-1)],
    [
      ['job.started', 'admin'],
      ['job.ended', 'ben'],
    ],
    'who did which [D80]',
  );
  clock.advance(60_000);
  await quiet(hub);
  t.equal(emsp.received.length, 10);
  t.equal((await deliveriesOf(hub, '?state=DEAD')).length, 2, 'what was not put back is as it was');
  t.match(await admin(hub, 'GET', `/redrives/${id}`), { state: 'CANCELED', kind: 'redrive' });
});

t.test('a job that a stop of the hub cut off says so, and can be repeated', async (t) => {
  const dir = directoryFor(t);
  const first = await hubFor(t, {}, {}, dir);
  let isIll = true;
  const { cpo, emsp } = await routedPair(t, first, { emsp: () => (isIll ? { status: 404 } : {}) });
  for (let n = 1; n <= 5; n++) await putSession(cpo, `S${n}`);
  await quiet(first);
  isIll = false;
  const { id } = await redrive(first, { filter: {}, rate_per_s: 0.1 });
  await first.settled(emsp);
  t.equal(emsp.received.length, 6, 'one was put back');
  await first.close();
  const second = await hubFor(t, {}, {}, dir);
  t.match(await admin(second, 'GET', `/redrives/${id}`), { state: 'INTERRUPTED', queued: 1 });
  const { out } = await runCommand(['jobs', 'show', id], { HUB_URL: second.url, HUB_ADMIN_TOKEN: second.adminToken });
  t.match(out, /^state +INTERRUPTED\nnext +start it again for the rest; what it did last may not be counted\n/m);
  t.match(await ended(second, await redrive(second, { filter: {}, rate_per_s: 1000 })), { state: 'DONE', queued: 4 });
  await quiet(second);
  t.equal(emsp.received.length, 10);
});

t.test('a replay sends a range of the log again, each object in order', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  for (let kwh = 1; kwh <= 3; kwh++)
    for (const id of ['A', 'B']) await putSession(cpo, id, { kwh, last_updated: at(kwh) });
  await quiet(hub);
  const seqs = (await deliveriesOf(hub)).map(({ seq }) => seq).reverse();
  const range = { from_seq: seqs[2], to_seq: seqs[5] };
  t.match(await admin(hub, 'POST', '/redrive', { filter: range, dry_run: true }), { matched: 0 }, 'nothing is dead');
  const wanted = { filter: { ...range, state: 'DELIVERED' }, rate_per_s: 1000 };
  t.match(await admin(hub, 'POST', '/redrive', { ...wanted, dry_run: true }), { matched: 4, stale: 2 });
  emsp.received.length = 0;
  t.match(await ended(hub, await redrive(hub, wanted)), { matched: 4, queued: 2, skipped_stale: 2 });
  await quiet(hub);
  t.same(emsp.received.map(kwhOf), [3, 3], 'what is newer already is not undone');
  emsp.received.length = 0;
  t.match(await ended(hub, await redrive(hub, { ...wanted, force: true })), { matched: 4, queued: 4 });
  await quiet(hub);
  for (const id of ['A', 'B']) t.same(emsp.received.filter((call) => idOf(call) === id).map(kwhOf), [2, 3]);
});

t.test('an object that its receiver may no longer have is sent only when forced [REDRIVEN-AS-2]', async (t) => {
  const hub = await hubFor(t);
  let status = 404;
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status }), cpo: () => ({ status }) });
  const refused = async (what: string, receiver: string) => {
    emsp.received.length = 0;
    cpo.received.length = 0;
    t.match(
      await admin(hub, 'POST', '/redrive', { filter: { receiver }, dry_run: true }),
      { matched: 1, stale: 1, unregistered: 0 },
      what,
    );
    const job = await ended(hub, await redrive(hub, { filter: { receiver } }));
    t.match(job, { matched: 1, queued: 0, skipped_stale: 1 }, what);
    const [dead] = await deliveriesOf(hub, `?state=DEAD&receiver=${receiver}`);
    t.match(await asked(hub, `/deliveries/${dead?.id}/redrive`), { status: 409 }, what);
    await quiet(hub);
    t.same([...emsp.received, ...cpo.received], [], what);
  };
  const card = '/2.2.1/tokens/NL/EMS/CARD-4711';
  status = 200;
  await emsp.push('PUT', card, tokenBody('CARD-4711'));
  await quiet(hub);
  status = 400;
  // Its body names nobody.
  await emsp.push('PATCH', card, { valid: false, last_updated: '2026-05-02T00:00:00Z' });
  await quiet(hub);
  status = 200;
  t.match(await admin(hub, 'POST', '/erase', { uid: 'CARD-4711' }), { state: 'DONE', tokens: 1, pending: 0 });
  await refused('a token of a person that was erased', 'NL-CPO');

  status = 404;
  await putSession(cpo, 'S1');
  await quiet(hub);
  status = 200;
  await admin(hub, 'DELETE', '/routes/NL-EMS/NL-CPO');
  await refused('a session of a CPO to which no rule leads', 'NL-EMS');
  t.match(await ended(hub, await redrive(hub, { filter: { receiver: 'NL-EMS' }, force: true })), { queued: 1 });
  await quiet(hub);
  t.same(emsp.received.map(idOf), ['S1']);
});

t.test('a plan counts deliveries that cannot be sent because their receiver is not registered', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  await putSession(cpo, 'S1');
  await quiet(hub);
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  const plan = await admin(hub, 'POST', '/redrive', { filter: {}, dry_run: true });
  t.match(plan, { matched: 1, stale: 0, unregistered: 1 });
});

t.test('a replay goes to the receivers of then, or to those of them that are routed now', async (t) => {
  const hub = await hubFor(t);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsps: PlainPartner[] = [];
  const answer = ({ path }: { path: string }) => ({ status: path.includes('/tariffs/') ? 400 : 200 });
  for (const partyId of ['E01', 'E02', 'E03']) {
    emsps.push(await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId, answer }));
    if (partyId !== 'E03') await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
  }
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1'));
  await quiet(hub);
  for (const { received } of emsps) received.length = 0;
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await quiet(hub);
  await admin(hub, 'DELETE', '/routes/NL-E01/NL-CPO');
  await admin(hub, 'PUT', '/routes/NL-E03/NL-CPO', { active: true });
  const counts = () => emsps.map(({ received }) => received.length);
  t.same(counts(), [1, 1, 0]);
  const filter = { state: 'ANY', module: 'locations' };
  t.match(await admin(hub, 'POST', '/redrive', { filter, dry_run: true, routing: 'now' }), {
    by_receiver: { 'NL-E02': 1 },
  });
  await ended(hub, await redrive(hub, { filter, routing: 'now', rate_per_s: 1000 }));
  await quiet(hub);
  t.same(counts(), [1, 2, 0]);
  await ended(hub, await redrive(hub, { filter, routing: 'then', rate_per_s: 1000 }));
  await quiet(hub);
  t.same(counts(), [2, 3, 0]);
  const dead = { module: 'tariffs' };
  for (const [routing, by_receiver] of [
    ['now', { 'NL-E02': 1 }],
    ['then', { 'NL-E01': 1, 'NL-E02': 1 }],
  ] as const) {
    const plan = await admin(hub, 'POST', '/redrive', { filter: dead, dry_run: true, routing });
    t.strictSame(plan.by_receiver, by_receiver, `dead letters, ${routing}`);
  }
});

t.test('a resync sends the current objects to which a receiver is entitled, of each module', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  const other = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CP2' });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await cpo.push('PATCH', '/2.2.1/locations/NL/CPO/L1', { name: 'Neu', last_updated: at(1) });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L2', locationBody('L2', { publish: false }));
  await other.push('PUT', '/2.2.1/locations/NL/CP2/L3', locationBody('L3', { party_id: 'CP2' }));
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1'));
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/T2', tariffBody('T2'));
  await cpo.push('DELETE', '/2.2.1/tariffs/NL/CPO/T2');
  await putSession(cpo, 'S1', { kwh: 4 });
  await putSession(cpo, 'S2', { cdr_token: null });
  await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C1'));
  await emsp.push('PUT', '/2.2.1/tokens/NL/EMS/CARD1?type=RFID', tokenBody('CARD1'));
  await quiet(hub);
  for (const [id, partner, module, expected] of [
    ['NL-EMS', emsp, 'locations', ['PUT /NL/CPO/L1']],
    ['NL-EMS', emsp, 'tariffs', ['PUT /NL/CPO/T1']],
    ['NL-EMS', emsp, 'sessions', ['PUT /NL/CPO/S1']],
    ['NL-EMS', emsp, 'cdrs', ['POST ']],
    ['NL-EMS', emsp, 'tokens', []],
    ['NL-CPO', cpo, 'tokens', ['PUT /NL/EMS/CARD1?type=RFID']],
    ['NL-CPO', cpo, 'locations', []],
    ['NL-CP2', other, 'tokens', []],
  ] as const) {
    partner.received.length = 0;
    const job = (await admin(hub, 'POST', `/parties/${id}/resync`, { module })) as unknown as Job;
    t.match(await ended(hub, job), { kind: 'resync', state: 'DONE', queued: expected.length }, `${id} ${module}`);
    await quiet(hub);
    const got = partner.received.map(({ method, path }) => `${method} ${path.split(`/${module}`)[1]}`);
    t.same(got, expected, `${id} ${module}`);
    if (module === 'locations' && id === 'NL-EMS')
      t.match(JSON.parse(partner.received[0]?.body ?? ''), { name: 'Neu' });
  }
  await admin(hub, 'DELETE', '/routes/NL-EMS/NL-CPO');
  emsp.received.length = 0;
  for (const module of ['locations', 'tariffs', 'sessions', 'cdrs']) {
    const job = (await admin(hub, 'POST', '/parties/NL-EMS/resync', { module })) as unknown as Job;
    t.match(await ended(hub, job), { queued: 0 }, `${module}: without a routing rule nothing flows`);
  }
  await quiet(hub);
  t.same(emsp.received, []);
});

t.test('a resync of a catalogue to an eMSP that is not subscribed is refused [D60]', async (t) => {
  const hub = await hubFor(t);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const modules = [['sessions', 'RECEIVER']] as const;
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS', modules });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1'));
  await putSession(cpo, 'S1');
  await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C1'));
  await quiet(hub);
  for (const module of ['locations', 'tariffs']) {
    const { status, text } = await asked(hub, '/parties/NL-EMS/resync', { module });
    const detail = `NL-EMS has no RECEIVER endpoint for ${module}: it is not subscribed`;
    t.match({ status, ...(JSON.parse(text) as object) }, { status: 409, detail });
  }
  for (const module of ['sessions', 'cdrs']) {
    const job = (await admin(hub, 'POST', '/parties/NL-EMS/resync', { module })) as unknown as Job;
    t.match(await ended(hub, job), { state: 'DONE', queued: 1 }, module);
  }
  await quiet(hub);
  t.same(emsp.received.map(idOf), ['S1', 'S1']);
  t.match(await deliveriesOf(hub, '?state=DEAD'), [{ module: 'cdrs' }, { module: 'cdrs' }], 'but CDRs are money');
});

t.test('re-driven deliveries take at most a quarter of the slots, and leave the rest to new ones', async (t) => {
  const hub = await hubFor(t, { HUB_DELIVERY_CONCURRENCY: '8' });
  const holding = new Holding();
  holding.open = { status: 404 };
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  for (let n = 1; n <= 20; n++) await putSession(cpo, `OLD${n}`);
  await quiet(hub);
  emsp.received.length = 0;
  holding.open = null;
  await ended(hub, await redrive(hub, { filter: {}, rate_per_s: 1000 }));
  await hub.settled(emsp);
  t.equal(holding.held.length, 2, 'two of eight slots');
  for (let n = 1; n <= 20; n++) await putSession(cpo, `NEW${n}`);
  await hub.settled(emsp);
  t.equal(holding.held.length, 8, 'new ones have the rest');
  t.equal(holding.held.filter(({ received }) => idOf(received).startsWith('NEW')).length, 6);
  holding.releaseAll();
  await quiet(hub);
  t.equal(emsp.received.length, 40);
});

t.test('a resync takes at most a quarter of the slots, too', atLength, async (t) => {
  const hub = await hubFor(t, { HUB_DELIVERY_CONCURRENCY: '8' });
  const holding = new Holding();
  holding.open = {};
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  for (let n = 1; n <= 20; n++) await cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/T${n}`, tariffBody(`T${n}`));
  await quiet(hub);
  holding.open = null;
  await ended(hub, (await admin(hub, 'POST', '/parties/NL-EMS/resync', { module: 'tariffs' })) as unknown as Job);
  await hub.settled(emsp);
  t.equal(holding.held.length, 2, 'two of eight slots');
  await putSession(cpo, 'NEW');
  await hub.settled(emsp);
  t.equal(callsTo(emsp, 'sessions').length, 1, 'what is new goes at once');
  holding.releaseAll();
  await quiet(hub);
});

t.test('with a single slot, a replay and new deliveries take turns', atLength, async (t) => {
  const hub = await hubFor(t, { HUB_DELIVERY_CONCURRENCY: '1' });
  const holding = new Holding();
  holding.open = { status: 404 };
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  for (let n = 1; n <= 20; n++) await putSession(cpo, `OLD${n}`);
  await quiet(hub);
  emsp.received.length = 0;
  holding.open = null;
  await ended(hub, await redrive(hub, { filter: {}, rate_per_s: 1000 }));
  for (let n = 1; n <= 12; n++) await putSession(cpo, `NEW${n}`);
  holding.releaseAll();
  await quiet(hub);
  const kinds = emsp.received.map((call) => idOf(call).slice(0, 3));
  const lastNew = kinds.lastIndexOf('NEW');
  const oldBefore = kinds.slice(0, lastNew).filter((kind) => kind === 'OLD').length;
  t.ok(oldBefore >= 3 && oldBefore <= 6, `${oldBefore} of 20 old ones came before the last of 12 new ones`);
});

t.test('a re-drive is acknowledged although other deliveries never pause', atLength, async (t) => {
  const hub = await hubFor(t, { HUB_RATE_OTHER_PER_MIN: '1000000' });
  let isIll = true;
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: (received) => (isIll && idOf(received) === 'DEAD' ? { status: 404 } : {}),
  });
  await putSession(cpo, 'DEAD');
  await quiet(hub);
  const [dead] = await deliveriesOf(hub);
  isIll = false;
  let pushing = true;
  let pushes = 0;
  const load = Promise.all(
    Array.from({ length: 16 }, async (_, worker) => {
      for (; pushing; pushes++) await putSession(cpo, `S${worker}`, { kwh: pushes });
    }),
  );
  await eventually('it is under load', () => pushes > 100);
  const before = pushes;
  await admin(hub, 'POST', `/deliveries/${dead?.id}/redrive`);
  const during = pushes - before;
  pushing = false;
  await load;
  await quiet(hub);
  t.ok(during < 250, `${during} pushes while it was acknowledged`);
  t.equal(emsp.received.filter((call) => idOf(call) === 'DEAD').length, 2);
});

t.test(
  'a restart that puts a re-driven delivery first moves no due time of one that was tried [RECEIVER-2]',
  async (t) => {
    const dir = directoryFor(t);
    const env = { HUB_RETRY_SCHEDULE_S: '60', HUB_RETRY_JITTER: '0' };
    const first = await hubFor(t, env, { clock: new SimulatedClock('2026-01-02T03:00:00Z') }, dir);
    let isIll = true;
    const { cpo, emsp } = await routedPair(t, first, {
      emsp: (received) => (isIll ? { status: kwhOf(received) === 1 ? 400 : 500 } : {}),
    });
    await putSession(cpo, 'S1', { kwh: 1 });
    await putSession(cpo, 'S1', { kwh: 2 });
    await first.settled(emsp);
    const [dead] = await deliveriesOf(first, '?state=DEAD');
    t.equal((await asked(first, `/deliveries/${dead?.id}/redrive`, { force: true })).status, 202);
    await first.settled(emsp);
    t.same(emsp.received.map(kwhOf), [1, 2], 'the first goes behind the second, which waits for its next attempt');
    await first.close();
    isIll = false;
    const clock = new SimulatedClock('2026-01-02T03:00:30Z');
    const second = await hubFor(t, env, { clock }, dir);
    await second.settled(emsp);
    t.same(emsp.received.map(kwhOf), [1, 2, 1], 'after the restart it goes where the log has it');
    clock.advance(29_999);
    await second.settled(emsp);
    t.equal(emsp.received.length, 3, 'the second not a millisecond early');
    clock.advance(1);
    await quiet(second);
    t.same(emsp.received.map(kwhOf), [1, 2, 1, 2]);
  },
);

t.test('an acknowledged re-drive survives a kill', atLength, async (t) => {
  const dataDir = directoryFor(t);
  const first = await startChildHub({ dataDir, port: 0, env: { HUB_SECRET_KEY: secretKey } });
  t.teardown(() => first.kill());
  const cpo = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  let reply: Reply = { status: 404 };
  const emsp = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'EMS', answer: () => reply });
  t.teardown(() => Promise.all([cpo.close(), emsp.close()]));
  await cpo.register(first);
  await emsp.register(first);
  await admin(first, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  for (let n = 1; n <= 5; n++) await putSession(cpo, `S${n}`);
  await quiet(first);
  // Nothing goes out before the kill, so that what arrives afterwards was remembered.
  await admin(first, 'PATCH', '/parties/NL-EMS', { paused: true });
  const dead = await deliveriesOf(first, '?state=DEAD');
  await Promise.all(dead.map(({ id }) => admin(first, 'POST', `/deliveries/${id}/redrive`)));
  await first.kill();
  reply = {};
  const hub = await hubFor(t, {}, {}, dataDir);
  t.match(
    await deliveriesOf(hub, '?state=PENDING'),
    dead.map(({ id }) => ({ id })),
  );
  t.match(await admin(hub, 'GET', '/parties/NL-EMS'), { queue: { depth: 5, dead: 0 } });
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: false });
  await quiet(hub);
  t.same(emsp.received.slice(5).map(idOf).sort(), ['S1', 'S2', 'S3', 'S4', 'S5']);
});

t.test('a trace explains an object and a request, and why nothing was forwarded', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  const ems = sessionBody('').cdr_token as object;
  const unrouted = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'FAR' });
  const lonely = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'ALO' });
  await putSession(cpo, 'S0', {}, { 'X-Correlation-ID': 'c-0' });
  await putSession(cpo, 'S1', { cdr_token: null });
  await putSession(cpo, 'S2', { cdr_token: { ...ems, country_code: 'XX', party_id: 'HUB' } });
  await putSession(cpo, 'S3', { cdr_token: { ...ems, party_id: 'WHO' } });
  await putSession(cpo, 'S4', { cdr_token: { ...ems, party_id: 'FAR' } });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1', { publish: false }));
  await lonely.push('PUT', '/2.2.1/tariffs/NL/ALO/T1', tariffBody('T1', { party_id: 'ALO' }));
  await quiet(hub);
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  await putSession(cpo, 'S5');
  const because = async (key: string) => {
    const { steps } = (await admin(hub, 'GET', `/trace/${encodeURIComponent(key)}`)) as {
      steps: { not_forwarded: string | null; deliveries: unknown[] }[];
    };
    const last = steps.at(-1);
    t.same(last?.deliveries.length, last?.not_forwarded === null ? 1 : 0, `${key}: either forwarded or a reason`);
    return last?.not_forwarded ?? null;
  };
  t.equal(await because('NL-CPO/S0'), null);
  t.match(await because('NL-CPO/S1'), /no usable cdr_token/);
  t.match(await because('nl-cpo/S2'), /names the hub/);
  t.match(await because('NL-CPO/S3'), /not an eMSP of this hub/);
  t.match(await because('NL-CPO/S4'), /no active routing rule/);
  t.match(await because('NL-CPO/S5'), /was not registered then/);
  t.match(await because('NL-CPO/L1'), /publish: false/);
  t.match(await because('NL-ALO/T1'), /no active routing rule/);
  t.match(await admin(hub, 'GET', '/trace/c-0'), {
    kind: 'correlation',
    steps: [
      {
        ...{ type: 'object.put', party: 'NL-CPO', object: 'NL-CPO/S0', not_forwarded: null },
        summary: /NL-CPO sent PUT sessions S0: stored, owed to NL-EMS/,
        deliveries: [{ receiver: 'NL-EMS', state: 'DELIVERED', attempts: [{ class: 'delivered' }] }],
      },
    ],
  });
  await t.rejects(admin(hub, 'GET', '/trace/never-seen'), /404/);
  t.equal(unrouted.received.length + emsp.received.length, 1);
});

t.test('explain lists every condition of a delivery, and which one fails', async (t) => {
  const hub = await hubFor(t);
  const { emsp } = await routedPair(t, hub);
  const explained = async (query: string) => {
    const answer = (await admin(hub, 'GET', `/routes/explain?${query}`)) as {
      delivers: boolean;
      conditions: { holds: boolean; because: string }[];
    };
    return [answer.delivers, ...answer.conditions.flatMap(({ holds, because }) => (holds ? [] : [because]))];
  };
  t.same(await explained('from=nl-cpo&to=NL-EMS&module=sessions'), [true]);
  t.same(await explained('from=NL-EMS&to=NL-CPO&module=tokens'), [true]);
  t.match(await explained('from=NL-EMS&to=NL-CPO&module=sessions'), [false, /not known as CPO/, /not known as EMSP/]);
  await t.rejects(explained('from=NL-EMS&to=NL-CPO&module=commands'), /400|422/, 'what no rule forwards is refused');
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  t.match(await explained('from=NL-CPO&to=NL-EMS&module=cdrs'), [false, /paused/]);
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: false });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: false });
  t.match(await explained('from=NL-CPO&to=NL-EMS&module=cdrs'), [false, /no active routing rule/]);
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  t.match(await explained('from=NL-CPO&to=NL-EMS&module=cdrs'), [false, /not exchanged credentials/]);
  t.equal(emsp.received.length, 0);
});

t.test('a re-drive that scans the log reads it in pages of a bounded size', async (t) => {
  const reads: EventQuery[] = [];
  const wrap = wrapStore((store) => ({
    read: (query) => {
      reads.push(query);
      return store.read(query);
    },
  }));
  const hub = await hubFor(t, {}, { wrap });
  const { cpo } = await routedPair(t, hub);
  await putSession(cpo, 'S1');
  await quiet(hub);
  reads.length = 0;
  t.match(await redrive(hub, { filter: { state: 'DELIVERED' }, dry_run: true }), { matched: 1 });
  t.ok(reads.length > 0 && reads.every(({ size }) => size !== undefined));
});

t.test('a replay of a time span reads only the log of that span', async (t) => {
  const clock = new SimulatedClock(at(0));
  const reads: number[] = [];
  const wrap = wrapStore((store) => ({
    read: (query) => {
      reads.push(query.after ?? 0);
      return store.read(query);
    },
  }));
  const hub = await hubFor(t, {}, { clock, wrap });
  const { cpo } = await routedPair(t, hub);
  const days: { begins: string; after: number }[] = [];
  for (const id of ['S1', 'S2', 'S3']) {
    clock.advance(86_400_000);
    days.push({ begins: new Date(clock.wall()).toISOString(), after: hub.created.context.store.head() });
    await putSession(cpo, id);
    await quiet(hub);
  }
  const [, second, third] = days;
  reads.length = 0;
  const filter = { state: 'ANY', from: second?.begins, to: third?.begins };
  t.match(await redrive(hub, { filter, dry_run: true }), { matched: 1, sample: [{ object: 'NL-CPO/S2' }] });
  t.ok(reads.length > 0 && reads.every((after) => after >= (second?.after ?? 0)), `from ${reads} on`);
});

t.test(
  'a replay of a time span misses nothing when the wall clock was a day behind meanwhile [LOG-READS-2]',
  async (t) => {
    const clock = new SimulatedClock('2026-03-02T09:40:00Z');
    const hub = await hubFor(t, {}, { clock });
    const { cpo } = await routedPair(t, hub);
    await putSession(cpo, 'S1');
    clock.step(-86_400_000);
    // Most of the log, so that a bisection lands here first.
    for (let kwh = 0; kwh < 40; kwh++) await putSession(cpo, 'S2', { kwh });
    clock.advance(3_600_000);
    clock.step(86_400_000);
    await putSession(cpo, 'S3');
    await quiet(hub);
    const filter = { state: 'ANY', from: '2026-03-02T09:30:00.000Z' };
    const sample = [{ object: 'NL-CPO/S1' }, { object: 'NL-CPO/S3' }];
    t.match(await redrive(hub, { filter, dry_run: true }), { matched: 2, sample });
  },
);

t.test('a re-drive continues while one of its receivers has no room, and comes back to it [REDRIVE-6]', async (t) => {
  const clock = new SimulatedClock(at(0));
  const hub = await hubFor(t, {}, { clock, windowMax: 10 });
  const holding = new Holding();
  let reply: Reply = { status: 400 };
  holding.open = reply;
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  const other = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EM2', answer: () => reply });
  await admin(hub, 'PUT', '/routes/NL-EM2/NL-CPO', { active: true });
  for (const id of ['T1', 'T2', 'T3', 'T4', 'T5'])
    for (const minute of [1, 2])
      await cpo.push('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariffBody(id, { last_updated: at(minute) }));
  await quiet(hub);
  for (const partner of [emsp, other]) partner.received.length = 0;
  reply = {};
  holding.open = null;
  const job = await redrive(hub, { filter: {}, force: true, rate_per_s: 1000 });
  const pass = async (ms: number, isOver: () => boolean) => {
    for (let left = 100; left > 0 && !isOver(); left--) {
      await hub.settled(emsp);
      clock.advance(ms);
    }
  };
  await pass(1_000, () => other.received.length === 10);
  t.strictSame([emsp.received.length, other.received.length], [1, 10], 'one takes all while the other holds a call');
  holding.releaseAll();
  await pass(1_000, () => emsp.received.length === 10);
  await hub.settled();
  t.strictSame(emsp.received.map(idOf), other.received.map(idOf), 'in the same order');
  t.match(await ended(hub, job), { state: 'DONE', matched: 20, queued: 20 });
});
