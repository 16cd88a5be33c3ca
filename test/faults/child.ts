/**
 * A process that works on a store and says on stdout, in one write each, what it was told: `c {seq} {number}` for a commit,
 * `s {seq}` for a settle. Run with a directory, how many commits, and how many characters their bodies have on average.
 */
import { writeSync } from 'node:fs';
import type { Fence } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { append, event, row } from '../storage/support.ts';
import { bodyOf, receiver } from './written.ts';

const [directory = '', count = '0', characters = '0'] = process.argv.slice(2);
const say = (line: string): void => void writeSync(1, `${line}\n`);

const store = await openLevelStore({ directory, node: 'child', ballastBytes: 0, recent: 64 });
const fence = store.held();
if (fence === null) throw new Error('no fence');
let next = store.head();
const end = next + Number(count);

async function commitOn(): Promise<void> {
  while (next < end) {
    next += 1;
    const number = `${next}`;
    const body = bodyOf(number, Number(characters));
    const { last } = await append(store, {
      idem: number,
      events: [event({ stream: number, body })],
      puts: [row(`${next % 50}`, { data: number, body })],
    });
    say(`c ${last} ${number}`);
  }
}

/** One delivery after the other: a row that says that it waits, and a floor that relies on it and on all rows before. */
async function settleOn(held: Fence): Promise<void> {
  let seq = (await store.floors())[0]?.seq ?? 0;
  while (next < end) {
    if (seq < store.head()) {
      seq += 1;
      const settled = { dest: receiver, seq };
      await store.settle(held, [{ ...settled, state: 'PENDING', data: seq }], [settled]);
      say(`s ${seq}`);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

await Promise.all([...Array.from({ length: 6 }, commitOn), settleOn(fence)]);
process.kill(process.pid, 'SIGKILL');
