/**
 * Data structures of the delivery queues: every delivery changes them, so none may walk over a backlog.
 *
 * QUEUES-1  A member is in a `RoundRobin` once; adding it again keeps its place. That a lane is in its group once is for `lanes.ts` to see to.
 * QUEUES-2  A `GroupedRoundRobin` keeps a group without members only while it is its only one.
 * QUEUES-3  A `MultisetMin` holds at most twice as many distinct numbers as the multiset, or `goneMin` more.
 */
import TinyQueue from 'tinyqueue';

/** Where a member is in a `Ring`. */
export interface Place<T> {
  readonly member: T;
  before: Place<T> | null;
  after: Place<T> | null;
}

/** First-in-first-out queue; a member leaves it, from the middle too, by the place that it got. */
class Ring<T> {
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

  add(member: T): Place<T> {
    const place: Place<T> = { member, before: null, after: null };
    this.#link(place);
    return place;
  }

  remove({ before, after }: Place<T>): void {
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    else this.#last = before;
  }

  toEnd(place: Place<T>): void {
    if (!place.after) return;
    this.remove(place);
    this.#link(place);
  }

  #link(place: Place<T>): void {
    place.before = this.#last;
    place.after = null;
    if (this.#last) this.#last.after = place;
    else this.#first = place;
    this.#last = place;
  }
}

/**
 * First-in-first-out queue with O(1) `first`, `add` and `delete` from the middle. A `Set` is not O(1): to find its
 * first member it skips every entry deleted before it.
 */
export class RoundRobin<T> {
  readonly #places = new Map<T, Place<T>>();
  readonly #ring = new Ring<T>();

  get first(): T | undefined {
    return this.#ring.first;
  }

  /** Appends a member unless it is in the queue. [QUEUES-1] */
  add(member: T): void {
    if (!this.#places.has(member)) this.#places.set(member, this.#ring.add(member));
  }

  /** Does nothing for a member that is not in the queue. */
  delete(member: T): void {
    const place = this.#places.get(member);
    if (!place) return;
    this.#places.delete(member);
    this.#ring.remove(place);
  }
}

class Group<T> {
  key: string;
  readonly members = new Ring<T>();
  readonly place: Place<Group<T>>;

  constructor(key: string, turns: Ring<Group<T>>) {
    this.key = key;
    this.place = turns.add(this);
  }
}

/** Groups of members take turns, and so do the members of each group; O(1) as `RoundRobin`, and without garbage of its own while there is one group. */
export class GroupedRoundRobin<T> {
  readonly #groups = new Map<string, Group<T>>();
  readonly #turns = new Ring<Group<T>>();

  /** The first member of the group whose turn it is. */
  get first(): T | undefined {
    return this.#turns.first?.members.first;
  }

  /** The first member of a group. */
  firstIn(key: string): T | undefined {
    return this.#groups.get(key)?.members.first;
  }

  /** The first for which it holds of about `most` members: as many of each group, and of each at least one. */
  firstOf(most: number, holds: (member: T) => boolean): T | undefined {
    const each = Math.max(1, Math.floor(most / this.#groups.size));
    let found: T | undefined;
    this.#turns.firstOf(most, ({ members }) => {
      found = members.firstOf(each, holds);
      return found !== undefined;
    });
    return found;
  }

  /** Appends a member, which is in no group, to one. */
  add(key: string, member: T): Place<T> {
    return this.#groupOf(key).members.add(member);
  }

  /** Removes a member by the place that `add` gave; its group has had its turn. */
  remove(key: string, place: Place<T>): void {
    const group = this.#groups.get(key);
    if (!group) return;
    group.members.remove(place);
    if (group.members.first !== undefined || this.#groups.size === 1) return this.#turns.toEnd(group.place);
    this.#groups.delete(key);
    this.#turns.remove(group.place);
  }

  /** [QUEUES-2] */
  #groupOf(key: string): Group<T> {
    const known = this.#groups.get(key);
    if (known) return known;
    let group = this.#turns.first;
    if (group && group.members.first === undefined) {
      this.#groups.delete(group.key);
      group.key = key;
    } else group = new Group(key, this.#turns);
    this.#groups.set(key, group);
    return group;
  }
}

/** Removed numbers that may stay in the queue before a sweep is worth its walk. */
const goneMin = 64;

/**
 * Minimum of a multiset of instants or sequences, kept while they are added and removed: it is read often, and a walk over
 * the backlog is too slow. [QUEUES-3]
 */
export class MultisetMin {
  #queue = new TinyQueue<number>();
  /** Count of each number in the queue; 0: removed, dropped when it comes to the top or by a sweep. */
  readonly #held = new Map<number, number>();
  #gone = 0;

  /** The lowest; null when the multiset is empty. */
  get at(): number | null {
    return this.#queue.peek() ?? null;
  }

  /** Distinct numbers in memory. */
  get kept(): number {
    return this.#held.size;
  }

  has(at: number): boolean {
    return (this.#held.get(at) ?? 0) > 0;
  }

  add(at: number): void {
    const held = this.#held.get(at);
    if (held === undefined) this.#queue.push(at);
    if (held === 0) this.#gone--;
    this.#held.set(at, (held ?? 0) + 1);
  }

  /** Removes one occurrence of a number that was added. */
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

/** What memory holds of a sending partner. */
export interface Source {
  /** Deliveries in memory. */
  readonly size: number;
  /** Deliveries that its lanes have left in the log. */
  readonly skipped: number;
  /** Lanes that are ready or in flight; the others wait, for another attempt or another lane. */
  readonly moving: number;
}

export const noSource: Source = { size: 0, skipped: 0, moving: 0 };

/** Counts what memory holds of one module of a receiver, by sending partner: the room of each follows from it. [WINDOW-2] */
export class Sources {
  /** Only those of which there is something. */
  readonly #sources = new Map<string, { -readonly [K in keyof Source]: number }>();
  #size = 0;
  #skipped = 0;

  get size(): number {
    return this.#size;
  }

  get skipped(): number {
    return this.#skipped;
  }

  of(partner: string): Source {
    return this.#sources.get(partner) ?? noSource;
  }

  count(partner: string, { size = 0, skipped = 0, moving = 0 }: Partial<Source>): void {
    let source = this.#sources.get(partner);
    if (!source) {
      source = { size: 0, skipped: 0, moving: 0 };
      this.#sources.set(partner, source);
    }
    source.size += size;
    source.skipped += skipped;
    source.moving += moving;
    this.#size += size;
    this.#skipped += skipped;
    if (source.size + source.skipped + source.moving === 0) this.#sources.delete(partner);
  }
}
