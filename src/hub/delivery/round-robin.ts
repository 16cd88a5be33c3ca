/**
 * A queue in order of turn from whose middle may be taken: each step costs the same, however many wait. A `Set` does not: to find
 * its first member it passes over those that were deleted before.
 *
 * ROUND-ROBIN-1  A member stands in it once; added again it keeps its place.
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

  /** At the end, unless it has a place. [ROUND-ROBIN-1] */
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
