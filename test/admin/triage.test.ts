/**
 * Triage of orphan cases and of groups of dead letters: assign, snooze and remark; what it does to lists and to the overview; when it
 * ends; and that it lasts.
 */

import { StoreUnavailable } from '../../storage/contract.ts';
import { HeldWrites } from '../delivery/held-writes.ts';
import { deliveriesOf, putSession } from '../delivery/watched.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { closed, hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf, quiet } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';

const minuteMs = 60_000;
const group = '/dead-letters/NL-EMS/sessions/not_found/triage';

const statusOf = async (hub: TestHub, path: string, body: object) =>
  (await callOnce('POST', `${hub.url}/admin/v1${path}`, body, { Authorization: `Bearer ${hub.adminToken}` })).status;

const rowOf = async (hub: TestHub, id: string) =>
  ((await admin(hub, 'GET', '/overview')).rows as Record<string, unknown>[]).find((row) => row.id === id);

t.test('a group of dead letters is assigned, snoozed and commented on, and its snooze ends by itself', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:00:00.000Z');
  const dataDir = directoryFor(t);
  const hub = await hubFor(t, {}, { clock }, dataDir);
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  for (const id of ['S1', 'S2', 'S3']) {
    await putSession(cpo, id);
    await quiet(hub);
    clock.advance(minuteMs / 3);
  }
  t.match(await itemsOf(hub, '/dead-letters'), [
    { count: 3, oldest_at: '2026-01-02T03:00:00.000Z', newest_at: '2026-01-02T03:00:40.000Z', triage: null },
  ]);
  t.strictSame(await admin(hub, 'POST', group, { assignee: 'ann', remark: 'the eMSP looks into it' }), {
    assignee: 'ann',
    snoozed_until: null,
    remarks: [{ at: '2026-01-02T03:01:00.000Z', by: 'admin', text: 'the eMSP looks into it' }],
  });
  clock.advance(minuteMs);
  const wakes = '2026-01-02T03:31:00.000Z';
  t.match(await admin(hub, 'POST', group, { snooze_until: '2026-01-02T04:31:00+01:00', remark: 'they called' }), {
    assignee: 'ann',
    snoozed_until: wakes,
    remarks: [{ text: 'the eMSP looks into it' }, { text: 'they called', at: '2026-01-02T03:02:00.000Z' }],
  });
  t.match(await itemsOf(hub, '/dead-letters?assignee=ann'), [{ count: 3, triage: { snoozed_until: wakes } }]);
  t.strictSame(await itemsOf(hub, '/dead-letters?assignee=bob'), []);
  clock.advance(1_000);
  t.match(await rowOf(hub, 'NL-EMS'), { dead: 3, dead_snoozed: 3 });

  await closed(hub, clock);
  const again = await hubFor(t, {}, { clock }, dataDir);
  t.match(await itemsOf(again, '/dead-letters'), [{ count: 3, triage: { assignee: 'ann', remarks: { length: 2 } } }]);
  t.match(await rowOf(again, 'NL-EMS'), { dead: 3, dead_snoozed: 3 });
  clock.advance(30 * minuteMs);
  t.match(await rowOf(again, 'NL-EMS'), { dead: 3, dead_snoozed: 0 }, 'it wakes when its time is over');
  t.match(await admin(again, 'POST', group, { assignee: null, snooze_until: null }), {
    ...{ assignee: null, snoozed_until: null, remarks: { length: 2 } },
  });
  const about = 'triage:NL-EMS:sessions:not_found';
  t.match(await itemsOf(again, '/events?type=triage.changed&party=NL-EMS'), [
    ...[1, 2, 3].map(() => ({ about, by: 'operator', who: 'admin' })),
  ]);
});

t.test('a triage ends with the last dead letter of its group; later dead letters begin a new one', async (t) => {
  const dataDir = directoryFor(t);
  const hub = await hubFor(t, {}, {}, dataDir);
  let status = 404;
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status }) });
  const far = { snooze_until: '2999-01-01T00:00:00Z', assignee: 'ann' };
  const cleared = async (times: number) => t.equal((await itemsOf(hub, '/events?type=triage.ended')).length, times);

  for (const id of ['S1', 'S2']) await putSession(cpo, id);
  await quiet(hub);
  await admin(hub, 'POST', group, far);
  const [one, other] = await deliveriesOf(hub);
  await admin(hub, 'POST', `/deliveries/${one?.id}/discard`);
  await quiet(hub);
  t.match(await itemsOf(hub, '/dead-letters'), [{ count: 1, triage: { assignee: 'ann' } }], 'one is left');
  status = 200;
  await admin(hub, 'POST', `/deliveries/${other?.id}/redrive`);
  await quiet(hub);
  await cleared(1);
  t.equal(await statusOf(hub, group, far), 404, 'there is nothing to take care of');

  status = 404;
  await putSession(cpo, 'S3');
  await quiet(hub);
  t.match(await itemsOf(hub, '/dead-letters'), [{ count: 1, triage: null }]);
  t.match(await rowOf(hub, 'NL-EMS'), { dead: 1, dead_snoozed: 0 });
  await admin(hub, 'POST', group, far);
  const [later] = await deliveriesOf(hub, '?state=DEAD');
  await admin(hub, 'POST', `/deliveries/${later?.id}/discard`);
  await quiet(hub);
  await cleared(2);
  await hub.close();
  const again = await hubFor(t, {}, {}, dataDir);
  t.strictSame(await itemsOf(again, '/dead-letters'), []);
});

t.test('a triage of the dead letters of a partner’s second party survives a restart', async (t) => {
  const dataDir = directoryFor(t);
  const hub = await hubFor(t, {}, {}, dataDir);
  const names = { countryCode: 'NL', answer: () => ({ status: 404 }) } as const;
  const others = [{ role: 'EMSP', country_code: 'NL', party_id: 'EMT' }] as const;
  const cpo = await partnerFor(t, hub, { ...names, role: 'CPO', partyId: 'CPO' });
  await partnerFor(t, hub, { ...names, role: 'EMSP', partyId: 'EMS', others });
  await admin(hub, 'PUT', '/routes/NL-EMT/NL-CPO', { active: true });
  const cdr_token = { country_code: 'NL', party_id: 'EMT', uid: 'CARD2', type: 'RFID', contract_id: 'NL-EMT-C2' };
  await putSession(cpo, 'S1', { cdr_token });
  await quiet(hub);
  const ofSecond = group.replace('NL-EMS', 'NL-EMT');
  await admin(hub, 'POST', ofSecond, { assignee: 'ann', snooze_until: '2999-01-01T00:00:00Z' });
  await hub.close();
  const again = await hubFor(t, {}, {}, dataDir);
  await quiet(again);
  t.match(await rowOf(again, 'NL-EMS'), { dead: 1, dead_snoozed: 1 });
  t.match(await itemsOf(again, '/dead-letters'), [{ count: 1, triage: { assignee: 'ann' } }]);
  t.strictSame(await itemsOf(again, '/events?type=triage.ended'), []);
  await admin(again, 'POST', ofSecond, { remark: 'still there' });
});

t.test('a triage that is set while its group ends does not remain', async (t) => {
  const held = new HeldWrites();
  const hub = await hubFor(t, {}, { wrap: held.wrap });
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  await putSession(cpo, 'S1');
  await quiet(hub);
  const isHeld = held.hold('triage.changed');
  const triage = admin(hub, 'POST', group, { snooze_until: '2999-01-01T00:00:00Z' });
  await isHeld;
  const [dead] = await deliveriesOf(hub);
  await admin(hub, 'POST', `/deliveries/${dead?.id}/discard`);
  held.release('triage.changed');
  await triage;
  await putSession(cpo, 'S2');
  await quiet(hub);
  t.match(await itemsOf(hub, '/dead-letters'), [{ count: 1, triage: null }]);
});

t.test('the end of a triage survives a kill, as that of its last dead letter does [DEAD-GROUPS-1]', async (t) => {
  const held = new HeldWrites();
  const hub = await hubFor(t, {}, { wrap: held.wrap });
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  const { store, recorder } = hub.created.context;
  const id = 'NL-EMS:sessions:not_found';
  const stored = () => recorder.inTurn(`triage:${id}`, () => store.get({ kind: 'triage', owner: '', id }));
  for (const [act, state] of [
    ['discard', 'DISCARDED'],
    ['redrive', 'PENDING'],
  ] as const) {
    await putSession(cpo, `S-${act}`);
    await quiet(hub);
    await admin(hub, 'POST', group, { assignee: 'ann' });
    const [dead] = await deliveriesOf(hub, '?state=DEAD');
    const isHeld = held.hold(state);
    const done = admin(hub, 'POST', `/deliveries/${dead?.id}/${act}`);
    await isHeld;
    t.not(await stored(), null, `${act}: a kill now has the dead letter back, and its triage`);
    held.release(state);
    await done;
    t.equal(await stored(), null, act);
    await quiet(hub);
  }
});

t.test('later dead letters do not inherit a triage whose end the store refused', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:00:00.000Z');
  let isRefused = true;
  const wrap = wrapStore((store) => ({
    append: (commit, ...rest) => {
      const isEnd = commit.events.some(({ type }) => type === 'triage.ended');
      if (isRefused && isEnd) throw new StoreUnavailable('the end is refused');
      return store.append(commit, ...rest);
    },
  }));
  const hub = await hubFor(t, {}, { clock, wrap });
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  const notInherited = async (id: string) => {
    await admin(hub, 'POST', group, { snooze_until: '2999-01-01T00:00:00Z', remark: `before ${id}` });
    const [dead] = await deliveriesOf(hub, '?state=DEAD');
    await admin(hub, 'POST', `/deliveries/${dead?.id}/discard`);
    await putSession(cpo, id);
    await quiet(hub);
    t.match(await itemsOf(hub, '/dead-letters'), [{ count: 1, triage: null }]);
    t.match(await rowOf(hub, 'NL-EMS'), { dead: 1, dead_snoozed: 0 });
  };
  await putSession(cpo, 'S1');
  await quiet(hub);
  await notInherited('S2');
  t.equal(await statusOf(hub, group, { assignee: 'ann' }), 503, 'a triage of its own begins after that end');
  isRefused = false;
  t.match(await admin(hub, 'POST', group, { assignee: 'ann' }), { assignee: 'ann', snoozed_until: null, remarks: [] });
  isRefused = true;
  await notInherited('S3');
  isRefused = false;
  clock.advance(1_000);
  const row = { kind: 'triage', owner: '', id: 'NL-EMS:sessions:not_found' };
  await eventually('the end is recorded', async () => (await hub.created.context.store.get(row)) === null);
  t.match(await itemsOf(hub, '/events?type=triage.ended'), [{ by: 'hub' }, { by: 'hub' }]);
});

t.test('a dead letter that is discarded while its event is trimmed is counted once', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:30:00Z');
  const held = new HeldWrites();
  const isHeld = held.hold('trim');
  const hub = await hubFor(t, { HUB_EVENTS_KEEP_DAYS: '1' }, { clock, wrap: held.wrap });
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  await putSession(cpo, 'S1');
  await quiet(hub);
  for (let hour = 0; hour < 20; hour++) {
    clock.advance(60 * minuteMs);
    await hub.settled();
  }
  await putSession(cpo, 'S2');
  await quiet(hub);
  await admin(hub, 'POST', group, { assignee: 'ann' });
  clock.advance(6 * 60 * minuteMs);
  await isHeld;
  const [, old] = await deliveriesOf(hub);
  await admin(hub, 'POST', `/deliveries/${old?.id}/discard`);
  held.release('trim');
  await hub.settled();
  t.match(await itemsOf(hub, '/dead-letters'), [{ count: 1, triage: { assignee: 'ann' } }]);
  t.match((await admin(hub, 'GET', '/parties/NL-EMS')).queue, { dead: 1 });
});

t.test('a snoozed group hides no other group of the same partner', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub, { emsp: ({ path }) => ({ status: path.includes('S1') ? 404 : 400 }) });
  for (const id of ['S1', 'S2', 'S3']) await putSession(cpo, id);
  await quiet(hub);
  await admin(hub, 'POST', group, { snooze_until: '2999-01-01T00:00:00Z' });
  const { rows } = await admin(hub, 'GET', '/overview?after=0');
  t.match(
    (rows as { id: string }[]).find(({ id }) => id === 'NL-EMS'),
    { dead: 3, dead_snoozed: 1 },
  );
});

t.test('a triage is trimmed with its dead letters, not earlier', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:30:00Z');
  const hub = await hubFor(t, { HUB_EVENTS_KEEP_DAYS: '2' }, { clock });
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  const hours = async (many: number) => {
    for (let hour = 0; hour < many; hour++) {
      clock.advance(60 * minuteMs);
      await hub.settled();
    }
  };
  await putSession(cpo, 'S1');
  await quiet(hub);
  await admin(hub, 'POST', group, { assignee: 'ann' });
  await hours(30);
  await putSession(cpo, 'S2');
  await quiet(hub);
  await hours(20);
  t.match(await itemsOf(hub, '/dead-letters'), [{ count: 1, triage: { assignee: 'ann' } }], 'its event was trimmed');
  const { store } = hub.created.context;
  const [kept, ...more] = await store.kept(['triage:NL-EMS:sessions:not_found']);
  t.match(kept, { type: 'triage.changed' }, 'and is kept, so that the row can be rebuilt');
  t.ok(kept && kept.seq <= store.horizon());
  t.strictSame(more, []);
  await hours(36);
  t.strictSame(await itemsOf(hub, '/dead-letters'), []);
  t.match(await itemsOf(hub, '/events?type=triage.ended'), [{ by: 'hub' }]);
});

t.test('an invalid triage is refused with the wrong field', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  await putSession(cpo, 'S1');
  await quiet(hub);
  for (const body of [
    {},
    { assignee: '' },
    { assignee: 'a'.repeat(101) },
    { remark: ' ' },
    { remark: 'a'.repeat(501) },
    { snooze_until: 'tomorrow' },
    { snooze_until: '2020-01-01T00:00:00Z' },
    { snooze_until: '9999-12-31T23:59:59-14:00' },
    { note: 'unknown field' },
  ])
    t.equal(await statusOf(hub, group, body), 422, JSON.stringify(body).slice(0, 60));
  t.equal(await statusOf(hub, '/dead-letters/NL-EMS/sessions/nonsense/triage', { assignee: 'ann' }), 422);
  t.equal(await statusOf(hub, '/dead-letters/NL-EMS/cdrs/not_found/triage', { assignee: 'ann' }), 404);
  t.equal(await statusOf(hub, '/orphans/unknown/triage', { assignee: 'ann' }), 404);
  for (let n = 1; n <= 25; n++) await admin(hub, 'POST', group, { remark: `number ${n}` });
  const [{ triage } = {}] = (await itemsOf(hub, '/dead-letters')) as { triage?: { remarks: { text: string }[] } }[];
  t.strictSame([triage?.remarks.length, triage?.remarks[0]?.text], [20, 'number 6'], 'the last 20 are kept');
});
