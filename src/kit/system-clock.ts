/** The clock of the machine: the only file that touches the timers of the platform. */
import type { Clock } from './clock.ts';

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimeout: (fn, timeoutMs, ...args) => setTimeout(fn, timeoutMs, ...args),
  clearTimeout: (id) => clearTimeout(id as NodeJS.Timeout | undefined),
};

/** Resolves in the next turn of the event loop: others get theirs first, and what else is settled in this turn is known. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
