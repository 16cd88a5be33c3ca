import { CommitFeed } from '../../src/hub/kernel/commit-feed.ts';
import { directoryPut } from '../../src/hub/kernel/directory.ts';
import type { Log } from '../../src/hub/ports/ports.ts';
import { StoreUnavailable } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { append } from '../storage/support.ts';
import { directoryFor } from '../support/directory.ts';
import { eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { storeWith } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

/** On a real store that others write to; says what it read. */
async function dispatching(t: Test, isDoor = false) {
  const level = await openLevelStore({ directory: directoryFor(t), node: 'test', ballastBytes: 0 });
  t.teardown(() => level.close());
  const reads: string[] = [];
  let failures = 0;
  const failing = async () => {
    if (failures-- > 0) throw new StoreUnavailable('it is away');
  };
  const store = storeWith(level, {
    read: async (query) => {
      reads.push(`events behind ${query.after}`);
      await failing();
      return level.read(query);
    },
    ranges: async (ranges) => {
      reads.push(...ranges.map(({ after, upTo }) => `changes behind ${after} up to ${upTo}`));
      return level.ranges(ranges);
    },
  });
  const clock = new SimulatedClock('2026-01-02T03:04:05Z');
  const errors: string[] = [];
  const log: Log = { debug() {}, info() {}, warn() {}, error: (_fields, message) => void errors.push(message) };
  const feed = new CommitFeed(store, clock, log, isDoor);
  const [seen, read]: number[][] = [[], []];
  feed.onCommitted(({ seq }) => seen?.push(seq));
  feed.onRead(({ seq }) => read?.push(seq));
  feed.startAt(0);
  const fails = (times: number) => {
    failures = times;
  };
  /** An event of our own, as its commit gives it. */
  const ours = async () => {
    const { first } = await append(level);
    const event = await level.event(first);
    if (event) feed.committed(event);
  };
  return { level, clock, dispatch: feed, ours, seen, read, reads, errors, fails };
}

t.test('events of other nodes arrive in order of sequence, and none twice [COMMIT-FEED-1]', async (t) => {
  const { level, dispatch: feed, ours, seen, read } = await dispatching(t);
  feed.begin();
  await ours();
  await append(level);
  await append(level);
  await ours();
  t.same(seen, [1], 'it waits for what stands before it');
  await feed.reached(4);
  t.same(seen, [1, 2, 3, 4]);
  t.same(read?.slice(0, 2), [2, 3]);
  await ours();
  await append(level);
  feed.follow(6);
  feed.follow(3);
  await feed.reached(6);
  t.same(seen, [1, 2, 3, 4, 5, 6]);
  t.equal(feed.upTo, 6);
});

t.test('no event is dispatched before `begin`, and all of them after it [COMMIT-FEED-2]', async (t) => {
  const { level, dispatch: feed, ours, seen, reads } = await dispatching(t);
  await ours();
  await append(level);
  feed.follow(2);
  await new Promise((resolve) => setImmediate(resolve));
  t.same([seen, reads], [[], []]);
  feed.begin();
  await feed.reached(2);
  t.same(seen, [1, 2]);
});

t.test('a log that cannot be read is read again a moment later', async (t) => {
  const { level, clock, dispatch: feed, seen, errors, fails } = await dispatching(t);
  feed.begin();
  await append(level);
  fails(2);
  const reached = feed.reached(1);
  for (const times of [1, 2]) {
    await eventually('it says so', () => errors.length === times);
    clock.advance(200);
  }
  await reached;
  t.same(seen, [1]);
});

t.test(
  'a door reads the changes of partners and routes, and nothing when there are none [COMMIT-FEED-3]',
  async (t) => {
    const { level, dispatch: feed, ours, seen, reads } = await dispatching(t, true);
    feed.begin();
    await ours();
    await append(level);
    feed.follow(2);
    await feed.reached(2);
    t.same([seen, reads], [[], []]);
    await append(level, { puts: [directoryPut] });
    await append(level);
    await feed.reached(4);
    t.same([seen, reads], [[3], ['changes behind 2 up to 3']]);
    t.equal(feed.upTo, 4);
  },
);

t.test('a closed feed dispatches nothing and reads nothing more', async (t) => {
  const { level, clock, dispatch: feed, ours, seen, reads, errors, fails } = await dispatching(t);
  feed.begin();
  await append(level);
  fails(1);
  let isDispatched = false;
  feed.onReached(1, () => {
    isDispatched = true;
  });
  await eventually('it says that it could not read', () => errors.length === 1);
  feed.end();
  clock.advance(200);
  await ours();
  feed.follow(2);
  await new Promise((resolve) => setImmediate(resolve));
  t.same([seen, isDispatched, reads.length], [[], false, 1]);
});
