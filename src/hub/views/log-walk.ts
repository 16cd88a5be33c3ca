/**
 * Scans the log forwards or backwards, in batches, for the events that pass a filter.
 *
 * LOG-WALK-1  One request reads at most `step` × `stepsMax` (20,000) events; the next one continues at `rest`.
 */
import type { Range, Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import type { Order } from '../ports/operator.ts';

/** Events of one step, and steps of one request at most: more would delay other requests. [LOG-WALK-1] */
const step = 500;
const stepsMax = 40;

export class LogWalk {
  readonly #store: Store;
  readonly #isForwards: boolean;
  readonly #fits: (event: StoredEvent) => boolean;
  #left: readonly Range[];
  /** Events that were read and pass the filter. */
  readonly #found: StoredEvent[] = [];
  #steps = 0;

  /** `ranges`: in the order of reading; their trimmed parts are skipped. */
  constructor(store: Store, ranges: readonly Range[], order: Order, fits: (event: StoredEvent) => boolean) {
    const horizon = store.horizon();
    const kept = ranges.map(({ after, upTo }) => ({ after: Math.max(after, horizon), upTo }));
    this.#store = store;
    this.#isForwards = order === 'oldest';
    this.#fits = fits;
    this.#left = kept.filter(({ after, upTo }) => after < upTo);
  }

  /** The next event that passes the filter; null when none is left or the request has used its steps. */
  async next(): Promise<StoredEvent | null> {
    while (this.#found.length === 0 && this.#left.length > 0 && this.#steps < stepsMax) {
      this.#steps += 1;
      const events = await this.#store.ranges(this.#take());
      if (!this.#isForwards) events.reverse();
      this.#found.push(...events.filter(this.#fits));
    }
    return this.#found.shift() ?? null;
  }

  /** Sequence of the next event to examine; null at the end. */
  get rest(): Seq | null {
    const [event] = this.#found;
    const [range] = this.#left;
    if (event) return event.seq;
    return range ? (this.#isForwards ? range.after + 1 : range.upTo) : null;
  }

  /** Takes the ranges of the next step, `step` events together. */
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

// Cursors of operators' lists: one or two numbers, joined by a dot.

/** The numbers of a cursor; none for the first page. Refuses text that no list of the hub issues. */
export function readCursor(cursor: string | null): readonly number[] {
  if (cursor === null) return [];
  if (!/^\d{1,16}(\.\d{1,16})?$/.test(cursor)) throw notOurs();
  return cursor.split('.').map(Number);
}

export const notOurs = () => new HubError('invalid', { message: 'cursor: not one of ours' });
