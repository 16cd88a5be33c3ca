/** Backups of a PostgreSQL store, and the way from the embedded store into a database: nothing is lost, and no byte changes. */
import { cpSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Store } from '../../storage/contract.ts';
import { restoreBackup, verifyStore } from '../../storage/level/restore.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { copyToPostgres } from '../../storage/migrate.ts';
import { Primary } from '../../storage/postgres/connect.ts';
import { parsePostgresUrl } from '../../storage/postgres/options.ts';
import { recordsIn } from '../../storage/postgres/records.ts';
import { openPostgresStore } from '../../storage/postgres/store.ts';
import { directoryFor } from '../support/directory.ts';
import { newSchema, type PostgresServer, postgresHere, sharedPostgres } from '../support/postgres.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { append, collect, event, gone, patient, row, trimAll } from './support.ts';
import { backupSuite } from './trim-suite.ts';

/** Everything that a hub can read of a store. */
async function everything(store: Store): Promise<unknown> {
  const deliveries = async (dest: string) => [
    await store.deliveries({ dest, rows: 'open', limit: 1000 }),
    await store.deliveries({ dest, rows: 'DELIVERED', limit: 1000 }),
  ];
  return {
    head: store.head(),
    horizon: store.horizon(),
    log: await store.read({ after: 0, limit: 100_000 }),
    histories: await Promise.all([0, 1, 2, 3].map((i) => store.history(`s ${i}`))),
    correlated: await store.correlated('c 1'),
    rows: [...(await collect(store.scan('sessions'))), ...(await collect(store.scan('cdrs')))],
    list: await store.list({ kind: 'sessions', shelves: ['NL-TNM', 'S2'], offset: 3, limit: 50 }),
    due: await store.due(),
    floors: await store.floors(),
    deliveries: [await deliveries('A'), await deliveries('B-😀')],
  };
}

let made: Promise<{ readonly directory: string; readonly held: unknown }> | null = null;

/** An embedded store with something of everything, closed; resolves with what it holds. It is made once, and copied. */
async function embedded(target: string): Promise<unknown> {
  const source = directoryFor(t);
  made ??= make(source).then((held) => ({ directory: source, held }));
  const { directory, held } = await made;
  cpSync(directory, target, { recursive: true });
  return held;
}

async function make(directory: string): Promise<unknown> {
  const store = await openLevelStore({ directory, node: 'test', ballastBytes: 0 });
  const bodies = ['{ "a" : 1.0 }', '', null, 'é😀\n', 'x\0y\x01z\x010', 'long '.repeat(5000)];
  for (let i = 0; i < 240; i += 1) {
    await append(store, {
      idem: `key ${i}`,
      events: [
        event({ stream: `s ${i % 4}`, correlationId: i % 5 === 0 ? `c ${i % 3}` : null, to: ['A', 'B-😀'], data: i }),
      ],
      puts: [
        row(`${i % 50}`, {
          body: bodies[i % bodies.length] ?? null,
          data: { i, text: '\0"\\' },
          shelf: i % 7 ? 'NL-TNM' : null,
        }),
        ...(i % 9 === 0 ? [gone(`${(i * 7) % 50}`)] : []),
        row(`c${i % 20}`, { kind: 'cdrs', shelf: 'S2' }),
      ],
      due: [{ key: `t ${i % 30}`, at: i % 4 ? event().at : null }],
    });
  }
  const fence = store.held();
  if (fence === null) throw new Error('no fence');
  const settled = (dest: string, seq: number, state: 'PENDING' | 'DEAD' | 'DELIVERED') => {
    return { dest, seq, state, data: { attempts: seq } };
  };
  const rows = [settled('A', 100, 'DEAD'), settled('A', 120, 'DELIVERED'), settled('B-😀', 130, 'PENDING')];
  await store.settle(fence, rows, [{ dest: 'A', seq: 119 }]);
  await trimAll(store, 60);
  const held = await everything(store);
  await store.close();
  return held;
}

function suite(server: PostgresServer): void {
  const fresh = (): string => server.url(newSchema('copy'));
  const urls = new Map<string, string>();

  // A place that holds a backup is a store again when the backup was copied into the database.
  backupSuite(
    t,
    async (place) => {
      const url = urls.get(place) ?? fresh();
      if (!urls.has(place) && existsSync(join(place, 'manifest.json'))) await copyToPostgres(join(place, 'store'), url);
      urls.set(place, url);
      return openPostgresStore({ url, node: 'test', ...patient });
    },
    { ownDirectory: false },
  );

  t.test('[CONTRACT-10] a backup counts kept events whose sequences add up to more than 2^53', async (t) => {
    const schema = newSchema('copy');
    const opened = () => openPostgresStore({ url: server.url(schema), node: 'test', ...patient });
    await (await opened()).close();
    const first = 1.5e15;
    await server.query(`update ${schema}.log set head = ${first}, horizon = ${first}`);
    const store = await opened();
    t.teardown(() => store.close());
    for (let i = 0; i < 10; i += 1) await append(store, { events: [event({ stream: `s ${i}` })] });
    await trimAll(store, first + 10, 5);
    t.match(await store.backup(join(directoryFor(t), 'backup')), { events: 10, horizon: first + 10 });
  });

  t.test('a copied store is equal in everything that can be read, continues, and remembers its keys', async (t) => {
    const directory = join(directoryFor(t), 'store');
    const held = await embedded(directory);
    const url = fresh();
    const steps = new Set<string>();
    const copied = await copyToPostgres(directory, url, (step) => steps.add(step));
    t.match(copied, { head: 240, horizon: 60, events: 184, deliveries: 3, floors: 1 });
    t.ok(steps.has('copying') && steps.has('verifying'));
    const store = await openPostgresStore({ url, node: 'test', ...patient });
    t.teardown(() => store.close());
    t.strictSame(await everything(store), held);
    t.ok((store.held()?.token ?? 0) > 1, 'the token goes on');
    t.strictSame(await append(store, { idem: 'key 239' }), { first: 240, last: 240, replayed: true });
    t.equal((await append(store)).first, 241);
  });

  t.test('there and back: a backup of the copy restores to an equal embedded store', atLength, async (t) => {
    const root = directoryFor(t);
    const held = await embedded(join(root, 'store'));
    const url = fresh();
    await copyToPostgres(join(root, 'store'), url);
    const store = await openPostgresStore({ url, node: 'test', ...patient });
    const manifest = await store.backup(join(root, 'backup'));
    await store.close();
    t.match(manifest, { format: 2, head: 240, horizon: 60, events: 184, deliveries: 3 });
    t.strictSame((await verifyStore(join(root, 'backup'))).faults, []);
    await restoreBackup(join(root, 'backup'), join(root, 'again'), { replace: false, now: new Date() });
    const again = await openLevelStore({ directory: join(root, 'again'), node: 'test', ballastBytes: 0 });
    t.teardown(() => again.close());
    t.match(again.health(), { state: 'open', reason: null, damagedRows: { length: 0 } });
    t.strictSame(await everything(again), held);
  });

  t.test('records are read in pieces of bounded size, whose order is that of the store', atLength, async (t) => {
    const schema = newSchema('copy');
    const url = server.url(schema);
    await (await openPostgresStore({ url, node: 'test', ...patient })).close();
    await server.query(`insert into ${schema}.rows (kind, owner, id, upd, data, body, chars, seq)
      select 'locations', 'NL-TNM', to_char(i, '0000'), '', '1', case when i % 100 < 3 then repeat('x', 700000) end, 0, i
        from generate_series(1, 700) i`);
    const primary = new Primary(parsePostgresUrl(url), 'test');
    t.teardown(() => primary.close());
    await primary.find();
    const client = await primary.connect();
    await client.query('begin transaction isolation level repeatable read, read only');
    const pieces = await collect(recordsIn(client));
    const sizes = pieces.map((piece) => piece.reduce((sum, [, value]) => sum + value.length, 0));
    t.ok(Math.max(...sizes) < 1.1 * 2 ** 20, `${sizes}`);
    t.ok(pieces.length < 30, `${pieces.length} pieces`);
    const names = pieces.flat().map(([key]) => key);
    t.strictSame([names.length, names], [700, names.toSorted()]);
  });

  t.test('an impossible copy says why, and leaves the schema empty', atLength, async (t) => {
    const root = directoryFor(t);
    const directory = join(root, 'store');
    await embedded(directory);
    const url = fresh();
    await t.rejects(copyToPostgres(join(root, 'none'), url), { message: /holds no store/ });
    const open = await openLevelStore({ directory, node: 'test', ballastBytes: 0 });
    await t.rejects(copyToPostgres(directory, url), { message: /is in use by another process/ });
    await open.close();
    const other = await openPostgresStore({ url, node: 'other', ...patient });
    await t.rejects(copyToPostgres(directory, url), { message: /is in use by the hub other/ });
    await other.close();
    await copyToPostgres(directory, url);
    await t.rejects(copyToPostgres(directory, url), { message: /is not empty: a copy goes into a new one/ });
  });
}

if (postgresHere === null) t.plan(0, 'no PostgreSQL server is installed here');
else suite(await sharedPostgres());
