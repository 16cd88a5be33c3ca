/**
 * What is kept in memory by name, bounded in number and in characters: the oldest go first.
 */
import { getHeapStatistics } from 'node:v8';

const countMax = 16_384;
/** That many of a thousand characters. A small process keeps less. */
const charactersMax = Math.min(16 << 20, getHeapStatistics().heap_size_limit / 64);

export class FifoCache<T> {
  readonly #kept = new Map<string, T>();
  readonly #sizeOf: (value: T) => number;
  /** Goes on from the one that it gave last: a new one would walk over all that have gone. */
  #oldest = this.#kept.keys();
  /** Taken out since it was new. */
  #gone = 0;
  #characters = 0;

  /** `sizeOf`: characters of a value, which stay as many. */
  constructor(sizeOf: (value: T) => number) {
    this.#sizeOf = sizeOf;
  }

  get(name: string): T | undefined {
    return this.#kept.get(name);
  }

  /** In the place of what had this name; it is the newest then. */
  add(name: string, value: T): void {
    this.delete(name);
    this.#kept.set(name, value);
    this.#characters += this.#sizeOf(value);
    while (this.#kept.size > countMax || this.#characters > charactersMax) this.#dropOldest();
  }

  delete(name: string): void {
    const value = this.#kept.get(name);
    if (value === undefined) return;
    this.#kept.delete(name);
    this.#characters -= this.#sizeOf(value);
    this.#gone += 1;
    // An iterator that stands still keeps alive every table that the map has had since, with all that was in it.
    if (this.#gone > this.#kept.size) this.#begin();
  }

  #begin(): void {
    this.#oldest = this.#kept.keys();
    this.#gone = 0;
  }

  #dropOldest(): void {
    const { value, done } = this.#oldest.next();
    if (done) this.#begin();
    else this.delete(value);
  }
}
