/**
 * The judge is worth its name: bugs that were put in on purpose are found, each by a rule that it breaks and by the seed that is
 * written beside it; where the hub has changed so that this seed does not, by one of the first.
 */
import { t } from '../support/tap.ts';
import { type Mutant, mutants } from './mutants.ts';
import { runSeed } from './run.ts';

const seedsMax = 500;

async function firstFailure({ seed: known, bend, patch }: Mutant): Promise<{ seed: number; failure: string } | null> {
  const restore = patch?.();
  try {
    for (const seed of [known, ...Array.from({ length: seedsMax }, (_, n) => n + 1)]) {
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
    if (found?.seed !== mutant.seed)
      t.comment(`seed ${mutant.seed}, which stands beside it, does not find it any more`);
  });
}

t.test('a class that was bent is as before', async (t) => {
  for (const { patch } of mutants) patch?.()();
  t.equal((await runSeed({ seed: 1 })).failure, null);
});
