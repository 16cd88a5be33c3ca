/** What operators see of the traffic with a partner: last request, answer and error, pushes by module, and silence. */
import type { OverviewView } from '../../src/api/overview.ts';
import type { PartyView } from '../../src/api/parties.ts';
import { Contacts } from '../../src/hub/kernel/contacts.ts';
import { withMethods } from '../../src/kit/with-methods.ts';
import type { Store } from '../../storage/contract.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const hourMs = 3_600_000;
const partyOf = async (hub: TestHub, id: string) => (await admin(hub, 'GET', `/parties/${id}`)) as unknown as PartyView;
const rowOf = async (hub: TestHub, id: string) => {
  const { rows } = (await admin(hub, 'GET', '/overview')) as unknown as OverviewView;
  return rows.find((row) => row.id === id);
};

t.test('the last error of a partner names its status, its answer and its delivery', async (t) => {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '3600' });
  const broken = { status: 500, text: 'the database of the eMSP is full' };
  const { cpo } = await routedPair(t, hub, { emsp: ({ path }) => (path.includes('/sessions/') ? broken : {}) });
  t.equal((await partyOf(hub, 'NL-EMS')).last_error, null);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await eventually('it failed', async () => (await partyOf(hub, 'NL-EMS')).last_error !== null);
  const { last_error, last_answer } = await partyOf(hub, 'NL-EMS');
  t.match(last_error, { what: 'sessions', http_status: 500, class: 'unavailable', excerpt: broken.text });
  t.ok(last_answer, 'an answer of 500 is an answer');
  const delivery = await admin(hub, 'GET', `/deliveries/${last_error?.delivery}`);
  t.match(delivery, { object: 'NL-CPO/S1', receiver: 'NL-EMS' });
  t.match((await rowOf(hub, 'NL-EMS'))?.last_error, { http_status: 500 });
  t.match(await rowOf(hub, 'NL-CPO'), { last_error: null, received: 1 });
  t.ok((await partyOf(hub, 'NL-CPO')).last_request);
});

t.test('a connected CPO that pushes nothing is silent, and its pushes are counted by module', async (t) => {
  const clock = new SimulatedClock('2026-01-02T00:00:00Z');
  const hub = await hubFor(t, { HUB_SILENT_AFTER_H: '2', HUB_PROBE_INTERVAL_S: '86400' }, { clock });
  const { cpo } = await routedPair(t, hub);
  const silent = async (id: string) => (await partyOf(hub, id)).silent_since;
  clock.advance(hourMs);
  for (const id of ['L1', 'L2']) await cpo.call('PUT', `/2.2.1/locations/NL/CPO/${id}`, locationBody(id));
  clock.advance(hourMs / 2);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await hub.settled();
  t.strictSame((await partyOf(hub, 'NL-CPO')).inbound, [
    { module: 'locations', last_push: '2026-01-02T01:00:00.000Z', last_hour: 2 },
    { module: 'sessions', last_push: '2026-01-02T01:30:00.000Z', last_hour: 1 },
  ]);
  clock.advance(hourMs * 1.5);
  t.equal(await silent('NL-CPO'), null, 'two hours have not passed');
  clock.advance(hourMs / 2);
  t.equal(await silent('NL-CPO'), '2026-01-02T01:30:00.000Z');
  t.equal(await silent('NL-EMS'), null, 'an eMSP need not push');
  t.equal((await rowOf(hub, 'NL-CPO'))?.silent_since, '2026-01-02T01:30:00.000Z');
  t.match((await partyOf(hub, 'NL-CPO')).inbound, [{ last_hour: 0 }, { last_hour: 0 }]);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S2', sessionBody('S2'));
  await hub.settled();
  t.equal(await silent('NL-CPO'), null, 'and its next push ends it');
});

t.test('after a restart the last push of a CPO is read from the newest events', async (t) => {
  const clock = new SimulatedClock('2026-01-02T00:00:00Z');
  const hub = await hubFor(t, {}, { clock });
  const { cpo } = await routedPair(t, hub);
  clock.advance(hourMs);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  clock.advance(hourMs);
  const { directory, store } = hub.created.context;
  const restarted = new Contacts(clock, directory, { silentAfterH: 1 });
  const partner = directory.partner('NL-CPO');
  if (!partner) throw new Error('no partner');
  t.equal(restarted.silentSince(partner, clock.now()), null, 'the restarted hub has waited no hour yet');
  await restarted.recall(store);
  t.equal(restarted.silentSince(partner, clock.now()), Date.parse('2026-01-02T01:00:00Z'));
  t.equal(restarted.received('NL-CPO'), 0, 'and counts only what came since');
});

t.test('a hub serves before it has read when its CPOs pushed last', async (t) => {
  const dataDir = directoryFor(t);
  const first = await hubFor(t, {}, {}, dataDir);
  const { cpo } = await routedPair(t, first);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await first.close();
  const order: string[] = [];
  const wrap = <Port extends object>(port: Port): Port => {
    const { ranges } = port as Partial<Store>;
    const read: Store['ranges'] = (of) => {
      order.push('read');
      return (ranges as Store['ranges'])(of);
    };
    return ranges === undefined ? port : withMethods(port, { ranges: read } as object);
  };
  const logTo = { write: (line: string) => void (line.includes('"recovered"') && order.push('recovered')) };
  const hub = await hubFor(t, { HUB_LOG_LEVEL: 'info' }, { wrap, logTo }, dataDir);
  // What watches sessions reads the end of the log before.
  t.strictSame(order.slice(-2), ['recovered', 'read']);
  await eventually('it knows', async () => (await partyOf(hub, 'NL-CPO')).inbound.length === 1);
});

t.test('a CPO with a limit of its own is silent after that limit', async (t) => {
  const clock = new SimulatedClock('2026-01-02T00:00:00Z');
  const hub = await hubFor(t, { HUB_SILENT_AFTER_H: '2', HUB_PROBE_INTERVAL_S: '864000' }, { clock });
  await routedPair(t, hub);
  const set = (silent_after_h: number | null) => admin(hub, 'PATCH', '/parties/NL-CPO', { silent_after_h });
  const silent = async () => (await partyOf(hub, 'NL-CPO')).silent_since;
  t.equal((await partyOf(hub, 'NL-CPO')).settings.silent_after_h, null);
  await set(168);
  clock.advance(167 * hourMs);
  t.equal(await silent(), null);
  clock.advance(hourMs);
  t.equal(await silent(), '2026-01-02T00:00:00.000Z');
  await set(0);
  t.equal(await silent(), null, 'never');
  await set(null);
  t.equal(await silent(), '2026-01-02T00:00:00.000Z', 'as every CPO');
  for (const refused of [-1, 8761, '12']) {
    await t.rejects(admin(hub, 'PATCH', '/parties/NL-CPO', { silent_after_h: refused }), /422/, String(refused));
  }
});

t.test('nobody is silent when HUB_SILENT_AFTER_H is 0', async (t) => {
  const clock = new SimulatedClock('2026-01-02T00:00:00Z');
  const hub = await hubFor(t, { HUB_SILENT_AFTER_H: '0', HUB_PROBE_INTERVAL_S: '864000' }, { clock });
  await routedPair(t, hub);
  clock.advance(100 * hourMs);
  t.equal((await partyOf(hub, 'NL-CPO')).silent_since, null);
});
