/**
 * The earliest of the instants that are held, against the plain way to say it. [QUEUES-3]
 */

import { MultisetMin } from '../../src/hub/delivery/queues.ts';
import { fc } from '../support/property.ts';
import { t } from '../support/tap.ts';

t.test(
  'it returns the minimum of its members after any additions and removals, and keeps at most twice as many entries',
  (t) => {
    const step = fc.record({ at: fc.integer({ min: 0, max: 400 }), isGone: fc.boolean() });
    const property = fc.property(fc.array(step, { maxLength: 600 }), (steps) => {
      const oldest = new MultisetMin();
      const held: number[] = [];
      for (const { at, isGone } of steps) {
        if (isGone && held.length > 0) oldest.remove(held.splice(at % held.length, 1)[0] ?? 0);
        else {
          held.push(at);
          oldest.add(at);
        }
        if (oldest.at !== (held.length === 0 ? null : Math.min(...held))) return false;
      }
      return true;
    });
    const { failed, counterexample } = fc.check(property, { numRuns: 300 });
    t.notOk(failed, JSON.stringify(counterexample));
    t.end();
  },
);

t.test('a member that stays while millions pass costs no memory', (t) => {
  const oldest = new MultisetMin();
  oldest.add(0);
  for (let at = 1; at <= 200_000; at++) {
    oldest.add(at);
    oldest.remove(at);
  }
  t.equal(oldest.at, 0);
  t.ok(oldest.kept < 200, `${oldest.kept} are kept`);
  t.end();
});
