/**
 * A process whose settles are heavier than its commits, so that the engine changes its log in the midst of settles, and says on
 * stdout what it was told: `c {seq} {number}` for a commit. Run with a directory, how many rounds, how many characters a body has
 * on average, and whether it trims behind its settles.
 */
import { writeSync } from 'node:fs';
import type { StoredEvent } from '../../../storage/contract.ts';
import { openLevelStore } from '../../../storage/level/store.ts';
import { append, event, row, trim } from '../../storage/support.ts';
import { bodyOf, receiver } from '../written.ts';

const [directory = '', rounds = '0', characters = '0', trims = 'false'] = process.argv.slice(2);
/** Commits of a round, and as many settles, which no sync is between. */
const roundSize = 16;
/** Heavier than a hundred commits. Of one letter: tables are packed, logs are not. */
const weight = 'x'.repeat(30_000);
const trimSize = 4;

const store = await openLevelStore({ directory, node: 'child', ballastBytes: 0, recent: 64 });
const fence = store.held();
if (fence === null) throw new Error('no fence');

async function commit(number: number): Promise<void> {
  const body = bodyOf(`${number}`, Number(characters));
  const events = [event({ stream: `${number}`, to: [receiver], body })];
  const { last } = await append(store, { idem: `${number}`, events, puts: [row(`${number % 50}`, { data: number })] });
  writeSync(1, `c ${last} ${number}\n`);
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
}

for (let i = 0; i < Number(rounds); i += 1) {
  const head = store.head();
  await Promise.all(Array.from({ length: roundSize }, (_, n) => commit(head + n + 1)));
  for (let seq = head + 1; seq <= store.head(); seq += 1) {
    const settled = { dest: receiver, seq };
    await store.settle(fence, [{ ...settled, state: 'PENDING', data: weight }], [settled]);
    if (trims === 'true' && seq % trimSize === 0) await trimTo(seq - trimSize);
  }
}
process.kill(process.pid, 'SIGKILL');
