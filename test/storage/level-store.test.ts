/** The embedded store passes the exam of every store, and keeps its own promises about order and load. */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Level } from 'level';
import { type Store, StoreUnavailable } from '../../storage/contract.ts';
import * as keys from '../../storage/keys.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { encode } from '../../storage/records.ts';
import { directoryFor } from '../support/directory.ts';
import { atLength } from '../support/share.ts';
import { blocksOf } from '../support/table-blocks.ts';
import { t } from '../support/tap.ts';
import { storeSuite } from './contract-suite.ts';
import { rewriteSuite } from './rewrite-suite.ts';
import { AT, append, collect, event, row, until } from './support.ts';
import { backupSuite, trimSuite } from './trim-suite.ts';

const CHILD = join(import.meta.dirname, 'child.js');
const open = (place: string): Promise<Store> =>
  openLevelStore({ directory: `${place}/store`, node: 'test', ballastBytes: 1 << 16 });

storeSuite(t, open);
trimSuite(t, open);
rewriteSuite(t, open);
backupSuite(t, open);

t.test('TRAP fact 3: concurrent synced batches of the bare engine land in any order', async (t) => {
  const db = new Level<string, string>(directoryFor(t));
  await db.open();
  t.teardown(() => db.close());
  const synced: object = { sync: true };
  let inverted = 0;
  let pairs = 0;
  // How often depends on the machine's threads: so many rounds, as one needs to see it once.
  for (; inverted === 0 && pairs < 20_000; pairs += 50) {
    const writes: Promise<void>[] = [];
    for (let i = 0; i < 50; i += 1) {
      for (const value of ['first', 'second']) writes.push(db.batch().put(`${i}`, value).write(synced));
    }
    await Promise.all(writes);
    inverted = (await db.values().all()).filter((value) => value === 'first').length;
  }
  if (inverted === 0) return void t.comment(`not seen in ${pairs} pairs on this machine`);
  t.ok(inverted > 0, `${inverted} of the last 50 pairs ended with the value that was written first`);
});

t.test(
  '[LEVEL-READS-5] a scan that a failed write interrupts is refused, also once the store is open again',
  async (t) => {
    let isBroken = false;
    const onPoint = (name: string) => {
      if (isBroken && name === 'commit.before') throw new Error('the disk is full');
    };
    const directory = `${directoryFor(t)}/store`;
    const store = await openLevelStore({ directory, node: 'test', ballastBytes: 0, onPoint });
    t.teardown(() => store.close());
    const ids = Array.from({ length: 2_000 }, (_, n) => `${10_000 + n}`);
    await append(store, { puts: ids.map((id) => row(id)) });
    const scans = [store.scan('sessions'), store.scan('sessions')].map((scan) => scan[Symbol.asyncIterator]());
    for (const scan of scans) t.match(await scan.next(), { value: { id: '10000' } });
    const rest = async (scan?: AsyncIterator<unknown>) => {
      while (scan && !(await scan.next()).done);
    };
    isBroken = true;
    await t.rejects(append(store), StoreUnavailable);
    await t.rejects(rest(scans[0]), StoreUnavailable);
    isBroken = false;
    await until(() => store.health().state === 'open');
    await t.rejects(rest(scans[1]), StoreUnavailable);
    t.equal((await collect(store.scan('sessions'))).length, ids.length);
  },
);

t.test('a page reads no more large rows than it may give', async (t) => {
  const store = await open(directoryFor(t));
  t.teardown(() => store.close());
  const body = 'x'.repeat(100_000);
  const asked: number[] = [];
  const { getMany } = Level.prototype as unknown as { getMany: (keys: unknown[], ...rest: unknown[]) => unknown };
  t.intercept(Level.prototype, 'getMany', {
    value(this: unknown, ...given: Parameters<typeof getMany>) {
      asked.push(given[0].length);
      return getMany.apply(this, given);
    },
  });
  for (let n = 0; n < 12; n += 1)
    await append(store, { puts: [row(`${n}`.padStart(2, '0'), { body: n < 3 ? 'small' : body })] });
  const query = { kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 12 };
  for (const [size, rows, reads] of [
    [250_000, 6, [6]],
    [100_001, 4, [5]],
    [1, 1, [4]],
  ] as const) {
    asked.length = 0;
    const page = await store.list({ ...query, size });
    t.equal(page.rows.length, rows, `${size} characters`);
    t.strictSame(asked, reads);
  }
});

t.test('ANSWER fact 3: appends without await are stored in order of their calls', async (t) => {
  const store = await open(directoryFor(t));
  t.teardown(() => store.close());
  const writes: Promise<unknown>[] = [];
  for (let i = 0; i < 1000; i += 1) {
    for (const data of ['first', 'second']) {
      writes.push(append(store, { events: [event({ stream: `${i}`, data })], puts: [row(`${i}`, { data })] }));
    }
  }
  await Promise.all(writes);
  for (let i = 0; i < 1000; i += 1) {
    const read = await store.get(row(`${i}`));
    if (read?.data !== 'second' || read.seq !== 2 * i + 2) t.fail(`row ${i} is ${JSON.stringify(read)}`);
  }
  const streams = (await store.read({ after: 0, limit: 5000 })).map(({ stream, data }) => `${stream} ${data}`);
  t.strictSame(
    streams,
    Array.from({ length: 2000 }, (_, i) => `${i >> 1} ${i % 2 === 0 ? 'first' : 'second'}`),
  );
});

t.test('[EVENT-LOG-5] each large record of a commit is staged in a turn of the event loop of its own', async (t) => {
  let turns = 0;
  const count = () => {
    turns += 1;
    counting = setImmediate(count);
  };
  let counting = setImmediate(count);
  t.teardown(() => clearImmediate(counting));
  let staged = 0;
  const onPoint = (name: string) => {
    if (name === 'commit.before') staged = turns;
  };
  const store = await openLevelStore({ directory: `${directoryFor(t)}/store`, node: 'test', ballastBytes: 0, onPoint });
  t.teardown(() => store.close());
  const turnsOf = async (body: string): Promise<number> => {
    const begun = turns;
    const [puts, events] = [
      ['A', 'B'].map((id) => ({ ...row(id), body })),
      [event(), event()].map((one) => ({ ...one, body })),
    ];
    const { first } = await append(store, { puts, events });
    t.equal((await store.event(first))?.body, body);
    t.equal((await store.get({ kind: 'sessions', owner: 'NL-TNM', id: 'B' }))?.body, body);
    return staged - begun;
  };
  const ofSmall = await turnsOf('x');
  t.equal(await turnsOf('x'.repeat(100_000)), ofSmall + 4);
});

t.test('the queue is bounded: beyond it commits are refused at once, and the others are done', async (t) => {
  const store = await open(directoryFor(t));
  t.teardown(() => store.close());
  const outcomes = await Promise.allSettled(Array.from({ length: 20_000 }, () => append(store)));
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
  t.ok(refused.length > 0);
  t.ok(refused.every(({ reason }) => reason instanceof StoreUnavailable));
  t.match(refused[0]?.reason.message, 'too much waits to be written');
  t.equal(store.head(), outcomes.length - refused.length);
  t.equal(store.health().state, 'open');
  t.equal((await append(store)).last, store.head());
});

t.test('[CONTRACT-3] idempotency keys of 65,536 commits are remembered across a restart', atLength, async (t) => {
  const place = directoryFor(t);
  const store = await open(place);
  const count = 66_000;
  for (let from = 0; from < count; from += 6000) {
    await Promise.all(Array.from({ length: 6000 }, (_, i) => append(store, { idem: `${from + i}` })));
  }
  await store.close();
  const again = await open(place);
  t.teardown(() => again.close());
  for (const back of [1, 1000, 65_536]) {
    const seq = count - back + 1;
    t.strictSame(await append(again, { idem: `${seq - 1}` }), { first: seq, last: seq, replayed: true });
  }
  t.equal(again.head(), count);
});

t.test(
  'TRAP: getSync of a text key can cut off a last character of several bytes, and answer for another key',
  async (t) => {
    const db = new Level<string, string>(directoryFor(t));
    await db.open();
    t.teardown(() => db.close());
    // The engine keeps a buffer of 64 bytes more than the first key, and believes a longer one only by its exact fullness.
    const short = 'a'.repeat(63);
    await db.batch().put(short, 'of another').put(`${short}€`, 'its own').write();
    db.getSync('a');
    t.equal(db.getSync(`${short}€`), 'of another');
  },
);

t.test('ANSWER: get and event find keys that end in characters of several bytes, of any length', async (t) => {
  const store = await open(directoryFor(t));
  t.teardown(() => store.close());
  const ids = Array.from({ length: 150 }, (_, i) => 'a'.repeat(i)).flatMap((id) => [id, `${id}€`]);
  await append(store, { puts: ids.map((id) => row(id, { data: id })) });
  for (const id of ['', ...ids.reverse()]) if ((await store.get(row(id)))?.data !== id) t.fail(`${id} is not found`);
  t.pass('each is found');
});

t.test(
  '[LEVEL-REWRITE-4] a store that closes ends a reclaim after one range, and the next reclaim does the rest',
  async (t) => {
    const place = directoryFor(t);
    const database = join(place, 'store', 'db');
    const isWritten = (name: string): boolean => {
      const paths = readdirSync(database).map((file) => join(database, file));
      const tables = paths.filter((path) => path.endsWith('.ldb')).flatMap(blocksOf);
      const logs = paths.filter((path) => path.endsWith('.log')).map((path) => readFileSync(path));
      return Buffer.concat([...tables, ...logs]).includes(name);
    };
    const ranges: string[][] = [];
    let closing: Promise<void> | null = null;
    const { compactRange } = Level.prototype as unknown as { compactRange: (...range: string[]) => Promise<void> };
    t.intercept(Level.prototype, 'compactRange' as keyof Level, {
      value(this: unknown, ...range: string[]) {
        ranges.push(range);
        closing ??= store.close();
        return compactRange.apply(this, range);
      },
    });
    let store = await open(place);
    t.teardown(() => store.close());
    const ends = [row('1', { body: 'secret' }), row('9', { body: 'secret' })];
    await append(store, { puts: ends });
    for (let i = 2; i < 9; i += 1)
      await append(store, { puts: Array.from({ length: 7500 }, (_, n) => row(`${i} ${n}`, { shelf: null })) });
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    const text = (stored: string) => stored.replace('secret', 'digest');
    await store.rewrite({ fence, events: [], heads: [], rows: ends, key: (key) => key, text });
    t.ok(isWritten('secret'), 'the former versions are still in the files');
    await t.rejects(
      store.reclaim(() => false),
      StoreUnavailable,
    );
    await closing;
    t.equal(ranges.length, 1);
    store = await open(place);
    t.strictSame(await store.reclaim((stored) => stored.includes('secret')), []);
    const [, first, , second] = ranges.slice(1);
    t.strictSame(ranges.slice(1), [first, first, second, second]);
    t.strictSame(
      [first?.[0], second],
      [keys.EVERYTHING.gte, [first?.[1], keys.EVERYTHING.lt]],
      'no gap is between them',
    );
    t.notOk(isWritten('secret'));
  },
);

t.test('a backup is verified without an index of its rows in memory', async (t) => {
  const directory = join(directoryFor(t), 'store');
  const store = await openLevelStore({ directory, node: 'test', ballastBytes: 0 });
  await append(store);
  await store.close();
  const db = new Level<string, string>(join(directory, 'db'));
  await db.open();
  const rows = 60_000;
  for (let from = 0; from < rows; from += 1000) {
    const batch = db.batch();
    for (let i = from; i < from + 1000; i += 1) {
      const key = keys.rowKey(row(`${i}`));
      batch.put(key, encode(key, JSON.stringify([1, 'NL-TNM', AT])));
    }
    await batch.write();
  }
  await db.close();
  const args = ['--max-old-space-size=12', CHILD, 'examined', directory];
  t.equal((await promisify(execFile)(process.execPath, args)).stdout, `${rows}\n`);
});

t.test('a read without bodies needs no memory for all of them', atLength, async (t) => {
  const args = ['--max-old-space-size=24', CHILD, 'bodiless', directoryFor(t)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  t.equal(stdout, '32\n32\n32\n');
});
