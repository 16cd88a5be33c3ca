/** How many deliveries a partner gets in flight: simulated partners that take them side by side, one by one, or with jitter. */
import TinyQueue from 'tinyqueue';
import { AdaptiveWindow } from '../../src/hub/delivery/adaptive-window.ts';
import { t } from '../support/tap.ts';

const max = 256;

interface Partner {
  /** Deliveries that it works on side by side. */
  readonly workers?: number;
  /** What it takes for one, ms. */
  readonly workMs: (at: number) => number;
  /** Deliveries that become owed to it a second; more than it takes when absent. */
  readonly owedPerS?: number;
  /** They become owed in bursts, so often; one by one when absent. */
  readonly burstsMs?: number;
}

/** Sends for so many seconds; the limit once a second, and what the partner took. */
function driven(
  { workers = max, workMs, owedPerS = Number.POSITIVE_INFINITY, burstsMs = 1 }: Partner,
  seconds: number,
  concurrency = max,
) {
  const window = new AdaptiveWindow(concurrency);
  const free = new TinyQueue(new Array<number>(workers).fill(0));
  const inFlight = new TinyQueue<{ begunAt: number; endsAt: number }>([], (a, b) => a.endsAt - b.endsAt);
  const limits: number[] = [];
  let [taken, begun, slowestMs] = [0, 0, 0];
  for (let at = 0; at < seconds * 1000; at++) {
    for (let head = inFlight.peek(); head && head.endsAt <= at; head = inFlight.peek()) {
      window.attempted(at - head.begunAt, { inFlight: inFlight.length, at });
      slowestMs = at < (seconds * 1000) / 2 ? 0 : Math.max(slowestMs, at - head.begunAt);
      inFlight.pop();
      taken++;
    }
    for (; inFlight.length < window.limit && begun < (owedPerS * (at - (at % burstsMs))) / 1000; begun++) {
      const endsAt = Math.max(at, free.pop() ?? 0) + workMs(at);
      free.push(endsAt);
      inFlight.push({ begunAt: at, endsAt });
    }
    if (at % 1000 === 999) limits.push(window.limit);
  }
  return { limits, taken, owed: begun, slowestMs };
}

/** Durations around a mean, of an exponential distribution, the same in each run. */
function jitter(meanMs: number): () => number {
  let seed = 1;
  return () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return -meanMs * Math.log(1 - seed / 2_147_483_647);
  };
}

t.test('a partner that takes 200 ms per call, any number in parallel, gets 600 a second', async (t) => {
  const { taken, limits } = driven({ workMs: () => 200, owedPerS: 600 }, 20);
  t.ok(taken > 600 * 19.5, `${taken} of 12,000 taken`);
  t.ok(limits.slice(2).filter((limit) => limit >= 120).length >= 16, `limits ${limits}`);
});

t.test('a partner that takes calls one after the other gets few at a time, and answers soon', async (t) => {
  const { taken, slowestMs } = driven({ workers: 1, workMs: () => 10 }, 40);
  t.ok(taken > 95 * 40, `it is never idle: ${taken} of 4,000`);
  t.ok(slowestMs <= 200, `${slowestMs} ms; with ${max} in flight a delivery would take 2,560 ms`);
});

t.test('jitter does not throttle a partner that takes any number in parallel', async (t) => {
  const { taken } = driven({ workMs: jitter(200), owedPerS: 600 }, 40);
  t.ok(taken > 600 * 38, `${taken} of 24,000`);
});

t.test('a partner with eight workers is kept busy without a long queue there', async (t) => {
  const { taken, slowestMs } = driven({ workers: 8, workMs: () => 50 }, 40);
  t.ok(taken > 150 * 40, `${taken} of 6,400`);
  t.ok(slowestMs < 1_000, `${slowestMs} ms; with ${max} in flight a delivery would take 1,600 ms`);
});

t.test('a partner that becomes ten times slower is detected', async (t) => {
  const { limits } = driven({ workMs: (at) => (at < 20_000 ? 20 : 200) }, 60);
  t.equal(limits.at(-1), max, `limits ${limits}`);
});

t.test(
  'a partner that becomes ten times slower gets as many side by side as the setting says [ADAPTIVE-WINDOW-2]',
  async (t) => {
    const { taken } = driven({ workMs: (at) => (at < 3_000 ? 20 : 200) }, 12, 8);
    t.ok(taken > 0.95 * (3 * 400 + 9 * 40), `${taken} of 1,560 taken`);
  },
);

t.test('a partner that becomes ten times slower is probed at once [ADAPTIVE-WINDOW-3]', async (t) => {
  const uneven = jitter(0.2);
  const { limits } = driven({ workMs: (at) => (at < 3_000 ? 20 : 200) * (0.9 + uneven()) }, 12);
  t.ok(
    limits.slice(6).every((limit) => limit === max),
    `limits ${limits}`,
  );
});

t.test('a partner that is hardly used keeps its limit [ADAPTIVE-WINDOW-1]', async (t) => {
  t.strictSame([...new Set(driven({ workMs: () => 10, owedPerS: 50 }, 30).limits)], [8]);
});

t.test('a partner that gets bursts keeps its limit between them [ADAPTIVE-WINDOW-1]', async (t) => {
  for (const size of [9, 12, 15]) {
    const { limits } = driven({ workMs: () => 50, owedPerS: size / 5, burstsMs: 5_000 }, 120);
    t.ok(
      limits.every((limit) => limit >= 8),
      `${size} at once: limits ${limits}`,
    );
  }
});

t.test('the limit never exceeds the setting, however small [ADAPTIVE-WINDOW-2]', async (t) => {
  const window = new AdaptiveWindow(2);
  for (let at = 0; at < 30_000; at += 100) window.attempted(200, { inFlight: 2, at });
  t.equal(window.limit, 2);
});
