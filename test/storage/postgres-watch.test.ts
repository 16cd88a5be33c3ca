/** What a node sees of the database besides its lease: the difference of the clocks, and transactions that stay open. */
import type { Client } from 'pg';
import { systemClock } from '../../src/kit/system-clock.ts';
import type { Sight } from '../../storage/contract.ts';
import { Heartbeat, type HeartbeatOptions } from '../../storage/postgres/heartbeat.ts';
import type { PostgresStoreOptions } from '../../storage/postgres/options.ts';
import { openPostgresStore } from '../../storage/postgres/store.ts';
import { Watch, warningsOf } from '../../storage/postgres/watch.ts';
import { skip } from '../cluster/nodes.ts';
import { newSchema, openReader, openSession, sharedPostgres } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';
import { append, until } from './support.ts';

const minute = 60_000;

/** A connection that answers a look with the database's time, epoch ms, and no transaction. */
function answering(at: () => number): Client {
  return { query: async () => ({ rows: [{ at: String(at()), since: null, who: '' }] }) } as unknown as Client;
}

/** The clock of the machine, of which `pass` lets ten seconds pass at once. */
function passing() {
  let passedMs = 0;
  const pass = () => {
    passedMs += 10_000;
  };
  return { pass, clock: { ...systemClock, monotonic: () => systemClock.monotonic() + passedMs } };
}

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

t.test('a node whose clock differs from that of the database', { skip }, async (t) => {
  for (const [aheadMs, said] of [
    [30_000, /database's clock is more than a second behind this node's/],
    [-5 * minute, /database's clock is more than a second ahead of this node's/],
  ] as const) {
    const clock = { ...systemClock, wall: () => Date.now() + aheadMs };
    const store = await opened(t, { clock });
    t.match(store.health(), { state: 'open' }, 'goes on');
    t.match(store.health().reason, said);
    // What the way there takes is taken off.
    const seen = -(store.sight()?.clockAheadMs ?? 0) / aheadMs;
    t.ok(seen > 0.5 && seen < 1.01, `${seen} of it is seen`);
    t.equal((await append(store)).first, 1, 'and writes');
  }
});

t.test('a step of the clock is seen at a later check, and so is its correction', { skip }, async (t) => {
  let aheadMs = 0;
  const { clock, pass } = passing();
  const store = await opened(t, { clock: { ...clock, wall: () => Date.now() + aheadMs } });
  t.notMatch(store.health().reason ?? '', /clock/);
  for (const [ms, isSaid] of [
    [30_000, true],
    [0, false],
  ] as const) {
    aheadMs = ms;
    pass();
    await store.poke();
    await until(() => /clock/.test(store.health().reason ?? '') === isSaid);
  }
});

t.test('a read-only transaction is seen with its user', { skip }, async (t) => {
  await openReader(t, await sharedPostgres(), 'a dump');
  const store = await opened(t);
  const { oldest } = store.sight() as Sight;
  t.match(oldest?.who, /^a dump of user \w+, pid \d+$/);
  t.ok((oldest?.ms ?? -1) >= 0);
  t.ok(Math.abs(Date.parse(oldest?.since ?? '') - Date.now()) < minute);
  t.notMatch(store.health().reason ?? '', /transaction/, 'one of a moment ago is no reason to look');
});

t.test('a VACUUM is a transaction that holds nothing back', { skip }, async (t) => {
  const server = await sharedPostgres();
  await server.query('create table vacuumed as select g from generate_series(1, 100000) g');
  t.teardown(() => server.query('drop table vacuumed'));
  const client = await openSession(t, server, 'a vacuum');
  await client.query('set vacuum_cost_delay = 100; set vacuum_cost_limit = 1');
  const vacuumed = client.query('vacuum vacuumed').catch((error: Error) => error.message);
  const seen = `select pid from pg_stat_activity where application_name = 'a vacuum' and backend_xmin is not null
    and pid in (select pid from pg_stat_progress_vacuum)`;
  await until(async () => (await server.query(seen)).length > 0);
  const store = await opened(t);
  t.notMatch(store.sight()?.oldest?.who ?? '', /a vacuum/);
  t.equal((await server.query(seen)).length, 1, 'which went on all the while');
  await server.query(`select pg_terminate_backend(pid) from (${seen}) x`);
  t.match(await vacuumed, /terminat/);
});

t.test('the warning of clock skew has hysteresis', async (t) => {
  let ahead = 0;
  const { clock, pass } = passing();
  const client = answering(() => 5000 + ahead);
  const watch = new Watch({ ...clock, wall: () => 5000 }, (look) => look(client));
  const told: boolean[] = [];
  for (ahead of [900, 1001, 990, 801, 799, 990, 1000]) {
    pass();
    await watch.look();
    told.push(watch.warnings().length > 0);
  }
  t.strictSame(told, [false, true, true, true, false, false, false]);
});

t.test('one check at a time; an unreachable database is not checked', async (t) => {
  const { clock, pass } = passing();
  let answer = () => {};
  const watch = new Watch(clock, async (look) => {
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    return look(answering(Date.now));
  });
  const first = watch.look();
  pass();
  t.equal(await watch.look(), false, 'while one goes on');
  answer();
  t.equal(await first, true);
  t.ok(watch.sight);
  watch.forget();
  t.equal(watch.sight, null);
  const next = watch.look();
  answer();
  t.equal(await next, true, 'at once when it is back');
});

t.test('a failed check is reported, and fails no heartbeat', async (t) => {
  const { clock, pass } = passing();
  let isLetIn = false;
  const watch = new Watch(clock, async (look) => {
    if (!isLetIn) throw new Error('too many connections');
    return look(answering(Date.now));
  });
  t.equal(await watch.look(), true);
  t.equal(watch.sight, null);
  t.match(watch.warnings(), [/cannot be looked at: too many connections/]);
  isLetIn = true;
  t.equal(await watch.look(), false, 'not at once again');
  pass();
  t.equal(await watch.look(), true);
  t.strictSame(watch.warnings(), []);
});

t.test(
  'a check that ends after a failed heartbeat does not report the database as reachable [HEARTBEAT-4]',
  async (t) => {
    const states: string[] = [];
    const connection = { stream: { destroyed: false, writable: true, destroy() {} } };
    const safe = {
      version: 150_000,
      encoding: 'UTF8',
      fsync: 'on',
      full_page_writes: 'on',
      synchronous_standby_names: '',
    };
    const query = async () => ({ rows: [safe] });
    const client = { connection, on() {}, off() {}, query } as unknown as Client;
    let isThere = true;
    let answer: (looked: boolean) => void = () => {};
    let looks = 0;
    const parts = {
      primary: { find: async () => {}, connect: async () => client, drop() {} },
      leases: {
        beat: () => (isThere ? Promise.resolve() : Promise.reject(new Error('gone'))),
        firstEnd: () => Number.POSITIVE_INFINITY,
        interrupted() {},
        isFresh: () => true,
        slowness: () => null,
        lastRenewal: () => 0,
        confirmed() {},
      },
      watch: {
        look: () =>
          new Promise<boolean>((resolve) => {
            answer = resolve;
            looks += 1;
          }),
        warnings: () => ['a warning'],
        forget() {},
      },
      known: { losses: [], check: async () => {} },
      doubts: () => [],
      changed: (state: string, reason: string | null) => states.push(`${state}: ${reason}`),
    };
    const heartbeat = new Heartbeat({
      clock: systemClock,
      ttlMs: 60_000,
      single: true,
      ...parts,
    } as unknown as HeartbeatOptions);
    t.teardown(() => heartbeat.stop());
    await heartbeat.start();
    t.equal(looks, 1, 'the beat does not wait for it');
    isThere = false;
    await heartbeat.poke();
    t.equal(states.at(-1), 'failed: gone');
    answer(true);
    await new Promise(setImmediate);
    t.equal(states.at(-1), 'failed: gone');
    isThere = true;
    await heartbeat.poke();
    t.equal(states.at(-1), 'open: a warning');
  },
);

t.test('a difference within the round-trip time to the database is no skew', async (t) => {
  for (const [at, ahead] of [
    [1000, -500],
    [1500, 0],
    [4000, 0],
    [9000, 0],
    [9700, 700],
  ] as const) {
    // Asked at 1,500, answered at 9,000.
    const nows = [1500, 9000];
    const clock = { ...systemClock, wall: () => nows.shift() ?? 0 };
    const watch = new Watch(clock, (look) => look(answering(() => at)));
    await watch.look();
    t.strictSame(watch.sight, { clockAheadMs: ahead, oldest: null }, `${at}`);
  }
});

t.test('a transaction of five minutes is tolerated, a longer one is reported', async (t) => {
  const sight = (clockAheadMs: number, ms: number | null): Sight => ({
    clockAheadMs,
    oldest: ms === null ? null : { since: '2026-11-24T10:00:00.000Z', ms, who: 'pg_dump of user hub, pid 7' },
  });
  t.strictSame(warningsOf(null, false), []);
  t.strictSame(warningsOf(sight(0, null), false), []);
  t.strictSame(warningsOf(sight(900, 5 * minute), false), []);
  t.strictSame(warningsOf(sight(-900, 5 * minute + 1), true), [
    "the database's clock is more than a second behind this node's",
    'a transaction keeps the database from cleaning up since 2026-11-24T10:00:00.000Z',
  ]);
});
