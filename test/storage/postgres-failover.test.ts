/** A standby is promoted while the former primary lives on and takes commits that nothing confirms: no two nodes have the log, and none stays behind. */
import { openPostgresStore, type PostgresStore } from '../../storage/postgres/store.ts';
import { Link } from '../support/link.ts';
import { type PostgresServer, postgresHere, startPostgres, startStandby } from '../support/postgres.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { event, row, until } from './support.ts';

const longer = postgresHere === null ? { skip: 'no PostgreSQL server is installed here' } : atLength;

async function nodeOf(t: Test, url: string, node: string, gained = () => {}, ttlMs = 3000): Promise<PostgresStore> {
  const store = await openPostgresStore({ url, node, ttlMs, answerMs: 60_000, sole: false, gained });
  t.teardown(() => store.close());
  return store;
}

t.test('the former primary stays up after a failover', longer, async (t) => {
  const former = await startPostgres(t);
  const standby = await startStandby(t, former, 's1');
  await former.query(`alter system set synchronous_standby_names = 's1'`);
  await former.query('select pg_reload_conf()');
  await until(
    async () => (await former.query("select 1 from pg_stat_replication where sync_state = 'sync'")).length > 0,
  );
  const hosts = `127.0.0.1:${former.port},127.0.0.1:${standby.port}`;
  const url = former.url('failover').replace(`127.0.0.1:${former.port}`, hosts);

  const a = await nodeOf(t, url, 'a');
  await until(() => a.held() !== null);
  const before = a.held();
  await a.append({ fence: before, idem: 'before', events: [event({ stream: 'before' })] });
  // As under a cluster manager that has ended on the former primary: nobody tells the server.
  await standby.query('select pg_promote()');
  // A node that starts now finds the new primary, and takes the log when the lease is over.
  let bothHeld = false;
  const b = await nodeOf(t, url, 'b', () => {
    bothHeld ||= a.held() !== null;
  });
  // It is written on the new primary when the former owner comes there before its lease ends, else refused for the token of the next.
  await a.append({ fence: before, idem: 'late', events: [event({ stream: 'late' })] }).catch(() => null);
  await until(() => a.health().state === 'open');
  await until(() => a.held() !== null || b.held() !== null);
  t.notOk(bothHeld, 'the former owner had let the log go before another one had it');
  const [log] = await standby.query<{ owner: string }>('select owner from failover.log');
  await until(async () => {
    await a.poke();
    return a.owner()?.id === log?.owner;
  });
  const holders = [a, b].filter((store) => store.held() !== null);
  t.equal(holders.length, 1, 'one has it');
  const written = await holders[0]?.append({
    ...{ fence: holders[0].held(), idem: 'after', events: [event({ stream: 'after' })] },
  });
  t.ok(written);
  const there = await standby.query<{ stream: string }>('select stream from failover.events order by seq');
  const streams = there.map(({ stream }) => stream);
  t.strictSame(
    streams.filter((stream) => stream !== 'late'),
    ['before', 'after'],
    'on the new primary',
  );
});

async function pairOf(t: Test): Promise<readonly [PostgresServer, PostgresServer]> {
  const former = await startPostgres(t);
  const standby = await startStandby(t, former, 's1');
  await former.query(`alter system set synchronous_standby_names = 's1'`);
  await former.query('select pg_reload_conf()');
  await until(
    async () => (await former.query("select 1 from pg_stat_replication where sync_state = 'sync'")).length > 0,
  );
  return [former, standby];
}

t.test('every connection falls silent and new ones work, as after the failover of a firewall', longer, async (t) => {
  const server = await startPostgres(t);
  const link = await Link.to(t, server.port);
  const url = server.url('silent').replace(String(server.port), String(link.port));
  const store = await nodeOf(t, url, 'a', () => {}, 1500);
  await until(() => store.held() !== null);
  const reads = (n: number) => Promise.all(Array.from({ length: n }, () => store.get(row('1'))));
  for (const readers of [0, 20]) {
    await reads(20);
    link.hold('both');
    const read = reads(readers);
    // The next statement outside of beats is its claim.
    if (readers === 0) await server.query('update silent.log set owner = null');
    await until(() => !store.isFresh());
    await until(() => store.held() !== null);
    t.match(store.health(), { state: 'open' }, `${readers} reads were under way`);
    t.equal((await read).length, readers);
    t.equal(store.held()?.token, 2);
  }
});

// Both of the above at once.
t.test('the primary freezes and a standby is promoted within a lease', longer, async (t) => {
  const [former, standby] = await pairOf(t);
  const hosts = `127.0.0.1:${former.port},127.0.0.1:${standby.port}`;
  const store = await nodeOf(t, former.url('promoted').replace(`127.0.0.1:${former.port}`, hosts), 'a');
  await until(() => store.held() !== null);
  former.freeze();
  await standby.query('select pg_promote()');
  await standby.query(`alter system set synchronous_standby_names = ''`);
  await standby.query('select pg_reload_conf()');
  await until(() => !store.isFresh());
  await until(() => store.held() !== null);
  t.match(store.health(), { state: 'open' });
});
