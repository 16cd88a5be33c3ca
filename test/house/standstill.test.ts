/** The test process detects its own pauses, and its timers do not count them. */
import { nextTurn } from '../../src/kit/system-clock.ts';
import { atLength } from '../support/share.ts';
import { RunningTimer, standstills } from '../support/standstill.ts';
import { t } from '../support/tap.ts';

const standStill = (ms: number) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
/** Each turn of the event loop runs due timers first, so after two turns every due timer has fired. */
async function timersFired(): Promise<void> {
  await nextTurn();
  await nextTurn();
}

t.test('a timer does not expire while its process is stopped', async (t) => {
  let isOver = false;
  const over = new Promise<void>((resolve) => {
    const fire = () => {
      isOver = true;
      resolve();
    };
    new RunningTimer(fire, 700);
  });
  const before = standstills().length;
  standStill(1_000);
  await timersFired();
  t.ok(standstills().length > before, 'that it stood still is known');
  t.notOk(isOver, 'though its time has passed');
  await over;
});

t.test('a cleared timer does not fire, also after a stop of the process', atLength, async (t) => {
  let isOver = false;
  const timer = new RunningTimer(() => {
    isOver = true;
  }, 1);
  standStill(600);
  await timersFired();
  timer.clear();
  await new Promise<void>((resolve) => void new RunningTimer(resolve, 700));
  t.notOk(isOver);
});
