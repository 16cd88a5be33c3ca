/**
 * What is asked of another hub while the shard comes to this one: the other one is sought in vain, and it is done here.
 */
import type { Target } from '../../src/cluster/hop.ts';
import { Passing } from '../../src/cluster/passing.ts';
import { peersOf } from '../../src/cluster/peers.ts';
import { askShard, atHome } from '../../src/hub/asked.ts';
import type { Core } from '../../src/hub/core.ts';
import { Shards } from '../../src/hub/shards.ts';
import { type Test, t } from '../support/tap.ts';

const shard = 7;

/** A hub that has heard of no owner of the shard. */
function scene(t: Test) {
  const passing = new Passing({ secret: 'of-the-nodes', passed() {}, log: { warn() {} } });
  t.teardown(() => passing.close());
  const shards = new Shards();
  const sought = { times: 0 };
  const ownerOf = (): Target | null => {
    sought.times += 1;
    return null;
  };
  const store = { shards: 256, follow: async () => [], openRows: async () => [] };
  const peers = peersOf({ store, passing, ownerOf, tell: async () => {} });
  const core = { peers, shards, store: { shardOf: () => shard }, ports: { log: { warn() {} } } } as unknown as Core;
  return { core, shards, sought };
}

t.test('a verb is done here when the shard comes while its hub is sought', async (t) => {
  const { core, shards, sought } = scene(t);
  const done = atHome(core, 'NL-CPO', 'added', {}, async () => (shards.isGoing(shard) ? 'going' : 'here'));
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(sought.times, 1, 'it was sought elsewhere');
  shards.come([shard]);
  // It is not here before everything of it is back.
  const isDone = await Promise.race([done.then(() => true), new Promise((resolve) => setTimeout(resolve, 200))]);
  t.not(isDone, true);
  shards.stay([shard]);
  t.equal(await done, 'here');
});

t.test('what is asked of whichever hub has a shard is not done here', async (t) => {
  const { core, shards } = scene(t);
  const asked = askShard(core, shard, 'standing', {});
  shards.come([shard]);
  shards.stay([shard]);
  await t.rejects(asked, { code: 'unavailable' });
});
