/** Repeated work of a process that has nothing else to do wakes it up as rarely as one timer would. [CLOCK-9] */
import { every } from '../../src/kit/clock.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

/** Lets the works of a tick end, after which they are armed again. */
const ended = () => new Promise<void>((resolve) => setImmediate(resolve));

t.test('works begun at different instants share the timers of a second', async (t) => {
  const clock = new SimulatedClock();
  const runs = new Map<number, number[]>();
  const stops = [100, 100, 200, 1000].map((ms, i) => {
    clock.advance(13);
    const at: number[] = [];
    runs.set(i, at);
    return every(clock, ms, () => void at.push(clock.monotonic()));
  });
  let timersMax = 0;
  for (let turn = 0; turn < 2000; turn++) {
    clock.advance(1);
    await ended();
    timersMax = Math.max(timersMax, clock.pending);
  }
  const instants = new Set([...runs.values()].flat());
  t.ok(instants.size <= 21, `${instants.size} wake-ups in two seconds`);
  t.ok(timersMax <= 3, `${timersMax} timers at once, for four works`);
  t.equal(runs.get(0)?.length, 20);
  t.equal(runs.get(1)?.length, 20);
  t.equal(runs.get(2)?.length, 10);
  t.equal(runs.get(3)?.length, 2);
  stops[0]?.();
  const before = runs.get(0)?.length;
  clock.advance(100);
  await ended();
  t.equal(runs.get(0)?.length, before, 'one that is stopped in its tick does not run');
  t.equal(runs.get(1)?.length, 21, 'and the others of the tick do');
  for (const stop of stops) stop();
  t.equal(clock.pending, 0, 'nothing is left armed');
});

t.test('a run says how late it is, and the next one falls due at the next multiple', async (t) => {
  const clock = new SimulatedClock();
  const late: number[] = [];
  const stop = every(clock, 100, (lateMs) => void late.push(lateMs));
  for (const ms of [100, 170, 30, 96, 4, 96]) {
    clock.advance(ms);
    await ended();
  }
  t.strictSame(late, [0, 70, 0, 0]);
  stop();
});

t.test('work whose interval is no multiple of a tick has a timer of its own', async (t) => {
  for (const ms of [20, 150, 333]) {
    const clock = new SimulatedClock();
    let runs = 0;
    const stop = every(clock, ms, () => {
      runs += 1;
    });
    for (let turn = 0; turn < 10 * ms; turn++) {
      clock.advance(1);
      await ended();
    }
    t.equal(runs, 10, `every ${ms} ms`);
    stop();
    t.equal(clock.pending, 0);
  }
});
