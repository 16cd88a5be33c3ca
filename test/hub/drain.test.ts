/** A hub that is about to be closed sends nothing more, takes what comes, and forgets none of it. */
import { Holding, kwhOf } from '../delivery/watched.ts';
import { sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { quiet } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';
import { within } from '../support/within.ts';

t.test('a hub that is drained lets what is in flight end, and the next one sends the rest', async (t) => {
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

t.test('a hub closes although a job waits for a row that it may not write any more', async (t) => {
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
