/** What only the embedded engine can suffer while it trims and is backed up: kills at every point, damage, a full disk. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Level } from 'level';
import type { Store } from '../../storage/contract.ts';
import * as keys from '../../storage/keys.ts';
import { openDatabase } from '../../storage/level/leveldb.ts';
import { restoreBackup, verifyStore } from '../../storage/level/restore.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { encodeHorizon } from '../../storage/level/trim-point.ts';
import { encode } from '../../storage/records.ts';
import { copyOfRunning, directoryFor } from '../support/directory.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { append, event, row, smallDisk, trim, trimAll, until } from './support.ts';

const CHILD = join(import.meta.dirname, 'child.js');
const open = (directory: string): Promise<Store> => openLevelStore({ directory, node: 'test', ballastBytes: 0 });

/** All that a child said before it ended itself at a point. */
async function killedAt(role: string, directory: string, point: string): Promise<string[]> {
  const words = [CHILD, role, directory, point];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  const gone = new Promise<NodeJS.Signals | null>((resolve) => child.once('close', (_code, signal) => resolve(signal)));
  const said: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) said.push(line);
  if ((await gone) !== 'SIGKILL') throw new Error(`${role} did not come by ${point}`);
  return said;
}

for (const point of ['before:1', 'before:9', 'after:9', 'compact:4']) {
  t.test(
    `[CONTRACT-9] killed at trim.${point}: the horizon is whole, nothing is reported damaged, and trimming goes on`,
    // Kills at the others, and after a piece: test/faults.
    point === 'before:1' || point === 'compact:4' ? {} : atLength,
    async (t) => {
      const directory = directoryFor(t);
      const said = await killedAt('trim', directory, point);
      const acknowledged = Number(said.filter((line) => /^\d+$/.test(line)).at(-1));
      const told = said.filter((line) => line.startsWith('trimmed ')).at(-1);
      let store = await open(directory);
      t.teardown(() => store.close());
      t.match(store.health(), { state: 'open', reason: null, damagedRows: { length: 0 } });
      const horizon = store.horizon();
      t.ok(horizon >= Number(told?.split(' ')[1] ?? 0), `the horizon is ${horizon}, of ${acknowledged} events`);
      const look = async (): Promise<void> => {
        const events = await store.read({ after: 0, limit: 100_000 });
        t.ok(events.every(({ seq }, i) => seq === store.horizon() + 1 + i));
        t.equal(store.head(), Math.max(acknowledged, store.head()));
        for (const stream of ['s 0', 's 1', 's 2', 's 3']) {
          const [first, second] = await store.history(stream);
          t.ok(first !== undefined && (second === undefined || second.seq > store.horizon()), `${stream} keeps one`);
        }
      };
      await look();
      await trimAll(store, store.head() - 3);
      await look();
      await store.close();
      store = await open(directory);
      t.match(store.health(), { state: 'open', reason: null, damagedRows: { length: 0 } });
      await look();
    },
  );
}

for (const point of ['copied:1', 'synced:2', 'named:1']) {
  const tier = point === 'copied:1' ? {} : atLength;
  t.test(`[CONTRACT-10] killed at backup.${point}: what has the name of a backup is one`, tier, async (t) => {
    const place = directoryFor(t);
    const directory = join(place, 'data', 'store');
    const head = Number((await killedAt('backup', directory, point))[0]);
    const made = readdirSync(place).filter((name) => /^backup-\d+$/.test(name));
    t.equal(made.length, point === 'named:1' || point === 'synced:2' ? 1 : 0);
    for (const name of made) {
      const { manifest } = await restoreBackup(join(place, name), join(place, 'restored'), {
        replace: false,
        now: new Date(),
      });
      t.ok(manifest.head >= head);
    }
    const partial = readdirSync(place).filter((name) => name.endsWith('.partial'));
    t.equal(partial.length, point === 'named:1' ? 0 : 1);
    if (point === 'copied:1') {
      const unfinished = join(place, partial[0] ?? '');
      const options = { replace: false, now: new Date() };
      await t.rejects(restoreBackup(unfinished, join(place, 'never'), options), { message: /is no backup/ });
    }
    const store = await open(directory);
    t.teardown(() => store.close());
    const next = partial[0]?.replace('.partial', '') ?? 'next';
    t.ok((await store.backup(join(place, next))).events >= head, 'the next one of that name takes its place');
    t.notOk(existsSync(join(place, `${next}.partial`)));
  });
}

t.test('a hub that starts while a backup is copied keeps its store', async (t) => {
  const place = directoryFor(t);
  const directory = join(place, 'data', 'store');
  const store = await open(directory);
  await Promise.all(Array.from({ length: 500 }, () => append(store)));
  await store.backup(join(place, 'backup'));
  await store.close();
  const before = readdirSync(place);
  const database = join(directory, 'db');
  const manifests = () =>
    readdirSync(database)
      .filter((name) => name.startsWith('MANIFEST'))
      .join();
  const opened: ReturnType<typeof openDatabase>[] = [];
  const progress = (): void => {
    if (opened.length > 0) return;
    const former = manifests();
    opened.push(openDatabase(database, false));
    // Another thread opens it.
    while (manifests() === former) {}
  };
  await t.rejects(restoreBackup(join(place, 'backup'), directory, { replace: true, now: new Date(), progress }), {
    message: /is in use by another process/,
  });
  for (const each of opened) await (await each).close();
  t.equal(opened.length, 1);
  t.strictSame([readdirSync(place), readdirSync(join(place, 'data'))], [before, ['store']]);
});

/** A closed store, trimmed up to 20 of 30 events, with one kept for each of four streams. */
async function trimmedStore(t: Test): Promise<string> {
  const directory = join(directoryFor(t), 'store');
  const store = await open(directory);
  for (let i = 0; i < 30; i += 1)
    await append(store, { events: [event({ stream: `s ${i % 4}` })], puts: [row(`${i}`)] });
  await trimAll(store, 20);
  await store.close();
  return directory;
}

async function bare(directory: string, use: (db: Level<string, string>) => Promise<unknown>): Promise<void> {
  const db = new Level<string, string>(join(directory, 'db'));
  await db.open();
  await use(db);
  await db.close();
}

const harms: Record<string, readonly [harm: (db: Level<string, string>) => Promise<unknown>, reason: RegExp]> = {
  'a kept event is gone': [
    (db) => db.del(keys.eventKey(18)),
    /up to the horizon 20 the log should hold 4 events, and holds 3/,
  ],
  'a kept event is damaged': [(db) => db.put(keys.eventKey(18), '1 not what was written'), /is damaged/],
  'a trimmed event is back': [async (db) => db.put(keys.eventKey(3), (await db.get(keys.eventKey(18))) ?? ''), /./],
  'the first event behind it is gone': [(db) => db.del(keys.eventKey(21)), /the log has lost event 21/],
  'the horizon itself is gone': [(db) => db.del(keys.HORIZON_KEY), /the log has lost events 1 to/],
};

for (const [name, [harm, reason]] of Object.entries(harms)) {
  t.test(`[CONTRACT-8] of a trimmed log: ${name}, and the store says so`, async (t) => {
    const directory = await trimmedStore(t);
    await bare(directory, harm);
    const store = await open(directory);
    t.teardown(() => store.close());
    t.match(store.health(), { state: 'quarantined', reason });
  });
}

t.test(
  '[CONTRACT-8] a missing row that a kept event names is detected; indexes of a trimmed log are rebuilt',
  async (t) => {
    const directory = join(directoryFor(t), 'store');
    let store = await open(directory);
    t.teardown(() => store.close());
    for (let i = 0; i < 4; i += 1)
      await append(store, { events: [event({ stream: 's', correlationId: 'c' })], puts: [row('1')] });
    const [last] = (await store.history('s')).filter(({ seq }) => seq === 3);
    if (last === undefined) throw new Error('no event 3');
    await trim(store, 3, { keeps: [{ ...last, rows: [row('1')] }] });
    await store.close();
    await bare(directory, async (db) => {
      await db.del(keys.rowKey(row('1')));
      await db.del(keys.streamKey('s', 3));
    });
    store = await open(directory);
    t.match(store.health(), { state: 'open', damagedRows: [{ kind: 'sessions', owner: 'NL-TNM', id: '1' }] });
    t.strictSame(
      (await store.history('s')).map(({ seq }) => seq),
      [3, 4],
    );
  },
);

t.test('[VERIFY-5] kept events are counted exactly when their sequences add up to more than 2^53', async (t) => {
  const directory = join(directoryFor(t), 'store');
  await (await open(directory)).close();
  const first = 1.5e15;
  await bare(directory, (db) => db.put(keys.HORIZON_KEY, encodeHorizon({ seq: first, kept: 0, sum: 0 })));
  let store = await open(directory);
  t.teardown(() => store.close());
  for (let i = 0; i < 20; i += 1) await append(store, { events: [event({ stream: `s ${i % 10}` })] });
  await trimAll(store, first + 5, 5);
  await store.close();
  const whole = JSON.stringify([first + 5, 5, 5 * first + 15]);
  await bare(directory, (db) => db.put(keys.HORIZON_KEY, encode(keys.HORIZON_KEY, whole)));
  store = await open(directory);
  t.match(store.health(), { state: 'open', reason: null }, 'also with the sum that an earlier build wrote');
  await trimAll(store, first + 20, 5);
  t.match(await store.backup(join(directoryFor(t), 'backup')), { events: 10, horizon: first + 20 });
  await store.close();
  store = await open(directory);
  t.match(store.health(), { state: 'open', reason: null });
});

t.test('a backup of format 1, with several logs, is verified and restored', atLength, async (t) => {
  const place = directoryFor(t);
  const store = await open(join(place, 'data', 'store'));
  for (let i = 0; i < 30; i += 1)
    await append(store, { events: [event({ stream: `s ${i % 3}` })], puts: [row(`${i}`)] });
  await trim(store, 10);
  const backup = join(place, 'backup');
  const { format: _, head, horizon, made_at, ...rest } = await store.backup(backup);
  await store.close();
  const written = (manifest: object): void => {
    const checksum = createHash('sha256').update(JSON.stringify(manifest)).digest('hex');
    writeFileSync(join(backup, 'manifest.json'), `${JSON.stringify({ ...manifest, checksum }, null, 2)}\n`);
  };
  written({ format: 1, made_at, heads: { 0: head }, horizons: { 0: horizon }, ...rest });
  const verified = await verifyStore(backup);
  t.strictSame(verified.faults, []);
  t.strictSame(verified.manifest, { ...rest, format: 2, made_at, head: 30, horizon: 10 });
  const { manifest } = await restoreBackup(backup, join(place, 'restored'), { replace: false, now: new Date() });
  t.match(manifest, { format: 2, head: 30, horizon: 10 });
  const restored = await open(join(place, 'restored'));
  t.teardown(() => restored.close());
  t.match(restored.health(), { state: 'open', damagedRows: { length: 0 }, head: 30 });
  written({ format: 1, made_at, heads: { 0: head }, horizons: { 0: horizon }, ...rest, digest: '' });
  t.strictSame((await verifyStore(backup)).faults, ['it does not hold what its manifest says']);
  written({ format: 4, made_at, ...rest });
  await t.rejects(verifyStore(backup), { message: /has format 4, made by a newer ocpi-hub; this one knows 3/ });
});

t.test('a store is not created where a restore was cut off', async (t) => {
  const place = t.testdir({ 'store.partial': { db: {} } });
  await t.rejects(open(join(place, 'store')), { name: 'StoreUnavailable', message: /a restore into .* did not end/ });
  t.notOk(existsSync(join(place, 'store')));
});

t.test(
  '[LEVEL-READS-5] a trim that a failed write interrupts is refused, and trimming continues afterwards',
  async (t) => {
    let isBroken = '';
    const onPoint = (name: string) => {
      if (name === isBroken) throw new Error('the disk is full');
    };
    const directory = join(directoryFor(t), 'store');
    const store = await openLevelStore({ directory, node: 'test', ballastBytes: 0, onPoint });
    t.teardown(() => store.close());
    const count = 4000;
    await Promise.all(Array.from({ length: count }, () => append(store)));
    const whileBroken = async (point: string, work: () => Promise<unknown>): Promise<unknown> => {
      isBroken = point;
      try {
        return await work();
      } finally {
        isBroken = '';
        await until(() => store.health().state === 'open');
      }
    };

    await whileBroken('commit.before', async () => {
      const other = t.rejects(append(store), { name: 'StoreUnavailable' });
      await t.rejects(trim(store, count), { name: 'StoreUnavailable' }, 'the trim was reading');
      await other;
    });
    t.equal(store.horizon(), 0);

    await whileBroken('trim.before', async () => {
      const trimming = t.rejects(trim(store, 10), { name: 'StoreUnavailable' }, 'the trim was being written');
      await until(() => store.health().state === 'failed');
      await t.rejects(store.event(5), { name: 'StoreUnavailable' }, 'an event that may still be there is not denied');
      await trimming;
    });
    t.equal(store.horizon(), 0);
    t.match(await store.event(5), { seq: 5 });

    await trim(store, 10);
    t.equal(await store.event(5), null);
    t.equal(store.horizon(), 10);
  },
);

t.test('trimmed space is returned', atLength, async (t) => {
  const directory = join(directoryFor(t), 'store');
  const store = await open(directory);
  t.teardown(() => store.close());
  const body = Array.from({ length: 400 }, (_, i) => (i * 48_271).toString(36)).join('');
  const count = 24_000;
  for (let from = 0; from < count; from += 400) {
    await Promise.all(
      Array.from({ length: 400 }, (_, i) =>
        append(store, { events: [event({ stream: `${from + i}`, body: `${from + i} ${body}` })] }),
      ),
    );
  }
  const size = (): number => {
    const files = readdirSync(join(directory, 'db')).filter((file) => file.endsWith('.ldb'));
    // The compaction goes on meanwhile, and removes tables.
    const sizeOf = (file: string) => statSync(join(directory, 'db', file), { throwIfNoEntry: false })?.size ?? 0;
    return files.reduce((sum, file) => sum + sizeOf(file), 0);
  };
  const before = size();
  for (let upTo = 1000; upTo <= 22_000; upTo += 1000) await trim(store, upTo);
  await until(() => size() < before / 2);
});

t.test(
  '[CONTRACT-10] a backup to a disk that is too small is refused or fails, and leaves nothing; the store goes on',
  async (t) => {
    const disk = smallDisk(t, 3 << 20);
    if (disk === null) return void t.comment('no file system can be mounted here');
    const store = await open(join(directoryFor(t), 'store'));
    t.teardown(() => store.close());
    const body = 'x'.repeat(1000);
    for (let i = 0; i < 20; i += 1) {
      await Promise.all(
        Array.from({ length: 50 }, () => append(store, { events: [event({ body: body + Math.random() })] })),
      );
    }
    await store.backup(join(disk, 'fits')).catch(() => {});
    await Promise.all(Array.from({ length: 5000 }, () => append(store, { events: [event({ body })] })));
    await t.rejects(store.backup(join(disk, 'one')));
    t.notOk(existsSync(join(disk, 'one')) || existsSync(join(disk, 'one.partial')));
    t.equal((await append(store)).first, 6001);
    t.equal(store.health().state, 'open');
  },
);

t.test('an inspection of a store changes nothing in it', async (t) => {
  const directory = await trimmedStore(t);
  const data = join(directory, '..');
  await bare(directory, (db) => db.del(keys.streamKey('s 1', 30)));
  for (const round of [1, 2]) {
    const report = await verifyStore(data);
    t.match(
      report,
      { faults: { length: 0 }, repairs: ['the indexes of the log are made again'], horizon: 20 },
      `look ${round}`,
    );
  }
  const copy = join(directoryFor(t), 'copy');
  copyOfRunning(directory, copy);
  const store = await open(copy);
  await store.close();
  t.strictSame((await verifyStore(data)).repairs.length, 1, 'the hub repairs, a look does not');
});
