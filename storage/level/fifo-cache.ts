/** In-memory FIFO cache by name, bounded in number of entries and in characters: evicts the oldest entries first. */
import { getHeapStatistics } from 'node:v8';

const countMax = 16_384;
/** 16 Mi characters (`countMax` entries of 1,024 each), or less in a process with a small heap. */
const charactersMax = Math.min(16 << 20, getHeapStatistics().heap_size_limit / 64);

export class FifoCache<T> {
  readonly #kept = new Map<string, T>();
  readonly #sizeOf: (value: T) => number;
  /**
   * Iterator over the oldest keys, reused between evictions: a new iterator would step over every deleted entry again.
   */
  #oldest = this.#kept.keys();
  /** Entries removed since `#oldest` was created. */
  #gone = 0;
  #characters = 0;

  /** `sizeOf`: characters of a value; must not change while the value is cached. */
  constructor(sizeOf: (value: T) => number) {
    this.#sizeOf = sizeOf;
  }

  get(name: string): T | undefined {
    return this.#kept.get(name);
  }

  /** Replaces an entry of the same name and makes it the newest. */
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
    // An idle iterator keeps alive every internal table that the map has had since, with its entries.
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
