/**
 * A bounded memory of the entries set last. When the younger of its two generations is full, the older is dropped whole.
 */
export class TwoGenerations<V> {
  readonly #max: number;
  #young = new Map<string, V>();
  #old = new Map<string, V>();

  /** Keeps at least the last `max` entries, and at most twice as many. */
  constructor(max: number) {
    this.#max = max;
  }

  get(key: string): V | undefined {
    return this.#young.get(key) ?? this.#old.get(key);
  }

  set(key: string, value: V): void {
    if (this.#young.size >= this.#max) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, value);
  }

  clear(): void {
    this.#young = new Map();
    this.#old = new Map();
  }
}
