/** Simulated worlds as a part of the fault campaign: seeds from the given one on, each a whole hub among faults of every kind. */
import { nothing, type Part } from '../faults/part.ts';
import { runSeeds } from './run.ts';

const tellEvery = 100;
/** In so many seeds every fault and every rare path is met. */
export const seedsForAll = 500;

export const simulation: Part = {
  name: 'simulation',
  kinds: 1,
  async run({ seed, count }, progress) {
    const result = await runSeeds({
      from: seed,
      count,
      progress: (done, failures) => done % tellEvery === 0 && progress(done, failures),
    });
    const findings = result.failures.map(
      ({ seed: failed, failure }) => `npm run simulate -- --seed ${failed} --trace: ${failure}`,
    );
    // Rare paths need so many seeds.
    const missing = count < seedsForAll ? [] : result.counters.missing().map((name) => `never met: ${name}`);
    return {
      ...nothing,
      done: result.seeds,
      unexplained: findings.length + missing.length,
      findings: [...findings, ...missing],
      figures: { seeds: result.seeds, hoursSimulated: Math.round(result.simulatedMs / 3_600_000) },
    };
  },
};
