/**
 * Marks in every damaged form: a sound store starts on them, says so and writes them again; a store that lost its end or its beginning
 * never passes for a sound one because of them. Each store stands in real files.
 */
import { spawnSync } from 'node:child_process';
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Level } from 'level';
import type { Store } from '../../storage/contract.ts';
import { eventKey, FENCE_KEY, rowKey } from '../../storage/keys.ts';
import { MARK_FILES, readMarks } from '../../storage/level/marks.ts';
import { verifyStore } from '../../storage/level/restore.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { encode, headOf } from '../../storage/records.ts';
import { copyOfRunning, directoryFor } from '../support/directory.ts';
import { atLength, isAtLength, someOf } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { files, noise } from './spoil.ts';
import { append, event, row } from './support.ts';

const open = (directory: string): Promise<Store> => openLevelStore({ directory, node: 'test', ballastBytes: 0 });

/** Appends so many events of about a kilobyte, opening the store twice, so that some are in tables, and closes it. */
async function fill(directory: string, events: number): Promise<void> {
  for (let part = 0; part < 2; part += 1) {
    const store = await open(directory);
    for (let i = 0; i < events / 2; i += 1) {
      const seq = store.head() + 1;
      await append(store, { events: [event({ body: noise(seq) })], puts: [row(`${seq}`)] });
    }
    await store.close();
  }
}

const root = directoryFor(t);
const [base, original, later, other] = ['base', 'original', 'later', 'other'].map((name) => join(root, name)) as [
  string,
  string,
  string,
  string,
];
const HEAD = 60;

t.before(async () => {
  await fill(base, 40);
  cpSync(base, original, { recursive: true });
  await fill(original, 20);
  cpSync(original, later, { recursive: true });
  await fill(later, 20);
  await fill(other, 100);
});

type File = (typeof MARK_FILES)[number];

/** What became of a mark, and what the store says of it. */
const FORMS: readonly (readonly [form: string, spoil: (path: string, file: File) => void, why: RegExp])[] = [
  ['deleted', (path) => rmSync(path), /is missing/],
  ['empty', (path) => truncateSync(path, 0), /is damaged/],
  ['cut', (path) => truncateSync(path, 50), /is damaged/],
  ['zeros', (path) => writeFileSync(path, Buffer.alloc(512)), /is damaged/],
  ['other bytes', (path) => writeFileSync(path, 'not a mark'), /is damaged/],
  [
    'the other file',
    (path) => cpSync(path.replace(/mark.*/, path.endsWith('copy') ? 'mark' : 'mark.copy'), path),
    /is damaged/,
  ],
  ['an older copy', (path, file) => cpSync(join(base, file), path), /is an older copy/],
  ['ahead of the log', (path, file) => cpSync(join(later, file), path), /is ahead of the log: it has 80, .* 60/],
  ['of another store', (path, file) => cpSync(join(other, file), path), /belongs to another store/],
  ['a directory', (path) => madeDirectory(path), /cannot be read \(EISDIR\)/],
];

function spoiled(t: Tap, source: string, marks: readonly File[], spoil: (path: string, file: File) => void): string {
  const directory = join(directoryFor(t), 'store');
  cpSync(source, directory, { recursive: true });
  for (const file of marks) spoil(join(directory, file), file);
  return directory;
}
type Tap = typeof t;

function madeDirectory(path: string): void {
  rmSync(path);
  mkdirSync(join(path, 'inside'), { recursive: true });
}

/** Every reason once, by turns in one file and in the other; the other half, and forms with a reason that another has, are at length. */
const FIRST = FORMS.map(([form]) => form).filter(
  (form) => !['empty', 'zeros', 'other bytes', 'the other file'].includes(form),
);
const longerForm = (form: string, file: File) =>
  FIRST.includes(form) && MARK_FILES[FIRST.indexOf(form) % 2] === file ? {} : atLength;
/** As above, where a look in a process apart is what takes time: a mark that is gone, and one of which too little is known. */
const longerEnd = (form: string, file: File) => (/deleted|older/.test(form) ? longerForm(form, file) : atLength);

for (const [form, spoil, why] of FORMS) {
  for (const file of MARK_FILES) {
    const start = `${file}, ${form}: a sound store starts, says so, and has both marks again`;
    t.test(start, longerForm(form, file), async (t) => {
      const directory = spoiled(t as Tap, original, [file], spoil);
      const isThere = readdirSync(directory).includes(file);
      cpSync(directory, join(directory, '..', 'data', 'store'), { recursive: true });
      const { faults, repairs, unread } = await verifyStore(join(directory, '..', 'data'));
      t.strictSame(faults, []);
      const isUnread = why.source.startsWith('cannot be read');
      const told = new RegExp(`^${file} ${why.source}.*${isUnread ? '$' : ': it is written again'}`);
      t.match(isUnread ? unread : repairs, [told], 'a look says so');
      t.strictSame(isUnread ? repairs : unread, [], 'and nothing else');
      const store = await open(directory);
      const { state, reason } = store.health();
      t.equal(state, 'open');
      t.match(reason, new RegExp(`^${file} ${why.source}.*: written again after every record was verified$`));
      t.equal((await append(store)).first, HEAD + 1);
      await store.close();
      t.equal(
        readdirSync(directory).some((name) => name.startsWith(`${file}.unusable-`)),
        isThere,
        'what was there is kept',
      );
      const { held, wrong } = await readMarks(directory);
      t.strictSame(
        [held.map(({ head, clean }) => [head, clean]), wrong.size],
        [
          [
            [61, true],
            [61, true],
          ],
          0,
        ],
      );
      const again = await open(directory);
      t.strictSame([again.health().state, again.health().reason, again.head()], ['open', null, 61]);
      await again.close();
    });

    if (form === 'ahead of the log') continue;
    const end = `${file}, ${form}: a log that lost its end is quarantined by the other mark, with the range`;
    t.test(end, longerEnd(form, file), async (t) => {
      const directory = spoiled(t as Tap, original, [file], spoil);
      const [log] = files(join(directory, 'db'), '.log');
      truncateSync(log ?? '', 5000);
      const store = await open(directory);
      const head = store.head();
      t.ok(head > 40 && head < HEAD);
      t.match(store.health(), { state: 'quarantined', reason: `lost events ${head + 1} to ${HEAD}: mark` });
      await store.close();
      const again = await open(directory);
      t.match(again.health(), { state: 'quarantined', reason: `lost events ${head + 1} to ${HEAD}: mark` });
      await again.close();
    });

    t.test(`${file}, ${form}: a cut MANIFEST is not opened, and nothing is deleted`, async (t) => {
      const directory = spoiled(t as Tap, original, [file], spoil);
      const [manifest] = files(join(directory, 'db'), 'MANIFEST');
      truncateSync(manifest ?? '', statSync(manifest ?? '').size - 10);
      const before = [readdirSync(directory), readdirSync(join(directory, 'db'))];
      await t.rejects(open(directory), { name: 'StoreUnavailable', message: /MANIFEST-\d+ of \d+ bytes that had \d+/ });
      t.strictSame([readdirSync(directory), readdirSync(join(directory, 'db'))], before);
    });
  }
}

t.test('a log behind a mark is quarantined unless the mark was exchanged', async (t) => {
  // Both marks come from the later store; then only one, after an end that was not clean.
  const both = spoiled(t as Tap, original, MARK_FILES, (path, file) => cpSync(join(later, file), path));
  const unclean = spoiled(t as Tap, original, [], () => {});
  const running = await open(unclean);
  const copy = join(directoryFor(t), 'copy');
  copyOfRunning(unclean, copy);
  await running.close();
  cpSync(join(later, 'mark'), join(copy, 'mark'));
  for (const directory of [both, copy]) {
    const store = await open(directory);
    t.match(store.health(), { state: 'quarantined', reason: /lost events 61 to 80: mark/ });
    await t.rejects(append(store), { name: 'StoreUnavailable' });
    await store.close();
  }
});

t.test('both marks of another store: the database was exchanged, and is quarantined', async (t) => {
  const store = await open(spoiled(t as Tap, original, MARK_FILES, (path, file) => cpSync(join(other, file), path)));
  t.teardown(() => store.close());
  t.match(store.health(), { state: 'quarantined', reason: /the mark beside the database belongs to another store/ });
});

for (const [form, spoil] of FORMS.filter(([, , why]) => /missing|damaged|EISDIR/.test(why.source))) {
  if (form === 'the other file') continue;
  const start = `both marks ${form}: a sound store starts, an empty database is never taken for a new one`;
  t.test(start, form === 'deleted' ? {} : atLength, async (t) => {
    const sound = spoiled(t as Tap, original, MARK_FILES, spoil);
    const store = await open(sound);
    t.match(store.health(), { state: 'open', reason: /^mark .*; mark\.copy .*again/, head: HEAD });
    await store.close();
    t.strictSame(
      (await readMarks(sound)).held.map(({ head }) => head),
      [HEAD, HEAD],
    );

    const cut = spoiled(t as Tap, original, MARK_FILES, spoil);
    await cutToNothing(join(cut, 'db'));
    for (const time of ['first', 'second', 'third']) {
      const emptied = await open(cut);
      t.match(emptied.health(), { state: 'quarantined', reason: /the database is empty/ }, `the ${time} start`);
      await emptied.close();
    }
  });
}

/** Cuts the MANIFEST to that of a new database, and takes the log: opening deletes the tables, and shows nothing. */
async function cutToNothing(database: string): Promise<void> {
  const fresh = `${database}.fresh`;
  const db = new Level(fresh);
  await db.open();
  await db.close();
  const [own] = files(database, 'MANIFEST');
  const [empty] = files(fresh, 'MANIFEST');
  writeFileSync(own ?? '', readFileSync(empty ?? ''));
  for (const log of files(database, '.log')) rmSync(log);
  rmSync(fresh, { recursive: true });
}

t.test('a mark cut at each byte, and with a bit flipped in each byte, is never read as another mark', async (t) => {
  const directory = spoiled(t as Tap, original, [], () => {});
  const { held: sound } = await readMarks(directory);
  t.equal(sound.length, 2);
  for (const file of MARK_FILES) {
    const path = join(directory, file);
    const bytes = readFileSync(path);
    const damage = [
      ...Array.from(bytes.keys(), (at) => bytes.subarray(0, at)),
      ...Array.from(bytes.keys(), (at) => {
        const flipped = Buffer.from(bytes);
        flipped[at] = (flipped[at] ?? 0) ^ (1 << (at % 8));
        return flipped;
      }),
    ];
    const wrongly: unknown[] = [];
    for (const each of someOf(damage, 60)) {
      writeFileSync(path, each);
      const { held, wrong } = await readMarks(directory);
      const rest = sound.filter((mark) => mark.file !== file);
      const isHarmless = wrong.size === 0 && JSON.stringify(held) === JSON.stringify(sound);
      const isSeen = wrong.get(file) === 'is damaged' && JSON.stringify(held) === JSON.stringify(rest);
      if (!isHarmless && !isSeen) wrongly.push([each.length, held, [...wrong]]);
    }
    t.equal(damage.length, 1024);
    t.strictSame(wrongly, []);
    writeFileSync(path, bytes);
  }
});

t.test('a mark that this user may not read is moved aside and written again', async (t) => {
  const [nobody, child] = [65_534, join(import.meta.dirname, 'child.js')];
  if (process.getuid?.() !== 0) return void t.plan(0, 'only root can give files to another user');
  for (const file of isAtLength ? MARK_FILES : MARK_FILES.slice(0, 1)) {
    const directory = spoiled(t as Tap, original, [], () => {});
    for (const path of ['..', '.', ...readdirSync(directory, { recursive: true, encoding: 'utf8' })])
      chownSync(join(directory, path), nobody, nobody);
    chownSync(join(directory, file), 0, 0);
    spawnSync('chmod', ['600', join(directory, file)]);
    const { stdout } = spawnSync(process.execPath, [child, 'health', directory], { uid: nobody, encoding: 'utf8' });
    t.match(
      stdout,
      `"state":"open","reason":"${file} cannot be read (EACCES): written again after every record was verified"`,
    );
    t.equal((await readMarks(directory)).wrong.size, 0);
  }
});

t.test('a store of an earlier build, with one mark of two slots, silently gets its second file', async (t) => {
  const directory = spoiled(t as Tap, original, [], () => {});
  // That build knew no identity, in its mark or in the database.
  await asBefore(directory, [8, 7]);
  t.match(await readMarks(directory), { held: [{ file: 'mark', store: null, head: HEAD }], wrong: new Map() });
  const store = await open(directory);
  t.strictSame([store.health().state, store.health().reason], ['open', null]);
  await store.close();
  t.match(await readMarks(directory), {
    held: [
      { head: HEAD, store: /-/ },
      { head: HEAD, store: /-/ },
    ],
  });
});

/** What a kill during the first start on a store of an earlier build may leave of each file, in the order in which they are written. */
const KILLED: readonly (readonly [turns: readonly [number, number], ...left: readonly Left[]])[] = [
  [
    [8, 7],
    ['before', 'before', 'before'],
    ['after', 'before', 'before'],
    ['after', 'before', 'torn'],
    ['after', 'before', 'after'],
    ['after', 'torn', 'after'],
  ],
  [
    [6, 7],
    ['after', 'torn', 'before'],
    ['after', 'after', 'before'],
    ['after', 'after', 'torn'],
  ],
];
type Left = readonly [db: 'before' | 'after', mark: State, copy: State];
type State = 'before' | 'torn' | 'after';

t.test(
  'the first start on a store of an earlier build, killed at each step, leaves a store that starts and knows its end',
  async (t) => {
    for (const [turns, ...steps] of KILLED) {
      const before = spoiled(t as Tap, original, [], () => {});
      await asBefore(before, turns);
      const started = spoiled(t as Tap, before, [], () => {});
      const running = await open(started);
      const after = join(directoryFor(t), 'after');
      cpSync(started, after, { recursive: true });
      await running.close();
      for (const left of steps) {
        for (const isCut of [false, true]) {
          const directory = join(directoryFor(t), 'store');
          for (const [i, name] of (['db', ...MARK_FILES] as const).entries()) {
            const from = join(left[i] === 'before' ? before : after, name);
            if (existsSync(from)) cpSync(from, join(directory, name), { recursive: true });
            if (left[i] === 'torn') tear(join(directory, name), join(before, name));
          }
          if (isCut) await withoutEvent(join(directory, 'db'), HEAD);
          const store = await open(directory);
          const { state, reason, head } = store.health();
          const title = `${turns}: ${left}: ${reason}`;
          if (isCut)
            t.match([state, reason, head], ['quarantined', /lost events? 60.* refers to them/, HEAD - 1], title);
          else t.strictSame([state, head], ['open', HEAD], title);
          await store.close();
        }
      }
    }
  },
);

/** The first half of the slot has the new bytes, the rest the old ones. */
function tear(path: string, before: string): void {
  const bytes = existsSync(before) ? readFileSync(before) : Buffer.alloc(512);
  bytes.set(readFileSync(path).subarray(0, 40));
  writeFileSync(path, bytes);
}

/** Takes an event and its row, as the loss of the end of the log does. */
async function withoutEvent(database: string, seq: number): Promise<void> {
  const db = new Level(database);
  await db.open();
  await db
    .batch()
    .del(eventKey(seq))
    .del(rowKey(row(`${seq}`)))
    .write();
  await db.close();
}

async function asBefore(directory: string, turns: readonly [number, number]): Promise<void> {
  const db = new Level(join(directory, 'db'));
  await db.open();
  const [token] = headOf((await db.get(FENCE_KEY)) ?? '') as [number];
  await db.put(FENCE_KEY, encode(FENCE_KEY, JSON.stringify([token])));
  await db.close();
  const slots = turns.map((turn) => {
    const slot = Buffer.alloc(512);
    slot.write(encode(`mark/${turn % 2}`, JSON.stringify([1, turn, HEAD, token, null, true])));
    return slot;
  });
  writeFileSync(join(directory, 'mark'), Buffer.concat(slots));
  rmSync(join(directory, 'mark.copy'));
}
