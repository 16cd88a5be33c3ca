/** XState's simulated clock with the time of day: a test lets minutes pass by `increment`, while sockets and disks stay real. */
import { SimulatedClock } from 'xstate';
import type { Clock } from '../../src/hub/ports.ts';

export class DayClock implements Clock {
  readonly #clock = new SimulatedClock();
  readonly #startedAt: number;

  constructor(startedAt: string) {
    this.#startedAt = Date.parse(startedAt);
  }

  now(): number {
    return this.#startedAt + this.#clock.now();
  }

  setTimeout(fn: (...args: unknown[]) => void, timeoutMs: number): unknown {
    return this.#clock.setTimeout(fn, timeoutMs);
  }

  clearTimeout(id: unknown): void {
    this.#clock.clearTimeout(id as number);
  }

  /** Lets time pass and everything fire that falls due. */
  increment(ms: number): void {
    this.#clock.increment(ms);
  }
}
