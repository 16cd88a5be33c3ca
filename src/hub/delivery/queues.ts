/**
 * Data structures of the delivery queues: every delivery changes them, so neither may walk over a backlog.
 *
 * QUEUES-1  A member is in a `RoundRobin` once; adding it again keeps its place.
 * QUEUES-2  A `MultisetMin` holds at most twice as many distinct instants as the multiset, or `goneMin` more.
 */
import TinyQueue from 'tinyqueue';

interface Place<T> {
  readonly member: T;
  before: Place<T> | null;
  after: Place<T> | null;
}

/**
 * First-in-first-out queue with O(1) `first`, `add` and `delete` from the middle. A `Set` is not O(1): to find its
 * first member it skips every entry deleted before it.
 */
export class RoundRobin<T> {
  readonly #places = new Map<T, Place<T>>();
  #first: Place<T> | null = null;
  #last: Place<T> | null = null;

  get first(): T | undefined {
    return this.#first?.member;
  }

  /** The first of the first `most` members for which it holds. */
  firstOf(most: number, holds: (member: T) => boolean): T | undefined {
    let place = this.#first;
    for (let left = most; place !== null && left > 0; left--, place = place.after) {
      if (holds(place.member)) return place.member;
    }
    return undefined;
  }

  /** Appends a member unless it is in the queue. [QUEUES-1] */
  add(member: T): void {
    if (this.#places.has(member)) return;
    const place: Place<T> = { member, before: this.#last, after: null };
    if (this.#last) this.#last.after = place;
    else this.#first = place;
    this.#last = place;
    this.#places.set(member, place);
  }

  delete(member: T): void {
    const place = this.#places.get(member);
    if (!place) return;
    this.#places.delete(member);
    const { before, after } = place;
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    else this.#last = before;
  }
}

/** Removed instants that may stay in the queue before a sweep is worth its walk. */
const goneMin = 64;

/**
 * Minimum of a multiset of instants, kept while instants are added and removed: it is read often, and a walk over the
 * backlog is too slow. [QUEUES-2]
 */
export class MultisetMin {
  #queue = new TinyQueue<number>();
  /** Count of each instant in the queue; 0: removed, dropped when it comes to the top or by a sweep. */
  readonly #held = new Map<number, number>();
  #gone = 0;

  /** Earliest instant, hub time, ms; null when the multiset is empty. */
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

  /** Removes one occurrence of an instant that was added. */
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
