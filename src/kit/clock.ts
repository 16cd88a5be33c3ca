/**
 * The clock port: every wait and deadline goes through it, so tests can use simulated time.
 *
 * CLOCK-1  Waits, deadlines, ages and limits are hub time (`now`): a step of the wall clock moves none of them.
 * CLOCK-2  What leaves the process is time of day (`wall`): events, rows, log lines, answers.
 * CLOCK-3  Hub time and time of day meet only in `steady`, for one that was recorded, and in `stamp`, for a hub time
 *     that is shown or recorded. A recorded instant in the future is never converted by itself, but by its distance
 *     from the instant that was recorded with it, and so it is recorded: a step may be noticed between two stamps.
 * CLOCK-4  After a restart no wait is longer than its own maximum.
 * CLOCK-5  A suspended machine is a step forward: its monotonic clock stood still, so waits go on with what was left
 *     of them, and nothing expires because the machine slept.
 */
import type { ClockSteps } from './clock-steps.ts';

export interface Clock {
  /** Hub time, epoch ms: never steps. [CLOCK-STEPS-1] */
  now(): number;
  /** Time of day, epoch ms: may step. Compares both clocks, and so notices a step. */
  wall(): number;
  /** Hub time of a time of day that was recorded; at most now. */
  steady(wall: number): number;
  /** Time of day of a hub time. */
  stamp(at: number): number;
  readonly steps: ClockSteps;
  /** Monotonic milliseconds from an arbitrary start, for deadlines and durations. */
  monotonic(): number;
  /** Passes `args` to `fn`, so that a timer per request needs no closure. */
  setTimeout<A extends unknown[]>(fn: (...args: A) => void, timeoutMs: number, ...args: A): unknown;
  /** Does nothing for a timer that has fired or never existed. */
  clearTimeout(id: unknown): void;
}

/** Resolves after `ms`, or as soon as `end` is aborted. */
export function sleep(clock: Clock, ms: number, end?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (end?.aborted) return resolve();
    const wake = () => {
      clock.clearTimeout(timer);
      end?.removeEventListener('abort', wake);
      resolve();
    };
    const timer = clock.setTimeout(wake, ms);
    end?.addEventListener('abort', wake);
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
 * Repeats the work, each time `ms` after the end of the run before, until the returned function is called.
 * The timer does not keep the process alive.
 */
export function every(clock: Clock, ms: number, work: () => void | Promise<void>): () => void {
  let isStopped = false;
  let timer: unknown;
  const arm = (inMs: number) => {
    timer = background(clock.setTimeout(fire, inMs));
  };
  const fire = async () => {
    await work();
    if (!isStopped) arm(ms);
  };
  arm(ms);
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
