/**
 * Named timers of the hub: one queue holds every deadline as an absolute instant, with one timer of the platform for
 * the earliest.
 *
 * TIMERS-1  A deadline is an instant, never a delay: one that is armed again after a restart fires when it would have
 *     fired without the restart.
 * TIMERS-2  One deadline per id: arming it again moves it.
 * TIMERS-3  Due deadlines fire in order of instant, also when the process was suspended past several.
 * TIMERS-4  The queue holds at most twice as many entries as there are deadlines, or `goneMin` more.
 */
import TinyQueue from 'tinyqueue';
import { type Clock, hourMs } from '../../kit/clock.ts';
import type { Log } from '../ports/ports.ts';

/** Longest timer, ms: Node fires a timer of more than 2^31 - 1 ms at once, so a longer wait is checked once an hour. */
const longestTimerMs = hourMs;

const goneMin = 64;

interface Entry {
  readonly at: number;
  readonly id: string;
}

const queueOf = (entries: Entry[]) => new TinyQueue(entries, (a, b) => a.at - b.at);

export class Timers {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #armed = new Map<string, { readonly at: number; readonly fire: (at: number) => void }>();
  /** Lazy deletion: an entry that is not in `#armed` was moved or disarmed, and is skipped at its instant. */
  #queue = queueOf([]);
  #timer: { readonly at: number; readonly handle: unknown } | null = null;
  #isClosed = false;

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Calls `fire` once when the instant (hub time, ms) has passed; arming the same id again moves the deadline. */
  arm(id: string, at: number, fire: (at: number) => void): void {
    // NaN or Infinity would stay at the head of the queue for ever and block every other timer.
    if (!Number.isFinite(at)) throw new RangeError(`deadline ${id}: ${at} is not an instant`);
    const before = this.#armed.get(id);
    this.#armed.set(id, { at, fire });
    if (before?.at === at) return;
    this.#queue.push({ at, id });
    this.#sweep();
    this.#schedule();
  }

  disarm(id: string): void {
    this.#armed.delete(id);
    this.#sweep();
  }

  /** Number of armed timers. */
  get size(): number {
    return this.#armed.size;
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer) this.#clock.clearTimeout(this.#timer.handle);
  }

  #fireDue(): void {
    this.#timer = null;
    for (let next = this.#queue.peek(); next && next.at <= this.#clock.now(); next = this.#queue.peek()) {
      if (this.#isClosed) return;
      this.#queue.pop();
      const due = this.#armed.get(next.id);
      if (due?.at !== next.at) continue;
      this.#armed.delete(next.id);
      try {
        due.fire(next.at);
      } catch (error) {
        this.#log.error({ err: error, deadline: next.id }, 'the handler of a deadline failed');
      }
    }
    this.#sweep();
    this.#schedule();
  }

  /** [TIMERS-4] */
  #sweep(): void {
    if (this.#queue.length <= 2 * this.#armed.size + goneMin) return;
    this.#queue = queueOf([...this.#armed].map(([id, { at }]) => ({ at, id })));
  }

  #schedule(): void {
    const next = this.#queue.peek();
    if (this.#isClosed || (this.#timer && next && this.#timer.at <= next.at)) return;
    if (this.#timer) this.#clock.clearTimeout(this.#timer.handle);
    this.#timer = null;
    if (!next) return;
    const delayMs = Math.min(Math.max(0, next.at - this.#clock.now()), longestTimerMs);
    this.#timer = { at: next.at, handle: this.#clock.setTimeout(() => this.#fireDue(), delayMs) };
  }
}
