/**
 * A process that a test may kill, starve or watch. Run with a role and a directory; says what was acknowledged, a line each,
 * with a write that is complete before the next step.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, statSync, writeSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Level } from 'level';
import type { Store } from '../../storage/contract.ts';
import { EVERYTHING } from '../../storage/keys.ts';
import { examineCopy } from '../../storage/level/backup.ts';
import { compact } from '../../storage/level/leveldb.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { append, event, row, trimAll, until } from './support.ts';

const [role = '', directory = '', count = '0'] = process.argv.slice(2);
const say = (line: string): void => void writeSync(1, `${line}\n`);
const open = (ballastBytes = 0): Promise<Store> => openLevelStore({ directory, node: 'child', ballastBytes });

/** Ends the process at the n-th time that a point of this kind is passed, which `count` says: `after:3`. */
function killAt(kind?: string): (name: string) => void {
  const [point, times = '1'] = count.split(':');
  let left = Number(times);
  return (name) => {
    if (name !== (kind === undefined ? point : `${kind}.${point}`)) return;
    left -= 1;
    if (left === 0) process.kill(process.pid, 'SIGKILL');
  };
}

const ROLES: Record<string, () => Promise<void>> = {
  /** Appends under load until it is killed. */
  async load() {
    const store = await open();
    let next = store.head();
    const caller = async (): Promise<void> => {
      for (;;) {
        next += 1;
        const id = `${next}`;
        const { last } = await append(store, {
          idem: id,
          events: [event({ stream: id, body: id.padEnd(700, 'x') })],
          puts: [row(`${next % 50}`, { data: id })],
        });
        say(`${last} ${id}`);
      }
    };
    await Promise.all(Array.from({ length: 16 }, caller));
  },

  /** Opens and closes it, and says its health. */
  async health() {
    const store = await open();
    say(JSON.stringify(store.health()));
    await store.close();
  },

  /** Stores 32 MiB of bodies, and reads their events without them. */
  async bodiless() {
    const store = await open();
    const events = 32;
    const large = event({ stream: 's', correlationId: 'c', body: 'x'.repeat(1 << 20) });
    for (let i = 0; i < events; i += 1) await append(store, { events: [large] });
    for (const read of [
      () => store.ranges([{ after: 0, upTo: events }]),
      () => store.recent('s', events),
      () => store.correlated('c'),
    ])
      say(`${(await read()).length}`);
    await store.close();
  },

  /** Verifies it as a copy, and says how many rows it has. */
  async examined() {
    say(`${(await examineCopy(directory, {})).rows}`);
  },

  /** Compacts all of it, as the engine does by itself with a part now and then. */
  async compact() {
    const db = new Level(join(directory, 'db'));
    await db.open();
    await compact(db, EVERYTHING.gte, EVERYTHING.lt);
  },

  /** Appends and trims, keeping the last event of each stream, until a point is passed so many times. */
  async trim() {
    const store = await openLevelStore({ directory, node: 'child', ballastBytes: 0, onPoint: killAt('trim') });
    for (;;) {
      for (let i = 0; i < 30; i += 1) {
        const { last } = await append(store, {
          events: [event({ stream: `s ${i % 4}`, to: ['A'] })],
          puts: [row(`${i}`)],
        });
        say(`${last}`);
      }
      await trimAll(store, store.head() - 10);
      say(`trimmed ${store.horizon()}`);
    }
  },

  /** Opens a store by its seal, and appends, settles and trims until a point is passed so many times: `seal.after:3`. */
  async sealed() {
    const store = await openLevelStore({ directory, node: 'child', ballastBytes: 0, recent: 40, onPoint: killAt() });
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    for (;;) {
      for (let i = 0; i < 30; i += 1) {
        const { last: seq } = await append(store, {
          events: [event({ stream: `stream ${i % 4}`, correlationId: `c ${i}`, to: ['A'] })],
          puts: [row(`${i}`)],
        });
        await store.settle(fence, [{ dest: 'A', seq, state: 'DELIVERED', data: i }], [{ dest: 'A', seq }]);
      }
      await trimAll(store, Math.max(store.horizon(), store.head() - 100));
    }
  },

  /** Backs up, again and again, while it appends. */
  async backup() {
    const store = await openLevelStore({ directory, node: 'child', ballastBytes: 0, onPoint: killAt('backup') });
    await Promise.all(
      Array.from({ length: 500 }, (_, i) => append(store, { events: [event({ body: `${i}` })], puts: [row(`${i}`)] })),
    );
    say(`${store.head()}`);
    void (async () => {
      for (;;) await append(store);
    })();
    for (let n = 1; ; n += 1) await store.backup(resolve(directory, '..', '..', `backup-${n}`));
  },

  /** Settles until it is killed. */
  async settle() {
    const store = await open();
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    for (let i = 0; i < 100; i += 1) await append(store);
    for (let seq = 1; ; seq = (seq % 100) + 1) {
      await store.settle(fence, [{ dest: 'A', seq, state: 'DELIVERED', data: null }], [{ dest: 'A', seq }]);
      say(`${seq}`);
    }
  },

  /** Closes while settles wait to be written. */
  async close() {
    const store = await open();
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    await Promise.all(Array.from({ length: 20 }, () => append(store)));
    const settles = Array.from({ length: 20 }, (_, i) => {
      const settled = { dest: 'A', seq: i + 1 };
      return store.settle(fence, [{ ...settled, state: 'DELIVERED', data: null }], [settled]);
    });
    await Promise.all([...settles, store.close()]);
  },

  /** The bare engine, without sync. */
  async unsynced() {
    const db = new Level<string, string>(directory);
    await db.open();
    for (let i = 0; ; i += 1) {
      await db.put(`${i}`, 'x'.repeat(100));
      say(`${i}`);
    }
  },

  /** One commit after another. */
  async sequence() {
    const store = await open();
    say('ready');
    for (let i = 0; i < Number(count); i += 1) say(`ack ${(await append(store)).last}`);
    await store.close();
  },

  /** Holds the store until it is told to stop. */
  async hold() {
    const store = await open();
    say('ready');
    await new Promise((resolve) => process.stdin.once('data', resolve));
    await store.close();
    process.exit();
  },

  /** Reclaims with room for a part of its first write, then appends so much; says what the store did, and what it has when it is opened again. */
  async reclaimed() {
    process.on('SIGXFSZ', () => {});
    const database = join(directory, 'db');
    const store = await open();
    const seen: string[] = [];
    store.onHealth(({ state }) => seen.push(state));
    const commits = async (name: string, times: number) => {
      for (let i = 1; i <= times; i += 1)
        await append(store, { events: [event({ stream: `${name} ${i}`, body: 'x'.repeat(500) })] });
    };
    await commits('before', 100);
    const log = readdirSync(database).find((file) => file.endsWith('.log')) ?? '';
    const limitFiles = (bytes: number | 'unlimited') =>
      spawnSync('prlimit', ['--pid', `${process.pid}`, `--fsize=${bytes}:`]).status;
    if (limitFiles(statSync(join(database, log)).size + 5) !== 0) return;
    const outcome = await store.reclaim(() => false).then(() => 'done', String);
    limitFiles('unlimited');
    await until(() => store.health().state === 'open');
    await commits('after', Number(count));
    await store.close();
    const again = await open();
    say(JSON.stringify({ outcome, seen, health: again.health(), head: again.head() }));
    await again.close();
  },

  /** Appends so much, each commit until it is acknowledged, with files limited by the caller. */
  async stubborn() {
    // A write beyond the limit raises a signal before it fails; the test runner's hooks would die of it.
    process.on('SIGXFSZ', () => {});
    const store = await open(1 << 16);
    const seen = new Set<string>();
    store.onHealth(({ state }) => seen.add(state));
    let failures = 0;
    for (let i = 1; i <= Number(count); i += 1) {
      const idem = `commit ${i}`;
      const commit = { idem, events: [event({ stream: `s ${i}`, body: 'x'.repeat(30_000) })], puts: [row(`${i % 7}`)] };
      for (let done = false; !done; ) {
        done = await append(store, commit).then(
          () => true,
          () => false,
        );
        if (!done) failures += 1;
        if (!done) await until(() => store.health().state === 'open');
      }
    }
    const events = await store.read({ after: 0, limit: 1_000_000 });
    say(JSON.stringify({ failures, seen: [...seen], head: store.head(), streams: events.map(({ stream }) => stream) }));
    await store.close();
  },
};

// A shell's `ulimit` reaches the process that it starts, not this one: so this one starts itself again.
if (role === 'limited') {
  const again = [process.argv[1] ?? '', 'stubborn', directory, count];
  const line = `ulimit -f 5120; exec "$0" "$@"`;
  const { status, stdout, stderr } = spawnSync('bash', ['-c', line, process.execPath, ...again], { encoding: 'utf8' });
  process.stdout.write(stdout);
  process.stderr.write(stderr);
  process.exitCode = status ?? 1;
} else await ROLES[role]?.();
