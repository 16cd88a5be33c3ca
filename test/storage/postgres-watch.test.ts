/** What a node sees of the database besides its lease: the difference of the clocks, and transactions that stay open. */
import type { Client } from 'pg';
import { systemClock } from '../../src/kit/system-clock.ts';
import { openPostgresStore, type PostgresStoreOptions } from '../../storage/postgres-store.ts';
import { type Sight, Watch, warningsOf } from '../../storage/postgres-watch.ts';
import { newSchema, openReader, postgresHere, sharedPostgres } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';
import { append, until } from './support.ts';

const skip = postgresHere === null ? 'no PostgreSQL server is installed here' : false;
const minute = 60_000;

async function opened(t: Test, options: Partial<PostgresStoreOptions> = {}) {
  const server = await sharedPostgres();
  const store = await openPostgresStore({
    url: server.url(newSchema('watch')),
    node: 'test',
    ttlMs: 20_000,
    ...options,
  });
  t.teardown(() => store.close());
  await until(() => store.sight() !== null || /cannot be looked at/.test(store.health().reason ?? ''));
  t.notMatch(store.health().reason ?? '', /cannot be looked at/);
  return store;
}

t.test('a node whose clock is not that of the database', { skip }, async (t) => {
  for (const [aheadMs, said] of [
    [30_000, /database's clock is more than a second behind this node's/],
    [-5 * minute, /database's clock is more than a second ahead of this node's/],
  ] as const) {
    const clock = { ...systemClock, now: () => Date.now() + aheadMs };
    const store = await opened(t, { clock });
    t.match(store.health(), { state: 'open' }, 'goes on');
    t.match(store.health().reason, said);
    // What the way there takes is taken off.
    const seen = -(store.sight()?.clockAheadMs ?? 0) / aheadMs;
    t.ok(seen > 0.5 && seen < 1.01, `${seen} of it is seen`);
    t.equal((await append(store)).first, 1, 'and writes');
  }
});

t.test('a clock that steps is seen at a later look, and that it was set right', { skip }, async (t) => {
  let [aheadMs, passedMs] = [0, 0];
  const clock = {
    ...systemClock,
    now: () => Date.now() + aheadMs,
    monotonic: () => systemClock.monotonic() + passedMs,
  };
  const store = await opened(t, { clock });
  t.notMatch(store.health().reason ?? '', /clock/);
  for (const [ms, isSaid] of [
    [30_000, true],
    [0, false],
  ] as const) {
    aheadMs = ms;
    passedMs += 10_000;
    await store.poke();
    await until(() => /clock/.test(store.health().reason ?? '') === isSaid);
  }
});

t.test('a transaction that only reads is seen, and whose it is', { skip }, async (t) => {
  await openReader(t, await sharedPostgres(), 'a dump');
  const store = await opened(t);
  const { oldest } = store.sight() as Sight;
  t.match(oldest?.who, /^a dump of user \w+, pid \d+$/);
  t.ok((oldest?.ms ?? -1) >= 0);
  t.ok(Math.abs(Date.parse(oldest?.since ?? '') - Date.now()) < minute);
  t.notMatch(store.health().reason ?? '', /transaction/, 'one of a moment ago is no reason to look');
});

t.test('what cannot be looked at is said, and is nothing that a beat fails of', async (t) => {
  let passedMs = 0;
  const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + passedMs };
  const sight = { at: String(Date.now()), since: null, who: '' };
  let isLetIn = false;
  const watch = new Watch(clock, async (look) => {
    if (!isLetIn) throw new Error('too many connections');
    return look({ query: async () => ({ rows: [sight] }) } as unknown as Client);
  });
  t.equal(await watch.look(), true);
  t.equal(watch.sight, null);
  t.match(watch.warnings(), [/cannot be looked at: too many connections/]);
  isLetIn = true;
  t.equal(await watch.look(), false, 'not at once again');
  passedMs += 10_000;
  t.equal(await watch.look(), true);
  t.strictSame(watch.warnings(), []);
});

t.test('what the way to the database and back may account for is no difference', async (t) => {
  for (const [at, ahead] of [
    [1000, -500],
    [1500, 0],
    [4000, 0],
    [9000, 0],
    [9700, 700],
  ]) {
    // Asked at 1,500, answered at 9,000.
    const nows = [1500, 9000];
    const clock = { ...systemClock, now: () => nows.shift() ?? 0 };
    const rows = [{ at: String(at), since: null, who: '' }];
    const watch = new Watch(clock, (look) => look({ query: async () => ({ rows }) } as unknown as Client));
    await watch.look();
    t.strictSame(watch.sight, { clockAheadMs: ahead, oldest: null }, `${at}`);
  }
});

t.test('five minutes and a second are borne, more is said', async (t) => {
  const sight = (clockAheadMs: number, ms: number | null): Sight => ({
    clockAheadMs,
    oldest: ms === null ? null : { since: '2026-11-24T10:00:00.000Z', ms, who: 'pg_dump of user hub, pid 7' },
  });
  t.strictSame(warningsOf(null), []);
  t.strictSame(warningsOf(sight(0, null)), []);
  t.strictSame(warningsOf(sight(1000, 5 * minute)), []);
  t.strictSame(warningsOf(sight(-1001, 5 * minute + 1)), [
    "the database's clock is more than a second behind this node's",
    'a transaction keeps the database from cleaning up since 2026-11-24T10:00:00.000Z: pg_dump of user hub, pid 7',
  ]);
});
