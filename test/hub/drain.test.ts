/** A hub that is about to be closed sends nothing more, takes what comes, and forgets none of it. */
import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { OutcomeUnknown } from '../../storage/contract.ts';
import { Holding, kwhOf } from '../delivery/watched.ts';
import { sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { closed, hubFor, routedPair } from '../support/hub-in-process.ts';
import { quiet } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';
import { within } from '../support/within.ts';

t.test('a drained hub finishes the calls in flight, and the next hub sends the rest', async (t) => {
  const dataDir = directoryFor(t);
  const hub = await hubFor(t, {}, {}, dataDir);
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  const push = (kwh: number) => cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { kwh }));
  await push(1);
  await hub.settled(emsp);
  t.equal(emsp.received.length, 1);
  let isDrained = false;
  const drained = hub.created.drain(86_400_000).then(() => {
    isDrained = true;
  });
  await push(2);
  await hub.settled(emsp);
  t.equal(isDrained, false, 'one is in flight');
  t.equal(hub.created.forwardingLagMs(), 0, 'what waits now is no reason to take less');
  holding.releaseOne();
  await drained;
  await hub.settled();
  t.equal(emsp.received.length, 1, 'nothing more is sent');
  await hub.close();
  await hubFor(t, {}, {}, dataDir);
  await emsp.gotCalls(2);
  holding.releaseAll();
  t.strictSame(emsp.received.map(kwhOf), [1, 2], 'the first is not sent again');
});

t.test('a hub closes although its store is away, and the next one has every acknowledged write', async (t) => {
  const dataDir = directoryFor(t);
  const store = join(dataDir, 'store');
  const clock = new SimulatedClock('2026-01-02T03:04:05Z');
  const hub = await hubFor(t, {}, { clock }, dataDir);
  const { cpo, emsp } = await routedPair(t, hub);
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S0', sessionBody('S0'));
  renameSync(store, `${store}.away`);
  const acknowledged = ['S0'];
  // The engine writes on into files that are open; one that it has to open by name fails.
  const pushAll = async () => {
    for (;;) {
      const id = `S${acknowledged.length}`;
      const body = sessionBody(id, { padding: 'x'.repeat(100_000) });
      const answer = await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, body);
      if (answer.status !== 200) return;
      acknowledged.push(id);
    }
  };
  const pushed = pushAll().catch(() => {});
  await eventually('a write fails', async () => (await fetch(`${hub.url}/readyz`)).status === 503);
  await closed(hub, clock);
  await pushed;
  t.notOk(existsSync(store), 'no other store is made in its place');
  renameSync(`${store}.away`, store);
  const again = await hubFor(t, {}, {}, dataDir);
  for (const partner of [cpo, emsp]) partner.moveTo(again);
  const missing = [];
  for (const id of acknowledged) {
    if ((await cpo.call('GET', `/2.2.1/sessions/NL/CPO/${id}`)).json.status_code !== 1000) missing.push(id);
  }
  t.same(missing, []);
});

t.test('a hub closes although the end of its log is unknown, and refuses no write that may be in it', async (t) => {
  let isAway = false;
  let refused = 0;
  const dataDir = directoryFor(t);
  const wrap = wrapStore((store) => ({
    append: async (commit) => {
      const written = await store.append(commit);
      if (!isAway) return written;
      refused += 1;
      throw new OutcomeUnknown('the disk is away');
    },
  }));
  const hub = await hubFor(t, {}, { wrap }, dataDir);
  const { cpo, emsp } = await routedPair(t, hub);
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await quiet(hub);
  isAway = true;
  const pushed = cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S2', sessionBody('S2')).then(
    ({ status }) => status,
    () => 'no answer',
  );
  await eventually('the push is in doubt', () => refused > 0);
  await within(30_000, hub.created.close(), () => 'the hub does not close');
  t.equal(await pushed, 'no answer');
  await hub.close();
  const again = await hubFor(t, {}, {}, dataDir);
  for (const partner of [cpo, emsp]) partner.moveTo(again);
  t.match((await cpo.call('GET', '/2.2.1/sessions/NL/CPO/S2')).json, { data: { id: 'S2' } });
});

t.test('a hub closes although a job waits for a row that it may no longer write', async (t) => {
  let mayWrite = true;
  let waits = () => {};
  const waiting = new Promise<void>((resolve) => {
    waits = resolve;
  });
  const wrap = wrapStore((store) => ({
    append: async (commit) => {
      const written = await store.append(commit);
      if (commit.events.some(({ type }) => type === 'delivery.discarded')) mayWrite = false;
      return written;
    },
    held: () => {
      if (!mayWrite) waits();
      return mayWrite ? store.held() : null;
    },
  }));
  const hub = await hubFor(t, {}, { wrap });
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await quiet(hub);
  await admin(hub, 'POST', '/discard', { filter: {} });
  await waiting;
  await within(30_000, hub.close(), () => 'the hub does not close');
});
