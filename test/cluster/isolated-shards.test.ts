/**
 * A node that the database is away from answers from memory for the shards that are wholly in it, and for none that
 * it had half gained or half given when the database went.
 */
import { openPostgresStore } from '../../storage/postgres-store.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';
import { skip } from './nodes.ts';
import { type Steps, startOneNode } from './one-node.ts';

/** It ends when the test says so. */
const ttlMs = 600_000;
const all = 256;

/** What the test ends. */
function gate() {
  let open = () => {};
  let refuse = () => {};
  const passed = new Promise<void>((resolve, reject) => {
    open = resolve;
    refuse = () => reject(new Error('the database is away'));
  });
  return { open, refuse, passed: () => passed };
}

t.test('a node that does not reach the database', { skip }, async (t) => {
  const server = await sharedPostgres();

  /** A node with every shard. */
  const scene = async (t: Test, schema: string, steps: Steps) => {
    const running = await startOneNode(t, { url: server.url(schema), node: 'first', shards: all, ttlMs }, steps);
    const { node, store, hubs } = running;
    const here = () => Array.from({ length: all }, (_, shard) => node.place(false, shard).kind === 'here');
    await eventually('it answers for every shard', () => !here().includes(false));
    return {
      store,
      look: () => node.look(),
      /** Shards for which nothing is answered. */
      missing: () => here().flatMap((isHere, shard) => (isHere ? [] : [shard])),
      /** As when the database gives no answer until the lease has run out. */
      isolate() {
        Object.assign(store, { held: () => null, fences: () => [], isFresh: () => false });
        node.look();
        t.equal(node.role, 'isolated', 'the node knows that it does not reach the database');
      },
      told: (verb: string) => hubs[0]?.told.filter((one) => one.verb === verb).map(({ shards }) => shards) ?? [],
    };
  };

  for (const end of ['fails', 'succeeds'] as const) {
    t.test(`it has half gained a shard, and bringing it back ${end}`, async (t) => {
      const steps: Steps = {};
      const { store, missing, isolate, told } = await scene(t, newSchema('gained'), steps);
      const { open, refuse, passed } = gate();
      steps.gain = passed;
      // It lets one go, and takes it again.
      store.giveUp(7);
      await eventually('the shard comes', async () => {
        await store.poke();
        return told('gain').at(-1)?.join() === '7';
      });
      isolate();
      t.strictSame(missing(), [7], 'all others are answered from memory');
      if (end === 'fails') refuse();
      else open();
      await new Promise((resolve) => setImmediate(resolve));
      t.strictSame(missing(), end === 'fails' ? [7] : []);
      t.strictSame(told('drop').slice(1), end === 'fails' ? [[7]] : [], 'what was brought back of it is put away');
    });
  }

  for (const end of ['fails', 'succeeds'] as const) {
    t.test(`it has half given shards, and putting them away ${end}`, async (t) => {
      const steps: Steps = {};
      const { open, refuse, passed } = gate();
      steps.give = passed;
      const schema = newSchema('given');
      const { store, missing, isolate, told } = await scene(t, schema, steps);
      const url = server.url(schema);
      const other = await openPostgresStore({ url, node: 'other', sole: false, sticky: true, ttlMs });
      t.teardown(() => other.close());
      await eventually('shards go to another node', async () => {
        await store.poke();
        return told('give').length > 0;
      });
      const given = told('give')[0] ?? [];
      isolate();
      t.strictSame(missing(), given, 'all others are answered from memory');
      if (end === 'fails') refuse();
      else open();
      await new Promise((resolve) => setImmediate(resolve));
      t.strictSame(missing(), given);
    });
  }

  t.test('its lease runs out while it looks at its shards', async (t) => {
    const { store, look, missing, isolate, told } = await scene(t, newSchema('looking'), {});
    const [held, isFresh] = [store.held.bind(store), store.isFresh.bind(store)];
    let lookedAt = 0;
    store.held = (shard) => (++lookedAt > all / 2 ? null : held(shard));
    store.isFresh = () => lookedAt <= all / 2 && isFresh();
    look();
    t.strictSame(missing(), [], 'every shard is answered from memory');
    t.strictSame(told('drop'), [], 'and none is put away');
    isolate();
  });
});
