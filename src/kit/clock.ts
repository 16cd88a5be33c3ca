/** Time as everything here sees it: whoever waits is given a clock, so that a test lets hours pass at once. */

export interface Clock {
  /** Epoch milliseconds. It may step. */
  now(): number;
  /** Milliseconds since an instant of no meaning. It never steps, so deadlines and durations are measured by it. */
  monotonic(): number;
  /** `args` are for `fn`: a wait that is armed per request needs no closure. */
  setTimeout<A extends unknown[]>(fn: (...args: A) => void, timeoutMs: number, ...args: A): unknown;
  /** Nothing for a wait that has ended, or never was. */
  clearTimeout(id: unknown): void;
}

/** Resolves after so long, or as soon as what `early` is given is called. */
export function sleep(clock: Clock, ms: number, early?: (wake: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.setTimeout(resolve, ms);
    early?.(() => {
      clock.clearTimeout(timer);
      resolve();
    });
  });
}

/** Whether the work ended within so long; rejects when the work does before that. */
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
 * Begins the work each time so long after its last end, until what is returned is called. It keeps no process alive: whoever has
 * something to do has a socket or a file open.
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

/** The same wait, which now keeps no process alive. */
export function background(timer: unknown): unknown {
  (timer as { unref?(): void }).unref?.();
  return timer;
}
