/**
 * The earliest of the instants that are held, kept while they come and go: it is asked for often, and walking a backlog costs.
 *
 * MULTISET-MIN-1  What is kept is never more than twice what is held (and a few).
 */
import TinyQueue from 'tinyqueue';

/** Below so many, instants that are gone are not worth a walk. */
const goneMin = 64;

export class MultisetMin {
  #queue = new TinyQueue<number>();
  /** How often each instant of the queue is held; 0: gone, and dropped when it comes to the top. */
  readonly #held = new Map<number, number>();
  #gone = 0;

  /** Epoch ms; null when none is held. */
  get at(): number | null {
    return this.#queue.peek() ?? null;
  }

  /** Distinct instants in memory. */
  get kept(): number {
    return this.#held.size;
  }

  add(at: number): void {
    const held = this.#held.get(at);
    if (held === undefined) this.#queue.push(at);
    if (held === 0) this.#gone--;
    this.#held.set(at, (held ?? 0) + 1);
  }

  /** Of what was added. */
  remove(at: number): void {
    const held = (this.#held.get(at) ?? 0) - 1;
    this.#held.set(at, held);
    if (held > 0) return;
    this.#gone++;
    this.#dropTop();
    if (this.#gone > goneMin && this.#gone * 2 > this.#held.size) this.#sweep();
  }

  #dropTop(): void {
    for (let top = this.#queue.peek(); top !== undefined && this.#held.get(top) === 0; top = this.#queue.peek()) {
      this.#queue.pop();
      this.#held.delete(top);
      this.#gone--;
    }
  }

  #sweep(): void {
    for (const [at, held] of this.#held) if (held === 0) this.#held.delete(at);
    this.#queue = new TinyQueue([...this.#held.keys()]);
    this.#gone = 0;
  }
}
