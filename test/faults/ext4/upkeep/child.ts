/**
 * A process that does all that a store is asked for, so that a power cut can come at the worst moment of each: commits, settles that are
 * heavier than them, trims, backups, restores, and closing and opening with all side files. It says on stdout, in one write each, what
 * it was told: `c {seq} {number}` for a commit, `b {directory}` for a backup, `r {directory}` for a restored data directory, and `p {name}`
 * when it comes by a point. Run with a directory, how many rounds, and how many characters a body has on average.
 */
import { mkdirSync, readdirSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Store, StoredEvent } from '../../../../storage/contract.ts';
import { restoreBackup } from '../../../../storage/level/restore.ts';
import { openLevelStore } from '../../../../storage/level/store.ts';
import { append, event, row, trim } from '../../../storage/support.ts';
import { bodyOf, receiver } from '../../written.ts';

const [directory = '', rounds = '0', characters = '0'] = process.argv.slice(2);
/** Commits of a round, and as many settles, which no sync is between. */
const roundSize = 16;
/** Heavier than a hundred commits. Of one letter: tables are packed, logs are not. */
const weight = 'x'.repeat(60_000);
const trimSize = 4;
const ballastBytes = 1 << 18;
const path = join(directory, 'data', 'store');

const say = (line: string): void => void writeSync(1, `${line}\n`);

async function opened(): Promise<Store> {
  say('p opening');
  const store = await openLevelStore({
    directory: path,
    node: 'child',
    ballastBytes,
    onPoint: (name) => say(`p ${name}`),
  });
  say('p opened');
  return store;
}

mkdirSync(path, { recursive: true });
let store = await opened();

async function commit(number: number): Promise<void> {
  const body = bodyOf(`${number}`, Number(characters));
  const events = [event({ stream: `${number}`, to: [receiver], body })];
  const { last } = await append(store, { idem: `${number}`, events, puts: [row(`${number % 50}`, { data: number })] });
  say(`c ${last} ${number}`);
}

let logs = '';
/** Whether the engine has begun another log since this was asked last. */
function hasChangedLog(): boolean {
  const present = readdirSync(join(path, 'db'))
    .filter((name) => name.endsWith('.log'))
    .join();
  const hasChanged = logs !== '' && present !== logs;
  logs = present;
  return hasChanged;
}

/** A commit follows a change of the log at once: it syncs the next log while a part of the closed one is on no disk. */
async function settle(seq: number): Promise<void> {
  const fence = store.held();
  if (fence === null) throw new Error('no fence');
  const settled = { dest: receiver, seq };
  await store.settle(fence, [{ ...settled, state: 'PENDING', data: weight }], [settled]);
  if (!hasChangedLog()) return;
  say('p log');
  await commit(store.head() + 1);
}

/** The event that this process kept last. */
let kept: StoredEvent[] = [];

/** Keeps the last event of each piece, and drops the one that was kept before it. */
async function trimTo(upTo: number): Promise<void> {
  const from = store.horizon();
  if (upTo <= from) return;
  const [last] = (await store.read({ after: from, limit: upTo - from })).slice(-1);
  if (last === undefined) throw new Error(`nothing to trim up to ${upTo}`);
  await trim(store, upTo, { keeps: [{ ...last, rows: [] }], drops: kept });
  kept = [last];
  say('p trimmed');
}

async function backUp(name: string): Promise<void> {
  say('p backing up');
  await store.backup(join(directory, name));
  say(`b ${name}`);
}

async function restore(backup: string, name: string): Promise<void> {
  say('p restoring');
  await restoreBackup(join(directory, backup), join(directory, name, 'store'), { replace: false, now: new Date() });
  say(`r ${name}`);
}

for (let round = 1; round <= Number(rounds); round += 1) {
  const head = store.head();
  await Promise.all(Array.from({ length: roundSize }, (_, n) => commit(head + n + 1)));
  for (let seq = head + 1; seq <= store.head(); seq += 1) {
    await settle(seq);
    if (round % 2 === 0 && seq % trimSize === 0) await trimTo(seq - trimSize);
  }
  if (round % 16 === 6) await backUp(`backup-${round}`);
  if (round % 16 === 9) await restore(`backup-${round - 3}`, `restored-${round}`);
  if (round % 24 === 20) {
    say('p closing');
    await store.close();
    say('p closed');
    store = await opened();
    logs = '';
  }
}
process.kill(process.pid, 'SIGKILL');
