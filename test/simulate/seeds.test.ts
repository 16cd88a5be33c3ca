/** What every seed must show, and all of them together: every rule holds, and every fault and rare path was met. */
import { partOf } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { seedsForAll } from './campaign-part.ts';
import { runSeeds } from './run.ts';

t.setTimeout(3_600_000);

const all = 5_000;
const count = partOf(all);

t.test(`seeds 1 to ${count}: every rule holds in every world`, async (t) => {
  const missing = new Set<string>();
  for (let from = 1; from <= count; from += seedsForAll) {
    const wanted = Math.min(seedsForAll, count + 1 - from);
    const { seeds, failures, counters } = await runSeeds({ from, count: wanted });
    for (const { seed, failure } of failures) t.fail(`npm run simulate -- --seed ${seed} --trace: ${failure}`);
    t.equal(seeds, wanted, `all from ${from} on ran`);
    if (wanted === seedsForAll) for (const name of counters.missing()) missing.add(name);
  }
  t.strictSame([...missing], [], 'no fault and no rare path was missed');
});
