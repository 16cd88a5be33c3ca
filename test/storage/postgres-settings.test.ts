/** Which servers and addresses are taken and which are refused, each for a reason that is named; and how a schema is made. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { DatabaseAway } from '../../storage/postgres/connect.ts';
import { parsePostgresUrl } from '../../storage/postgres/options.ts';
import { type ServerSettings, unsafeSettings, warningOf } from '../../storage/postgres/settings.ts';
import { openPostgresStore } from '../../storage/postgres/store.ts';
import { type PostgresServer, postgresHere, startPostgres } from '../support/postgres.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { append, patient, until } from './support.ts';

const safe: ServerSettings = {
  ...{ version: 150_004, encoding: 'UTF8', fsync: 'on', full_page_writes: 'on', synchronous_commit: 'on' },
  ...{
    synchronous_standby_names: 'ANY 1 (a, b)',
    zero_damaged_pages: 'off',
    ignore_checksum_failure: 'off',
    data_checksums: 'on',
  },
};

t.test('each unsafe setting is named, and safe ones are not', async (t) => {
  t.strictSame(unsafeSettings(safe, false), []);
  t.strictSame(unsafeSettings({ ...safe, synchronous_commit: 'remote_apply' }, false), []);
  t.strictSame(unsafeSettings({ ...safe, synchronous_standby_names: '' }, true), []);
  t.strictSame(unsafeSettings({ ...safe, synchronous_standby_names: '', synchronous_commit: 'local' }, true), []);
  const wrongs: [Partial<ServerSettings>, RegExp][] = [
    [{ version: 140_010 }, /version 14: 15 or newer/],
    [{ encoding: 'SQL_ASCII' }, /server_encoding SQL_ASCII/],
    [{ fsync: 'off' }, /^fsync is off/],
    [{ full_page_writes: 'off' }, /^full_page_writes is off/],
    [{ synchronous_commit: 'off' }, /^synchronous_commit is off/],
    [{ synchronous_commit: 'local' }, /^synchronous_commit is local: .*remote_apply/],
    [{ synchronous_commit: 'remote_write' }, /^synchronous_commit is remote_write/],
    [{ synchronous_standby_names: '' }, /^synchronous_standby_names is empty: .*\?single=1/],
    [{ zero_damaged_pages: 'on' }, /^zero_damaged_pages is on/],
    [{ ignore_checksum_failure: 'on' }, /^ignore_checksum_failure is on/],
  ];
  for (const [wrong, sentence] of wrongs) {
    const said = unsafeSettings({ ...safe, ...wrong }, false);
    t.equal(said.length, 1, JSON.stringify(wrong));
    t.match(said[0], sentence);
  }
  t.equal(warningOf(safe), null);
  t.match(warningOf({ ...safe, data_checksums: 'off' }), /^data_checksums is off/);
});

t.test('an address names hosts, schema and known parameters of the server; others are refused', async (t) => {
  const address = parsePostgresUrl('postgres://hub:s%40cret@db1:5433,db2,[::1]:7/ocpi?schema=roaming&sslmode=require');
  t.match(address, {
    hosts: [
      { host: 'db1', port: 5433 },
      { host: 'db2', port: 5432 },
      { host: '::1', port: 7 },
    ],
    ...{
      user: 'hub',
      password: 's@cret',
      database: 'ocpi',
      schema: 'roaming',
      single: false,
      ssl: { rejectUnauthorized: false },
    },
  });
  t.notMatch(address.shown, /s%?4?0?@?cret/);
  t.match(parsePostgresUrl('postgresql://db1/ocpi?single=1'), { schema: 'ocpi_hub', single: true });
  for (const [url, why] of [
    ['mysql://db1/ocpi', /expected postgres/],
    ['postgres:///ocpi', /names no host/],
    ['postgres://db1/ocpi?sslmode=prefer', /sslmode is one of/],
    ['postgres://db1/ocpi?schema=x;drop', /small letters/],
    ['postgres://db1/ocpi?pool=3', /unknown "pool"/],
    ['postgres://db1/ocpi?shards=1', /unknown "shards"/],
  ] as const)
    t.throws(() => parsePostgresUrl(url), { name: 'TypeError', message: why });
});

t.test('[OPTIONS-1] a connection to another machine is verified unless the operator says otherwise', async (t) => {
  const verified = { rejectUnauthorized: true };
  for (const [where, ssl] of [
    ...(['db1', '10.0.0.11', 'db1,127.0.0.1', '127.evil.example', '127.1', '[::2]', 'localhost.example'] as const).map(
      (host) => [`${host}/ocpi`, verified] as const,
    ),
    ...(['127.0.0.1', 'localhost', '[::1]', '127.3.2.1:7,LOCALHOST', '%2Fvar%2Frun'] as const).map(
      (host) => [`${host}/ocpi`, false] as const,
    ),
    ['/ocpi?host=/var/run/postgresql', false],
    ['db1/ocpi?sslmode=disable', false],
    ['127.0.0.1/ocpi?sslmode=verify-full', verified],
    ['db1/ocpi?sslmode=require', { rejectUnauthorized: false }],
  ] as const)
    t.strictSame(parsePostgresUrl(`postgres://hub@${where}`).ssl, ssl, where);
});

t.test('a server that accepts connections and does not answer is given up, in words', atLength, async (t) => {
  const silent = createServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.teardown(() => silent.close());
  const { port } = silent.address() as AddressInfo;
  await t.rejects(openPostgresStore({ url: `postgres://hub@127.0.0.1:${port}/ocpi?single=1`, node: 'test' }), {
    name: 'StoreUnavailable',
    message: `no database server takes writes: 127.0.0.1:${port} timeout expired`,
  });
});

function suite(server: PostgresServer): void {
  t.test('an unsafe real server is refused with all reasons, and accepted when it is safe', async (t) => {
    server.configure('fsync = off\nfull_page_writes = off\nsynchronous_commit = off');
    await server.stop();
    await server.start();
    const open = (more = '') => openPostgresStore({ url: server.url('unsafe', more), node: 'test' });
    await t.rejects(open(), {
      message: /not safe to write on: fsync is off.*; full_page_writes is off.*; synchronous_commit is off/,
    });
    const made = await server.query("select from pg_namespace where nspname = 'unsafe'");
    t.equal(made.length, 0, 'nothing is made or migrated there');
    server.configure('fsync = on\nfull_page_writes = on\nsynchronous_commit = on');
    await server.stop();
    await server.start();
    const url = server.url('unsafe').replace('single=1&', '');
    await t.rejects(openPostgresStore({ url, node: 'test' }), { message: /synchronous_standby_names is empty/ });
    const store = await open();
    t.match(store.health(), { state: 'open', reason: null });
    await store.close();
  });

  t.test('a server that becomes unsafe during use is not written to when it is back', async (t) => {
    const store = await openPostgresStore({ url: server.url('becomes'), node: 'test', ...patient });
    t.teardown(() => store.close());
    await append(store);
    server.configure('fsync = off');
    await server.stop();
    await server.start();
    await until(async () => {
      await store.poke();
      return /fsync is off/.test(store.health().reason ?? '');
    });
    t.equal(store.health().state, 'failed');
    server.configure('fsync = on');
    await server.stop();
    await server.start();
    await until(async () => {
      await store.poke();
      return store.health().state === 'open' && store.held() !== null;
    });
    t.equal((await append(store)).first, 2);
  });

  t.test('defaults of a role or a database for its sessions cannot override what the store relies on', async (t) => {
    await server.query("alter role hub set statement_timeout = '1ms'; alter role hub set client_min_messages = error");
    t.teardown(() => server.query('alter role hub reset all'));
    const store = await openPostgresStore({ url: server.url('role'), node: 'test', ...patient });
    await append(store, { events: Array.from({ length: 3000 }, () => ({ ...EVENT })) });
    t.equal(store.head(), 3000);
    await store.close();
    await server.query("alter role hub set synchronous_commit = off; alter role hub set statement_timeout = '0'");
    await t.rejects(openPostgresStore({ url: server.url('role'), node: 'test' }), {
      message: /synchronous_commit is off/,
    });
  });

  t.test('the primary is found among several hosts, and without one each host’s answer is reported', async (t) => {
    const url = server.url('hosts').replace('@', '@127.0.0.1:1,');
    const store = await openPostgresStore({ url, node: 'test', ...patient });
    await append(store);
    await store.close();
    const none = server.url('hosts').replace(`:${server.port}`, ':1,127.0.0.1:2');
    await t.rejects(openPostgresStore({ url: none, node: 'test' }), {
      message: /127\.0\.0\.1:1 connect.*; 127\.0\.0\.1:2 connect/,
    });
  });

  t.test('a node about to create the schema uses the one that another node created meanwhile', async (t) => {
    const maker = (node: string) => openPostgresStore({ url: server.url('overtaken'), node, sole: false });
    // The slow node has looked for the schema, and goes on when another one has made it. Locking a relation makes its session process the
    // cache invalidations of others.
    await server.query(`create function public.wait() returns event_trigger language plpgsql as $$ begin
      while current_setting('application_name') = 'ocpi-hub slow'
        and not exists (select from pg_namespace where nspname = 'overtaken') loop
        perform pg_sleep(0.01);
      end loop;
      perform from pg_stat_database limit 1; end $$`);
    await server.query(`create event trigger overtaken on ddl_command_start when tag in ('CREATE SCHEMA')
      execute function public.wait()`);
    t.teardown(() => server.query('drop event trigger overtaken'));
    const slow = maker('slow');
    slow.catch(() => {});
    const waits = `select 1 from pg_stat_activity where application_name = 'ocpi-hub slow' and wait_event = 'PgSleep'`;
    await until(async () => (await server.query(waits)).length > 0);
    const quick = await maker('quick');
    t.teardown(() => quick.close());
    const store = await slow;
    t.equal(store.health().state, 'open');
    await store.close();
  });

  t.test('[CONNECT-5] a connection pooler is refused: it gives a session a process number of its own', async (t) => {
    const pooler = createServer((client) => {
      const behind = connect(server.port, '127.0.0.1');
      for (const socket of [client, behind])
        socket.on('error', () => {}).on('close', () => [client, behind].map((end) => end.destroy()));
      client.pipe(behind);
      behind.on('data', (bytes) => {
        const key = bytes.indexOf(Buffer.from('K\0\0\0\x0c', 'latin1'));
        if (key >= 0) bytes.writeInt32BE(1, key + 5);
        client.write(bytes);
      });
    });
    await once(pooler.listen(0, '127.0.0.1'), 'listening');
    t.teardown(() => pooler.close());
    const { port } = pooler.address() as AddressInfo;
    const url = server.url('pooled').replace(String(server.port), String(port));
    const refused = { name: 'StoreUnavailable', message: /a connection pooler .* must name the server itself$/ };
    const error = await openPostgresStore({ url, node: 'a' }).catch((error: unknown) => error);
    t.match(error, refused);
    t.notOk(error instanceof DatabaseAway, 'no waiting mends that');
  });

  t.test(
    'a schema is created once, also by two nodes at once, under any name; one of a newer hub is refused',
    async (t) => {
      const url = server.url('made');
      const both = await Promise.all(['a', 'b'].map((node) => openPostgresStore({ url, node, sole: false })));
      for (const store of both) await store.close();
      const word = await openPostgresStore({ url: server.url('order'), node: 'test' });
      await word.close();
      await server.query('update made.meta set version = 99');
      await t.rejects(openPostgresStore({ url, node: 'test' }), {
        message: /schema made has version 99, made by a newer ocpi-hub/,
      });
    },
  );
}

const EVENT = {
  ...{
    stream: 's',
    type: 'object.put',
    at: '2024-05-01T10:00:00.000Z',
    party: null,
    correlationId: null,
    to: [],
    data: null,
  },
  body: null,
};

if (postgresHere === null) t.comment('no PostgreSQL server is installed here: what needs one is left out');
else suite(await startPostgres(t));
