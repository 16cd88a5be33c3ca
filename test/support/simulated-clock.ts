/**
 * The one simulated clock: a test lets minutes pass by `advance`, while sockets and disks stay real.
 *
 * TEST-SIMULATED-CLOCK-1  Time leaps, as on a machine that slept: whatever fell due meanwhile fires in order of due time, and sees the later time. What it arms
 *     waits for the next advance.
 * TEST-SIMULATED-CLOCK-2  `step` moves the time of day alone, and the clock notices it at once.
 */
import { type Clock, facesOf } from '../../src/kit/clock.ts';

interface Timer {
  readonly due: number;
  readonly fire: () => void;
}

export class SimulatedClock implements Clock {
  readonly #startedAt: number;
  readonly #faces: ReturnType<typeof facesOf>;
  #passed = 0;
  #stepped = 0;
  readonly #timers = new Set<Timer>();

  /** RFC 3339; the epoch when absent. */
  constructor(startedAt?: string) {
    this.#startedAt = startedAt === undefined ? 0 : Date.parse(startedAt);
    this.#faces = facesOf(
      () => this.#startedAt + this.#passed,
      () => this.#startedAt + this.#passed + this.#stepped,
    );
  }

  get steps() {
    return this.#faces.steps;
  }

  now(): number {
    return this.#faces.now();
  }

  wall(): number {
    return this.#faces.wall();
  }

  steady(wall: number): number {
    return this.#faces.steady(wall);
  }

  stamp(at: number): number {
    return this.#faces.stamp(at);
  }

  /** [TEST-SIMULATED-CLOCK-2] */
  step(ms: number): void {
    this.#stepped += ms;
    this.wall();
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
