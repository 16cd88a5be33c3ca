/** The real clock, and the only file that uses the platform's timers. */
import type { Clock } from './clock.ts';

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimeout: (fn, timeoutMs, ...args) => setTimeout(fn, timeoutMs, ...args),
  clearTimeout: (id) => clearTimeout(id as NodeJS.Timeout | undefined),
};

/**
 * Resolves in the next turn of the event loop: pending callbacks run first, and all promises that settle in this turn
 * have settled.
 */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
