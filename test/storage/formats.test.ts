/**
 * Formats of stored data: what earlier builds stored is read, and what a later one stored is refused, with both numbers and without a change.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { Level } from 'level';
import { Damaged, type Store } from '../../storage/contract.ts';
import * as keys from '../../storage/keys.ts';
import { MARK_FILES, readMarks } from '../../storage/level/marks.ts';
import { backupStore, restoreBackup, verifyStore } from '../../storage/level/restore.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { copyToPostgres } from '../../storage/migrate.ts';
import { openPostgresStore } from '../../storage/postgres/store.ts';
import { decode, encode, FORMAT, inspect } from '../../storage/records.ts';
import { runProcess } from '../support/command.ts';
import { directoryFor } from '../support/directory.ts';
import { newSchema, postgresHere, sharedPostgres } from '../support/postgres.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { AT, append, patient, row } from './support.ts';

const NEWER = FORMAT + 1;
const open = (directory: string): Promise<Store> => openLevelStore({ directory, node: 'test', ballastBytes: 0 });
const hex = (crc: number): string => crc.toString(16).padStart(8, '0');

/** A record as a later build writes it. [STORAGE-RECORDS-5] */
function newer(key: string, content: string): string {
  const format = NEWER.toString(36);
  return format + hex(crc32(key)) + hex(crc32(content, crc32(key, crc32(format)))) + content;
}

/** A data directory with a store of one event and one row, closed. */
async function dataDir(t: Pick<Tap, 'teardown'>): Promise<string> {
  const directory = directoryFor(t);
  mkdirSync(join(directory, 'store'));
  const store = await open(join(directory, 'store'));
  await append(store, { puts: [row('1')] });
  await store.close();
  return directory;
}
type Tap = typeof t;

/** Writes both marks as a later build would. */
async function marked(store: string): Promise<void> {
  for (const [slot, file] of MARK_FILES.entries()) {
    const bytes = readFileSync(join(store, file));
    const text = bytes.toString('latin1').replace(/\0+$/, '');
    const head = [NEWER, ...(decode(`mark/${slot}`, text).head as unknown[]).slice(1), 'a new field'];
    bytes.fill(0);
    bytes.write(encode(`mark/${slot}`, JSON.stringify(head)), 'latin1');
    writeFileSync(join(store, file), bytes);
  }
}

/** Changes records behind the back of the store. */
async function changed(directory: string, change: (db: Level<string, string>) => Promise<void>): Promise<void> {
  const db = new Level<string, string>(join(directory, 'store', 'db'));
  await db.open();
  await change(db);
  await db.close();
}

/** Every file with its content and its time, below a directory. */
const stateOf = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .map((path) => [path, statSync(path, { bigint: true })] as const)
    .map(([path, stat]) => {
      const content = stat.isFile() ? createHash('sha256').update(readFileSync(path)).digest('hex') : 'directory';
      return `${path} ${stat.mtimeNs} ${content}`;
    })
    .sort();

/** A record that format 1 wrote, byte for byte. */
const OF_FORMAT_1 = [
  '1b5b777723020e4cd["s","object.put","2024-05-01T10:00:00.000Z","NL-TNM",null,["NL-EMS"],"i",1,[["sessions","NL-TNM","1",0]]]',
  '{"a":1}',
  '{ "body" : 1.0 }',
].join('\n');

t.test('what format 1 wrote is read, byte for byte', async (t) => {
  t.strictSame(decode('e/0000000000000001', OF_FORMAT_1), {
    head: ['s', 'object.put', AT, 'NL-TNM', null, ['NL-EMS'], 'i', 1, [['sessions', 'NL-TNM', '1', 0]]],
    data: { a: 1 },
    body: '{ "body" : 1.0 }',
  });
});

t.test('[STORAGE-RECORDS-5] a newer format is distinguished from a flipped bit in the digit', (t) => {
  const value = encode('key', '[1]', '2', 'body');
  for (let format = 0; format < 256; format += 1) {
    const flipped = String.fromCharCode(format) + value.slice(1);
    t.equal(inspect('key', flipped), format === value.charCodeAt(0) ? 'sound' : 'content', `digit ${format}`);
  }
  const later = newer('key', '[1]\n2\nbody');
  t.equal(inspect('key', later), 'newer');
  t.equal(inspect('key', `3${later.slice(1)}`), 'content');
  t.equal(inspect('other', later), 'key');
  t.throws(() => decode('key', later), {
    name: 'StoreUnavailable',
    message: `the record "key" has format ${NEWER}, made by a newer ocpi-hub; this one knows ${FORMAT}`,
  });
  t.throws(() => decode('key', `3${later.slice(1)}`), Damaged);
  t.end();
});

t.test('every verb refuses a store of a newer format, with both numbers, and changes nothing', async (t) => {
  const directory = await dataDir(t);
  const store = join(directory, 'store');
  await marked(store);
  const before = stateOf(directory);
  const refusal = {
    name: 'StoreUnavailable',
    message: `${join(store, 'mark')} has format ${NEWER}, made by a newer ocpi-hub; this one knows ${FORMAT}`,
  };
  await t.rejects(open(store), refusal);
  await t.rejects(openLevelStore({ directory: store, node: 'test' }), refusal, 'and one with a ballast');
  await t.rejects(verifyStore(directory), refusal);
  await t.rejects(backupStore(store, join(directoryFor(t), 'backup')), refusal);
  await t.rejects(copyToPostgres(store, 'postgres://127.0.0.1:1/none'), refusal);
  const { code, err } = await runProcess(['serve'], { HUB_DATA_DIR: directory, HUB_PORT: '0' });
  const said = err.split('\n').filter((line) => line.startsWith('ocpi-hub:'));
  t.strictSame([code, said], [1, [`ocpi-hub: ${refusal.message}`]]);
  t.strictSame(stateOf(directory), before);
});

t.test('one mark of a newer format is enough', async (t) => {
  for (const lost of MARK_FILES) {
    const store = join(await dataDir(t), 'store');
    await marked(store);
    rmSync(join(store, lost));
    await t.rejects(open(store), { message: new RegExp(`has format ${NEWER}, .* knows ${FORMAT}$`) });
  }
});

for (const [what, key] of [
  ['an event', keys.eventKey(1)],
  ['a row', keys.rowKey(row('1'))],
] as const) {
  t.test(`${what} of a newer format, under marks of this one: the store is refused and names it`, async (t) => {
    const directory = await dataDir(t);
    await changed(directory, async (db) => {
      const value = (await db.get(key)) ?? '';
      await db.put(key, newer(key, value.slice(17)));
    });
    const message = `the record ${JSON.stringify(key)} has format ${NEWER}, made by a newer ocpi-hub; this one knows ${FORMAT}`;
    await t.rejects(open(join(directory, 'store')), { name: 'StoreUnavailable', message });
    await t.rejects(verifyStore(directory), { name: 'StoreUnavailable', message });
    t.equal(
      (await readMarks(join(directory, 'store'))).held.every(({ clean }) => clean),
      true,
      'its marks stay',
    );
  });
}

t.test('a backup of a newer format is refused', async (t) => {
  const directory = await dataDir(t);
  const backup = join(directoryFor(t), 'backup');
  await backupStore(join(directory, 'store'), backup);
  const text = JSON.parse(readFileSync(join(backup, 'manifest.json'), 'utf8')) as { checksum: string };
  const { checksum: _, ...manifest } = { ...text, format: 4 };
  const checksum = createHash('sha256').update(JSON.stringify(manifest)).digest('hex');
  writeFileSync(join(backup, 'manifest.json'), JSON.stringify({ ...manifest, checksum }));
  const target = join(directoryFor(t), 'target');
  await t.rejects(restoreBackup(backup, target, { replace: false, now: new Date(0) }), {
    name: 'StoreUnavailable',
    message: `${backup} has format 4, made by a newer ocpi-hub; this one knows 3`,
  });
});

t.test('a schema of a newer version ends the start of a node with one line', atLength, async (t) => {
  if (postgresHere === null) return void t.plan(0, 'no PostgreSQL server is installed here');
  const server = await sharedPostgres();
  const schema = newSchema('newer');
  const url = server.url(schema);
  const store = await openPostgresStore({ url, node: 'test', ...patient });
  await store.close();
  await server.query(`update ${schema}.meta set version = version + 1`);
  const counts = () =>
    server.query<{ version: number }>(
      `select (select version from ${schema}.meta), (select count(*) from ${schema}.nodes)`,
    );
  const before = await counts();
  const version = before[0]?.version ?? 0;
  const tokens = { HUB_ADMIN_TOKEN: 'a'.repeat(32), HUB_SECRET_KEY: 'b'.repeat(64) };
  const { code, err } = await runProcess(['serve'], {
    HUB_DATA_DIR: directoryFor(t),
    HUB_PORT: '0',
    HUB_STORE: url,
    ...tokens,
  });
  const said = err.split('\n').filter((line) => line.startsWith('ocpi-hub:'));
  t.equal(code, 1);
  t.equal(said.length, 1);
  t.match(
    said[0],
    new RegExp(`schema ${schema} has version ${version}, made by a newer ocpi-hub; this one knows ${version - 1}$`),
  );
  t.strictSame(await counts(), before);
});
