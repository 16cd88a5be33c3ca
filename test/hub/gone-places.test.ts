/**
 * A hub with a share of the shards that notes how far their receivers have come while a shard goes: what it found out
 * before that is not noted any more, since the ends of deliveries that it rests on were put away with the shard.
 *
 * Its peers are stand-ins that have recorded nothing, and the store is the embedded one, which is wholly its own.
 */
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { assemble } from '../../src/assembly.ts';
import { loadConfig } from '../../src/config.ts';
import type { Peers } from '../../src/hub/peers.ts';
import { Places } from '../../src/hub/places.ts';
import { createLog } from '../../src/log.ts';
import { createMetrics } from '../../src/metrics.ts';
import type { Store } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level-store.ts';
import { Holding } from '../delivery/watched.ts';
import { sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { calmGauge, routedPair } from '../support/hub-in-process.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { UnderWay } from '../support/under-way.ts';
import { Changes } from '../support/within.ts';

const shards: ReadonlySet<number> = new Set([0]);
/** How often it is noted, and after how long what could not be written is tried again. */
const [notedMs, againMs] = [5000, 1000];

const silentPeers = (store: Store): Peers => ({
  shards: 1,
  follow: async ({ ranges, to, limit, size }) => {
    const [range] = ranges;
    if (range === undefined) return [];
    const events = await store.read({ shard: 0, after: range.after, limit, size });
    return events.filter((event) => event.seq <= range.upTo && event.to.some((receiver) => to.includes(receiver)));
  },
  openRows: async () => [],
  others: () => [],
  ask: () => Promise.reject(new Error('nobody is there')),
  tell: async () => {},
});

async function scene(t: Test) {
  const clock = new SimulatedClock('2024-05-01T10:00:00Z');
  const dataDir = directoryFor(t);
  const store = await openLevelStore({ directory: join(dataDir, 'store'), node: 'test' });
  t.teardown(() => store.close());
  const changes = new Changes();
  const writes = { holding: 0, changed: () => changes.next(), mayGoOn: () => Promise.resolve() };
  const settle = store.settle.bind(store);
  store.settle = async (...ends) => {
    writes.holding += 1;
    await writes.mayGoOn().finally(() => {
      writes.holding -= 1;
      changes.tell();
    });
    await settle(...ends);
  };
  const underWay = new UnderWay();
  // What is on its way does not time out while the clock is moved.
  const headMs = 86_400_000;
  const env = { HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent', HUB_DELIVERY_TIMEOUT_MS: String(headMs) };
  const config = loadConfig({ env, flags: {} });
  let url = '';
  const hub = await assemble(store, config, {
    ...{ log: createLog('silent'), clock, random: Math.random, metrics: createMetrics('test'), publicUrl: () => url },
    ...{ peers: silentPeers(store), headMs, gauge: calmGauge, wrap: underWay.wrap },
  });
  t.teardown(() => hub.close(0));
  await hub.app.listen({ host: '127.0.0.1', port: 0 });
  url = `http://127.0.0.1:${(hub.app.server.address() as AddressInfo).port}`;
  await hub.created.begin();
  await hub.gain(shards);
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, { url, adminToken: hub.adminToken }, { emsp: holding.answer });
  t.teardown(() => holding.releaseAll());
  const settled = () => underWay.settled(emsp, writes);
  return {
    ...{ ...hub.created, clock, writes, holding, settled },
    push: async () => {
      t.equal((await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'))).status, 200);
      return store.head(0);
    },
    async sent(count: number) {
      await settled();
      t.equal(emsp.received.length, count, `${count} were sent`);
    },
    noted: async () => (await Places.read(store, shards)).of(0, 0),
  };
}

t.test('how far it is is noted, and a hub that gains the shard begins there', async (t) => {
  const { clock, holding, push, sent, settled, noted, drop, gain } = await scene(t);
  const seq = await push();
  await sent(1);
  clock.advance(notedMs);
  await settled();
  t.equal(await noted(), seq - 1, 'it is noted');
  holding.releaseAll();
  await settled();
  clock.advance(notedMs);
  await settled();
  t.equal(await noted(), seq, 'it has come further');
  drop(shards);
  await gain(shards);
  await push();
  await sent(2);
});

for (const moment of ['away', 'back'] as const) {
  t.test(`what was found out before a shard went is not noted when it is ${moment}`, async (t) => {
    const { clock, writes, holding, push, sent, settled, noted, drop, gain } = await scene(t);
    let refuse = () => {};
    const isRefused = new Promise<void>((_, reject) => {
      refuse = () => reject(new Error('the store is away'));
    });
    writes.mayGoOn = () => isRefused;
    const seq = await push();
    await sent(1);
    holding.releaseOne();
    await settled();
    t.equal(writes.holding, 1, 'its end is being written');
    clock.advance(notedMs);
    drop(shards);
    if (moment === 'back') await gain(shards);
    writes.mayGoOn = () => Promise.resolve();
    refuse();
    await settled();
    // It is tried again, and what waits for it goes on; nothing of that is seen from outside.
    clock.advance(againMs);
    await settled();
    t.ok((await noted()) < seq);
    if (moment === 'away') await gain(shards);
    await sent(2);
  });
}
