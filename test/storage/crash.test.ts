/** Killed processes, lost power, and two processes at once. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Level } from 'level';
import type { Store } from '../../storage/contract.ts';
import { MARK_FILES } from '../../storage/level/marks.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { tell } from '../faults/cuts.ts';
import { Disk } from '../faults/disk.ts';
import { seeded } from '../faults/random.ts';
import { readTrace, traced, whyNotTraced } from '../faults/trace.ts';
import { copyOfRunning, directoryFor } from '../support/directory.ts';
import { atLength, partOf } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { append, collect, event, row } from './support.ts';

const CHILD = join(import.meta.dirname, 'child.js');
const open = (directory: string): Promise<Store> => openLevelStore({ directory, node: 'test', ballastBytes: 0 });

function start(role: string, directory: string): { child: ChildProcess; lines: AsyncIterable<string> } {
  const stdio = ['pipe', 'pipe', 'inherit'] as const;
  const child = spawn(process.execPath, [CHILD, role, directory], { stdio: [...stdio] });
  if (child.stdout === null) throw new Error('no output');
  return { child, lines: createInterface({ input: child.stdout }) };
}

/** Lets the child say this many lines, kills it, and gives all that it said. */
async function killAfter(role: string, directory: string, count: number): Promise<string[]> {
  const { child, lines } = start(role, directory);
  // Its lock is there until it has gone.
  const gone = new Promise((resolve) => child.once('close', resolve));
  const said: string[] = [];
  for await (const line of lines) {
    said.push(line);
    if (said.length === count) child.kill('SIGKILL');
  }
  await gone;
  return said;
}

t.test(
  '[CONTRACT-1] [CONTRACT-2] killed at random moments under load: nothing acknowledged is lost, the log is dense',
  atLength,
  async (t) => {
    const directory = directoryFor(t);
    const acknowledged = new Map<number, string>();
    const random = seeded(1);
    for (let left = Math.max(2, partOf(10)); left > 0; left -= 1) {
      const said = await killAfter('load', directory, 1 + random.below(600));
      // The last line may have been cut by the kill.
      for (const line of said.slice(0, -1)) {
        const [seq, id = ''] = line.split(' ');
        acknowledged.set(Number(seq), id);
      }
    }
    const store = await open(directory);
    t.teardown(() => store.close());
    t.equal(store.health().state, 'open', store.health().reason ?? '');
    const events = await store.read({ after: 0, limit: 1_000_000 });
    t.ok(events.every(({ seq }, i) => seq === i + 1));
    const lost = [...acknowledged].filter(([seq, id]) => events[seq - 1]?.stream !== id);
    t.strictSame(lost, [], `${acknowledged.size} were acknowledged, ${events.length} are there`);
    const last = new Map(events.map(({ stream, seq }) => [`${Number(stream) % 50}`, seq]));
    const rows = await collect(store.scan('sessions'));
    t.strictSame(
      new Map(rows.map(({ id, seq }) => [id, seq])),
      new Map([...last].sort(([a], [b]) => (a < b ? -1 : 1))),
    );
  },
);

t.test('[CONTRACT-6] a settle that resolved survives a killed process', async (t) => {
  const directory = directoryFor(t);
  const said = await killAfter('settle', directory, 150);
  const store = await open(directory);
  t.teardown(() => store.close());
  const done = await store.deliveries({ dest: 'A', rows: 'DELIVERED', limit: 1000 });
  t.equal(done.length, 100);
  t.equal((await store.floors()).length, 1);
  t.ok(said.length >= 150);
});

t.test(
  'TRAP fact 6: kill -9 loses nothing even without sync, and so proves nothing; a cut log does',
  atLength,
  async (t) => {
    const root = directoryFor(t);
    const [directory, copy] = [join(root, 'killed'), join(root, 'cut')];
    const said = await killAfter('unsynced', directory, 200);
    const find = async (place: string): Promise<number> => {
      const db = new Level<string, string>(place);
      await db.open();
      const found = (await db.keys().all()).length;
      await db.close();
      return found;
    };
    copyOfRunning(directory, copy);
    for (const log of readdirSync(copy).filter((file) => file.endsWith('.log'))) truncateSync(join(copy, log), 0);
    t.ok((await find(directory)) >= said.length - 1, 'killed: all are there');
    t.equal(await find(copy), 0, 'power lost: what was never synced may be gone, here all of it');
  },
);

t.test('ANSWER fact 6: a log cut after its length at an acknowledgement has everything acknowledged', async (t) => {
  const root = directoryFor(t);
  const directory = join(root, 'store');
  const store = await open(directory);
  const fence = store.held();
  if (fence === null) throw new Error('no fence');
  const log = (): string => {
    const [name] = readdirSync(join(directory, 'db')).filter((file) => file.endsWith('.log'));
    return join('db', name ?? '');
  };
  const moments: { last: number; bytes: number }[] = [];
  for (let i = 1; i <= 40; i += 1) {
    const commits = Array.from({ length: 5 }, (_, n) =>
      append(store, { events: [event({ body: 'x'.repeat(500) })], puts: [row(`${n}`)] }),
    );
    const last = Math.max(...(await Promise.all(commits)).map((done) => done.last));
    moments.push({ last, bytes: statSync(join(directory, log())).size });
    // Unsynced: lies behind the cut.
    await store.settle(fence, [{ dest: 'A', seq: last, state: 'DEAD', data: i }], [{ dest: 'A', seq: last }]);
  }
  for (const [i, { last, bytes }] of moments.entries()) {
    if (i % 8 !== 0) continue;
    const copy = join(root, `cut ${i}`);
    copyOfRunning(directory, copy);
    // A mark is written later than what it names: at this moment it could not name more than this.
    for (const file of MARK_FILES) rmSync(join(copy, file));
    truncateSync(join(copy, log()), bytes);
    const cut = await open(copy);
    t.equal(cut.health().state, 'open', cut.health().reason ?? '');
    t.equal(cut.head(), last);
    t.ok(((await cut.floors())[0]?.seq ?? 0) < last, 'what was lost is owed again, not forgotten');
    await cut.close();
  }
  await store.close();
});

t.test('[CONTRACT-1] an acknowledgement comes after a completed sync of the log', async (t) => {
  const directory = directoryFor(t);
  const trace = join(directory, 'trace');
  const watched = ['-f', '-q', '-e', 'trace=write,fdatasync,fsync', '-s', '20', '-o', trace];
  const run = [process.execPath, CHILD, 'sequence', join(directory, 'store'), '20'];
  const { error, status } = spawnSync('strace', [...watched, ...run], { encoding: 'utf8' });
  if (error !== undefined || status !== 0) return void t.plan(0, 'strace is not to be had here');
  const lines = readFileSync(trace, 'latin1').split('\n');
  const from = lines.findIndex((line) => line.includes('write(1, "ready'));
  let synced = 0;
  let acknowledged = 0;
  for (const line of lines.slice(from + 1)) {
    if (/f(data)?sync.*= 0/.test(line)) synced += 1;
    if (!line.includes('write(1, "ack ')) continue;
    acknowledged += 1;
    t.ok(synced > 0, 'synced since the acknowledgement before');
    synced = 0;
  }
  t.equal(acknowledged, 20);
});

t.test('[CONTRACT-6] a store that says that its end was clean has every settle on the disk', async (t) => {
  const reason = whyNotTraced();
  if (reason !== null) return void t.plan(0, reason);
  const root = directoryFor(t);
  const [directory, trace, empty] = [join(root, 'store'), join(root, 'trace'), join(root, 'empty')];
  for (const made of [directory, empty]) mkdirSync(made);
  const [program = '', ...args] = traced(trace, [process.execPath, CHILD, 'close', directory]);
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout.resume();
  t.strictSame(await once(child, 'close'), [0, null]);
  const disk = new Disk(directory, empty);
  for (const step of readTrace(trace)) tell(disk, step);
  const logs = [...disk.files()].filter(({ path }) => path.endsWith('.log'));
  t.equal(logs.length, 1);
  t.strictSame(
    logs.filter(({ isAtRisk }) => isAtRisk),
    [],
  );
  const store = await open(directory);
  t.teardown(() => store.close());
  t.equal((await store.deliveries({ dest: 'A', rows: 'DELIVERED', limit: 100 })).length, 20);
});

t.test('a second process is refused because the store is in use, and does no harm', async (t) => {
  const directory = directoryFor(t);
  const { child, lines } = start('hold', directory);
  for await (const line of lines) {
    t.equal(line, 'ready');
    break;
  }
  await t.rejects(open(directory), { name: 'StoreUnavailable', message: /is in use by another process/ });
  child.stdin?.write('stop\n');
  await new Promise((resolve) => child.once('exit', resolve));
  const store = await open(directory);
  await t.rejects(open(directory), { message: /is in use/ }, 'nor twice by one process');
  t.equal(store.health().state, 'open');
  await store.close();
});
