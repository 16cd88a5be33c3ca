/**
 * What the engine does with damaged files, shown on the bare engine (TRAP), and what our store makes of it (ANSWER).
 *
 * Not shown here: a copy of a live database made of hard links shares the files that the engine still appends to, so that
 * opening the copy corrupts the original. We make no such copies; a backup is an export, or a copy of bytes with the store
 * closed.
 */
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Level } from 'level';
import { Damaged, type Store, StoreUnavailable } from '../../storage/contract.ts';
import * as keys from '../../storage/keys.ts';
import type { Lifecycle } from '../../storage/level/lifecycle.ts';
import { MARK_FILES } from '../../storage/level/marks.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { encode } from '../../storage/records.ts';
import { directoryFor } from '../support/directory.ts';
import { t } from '../support/tap.ts';
import { clearFilter, files, flip, noise } from './spoil.ts';
import { AT, append, collect, event, row, seen } from './support.ts';

const open = (directory: string): Promise<Store> => openLevelStore({ directory, node: 'test', ballastBytes: 0 });

/** Opens the engine alone, as a program without our store would. */
async function bare<T>(directory: string, use: (db: Level<string, string>) => Promise<T>): Promise<T> {
  const db = new Level<string, string>(directory);
  await db.open();
  try {
    return await use(db);
  } finally {
    await db.close();
  }
}

/** A closed store with this many events of about a kilobyte, a row for each; twice opened, so that some are in tables. */
async function filled(directory: string, events = 200): Promise<void> {
  for (const part of [0, 1]) {
    const store = await open(directory);
    for (let i = 1 + (part * events) / 2; i <= ((part + 1) * events) / 2; i += 1) {
      await append(store, {
        events: [event({ stream: `stream ${i}`, correlationId: `c ${i}`, body: noise(i) })],
        puts: [row(`${i}`, { body: noise(10_000 + i) })],
        idem: `idem ${i}`,
      });
    }
    await store.close();
  }
}

const seqsOf = async (store: Store): Promise<number[]> =>
  (await store.read({ after: 0, limit: 10_000 })).map(({ seq }) => seq);

t.test(
  'TRAP fact 2: one flipped bit in the engine log loses acknowledged writes from the middle, in silence',
  async (t) => {
    const directory = directoryFor(t);
    await bare(directory, async (db) => {
      for (let i = 100; i < 300; i += 1)
        await db
          .batch()
          .put(`${i}`, noise(i))
          .write({ sync: true } as object);
    });
    flip(directory, '.log');
    await bare(directory, async (db) => {
      const found = await db.keys().all();
      t.ok(found.includes('100') && found.includes('299'), 'both ends are there');
      t.ok(found.length < 200, `${200 - found.length} of 200 are gone, and nothing said so`);
    });
  },
);

t.test('ANSWER fact 2: the store is quarantined and names exactly what is lost; reads go on', async (t) => {
  const directory = directoryFor(t);
  await filled(directory);
  flip(join(directory, 'db'), '.log');
  const store = await open(directory);
  t.teardown(() => store.close());
  const { state, reason } = store.health();
  t.equal(state, 'quarantined');
  const found = await seqsOf(store);
  const [, from, to] = /lost events (\d+) to (\d+)/.exec(reason ?? '') ?? [];
  const named = Array.from({ length: Number(to) - Number(from) + 1 }, (_, i) => Number(from) + i);
  t.strictSame(
    [...found, ...named].sort((a, b) => a - b),
    Array.from({ length: 200 }, (_, i) => i + 1),
    reason ?? '',
  );
  t.match(reason, /dropped \d+ bytes of its log/, 'the engine tells its diary alone');
  await t.rejects(append(store), StoreUnavailable);
  t.equal((await store.get(row('7')))?.body, noise(10_007));
  t.equal((await store.event(1))?.body, noise(1));
  t.ok((await store.list({ kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 10 })).rows.length === 10);
  await store.close();
  const again = await open(directory);
  t.teardown(() => again.close());
  t.match(again.health().reason, `lost events ${from} to ${to}`, 'and it stays so');
});

t.test('TRAP fact 2: one flipped bit in a table returns a wrong value', async (t) => {
  const directory = directoryFor(t);
  await bare(directory, (db) => db.put('key', noise(1)));
  await bare(directory, () => Promise.resolve());
  flip(directory, '.ldb', noise(1).slice(0, 60));
  await bare(directory, async (db) => {
    const value = await db.get('key');
    t.equal(value?.length, noise(1).length);
    t.not(value, noise(1));
  });
});

t.test(
  'ANSWER fact 2: a row with a flipped bit is never returned, is named, and is repaired by a rewrite',
  async (t) => {
    const directory = directoryFor(t);
    await filled(directory);
    flip(join(directory, 'db'), '.ldb', noise(10_020).slice(0, 60));
    const store = await open(directory);
    t.teardown(() => store.close());
    t.match(store.health(), { state: 'open', damagedRows: [{ kind: 'sessions', owner: 'NL-TNM', id: '20' }] });
    await t.rejects(store.get(row('20')), Damaged);
    const total = async (): Promise<number> =>
      (await store.list({ kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 1 })).total;
    t.equal(await total(), 199);
    t.equal((await collect(store.scan('sessions'))).length, 199);
    const [told] = await store.history('stream 20');
    await append(store, { puts: [row('20', { body: told?.body ?? null })] });
    t.strictSame(store.health().damagedRows, []);
    t.equal((await store.get(row('20')))?.body, noise(20));
    t.equal(await total(), 200);
  },
);

t.test('ANSWER fact 2: an event with a flipped bit quarantines the store, with its sequence', async (t) => {
  const directory = directoryFor(t);
  await filled(directory);
  flip(join(directory, 'db'), '.ldb', noise(33).slice(0, 60));
  const store = await open(directory);
  t.teardown(() => store.close());
  t.match(store.health(), { state: 'quarantined', reason: /the log has lost event 33$/ });
  await t.rejects(store.event(33), Damaged);
  t.equal((await seqsOf(store)).length, 199);
});

t.test('ANSWER fact 2: damage after opening is detected by the read that meets it', async (t) => {
  const directory = directoryFor(t);
  await filled(directory);
  const store = await open(directory);
  t.teardown(() => store.close());
  flip(join(directory, 'db'), '.ldb', noise(10_044).slice(0, 60));
  flip(join(directory, 'db'), '.ldb', noise(44).slice(0, 60));
  // The page of the file is read anew only where the engine has not cached its block.
  await store.get(row('44')).then(
    (read) => t.equal(read?.body, noise(10_044), 'served from memory, unharmed'),
    (error: unknown) => t.ok(error instanceof Damaged),
  );
  await store.event(44).then(
    (read) => t.equal(read?.body, noise(44), 'served from memory, unharmed'),
    (error: unknown) => t.ok(error instanceof Damaged),
  );
});

t.test('ANSWER fact 7: a log without its end is found too short by the mark beside it', async (t) => {
  const directory = directoryFor(t);
  await filled(directory);
  const [log] = files(join(directory, 'db'), '.log');
  truncateSync(log ?? '', 60_000);
  const store = await open(directory);
  t.teardown(() => store.close());
  const head = store.head();
  t.ok(head >= 100 && head < 200);
  t.match(store.health(), { state: 'quarantined', reason: `lost events ${head + 1} to 200` });
});

t.test(
  'TRAP fact 5: without CURRENT the engine makes a new database among the old files, with some of the keys',
  async (t) => {
    const directory = directoryFor(t);
    await bare(directory, (db) => db.put('in a table', '1'));
    await bare(directory, (db) => db.put('in the log', '2'));
    rmSync(join(directory, 'CURRENT'));
    await bare(directory, async (db) => t.strictSame(await db.keys().all(), ['in the log']));
  },
);

t.test('ANSWER fact 5: a directory without CURRENT is not opened, and nothing in it is touched', async (t) => {
  const directory = directoryFor(t);
  await filled(directory);
  rmSync(join(directory, 'db', 'CURRENT'));
  const before = readdirSync(join(directory, 'db'));
  await t.rejects(open(directory), { name: 'StoreUnavailable', message: /without its CURRENT file/ });
  renameSync(join(directory, 'db'), join(directory, 'away'));
  await t.rejects(open(directory), {
    name: 'StoreUnavailable',
    message: /db is missing, and a mark beside it is not: /,
  });
  renameSync(join(directory, 'away'), join(directory, 'db'));
  for (const file of MARK_FILES) rmSync(join(directory, file));
  await t.rejects(open(directory), { message: /without its CURRENT file/ }, 'data files alone are enough to refuse');
  t.strictSame(readdirSync(join(directory, 'db')), before);
  rmSync(join(directory, 'db'), { recursive: true });
  t.equal((await open(directory).then((store) => store.close())) === undefined, true, 'an empty directory is new');
});

t.test('TRAP fact 7: a cut MANIFEST opens as an empty database, and opening deletes the tables', async (t) => {
  const directory = t.testdir({ fresh: {}, used: {} });
  const [fresh, used] = [join(directory, 'fresh'), join(directory, 'used')];
  await bare(fresh, () => Promise.resolve());
  const [small] = files(fresh, 'MANIFEST').map((file) => readFileSync(file).length);
  const db = new Level<string, string>(used, { writeBufferSize: 1 << 16 });
  await db.open();
  for (let i = 0; i < 300; i += 1) await db.put(`${i}`, noise(i));
  await db.close();
  const tables = files(used, '.ldb').length;
  const [manifest] = files(used, 'MANIFEST');
  truncateSync(manifest ?? '', small ?? 0);
  await bare(used, async (db) => t.ok((await db.keys().all()).length < 150));
  t.ok(files(used, '.ldb').length < tables);
});

t.test('ANSWER fact 7: a MANIFEST shorter than it was is not opened, and nothing is deleted', async (t) => {
  const directory = directoryFor(t);
  await filled(directory);
  const db = join(directory, 'db');
  const [manifest] = files(db, 'MANIFEST');
  const before = readdirSync(db);
  truncateSync(manifest ?? '', readFileSync(manifest ?? '').length - 10);
  await t.rejects(open(directory), { name: 'StoreUnavailable', message: /MANIFEST-\d+ of \d+ bytes that had \d+/ });
  t.strictSame(readdirSync(db), before);
});

t.test('ANSWER fact 7: an empty database in place of a full one is quarantined', async (t) => {
  const directory = directoryFor(t);
  await filled(directory);
  rmSync(join(directory, 'db'), { recursive: true });
  await bare(join(directory, 'db'), () => Promise.resolve());
  const store = await open(directory);
  t.teardown(() => store.close());
  t.match(store.health(), { state: 'quarantined', reason: /lost events 1 to 200: mark/ });
});

/** Each: what is changed behind the back of the store, and what it makes of it when it opens. */
const TAMPERED: readonly {
  readonly title: string;
  readonly tamper: (db: Level<string, string>) => Promise<void>;
  readonly state: 'open' | 'quarantined';
  readonly check: (t: Tap, store: Store) => Promise<void> | void;
}[] = [
  {
    title: 'missing events are named as ranges',
    tamper: (db) => db.batch().del(keys.eventKey(50)).del(keys.eventKey(51)).del(keys.eventKey(70)).write(),
    state: 'quarantined',
    check: (t, store) => void t.match(store.health().reason, 'the log has lost events 50 to 51, event 70'),
  },
  {
    title: 'a value that moved under another key is seen',
    tamper: async (db) => db.put(keys.eventKey(9), (await db.get(keys.eventKey(8))) ?? ''),
    state: 'quarantined',
    check: (t, store) => void t.match(store.health().reason, '"e/0000000000000009" is damaged, and its key with it'),
  },
  {
    title: 'a row that a recent commit wrote and that is missing is listed',
    tamper: (db) => db.del(keys.rowKey(row('200'))),
    state: 'open',
    check: (t, store) => void t.match(store.health().damagedRows, [{ id: '200' }]),
  },
  {
    title: 'a row that names an event behind the end tells of a lost end',
    tamper: (db) => {
      const key = keys.rowKey(row('x'));
      return db.put(key, encode(key, JSON.stringify([205, null, ''])));
    },
    state: 'quarantined',
    check: (t, store) => void t.match(store.health().reason, /lost events 201 to 205: the row/),
  },
  {
    title: 'damaged and missing index entries are made anew from the log',
    tamper: (db) =>
      db
        .batch()
        .put(keys.streamKey('stream 5', 5), 'rubbish')
        .del(keys.streamKey('stream 6', 6))
        .put(keys.correlationKey('c 7', 7), '')
        .write(),
    state: 'open',
    check: async (t, store) => {
      for (const i of [5, 6, 7]) {
        t.equal((await store.history(`stream ${i}`))[0]?.seq, i);
        t.equal((await store.correlated(`c ${i}`))[0]?.seq, i);
      }
    },
  },
  {
    title: 'a damaged remembered success is dropped: the floor answers for it',
    tamper: (db) => {
      const key = keys.deliveredKey('NL-EMS', 3);
      return db.put(key, `${encode(key, '["DELIVERED"]', '{}')}x`);
    },
    state: 'open',
    check: async (t, store) => void t.equal(await store.delivery('NL-EMS', 3), null),
  },
  {
    title: 'a damaged open delivery is not forgotten: it quarantines',
    tamper: (db) => {
      const key = keys.openKey('NL-EMS', 3);
      return db.put(key, `${encode(key, '["DEAD"]', '{}')}x`);
    },
    state: 'quarantined',
    check: (t, store) => void t.match(store.health().reason, 'is damaged'),
  },
];
type Tap = typeof t;

t.test('the findings of a verification', async (t) => {
  const original = directoryFor(t);
  await filled(original);
  for (const { title, tamper, state, check } of TAMPERED) {
    await t.test(title, async (t) => {
      const directory = directoryFor(t);
      cpSync(original, directory, { recursive: true });
      await bare(join(directory, 'db'), tamper);
      const store = await open(directory);
      t.teardown(() => store.close());
      t.equal(store.health().state, state, store.health().reason ?? '');
      await check(t as Tap, store);
      if (state === 'quarantined') await t.rejects(append(store), StoreUnavailable);
      else t.equal((await append(store)).first, 201);
    });
  }
});

t.test('a block that cannot be read at all quarantines the store; everything else can be read', async (t) => {
  const directory = directoryFor(t);
  await filled(directory);
  const [table] = files(join(directory, 'db'), '.ldb');
  const bytes = readFileSync(table ?? '');
  bytes.fill(0xff, 4096, 12_288);
  writeFileSync(table ?? '', bytes);
  t.ok(existsSync(table ?? ''));
  const store = await open(directory);
  t.teardown(() => store.close());
  t.match(store.health(), { state: 'quarantined', reason: /cannot be read/ });
  t.match(store.health().reason, /the log has lost events? \d+/);
  t.ok((await seqsOf(store)).length > 100);
  await t.rejects(append(store), StoreUnavailable);
});

t.test('damage that verification finds and a look-up does not is reported as damage', async (t) => {
  const directory = directoryFor(t);
  await filled(directory, 20);
  const before = await open(directory);
  const unlisted = row('unlisted', { kind: 'partners', shelf: null });
  await append(before, { puts: [unlisted] });
  await before.close();
  const store = await open(directory);
  t.teardown(() => store.close());
  // The place of three records in an index of the engine is lost while the store is open.
  const { db } = (store as unknown as { lifecycle: Lifecycle }).lifecycle.mounted();
  const [lost] = (await collect(store.scan('sessions'))).filter(({ id }) => id === '7');
  if (!lost) throw new Error('verification has not read it');
  await db.del(keys.rowKey(lost));
  await db.del(keys.rowKey(unlisted));
  await db.del(keys.eventKey(8));
  await t.rejects(store.get(lost), Damaged);
  await t.rejects(store.get(unlisted), Damaged);
  await t.rejects(store.event(8), Damaged);
  const { state, reason, damagedRows } = store.health();
  t.equal(state, 'open');
  t.match(reason, /3 records cannot be looked up/);
  t.match(damagedRows, [{ id: lost.id }, { id: unlisted.id }], 'the rows are to be made again');
  t.equal(await store.get({ ...lost, id: 'never' }), null, 'what never was is not damaged');
  t.equal(await store.get({ ...unlisted, id: 'never' }), null);
});

t.test('a damaged filter that hides the newest version of a row from a look-up is bypassed', async (t) => {
  const directory = directoryFor(t);
  const later = '2024-05-02T10:00:00.000Z';
  const fence = { dest: 'A' };
  for (const upd of [AT, later]) {
    const store = await open(directory);
    const { last } = await append(store, { events: [event({ to: ['A'] })], puts: [row('101', { upd, data: upd })] });
    const held = store.held();
    if (held === null) throw new Error('no fence');
    const state = upd === AT ? 'PENDING' : 'DEAD';
    await store.settle(held, [{ ...fence, seq: 1, state, data: last }], []);
    await store.close();
  }
  // Each opening makes a table of what the log holds; of four the engine would make one.
  await (await open(directory)).close();
  const newest = files(join(directory, 'db'), '.ldb').sort().at(-1) ?? '';
  clearFilter(newest);
  const copy = join(directory, 'copy');
  cpSync(join(directory, 'db'), copy, { recursive: true });
  await bare(copy, async (db) => {
    t.match(await db.get(keys.rowKey(row('101'))), AT, 'TRAP: the engine gives the older one');
  });
  const store = await open(directory);
  t.teardown(() => store.close());
  t.match(await store.get(row('101')), { upd: later, data: later });
  t.match(store.health(), { state: 'open', reason: /1 records cannot be looked up/ });
  const { rows } = await store.list({ kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 10 });
  t.match(rows, [{ upd: later, data: later }]);
  t.match(await store.deliveries({ ...fence, rows: 'open', limit: 10 }), [{ seq: 1, state: 'DEAD' }]);
  t.match(await store.delivery('A', 1), { state: 'DEAD' });
  for (const seq of [1, null]) {
    await t.rejects(
      append(store, { seen: [seen('101', seq)] }),
      { name: 'Conflict' },
      'the newest one counts [CONTRACT-11]',
    );
  }
  t.match(await append(store, { puts: [row('101')], seen: [seen('101', 2)] }), { last: 3 });
});
