/** Several nodes on one database: the log has one owner, goes on elsewhere when that is dead, and who was fenced writes nothing. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { systemClock } from '../../src/kit/system-clock.ts';
import { type Fence, Fenced } from '../../storage/contract.ts';
import { Leases, patience } from '../../storage/postgres/leases.ts';
import { openPostgresStore, type PostgresStore } from '../../storage/postgres/store.ts';
import { Link } from '../support/link.ts';
import { newSchema, openSession, type PostgresServer, postgresHere, sharedPostgres } from '../support/postgres.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { append, event, patient, trim, until } from './support.ts';

const CHILD = join(import.meta.dirname, 'postgres-node', 'child.js');
const ttlMs = 1500;
/** Commits of a node. */
const some = isAtLength ? 50 : 15;

/** A node in a process of its own, with all that it said. */
async function startNode(t: Test, url: string, name: string, ttl = ttlMs) {
  const words = [CHILD, url, name, `${ttl}`];
  const child = spawn(process.execPath, words, { stdio: ['pipe', 'pipe', 'inherit'] });
  const said: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => said.push(line));
  const end = new Promise((resolve) => child.once('close', resolve));
  t.teardown(async () => {
    child.kill('SIGKILL');
    await end;
  });
  await until(() => said.includes('ready') || child.exitCode !== null);
  const count = (word: string) => said.filter((line) => line.split(' ')[0] === word).length;
  return {
    ...{ child, said, end },
    /** It renews and looks at once. */
    poke: () => void child.stdin.write('\n'),
    holds: () => count('gained') > count('lost'),
    /** [seq, stream] of what was acknowledged. */
    acknowledged: () =>
      said.flatMap((line) => {
        const [word, seq, ...stream] = line.split(' ');
        return word === 'ack' ? [[Number(seq), stream.join(' ')] as const] : [];
      }),
  };
}

t.test(
  'a waiter for the lease of a dead node tries at least ten times, however long it was stopped in between',
  (t) => {
    let at = 7;
    const mayWait = patience({ ...systemClock, monotonic: () => at }, 3000);
    const asked = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(() => {
      at += 3_600_000;
      return mayWait();
    });
    t.strictSame(asked, [...Array.from({ length: 10 }, () => true), false]);
    t.end();
  },
);

type Node = Awaited<ReturnType<typeof startNode>>;

async function openNode(t: Test, url: string, node: string, ttl = ttlMs) {
  const gains: Fence[] = [];
  const losses: null[] = [];
  const heard = { gained: (fence: Fence) => gains.push(fence), lost: () => losses.push(null) };
  const store = await openPostgresStore({ url, node, sole: false, ...patient, ttlMs: ttl, ...heard });
  t.teardown(() => store.close());
  return Object.assign(store, { gains, losses });
}

const holds = (store: PostgresStore) => until(() => store.held() !== null);

function fenceOf(store: PostgresStore): Fence {
  const fence = store.held();
  if (fence === null) throw new Error('no fence');
  return fence;
}

/** What any node was told is written stands where it was told, and the log is dense. */
async function mustBeWhole(t: Test, store: PostgresStore, nodes: readonly Node[]): Promise<void> {
  const log = await store.read({ after: 0, limit: 1_000_000 });
  t.ok(
    log.every(({ seq }, i) => seq === i + 1),
    'the log is dense',
  );
  t.equal(new Set(log.map(({ stream }) => stream)).size, log.length, 'nothing stands twice');
  const acknowledged = nodes.flatMap((node) => node.acknowledged());
  const lost = acknowledged.filter(([seq, stream]) => log[seq - 1]?.stream !== stream);
  t.strictSame(lost, [], `${acknowledged.length} were acknowledged, ${log.length} are there`);
}

function suite(server: PostgresServer): void {
  t.test('a node that joins stands by; when the owner leaves, the log is handed over', async (t) => {
    const url = server.url(newSchema('joining'));
    const a = await openNode(t, url, 'a', 30_000);
    await holds(a);
    const b = await openNode(t, url, 'b', 30_000);
    const beat = () => Promise.all([a.poke(), b.poke()]);
    for (let i = 0; i < 3; i += 1) await beat();
    t.equal(b.held(), null, 'the log stays with its owner');
    t.equal(b.owner()?.name, 'a');
    t.match(
      b
        .nodes()
        .map(({ name, alive }) => `${name} ${alive}`)
        .sort(),
      ['a true', 'b true'],
    );
    await a.append({ fence: fenceOf(a), idem: 'x', events: [event()] });
    await beat();
    t.equal(b.head(), 1);
    t.equal((await b.read({ after: 0, limit: 9 })).length, 1, 'any node reads what any node wrote');
    // More than one statement has.
    const waiting = Promise.all(Array.from({ length: 300 }, () => append(a)));
    await a.leave();
    t.equal((await waiting).at(-1)?.last, 301, 'what waited was written');
    t.strictSame([a.held(), a.losses.length], [null, 1]);
    await until(async () => {
      await beat();
      return b.held() !== null;
    });
    t.equal(fenceOf(b).token, 2, 'the token grew, and nobody had to wait for a lease to run out');
    t.strictSame(b.gains, [fenceOf(b)]);
    await a.poke();
    t.equal(a.owner()?.name, 'b', 'a node that left sees who has the log');
    t.equal((await b.append({ fence: fenceOf(b), idem: 'y', events: [event()] })).first, 302);
    await a.close();
    await b.close();
    const c = await openNode(t, url, 'c');
    await holds(c);
    t.equal(fenceOf(c).token, 3, 'one that closes hands it over, too');
  });

  t.test('a node that gains the log takes its present end, also when that is before the last one it saw', async (t) => {
    const schema = newSchema('rewound');
    const first = await openNode(t, server.url(schema), 'first', 30_000);
    await holds(first);
    const second = await openNode(t, server.url(schema), 'second', 30_000);
    for (const idem of ['x', 'y', 'z']) await first.append({ fence: fenceOf(first), idem, events: [event()] });
    await second.poke();
    t.equal(second.head(), 3);
    // As a standby that did not have the last commit yet is promoted.
    await server.query(`delete from ${schema}.events where seq = 3`);
    await server.query(`update ${schema}.log set head = 2`);
    await first.leave();
    await until(async () => {
      await second.poke();
      return second.held() !== null;
    });
    t.equal(second.head(), 2);
    t.equal((await second.append({ fence: fenceOf(second), idem: 'w', events: [event()] })).first, 3);
  });

  t.test('of several nodes that claim a free log at once, one gets it', async (t) => {
    const url = server.url(newSchema('free'));
    const nodes = await Promise.all(['a', 'b', 'c'].map((name) => openNode(t, url, name, 30_000)));
    await until(() => nodes.some((node) => node.held() !== null));
    for (const node of nodes) await node.poke();
    t.strictSame(
      nodes.flatMap(({ gains }) => gains).map(({ token }) => token),
      [1],
    );
  });

  t.test('[LEASES-6] a log that was released: the former fence is refused, and the next one is greater', async (t) => {
    const store = await openNode(t, server.url(newSchema('given')), 'a', 300_000);
    await holds(store);
    const fence = fenceOf(store);
    await store.append({ fence, idem: 'before', events: [event()] });
    store.giveUp();
    t.equal(store.held(), null);
    await t.rejects(store.append({ fence, idem: 'late', events: [event()] }), {
      name: 'Fenced',
      message: /^the log is not held here, not by a\/[0-9a-f]+ with 1$/,
    });
    await until(async () => {
      await store.poke();
      return store.held() !== null;
    });
    t.strictSame([fenceOf(store).token, store.losses.length], [2, 1]);
    await t.rejects(store.append({ fence, idem: 'late', events: [event()] }), {
      name: 'Fenced',
      message: /^the log is held by a\/[0-9a-f]+ with token 2, not by a\/[0-9a-f]+ with 1$/,
    });
    t.equal((await store.append({ fence: fenceOf(store), idem: 'next', events: [event()] })).first, 2);
  });

  t.test('[LEASES-5] a late release leaves a later claim of the same node intact', async (t) => {
    const schema = newSchema('claimed');
    await (await openPostgresStore({ url: server.url(schema), node: 'a', ...patient })).close();
    const client = await openSession(t, server, 'a');
    await client.query(`set search_path = ${schema}`);
    const nothing = () => {};
    let isLate = false;
    const leases = new Leases({
      ...{ clock: systemClock, id: 'a/1', name: 'a', url: null, ttlMs, gained: nothing, lost: nothing, seen: nothing },
      ...{ drained: async () => {}, isDoubtful: () => false },
      async durably(work) {
        if (isLate) await client.query('update log set token = token + 1');
        return work(client);
      },
    });
    await leases.beat(client);
    await until(() => leases.kept() !== null);
    isLate = true;
    await leases.leave();
    t.strictSame((await client.query('select owner from log')).rows, [{ owner: 'a/1' }]);
  });

  t.test('[CONTRACT-4] a late append of a node whose log was taken is Fenced and writes nothing', async (t) => {
    const schema = newSchema('late');
    const url = server.url(schema);
    const a = await openPostgresStore({ url, node: 'a', sole: false, ...patient, ttlMs: 300_000 });
    t.teardown(() => a.close());
    await holds(a);
    const fence = fenceOf(a);
    await a.append({ fence, idem: 'first', events: [event()] });
    // As if it had stood still for longer than its lease.
    await server.query(`update ${schema}.nodes set expires = now() - interval '1 second' where name = 'a'`);
    const b = await openNode(t, url, 'b');
    await holds(b);
    const waiting = [1, 2, 3].map((n) => a.append({ fence, idem: `late ${n}`, events: [event()] }));
    for (const late of waiting) await t.rejects(late, Fenced);
    await t.rejects(a.settle(fence, [{ dest: 'A', seq: 1, state: 'DEAD', data: null }], []), Fenced);
    t.equal(await b.delivery('A', 1), null);
    t.equal((await b.read({ after: 0, limit: 9 })).length, 1);
    await until(() => a.held() === null && b.held() !== null);
    t.ok(fenceOf(b).token > fence.token);
    t.equal((await b.append({ fence: fenceOf(b), idem: 'next', events: [event()] })).first, 2);
  });

  t.test(
    'a node is killed under load: another one gains the log, and every acknowledged write is there',
    atLength,
    async (t) => {
      const schema = newSchema('killed');
      const url = server.url(schema);
      const dying = await startNode(t, url, 'dying', 300_000);
      await until(() => dying.acknowledged().length > some);
      const store = await openNode(t, url, 'survivor');
      const acks = dying.acknowledged().length;
      await until(() => dying.acknowledged().length > acks + some);
      t.equal(store.held(), null, 'it stands by');
      dying.child.kill('SIGKILL');
      await dying.end;
      await server.query(`update ${schema}.nodes set expires = now() where name = 'dying'`);
      await holds(store);
      t.match(store.gains, [{ token: 2 }]);
      await store.append({ fence: fenceOf(store), idem: 'on', events: [event({ stream: 'on' })] });
      await mustBeWhole(t, store, [dying]);
    },
  );

  t.test('a node that was stopped acts no more when it continues: it is refused, and stands by', async (t) => {
    const url = server.url(newSchema('stopped'));
    const sleeper = await startNode(t, url, 'sleeper');
    await until(() => sleeper.acknowledged().length > some);
    const other = await startNode(t, url, 'other');
    sleeper.child.kill('SIGSTOP');
    const told = sleeper.said.length;
    await until(() => other.holds() && other.acknowledged().length > some);
    sleeper.child.kill('SIGCONT');
    await until(() => sleeper.said.slice(told).includes('lost'));
    const acks = other.acknowledged().length;
    await until(() => other.acknowledged().length > acks + 20);
    t.notOk(sleeper.holds());
    other.child.stdin.end();
    await other.end;
    const again = sleeper.acknowledged().length;
    await until(() => sleeper.acknowledged().length > again + 20);
    t.pass('it takes the log again when it is free');
    sleeper.child.stdin.end();
    await sleeper.end;
    const store = await openNode(t, url, 'reader');
    await mustBeWhole(t, store, [sleeper, other]);
  });

  t.test('[LEASES-8] a dead owner’s row that ends later than the longest lease is not waited for', async (t) => {
    const schema = newSchema('ahead');
    const url = server.url(schema);
    await (await openNode(t, url, 'first')).close();
    const own = (expires: string) =>
      server.query(`set search_path = ${schema}; delete from nodes where name = 'dead'; update log set owner = 'dead';
        insert into nodes (id, name, expires) values ('dead', 'dead', clock_timestamp() + interval '${expires}')`);
    await own('60 days');
    const sole = await openPostgresStore({ url, node: 'sole', ttlMs });
    t.not(sole.held(), null);
    await sole.close();
    await own('200 s');
    const second = await openNode(t, url, 'second');
    await until(() => second.owner()?.name === 'dead');
    await own('60 days');
    await holds(second);
  });

  t.test(
    '[CONNECT-4] an owner that falls silent in the middle of a trim or an erasure is succeeded by another',
    async (t) => {
      const as = (text: string) => text;
      const works = {
        trim: (store: PostgresStore) => trim(store, 1),
        erasure: (store: PostgresStore) =>
          store.rewrite({ fence: fenceOf(store), events: [1], heads: [], rows: [], key: (row) => row, text: as }),
      };
      const ends = Object.entries(works).map(async ([name, work]) => {
        const schema = newSchema(name);
        const link = await Link.to(t, server.port);
        const silent = await openNode(t, server.url(schema).replace(`:${server.port}`, `:${link.port}`), 'silent');
        await holds(silent);
        await append(silent);
        const holder = await openSession(t, server, 'holder');
        await holder.query(`begin; select from ${schema}.events for update`);
        work(silent).catch(() => {});
        // It has the lock on the log then, and its next statement never comes.
        const waits = `select from pg_stat_activity where wait_event_type = 'Lock'
        and pid in (select pid from pg_locks where relation = '${schema}.log'::regclass)`;
        await until(async () => (await server.query(waits)).length > 0);
        link.pause();
        await holder.query('commit');
        const next = await openNode(t, server.url(schema), 'next');
        await holds(next);
        t.equal((await append(next)).last, 2, name);
      });
      await Promise.all(ends);
    },
  );

  t.test('a read in progress at the server is waited for, longer than a write', async (t) => {
    const schema = newSchema('patient');
    const store = await openPostgresStore({ url: server.url(schema), node: 'patient', sole: false, answerMs: 1 });
    t.teardown(() => store.close());
    const holder = await openSession(t, server, 'holder');
    await holder.query(`begin; lock table ${schema}.rows`);
    const read = store.get({ kind: 'locations', owner: 'NL-CPO', id: 'L1' });
    const waits = "select from pg_stat_activity where wait_event_type = 'Lock' and application_name like '%patient%'";
    await until(async () => (await server.query(waits)).length > 0);
    await holder.query('commit');
    t.equal(await read, null);
  });

  t.test(
    'a node that must be the only one does not start beside another, and waits for one that was killed',
    async (t) => {
      const url = server.url(newSchema('alone'));
      const first = await openPostgresStore({ url, node: 'first', nodeUrl: 'http://first', ttlMs: 60_000 });
      const second = openPostgresStore({ url, node: 'second', ttlMs: 300 });
      await t.rejects(second, {
        name: 'StoreUnavailable',
        message: /is in use by another hub: first at http:\/\/first/,
      });
      t.not(first.held(), null, 'the first one was not disturbed');
      await first.close();
      const killed = await startNode(t, url, 'killed');
      await until(() => killed.acknowledged().length > 0);
      killed.child.kill('SIGKILL');
      await killed.end;
      const third = await openPostgresStore({ url, node: 'third', ttlMs: isAtLength ? 12_000 : 5000 });
      t.teardown(() => third.close());
      t.not(third.held(), null);
      await mustBeWhole(t, third, [killed]);
    },
  );
}

if (postgresHere === null) t.plan(0, 'no PostgreSQL server is installed here');
else suite(await sharedPostgres());
