/** The clock port: every wait and deadline goes through it, so tests can use simulated time. */

export interface Clock {
  /** Epoch milliseconds. It may step. */
  now(): number;
  /** Monotonic milliseconds from an arbitrary start, for deadlines and durations. */
  monotonic(): number;
  /** `args` are for `fn`: a wait that is armed per request needs no closure. */
  setTimeout<A extends unknown[]>(fn: (...args: A) => void, timeoutMs: number, ...args: A): unknown;
  /** Nothing for a wait that has ended, or never was. */
  clearTimeout(id: unknown): void;
}

/** Resolves after `ms`, or as soon as the function that is passed to `early` is called. */
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
 * Repeats the work, first after `firstMs`, then `ms` after the end of each run, until the returned function is called. Its timer does not
 * keep the process alive.
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

/** The same timer; it does not keep the process alive any more. */
export function background(timer: unknown): unknown {
  (timer as { unref?(): void }).unref?.();
  return timer;
}
