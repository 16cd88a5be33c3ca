/**
 * Lanes: what waits for what, how many go at a time, and when a failed delivery is tried again. Time is a simulated clock wherever it
 * matters; sockets and disk are real. [D39, D50]
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { ReportView } from '../../src/api/report.ts';
import { judge, scalesFor } from '../../src/ocpi/overload.ts';
import { cdrBody, locationBody, sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { callsTo, quiet } from '../support/observed.ts';
import { admin, type PlainPartner, plainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';
import { asyncCircuit, deliveriesOf, Holding, idOf, kwhOf, putSession } from './watched.ts';

const start = '2026-01-02T03:00:00Z';
/** No circuit opens, no wait varies, and a window is soon full. */
const plain = { HUB_RETRY_JITTER: '0', HUB_CIRCUIT_FAILURES: '1000', HUB_DELIVERY_CONCURRENCY: '8' };

const postCdr = (cpo: PlainPartner, id: string, session_id: string) =>
  cpo.push('POST', '/2.2.1/cdrs', cdrBody(id, { session_id }));

const pause = (hub: Parameters<typeof admin>[0], id: string, paused: boolean) =>
  admin(hub, 'PATCH', `/parties/${id}`, { paused });

t.test('an object is delivered in order and one at a time, while other objects are delivered beside it', async (t) => {
  const hub = await hubFor(t, plain);
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  for (let kwh = 1; kwh <= 5; kwh++) for (const id of ['A', 'B', 'C']) await putSession(cpo, id, { kwh });
  for (let kwh = 1; kwh <= 5; kwh++) {
    await hub.settled(emsp);
    t.equal(holding.held.length, 3, 'the heads of the three lanes are in flight');
    t.same(holding.held.map(({ received }) => [idOf(received), kwhOf(received)]).sort(), [
      ...[
        ['A', kwh],
        ['B', kwh],
        ['C', kwh],
      ],
    ]);
    for (let n = 0; n < 3; n++) holding.releaseOne();
  }
  await quiet(hub);
  t.equal(emsp.received.length, 15);
});

t.test('a transient failure holds its own lane alone', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, { ...plain, HUB_RETRY_SCHEDULE_S: '60' }, { clock });
  let ill = true;
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: (received) => (ill && idOf(received) === 'A' ? { status: 500 } : {}),
  });
  for (let kwh = 1; kwh <= 3; kwh++) for (const id of ['A', 'B']) await putSession(cpo, id, { kwh });
  await hub.settled(emsp);
  t.equal(emsp.received.length, 4, 'all of the other object arrived');
  t.same(emsp.received.filter((call) => idOf(call) === 'A').map(kwhOf), [1], 'nothing overtakes what failed');
  ill = false;
  clock.advance(60_000);
  await quiet(hub);
  t.same(emsp.received.filter((call) => idOf(call) === 'A').map(kwhOf), [1, 1, 2, 3]);
});

t.test('a final failure frees its lane at once', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, plain, { clock });
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: (received) => (kwhOf(received) === 1 ? { status: 400, text: '{}' } : {}),
  });
  await putSession(cpo, 'A', { kwh: 1 });
  await putSession(cpo, 'A', { kwh: 2 });
  await hub.settled(emsp);
  t.equal(emsp.received.length, 2, 'the next one arrived, without any time passing');
  await quiet(hub);
  t.match(await deliveriesOf(hub), [
    { state: 'DELIVERED', reason: null },
    { state: 'DEAD', due_at: null, reason: /HTTP 400/ },
  ]);
});

t.test('a CDR whose 400 contains a server error is retried', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, { ...plain, HUB_RETRY_SCHEDULE_S: '60' }, { clock });
  const replies: Reply[] = [
    { status: 400, text: '{"status_code":3000,"status_message":"deadlock","timestamp":"2026-01-01T00:00:00Z"}' },
    { status: 201 },
  ];
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => replies.shift() ?? {} });
  await postCdr(cpo, 'C1', 'other');
  await hub.settled(emsp);
  clock.advance(60_000);
  await quiet(hub);
  t.equal(emsp.received.length, 2);
  t.match(await deliveriesOf(hub), [
    { state: 'DELIVERED', attempts: [{ class: 'unavailable' }, { class: 'delivered' }] },
  ]);
});

for (const [what, first, state] of [
  ['lost its answer', { isCut: true }, 'DELIVERED'],
  ['failed', { status: 500 }, 'DELIVERED'],
  ['was throttled', { status: 429 }, 'DEAD'],
] as const)
  t.test(
    `a CDR whose receiver says that it has it is ${state} where the attempt before ${what} [WHOLES-8]`,
    async (t) => {
      const clock = new SimulatedClock(start);
      const hub = await hubFor(t, { ...plain, HUB_RETRY_SCHEDULE_S: '60' }, { clock });
      const known = '{"status_code":2001,"status_message":"CDR already exists.","timestamp":"2026-01-01T00:00:00Z"}';
      const replies: Reply[] = [first];
      const { cpo, emsp } = await routedPair(t, hub, { emsp: () => replies.shift() ?? { status: 400, text: known } });
      await postCdr(cpo, 'C1', 'other');
      await hub.settled(emsp);
      clock.advance(60_000);
      await quiet(hub);
      await postCdr(cpo, 'C2', 'other');
      await quiet(hub);
      t.match(await deliveriesOf(hub), [{ state: 'DEAD' }, { state, attempts: [{}, { class: 'client_error' }] }]);
      const { quirks } = (await admin(hub, 'GET', '/parties/NL-EMS/report')) as unknown as ReportView;
      t.same(
        quirks.map(({ quirk, count }) => `${quirk} ${count}`),
        state === 'DEAD' ? [] : ['known-cdr 1'],
      );
    },
  );

t.test('a CDR that its receiver says it has is DEAD where no attempt before sent a byte [WHOLES-8]', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, { ...plain, HUB_RETRY_SCHEDULE_S: '60' }, { clock });
  const { cpo, emsp } = await routedPair(t, hub);
  await emsp.close();
  await postCdr(cpo, 'C1', 'other');
  await hub.settled();
  const known = '{"status_code":2001,"status_message":"CDR already exists.","timestamp":"2026-01-01T00:00:00Z"}';
  const server = createServer((_, response) => response.writeHead(400).end(known));
  t.teardown(() => server.close());
  await once(server.listen(Number(new URL(emsp.url).port), '127.0.0.1'), 'listening');
  clock.advance(60_000);
  await quiet(hub);
  t.match(await deliveriesOf(hub), [
    { state: 'DEAD', attempts: [{ class: 'unavailable', http_status: null, unsent: true }, { http_status: 400 }] },
  ]);
});

t.test('a CDR that its receiver says it has is DELIVERED where the hub sent it twice [WHOLES-8]', async (t) => {
  const hub = await hubFor(t);
  const known = '{"status_code":2001,"status_message":"CDR already exists.","timestamp":"2026-01-01T00:00:00Z"}';
  const replies: Reply[] = [{}, { isCut: true }, { status: 400, text: known }];
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => replies.shift() ?? {} });
  for (const id of ['C1', 'C2']) {
    await postCdr(cpo, id, 'other');
    await quiet(hub);
  }
  t.same(
    emsp.received.map(({ body }) => (JSON.parse(body) as { id: string }).id),
    ['C1', 'C2', 'C2'],
  );
  const [second] = await deliveriesOf(hub);
  t.match(second, { state: 'DELIVERED', attempts: [{ class: 'client_error', quirks: ['known-cdr'] }] });
  t.equal(second?.attempts.length, 1);
});

t.test(
  'a CDR that its receiver says it has is DELIVERED where it answered 200 without an envelope before [WHOLES-8]',
  async (t) => {
    const hub = await hubFor(t);
    let answers = (): Reply => ({});
    const { cpo } = await routedPair(t, hub, { emsp: () => answers() });
    const known = '{"status_code":2001,"status_message":"CDR already exists.","timestamp":"2026-01-01T00:00:00Z"}';
    for (const [first, state] of [
      [{ text: '<p>Created</p>' }, 'DELIVERED'],
      [{ status: 304 }, 'DEAD'],
    ] as const) {
      const replies: Reply[] = [first, { status: 400, text: known }];
      answers = () => replies.shift() ?? {};
      await postCdr(cpo, state, 'other');
      await quiet(hub);
      const [dead] = await deliveriesOf(hub);
      await admin(hub, 'POST', `/deliveries/${dead?.id}/redrive`);
      await quiet(hub);
      t.match(await deliveriesOf(hub), [
        { state, attempts: [{ class: 'invalid_response' }, { class: 'client_error' }] },
      ]);
    }
  },
);

t.test('updates of an EVSE and of a connector share the lane of their location', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, { ...plain, HUB_RETRY_SCHEDULE_S: '5' }, { clock });
  let ill = true;
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: (received) => (ill && received.path.includes('/LOC1') ? { status: 503 } : {}),
  });
  const at = '2026-01-02T04:00:00Z';
  const [evse] = locationBody('LOC1').evses as { connectors: object[] }[];
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  await cpo.push('PATCH', '/2.2.1/locations/NL/CPO/LOC1/EVSE1', { status: 'CHARGING', last_updated: at });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1/EVSE1/1', { ...evse?.connectors[0], last_updated: at });
  await cpo.push('PATCH', '/2.2.1/locations/NL/CPO/LOC1', { name: 'Neu', last_updated: at });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC2', locationBody('LOC2'));
  await hub.settled(emsp);
  t.ok(
    emsp.received.some((call) => idOf(call) === 'LOC2'),
    'the other location arrived',
  );
  t.equal(emsp.received.length, 2, 'parts of the first wait with it');
  ill = false;
  clock.advance(5_000);
  await quiet(hub);
  const paths = emsp.received.map(({ method, path }) => `${method} ${path.split('/locations')[1]}`);
  t.same(
    paths.filter((path) => path.includes('LOC1')),
    [
      'PUT /NL/CPO/LOC1',
      'PUT /NL/CPO/LOC1',
      'PATCH /NL/CPO/LOC1/EVSE1',
      'PUT /NL/CPO/LOC1/EVSE1/1',
      'PATCH /NL/CPO/LOC1',
    ],
  );
});

t.test('a CDR is delivered after the undelivered updates of its session', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, plain, { clock });
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  await putSession(cpo, 'S1', { kwh: 1 });
  await putSession(cpo, 'S1', { kwh: 2, status: 'COMPLETED' });
  await postCdr(cpo, 'C1', 'S1');
  await postCdr(cpo, 'C2', 'S2');
  await hub.settled(emsp);
  t.equal(callsTo(emsp, 'cdrs').length, 1, 'the CDR of another session is in flight');
  t.equal(holding.held.length, 2);
  holding.releaseOne();
  await hub.settled(emsp);
  t.equal(callsTo(emsp, 'sessions').length, 2, 'the second update is in flight');
  t.equal(callsTo(emsp, 'cdrs').length, 1, 'one update is still not delivered');
  holding.releaseAll();
  await hub.settled(emsp);
  t.equal(callsTo(emsp, 'cdrs').length, 2, 'the CDR follows, without any time passing');
});

t.test('a CDR waits at most 10 s for its session', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, { ...plain, HUB_RETRY_SCHEDULE_S: '3600' }, { clock });
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: ({ path }) => (path.includes('/sessions') ? { status: 500 } : {}),
  });
  await putSession(cpo, 'S1');
  await hub.settled(emsp);
  t.equal((await deliveriesOf(hub))[0]?.attempts.length, 1, 'the update failed');
  await postCdr(cpo, 'C1', 'S1');
  clock.advance(9_999);
  await hub.settled(emsp);
  t.equal(callsTo(emsp, 'cdrs').length, 0);
  clock.advance(1);
  await hub.settled(emsp);
  t.equal(callsTo(emsp, 'cdrs').length, 1, 'the CDR goes alone');
  t.match(await deliveriesOf(hub, '?module=sessions'), [{ state: 'PENDING' }]);
});

t.test('a CDR that failed once keeps its due time when its session is done', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, { ...plain, HUB_RETRY_SCHEDULE_S: '30' }, { clock });
  let sessionsIll = true;
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: ({ path }): Reply => {
      if (path.includes('/cdrs')) return { status: 503, headers: { 'Retry-After': '600' } };
      return sessionsIll ? { status: 500 } : {};
    },
  });
  await putSession(cpo, 'S1');
  await hub.settled(emsp);
  t.equal((await deliveriesOf(hub))[0]?.attempts.length, 1, 'the update failed');
  await postCdr(cpo, 'C1', 'S1');
  clock.advance(10_000);
  const cdr = async () => (await deliveriesOf(hub, '?module=cdrs'))[0];
  await hub.settled(emsp);
  t.equal((await cdr())?.attempts.length, 1, 'the CDR was tried');
  const due = (await cdr())?.due_at;
  sessionsIll = false;
  clock.advance(20_000);
  await hub.settled(emsp);
  t.equal((await deliveriesOf(hub, '?module=sessions'))[0]?.state, 'DELIVERED', 'the session is done');
  t.equal(callsTo(emsp, 'cdrs').length, 1, 'the receiver asked for ten minutes');
  t.equal((await cdr())?.due_at, due);
});

t.test('a partner that answers calls in parallel gets more in flight, up to the setting', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, { ...plain, HUB_DELIVERY_CONCURRENCY: '40' }, { clock });
  const owed = isAtLength ? 400 : 200;
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  for (let n = 1; n <= owed; n++) await putSession(cpo, `S${n}`);
  const held: number[] = [];
  while (emsp.received.length < owed || holding.held.length > 0) {
    await hub.settled(emsp);
    held.push(holding.held.length);
    clock.advance(200);
    for (let left = holding.held.length; left > 0; left--) holding.releaseOne();
    await emsp.gotCalls(Math.min(owed, emsp.received.length + 1));
  }
  t.equal(held[0], 8, 'nothing is known of it yet');
  t.equal(Math.max(...held), 40, `${held}`);
  await quiet(hub);
});

t.test('a partner whose window is full does not throttle others', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, plain, { clock });
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  for (let n = 1; n <= 20; n++) await putSession(cpo, `S${n}`);
  await hub.settled(emsp);
  t.equal(holding.held.length, 8, 'its window is full');
  clock.advance(10_000);
  await hub.settled(emsp);
  const forwardingMs = hub.created.forwardingLagMs();
  t.equal(forwardingMs, 0, 'what waits for it does so for ten seconds, and the hub does not lag');
  const load = { requests: 0, ofPartner: 0, bytes: 0, heap: 0, loopDelayMs: 0, forwardingMs };
  t.same(judge('push', load, scalesFor(1)), { kind: 'take', pauseMs: 0 });
  holding.releaseAll();
  await quiet(hub);
});

for (const why of ['a pause', 'a restart', 'an open circuit', 'a circuit that an operator closed'] as const) {
  const tier = why.includes('circuit') ? atLength : {};
  t.test(
    `a partner that catches up after ${why} is no reason to take less from others [RECEIVER-3]`,
    tier,
    async (t) => {
      const dir = directoryFor(t);
      const retryS = 36_000;
      const env = {
        HUB_RETRY_JITTER: '0',
        HUB_RETRY_SCHEDULE_S: `${retryS}`,
        HUB_CIRCUIT_FAILURES: '3',
        HUB_PROBE_INTERVAL_S: '1000000',
      };
      const isPause = why === 'a pause' || why === 'a restart';
      // All partners together have one call in flight: while one of them holds it, all else waits for the hub.
      const begin = (clock: SimulatedClock) => hubFor(t, env, { clock, inFlightMax: 1 }, dir);
      let clock = new SimulatedClock(start);
      let hub = await begin(clock);
      const [holding, other] = [new Holding(), new Holding()];
      const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
      const options = { role: 'EMSP', countryCode: 'NL', partyId: 'OTH', answer: other.answer } as const;
      const another = await partnerFor(t, hub, options);
      await admin(hub, 'PUT', `/routes/${another.id}/${cpo.id}`, { active: true });
      const toOther = { cdr_token: { ...(sessionBody('').cdr_token as object), party_id: 'OTH' } };
      const busyWithOther = async (id: string) => {
        await putSession(cpo, id, toOther);
        await hub.settled(emsp, another);
        // It has its turn after the partner whose call ends.
        for (let left = 2; left > 0 && other.held.length === 0; left--) {
          holding.releaseOne();
          await hub.settled(emsp, another);
        }
        t.equal(other.held.length, 1, 'the only call is that of the other partner');
      };

      const owe = async (from: number, to: number) => {
        for (let n = from; n <= to; n++) await putSession(cpo, `S${n}`);
        await hub.settled(emsp);
      };
      const answer = async (reply: Reply, times: number) => {
        for (let left = times; left > 0; left--) {
          holding.releaseOne(reply);
          await hub.settled(emsp);
        }
      };

      if (isPause) await pause(hub, emsp.id, true);
      await owe(1, why === 'an open circuit' ? 3 : 12);
      if (why === 'a restart') {
        await hub.close();
        clock = new SimulatedClock('2026-01-02T04:00:00Z');
        hub = await begin(clock);
        cpo.moveTo(hub);
      }
      if (!isPause) {
        await answer({ status: 500 }, 3);
        t.equal(await asyncCircuit(hub, emsp.id), 'open');
        if (why === 'an open circuit') {
          await owe(4, 12);
          clock.advance(60_000);
        } else await admin(hub, 'POST', `/parties/${emsp.id}/circuits/async`, { state: 'closed' });
        await hub.settled(emsp);
        await answer({}, 1);
      }
      await busyWithOther('O1');
      clock.advance(60_000);
      if (isPause) await pause(hub, emsp.id, false);
      await hub.settled(emsp, another);
      t.equal(await asyncCircuit(hub, emsp.id), 'closed');
      t.ok((await deliveriesOf(hub, '?state=PENDING')).length > 5, 'much waits');
      t.equal(hub.created.forwardingLagMs(), 0);

      holding.open = {};
      other.releaseOne();
      await hub.settled(emsp, another);
      clock.advance(retryS * 1_000);
      await quiet(hub);
      await busyWithOther('O2');
      await putSession(cpo, 'S13');
      clock.advance(500);
      await hub.settled(emsp, another);
      t.equal(hub.created.forwardingLagMs(), 500, 'what comes when it has caught up counts');
      other.releaseAll();
      await quiet(hub);
    },
  );
}

t.test('partners take turns: the backlog of one delays no other', async (t) => {
  const hub = await hubFor(t, plain);
  const arrivals: string[] = [];
  let isOpen = false;
  const gate = new Holding();
  const names = { countryCode: 'NL', role: 'EMSP' } as const;
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const answer = (who: string) => async (received: Received) => {
    arrivals.push(who);
    return isOpen ? {} : gate.answer(received);
  };
  const partners: PlainPartner[] = [];
  for (const who of ['BIG', 'SML']) {
    partners.push(await partnerFor(t, hub, { ...names, partyId: who, answer: answer(who) }));
    await admin(hub, 'PUT', `/routes/NL-${who}/NL-CPO`, { active: true });
    await pause(hub, `NL-${who}`, true);
  }
  const token = (party_id: string) => ({ cdr_token: { ...(sessionBody('').cdr_token as object), party_id } });
  const [many, few] = isAtLength ? [400, 20] : [120, 12];
  for (let n = 1; n <= many; n++) await putSession(cpo, `B${n}`, token('BIG'));
  for (let n = 1; n <= few; n++) await putSession(cpo, `S${n}`, token('SML'));
  await pause(hub, 'NL-BIG', false);
  await hub.settled(...partners);
  t.equal(arrivals.length, 8, 'its slots are full');
  await pause(hub, 'NL-SML', false);
  await hub.settled(...partners);
  t.equal(arrivals.length, 16, 'the other has slots of its own');
  isOpen = true;
  gate.releaseAll();
  await quiet(hub);
  t.equal(arrivals.length, many + few);
  const before = arrivals.slice(0, arrivals.lastIndexOf('SML'));
  const overtaken = before.filter((who) => who === 'BIG').length;
  t.ok(overtaken < 6 * few, `${overtaken} of ${many} arrived before the last of ${few}`);
});

t.test('a receiver that hangs delays no other', async (t) => {
  const hub = await hubFor(t, plain);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const hanging = new Holding();
  const ids = ['HNG', 'E01', 'E02', 'E03'];
  const partners: PlainPartner[] = [];
  for (const partyId of ids) {
    const answer = partyId === 'HNG' ? { answer: hanging.answer } : {};
    partners.push(await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId, ...answer }));
    await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
  }
  for (let n = 1; n <= 50; n++) await cpo.push('PUT', `/2.2.1/locations/NL/CPO/L${n}`, locationBody(`L${n}`));
  await hub.settled(...partners);
  t.ok(
    partners.slice(1).every(({ received }) => received.length === 50),
    'all of the others arrived',
  );
  t.equal(partners[0]?.received.length, 8, 'meanwhile the first eight hang');
  hanging.releaseAll();
  await quiet(hub);
  t.equal(partners[0]?.received.length, 50);
});

t.test('Retry-After moves the next attempt of its lane, and of no other', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, { ...plain, HUB_RETRY_SCHEDULE_S: '1' }, { clock });
  const replies: Reply[] = [{ status: 429, headers: { 'Retry-After': '90' } }];
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => replies.shift() ?? {} });
  await putSession(cpo, 'A');
  await hub.settled(emsp);
  t.equal((await deliveriesOf(hub))[0]?.due_at, '2026-01-02T03:01:30.000Z', 'it was put off');
  await putSession(cpo, 'B');
  await hub.settled(emsp);
  t.equal(emsp.received.length, 2, 'the other lane flows');
  clock.advance(89_999);
  await hub.settled(emsp);
  t.equal(emsp.received.length, 2);
  clock.advance(1);
  await hub.settled(emsp);
  t.equal(emsp.received.length, 3, 'now it is sent');
});

const hours = (count: number) => Array.from({ length: count }, () => 3600);
const ladder = [1, 2, 5, 15, 30, 60, 120, 300, 600, 1200, 1800];

for (const [module, waits] of [
  ['sessions', [...ladder, ...hours(22)]],
  ['cdrs', [...ladder, ...hours(70)]],
] as const) {
  const tier = module === 'sessions' ? {} : atLength;
  t.test(
    `${module}: the schedule is 1, 2, 5, 15, 30 s, 1 to 30 min, then hourly, and its end is by age`,
    tier,
    async (t) => {
      const clock = new SimulatedClock(start);
      const hub = await hubFor(t, plain, { clock });
      const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status: 500 }) });
      await (module === 'cdrs' ? postCdr(cpo, 'C1', 'other') : putSession(cpo, 'S1'));
      const found = async () => (await deliveriesOf(hub))[0];
      const waited: number[] = [];
      for (;;) {
        const attempts = waited.length + 1;
        await hub.settled(emsp);
        const { due_at, attempts: made } = (await found()) ?? {};
        t.equal(made?.length, attempts, `attempt ${attempts}`);
        if (!due_at) break;
        const due = Date.parse(due_at);
        waited.push((due - Date.parse(made?.at(-1)?.at ?? '')) / 1000);
        clock.advance(due - 1 - clock.now());
        if (attempts <= ladder.length) await hub.settled(emsp);
        t.equal(emsp.received.length, attempts, `nothing a millisecond before attempt ${attempts + 1} is due`);
        clock.advance(1);
      }
      t.same(waited, waits);
      t.match(await found(), { state: 'DEAD', due_at: null, reason: /^expired; .*HTTP 500/ });
      const inLog = async () =>
        (await admin(hub, 'GET', '/events?type=delivery.dead')).items as { data: { class: string } }[];
      await hub.settled(emsp);
      t.equal((await inLog())[0]?.data.class, 'expired', 'the log says so too');
    },
  );
}

t.test('each wait varies by a fifth in both directions', atLength, async (t) => {
  for (const [random, waitMs] of [
    [0, 800],
    [0.5, 1_000],
    [1, 1_200],
  ] as const) {
    const clock = new SimulatedClock(start);
    const hub = await hubFor(t, {}, { clock, random: () => random }, directoryFor(t));
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status: 500 }) });
    await putSession(cpo, 'S1');
    const due = new Date(Date.parse(start) + waitMs).toISOString();
    await hub.settled(emsp);
    t.equal((await deliveriesOf(hub))[0]?.due_at, due, `due at ${due}`);
    await hub.close();
  }
  t.pass('the three waits are 0.8, 1 and 1.2 s');
});

t.test('a delivery that expires while nothing can be sent is dead without an attempt', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, plain, { clock });
  const { cpo, emsp } = await routedPair(t, hub);
  await pause(hub, 'NL-EMS', true);
  await putSession(cpo, 'S1');
  await postCdr(cpo, 'C1', 'other');
  clock.advance(24 * 3_600_000 + 1);
  await putSession(cpo, 'S2');
  await pause(hub, 'NL-EMS', false);
  await quiet(hub);
  t.same(emsp.received.map(({ path }) => path).sort(), ['/ocpi/2.2.1/cdrs', '/ocpi/2.2.1/sessions/NL/CPO/S2']);
  t.match(await deliveriesOf(hub, '?state=DEAD'), [
    { object: 'NL-CPO/S1', attempts: { length: 0 }, reason: /^expired/ },
  ]);
});

t.test('a partner that is added as paused is paused from its registration on', async (t) => {
  const hub = await hubFor(t, plain);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' }, { paused: true });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  await putSession(cpo, 'S1');
  await hub.settled();
  t.match(await admin(hub, 'GET', '/parties/NL-EMS'), { settings: { paused: true }, queue: { depth: 1, dead: 0 } });
  t.same(emsp.received, []);
  await pause(hub, 'NL-EMS', false);
  await quiet(hub);
  t.match(emsp.received, [{ method: 'PUT', path: '/ocpi/2.2.1/sessions/NL/CPO/S1' }]);
});

t.test('a circuit opens, lets one call through at a time, and recovers by 1, 2, 4, 8', async (t) => {
  const clock = new SimulatedClock(start);
  const eight = { HUB_RETRY_JITTER: '0', HUB_RETRY_SCHEDULE_S: '36000', HUB_DELIVERY_CONCURRENCY: '8' };
  const hub = await hubFor(t, eight, { clock });
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  for (let n = 1; n <= 40; n++) await putSession(cpo, `S${n}`);
  await hub.settled(emsp);
  t.equal(holding.held.length, 8, 'eight are in flight');
  const state = () => asyncCircuit(hub, 'NL-EMS');
  for (let n = 1; n <= 5; n++) {
    t.equal(await state(), 'closed', `${n - 1} failures in a row`);
    holding.releaseOne({ status: 500 });
    await hub.settled(emsp);
    if (n < 5) t.equal(emsp.received.length, 8 + n, 'the next one takes its place');
  }
  t.equal(await state(), 'open', 'five failures in a row open it');
  // Seven were under way; how they end changes nothing.
  for (let n = 0; n < 7; n++) holding.releaseOne({ status: 500 });
  await hub.settled(emsp);
  t.equal(emsp.received.length, 12, 'nothing is sent while it is open');
  clock.advance(4_999);
  await hub.settled(emsp);
  t.equal(emsp.received.length, 12);
  clock.advance(1);
  await hub.settled(emsp);
  t.equal(holding.held.length, 1, 'one is let through');
  t.equal(holding.held.length, 1);
  t.equal(await state(), 'halfOpen');
  holding.releaseOne({ status: 500 });
  await hub.settled(emsp);
  t.equal(await state(), 'open', 'it opens again');
  clock.advance(9_999);
  await hub.settled(emsp);
  t.equal(emsp.received.length, 13, 'for twice as long');
  clock.advance(1);
  for (const [inFlight, circuit] of [
    [1, 'halfOpen'],
    [1, 'halfOpen'],
    [1, 'closed'],
    [2, 'closed'],
    [4, 'closed'],
    [8, 'closed'],
  ] as const) {
    await hub.settled(emsp);
    t.equal(holding.held.length, inFlight, `${inFlight} in flight`);
    t.equal(holding.held.length, inFlight);
    t.equal(await state(), circuit);
    holding.releaseOne();
  }
  holding.releaseAll();
  await hub.settled(emsp);
  t.equal((await deliveriesOf(hub, '?state=DELIVERED')).length, 40 - 13, 'all but those that failed arrived');
});

t.test('half of ten calls within 30 s open a circuit, too', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '36000' }, { clock });
  const { cpo, emsp } = await routedPair(t, hub, { emsp: (received) => (kwhOf(received) % 2 ? { status: 500 } : {}) });
  for (let kwh = 1; kwh <= 9; kwh++) {
    await putSession(cpo, `S${kwh}`, { kwh });
    await hub.settled(emsp);
    t.equal((await deliveriesOf(hub))[0]?.attempts.length, 1, 'it was tried');
  }
  t.equal(await asyncCircuit(hub, 'NL-EMS'), 'closed');
  await putSession(cpo, 'S11', { kwh: 11 });
  await hub.settled(emsp);
  t.equal(await asyncCircuit(hub, 'NL-EMS'), 'open', 'the tenth opens it');
});

t.test(
  'a delivery that becomes due while a circuit is open or a partner paused waits without an attempt',
  async (t) => {
    const clock = new SimulatedClock(start);
    const hub = await hubFor(t, { ...plain, HUB_RETRY_SCHEDULE_S: '10' }, { clock });
    let ill = true;
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => (ill ? { status: 500 } : {}) });
    await putSession(cpo, 'S1');
    await hub.settled(emsp);
    t.equal((await deliveriesOf(hub))[0]?.attempts.length, 1, 'it failed');
    await pause(hub, 'NL-EMS', true);
    clock.advance(60_000);
    await hub.settled(emsp);
    t.equal(emsp.received.length, 1);
    t.match(await deliveriesOf(hub), [{ state: 'PENDING', attempts: [{}] }]);
    ill = false;
    await pause(hub, 'NL-EMS', false);
    await hub.settled(emsp);
    t.equal(emsp.received.length, 2, 'it goes out');
  },
);

const circuitByHand = (hub: Parameters<typeof admin>[0], id: string, isOpen: boolean) =>
  admin(hub, 'POST', `/parties/${id}/circuits/async`, { state: isOpen ? 'open' : 'closed' });

type Stop = (hub: TestHub, emsp: PlainPartner) => Promise<unknown>;

/** An eMSP whose only delivery failed once, after `stop` ended while the event was read from the log for the second attempt. */
async function stoppedWhileRead(t: Test, stop: Stop) {
  const clock = new SimulatedClock(start);
  let read = () => {};
  let held: Promise<void> | null = null;
  const wrap = wrapStore((store) => ({
    event: async (seq) => {
      const event = await store.event(seq);
      if (held) {
        read();
        await held;
      }
      return event;
    },
  }));
  const hub = await hubFor(t, { ...plain, HUB_RETRY_SCHEDULE_S: '10' }, { clock, wrap });
  let ill = true;
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => (ill ? { status: 500 } : {}) });
  await putSession(cpo, 'S1');
  await hub.settled(emsp);
  ill = false;
  let release = () => {};
  const isRead = new Promise<void>((resolve) => {
    read = resolve;
  });
  held = new Promise((resolve) => {
    release = resolve;
  });
  clock.advance(10_000);
  await isRead;
  await stop(hub, emsp);
  held = null;
  release();
  await hub.settled(emsp);
  t.equal(emsp.received.length, 1, 'it is not sent');
  return { hub, emsp };
}

for (const { what, stop } of [
  { what: 'a pause', stop: pause },
  { what: 'a circuit that an operator opens', stop: circuitByHand },
])
  t.test(`${what} while a delivery is read from the log holds it back [DISPATCHER-3]`, async (t) => {
    const { hub, emsp } = await stoppedWhileRead(t, (hub, { id }) => stop(hub, id, true));
    await stop(hub, emsp.id, false);
    await hub.settled(emsp);
    t.equal(emsp.received.length, 2, 'it goes out');
  });

const ends: readonly { what: string; stop: Stop }[] = [
  { what: 'a suspension', stop: (hub, { id }) => admin(hub, 'POST', `/parties/${id}/suspend`) },
  { what: 'an unregistration', stop: (_, emsp) => emsp.push('DELETE', '/2.2.1/credentials') },
];

for (const { what, stop } of ends)
  t.test(`${what} while a delivery is read from the log ends it [D50]`, async (t) => {
    const { hub } = await stoppedWhileRead(t, stop);
    t.match(await deliveriesOf(hub), [{ state: 'DEAD', reason: 'suspended', attempts: { length: 1 } }]);
  });

t.test('a rotation while a delivery is read from the log sends it to the new URL with the new token', async (t) => {
  const next = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  t.teardown(() => next.close());
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS' }];
  const body = { token: next.token, url: `${next.url}/ocpi/versions`, roles };
  const { hub } = await stoppedWhileRead(t, (_, emsp) => emsp.push('PUT', '/2.2.1/credentials', body));
  await hub.settled(next);
  t.equal(next.received.length, 1);
});

t.test('due times survive a restart', async (t) => {
  const dir = directoryFor(t);
  const env = { ...plain, HUB_RETRY_SCHEDULE_S: '60' };
  const first = await hubFor(t, env, { clock: new SimulatedClock('2026-01-02T03:00:00Z') }, dir);
  let ill = true;
  const { cpo, emsp } = await routedPair(t, first, { emsp: () => (ill ? { status: 500 } : {}) });
  await putSession(cpo, 'S1', { kwh: 1 });
  await putSession(cpo, 'S1', { kwh: 2 });
  await first.settled(emsp);
  t.equal((await deliveriesOf(first))[1]?.attempts.length, 1, 'it failed');
  const due_at = '2026-01-02T03:01:00.000Z';
  t.match(await deliveriesOf(first), [{ due_at: null }, { due_at }]);
  await first.close();
  ill = false;
  const clock = new SimulatedClock('2026-01-02T03:00:30Z');
  const second = await hubFor(t, env, { clock }, dir);
  t.match(await deliveriesOf(second), [
    { state: 'PENDING', due_at: null },
    { state: 'PENDING', due_at },
  ]);
  clock.advance(29_999);
  await second.settled(emsp);
  t.equal(emsp.received.length, 1, 'not a millisecond early');
  clock.advance(1);
  await quiet(second);
  t.same(emsp.received.map(kwhOf), [1, 1, 2]);
  t.match(await deliveriesOf(second), [
    { attempts: [{}] },
    { attempts: [{ class: 'unavailable' }, { class: 'delivered' }] },
  ]);
});

t.test('deliveries that became due while the hub was down are sent at its start', async (t) => {
  const dir = directoryFor(t);
  const env = { ...plain, HUB_RETRY_SCHEDULE_S: '60' };
  const first = await hubFor(t, env, { clock: new SimulatedClock('2026-01-02T03:00:00Z') }, dir);
  let ill = true;
  const { cpo, emsp } = await routedPair(t, first, { emsp: () => (ill ? { status: 500 } : {}) });
  await putSession(cpo, 'S1');
  await first.settled(emsp);
  t.equal((await deliveriesOf(first))[0]?.attempts.length, 1, 'it failed');
  await first.close();
  ill = false;
  const clock = new SimulatedClock('2026-01-02T03:02:00Z');
  const second = await hubFor(t, env, { clock }, dir);
  // A simulated clock fires nothing by itself, not even what is due already.
  clock.advance(0);
  await quiet(second);
  t.equal(emsp.received.length, 2);
});

t.test('an open circuit is half-open after a restart, and a pause remains', async (t) => {
  const dir = directoryFor(t);
  const env = { HUB_RETRY_SCHEDULE_S: '36000' };
  const first = await hubFor(t, env, { clock: new SimulatedClock('2026-01-02T03:00:00Z') }, dir);
  let ill = true;
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, first, {
    emsp: (received) => (ill ? { status: 500 } : holding.answer(received)),
  });
  for (let n = 1; n <= 20; n++) await putSession(cpo, `S${n}`);
  await first.settled(emsp);
  t.equal(await asyncCircuit(first, 'NL-EMS'), 'open', 'the circuit is open');
  const ended = (await deliveriesOf(first)).filter(({ attempts }) => attempts.length > 0);
  t.equal(ended.length, emsp.received.length, 'what was under way has ended');
  const tried = emsp.received.length;
  await pause(first, 'NL-EMS', true);
  await first.close();
  ill = false;
  const second = await hubFor(t, env, { clock: new SimulatedClock('2026-01-02T03:00:01Z') }, dir);
  t.equal(await asyncCircuit(second, 'NL-EMS'), 'halfOpen');
  await second.settled(emsp);
  t.equal(emsp.received.length, tried, 'the pause outlasts the restart');
  await pause(second, 'NL-EMS', false);
  await second.settled(emsp);
  t.equal(holding.held.length, 1, 'one is let through');
  t.equal(holding.held.length, 1);
  holding.releaseAll();
  await second.settled(emsp);
  t.equal(emsp.received.length, 20, 'the rest follows');
});

t.test('a receiver without the endpoint: dead at once, and a re-drive repairs it [D50]', async (t) => {
  const hub = await hubFor(t, plain);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const modules = [['locations', 'RECEIVER']] as const;
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS', modules });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  await putSession(cpo, 'S1');
  await quiet(hub);
  const [dead] = await deliveriesOf(hub);
  t.match(dead, { state: 'DEAD', reason: 'no receiver endpoint', attempts: { length: 0 }, due_at: null });
  const inLog = async () =>
    (await admin(hub, 'GET', '/events?type=delivery.dead')).items as { data: { class: string } }[];
  await hub.settled(emsp);
  t.equal((await inLog())[0]?.data.class, 'not_found', 'the log says so too');
  t.match(await admin(hub, 'GET', '/parties/NL-EMS'), { queue: { depth: 0, dead: 1 } });
  const endpoints = [{ identifier: 'sessions', role: 'RECEIVER', url: `${emsp.url}/mine/` }];
  await admin(hub, 'PUT', '/parties/NL-EMS/endpoints', { endpoints });
  await admin(hub, 'POST', `/deliveries/${dead?.id}/redrive`);
  await quiet(hub);
  t.same(
    emsp.received.map(({ path }) => path),
    ['/mine/NL/CPO/S1'],
  );
  t.match(await deliveriesOf(hub), [{ id: dead?.id, state: 'DELIVERED', reason: null }]);
  t.match(await admin(hub, 'GET', '/parties/NL-EMS'), { queue: { depth: 0, dead: 0 } });
});

t.test('deliveries to a suspended partner are dead, and nothing more is owed to it [D50]', async (t) => {
  const hub = await hubFor(t, { ...plain, HUB_RETRY_SCHEDULE_S: '3600' });
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status: 500 }) });
  await putSession(cpo, 'S1', { kwh: 1 });
  await putSession(cpo, 'S1', { kwh: 2 });
  await postCdr(cpo, 'C1', 'S1');
  await hub.settled(emsp);
  t.equal(emsp.received.length, 1, 'one was tried');
  t.equal((await deliveriesOf(hub)).at(-1)?.attempts.length, 1, 'and failed');
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  await quiet(hub);
  const suspended = { state: 'DEAD', reason: 'suspended', due_at: null };
  t.match(await deliveriesOf(hub), [suspended, suspended, suspended]);
  await putSession(cpo, 'S2');
  t.equal((await deliveriesOf(hub)).length, 3);
  t.equal(emsp.received.length, 1);
});

t.test(
  'a kill in the middle of that is made good at the start, whenever the next attempts were due [D50]',
  async (t) => {
    const dir = directoryFor(t);
    const env = { ...plain, HUB_RETRY_SCHEDULE_S: '3600' };
    const wrap = wrapStore((store) => ({
      settle: async (fence, rows, floors) => {
        if (rows.some(({ state }) => state === 'DEAD')) throw new Error('not written before the kill');
        await store.settle(fence, rows, floors);
      },
    }));
    const hub = await hubFor(t, env, { wrap }, dir);
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status: 500 }) });
    for (const kwh of [1, 2]) await putSession(cpo, 'S1', { kwh });
    await hub.settled(emsp);
    await admin(hub, 'POST', '/parties/NL-EMS/suspend');
    await quiet(hub);
    await hub.close();
    const next = await hubFor(t, env, {}, dir);
    await quiet(next);
    const suspended = { state: 'DEAD', reason: 'suspended', due_at: null };
    t.match(await deliveriesOf(next), [suspended, suspended]);
    t.equal(emsp.received.length, 1);
  },
);
