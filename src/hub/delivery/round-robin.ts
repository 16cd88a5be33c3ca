/**
 * First-in-first-out queue with O(1) `first`, `add` and `delete` from the middle. A `Set` is not O(1): to find its
 * first member it skips every entry deleted before it.
 *
 * ROUND-ROBIN-1  A member is in the queue once; adding it again keeps its place.
 */

interface Place<T> {
  readonly member: T;
  before: Place<T> | null;
  after: Place<T> | null;
}

export class RoundRobin<T> {
  readonly #places = new Map<T, Place<T>>();
  #first: Place<T> | null = null;
  #last: Place<T> | null = null;

  get first(): T | undefined {
    return this.#first?.member;
  }

  /** Appends a member unless it is in the queue. [ROUND-ROBIN-1] */
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
