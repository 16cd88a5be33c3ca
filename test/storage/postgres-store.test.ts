/** The PostgreSQL store passes the exam of every store, and keeps its own promises about order, groups and load. */
import { Client } from 'pg';
import type { Clock } from '../../src/kit/clock.ts';
import { nextTurn, systemClock } from '../../src/kit/system-clock.ts';
import { type DeliveryState, StoreUnavailable } from '../../storage/contract.ts';
import { Primary } from '../../storage/postgres/connect.ts';
import { parsePostgresUrl } from '../../storage/postgres/options.ts';
import { PostgresReads } from '../../storage/postgres/reads.ts';
import { DELIVERIES } from '../../storage/postgres/rewrite.ts';
import { openPostgresStore } from '../../storage/postgres/store.ts';
import { parametersOf, prepareCommit, prepareSettle, WRITE } from '../../storage/postgres/write-parameters.ts';
import { WritePipeline } from '../../storage/postgres/write-pipeline.ts';
import { appendAt } from '../../storage/postgres/write-sql.ts';
import { directoryFor } from '../support/directory.ts';
import {
  newSchema,
  openReader,
  openSession,
  type PostgresServer,
  postgresHere,
  shapeOf,
  sharedPostgres,
} from '../support/postgres.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { storeSuite } from './contract-suite.ts';
import { storesOn } from './postgres-stores.ts';
import { rewriteSuite } from './rewrite-suite.ts';
import { append, collect, event, patient, row, seen, trim, until } from './support.ts';
import { trimSuite } from './trim-suite.ts';

/** A session as the store opens them. */
async function connected(t: Test, url: string, ...settings: Parameters<Primary['connect']>): Promise<Client> {
  const primary = new Primary(parsePostgresUrl(url), 'test');
  t.teardown(() => primary.close());
  await primary.find();
  return primary.connect(...settings);
}

/** How many rows a statement finds, and at how many pages it looks. */
async function explained(client: Client, text: string, values: unknown[]): Promise<{ found: number; pages: number }> {
  const said = await client.query<{ 'QUERY PLAN': string }>(`explain (analyze, buffers, format json) ${text}`, values);
  const [{ Plan: plan }] = JSON.parse(said.rows[0]?.['QUERY PLAN'] ?? '');
  return { found: plan['Actual Rows'], pages: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] };
}

function suite(server: PostgresServer): void {
  let statements = 0;
  const onPoint = (name: string): void => {
    if (name === 'write.before') statements += 1;
  };
  const { schemaAt, open, done, lend } = storesOn(server, t, { onPoint });

  storeSuite(t, open, done);
  // `backupSuite` is in postgres-copy.test.ts, with the way back.
  trimSuite(t, open, done);
  rewriteSuite(t, open, done);

  t.test('all waiting commits go into the next statement, and are stored in order of the calls', async (t) => {
    const store = await lend(t);
    const fence = store.held();
    if (!fence) throw new Error('no fence');
    statements = 0;
    const writes: Promise<unknown>[] = [];
    for (let i = 0; i < 300; i += 1) {
      for (const data of ['first', 'second']) {
        const due = [{ key: `${i}`, at: event().at }];
        const events = [event({ stream: `${i}`, data })];
        writes.push(store.append({ fence, idem: `${i} ${data}`, events, puts: [row(`${i}`, { data })], due }));
      }
      writes.push(store.settle(fence, [{ dest: 'A', seq: 1, state: 'DEAD', data: i }], []));
    }
    await Promise.all(writes);
    t.ok(statements <= 6, `${statements} statements for ${writes.length} writes`);
    const log = await store.read({ after: 0, limit: 1000 });
    t.strictSame([log.length, store.head()], [600, 600]);
    t.ok(log.every(({ seq, data }, i) => seq === i + 1 && data === (i % 2 === 0 ? 'first' : 'second')));
    for (const { stream, seq, data } of log) {
      if (data !== 'second') continue;
      const stored = await store.get(row(stream));
      if (stored?.seq !== seq || stored.data !== 'second') t.fail(`row ${stream} is ${JSON.stringify(stored)}`);
    }
    t.equal((await store.due()).length, 300);
    t.match(await store.delivery('A', 1), { data: 299 }, 'the last of them');
  });

  t.test(
    'what was delivered is written with the next commit, and without one all the same [WRITE-PIPELINE-7]',
    async (t) => {
      const place = directoryFor(t);
      const store = await lend(t, place);
      const fence = store.held();
      if (!fence) throw new Error('no fence');
      const settle = (seq: number, state: DeliveryState = 'DELIVERED') =>
        store.settle(fence, [{ dest: 'A', seq, state, data: null }], [{ dest: 'A', seq }]);
      await append(store);
      statements = 0;
      const ended = settle(1);
      for (let turns = 0; turns < 5; turns += 1) await nextTurn();
      await Promise.all([ended, append(store)]);
      t.equal(statements, 1, 'the commit brought it');
      await settle(2);
      t.equal(statements, 2, 'none came');
      t.strictSame(await store.floors(), [{ dest: 'A', seq: 2 }]);
      const order: string[] = [];
      const delivered = settle(3).then(() => void order.push('delivered'));
      await settle(3, 'DEAD').then(() => void order.push('dead'));
      await delivered;
      t.strictSame(order, ['delivered', 'dead'], 'a later one does not overtake it');
      t.match(await store.delivery('A', 3), { state: 'DEAD' });
      const last = settle(4);
      await store.close();
      await last;
      const reopened = await open(place);
      t.strictSame(await reopened.floors(), [{ dest: 'A', seq: 4 }], 'closing writes what waits');
      await reopened.close();
    },
  );

  t.test('what waits for a commit goes to no server that has lost the end of the log [WRITE-PIPELINE-7]', async (t) => {
    const fence = { node: 'a', token: 1 };
    const asked: string[] = [];
    const pipeline = new WritePipeline({
      // Its wait ends by the loss alone.
      clock: { ...systemClock, setTimeout: () => null },
      async connect(durability) {
        asked.push(durability);
        throw new Error('no');
      },
      turn: () => 1,
      isWorking: async () => true,
      written() {},
      refused() {},
      gone() {},
      point() {},
    });
    const refused = new Promise<Error>((resolve) => {
      const settle = prepareSettle([{ dest: 'A', seq: 1, state: 'DELIVERED', data: null }], [{ dest: 'A', seq: 1 }]);
      pipeline.push({
        ...{ fence, commit: null, settle, size: settle.size, sent: false, withdrawn: false },
        done: () => resolve(new Error('it was written')),
        fail: resolve,
      });
    });
    const lost = new StoreUnavailable('the end is lost');
    pipeline.abandon(lost);
    await pipeline.idle();
    t.strictSame([await refused, asked], [lost, []]);
  });

  t.test('a gap in a range of the log is damage', async (t) => {
    const place = directoryFor(t);
    const store = await lend(t, place);
    for (let i = 1; i <= 6; i += 1) await append(store);
    await server.query(`delete from ${schemaAt(place)}.events where seq = 5`);
    t.equal((await store.ranges([{ after: 0, upTo: 4 }])).length, 4);
    await t.rejects(store.ranges([{ after: 2, upTo: 9 }]), { name: 'Damaged' });
    t.match(
      store.health(),
      { state: 'quarantined', reason: /the record "e\/0{15}5" is damaged/ },
      'and health names it',
    );
    await server.query(`delete from ${schemaAt(place)}.events`);
    await t.rejects(store.ranges([{ after: 0, upTo: 4 }]), { name: 'Damaged' }, 'also of all of it');
  });

  t.test('a commit that the database alone can refuse is refused alone: its neighbours are written', async (t) => {
    const store = await lend(t);
    // No index holds a name of so many bytes that no compression makes smaller.
    const long = Array.from({ length: 4000 }, (_, i) => String.fromCodePoint(0x4e00 + ((i * 7919) % 20_000))).join('');
    const writes = Array.from({ length: 20 }, (_, i) =>
      append(store, { events: [event({ stream: i === 7 ? long : `${i}` })], puts: [row('same', { data: i })] }),
    );
    const outcomes = await Promise.allSettled(writes);
    t.strictSame(
      outcomes.flatMap(({ status }, i) => (status === 'rejected' ? [i] : [])),
      [7],
    );
    t.match(outcomes[7], { reason: { name: 'TypeError', message: /the database cannot hold this: index row/ } });
    t.equal(store.head(), 19);
    t.match(await store.get(row('same')), { data: 19, seq: 19 });
    t.equal(store.health().state, 'open');
  });

  t.test('a committed key among fresh ones is answered from the log, and the others are written', async (t) => {
    const place = directoryFor(t);
    const before = await open(place);
    await append(before, { idem: 'old', events: [event(), event()] });
    await before.close();
    const store = await lend(t, place);
    const answers = await Promise.all([
      append(store, { idem: 'a', puts: [row('1', { data: 'a' })] }),
      append(store, { idem: 'old', puts: [row('1', { data: 'old' })] }),
      append(store, { idem: 'b' }),
    ]);
    t.strictSame(answers, [
      { first: 3, last: 3, replayed: false },
      { first: 1, last: 2, replayed: true },
      { first: 4, last: 4, replayed: false },
    ]);
    t.match(await store.get(row('1')), { data: 'a', seq: 3 });
  });

  t.test('a failed look-up of such a key is repeated, or its outcome is unknown; writes go on', async (t) => {
    const place = directoryFor(t);
    const store = await lend(t, place);
    const { last } = await append(store, { idem: 'old' });
    const fence = store.held();
    const faults: string[] = [];
    // Beyond those of the store.
    let turn = 1000;
    const pipeline = new WritePipeline({
      clock: systemClock,
      async connect(durability) {
        const client = await connected(t, server.url(schemaAt(place)), durability, true);
        const query = client.query.bind(client) as (config: { name?: string }) => unknown;
        const failing = (config: { name?: string }) => {
          const code = config.name === 'recall' ? faults.pop() : undefined;
          return code === undefined ? query(config) : Promise.reject(Object.assign(new Error('no'), { code }));
        };
        return Object.assign(client, { query: failing });
      },
      turn: () => ++turn,
      isWorking: async () => true,
      written() {},
      refused() {},
      gone() {},
      point() {},
    });
    const write = (idem: string) =>
      new Promise<unknown>((resolve) => {
        const commit = prepareCommit({ fence, idem, events: [event()] });
        const job = { fence, commit, settle: null, size: 1, sent: false, withdrawn: false };
        pipeline.push({ ...job, done: resolve, fail: ({ name }) => resolve(name) });
      });
    const old = { first: last, last, replayed: true };
    for (const [code, answers] of [
      ['57P01', [old, { first: 2, last: 2, replayed: false }]],
      ['53200', ['OutcomeUnknown', 'OutcomeUnknown']],
    ] as const) {
      faults.push(code);
      t.strictSame(await Promise.all([write('old'), write(`beside ${code}`)]), answers, code);
      t.strictSame(await write('old'), old);
    }
  });

  t.test('a write that waits for the lock of the log is judged by the writes before it', async (t) => {
    const place = directoryFor(t);
    const store = await lend(t, place);
    await append(store, { puts: [row('1'), row('2')] });
    const other = new Client({ host: '127.0.0.1', port: server.port, user: 'hub', database: 'postgres' });
    await other.connect();
    t.teardown(() => other.end());
    await other.query(`set search_path = "${schemaAt(place)}"`);
    await other.query("begin; update log set owner = owner; update rows set seq = 9 where id = '1'");
    const decided = ['1', '2'].map((id) => append(store, { puts: [row('3', { data: id })], seen: [seen(id, 1)] }));
    const waits = "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%append(%'";
    await until(async () => (await server.query(waits)).length > 0);
    await other.query('commit');
    const [first, second] = await Promise.allSettled(decided);
    t.match(first, { status: 'rejected', reason: { name: 'Conflict', head: 1 } });
    t.match(second, { status: 'fulfilled', value: { first: 2, last: 2 } });
    t.match(await store.get(row('3')), { data: '2' });
  });

  async function becomeOlder(schema: string, version: number): Promise<void> {
    const changes = [
      [8, `delete from counts where shelf = '' and span <= 0; alter table counts rename column latest to seq`],
      [
        7,
        'alter table counts drop constraint counts_pkey, drop column seq, add primary key (kind, shelf, span, start)',
      ],
      [
        6,
        `create table listed (kind text collate "C", shelf text collate "C", hour text collate "C", n int8, primary key (kind, shelf, hour));
         insert into listed select kind, shelf, start, n from counts where span = 13;
         drop table counts; drop index rows_by_upd`,
      ],
      [
        5,
        `alter table rows drop constraint rows_pkey, add primary key (kind, owner, id);
         alter table floors drop constraint floors_pkey, add primary key (dest);
         alter table log drop constraint log_pkey, add primary key (one);
         alter table nodes drop column trip_ms`,
      ],
      [4, 'alter table nodes drop column follows'],
    ] as const;
    const undone = changes.flatMap(([since, statements]) => (since > version ? [statements] : []));
    await server.query(
      `set search_path = ${schema}; ${undone.join('; ')}; ${appendAt(version)} update meta set version = ${version}`,
    );
  }

  for (const version of [2, 3, 4, 5, 6, 7]) {
    const tier = version === 2 ? {} : atLength;
    t.test(
      `[M1] a schema of version ${version} becomes one of this version, with all that is in it`,
      tier,
      async (t) => {
        const place = directoryFor(t);
        const before = await open(place);
        await append(before, { puts: [row('1', { data: 'kept' })] });
        await before.close();
        const schema = schemaAt(place);
        const shape = await shapeOf(server, schema);
        await becomeOlder(schema, version);
        const older = "insert into nodes (id, name, expires) values ('older', 'older', now() + interval '1 hour')";
        await server.query(
          `set search_path = ${schema}; ${older}; ${version > 3 ? 'update nodes set follows = true' : ''}`,
        );
        const url = server.url(schema);
        if (version === 2) {
          const opening = openPostgresStore({ url, node: 'test', sole: false, ttlMs: 100 });
          await t.rejects(opening, /nodes of an older ocpi-hub: stop older/);
        }
        // An hour in which it stands still, twice: the older node is gone only then.
        let pauses = 0;
        const clock: Clock = {
          ...systemClock,
          monotonic: () => systemClock.monotonic() + pauses * 3_600_000,
          setTimeout(fn, ms, ...args) {
            if (version === 2 && pauses < 2 && ++pauses === 2)
              void server.query(`delete from ${schema}.nodes where name = 'older'`);
            return systemClock.setTimeout(fn, ms, ...args);
          },
        };
        const store = await openPostgresStore({ url, node: 'test', sole: false, clock, ...patient });
        t.teardown(() => store.close());
        t.equal(store.nodes().length, version === 2 ? 1 : 2, 'beside a node of that version');
        const unfenced = store.append({ fence: null, idem: 'unfenced', events: [event()] });
        if (version !== 3) t.equal((await unfenced).last, 2);
        else await t.rejects(unfenced, /writes alone/, 'which would not read what a door writes');
        await until(() => store.held() !== null);
        t.match(await store.get(row('1')), { data: 'kept', seq: 1 });
        const { last } = await append(store, { puts: [row('1')], seen: [seen('1', 1)] });
        t.match(await store.get(row('1')), { seq: last });
        t.strictSame(await server.query(`select version from ${schema}.meta`), [{ version: 8 }]);
        for (const others of [0, 40]) {
          const shelves = ['NL-TNM', ...Array.from({ length: others }, (_, i) => `S${i}`)];
          const { total } = await store.list({ kind: 'sessions', shelves, offset: 0, limit: 1 });
          t.equal(total, 1, `of ${shelves.length} shelves`);
        }
        // As nodes of those versions read counts, and take from them when they trim.
        const [counts, start] = version < 6 ? ['listed', 'hour'] : ['counts', 'start'];
        const hours = `select sum(n) as n from ${schema}.${counts} where kind = 'sessions' and shelf = any ('{NL-TNM}') and length(${start}) = 13`;
        t.match(await server.query(hours), [{ n: '1' }]);
        const key = `kind, shelf, ${version < 6 ? '' : 'span, '}${start}`;
        const taken =
          version === 7
            ? `update ${schema}.counts set n = n - 1, seq = 9`
            : `insert into ${schema}.${counts} (${key}, n) values ('sessions', 'NL-TNM', ${version < 6 ? '' : '13, '}'', -1)
        on conflict (${key}) do update set n = ${counts}.n + excluded.n`;
        await t.rejects(server.query(taken), /listed|no unique|"seq"/, 'what a trim of theirs would count is refused');
        if (version < 6) await server.query(`drop view ${schema}.listed`);
        t.strictSame(await shapeOf(server, schema), shape, 'but for what they read');
      },
    );
  }

  t.test('a node starts beside a transaction that has read every table, such as that of pg_dump', async (t) => {
    const schema = newSchema('store');
    const url = server.url(schema);
    await (await openPostgresStore({ url, node: 'before', ...patient })).close();
    const dump = await openSession(t, server, 'dump');
    const tables = await server.query<{ name: string }>(
      'select tablename as name from pg_tables where schemaname = $1',
      [schema],
    );
    await dump.query('begin isolation level repeatable read read only');
    for (const { name } of tables) await dump.query(`lock table ${schema}.${name} in access share mode`);
    const store = await openPostgresStore({ url, node: 'test', ...patient });
    t.teardown(() => store.close());
    t.equal((await append(store)).first, 1);
  });

  t.test(
    'a schema in use by a transaction is not migrated, and nobody waits behind the attempt',
    atLength,
    async (t) => {
      const schema = newSchema('store');
      const url = server.url(schema);
      const before = await openPostgresStore({ url, node: 'before', ...patient });
      t.teardown(() => before.close());
      await server.query(`create table ${schema}.listed (); update ${schema}.meta set version = 5`);
      const dump = await openSession(t, server, 'dump');
      await dump.query(`begin isolation level repeatable read read only; select from ${schema}.listed`);
      await t.rejects(openPostgresStore({ url, node: 'test', sole: false, ttlMs: 500 }), /as that of pg_dump/);
      t.equal((await append(before)).first, 1, 'the node that is there goes on');
      t.strictSame(await server.query(`select version from ${schema}.meta`), [{ version: 5 }]);
    },
  );

  t.test(
    '[SCHEMA-1] objects are read while a migration builds indexes and counts, and no write that waits for it fails',
    async (t) => {
      const schema = newSchema('store');
      const url = server.url(schema);
      const before = await openPostgresStore({ url, node: 'before', ...patient });
      t.teardown(() => before.close());
      await append(before, { puts: [row('1', { data: 'kept' })] });
      await becomeOlder(schema, 4);
      // It stands still when both indexes are built, and counts are about to be.
      await server.query(`create function ${schema}.stand() returns event_trigger language plpgsql set lock_timeout = 0
        as $$ begin if exists (select from pg_event_trigger_ddl_commands() where object_identity = '${schema}.counts') then perform pg_advisory_xact_lock(hashtext('${schema}')); end if; end $$;
      create event trigger ${schema} on ddl_command_end when tag in ('CREATE TABLE') execute function ${schema}.stand()`);
      t.teardown(() => server.query(`drop event trigger ${schema}`));
      const holder = await openSession(t, server, 'holder');
      await holder.query(`select pg_advisory_lock(hashtext('${schema}'))`);
      const reader = await openSession(t, server, 'reader');
      await reader.query(`set search_path = ${schema}`);
      // As nodes of earlier versions read a list, prepared once.
      const hours = async () => {
        const text = `with hours as materialized (select l.hour, sum(l.n) as n from listed l where l.kind = $1 group by l.hour)
        select (select sum(n) from hours) as n, r.id from rows r where r.kind = $1`;
        const { rows } = await reader.query({ name: 'hours', text, values: ['sessions'] });
        return rows;
      };
      t.match(await hours(), [{ n: '1', id: '1' }]);
      const migrated = openPostgresStore({ url, node: 'test', sole: false, ...patient });
      const waits = `select from pg_locks where locktype = 'advisory' and not granted and objid = hashtext('${schema}')::oid::int8`;
      await until(async () => (await server.query(waits)).length > 0);
      t.match(await before.get(row('1')), { data: 'kept' });
      t.match(await hours(), [{ n: '1', id: '1' }]);
      const states: string[] = [];
      before.onHealth(({ state }) => states.push(state));
      const written = append(before, { puts: [row('1', { data: 'kept' }), row('2')] });
      const isWaiting = `select from pg_stat_activity where application_name like '%before%' and wait_event_type = 'Lock'`;
      await until(async () => (await server.query(isWaiting)).length > 0);
      await holder.query('commit; select pg_advisory_unlock_all()');
      const after = await migrated;
      t.teardown(() => after.close());
      t.match(await after.get(row('1')), { data: 'kept' });
      t.equal((await written).last, 2, 'a write that waited');
      t.strictSame(states, [], 'and was not refused first');
      t.match(await hours(), [{ n: '2' }, { n: '2' }], 'and from what takes the place of the table');
      t.equal((await after.list({ kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 1 })).total, 2);
    },
  );

  t.test('[SCHEMA-1] lists are read while a migration from version 7 sums the counts', async (t) => {
    const schema = newSchema('store');
    const url = server.url(schema);
    const before = await openPostgresStore({ url, node: 'before', ...patient });
    t.teardown(() => before.close());
    await append(before, { puts: [row('1')] });
    await becomeOlder(schema, 7);
    // It stands still when the first sum is about to be stored.
    await server.query(`create table ${schema}.plans (made_with text primary key);
      create function ${schema}.stand() returns trigger language plpgsql set lock_timeout = 0 as $$ begin
        insert into ${schema}.plans values (current_setting('enable_seqscan') || ' ' || current_setting('work_mem')) on conflict do nothing;
        perform pg_advisory_xact_lock(hashtext('${schema}')); return new; end $$;
      create trigger stand before insert on ${schema}.counts for each row when (new.span <= 0) execute function ${schema}.stand()`);
    const holder = await openSession(t, server, 'holder');
    await holder.query(`select pg_advisory_lock(hashtext('${schema}'))`);
    const migrated = openPostgresStore({ url, node: 'test', sole: false, ...patient });
    const waits = `select from pg_locks where locktype = 'advisory' and not granted and objid = hashtext('${schema}')::oid::int8`;
    await until(async () => (await server.query(waits)).length > 0);
    await t.resolves(server.query(`begin; lock table ${schema}.counts in access share mode nowait; commit`));
    await holder.query('select pg_advisory_unlock_all()');
    const after = await migrated;
    t.teardown(() => after.close());
    const shelves = ['NL-TNM', ...Array.from({ length: 40 }, (_, i) => `S${i}`)];
    t.equal((await after.list({ kind: 'sessions', shelves, offset: 0, limit: 1 })).total, 1);
    const plans = await server.query(`select made_with from ${schema}.plans`);
    t.strictSame(plans, [{ made_with: 'on 64MB' }], 'as what reads a whole table');
  });

  t.test('[SCHEMA-5] beside an open transaction a write reads no more pages than without one', atLength, async (t) => {
    const schema = newSchema('store');
    const url = server.url(schema);
    await (await openPostgresStore({ url, node: 'test', ...patient })).close();
    const client = await connected(t, url, 'lazy', true);
    let [last, head] = [0, 0];
    /** Pages at which a write looks that changes a row and a floor, and adds a row. */
    const looks = async (): Promise<number> => {
      const was = seen('1', last === 0 ? null : last);
      head += 1;
      last = head;
      const puts = [row('1'), row(`new ${last}`)];
      const commit = prepareCommit({ fence: null, idem: `${last}`, events: [event()], puts, seen: [was] });
      const settle = prepareSettle([], [{ dest: 'A', seq: last }]);
      return (await explained(client, WRITE, parametersOf([{ fence: null, commit, settle }], 0))).pages;
    };
    const mean = async (writes: number): Promise<number> => {
      let pages = 0;
      for (let n = 0; n < writes; n++) pages += await looks();
      return pages / writes;
    };
    /** So many writes in one statement, each of the same row, counts and floor. */
    const many = async (writes: number): Promise<void> => {
      const puts = [row('1'), row('many #')];
      const commit = prepareCommit({
        fence: null,
        idem: 'many #',
        events: [event()],
        puts,
        seen: [seen('many', null)],
      });
      const settle = prepareSettle([], [{ dest: 'A', seq: '#' as unknown as number }]);
      const text = ['$5', '$6', '$11']
        .reduce((write, each) => write.replace(each, `replace(${each}::text, '#', i::text)::json`), WRITE)
        .replace('from', `from generate_series(${head + 1}, ${head + writes}) i,`);
      await client.query(text, parametersOf([{ fence: null, commit, settle }], 0));
      head += writes;
      last = head;
    };
    await many(700);
    await mean(10);
    const alone = await mean(20);
    await openReader(t, server, 'test');
    await many(700);
    const beside = await mean(20);
    t.ok(beside < 1.5 * alone, `${alone} pages without, ${beside} beside 700 former versions`);
  });

  t.test('an erasure looks up the deliveries of its events, however many there are', atLength, async (t) => {
    const schema = newSchema('store');
    const url = server.url(schema);
    await (await openPostgresStore({ url, node: 'test', ...patient })).close();
    await server.query(`insert into ${schema}.deliveries
      select 'R' || seq % 2, seq, 'DEAD', '' from generate_series(1, 20000) seq`);
    const client = await connected(t, url);
    for (const statistics of ['none', 'of now']) {
      if (statistics === 'of now') await client.query('analyze deliveries');
      const { found, pages } = await explained(client, DELIVERIES, [[7, 8, 19_999]]);
      t.equal(found, 3);
      t.ok(pages < 100, `${pages} pages, statistics: ${statistics}`);
    }
  });

  t.test('one trim a day removes counts of zero', async (t) => {
    const schema = newSchema('store');
    let passedMs = 0;
    const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + passedMs };
    const store = await openPostgresStore({ url: server.url(schema), node: 'test', clock, ...patient });
    t.teardown(() => store.close());
    const zeros: number[] = [];
    for (const month of [1, 2, 3, 4]) {
      await append(store, { puts: [row('1', { upd: `2024-0${month}` })] });
      if (month === 4) {
        passedMs = 24 * 3_600_000;
        await store.poke();
      }
      await trim(store, month);
      zeros.push((await server.query(`select from ${schema}.counts where n = 0`)).length);
    }
    t.strictSame(zeros, [0, 6, 12, 0]);
  });

  t.test('a scan reads pages of bounded size, and every row', atLength, async (t) => {
    const place = directoryFor(t);
    const store = await lend(t, place);
    const client = await connected(t, server.url(schemaAt(place)));
    const rows = Array.from({ length: 1100 }, (_, i) => `${i + 1000}`);
    const long = 'x'.repeat(400_000);
    await append(store, { puts: rows.map((id, i) => row(id, { body: i < 7 ? long : null })) });
    const pages: number[] = [];
    const reads = new PostgresReads(async (read) => {
      const found = await read(client);
      pages.push((found as unknown[]).length);
      return found;
    });
    t.strictSame(
      (await collect(reads.scan('sessions'))).map(({ id }) => id),
      rows,
    );
    t.strictSame(pages, [3, 3, 1000, 94]);
  });

  t.test(
    'the queue is bounded: beyond it commits are refused at once, and the others are done',
    atLength,
    async (t) => {
      const store = await lend(t);
      const fence = store.held();
      if (fence === null) throw new Error('no fence');
      const first = Array.from({ length: 5 }, () => append(store));
      // Settles of one delivery: a statement has the last of its group alone.
      const settles = Array.from({ length: 16_500 }, (_, data) =>
        store.settle(fence, [{ dest: 'A', seq: 1, state: 'DEAD', data }], []),
      );
      const outcomes = Promise.allSettled(settles);
      for (const late of [append(store), append(store)]) await t.rejects(late, StoreUnavailable);
      t.strictSame(
        (await Promise.all(first)).map(({ last }) => last),
        [1, 2, 3, 4, 5],
      );
      const done = (await outcomes).map((outcome) => (outcome.status === 'rejected' ? outcome.reason : 'done'));
      const most = done.lastIndexOf('done') + 1;
      t.ok(
        most > 16_000 && most < settles.length && done.slice(0, most).every((each) => each === 'done'),
        `${most} are done`,
      );
      t.ok(done.slice(most).every((reason) => reason instanceof StoreUnavailable));
      t.match(await store.delivery('A', 1), { data: most - 1 });
      t.equal((await append(store)).last, 6);
      t.equal(store.health().state, 'open');
    },
  );

  t.test(
    'pages are limited by the characters of bodies, counted alike by every engine, and have at least one row',
    async (t) => {
      const store = await lend(t);
      for (let i = 1; i <= 6; i += 1) {
        const body = '😀'.repeat(50);
        await append(store, {
          events: [event({ body })],
          puts: [row(`${i}`, { body, upd: `2024-05-01T10:00:0${i}.000Z` })],
        });
      }
      const listed = async (size: number) =>
        (await store.list({ kind: 'sessions', shelves: ['NL-TNM'], offset: 1, limit: 10, size })).rows.length;
      // Of events their data counts, too.
      const counts = async (size: number) => [
        (await store.read({ after: 1, limit: 10, size })).length,
        await listed(size),
      ];
      t.strictSame(await counts(1), [1, 1]);
      t.strictSame(await counts(100), [1, 1]);
      t.equal(await listed(101), 2);
      t.strictSame(await counts(200), [2, 2]);
      t.strictSame(await counts(10_000), [5, 5]);
    },
  );
}

if (postgresHere === null) t.plan(0, 'no PostgreSQL server is installed here');
else suite(await sharedPostgres());
