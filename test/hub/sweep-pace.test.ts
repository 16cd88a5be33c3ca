/** Background work has at most its share of the time, and gives way when others need the event loop. */
import { Pace } from '../../src/hub/maintain/sweep-pace.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const never = new AbortController().signal;

function paced(t: Test) {
  const clock = new SimulatedClock();
  const pace = new Pace(clock);
  /** A piece that takes `tookMs`; its pause ends `lateMs` late. Returns the length of the pause, ms. */
  async function piece(tookMs: number, { isBusy = false } = {}): Promise<number> {
    const before = clock.monotonic();
    const pause = pace.pause(tookMs, isBusy, never);
    const ended = pause.then(() => true);
    let passed = 0;
    while (!(await Promise.race([ended, turn()]))) {
      clock.advance(1);
      passed += 1;
    }
    t.equal(clock.monotonic() - before, passed);
    return passed;
  }
  /** The same, but the clock leaps over the end of the pause. */
  async function late(tookMs: number, lateMs: number, isBusy = false): Promise<void> {
    const pauseMs = tookMs * (1 / pace.share - 1);
    const pause = pace.pause(tookMs, isBusy, never);
    clock.advance(pauseMs + lateMs);
    await pause;
  }
  return { clock, pace, piece, late };
}

const turn = () => new Promise<false>((resolve) => setImmediate(resolve, false));

t.test('[SWEEP-PACE-1] a pause is as long as the share demands, and pieces are in proportion', async (t) => {
  for (const tookMs of [8, 80]) {
    const { pace, piece } = paced(t);
    t.equal(pace.share, 1 / 8);
    t.equal(pace.sized(512), 64);
    t.equal(await piece(tookMs), 7 * tookMs);
    t.equal(pace.sized(512), 80);
  }
});

t.test('[SWEEP-PACE-2] the share grows up to all the time, beside other work up to a half', async (t) => {
  const { pace, piece } = paced(t);
  for (let pieces = 0; pieces < 20; pieces++) await piece(1);
  t.equal(pace.share, 1);
  await piece(8, { isBusy: true });
  t.equal(pace.share, 1 / 2, 'as soon as others work');
  for (let pieces = 0; pieces < 20; pieces++) await piece(1, { isBusy: true });
  t.equal(pace.share, 1 / 2);
  t.equal(await piece(8, { isBusy: true }), 8, 'a pause is as long as the piece');
});

t.test(
  '[SWEEP-PACE-3] a pause that ends late halves the share, down to an eighth; one that ends in time does not',
  async (t) => {
    const { pace, piece, late } = paced(t);
    for (let pieces = 0; pieces < 20; pieces++) await piece(1, { isBusy: true });
    await late(8, 24, true);
    t.equal(pace.share, 1 / 2, '24 ms are not late');
    await late(8, 25, true);
    t.equal(pace.share, 1 / 4);
    for (let pieces = 0; pieces < 5; pieces++) await late(8, 100);
    t.equal(pace.share, 1 / 8);
  },
);

t.test('[SWEEP-PACE-4] a piece during which the process was stopped is followed by a pause of 10 s', async (t) => {
  const { piece } = paced(t);
  t.equal(await piece(3_600_000), 10_000);
});

t.test('an abort ends the pause at once', async (t) => {
  const { pace } = paced(t);
  const end = new AbortController();
  const pause = pace.pause(1_000, false, end.signal);
  end.abort();
  await pause;
  t.pass('it ended though no time passed');
});
