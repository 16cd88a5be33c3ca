/**
 * The queue in order of turn, against an ordered list. [QUEUES-1]
 */
import fc from 'fast-check';
import { RoundRobin } from '../../src/hub/delivery/queues.ts';
import { t } from '../support/tap.ts';

t.test(
  'members stand in the order in which they were added, once each, whatever was taken from the middle [T1]',
  (t) => {
    const step = fc.record({ member: fc.integer({ min: 0, max: 20 }), isGone: fc.boolean() });
    const property = fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
      const turns = new RoundRobin<number>();
      let held: number[] = [];
      for (const { member, isGone } of steps) {
        if (isGone) {
          turns.delete(member);
          held = held.filter((other) => other !== member);
        } else {
          turns.add(member);
          if (!held.includes(member)) held.push(member);
        }
        if (turns.first !== held[0]) return false;
      }
      for (const member of held) {
        if (turns.first !== member) return false;
        turns.delete(member);
      }
      return turns.first === undefined;
    });
    const { failed, counterexample } = fc.check(property, { numRuns: 300 });
    t.notOk(failed, JSON.stringify(counterexample));
    t.end();
  },
);
