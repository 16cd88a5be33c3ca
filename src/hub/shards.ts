/**
 * The shards whose parties live in this hub, as they come and go while it runs.
 *
 *     elsewhere → coming → here → going → elsewhere
 *
 * Z1  What is recorded of a shard is brought back while it comes, and put away while it goes. What anybody else wants of its parties waits
 *     meanwhile, and is then done here or where they live by then.
 */
import type { Shard } from '../../storage/contract.ts';

export class Shards implements Iterable<Shard> {
  readonly #standing = new Map<Shard, 'coming' | 'here' | 'going'>();
  #waiting: (() => void)[] = [];
  #changes = 0;
  #closed = false;

  /** Whether a shard is here, comes or goes. */
  has(shard: Shard): boolean {
    return this.#standing.has(shard);
  }

  get size(): number {
    return this.#standing.size;
  }

  isGoing(shard: Shard): boolean {
    return this.#standing.get(shard) === 'going';
  }

  [Symbol.iterator](): Iterator<Shard> {
    return this.#standing.keys();
  }

  /** Another number after every change of what is here. */
  get changes(): number {
    return this.#changes;
  }

  /** Resolves when a shard neither comes nor goes. */
  async settled(shard: Shard): Promise<void> {
    while (!this.#closed && (this.#standing.get(shard) ?? 'here') !== 'here') {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  come(shards: Iterable<Shard>): void {
    for (const shard of shards) this.#standing.set(shard, 'coming');
    this.#changes += 1;
  }

  /** They are here. */
  stay(shards: Iterable<Shard>): void {
    for (const shard of shards) if (this.has(shard)) this.#standing.set(shard, 'here');
    this.#wake();
  }

  go(shards: Iterable<Shard>): void {
    for (const shard of shards) this.#standing.set(shard, 'going');
  }

  gone(shards: Iterable<Shard>): void {
    for (const shard of shards) this.#standing.delete(shard);
    this.#changes += 1;
    this.#wake();
  }

  /** Nothing comes or goes any more: whoever waits goes on, and is refused. */
  close(): void {
    this.#closed = true;
    this.#wake();
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }
}
