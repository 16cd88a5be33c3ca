/** A failed write: what the bare engine does afterwards (TRAP), and what our store does (ANSWER). */
import { spawnSync } from 'node:child_process';
import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Level } from 'level';
import { StoreUnavailable } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { directoryFor } from '../support/directory.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { append, event, row, smallDisk, until } from './support.ts';

const CHILD = join(import.meta.dirname, 'child.js');
const MIB = 1 << 20;
const NO_MOUNT = 'mounting a small file system is not allowed here';

/** Fills what is left of a disk. */
function fill(disk: string): void {
  try {
    for (let i = 0; ; i += 1) writeFileSync(join(disk, `filler ${i}`), Buffer.alloc(64 << 10));
  } catch {}
  try {
    writeFileSync(join(disk, 'crumbs'), Buffer.alloc(64 << 10));
  } catch {}
}

function free(disk: string): void {
  rmSync(join(disk, 'crumbs'), { force: true });
  for (let i = 0; existsSync(join(disk, `filler ${i}`)); i += 1) rmSync(join(disk, `filler ${i}`));
}

t.test('TRAP fact 1: after one failed write a handle goes on acknowledging synced writes that are gone', async (t) => {
  const disk = smallDisk(t, 8 * MIB);
  if (disk === null) return void t.plan(0, NO_MOUNT);
  const db = new Level<string, string>(join(disk, 'db'));
  await db.open();
  const put = (key: string): Promise<void> =>
    db
      .batch()
      .put(key, 'x'.repeat(2000))
      .write({ sync: true } as object);
  fill(disk);
  let failed = false;
  for (let i = 0; !failed; i += 1) {
    await put(`before ${i}`).catch(() => {
      failed = true;
    });
  }
  free(disk);
  for (let i = 0; i < 300; i += 1) await put(`after ${i}`);
  t.pass('300 synced writes were acknowledged after the disk had room again');
  await db.close();
  const again = new Level<string, string>(join(disk, 'db'));
  await again.open();
  const found = (await again.keys().all()).filter((key) => key.startsWith('after')).length;
  t.ok(found < 300, `${300 - found} of them are gone`);
  await again.close();
});

t.test(
  'ANSWER fact 1: [CONTRACT-5] nothing is acknowledged that is not there; the store heals when there is room',
  async (t) => {
    const disk = smallDisk(t, 24 * MIB);
    if (disk === null) return void t.plan(0, NO_MOUNT);
    const directory = join(disk, 'store');
    const store = await openLevelStore({ directory, node: 'test', ballastBytes: 4 * MIB });
    const states: string[] = [];
    store.onHealth(({ state }) => states.push(state));
    const acknowledged = new Map<string, number>();
    const doubtful: string[] = [];
    const commit = (id: string) => ({
      idem: id,
      events: [event({ stream: id, body: 'x'.repeat(3000) })],
      puts: [row(id, { data: id })],
    });
    let next = 0;
    const attempt = async (): Promise<void> => {
      next += 1;
      const id = `id ${next}`;
      await append(store, commit(id)).then(
        ({ last }) => void acknowledged.set(id, last),
        () => void doubtful.push(id),
      );
    };
    await Promise.all(Array.from({ length: 100 }, attempt));
    fill(disk);
    while (store.health().state === 'open') await Promise.all(Array.from({ length: 32 }, attempt));
    t.match(store.health(), { state: 'failed', reason: /a write failed|room/ });
    await t.rejects(append(store), StoreUnavailable);
    await until(() => store.health().reason?.includes('room') ?? false);
    t.notOk(existsSync(join(directory, 'ballast')), 'the ballast was given back');
    t.equal((await store.get(row('id 1')))?.data, 'id 1', 'reads go on while the disk is full');
    t.equal((await store.list({ kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 1 })).total, store.head());
    await t.rejects(append(store), StoreUnavailable);
    free(disk);
    await until(() => store.health().state === 'open');
    t.ok(existsSync(join(directory, 'ballast')), 'and stands again');
    t.strictSame([...new Set(states)], ['failed', 'open']);
    // Whoever was told nothing asks again with the same key, and each is there once.
    for (const id of doubtful) acknowledged.set(id, (await append(store, commit(id))).last);
    await store.close();
    const again = await openLevelStore({ directory, node: 'test', ballastBytes: 0 });
    t.teardown(() => again.close());
    t.equal(again.health().state, 'open');
    const events = await again.read({ after: 0, limit: 1_000_000 });
    t.equal(events.length, next);
    t.ok(doubtful.length > 0);
    t.strictSame(
      new Map(events.map(({ stream, seq }) => [stream, seq])),
      new Map([...acknowledged].sort((a, b) => a[1] - b[1])),
    );
  },
);

t.test('a store whose directory is moved away, or replaced, fails until it is back [LIFECYCLE-8]', async (t) => {
  const directory = join(directoryFor(t), 'store');
  const options = { node: 'test', ballastBytes: 64 * 1024 };
  const store = await openLevelStore({ ...options, directory });
  t.teardown(() => store.close());
  await append(store, { puts: [row('1')] });
  renameSync(directory, `${directory}.away`);
  // The engine writes on into files that are open; one that it has to open by name fails.
  await until(async () => {
    await append(store, { puts: [row('2', { body: 'x'.repeat(256 << 10) })] }).catch(() => {});
    return store.health().state === 'failed';
  });
  await until(() => store.health().reason?.includes('is gone') === true);
  await t.rejects(append(store), StoreUnavailable, 'and nothing is acknowledged');
  t.notOk(existsSync(directory), 'no other store is made in its place');
  const other = await openLevelStore({ ...options, directory });
  await append(other);
  await other.close();
  await until(() => store.health().reason?.startsWith('another store') === true);
  renameSync(directory, `${directory}.other`);
  renameSync(`${directory}.away`, directory);
  await until(() => store.health().state === 'open');
  t.equal((await store.get(row('1')))?.id, '1');
  await t.resolves(append(store));
});

t.test('a store without writes notices that its directory is gone [LEVEL-STORE-6]', async (t) => {
  const directory = join(directoryFor(t), 'store');
  const store = await openLevelStore({ directory, node: 'test', ballastBytes: 64 * 1024 });
  t.teardown(() => store.close());
  const states: string[] = [];
  store.onHealth(({ state }) => states.push(state));
  rmSync(directory, { recursive: true });
  await until(() => states.includes('failed'));
  t.match(store.health().reason, /ENOENT|is gone/);
});

t.test('a store that finds the disk full when it opens serves reads, and writes when there is room', async (t) => {
  const disk = smallDisk(t, 24 * MIB);
  if (disk === null) return void t.plan(0, NO_MOUNT);
  const options = { directory: join(disk, 'store'), node: 'test', ballastBytes: 4 * MIB };
  const first = await openLevelStore(options);
  await append(first, { puts: [row('1')] });
  await first.close();
  fill(disk);
  const store = await openLevelStore(options);
  t.teardown(() => store.close());
  t.equal((await store.get(row('1')))?.id, '1');
  if (store.health().state === 'open') await t.resolves(append(store), 'the ballast had been room enough');
  free(disk);
  await until(() => store.health().state === 'open');
  t.ok((await append(store)).last > 1);
});

t.test('[CONTRACT-5] a reclaim that cannot write is a failed write, and loses no later commit', async (t) => {
  const args = [CHILD, 'reclaimed', join(directoryFor(t), 'store'), '300'];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (stdout === '' && stderr === '') return void t.plan(0, 'no command that limits the size of files');
  t.match(
    JSON.parse(stdout || 'null'),
    {
      outcome: /StoreUnavailable: a write failed/,
      seen: ['failed', 'open'],
      health: { state: 'open', reason: null },
      head: 400,
    },
    stderr,
  );
});

t.test(
  '[CONTRACT-5] writes that fail again and again (a limit on the size of files): each commit is there once',
  atLength,
  async (t) => {
    if (spawnSync('bash', ['-c', 'ulimit -f 5120']).status !== 0) {
      return void t.plan(0, 'no shell that limits the size of files');
    }
    const directory = directoryFor(t);
    const args = [CHILD, 'limited', join(directory, 'store'), '700'];
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    const told = JSON.parse(stdout || 'null') as {
      failures: number;
      seen: string[];
      head: number;
      streams: string[];
    } | null;
    t.ok(told !== null, stderr);
    t.ok((told?.failures ?? 0) > 1, `${told?.failures} writes failed`);
    t.strictSame(told?.seen.sort(), ['failed', 'open']);
    t.strictSame(
      told?.streams,
      Array.from({ length: 700 }, (_, i) => `s ${i + 1}`),
    );
  },
);
