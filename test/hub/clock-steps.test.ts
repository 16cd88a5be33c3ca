/** Hub time beside a wall clock that is moved: what was recorded before and after each step keeps its age. */
import { ClockSteps } from '../../src/kit/clock.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const dayMs = 86_400_000;
const minuteMs = 60_000;
const begun = '2026-03-01T10:00:00Z';
const start = Date.parse(begun);

for (const [title, ms] of [
  ['a day ahead', dayMs],
  ['a day back', -dayMs],
] as const) {
  t.test(`the wall clock steps ${title}`, async (t) => {
    const clock = new SimulatedClock(begun);
    const told: number[] = [];
    clock.steps.onStep((step) => told.push(step.ms));
    const recorded = () => ({ hub: clock.now(), wall: clock.wall() });
    const before = [recorded()];
    for (let minute = 0; minute < 5; minute++) {
      clock.advance(minuteMs);
      before.push(recorded());
    }
    t.strictSame(before[5], { hub: start + 5 * minuteMs, wall: start + 5 * minuteMs }, 'both are one without a step');
    clock.step(ms);
    t.equal(clock.now(), start + 5 * minuteMs, 'hub time does not move');
    t.equal(clock.wall(), start + 5 * minuteMs + ms, 'the time of day does');
    t.strictSame(told, [ms], 'it is told once');
    clock.advance(minuteMs);
    const after = recorded();
    t.equal(clock.steady(after.wall), after.hub, 'what is recorded since has its age');
    for (const { hub, wall } of before.slice(0, 5)) {
      t.equal(clock.steady(wall), hub, 'and what was recorded before');
      t.equal(clock.stamp(hub), wall, 'an instant before the step is shown as it was recorded');
    }
    t.equal(clock.stamp(after.hub + minuteMs), after.wall + minuteMs, 'one to come as the clock will show it');
    clock.step(-ms);
    t.strictSame(told, [ms, -ms]);
    clock.advance(minuteMs);
    t.equal(clock.steady(clock.wall()), clock.now(), 'also when it is put right');
    t.equal(clock.steady(after.wall), after.hub, 'in each stretch');
  });
}

t.test('a future instant counts as now, and so does one that a step of the clock skipped', async (t) => {
  const clock = new SimulatedClock(begun);
  t.equal(clock.steady(clock.wall() + dayMs), clock.now());
  clock.step(dayMs);
  clock.advance(minuteMs);
  t.equal(clock.steady(start + dayMs / 2), clock.now(), 'nobody here recorded it');
});

t.test('a step makes no event older that was recorded before the process began', async (t) => {
  for (const ms of [dayMs, -dayMs]) {
    const clock = new SimulatedClock(begun);
    const yesterday = clock.wall() - dayMs / 2;
    clock.step(ms);
    clock.advance(minuteMs);
    t.equal(clock.now() - clock.steady(yesterday), dayMs / 2 + minuteMs, `${ms} ms`);
  }
});

t.test('a small difference is no step, and many steps take bounded memory', async (t) => {
  const clock = new SimulatedClock(begun);
  clock.step(400);
  t.equal(clock.steps.last, null);
  clock.step(200);
  t.equal(clock.steps.last?.ms, 600, 'small ones add up to one');
  for (let step = 0; step < 1000; step++) {
    clock.step(step % 2 === 0 ? dayMs : -dayMs);
    clock.advance(minuteMs);
  }
  t.ok(clock.steps.stretches.length <= 64);
  t.equal(clock.steady(clock.wall()), clock.now());
});

t.test('steps noted by an earlier process are applied first, once', async (t) => {
  const steps = new ClockSteps(start);
  const earlier = [
    { from: start - 10 * minuteMs, ahead: -dayMs },
    { from: start - 5 * minuteMs, ahead: 0 },
  ];
  steps.recall(earlier);
  steps.recall(earlier);
  t.strictSame(steps.stretches, earlier, 'the present stretch began before the process');
  t.equal(steps.steady(start - 8 * minuteMs - dayMs, start), start - 8 * minuteMs);
  const moved = new ClockSteps(start);
  moved.recall([{ from: start - 10 * minuteMs, ahead: -dayMs }]);
  t.strictSame(moved.stretches, [
    { from: start - 10 * minuteMs, ahead: -dayMs },
    { from: start, ahead: 0 },
  ]);
  t.equal(moved.steady(start - 2000 - dayMs, start), start - 2000, 'a step while no process ran');
});
