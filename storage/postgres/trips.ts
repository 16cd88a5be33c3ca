/**
 * How long a node's way to the database takes, beside that of other nodes.
 *
 * TRIPS-1  A way is as long as the shortest of the last `counted` beats: a busy machine makes some of them long, a slow
 *     link all.
 * TRIPS-2  It is slow when it takes more than `slowMs`, and `slowTimes` that of another live node: never of two nodes
 *     at once.
 */
const counted = 10;
const [slowMs, slowTimes] = [50, 4];

/** Round trips to the database, ms. */
export interface Slowness {
  readonly ms: number;
  /** The shortest of the other live nodes. */
  readonly otherMs: number;
}

export class Trips {
  readonly #last: number[] = [];

  add(ms: number): void {
    this.#last.push(ms);
    if (this.#last.length > counted) this.#last.shift();
  }

  /** Whole ms; null until there were enough beats. [TRIPS-1] */
  ms(): number | null {
    return this.#last.length < counted ? null : Math.ceil(Math.min(...this.#last));
  }

  /** Null unless this node's way is slow. [TRIPS-2] */
  slowness(others: readonly (number | null)[]): Slowness | null {
    const ms = this.ms();
    const otherMs = Math.min(...others.map((each) => each ?? Number.POSITIVE_INFINITY));
    return ms !== null && ms > slowMs && ms > slowTimes * otherMs ? { ms, otherMs } : null;
  }
}
