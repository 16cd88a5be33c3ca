/** A shard that goes from a hub that runs on, and comes back: what is owed, what waits and what is watched goes and comes with it. */
import { sessionBody } from '../support/bodies.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { t } from '../support/tap.ts';

const shards: ReadonlySet<number> = new Set([0]);

t.test('nothing of a shard that went runs on, and all of it is back when it comes again', async (t) => {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '0.1,0.1,0.1' });
  const { core, calm, give, gain } = hub.created;
  let isDown = false;
  const { cpo, emsp } = await routedPair(t, hub, {
    cpo: () => ({ body: { result: 'ACCEPTED', timeout: 30 } }),
    emsp: () => (isDown ? { status: 503 } : {}),
  });
  const push = (id: string, kwh: number) =>
    cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, { status: 'ACTIVE', kwh }));
  await push('S1', 0);
  await hub.settled();
  t.equal(emsp.received.length, 1, 'it arrived');
  const response_url = `${emsp.url}/ocpi/result`;
  const stop = await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', { response_url, session_id: 'S1' });
  t.match(stop.json, { data: { result: 'ACCEPTED' } });
  const [command] = cpo.received;
  const callback = new URL((JSON.parse(command?.body ?? '') as { response_url: string }).response_url).pathname;
  const running = () => [...core.supervisor.views()].map(({ id }) => id).sort();
  const before = running();
  t.equal(before.length, 6, 'two partners, their couriers, a command and a watch');

  isDown = true;
  for (const kwh of [1, 2, 3]) t.equal((await push('S1', kwh)).status, 200);
  t.equal((await push('S2', 1)).status, 200);
  await emsp.gotCalls(3);
  await calm(shards, 30_000);
  await give(shards);
  t.strictSame(running(), [], 'no actor is left');
  t.equal(core.isOurs('NL-EMS'), false);
  t.equal(core.timers.size, 3, 'but for what is done now and then nothing is waited for');
  const tried = emsp.received.length;
  t.equal((await push('S1', 9)).status, 503, 'nothing of it is written');

  isDown = false;
  await gain(shards);
  t.equal(core.shards.has(0), true);
  t.strictSame(running(), before, 'every actor is back');
  await emsp.gotCalls(tried + 4);
  t.equal((await push('S2', 2)).status, 200);
  await emsp.gotCalls(tried + 5);
  const arrived = emsp.received.slice(tried).map(({ body }) => {
    const { id, kwh } = JSON.parse(body) as { id: string; kwh: number };
    return `${id} ${kwh}`;
  });
  const of = (id: string) => arrived.filter((one) => one.startsWith(id));
  t.strictSame(of('S1'), ['S1 1', 'S1 2', 'S1 3'], 'each once, in order');
  t.strictSame(of('S2'), ['S2 1', 'S2 2']);

  emsp.received.splice(0);
  t.equal((await cpo.call('POST', callback.replace(/^\/ocpi/, ''), { result: 'ACCEPTED' })).status, 200);
  t.strictSame(
    emsp.received.map(({ method, path }) => `${method} ${path}`),
    ['POST /ocpi/result'],
    'the result of the command is relayed once',
  );
  t.match(await itemsOf(hub, '/orphans?state=GRACE'), [{ state: 'GRACE', session: 'NL-CPO/S1' }]);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { status: 'COMPLETED' }));
  await hub.settled();
  t.equal(running().length, 4, 'the watch ends with the session');
});
