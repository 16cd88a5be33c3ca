import { Timers } from '../../src/hub/kernel/timers.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

function started() {
  const clock = new SimulatedClock();
  const fired: [string, number][] = [];
  const failed: unknown[] = [];
  const timers = new Timers(clock, { debug() {}, info() {}, warn() {}, error: (line) => failed.push(line) });
  const arm = (id: string, at: number) => timers.arm(id, at, (due) => fired.push([id, due]));
  return { clock, fired, failed, timers, arm };
}

t.test('waits fire in order of instant, in whatever order they were set [TIMERS-3]', async (t) => {
  const { clock, fired, arm } = started();
  arm('late', 300);
  arm('early', 100);
  arm('middle', 200);
  clock.advance(99);
  t.same(fired, []);
  clock.advance(1);
  t.same(fired, [['early', 100]]);
  clock.advance(1000);
  t.same(fired, [
    ['early', 100],
    ['middle', 200],
    ['late', 300],
  ]);
});

t.test('setting again moves a wait, clearing ends it [TIMERS-2]', async (t) => {
  const { clock, fired, timers, arm } = started();
  arm('moved', 100);
  arm('moved', 500);
  arm('gone', 200);
  t.equal(timers.size, 2);
  timers.disarm('gone');
  clock.advance(400);
  t.same(fired, []);
  clock.advance(100);
  t.same(fired, [['moved', 500]]);
  arm('moved', 600);
  arm('moved', 550);
  clock.advance(50);
  t.same(fired.at(-1), ['moved', 550], 'also to an earlier instant');
  clock.advance(100);
  t.equal(fired.length, 2, 'and fires once');
});

t.test('an instant in the past fires at once [TIMERS-1]', async (t) => {
  const { clock, fired, arm } = started();
  clock.advance(1000);
  arm('overdue', 10);
  clock.advance(0);
  t.same(fired, [['overdue', 10]]);
});

t.test('waits that were cleared or moved before their instant are forgotten at once [TIMERS-4]', async (t) => {
  const { clock, fired, timers, arm } = started();
  arm('kept', 1000);
  arm('moved', 1000);
  for (let n = 0; n < 10_000; n++) {
    arm(`${n}`, 900);
    timers.disarm(`${n}`);
    arm('moved', 2000 + n);
  }
  arm('moved', 1500);
  let looks = 0;
  const { now } = clock;
  clock.now = () => {
    looks += 1;
    return now.call(clock);
  };
  clock.advance(999);
  t.ok(looks < 500, `${looks} looks at the clock`);
  clock.advance(20_000);
  t.same(fired, [
    ['kept', 1000],
    ['moved', 1500],
  ]);
  t.ok(looks < 1000, `${looks} looks at the clock`);
});

t.test('a wait longer than any timer of the platform keeps its instant', async (t) => {
  const { clock, fired, arm } = started();
  const fortyDays = 40 * 24 * 3_600_000;
  arm('far', fortyDays);
  for (let hour = 0; hour < 40 * 24 - 1; hour++) clock.advance(3_600_000);
  t.same(fired, []);
  clock.advance(3_600_000);
  t.same(fired, [['far', fortyDays]]);
});

t.test('closing leaves no timer behind', async (t) => {
  const { clock, fired, timers, arm } = started();
  arm('never', 100);
  timers.close();
  clock.advance(1000);
  t.same(fired, []);
});

t.test('nor does closing from a handler', async (t) => {
  const { clock, fired, timers, arm } = started();
  timers.arm('last', 100, () => timers.close());
  arm('beside', 100);
  arm('never', 200);
  clock.advance(100);
  arm('late', 300);
  clock.advance(1000);
  t.same(fired, []);
});

t.test('a handler that throws prevents no other from firing', async (t) => {
  const { clock, fired, failed, timers, arm } = started();
  timers.arm('bad', 100, () => {
    throw new Error('no');
  });
  arm('good', 100);
  clock.advance(100);
  t.same(fired, [['good', 100]]);
  t.match(failed, [{ deadline: 'bad' }]);
});

t.test('an invalid instant is refused', async (t) => {
  const { timers } = started();
  for (const at of [Number.NaN, Number.POSITIVE_INFINITY]) t.throws(() => timers.arm('odd', at, () => {}), RangeError);
  t.equal(timers.size, 0);
});
