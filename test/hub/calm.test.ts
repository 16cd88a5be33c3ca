/** A hub that is about to be closed sends nothing more, takes what comes, and forgets none of it. */
import { Holding, kwhOf } from '../delivery/watched.ts';
import { sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { t } from '../support/tap.ts';

t.test('a hub that was calmed lets what is in flight end, and the next one sends the rest', async (t) => {
  const dataDir = directoryFor(t);
  const hub = await hubFor(t, {}, {}, dataDir);
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  const push = (kwh: number) => cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { kwh }));
  await push(1);
  await hub.settled(emsp);
  t.equal(emsp.received.length, 1);
  let isCalm = false;
  const calm = hub.created.calm(86_400_000).then(() => {
    isCalm = true;
  });
  await push(2);
  await hub.settled(emsp);
  t.equal(isCalm, false, 'one is in flight');
  t.equal(hub.created.forwardingLagMs(), 0, 'what waits now is no reason to take less');
  holding.releaseOne();
  await calm;
  await hub.settled();
  t.equal(emsp.received.length, 1, 'nothing more is sent');
  await hub.close();
  await hubFor(t, {}, {}, dataDir);
  await emsp.gotCalls(2);
  holding.releaseAll();
  t.strictSame(emsp.received.map(kwhOf), [1, 2], 'the first is not sent again');
});
