/**
 * The one simulated clock: a test lets minutes pass by `advance`, while sockets and disks stay real.
 *
 * TEST-SIMULATED-CLOCK-1  Time leaps, as on a machine that slept: whatever fell due meanwhile fires in order of due time, and sees the later time. What it arms
 *     waits for the next advance.
 */
import type { Clock } from '../../src/kit/clock.ts';

interface Timer {
  readonly due: number;
  readonly fire: () => void;
}

export class SimulatedClock implements Clock {
  readonly #startedAt: number;
  #passed = 0;
  readonly #timers = new Set<Timer>();

  /** RFC 3339; the epoch when absent. */
  constructor(startedAt?: string) {
    this.#startedAt = startedAt === undefined ? 0 : Date.parse(startedAt);
  }

  now(): number {
    return this.#startedAt + this.#passed;
  }

  monotonic(): number {
    return this.#passed;
  }

  setTimeout<A extends unknown[]>(fn: (...args: A) => void, timeoutMs: number, ...args: A): Timer {
    const timer = { due: this.#passed + timeoutMs, fire: () => fn(...args) };
    this.#timers.add(timer);
    return timer;
  }

  clearTimeout(id: unknown): void {
    this.#timers.delete(id as Timer);
  }

  /** Waits that have neither ended nor fired. */
  get pending(): number {
    return this.#timers.size;
  }

  /** [TEST-SIMULATED-CLOCK-1] */
  advance(ms: number): void {
    this.#passed += ms;
    // Stable: of those due at the same instant the one that was armed first fires first.
    const due = [...this.#timers].filter((timer) => timer.due <= this.#passed).sort((a, b) => a.due - b.due);
    for (const timer of due) if (this.#timers.delete(timer)) timer.fire();
  }
}
