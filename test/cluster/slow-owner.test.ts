/** An owner whose way to the database is slow beside another node's hands over, once, and goes on as a door. */
import { openPostgresStore, type PostgresStore } from '../../storage/postgres/store.ts';
import { Link } from '../support/link.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { longer } from './nodes.ts';
import { startOneNode } from './one-node.ts';

/** Nobody's lease ends in this test. */
const ttlMs = 300_000;
const beats = 10;

t.test('an owner with a slow link to the database', longer, async (t) => {
  const server = await sharedPostgres();
  const url = server.url(newSchema('slow'));
  const link = await Link.to(t, server.port);
  const { node, store, hubs } = await startOneNode(
    t,
    { url: url.replace(`:${server.port}`, `:${link.port}`), node: 'slow', ttlMs },
    {},
  );
  const other = await openPostgresStore({ url, node: 'other', sole: false, ttlMs });
  t.teardown(() => other.close());
  other.offer(true);
  const beat = async (beside: PostgresStore, times = beats + 1): Promise<void> => {
    for (let n = 0; n < times; n++) await Promise.all([store.poke(), beside.poke()]);
  };
  await eventually('it is the owner', () => node.role === 'owner');
  await beat(other);
  t.strictSame([store.slowness(), other.slowness()], [null, null]);

  link.slow(30);
  for (let n = 1; n < beats; n++) await store.poke();
  t.equal(store.slowness(), null, 'what it was in any of the last beats counts');
  await store.poke();
  await store.poke();
  t.ok((store.slowness()?.ms ?? 0) >= 60);
  t.equal(other.slowness(), null);
  await eventually('the log is free', async () => {
    await store.poke();
    return hubs[0]?.told.includes('close') === true && store.held() === null && store.owner() === null;
  });
  await store.poke();
  t.equal(store.owner(), null, 'which it leaves to the other node');
  t.match(store.health().reason, /way to the database takes much longer/);
  await eventually('the other one has it', async () => {
    await other.poke();
    return other.held() !== null;
  });
  await eventually('its door answers', () => node.door !== null);
  t.strictSame([node.role, hubs.length], ['standby', 1]);

  await other.close();
  await eventually('without another node it is the owner again, however slow', async () => {
    await store.poke();
    return node.role === 'owner';
  });
  const third = await openPostgresStore({ url, node: 'third', sole: false, ttlMs });
  t.teardown(() => third.close());
  third.offer(true);
  await beat(third);
  node.look();
  await beat(third, 3);
  t.match([store.slowness()?.ms !== undefined, node.role, hubs.length], [true, 'owner', 2], 'once');

  link.slow(0);
  await store.poke();
  t.equal(store.slowness(), null);
});
