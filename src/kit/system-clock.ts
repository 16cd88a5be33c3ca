/**
 * The real clock, and the only file of a hub that reads the platform's clocks or uses its timers.
 *
 * SYSTEM-CLOCK-1  A timer that fires late, because the process was stopped or busy, first lets the event loop read its
 *     sockets: an answer that arrived meanwhile counts before its time-out.
 */
import { type Clock, facesOf } from './clock.ts';

const begun = Date.now() - performance.now();

/** Lateness, ms, above which sockets may hold what arrived in time. Timers of an idle process are 1 to 2 ms late. */
const lateMs = 20;

export const systemClock: Clock = {
  ...facesOf(
    () => Math.floor(begun + performance.now()),
    () => Date.now(),
  ),
  monotonic: () => performance.now(),
  setTimeout: (fn, timeoutMs, ...args) => new Wait(fn, args, timeoutMs),
  clearTimeout: (id) => (id as Wait<unknown[]> | undefined)?.clear(),
};

/** One armed timer. */
class Wait<A extends unknown[]> {
  readonly #fn: (...args: A) => void;
  readonly #args: A;
  readonly #dueAt: number;
  readonly #timer: NodeJS.Timeout;
  #turn: NodeJS.Immediate | undefined;

  constructor(fn: (...args: A) => void, args: A, timeoutMs: number) {
    this.#fn = fn;
    this.#args = args;
    this.#dueAt = performance.now() + timeoutMs;
    this.#timer = setTimeout(passed, timeoutMs, this);
  }

  /** [SYSTEM-CLOCK-1] */
  passed(): void {
    if (performance.now() - this.#dueAt < lateMs) this.fire();
    else this.#turn = setImmediate(fired, this);
  }

  fire(): void {
    this.#fn(...this.#args);
  }

  clear(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#turn);
  }

  unref(): void {
    this.#timer.unref();
  }
}

const passed = (wait: Pick<Wait<unknown[]>, 'passed'>) => wait.passed();
const fired = (wait: Pick<Wait<unknown[]>, 'fire'>) => wait.fire();

/** Monotonic ms, the same for all processes since the machine booted. */
export const bootMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/**
 * Resolves in the next turn of the event loop: pending callbacks run first, and all promises that settle in this turn
 * have settled.
 */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

let arrived: (() => void)[] = [];
let polled: (() => void)[] = [];

/**
 * Runs `work`, which must not throw, after the event loop has looked at its sockets once more: what had arrived by now is read before it. All that
 * waits shares one callback of a turn.
 */
export function afterPoll(work: () => void): void {
  if (arrived.length + polled.length === 0) setImmediate(turned);
  arrived.push(work);
}

/** Runs behind the look at the sockets. What was asked for since the one before may have come during this one, and waits for the next. */
function turned(): void {
  const due = polled;
  polled = arrived;
  arrived = [];
  if (polled.length > 0) setImmediate(turned);
  for (const work of due) work();
}
