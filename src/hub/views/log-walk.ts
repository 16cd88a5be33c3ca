/**
 * Scans the log forwards or backwards, in batches, for the events that pass a filter.
 *
 * LOG-WALK-1  So many events are looked at for one request. Where it stopped is known, and the next request goes on there.
 */
import type { Range, Seq, Store, StoredEvent } from '../../../storage/contract.ts';

/** Events read in one step; as many steps as one request may take. [LOG-WALK-1] */
const step = 500;
const stepsMax = 40;

export class LogWalk {
  readonly #store: Store;
  readonly #isForwards: boolean;
  readonly #fits: (event: StoredEvent) => boolean;
  #left: readonly Range[];
  /** Read, and wanted. */
  readonly #found: StoredEvent[] = [];
  #steps = 0;

  /** `ranges`: in the order of reading. What was trimmed of them is passed over. */
  constructor(
    store: Store,
    ranges: readonly Range[],
    order: 'oldest' | 'newest',
    fits: (event: StoredEvent) => boolean,
  ) {
    const horizon = store.horizon();
    const kept = ranges.map(({ after, upTo }) => ({ after: Math.max(after, horizon), upTo }));
    this.#store = store;
    this.#isForwards = order === 'oldest';
    this.#fits = fits;
    this.#left = kept.filter(({ after, upTo }) => after < upTo);
  }

  /** The next one that fits; null: there is none, or so much was looked at that somebody else goes first. */
  async next(): Promise<StoredEvent | null> {
    while (this.#found.length === 0 && this.#left.length > 0 && this.#steps < stepsMax) {
      this.#steps += 1;
      const events = await this.#store.ranges(this.#take());
      if (!this.#isForwards) events.reverse();
      this.#found.push(...events.filter(this.#fits));
    }
    return this.#found.shift() ?? null;
  }

  /** The next event to look at; null at the end. */
  get rest(): Seq | null {
    const [event] = this.#found;
    const [range] = this.#left;
    if (event) return event.seq;
    return range ? (this.#isForwards ? range.after + 1 : range.upTo) : null;
  }

  /** The stretches of the next step. */
  #take(): Range[] {
    const taken: Range[] = [];
    const left = [...this.#left];
    for (let room = step; room > 0; ) {
      const range = left.shift();
      if (!range) break;
      const { after, upTo } = range;
      const count = Math.min(room, upTo - after);
      const [now, later] = this.#isForwards
        ? [
            { after, upTo: after + count },
            { after: after + count, upTo },
          ]
        : [
            { after: upTo - count, upTo },
            { after, upTo: upTo - count },
          ];
      taken.push(now);
      if (later.after < later.upTo) left.unshift(later);
      room -= count;
    }
    this.#left = left;
    return taken;
  }
}
