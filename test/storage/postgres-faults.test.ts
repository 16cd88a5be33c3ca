/** Lost connections, late packets, cancelled waits, a server that goes and comes: nothing acknowledged is lost, nothing is written twice. */
import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/kit/system-clock.ts';
import { Damaged, type DeliveryRow, OutcomeUnknown, StoreUnavailable } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { copyToPostgres } from '../../storage/migrate.ts';
import type { PostgresStoreOptions } from '../../storage/postgres/options.ts';
import { openPostgresStore, type PostgresStore } from '../../storage/postgres/store.ts';
import { directoryFor } from '../support/directory.ts';
import { Link } from '../support/link.ts';
import { openSession, type PostgresServer, postgresHere, startPostgres } from '../support/postgres.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { append, event, row, trim, until } from './support.ts';

let schemas = 0;

async function opened(
  t: Test,
  server: PostgresServer,
  { through, ...options }: Partial<PostgresStoreOptions> & { through?: Link } = {},
): Promise<PostgresStore> {
  const url = server.url(`fault_${++schemas}`);
  const port = through?.port ?? server.port;
  const store = await openPostgresStore({
    url: url.replace(`:${server.port}`, `:${port}`),
    node: 'test',
    ttlMs: 20_000,
    answerMs: 60_000,
    ...options,
  });
  t.teardown(() => store.close());
  return store;
}

/** Every event stands once, and sequences have no hole. */
async function mustBeWhole(t: Test, store: PostgresStore, acknowledged: ReadonlyMap<number, string>): Promise<void> {
  const events = await store.read({ after: 0, limit: 1_000_000 });
  t.ok(
    events.every(({ seq }, i) => seq === i + 1),
    'dense',
  );
  t.equal(new Set(events.map(({ stream }) => stream)).size, events.length, 'none twice');
  const lost = [...acknowledged].filter(([seq, stream]) => events[seq - 1]?.stream !== stream);
  t.strictSame(lost, [], `${acknowledged.size} were acknowledged, ${events.length} are there`);
}

const inLog = async (server: PostgresServer, stream: string, schema = `fault_${schemas}`): Promise<number> =>
  (await server.query(`select 1 from ${schema}.events where stream = $1`, [stream])).length;

/** From now on commits wait for a standby that does not exist. */
async function silentStandby(t: Test, server: PostgresServer) {
  const names = async (standbys: string) => {
    await server.query(`alter system set synchronous_standby_names = '${standbys}'`);
    await server.query('select pg_reload_conf()');
  };
  /** Statements that wait for a standby. */
  const waiting = () =>
    server.query<{ pid: number; since: string; query: string }>(
      "select pid, query_start::text as since, query from pg_stat_activity where wait_event = 'SyncRep'",
    );
  /** A reload reaches the processes of the server one after the other: whether commits wait by now. */
  async function isReloaded(): Promise<boolean> {
    let ended = false;
    const probe = server.query("select pg_logical_emit_message(true, 'probe', '')").finally(() => {
      ended = true;
    });
    const held = async () =>
      (await waiting()).filter(({ query }) => query.startsWith('select pg_logical_emit_message'));
    await until(async () => ended || (await held()).length > 0);
    const [one] = await held();
    if (one) await server.query('select pg_cancel_backend($1)', [one.pid]);
    await probe;
    return one !== undefined;
  }
  t.teardown(() => names(''));
  await names('nobody');
  await until(isReloaded);
  return {
    release: () => names(''),
    /** Cancels the next waits, unless the work is over before one comes. */
    async cancel(isOver: () => boolean): Promise<void> {
      await until(async () => isOver() || (await waiting()).length > 0);
      const found = await waiting();
      for (const { pid } of found) await server.query('select pg_cancel_backend($1)', [pid]);
      const ends = new Set(found.map(({ since }) => since));
      await until(async () => isOver() || !(await waiting()).some(({ since }) => ends.has(since)));
    },
  };
}

const isOpen = (store: PostgresStore) => until(() => store.health().state === 'open');

/** Appends by so many callers, each under its key until it is known; what was acknowledged. */
function load(t: Test, store: PostgresStore, callers: number) {
  const acknowledged = new Map<number, string>();
  const isWrong: unknown[] = [];
  let [next, going] = [0, true];
  const one = async (): Promise<void> => {
    while (going) {
      const id = `n ${++next}`;
      for (let done = false; !done && (going || store.health().state !== 'closed'); ) {
        try {
          // A lease that has run out while the server was away is renewed when it is back.
          await until(() => store.held() !== null || !going);
          if (store.held() === null) return;
          const { first, last } = await append(store, {
            idem: id,
            events: [event({ stream: id })],
            puts: [row(`${next % 9}`)],
          });
          if (first !== last) isWrong.push([first, last]);
          acknowledged.set(last, id);
          done = true;
        } catch (error) {
          // Not written for certain: this caller gives up; unknown: it asks again.
          if (!(error instanceof OutcomeUnknown)) done = true;
          if (!(error instanceof OutcomeUnknown || error instanceof StoreUnavailable)) isWrong.push(error);
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      }
    }
  };
  const all = Promise.all(Array.from({ length: callers }, one));
  t.teardown(() => {
    going = false;
  });
  return {
    acknowledged,
    async end(): Promise<void> {
      going = false;
      await all;
      if (isWrong.length > 0) throw new Error(`${isWrong.length} went wrong`, { cause: isWrong[0] });
    },
  };
}

function suite(server: PostgresServer): void {
  t.test(
    '[CONTRACT-3] a commit whose answer was lost with its connection is found in the log, and acknowledged once',
    async (t) => {
      const link = await Link.to(t, server.port);
      const store = await opened(t, server, { through: link });
      await append(store, { events: [event({ stream: 'before' })] });
      link.hold('to client');
      const answer = append(store, { idem: 'x', events: [event({ stream: 'lost' })] });
      await until(async () => (await inLog(server, 'lost')) === 1);
      link.lose();
      t.match(await answer, { first: 2, last: 2 });
      link.deliver();
      await isOpen(store);
      t.strictSame(await append(store, { idem: 'x', events: [event({ stream: 'lost' })] }), {
        first: 2,
        last: 2,
        replayed: true,
      });
      await mustBeWhole(t, store, new Map([[2, 'lost']]));
    },
  );

  t.test(
    '[CONTRACT-3] a statement that the network delivers late, after it was sent again, writes nothing',
    async (t) => {
      const link = await Link.to(t, server.port);
      const store = await opened(t, server, { through: link });
      const fence = store.held();
      if (fence === null) throw new Error('no fence');
      const delivery = (state: DeliveryRow['state'], seq = 1): DeliveryRow => ({
        dest: 'A',
        seq,
        state,
        data: null,
      });
      await append(store, { events: [event({ stream: 'before' })] });
      await store.settle(fence, [delivery('PENDING')], []);
      for (const late of ['append', 'settle'] as const) {
        link.hold('to server');
        const answer =
          late === 'append'
            ? append(store, { events: [event({ stream: late })] })
            : store.settle(fence, [delivery('DEAD')], []);
        await until(() => link.waiting() > 0);
        link.lose();
        await answer;
        await isOpen(store);
        await store.settle(fence, [delivery('PENDING')], []);
        await append(store, { events: [event({ stream: `after ${late}` })] });
        const backends = async () =>
          (
            await server.query(
              "select 1 from pg_stat_activity where application_name like 'ocpi-hub%' and state = 'active'",
            )
          ).length;
        link.deliver();
        await until(async () => (await backends()) === 0 && link.waiting() === 0);
        await append(store, { events: [event({ stream: `and ${late}` })] });
        t.match(await store.delivery('A', 1), { state: 'PENDING' }, `a late ${late} changes nothing`);
      }
      await mustBeWhole(t, store, new Map([[2, 'append']]));
    },
  );

  t.test(
    'connections are killed under load: nothing acknowledged is lost, nothing is stored twice',
    atLength,
    async (t) => {
      const store = await opened(t, server);
      const { acknowledged, end } = load(t, store, 12);
      for (let kills = 0; kills < (isAtLength ? 15 : 2); kills += 1) {
        const before = acknowledged.size;
        await until(() => acknowledged.size > before + 20);
        await server.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'ocpi-hub%'",
        );
      }
      await end();
      await isOpen(store);
      await mustBeWhole(t, store, acknowledged);
    },
  );

  t.test(
    'a caller that waits too long: a sent write is unknown and found later, an unsent one is refused and never written',
    async (t) => {
      const link = await Link.to(t, server.port);
      const store = await opened(t, server, { through: link, answerMs: 1500, ttlMs: 60_000 });
      /** The same key until it is known: this machine may be slower than a caller waits. */
      const known = async (parts: Parameters<typeof append>[1]) => {
        for (;;) {
          const end = await append(store, parts).catch(() => null);
          if (end !== null) return end;
        }
      };
      await known({ idem: 'before', events: [event({ stream: 'before' })] });
      link.hold('to client');
      const sent = append(store, { idem: 'sent', events: [event({ stream: 'sent' })] });
      await until(async () => (await inLog(server, 'sent')) === 1);
      const unsent = append(store, { idem: 'unsent', events: [event({ stream: 'unsent' })] });
      // Both at once: on a machine that stands still both are late in the same turn.
      await Promise.all([t.rejects(sent, OutcomeUnknown), t.rejects(unsent, StoreUnavailable)]);
      await t.rejects(append(store, { idem: 'sent' }), OutcomeUnknown, 'it is still unknown');
      link.deliver();
      t.match(await known({ idem: 'sent' }), { first: 2, last: 2, replayed: true });
      t.match(await known({ idem: 'after', events: [event({ stream: 'after' })] }), { first: 3 });
      t.equal(await inLog(server, 'unsent'), 0);
    },
  );

  t.test(
    '[SESSION-CHECKS-3] VACUUM FULL of the events: new sessions wait for it, and the node keeps what it has',
    async (t) => {
      const losses: number[] = [];
      const store = await opened(t, server, { lost: () => void losses.push(1) });
      const { first } = await append(store);
      const vacuum = await openSession(t, server, 'vacuum');
      await vacuum.query(`begin; lock table fault_${schemas}.events in access exclusive mode`);
      const expires = async () =>
        (await server.query<{ at: string }>(`select expires::text as at from fault_${schemas}.nodes`))[0]?.at;
      const before = await expires();
      await server.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ocpi-hub test'",
      );
      await store.poke();
      t.match(store.health(), { state: 'open' });
      t.not(await expires(), before, 'its lease is renewed on a new session');
      const appended = append(store);
      const waits =
        "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%select at from events%'";
      await until(async () => (await server.query(waits)).length > 0);
      await store.poke();
      await vacuum.query('commit');
      t.equal((await appended).first, first + 1);
      t.match(store.health(), { state: 'open' });
      t.strictSame(losses, []);
    },
  );

  t.test(
    '[SESSION-CHECKS-3] a store closes while a write that was not sent waits for a lock of the events',
    async (t) => {
      const store = await opened(t, server);
      await append(store);
      const vacuum = await openSession(t, server, 'vacuum');
      await vacuum.query(`begin; lock table fault_${schemas}.events in access exclusive mode`);
      await server.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ocpi-hub test'",
      );
      await store.poke();
      const refused = t.rejects(append(store), { name: 'StoreUnavailable', message: /closed/ });
      const waits =
        "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%select at from events%'";
      await until(async () => (await server.query(waits)).length > 0);
      await store.close();
      await refused;
    },
  );

  t.test('PITFALL: a cancelled wait for a standby answers with success, and is not believed', async (t) => {
    const store = await opened(t, server, { answerMs: 60_000 });
    await append(store, { events: [event({ stream: 'before' })] });
    const standby = await silentStandby(t, server);
    let answered = false;
    const answer = append(store, { idem: 'x', events: [event({ stream: 'waits' })] }).finally(() => {
      answered = true;
    });
    answer.catch(() => {});
    for (let cancels = 0; cancels < 2 && !answered; cancels += 1) await standby.cancel(() => answered);
    t.equal(await inLog(server, 'waits'), 1, 'the server has it');
    t.notOk(answered, 'and nobody was told so');
    await standby.release();
    t.match(await answer, { first: 2, last: 2 });
    await mustBeWhole(t, store, new Map([[2, 'waits']]));
  });

  t.test(
    'PITFALL: nor is the success of a trim or of a copy whose wait for a standby was cancelled',
    atLength,
    async (t) => {
      const store = await opened(t, server);
      for (let i = 0; i < 3; i += 1) await append(store);
      const source = join(directoryFor(t), 'store');
      const embedded = await openLevelStore({ directory: source, node: 'test', ballastBytes: 0 });
      await append(embedded);
      await embedded.close();
      const target = server.url('copied_unconfirmed');
      const standby = await silentStandby(t, server);
      /** What the work rejects with when each of its waits is cancelled; null when it does not. */
      async function cancelled(work: Promise<unknown>): Promise<Error | null> {
        let isOver = false;
        const ended = work
          .then(
            () => null,
            (error: Error) => error,
          )
          .finally(() => {
            isOver = true;
          });
        while (!isOver) await standby.cancel(() => isOver);
        return ended;
      }
      t.match(await cancelled(trim(store, 2)), {
        name: 'StoreUnavailable',
        message: /wait for a standby was cancelled/,
      });
      t.match(await cancelled(copyToPostgres(source, target)), {
        message:
          /not confirmed \(the wait for a standby was cancelled\): drop the schema copied_unconfirmed and copy again/,
      });
      await standby.release();
      await until(async () => store.health().state === 'open');
      await trim(store, 3);
      t.equal(store.horizon(), 3, 'and trimming goes on');
    },
  );

  t.test(
    'a server is stopped and started: meanwhile writes are refused in words, and no restart is needed',
    atLength,
    async (t) => {
      const store = await opened(t, server, { ttlMs: 3000 });
      const heard: string[] = [];
      const reasons: (string | null)[] = [];
      store.onHealth(({ state, reason }) => {
        heard.push(state);
        reasons.push(reason);
      });
      await until(() => store.held() !== null);
      const fence = store.held();
      if (fence === null) throw new Error('no fence');
      await Promise.all([1, 2, 3, 4, 5].map((i) => append(store, { events: [event({ stream: `${i}` })] })));
      await server.stop();
      await until(() => store.health().state === 'failed');
      await until(() =>
        /no database server takes writes: 127\.0\.0\.1:\d+ connect ECONNREFUSED/.test(store.health().reason ?? ''),
      );
      await t.rejects(store.append({ fence, idem: 'away', events: [event()] }), StoreUnavailable);
      await t.rejects(store.get(row('1')), StoreUnavailable);
      t.equal(store.head(), 5);
      await until(() => store.held() === null);
      await server.start();
      await isOpen(store);
      await until(() => store.held() !== null);
      t.strictSame(store.held(), fence, 'nobody took the log');
      t.equal((await append(store)).first, 6);
      t.strictSame(
        heard.filter((state, i) => state !== heard[i - 1]),
        ['failed', 'open'],
      );
      t.notOk(
        reasons.some((reason) => /confirms|lease/.test(reason ?? '')),
        'the first beat renewed the lease',
      );
    },
  );

  t.test(
    'a server that grants no session for writes: the store says so from its start, until it grants one',
    async (t) => {
      await server.query('create role few login; grant create on database postgres to few');
      const url = server.url(`fault_${++schemas}`).replace('//hub@', '//few@');
      const sessions = (most: number) => server.query(`alter role few connection limit ${most}`);
      // Of the reads, the beats and their confirmations.
      await sessions(3);
      const store = await openPostgresStore({ url, node: 'test', ttlMs: 60_000 });
      t.teardown(() => store.close());
      const refused = { state: 'failed', reason: /^the database refused a write: too many connections for role "few"/ };
      t.match(store.health(), refused);
      await t.rejects(append(store), StoreUnavailable);
      await store.poke();
      await store.look();
      t.match(store.health(), refused, 'a session that it has proves nothing');
      await sessions(-1);
      await until(async () => {
        await store.poke();
        return store.health().state === 'open';
      });
      t.equal((await append(store)).first, 1);
      await sessions(1);
      const fence = store.held();
      if (fence === null) throw new Error('no fence');
      await store.settle(fence, [], [{ dest: 'NL-EMS', seq: 1 }]);
      t.equal(store.health().state, 'open', 'settles need no further one');
      t.strictSame(await store.floors(), [{ dest: 'NL-EMS', seq: 1 }]);
    },
  );

  t.test(
    'a lease that is not renewed names the reason: a standby that does not confirm, or another one',
    atLength,
    async (t) => {
      await server.query('create role lessee login; grant create on database postgres to lessee');
      const url = server.url(`fault_${++schemas}`).replace('//hub@', '//lessee@');
      let passedMs = 0;
      const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + passedMs };
      const store = await openPostgresStore({ url, node: 'test', ttlMs: 3000, clock });
      t.teardown(() => store.close());
      const becomes = (state: string) =>
        until(async () => {
          await store.poke();
          return store.health().state === state;
        });
      await becomes('open');
      await server.query('alter role lessee connection limit 1');
      const flushes = "usename = 'lessee' and query like 'select pg_logical_emit_message%'";
      await server.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${flushes}`);
      passedMs += 3000;
      await becomes('failed');
      t.match(store.health().reason, /^the lease of this node has run out and is being renewed/);
      // The first beat finds the session that was ended, a later one that the server grants no other.
      await until(async () => {
        await store.poke();
        return store.health().reason?.includes('is being renewed: too many connections') === true;
      });
      await server.query('alter role lessee connection limit -1');
      await becomes('open');
      const standby = await silentStandby(t, server);
      passedMs += 3000;
      await becomes('failed');
      t.equal(store.health().reason, 'commits wait for a standby, and none confirms them');
      await standby.release();
      await becomes('open');
    },
  );

  const times = isAtLength ? 3 : 1;
  t.test(`a server killed under load, ${times} times: acknowledged is in the log, the log is dense`, async (t) => {
    const store = await opened(t, server);
    const { acknowledged, end } = load(t, store, 16);
    for (let kills = 0; kills < times; kills += 1) {
      const before = acknowledged.size;
      await until(() => acknowledged.size > before + 100);
      await server.kill();
      await server.start();
      await isOpen(store);
    }
    await end();
    await mustBeWhole(t, store, acknowledged);
  });

  t.test(
    '[CONTRACT-6] a server killed behind settles: no floor passes a row that it lost, none goes back',
    async (t) => {
      // Each beat has the server flush.
      const store = await opened(t, server, { ttlMs: 60_000 });
      const fence = store.held();
      if (fence === null) throw new Error('no fence');
      for (let i = 0; i < 5; i += 1) await append(store);
      const settle = (seq: number, state: DeliveryRow['state'], floor = seq) =>
        store.settle(fence, [{ dest: 'A', seq, state, data: { seq } }], [{ dest: 'A', seq: floor }]);
      await settle(1, 'PENDING');
      await settle(3, 'PENDING', 1);
      await settle(3, 'DELIVERED', 1);
      await settle(2, 'DEAD');
      await settle(1, 'DELIVERED', 3);
      await settle(4, 'DELIVERED', 3);
      await server.kill();
      await server.start();
      await store.poke();
      await isOpen(store);
      t.match(await store.delivery('A', 2), { state: 'DEAD' }, 'a dead letter is there at once');
      await settle(5, 'DELIVERED');
      const open = await store.deliveries({ dest: 'A', rows: 'open', limit: 9 });
      const arrived = await store.deliveries({ dest: 'A', rows: 'DELIVERED', limit: 9 });
      t.strictSame(
        [open, arrived].map((rows) => rows.map(({ seq }) => seq)),
        [[2], [1, 3, 4, 5]],
      );
      t.strictSame(await store.floors(), [{ dest: 'A', seq: 5 }]);
    },
  );

  t.test('[CONTRACT-8] a page that rotted on the disk is reported and not served; the rest can be read', async (t) => {
    const store = await opened(t, server);
    const seqs = Array.from({ length: 12 }, (_, i) => i + 1);
    const body = randomBytes(700).toString('hex');
    for (const seq of seqs) await append(store, { events: [event({ stream: `${seq}`, body })], puts: [row(`${seq}`)] });
    const [at] = await server.query<{ path: string }>(`select pg_relation_filepath('fault_${schemas}.events') as path`);
    await server.stop();
    const path = join(server.directory, at?.path ?? '');
    const place = readFileSync(path).indexOf(body);
    const file = openSync(path, 'r+');
    writeSync(file, 'x', place + 100);
    closeSync(file);
    await server.start();
    await isOpen(store);
    const outcomes = await Promise.allSettled(seqs.map((seq) => store.event(seq)));
    const damaged = outcomes.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    t.ok(damaged.length > 0 && damaged.length < 12, `${damaged.length} of 12 are damaged`);
    t.ok(damaged.every((error) => error instanceof Damaged));
    t.match(store.health(), { state: 'quarantined', reason: /damaged: .*invalid page/ });
    await t.rejects(append(store), StoreUnavailable);
    t.match(await store.get(row('3')), { seq: 3 }, 'reads go on');
  });
}

if (postgresHere === null) t.plan(0, 'no PostgreSQL server is installed here');
// A killed server loses what it has not flushed: by itself it flushes late.
else suite(await startPostgres(t, "wal_writer_delay = '10s'"));
