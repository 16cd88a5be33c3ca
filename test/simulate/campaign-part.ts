/**
 * Simulated worlds as a part of the fault campaign: seeds from the given one on, each a whole hub among faults of every kind, in as many
 * processes as there are cores.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { nothing, type Outcome, type Part, type Progress } from '../faults/part.ts';
import { Counters } from './counters.ts';
import type { SeedResult } from './run.ts';

/** In so many seeds every fault and every rare path is met. */
export const seedsForAll = 500;
/** Seeds that a process is asked for at a time. */
const seedsAtOnce = 100;

type Kind = 'lost' | 'reordered' | 'duplicated' | 'forgotten';
/** What a broken rule says, by how it begins; all others are unexplained. */
const rulesOf: Readonly<Record<Kind, RegExp>> = {
  lost: /^(what was acknowledged is in|everything that is owed ends|what counts as delivered was|nothing that is owed goes|a floor never|receivers end with|only what was delivered|an acknowledged result|whoever is entitled)/,
  reordered:
    /^(each object (leaves|arrives)|one in flight|a CDR waits|what is put back goes|nothing older is put back)/,
  duplicated: /^(what is known to be delivered is not sent|a dead letter is not sent|a command is forwarded once)/,
  forgotten:
    /^(a stopped session that|a case opens when|no command stays|nothing is pending|every circuit is|every actor is|everybody is connected|what may go|nothing that has ended)/,
};

interface Done {
  readonly seeds: number;
  readonly failures: readonly SeedResult[];
  readonly counts: Readonly<Record<string, number>>;
  readonly simulatedMs: number;
}

export const simulation: Part = {
  name: 'simulation',
  kinds: 1,
  async run({ seed, count }, progress) {
    const { failures, counters, seeds, simulatedMs } = await runAll(seed, count, progress);
    const of = (kind: Kind) => failures.filter(({ failure }) => rulesOf[kind].test(failure ?? '')).length;
    const kinds = {
      lost: of('lost'),
      reordered: of('reordered'),
      duplicated: of('duplicated'),
      forgotten: of('forgotten'),
    };
    const findings = failures.map(
      ({ seed: failed, failure }) => `npm run simulate -- --seed ${failed} --trace: ${failure}`,
    );
    // Rare paths need so many seeds.
    const missing = count < seedsForAll ? [] : counters.missing().map((name) => `never met: ${name}`);
    const named = Object.values(kinds).reduce((sum, one) => sum + one, 0);
    return {
      ...{ ...nothing, ...kinds, done: seeds, unexplained: failures.length - named + missing.length },
      findings: [...findings, ...missing],
      figures: { hoursSimulated: Math.round(simulatedMs / 3_600_000), ...figuresOf(counters) },
    };
  },
};

/** How often the worlds met what this part is about. */
function figuresOf(counters: Counters): Outcome['figures'] {
  const counts = counters.all();
  const sum = (pattern: RegExp) =>
    Object.entries(counts).reduce((total, [name, count]) => total + (pattern.test(name) ? count : 0), 0);
  return {
    crashes: sum(/^a crash (at|before|between|after|while)/),
    longOutages: sum(/away for hours|down for minutes/),
    moduleFaults: sum(/^a module was/),
    deadLetters: sum(/dead letter of a final class|retry window expired|suspended partner ended/),
    putBack: sum(/^a dead letter was re-driven|put back behind/),
    orphanCases: sum(/^an orphan case was opened/),
    repeatedAfterCrash: sum(/repeated after a crash/),
  };
}

/** Failures beyond so many tell nothing new. */
const failuresMax = 20;

async function runAll(seed: number, count: number, progress: Progress) {
  const counters = new Counters();
  const failures: SeedResult[] = [];
  let [next, seeds, simulatedMs] = [seed, 0, 0];
  const work = async (child: ChildProcess): Promise<void> => {
    while (next < seed + count && failures.length < failuresMax) {
      const range = { from: next, count: Math.min(seedsAtOnce, seed + count - next) };
      next += range.count;
      const done = await asked(child, range);
      seeds += done.seeds;
      simulatedMs += done.simulatedMs;
      counters.add(done.counts);
      failures.push(...done.failures);
      progress(seeds, failures.length);
    }
  };
  const processes = Math.min(availableParallelism(), Math.ceil(count / seedsAtOnce));
  const children = Array.from({ length: processes }, () => fork(join(import.meta.dirname, 'seeds', 'child.js')));
  try {
    await Promise.all(children.map(work));
  } finally {
    for (const child of children) child.kill();
  }
  return { failures: failures.sort((a, b) => a.seed - b.seed), counters, seeds, simulatedMs };
}

async function asked(child: ChildProcess, range: { from: number; count: number }): Promise<Done> {
  const heard = new AbortController();
  const { signal } = heard;
  const ended = once(child, 'exit', { signal }).then(([code]) => {
    throw new Error(`a process of the simulation ended with ${String(code)} at seeds ${range.from} and after`);
  });
  try {
    child.send(range);
    const [done] = (await Promise.race([once(child, 'message', { signal }), ended])) as [Done];
    return done;
  } finally {
    heard.abort();
  }
}
