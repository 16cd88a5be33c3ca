/** The clock port: every wait and deadline goes through it, so tests can use simulated time. */

export interface Clock {
  /** Epoch milliseconds; the wall clock may jump. */
  now(): number;
  /** Monotonic milliseconds from an arbitrary start, for deadlines and durations. */
  monotonic(): number;
  /** Passes `args` to `fn`, so that a timer per request needs no closure. */
  setTimeout<A extends unknown[]>(fn: (...args: A) => void, timeoutMs: number, ...args: A): unknown;
  /** Does nothing for a timer that has fired or never existed. */
  clearTimeout(id: unknown): void;
}

/** Resolves after `ms`, or as soon as the `wake` function that `early` receives is called. */
export function sleep(clock: Clock, ms: number, early?: (wake: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.setTimeout(resolve, ms);
    early?.(() => {
      clock.clearTimeout(timer);
      resolve();
    });
  });
}

/** True when the work ended within `ms`, false at the time-out; rejects when the work rejects before it. */
export async function withTimeout(clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: unknown;
  const late = new Promise<false>((resolve) => {
    timer = clock.setTimeout(resolve, ms, false);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clock.clearTimeout(timer);
  }
}

/**
 * Repeats the work, first after `firstMs`, then `ms` after the end of each run, until the returned function is called.
 * The timer does not keep the process alive.
 */
export function every(clock: Clock, ms: number, work: () => void | Promise<void>, firstMs = ms): () => void {
  let isStopped = false;
  let timer: unknown;
  const arm = (inMs: number) => {
    timer = background(clock.setTimeout(fire, inMs));
  };
  const fire = async () => {
    await work();
    if (!isStopped) arm(ms);
  };
  arm(firstMs);
  return () => {
    isStopped = true;
    clock.clearTimeout(timer);
  };
}

/** Unrefs the timer, so that it does not keep the process alive, and returns it. */
export function background(timer: unknown): unknown {
  (timer as { unref?(): void }).unref?.();
  return timer;
}
