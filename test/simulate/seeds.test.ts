/** What every seed must show, and all of them together: every rule holds, and every fault and rare path was met. */
import { partOf } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { runSeeds } from './run.ts';

t.setTimeout(3_600_000);

/** A tenth each, so that a report shows how far it has come. */
const tenth = 500;
const all = 10 * tenth;
const count = partOf(all);

t.test(`seeds 1 to ${count}: every rule holds in every world`, async (t) => {
  const missing = new Set<string>();
  for (let from = 1; from <= count; from += tenth) {
    const wanted = Math.min(tenth, count + 1 - from);
    const { seeds, failures, counters } = await runSeeds({ from, count: wanted });
    for (const { seed, failure } of failures) t.fail(`npm run simulate -- --seed ${seed} --trace: ${failure}`);
    t.equal(seeds, wanted, `all from ${from} on ran`);
    // Rare paths need so many seeds.
    if (wanted === tenth) for (const name of counters.missing()) missing.add(name);
  }
  t.strictSame([...missing], [], 'no fault and no rare path was missed');
});
