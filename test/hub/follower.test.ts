/**
 * A reading of what others recorded, during which a shard comes, or goes and comes again: it is made again, for those
 * who live here now.
 */
import type { Core } from '../../src/hub/core.ts';
import { Follower } from '../../src/hub/follower.ts';
import type { Peers } from '../../src/hub/peers.ts';
import { Shards } from '../../src/hub/shards.ts';
import type { Seq, Shard, StoredEvent } from '../../storage/contract.ts';
import { t } from '../support/tap.ts';

const home: Shard = 0;
const theirs: Shard = 1;
const emsp = { id: 'NL-EMS', roles: [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS' }] };
const owed = { shard: theirs, seq: 3, type: 'object.put', to: ['NL-EMS'], body: null } as unknown as StoredEvent;

/** Another hub has recorded three events, of which the last one is owed to a party of the first shard. */
function scene(duringFirst: (shards: Shards) => void) {
  const shards = new Shards();
  const readings: (readonly string[])[] = [];
  const taken: StoredEvent[] = [];
  let reached: Seq = 0;
  const core = {
    store: { heads: async () => new Map([[theirs, 3]]) },
    shards,
    isOurs: () => shards.has(home),
    state: { count: 1, partners: () => [emsp] },
    recorder: {
      dispatchedTo: () => reached,
      followed(_: Shard, events: readonly StoredEvent[], upTo: Seq) {
        taken.push(...events);
        reached = upTo;
      },
    },
  } as unknown as Core;
  const peers = {
    async follow({ to }) {
      readings.push(to);
      if (readings.length === 1) duringFirst(shards);
      return to.length > 0 ? [owed] : [];
    },
  } as Pick<Peers, 'follow'> as Peers;
  return { shards, readings, taken, follower: new Follower(core, peers), reached: () => reached };
}

t.test('a receiver that came while it was read is not passed over (W3)', async (t) => {
  const { readings, taken, follower, reached } = scene((shards) => shards.come([home]));
  await follower.caughtUp();
  t.strictSame(readings, [[], ['NL-EMS']]);
  t.strictSame(taken, [owed]);
  t.equal(reached(), 3);
});

t.test('what was read for receivers that went and came again meanwhile is not taken', async (t) => {
  const { shards, readings, taken, follower } = scene((shards) => {
    shards.gone([home]);
    shards.come([home]);
  });
  shards.come([home]);
  await follower.caughtUp();
  t.strictSame(readings, [['NL-EMS'], ['NL-EMS']]);
  t.strictSame(taken, [owed], 'once');
});

t.test('nor is it for those that went', async (t) => {
  const { shards, readings, taken, follower } = scene((shards) => shards.gone([home]));
  shards.come([home]);
  await follower.caughtUp();
  t.strictSame(readings, [['NL-EMS'], []]);
  t.strictSame(taken, []);
});
