/** The judge is worth its name: bugs that were put in on purpose are found, each by a rule that it breaks. */
import { t } from '../support/tap.ts';
import { type Mutant, mutants } from './mutants.ts';
import { runSeed } from './run.ts';

const seedsMax = 500;

async function firstFailure({ bend, patch }: Mutant): Promise<{ seed: number; failure: string } | null> {
  const restore = patch?.();
  try {
    for (let seed = 1; seed <= seedsMax; seed++) {
      const { failure } = await runSeed({ seed, ...(bend && { bend }) });
      if (failure !== null) return { seed, failure };
    }
    return null;
  } finally {
    restore?.();
  }
}

for (const mutant of mutants) {
  t.test(`found within ${seedsMax} seeds: ${mutant.name}`, async (t) => {
    const found = await firstFailure(mutant);
    t.ok(found, 'it is found');
    t.match(found?.failure, mutant.broken, `by seed ${found?.seed}`);
  });
}

t.test('a class that was bent is as before', async (t) => {
  for (const { patch } of mutants) patch?.()();
  t.equal((await runSeed({ seed: 1 })).failure, null);
});
