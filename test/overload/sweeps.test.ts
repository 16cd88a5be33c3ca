/**
 * How far a heap may grow between two sweeps [G1 of src/process-load.ts]: V8 itself is asked, in a process of its own.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { growthPercent } from '../../src/process-load.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

const mebibyte = 1024 * 1024;
const child = fileURLToPath(new URL('./sweeps-child.js', import.meta.url));

interface Told {
  /** What `growthPercent` says of what the sweep left. */
  readonly percent: number;
}

/** What the child says, and by what V8 multiplies what its last sweep left; null when this V8 does not tell. */
async function swept(...nodeFlags: readonly string[]): Promise<{ told: Told; factor: number | null }> {
  const run = ['--expose-gc', '--trace-gc-verbose', ...nodeFlags, child];
  const { stdout } = await promisify(execFile)(process.execPath, run, { encoding: 'utf8', maxBuffer: 64 * mebibyte });
  const limits = [...stdout.matchAll(/\[HeapController\] Limit: .* \((\d+\.\d)\)/g)];
  const told = JSON.parse(/^told (.*)$/m.exec(stdout)?.[1] ?? 'null') as Told;
  const last = limits.at(-1)?.[1];
  return { told, factor: last === undefined ? null : Number(last) };
}

t.test(
  'a heap that is small for its limit is collected only after it has grown by the allowed amount',
  atLength,
  async (t) => {
    const { told, factor } = await swept('--max-old-space-size=4096');
    if (factor === null) return void t.pass('this V8 does not tell its limits');
    // Of some 80 MiB; left to itself V8 gives such a child four times as much.
    t.ok(told.percent > 100 && told.percent < 250, `${told.percent} %`);
    t.ok(Math.abs(factor - (1 + told.percent / 100)) < 0.1, `V8 took ${factor}, ${told.percent} % were asked for`);
  },
);

t.test(
  'the growth: a number of bytes, at most a multiple of the heap in use, and V8’s own choice for a full heap',
  async (t) => {
    t.equal(growthPercent(1), 300);
    t.ok(growthPercent(100 * mebibyte) < growthPercent(80 * mebibyte), 'the more is in use, the smaller the part');
    t.equal(growthPercent(4096 * mebibyte), 0);
  },
);
