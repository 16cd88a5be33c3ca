/** Runs one seed, or many, and tells how it went. A failure can be told again in fewer steps. */
import { holdImmediates } from './agenda.ts';
import { Counters } from './counters.ts';
import { heal } from './healing.ts';
import { open, work } from './workload.ts';
import { World, type WorldOptions } from './world.ts';

export interface SeedResult {
  readonly seed: number;
  /** What broke; null when all rules held. */
  readonly failure: string | null;
  readonly digest: string;
  readonly steps: number;
  readonly simulatedMs: number;
  readonly counts: Readonly<Record<string, number>>;
  /** The last lines of its trace. */
  readonly tail: readonly string[];
}

export async function runSeed(options: WorldOptions): Promise<SeedResult> {
  // Only for what begins in a microtask a tick comes when no microtask is left. [TEST-AGENDA-2]
  await Promise.resolve();
  const restore = holdImmediates();
  const world = new World(options);
  const began = world.agenda.now;
  const unheard = (error: unknown) => world.fail(error);
  process.on('unhandledRejection', unheard);
  let steps = 0;
  try {
    await open(world);
    if (!world.failure) steps = await work(world);
    if (!world.failure) await heal(world);
  } catch (error) {
    world.fail(error);
  } finally {
    world.life.isAlive = false;
    restore();
    process.off('unhandledRejection', unheard);
  }
  const { failure, digest, tail, counters, agenda } = world;
  return { seed: options.seed, failure, digest, steps, simulatedMs: agenda.now - began, counts: counters.all(), tail };
}

export interface Campaign {
  readonly from: number;
  readonly count: number;
  readonly progress?: (done: number, failures: number) => void;
}

export interface CampaignResult {
  readonly seeds: number;
  readonly failures: readonly SeedResult[];
  readonly counters: Counters;
  readonly simulatedMs: number;
}

/** Failures beyond so many tell nothing new. */
const failuresMax = 20;

export async function runSeeds({ from, count, progress }: Campaign): Promise<CampaignResult> {
  const failures: SeedResult[] = [];
  const counters = new Counters();
  let simulatedMs = 0;
  let seeds = 0;
  for (let seed = from; seed < from + count && failures.length < failuresMax; seed++) {
    const result = await runSeed({ seed });
    seeds++;
    simulatedMs += result.simulatedMs;
    counters.add(result.counts);
    if (result.failure !== null) failures.push(result);
    progress?.(seeds, failures.length);
    // Whoever shares this process gets a turn.
    if (seeds % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  return { seeds, failures, counters, simulatedMs };
}

/** The fewest steps with which the seed still fails in the same way. */
export async function shorten(result: SeedResult): Promise<SeedResult> {
  const kindOf = ({ failure }: SeedResult) => failure?.split(':', 1)[0];
  let [low, best] = [0, result];
  while (low < best.steps) {
    const stepsMax = Math.floor((low + best.steps) / 2);
    const shorter = await runSeed({ seed: result.seed, stepsMax });
    if (shorter.failure !== null && kindOf(shorter) === kindOf(result)) best = { ...shorter, steps: stepsMax };
    else low = stepsMax + 1;
  }
  return best;
}
