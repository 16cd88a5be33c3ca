/** What every seed must show; and what so many of them must show together, which a slice is too few for. */
import { atLength, isAtLength, partOf } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { seedsForAll } from './campaign-part.ts';
import { runSeeds } from './run.ts';

t.setTimeout(3_600_000);

/** A world takes a tenth of a second of CPU time, so a slice has fewer of them than its share. */
const count = isAtLength ? 5_000 : partOf(2_000);

const missing = new Set<string>();

t.test(`seeds 1 to ${count}: every rule holds in every world`, async (t) => {
  for (let from = 1; from <= count; from += seedsForAll) {
    const wanted = Math.min(seedsForAll, count + 1 - from);
    const { seeds, failures, counters } = await runSeeds({ from, count: wanted });
    for (const { seed, failure } of failures) t.fail(`npm run simulate -- --seed ${seed} --trace: ${failure}`);
    t.equal(seeds, wanted, `all from ${from} on ran`);
    if (wanted === seedsForAll) for (const name of counters.missing()) missing.add(name);
  }
});

t.test('every fault and every rare path was met', atLength, async (t) => {
  t.strictSame([...missing], []);
});
