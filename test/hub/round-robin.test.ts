/**
 * The queue in order of turn, against ordered lists. [QUEUES-1, QUEUES-2]
 */

import { GroupedRoundRobin, type Place, RoundRobin } from '../../src/hub/delivery/queues.ts';
import { fc } from '../support/property.ts';
import { t } from '../support/tap.ts';

t.test('members are in the order of their addition, once each, after any removals', (t) => {
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
});

t.test('groups take turns, and so do the members of each', (t) => {
  const step = fc.record({ member: fc.integer({ min: 0, max: 20 }), isGone: fc.boolean() });
  const groupOf = (member: number) => `G${member % 3}`;
  const property = fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
    const turns = new GroupedRoundRobin<number>();
    const places = new Map<number, Place<number>>();
    let groups: number[][] = [];
    for (const { member, isGone } of steps) {
      const group = groups.find(([one]) => one !== undefined && groupOf(one) === groupOf(member));
      const place = places.get(member);
      if (isGone && place) turns.remove(groupOf(member), place);
      else if (!isGone && !place) places.set(member, turns.add(groupOf(member), member));
      if (isGone) places.delete(member);
      if (!isGone && !group) groups.push([member]);
      else if (!isGone && !group?.includes(member)) group?.push(member);
      else if (isGone && group?.includes(member)) {
        group.splice(group.indexOf(member), 1);
        groups = [...groups.filter((other) => other !== group), group].filter(({ length }) => length > 0);
      }
      if (turns.first !== groups[0]?.[0]) return false;
      for (const sought of [1, 5, 20]) {
        const holds = (one: number) => one >= sought;
        const found = groups.flatMap((of) => of.slice(0, Math.max(1, Math.floor(9 / groups.length)))).find(holds);
        if (turns.firstOf(9, holds) !== found) return false;
      }
    }
    return true;
  });
  const { failed, counterexample } = fc.check(property, { numRuns: 300 });
  t.notOk(failed, JSON.stringify(counterexample));
  t.end();
});
