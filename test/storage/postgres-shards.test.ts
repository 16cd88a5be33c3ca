/** A schema of version 1, which had many logs, becomes one of a single log: nothing is lost, and what was owed is owed still. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { Client } from 'pg';
import { openPostgresStore, type PostgresStore } from '../../storage/postgres/store.ts';
import { newSchema, type PostgresServer, postgresHere, shapeOf, sharedPostgres } from '../support/postgres.ts';
import { atLength, isAtLength, someOf } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { append, collect, patient, until } from './support.ts';
import { type Expected, expected } from './version-1/model.ts';
import { makeVersion1, oldWorld, RECEIVERS } from './version-1/tables.ts';

const CHILD = join(import.meta.dirname, 'postgres-node', 'child.js');

const byName = <T extends { dest?: string; seq?: number; id?: string; key?: string }>(items: readonly T[]): T[] =>
  [...items].sort((a, b) => {
    const [one, other] = [a, b].map(({ dest, id, key }) => dest ?? id ?? key ?? '') as [string, string];
    return one < other ? -1 : one > other ? 1 : (a.seq ?? 0) - (b.seq ?? 0);
  });

/** All that can be asked of the store is what the model says. */
async function mustBe(t: Test, store: PostgresStore, model: Expected): Promise<void> {
  t.strictSame([store.head(), store.horizon()], [model.head, model.horizon]);
  const behind = model.events.filter(({ seq }) => seq > model.horizon);
  const log = await store.read({ after: 0, limit: 100_000 });
  t.strictSame(
    log.map(({ seq, stream, data }) => ({ seq, stream, data })),
    behind.map(({ seq, stream, data }) => ({ seq, stream, data: JSON.parse(data) })),
  );
  const streams = [...new Set(model.events.map(({ stream }) => stream))];
  const histories = await Promise.all(streams.map((stream) => store.history(stream)));
  t.strictSame(
    histories.map((history) => history.map(({ seq, stream }) => `${seq} ${stream}`)),
    streams.map((of) => model.events.flatMap(({ seq, stream }) => (stream === of ? [`${seq} ${stream}`] : []))),
    'kept ones too',
  );
  const rows = [...(await collect(store.scan('sessions'))), ...(await collect(store.scan('partners')))];
  t.strictSame(byName(rows.map(({ id, seq }) => ({ id, seq }))), byName(model.rows));
  for (const kind of ['sessions', 'partners']) {
    const listed = await store.list({ kind, shelves: ['S'], offset: 0, limit: 1 });
    t.equal(listed.total, rows.filter((row) => row.kind === kind).length, 'as many as are counted');
  }
  t.strictSame(byName(await store.due()), byName(model.timers));
  t.strictSame(byName(await store.floors()), byName(model.floors));
  const floors = new Map(model.floors.map(({ dest, seq }) => [dest, seq]));
  const owed: string[] = [];
  for (const dest of RECEIVERS) {
    const open = await store.deliveries({ dest, rows: 'open', limit: 10_000 });
    const ended = await store.deliveries({ dest, rows: 'DELIVERED', limit: 10_000 });
    const known = byName([...open, ...ended]);
    t.strictSame(
      known.map(({ seq, state, data }) => ({ dest, seq, state, isNew: !Object.hasOwn(data as object, 'was') })),
      byName(model.deliveries.filter((row) => row.dest === dest)),
    );
    const rowed = new Map(known.map(({ seq, state }) => [seq, state]));
    for (const { seq, to } of log) {
      if (!to.includes(dest)) continue;
      const waits = rowed.has(seq) ? rowed.get(seq) === 'PENDING' : seq > (floors.get(dest) ?? 0);
      if (waits) owed.push(`${dest} ${model.events.find((event) => event.seq === seq)?.was}`);
    }
  }
  t.strictSame(owed.sort(), model.owed, 'what was owed, and nothing else');
}

const tablesOf = async (server: PostgresServer, schema: string): Promise<string[]> => {
  const found = await server.query<{ name: string }>('select tablename as name from pg_tables where schemaname = $1', [
    schema,
  ]);
  return found.map(({ name }) => name).sort();
};

function suite(server: PostgresServer): void {
  for (const seed of isAtLength ? [1, 2, 3] : [1]) {
    t.test(`[H1, H2, H3, H4] a world of many shards becomes one log (${seed})`, async (t) => {
      const schema = newSchema('merged');
      const world = oldWorld(seed);
      const model = expected(world);
      t.ok(model.deliveries.some(({ isNew }) => isNew) && model.owed.length > 20 && model.horizon > 5);
      await makeVersion1(server, schema, world);
      const store = await openPostgresStore({ url: server.url(schema), node: 'test', ...patient });
      t.teardown(() => store.close());
      await mustBe(t, store, model);
      t.equal(store.held()?.token, model.token + 1, 'the token goes on behind that of every shard');
      const known = model.events.findLast(({ idem }) => idem !== '');
      const again = await append(store, { idem: known?.idem ?? '' });
      t.match(again, { last: known?.seq, replayed: true }, 'keys are remembered');
      t.equal((await append(store)).first, model.head + 1);
      t.strictSame(await tablesOf(server, schema), await freshTables(), 'nothing else is left');
    });
  }

  let made: Promise<string[]> | null = null;
  const freshTables = (): Promise<string[]> => {
    const fresh = async (): Promise<string[]> => {
      const schema = newSchema('fresh');
      const store = await openPostgresStore({ url: server.url(schema), node: 'test', ...patient });
      await store.close();
      return tablesOf(server, schema);
    };
    made ??= fresh();
    return made;
  };

  t.test('tables and indexes of a migrated schema equal those of a new one', atLength, async (t) => {
    const [old, fresh] = [newSchema('shape'), newSchema('shape')];
    await makeVersion1(server, old, oldWorld(4));
    const shapes: unknown[] = [];
    for (const schema of [old, fresh]) {
      const store = await openPostgresStore({ url: server.url(schema), node: 'test', ...patient });
      await store.close();
      shapes.push(await shapeOf(server, schema));
    }
    t.strictSame(shapes[0], shapes[1]);
  });

  t.test('a schema that was made for one shard keeps its sequences', atLength, async (t) => {
    const schema = newSchema('single');
    const world = oldWorld(5, 1);
    await makeVersion1(server, schema, world);
    const store = await openPostgresStore({ url: server.url(schema), node: 'test', ...patient });
    t.teardown(() => store.close());
    const model = expected(world);
    t.ok(model.events.every(({ seq, was }) => was === `0/${seq}`));
    await mustBe(t, store, model);
    t.equal((await append(store)).first, (world.shards[0]?.head ?? 0) + 1);
  });

  t.test('of two nodes that start at once one migrates, and both continue', atLength, async (t) => {
    const schema = newSchema('both');
    const world = oldWorld(6);
    await makeVersion1(server, schema, world);
    const open = (node: string) => openPostgresStore({ url: server.url(schema), node, sole: false, ...patient });
    const stores = await Promise.all([open('a'), open('b')]);
    for (const store of stores) {
      t.teardown(() => store.close());
      t.equal(store.health().state, 'open');
      await mustBe(t, store, expected(world));
    }
  });

  t.test('a schema with live nodes of version 1 is not migrated; without them it is', atLength, async (t) => {
    const schema = newSchema('alive');
    const world = oldWorld(7);
    await makeVersion1(server, schema, world);
    const nodes = `${schema}.nodes`;
    await server.query(
      `insert into ${nodes} (id, name, url, expires) values ('a/1', 'a', 'http://a:8080', now() + interval '1 hour')`,
    );
    const open = (ttlMs: number) => openPostgresStore({ url: server.url(schema), node: 'test', ...patient, ttlMs });
    await t.rejects(open(1), { message: /used by nodes of an older ocpi-hub: stop a at http:\/\/a:8080 first/ });
    t.ok((await tablesOf(server, schema)).includes('shards'), 'nothing was changed');
    const opening = open(patient.ttlMs);
    await server.query(`update ${nodes} set expires = now() - interval '1 second'`);
    const store = await opening;
    t.teardown(() => store.close());
    await mustBe(t, store, expected(world));
  });

  t.test(
    'a write that a node of version 1 was about to make is included, and the node writes nothing more',
    atLength,
    async (t) => {
      const schema = newSchema('writing');
      const world = oldWorld(7);
      await makeVersion1(server, schema, world);
      const old = new Client({ host: '127.0.0.1', port: server.port, user: 'hub', database: 'postgres' });
      await old.connect();
      t.teardown(() => old.end());
      const event = {
        shard: 3,
        seq: (world.shards.find(({ id }) => id === 3)?.head ?? 0) + 1,
        stream: 'late',
        type: 'x',
      };
      const late = {
        ...event,
        at: '2024-05-02T00:00:00.000Z',
        correlation_id: null,
        to: ['NL-EMS'],
        data: '{}',
        idem: 'late',
      };
      const move = `update ${schema}.shards set head = head + 1 where id = 3`;
      await old.query(`begin; ${move}`);
      const opening = openPostgresStore({ url: server.url(schema), node: 'migrates', ...patient });
      const waits = `select 1 from pg_stat_activity where application_name = 'ocpi-hub migrates' and wait_event_type = 'Lock'`;
      await until(async () => (await server.query(waits)).length > 0);
      const locked = `select 1 from pg_locks where relation = '${schema}.events'::regclass and mode = 'AccessExclusiveLock'`;
      t.equal(
        (await server.query(locked)).length,
        0,
        'it waits there before it takes anything that the other one needs',
      );
      await old.query(`insert into ${schema}.events select * from json_populate_record(null::${schema}.events, $1)`, [
        JSON.stringify({ ...late, chars: 0, n: 1, touched: '[]' }),
      ]);
      await old.query('commit');
      const store = await opening;
      t.teardown(() => store.close());
      world.events.push(late);
      await mustBe(t, store, expected(world));
      await t.rejects(old.query(move), { code: '42P01' });
    },
  );

  t.test('a migration that is cut off leaves version 1, and the next opening completes it', atLength, async (t) => {
    const schema = newSchema('cut');
    const world = oldWorld(8);
    await makeVersion1(server, schema, world);
    const before = await tablesOf(server, schema);
    await server.query(`create table public.held (tag text);
      create function public.hold() returns event_trigger language plpgsql as $$ begin
        while current_setting('application_name') = 'ocpi-hub cut' and exists (select from public.held where tag = tg_tag) loop
          perform pg_sleep(0.01);
        end loop; end $$;
      create event trigger held on ddl_command_start execute function public.hold()`);
    t.teardown(() => server.query('drop event trigger held; drop function public.hold(); drop table public.held'));
    const held = `select pid from pg_stat_activity where application_name = 'ocpi-hub cut' and wait_event = 'PgSleep'`;
    const present = `select 1 from pg_stat_activity where application_name = 'ocpi-hub cut'`;
    const tags = ['DROP INDEX', 'ALTER TABLE', 'CREATE TABLE', 'CREATE INDEX', 'DROP TABLE'];
    for (const [tag, end] of someOf(
      tags.flatMap((tag) => [[tag, 'node'] as const, [tag, 'server'] as const]),
      2,
    )) {
      await server.query('insert into public.held values ($1)', [tag]);
      const child = spawn(process.execPath, [CHILD, server.url(schema), 'cut', '60000'], { stdio: 'ignore' });
      const closed = new Promise((resolve) => child.once('close', resolve));
      await until(async () => (await server.query(held)).length > 0);
      child.kill('SIGKILL');
      await closed;
      if (end === 'server') await server.query(`select pg_terminate_backend(pid) from (${held}) x`);
      await server.query('delete from public.held');
      await until(async () => (await server.query(present)).length === 0);
      t.strictSame(await tablesOf(server, schema), before, `${tag}, ${end}`);
      t.strictSame(await server.query(`select version, shards from ${schema}.meta`), [{ version: 1, shards: 256 }]);
    }
    const store = await openPostgresStore({ url: server.url(schema), node: 'test', ...patient });
    t.teardown(() => store.close());
    await mustBe(t, store, expected(world));
  });
}

if (postgresHere === null) t.plan(0, 'no PostgreSQL server is installed here');
else suite(await sharedPostgres());
