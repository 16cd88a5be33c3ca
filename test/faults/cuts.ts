/**
 * Power cuts of the store: a process works on it under trace; then, for moments all over the trace, the directory is made as a
 * power cut at that moment may have left it, opened, and compared with what the process had been told by then.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Store } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { until } from '../storage/support.ts';
import { Disk } from './disk.ts';
import { nothing, type Outcome, type Part, plus } from './part.ts';
import { type Random, seeded } from './random.ts';
import { readTrace, type Step, traced, whyNotTraced } from './trace.ts';
import { bodyOf, receiver } from './written.ts';

/** Events that a start reads at once, so that a small store has a sealed part. */
const sealedBehind = 64;

const child = join(import.meta.dirname, 'child.js');

interface Run {
  readonly commits: number;
  readonly characters: number;
  readonly cutsMax: number;
}

/** Commits for one cut, and at most those of the run: a short run tells as much of a few cuts. */
const commitsPerCut = 20;

/** By turns: large commits fill the engine's buffer, so that it changes its log in between; their trace is long to read. */
const runs: readonly [Run, Run] = [
  { commits: 400, characters: 600, cutsMax: 140 },
  { commits: 900, characters: 14_000, cutsMax: 60 },
];

/** Told to the process by a moment of the trace. */
export interface Told {
  /** Sequence → number of the commit. */
  readonly commits: Map<number, string>;
}

export const cuts: Part = {
  name: 'power cuts of the store',
  kinds: 2,
  unable: whyNotTraced,
  async run({ seed, count }, progress) {
    let total = nothing;
    for (let round = 0; total.done < count; round += 1) {
      const run = runs[round % 2 === 0 ? 0 : 1];
      const wanted = Math.min(run.cutsMax, count - total.done);
      const outcome = await oneRun(seeded(seed + round), run, wanted, `seed ${seed} round ${round}`);
      total = plus(total, outcome);
      progress(total.done, total.findings.length);
    }
    return total;
  },
};

async function oneRun(random: Random, { commits, characters }: Run, wanted: number, name: string): Promise<Outcome> {
  const directory = mkdtempSync(join(tmpdir(), 'cut-store-'));
  const [store, trace, target] = [join(directory, 'store'), join(directory, 'trace'), join(directory, 'target')];
  try {
    // A store of an age: its first life is not traced.
    mkdirSync(store);
    await work([child, store, '100', `${characters}`], null);
    const before = join(directory, 'before');
    cpSync(store, before, { recursive: true });
    const asked = Math.min(commits, commitsPerCut * wanted);
    const steps = await work([child, store, `${asked}`, `${characters}`], trace);
    const moments = momentsOf(random, steps, new Disk(store, before), wanted);
    const disk = new Disk(store, before);
    const told: Told = { commits: new Map() };
    const findings: string[] = [];
    for (const [at, step] of steps.entries()) {
      tell(disk, step);
      listen(told, step);
      if (!moments.has(at)) continue;
      rmSync(target, { recursive: true, force: true });
      const lost = disk.cut(target, random);
      const problem = await look(target, told, characters);
      if (problem !== null) findings.push(`${name}, cut at step ${at}: ${problem.said} [${lost.join('; ')}]`);
    }
    const done = moments.size;
    const lost = findings.length;
    return { ...nothing, done, lost, findings, figures: { commitsTold: told.commits.size, steps: steps.length } };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Tells a disk of a step. */
export function tell(disk: Disk, { call, ended }: Step): void {
  if (call) disk.began(call);
  if (ended !== null) disk.ended(ended);
}

/** Moments to cut at: half of them all over the work, half where names are at risk. */
function momentsOf(random: Random, steps: readonly Step[], disk: Disk, wanted: number): ReadonlySet<number> {
  const first = steps.findIndex(({ call }) => call?.line.startsWith('write(1<'));
  const risky: number[] = [];
  for (const [at, step] of steps.entries()) {
    tell(disk, step);
    if (at > first && disk.namesAtRisk > 0) risky.push(at);
  }
  const moments = new Set<number>();
  while (moments.size < wanted) {
    const isRisky = risky.length > wanted && moments.size % 2 === 0;
    moments.add(isRisky ? random.pick(risky) : first + random.below(steps.length - first));
  }
  return moments;
}

/** Lets a child work; gives what it asked of the system when a trace is wanted. */
export async function work(child: readonly string[], trace: string | null): Promise<Step[]> {
  const run = [process.execPath, ...child];
  const [program = '', ...args] = trace === null ? run : traced(trace, run);
  const working = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  working.stdout.resume();
  const [, signal] = (await once(working, 'close')) as [number | null, string | null];
  if (signal !== 'SIGKILL') throw new Error('the child ended before its work was done');
  return trace === null ? [] : readTrace(trace);
}

/** Hears what the process says with a step. */
export function listen(told: Told, { call }: Step): void {
  if (!call?.line.startsWith('write(1<')) return;
  const [, seq, number] = /^c (\d+) (\d+)\n$/.exec(call.texts[0]?.toString('latin1') ?? '') ?? [];
  if (number !== undefined) told.commits.set(Number(seq), number);
}

export interface Problem {
  readonly what: 'quarantined' | 'forgotten' | 'other';
  readonly said: string;
}

/** What is wrong with a store after a cut; null when nothing is. */
export async function look(directory: string, told: Told, characters: number): Promise<Problem | null> {
  try {
    // Every second one by its seal, the others whole.
    const parts = told.commits.size % 2 === 0 ? { recent: sealedBehind } : {};
    const store = await openLevelStore({ directory, node: 'test', ballastBytes: 0, ...parts });
    try {
      await until(() => store.health().verifying === undefined);
      const { state, reason } = store.health();
      if (state !== 'open') return { what: 'quarantined', said: `${state}: ${reason}` };
      const lost = await lostOf(store, told, characters);
      if (lost !== null) return { what: 'other', said: lost };
      const owed = await forgotten(store);
      return owed === null ? null : { what: 'forgotten', said: owed };
    } finally {
      await store.close();
    }
  } catch (error) {
    return { what: 'other', said: `not opened: ${error}` };
  }
}

/** What was acknowledged and is not there as it was, behind the horizon. */
async function lostOf(store: Store, { commits }: Told, characters: number): Promise<string | null> {
  const { damagedRows } = store.health();
  if (damagedRows.length > 0) return `damaged rows: ${damagedRows.map(({ id }) => id)}`;
  const horizon = store.horizon();
  const events = await store.read({ after: horizon, limit: 1_000_000 });
  const hole = events.findIndex(({ seq }, index) => seq !== horizon + index + 1);
  if (hole !== -1) return `a hole at ${horizon + hole + 1}`;
  const wrong = events.find(({ stream, body }) => body !== bodyOf(stream, characters));
  if (wrong) return `event ${wrong.seq} is not what was written`;
  const lost = [...commits].find(([seq, number]) => seq > horizon && events[seq - horizon - 1]?.stream !== number);
  return lost ? `commit ${lost[1]} was acknowledged as ${lost[0]}; the log ends at ${store.head()}` : null;
}

/** A floor stands only where everything between the horizon and it has its row. */
async function forgotten(store: Store): Promise<string | null> {
  const floor = (await store.floors()).find(({ dest }) => dest === receiver)?.seq ?? 0;
  if (floor > store.head()) return `the floor ${floor} is above the head ${store.head()}`;
  const rows = await store.deliveries({ dest: receiver, rows: 'open', limit: 1_000_000 });
  const present = new Set(rows.map(({ seq }) => seq));
  const missing: number[] = [];
  for (let seq = store.horizon() + 1; seq <= floor; seq += 1) if (!present.has(seq)) missing.push(seq);
  return missing.length === 0
    ? null
    : `the floor is ${floor}, and these deliveries are forgotten: ${missing.join(' ')}`;
}
