/** Points of history: sums lose nothing, and percentiles are as near to the true ones as is promised. */

import { bandOf, nothing, type Point, percentile, pointOf, stored, sumOf } from '../../src/domain/history.ts';
import { fc } from '../support/property.ts';
import { t } from '../support/tap.ts';

const count = fc.nat({ max: 1_000 });
const durations = fc.array(fc.double({ min: 0, max: 60_000, noNaN: true }), { maxLength: 40 });

const bandsOf = (all: readonly number[]): number[] => {
  const counts = new Map<number, number>();
  for (const ms of all) counts.set(bandOf(ms), (counts.get(bandOf(ms)) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => a - b).flat();
};
const point = fc
  .record({ pushes: count, errors: count, down: fc.nat({ max: 60 }), watched: fc.nat({ max: 60 }), took: durations })
  .map(({ took, ...others }): Point => ({ ...others, deliveries: took.length, bands: bandsOf(took) }));

t.test('[DOMAIN-HISTORY-1] a sum of sums equals the sum of all, however it is divided', (t) => {
  fc.assert(
    fc.property(fc.array(fc.array(point)), (hours) => {
      const whole = sumOf(hours.flat());
      t.strictSame(sumOf(hours.map(sumOf)), whole);
      t.strictSame(sumOf([...hours].reverse().flat()), whole);
      t.equal(
        whole.bands.filter((_, at) => at % 2 === 1).reduce((sum, each) => sum + each, 0),
        whole.deliveries,
      );
    }),
    { numRuns: 200 },
  );
  t.strictSame(sumOf([]), nothing);
  t.end();
});

t.test('a stored point reads back unchanged', (t) => {
  fc.assert(fc.property(point, (one) => void t.strictSame(pointOf(JSON.parse(JSON.stringify(stored(one)))), one)));
  t.end();
});

t.test('[DOMAIN-HISTORY-2] a percentile is at most 10 % off', (t) => {
  const some = fc.array(fc.double({ min: 1, max: 60_000, noNaN: true }), { minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(some, fc.constantFrom(0.5, 0.95), (took, share) => {
      const sorted = [...took].sort((a, b) => a - b);
      const exact = sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
      const told = percentile({ bands: bandsOf(took) }, share) ?? 0;
      // What is shown is rounded to 0.1 ms.
      t.ok(Math.abs(told - exact) <= exact * 0.1 + 0.05, `${told} for ${exact}`);
    }),
  );
  t.equal(percentile(nothing, 0.5), null);
  t.end();
});
