/**
 * What a hub has under way, seen at its edges: calls of its store, calls to partners, and waits of its clock that are over in a moment.
 * Whatever it does by itself is one of them, or follows from one within a turn of the event loop; so it is settled when there is none.
 * What waits for a due time does not count.
 */
import type { Clock } from '../../src/kit/clock.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import { RunningTimer } from './standstill.ts';
import { Changes, within } from './within.ts';

/** A partner of a test: what it holds is not the hub's to end. */
export interface Holder {
  readonly holding: number;
  changed(): Promise<void>;
}

/** Waits up to here are no due times, but work that is gathered or paced. */
const momentMs = 50;
/** What follows from the end of a call begins within so many turns; a large text waits for four. */
const turns = 5;
/** Longer than a machine stands still. */
const standstillMs = 30_000;
const limitMs = 150_000;

export class UnderWay {
  readonly #names = new Map<unknown, string>();
  readonly #changes = new Changes();
  #begun = 0;

  /** Counts what is called of a port until it has ended. */
  readonly wrap = <P extends object>(port: P): P =>
    new Proxy(port, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== 'function') return member;
        return (...args: unknown[]) => this.#counted(String(name), member.apply(target, args));
      },
    });

  /** The system's, with its short waits counted. */
  readonly clock: Clock = {
    ...systemClock,
    setTimeout: (fn, timeoutMs, ...args) => {
      const timer = new RunningTimer(() => {
        this.#end(timer);
        fn(...args);
      }, timeoutMs);
      if (timeoutMs <= momentMs) this.#begin(timer, 'a wait');
      return timer;
    },
    clearTimeout: (timer) => {
      if (timer instanceof RunningTimer) timer.clear();
      this.#end(timer);
    },
  };

  /** Resolves when nothing is under way but what these partners hold. */
  async settled(...holders: readonly Holder[]): Promise<void> {
    const held = () => holders.reduce((sum, { holding }) => sum + holding, 0);
    const isStill = () => this.#names.size === held();
    const late = () =>
      `the hub does not settle; ${held()} calls are held, under way are: ${[...this.#names.values()].join(', ')}`;
    for (const end = performance.now() + limitMs; ; ) {
      const begun = this.#begun;
      for (let n = 0; n < turns && isStill(); n++) await new Promise((resolve) => setImmediate(resolve));
      if (isStill() && begun === this.#begun) return;
      const changed = [this.#changes.next(), ...holders.map((holder) => holder.changed())];
      if (!isStill()) await within(Math.min(standstillMs, end - performance.now()), Promise.race(changed), late);
    }
  }

  #counted(name: string, result: unknown): unknown {
    if (result instanceof Promise) return this.#until(name, result);
    if (!isIterable(result)) return result;
    return { [Symbol.asyncIterator]: () => this.wrap(result[Symbol.asyncIterator]()) };
  }

  #until<T>(name: string, result: Promise<T>): Promise<T> {
    this.#begin(result, name);
    return result.finally(() => this.#end(result));
  }

  #begin(what: unknown, name: string): void {
    this.#names.set(what, name);
    this.#begun++;
    this.#changes.tell();
  }

  #end(what: unknown): void {
    if (this.#names.delete(what)) this.#changes.tell();
  }
}

const isIterable = (value: unknown): value is AsyncIterable<unknown> =>
  typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
