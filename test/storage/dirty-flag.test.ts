/** Openings that did not end, and what the log may have lost before them. */
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Level } from 'level';
import type { Fence, Store } from '../../storage/contract.ts';
import * as keys from '../../storage/keys.ts';
import { DirtyFlag } from '../../storage/level/dirty-flag.ts';
import { MARK_FILES, readMarks } from '../../storage/level/marks.ts';
import { backupStore, restoreBackup, verifyStore } from '../../storage/level/restore.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { copyOfRunning, directoryFor } from '../support/directory.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { breakAssertion, breakOrder, flip, noise } from './spoil.ts';
import { append, event, row } from './support.ts';

const open = (directory: string): Promise<Store> => openLevelStore({ directory, node: 'test', ballastBytes: 0 });

let made: Promise<string> | null = null;

/** A closed store with a table. It is made once, and copied. */
async function filled(directory: string): Promise<void> {
  made ??= make(directoryFor(t));
  cpSync(await made, directory, { recursive: true });
}

/** Opened twice, so that there is a table. */
async function make(directory: string): Promise<string> {
  for (const part of ['a', 'b']) {
    const store = await open(directory);
    for (let i = 0; i < 50; i += 1) await append(store, { events: [event()], puts: [row(`${part} ${i}`)] });
    await store.close();
  }
  return directory;
}

const child = join(import.meta.dirname, 'child.js');
const inChild = (role: string, directory: string) =>
  spawnSync(process.execPath, [child, role, directory, '0'], { encoding: 'utf8' });

t.test('a table that breaks an assertion of the engine is reported by every start after the first', async (t) => {
  const dataDir = directoryFor(t);
  const directory = join(dataDir, 'store');
  await filled(directory);
  breakAssertion(join(directory, 'db'));
  const { signal, stderr } = inChild('sequence', directory);
  t.equal(signal, 'SIGABRT', 'TRAP: the engine ends the process');
  t.match(stderr, /Assertion `internal_key.size\(\) >= 8' failed/);
  const opening = JSON.parse(readFileSync(join(directory, 'opening'), 'utf8'));
  t.match(opening, { directory, attempts: 1 });
  for (const attempts of isAtLength ? [2, 3] : [2]) {
    const error = await open(directory).catch((reason: unknown) => reason);
    t.match(error, { name: 'StoreUnavailable' });
    const { message } = error as Error;
    t.match(message, `${directory} is damaged, the hub does not start on it`);
    t.match(message, "Assertion `internal_key.size() >= 8' failed");
    t.match(message, `(${attempts} attempts to open it since ${opening.since}). Restore a backup`);
  }
  const { faults } = await verifyStore(dataDir);
  t.match(faults, [/^LevelDB ends any process that reads it, with SIGABRT: .*Assertion/]);
  await t.rejects(backupStore(directory, join(dataDir, 'backup')), { message: /Assertion/ });
});

t.test(
  'a table that can be read and not compacted is found in a separate process, before the engine compacts it',
  atLength,
  async (t) => {
    const directory = directoryFor(t);
    const key = (begin: string) => `${begin} ${noise(Number(begin), 60)}`;
    const first = await open(directory);
    for (const begin of ['1', '2', '3']) await append(first, { puts: [row(key(begin))] });
    await first.close();
    const db = new Level(join(directory, 'db'), { compression: false });
    await db.open();
    await db.close();
    breakOrder(join(directory, 'db'), key('2'));
    const quarantined = await open(directory);
    t.equal(quarantined.health().state, 'quarantined');
    await quarantined.close();
    t.ok(existsSync(join(directory, 'opening')), 'its end is not believed in');
    const error = await open(directory).catch((reason: unknown) => reason);
    t.match((error as Error).message, /the hub does not start on it: .* SIGABRT: .*Compare\(key.*Restore a backup/);
    const { signal, stderr } = inChild('compact', directory);
    t.equal(signal, 'SIGABRT', 'TRAP: compaction ends the process');
    t.match(stderr, /Assertion `.*Compare\(key/);
  },
);

t.test('an offline inspection of such a store reports the same, and does not die with it', async (t) => {
  const dataDir = directoryFor(t);
  await filled(join(dataDir, 'store'));
  breakAssertion(join(dataDir, 'store', 'db'));
  t.match((await verifyStore(dataDir)).faults, [/Assertion/]);
});

t.test('an opening that was only killed prevents nothing: the store opens, and no trace of it is left', async (t) => {
  const directory = directoryFor(t);
  await filled(directory);
  for (const leave of [
    () => new DirtyFlag(directory).begin(),
    async () => writeFileSync(join(directory, 'opening'), '{"sin'),
  ]) {
    await leave();
    const store = await open(directory);
    t.match(store.health(), { state: 'open', reason: null });
    await append(store);
    await store.close();
    t.notOk(existsSync(join(directory, 'opening')));
  }
});

t.test('a store that another process uses is in use, whatever an opening left behind', async (t) => {
  const directory = directoryFor(t);
  const store = await open(directory);
  t.teardown(() => store.close());
  await new DirtyFlag(directory).begin();
  await t.rejects(open(directory), { name: 'StoreUnavailable', message: /is in use by another process/ });
});

/** Owed to A: 1 to 6. Delivered 1 to 3; 4 waits for another attempt, and its row alone is lost; 5 is delivered, and the floor is 5. */
async function withoutItsRow(directory: string): Promise<void> {
  const store = await open(directory);
  const fence = store.held();
  if (fence === null) throw new Error('no fence');
  const end = (seq: number, state: 'PENDING' | 'DELIVERED', data: unknown) =>
    store.settle(fence, [{ dest: 'A', seq, state, data }], [{ dest: 'A', seq }]);
  for (let i = 0; i < 6; i += 1) await append(store, { events: [event({ to: i === 1 ? ['B'] : ['A'] })] });
  for (const seq of [1, 3]) await end(seq, 'DELIVERED', null);
  // Longer than a block of the log: what is dropped with it ends in the next one.
  await end(4, 'PENDING', noise(4, 40_000));
  await end(5, 'DELIVERED', null);
  await store.close();
  flip(join(directory, 'db'), '.log', noise(4, 40_000).slice(0, 60));
}

/** What happens to the store before the hub opens it. */
const before: Readonly<Record<string, (dataDir: string) => Promise<unknown> | undefined>> = {
  'at once': () => undefined,
  'after an opening that was killed when the engine had opened it': async (dataDir) => {
    await new DirtyFlag(join(dataDir, 'store')).begin();
    const db = new Level(join(dataDir, 'store', 'db'));
    await db.open();
    await db.close();
  },
  'after a look at it, which makes tables of the log': (dataDir) => verifyStore(dataDir),
};

for (const [when, look] of Object.entries(before)) {
  t.test(
    `a delivery whose row was lost from the log is owed again, though a later floor stood: ${when} [CONTRACT-6]`,
    when.startsWith('after a look') ? atLength : {},
    async (t) => {
      const dataDir = directoryFor(t);
      const directory = join(dataDir, 'store');
      await withoutItsRow(directory);
      await look(dataDir);
      const store = await open(directory);
      t.teardown(() => store.close());
      t.equal(store.health().state, 'open');
      t.equal(await store.delivery('A', 4), null, 'its row is lost');
      t.match(await store.delivery('A', 5), { state: 'DELIVERED' }, 'a later one is there');
      t.strictSame(await store.floors(), [{ dest: 'A', seq: 3 }]);
    },
  );
}

t.test(
  'a backup of a store that lost part of its log is repaired when it is restored and opened [CONTRACT-6]',
  async (t) => {
    const root = directoryFor(t);
    const [dataDir, backup, target] = [join(root, 'data'), join(root, 'backup'), join(root, 'restored')];
    await withoutItsRow(join(dataDir, 'store'));
    await backupStore(join(dataDir, 'store'), backup);
    await restoreBackup(backup, target, { replace: false, now: new Date() });
    const store = await open(target);
    t.teardown(() => store.close());
    t.strictSame(await store.floors(), [{ dest: 'A', seq: 3 }]);
  },
);

t.test('a restored store is readable by its owner alone, whatever the permissions of the backup', async (t) => {
  const root = directoryFor(t);
  const [live, backup, target] = [join(root, 'live', 'store'), join(root, 'backup'), join(root, 'restored')];
  await filled(live);
  await backupStore(live, backup);
  const paths = (directory: string) => [
    directory,
    ...readdirSync(directory, { recursive: true }).map((name) => join(directory, String(name))),
  ];
  for (const path of paths(backup)) chmodSync(path, statSync(path).isDirectory() ? 0o755 : 0o644);
  await restoreBackup(backup, target, { replace: false, now: new Date() });
  const open = paths(target).filter((path) => (statSync(path).mode & 0o077) !== 0);
  t.strictSame(open, []);
});

t.test('without a loss no floor moves, not even below deliveries without a row', async (t) => {
  const directory = directoryFor(t);
  const store = await open(directory);
  const fence = store.held();
  if (fence === null) throw new Error('no fence');
  for (let i = 0; i < 3; i += 1) await append(store, { events: [event({ to: ['A'] })] });
  await store.settle(fence, [], [{ dest: 'A', seq: 3 }]);
  await store.close();
  const again = await open(directory);
  t.teardown(() => again.close());
  t.strictSame(await again.floors(), [{ dest: 'A', seq: 3 }]);
});

/** Owed to A: 1 to 6, all settled: 4 waits for another attempt, and 2 is owed to nobody. */
async function settled(store: Store, fence: Fence): Promise<void> {
  for (let i = 1; i <= 6; i += 1) {
    await append(store, { events: [event({ to: i === 2 ? [] : ['A'] })] });
    if (i === 2) continue;
    const row = { dest: 'A', seq: i, state: i === 4 ? 'PENDING' : 'DELIVERED', data: null } as const;
    await store.settle(fence, [row], [row]);
  }
}

/** A store as a power cut may leave it: rows of a closed log are gone, and the floor of the next log stands. */
async function without(key: string, directory: string): Promise<void> {
  const db = new Level(join(directory, 'db'));
  await db.open();
  await db.del(key);
  await db.close();
}

const losses: readonly (readonly [what: string, key: string, floor: number])[] = [
  ['waited for another attempt', keys.openKey('A', 4), 3],
  ['was delivered', keys.deliveredKey('A', 5), 4],
];

for (const [what, key, floor, isMarked] of losses.flatMap((loss) => [
  [...loss, true] as const,
  [...loss, false] as const,
])) {
  const mark = isMarked ? '' : ', without its mark';
  const tier = isMarked && floor === 3 ? {} : atLength;
  t.test(`after an unclean end what ${what} and has no row is owed again${mark} [CONTRACT-6]`, tier, async (t) => {
    const root = directoryFor(t);
    const [live, dataDir] = [join(root, 'live'), join(root, 'data')];
    const directory = join(dataDir, 'store');
    const store = await open(live);
    t.teardown(() => store.close());
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    await settled(store, fence);
    copyOfRunning(live, directory);
    await without(key, directory);
    if (!isMarked) for (const file of MARK_FILES) rmSync(join(directory, file));
    t.match((await verifyStore(dataDir)).repairs, [`the floor of A goes back to ${floor}`], 'a look says so');
    const cut = await open(directory);
    t.strictSame(await cut.floors(), [{ dest: 'A', seq: floor }]);
    await cut.close();
    t.strictSame((await verifyStore(dataDir)).repairs, [], 'and then it is mended');
  });
}

t.test('after an unclean end without a loss no floor moves', async (t) => {
  const root = directoryFor(t);
  const store = await open(join(root, 'live'));
  t.teardown(() => store.close());
  const fence = store.held();
  if (fence === null) throw new Error('no fence');
  await settled(store, fence);
  copyOfRunning(join(root, 'live'), join(root, 'copy'));
  const again = await open(join(root, 'copy'));
  t.teardown(() => again.close());
  t.strictSame(await again.floors(), [{ dest: 'A', seq: 6 }]);
});

t.test('both marks say that an end was clean, until the store is opened again', async (t) => {
  const directory = directoryFor(t);
  const isClean = async (): Promise<boolean[]> => (await readMarks(directory)).held.map(({ clean }) => clean);
  for (const round of [1, 2]) {
    const store = await open(directory);
    t.strictSame(await isClean(), [false, false], `open ${round}`);
    await append(store);
    await store.close();
    t.strictSame(await isClean(), [true, true], `closed ${round}`);
  }
});
