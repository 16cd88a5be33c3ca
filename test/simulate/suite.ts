/** What each range of seeds must show: all rules hold in all of them, and every fault and rare path was met. */

import { partOf } from '../support/share.ts';
import type { Test } from '../support/tap.ts';
import { runSeeds } from './run.ts';

export function seedsHold(t: Test, from: number, all: number): void {
  const count = partOf(all);
  t.test(`seeds ${from} to ${from + count - 1}: every rule holds in every world`, async (t) => {
    const { seeds, failures, counters } = await runSeeds({ from, count });
    for (const { seed, failure } of failures) t.fail(`npm run simulate -- --seed ${seed} --trace: ${failure}`);
    t.equal(seeds, count, 'all of them ran');
    // Rare paths need all of the seeds.
    if (count < all) t.comment(`${count} of ${all}: TEST_SHARE`);
    else t.strictSame(counters.missing(), [], 'no fault and no rare path was missed');
  });
}
