/** A standby is promoted while the former primary lives on and takes commits that nothing confirms: no two nodes have the log, and none stays behind. */
import type { Fence } from '../../storage/contract.ts';
import { isAlive, Primary } from '../../storage/postgres/connect.ts';
import { parsePostgresUrl } from '../../storage/postgres/options.ts';
import { KnownLog } from '../../storage/postgres/session-checks.ts';
import { openPostgresStore, type PostgresStore } from '../../storage/postgres/store.ts';
import { Link } from '../support/link.ts';
import { openSession, type PostgresServer, postgresHere, startPostgres, startStandby } from '../support/postgres.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { within } from '../support/within.ts';
import { event, row, seen, until } from './support.ts';

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

t.test(
  '[POSTGRES-STORE-4] a node that reaches the former primary alone reads there while its lease lasts, and no longer',
  longer,
  async (t) => {
    const [former, standby] = await pairOf(t);
    const a = await nodeOf(t, former.url('stale'), 'a');
    await a.append({
      ...{ fence: null, idem: '1', events: [event()], puts: [row('S1', { data: 'old' })] },
      seen: [seen('S1', null)],
    });
    await standby.query('select pg_promote()');
    const b = await nodeOf(t, standby.url('stale'), 'b');
    await until(() => b.health().state === 'open');
    await b.append({
      ...{ fence: null, idem: '2', events: [event()], puts: [row('S1', { data: 'new' })] },
      seen: [seen('S1', 1)],
    });
    const isRead = a.isFresh() ? await a.get(row('S1')) : null;
    t.comment(`read at the former primary meanwhile: ${JSON.stringify(isRead?.data)}`);
    const key = row('S1');
    t.match(await b.get(key), { data: 'new' });
    await until(() => !a.isFresh());
    await t.rejects(a.get(key), { name: 'StoreUnavailable' });
    t.match(await former.query('select 1 as alive'), [{ alive: 1 }], 'although that server answers');
  },
);

t.test('[POSTGRES-STORE-5] a store is closed while its commits wait for a standby that is gone', longer, async (t) => {
  const [former, standby] = await pairOf(t);
  const [writer, owner] = await Promise.all(['writer', 'owner'].map((name) => nodeOf(t, former.url(name), name)));
  if (!writer || !owner) throw new Error('there are two');
  await until(() => writer.held() !== null && owner.held() !== null);
  await standby.stop();
  const written = writer.append({ fence: writer.held(), idem: '1', events: [event()] });
  const unknown = t.rejects(written, { name: 'OutcomeUnknown' }, 'a commit that is awaited');
  const closed = Promise.all([writer.close(), owner.close()]);
  await within(60_000, closed, () => 'a store is not closed');
  await unknown;
  t.notOk(writer.held() ?? owner.held());
});

async function losesEnd(t: Test, isClaimLost: boolean): Promise<void> {
  const former = await startPostgres(t);
  const standby = await startStandby(t, former, 's1');
  const hosts = `127.0.0.1:${former.port},127.0.0.1:${standby.port}`;
  const store = await nodeOf(t, former.url('lossy').replace(`127.0.0.1:${former.port}`, hosts), 'a');
  await until(() => store.held() !== null);
  await store.append({ fence: store.held(), idem: '1', events: [event({ stream: 'kept' })] });
  const heads = () => standby.query<{ head: number }>('select head from lossy.log where head = 1');
  await until(async () => (await heads().catch(() => [])).length > 0);
  await standby.stop();
  if (isClaimLost) store.giveUp();
  await until(() => (store.held()?.token ?? 0) > Number(isClaimLost));
  const before = store.held() as Fence;
  for (const idem of ['2', '3']) await store.append({ fence: before, idem, events: [event({ stream: 'lost' })] });
  const floors = [{ dest: 'NL-EMS', seq: 3 }];
  await store.settle(before, [], floors);
  await former.kill();
  await standby.start();
  await standby.query('select pg_promote()');
  // Sent as soon as the next primary is found: it must not reach its log.
  await until(() =>
    store.settle(before, [], floors).then(
      () => true,
      ({ name }: Error) => name === 'Fenced' || store.losses().length > 0,
    ),
  );
  t.match(store.losses(), [/lost the end of the log: event 3 was there, and now it ends at event 1$/]);
  await until(() => store.held() !== null);
  t.ok((store.held()?.token ?? 0) > before.token, 'it restores again, under another token');
  await t.rejects(store.settle(before, [], floors), { name: 'Fenced' });
  t.match(store.health(), { state: 'open', reason: /lost the end of the log/ });
  t.strictSame(await standby.query('select * from lossy.floors'), []);
  const next = await store.append({ fence: store.held(), idem: '4', events: [event({ stream: 'next' })] });
  t.equal(next.first, 2, 'it has the sequence of a lost one');
}

t.test('[SESSION-CHECKS-1] a standby is promoted that lacks the end of the log', longer, (t) => losesEnd(t, false));
t.test('[LEASES-6] and the claim of the node that held it', longer, (t) => losesEnd(t, true));

t.test('[SESSION-CHECKS-1] a log that has grown past a loss is another one', longer, async (t) => {
  const server = await startPostgres(t);
  const store = await nodeOf(t, server.url('grown'), 'a');
  await store.append({ fence: null, idem: '1', events: [event({ at: '2026-01-01T00:00:00.000Z' })] });
  const client = await openSession(t, server, 'checks');
  await client.query('set search_path = grown');
  const errors: Error[] = [];
  const log = new KnownLog((error) => errors.push(error));
  log.has({ seq: 1, at: '2026-01-01T00:00:00.000Z' });
  await log.check(client);
  log.has({ seq: 1, at: '2026-01-01T00:00:00.001Z' });
  await log.check(client);
  const other = new KnownLog((error) => errors.push(error));
  other.has({ seq: 1, at: '2026-01-01T00:00:00.001Z' });
  await t.rejects(other.check(client), /event 1 was there, and now another one is in its place/);
  t.equal(errors.length, 1);
  t.notOk(isAlive(client), 'its session is not left open');
  const link = await Link.to(t, server.port);
  const next = await openSession(t, link, 'checks');
  await next.query('set search_path = grown');
  await other.check(next);
  link.hold('both');
  await t.rejects(other.check(next), /timeout expired/, 'no write waits for a session that falls silent');
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

t.test('[CONNECT-1] no session stays with the former primary once the beats have moved on', longer, async (t) => {
  const former = await startPostgres(t);
  const standby = await startStandby(t, former, 's1');
  const hosts = `127.0.0.1:${former.port},127.0.0.1:${standby.port}`;
  const store = await nodeOf(t, former.url('moved').replace(`127.0.0.1:${former.port}`, hosts), 'a');
  await store.append({ fence: null, idem: 'before', events: [event({ stream: 'before' })] });
  await Promise.all([1, 2, 3].map(() => store.get(row('1'))));
  await until(async () => (await standby.query('select from moved.events').catch(() => [])).length > 0);
  await standby.query('select pg_promote()');
  const beats = "select pg_terminate_backend(pid) from pg_stat_activity where query like 'select token, owner, head%'";
  // Between two beats that is the last statement of their session, and of no other.
  await until(async () => (await former.query(beats)).length > 0);
  const sessions = (server: PostgresServer) =>
    server.query("select from pg_stat_activity where application_name = 'ocpi-hub a'");
  await until(async () => (await sessions(standby)).length > 0 && store.health().state === 'open');
  await store.append({ fence: null, idem: 'after', events: [event({ stream: 'after' })] });
  t.equal((await store.read({ after: 1, limit: 1 }))[0]?.stream, 'after', 'what is acknowledged can be read');
  t.equal((await standby.query("select from moved.events where stream = 'after'")).length, 1);
  await until(async () => (await sessions(former)).length === 0);
});

t.test(
  '[CONNECT-1] a former primary that comes back while the next one is away is not taken for the primary',
  longer,
  async (t) => {
    const former = await startPostgres(t);
    const standby = await startStandby(t, former, 's1');
    const hosts = `127.0.0.1:${former.port},127.0.0.1:${standby.port}`;
    const primary = new Primary(parsePostgresUrl(former.url('x').replace(`127.0.0.1:${former.port}`, hosts)), 'a');
    t.teardown(() => primary.close());
    const portFound = async () => {
      await primary.find();
      return (await primary.connect()).port;
    };
    t.equal(await portFound(), former.port);
    await standby.query('select pg_promote()');
    t.ok(await primary.isLeftBehind());
    await standby.stop();
    const refused = { name: 'StoreUnavailable', message: /is the primary of timeline 1, and timeline 2 has followed/ };
    await t.rejects(primary.find(), refused);
    await standby.start();
    t.equal(await portFound(), standby.port);
  },
);
