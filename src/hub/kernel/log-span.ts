/**
 * Finds the part of the log that was recorded between two instants, by bisection, so that a search by time reads nothing
 * else.
 *
 * LOG-SPAN-1  The part contains every event of the time: it begins and ends `slackMs` further out, because `at` goes back
 *     when the wall clock is set back. The reader filters by `at` itself.
 * LOG-SPAN-2  Of a clock that is known to have been set back further, a reader that may miss nothing gets the whole log: there a
 *     bisection may land behind what it looks for.
 */
import type { Range, Seq, Store } from '../../../storage/contract.ts';
import { instantText } from '../../domain/instant.ts';
import type { Clock } from '../../kit/clock.ts';

/** Set back by more than this, ms, the clock leaves events that a list by time does not find. */
const slackMs = 600_000;

/** RFC 3339 bounds in UTC with milliseconds, inclusive and exclusive. */
export interface TimeBounds {
  readonly from?: string;
  readonly to?: string;
}

export async function logSpan(store: Store, { from, to }: TimeBounds): Promise<Range> {
  const whole = { after: store.horizon(), upTo: store.head() };
  return {
    after: from === undefined ? whole.after : await lastBefore(store, whole, moved(from, -slackMs)),
    upTo: to === undefined ? whole.upTo : await lastBefore(store, whole, moved(to, slackMs)),
  };
}

/** Like `logSpan`, for a reader that may miss nothing. [LOG-SPAN-2] */
export function completeSpan(store: Store, clock: Pick<Clock, 'steps'>, bounds: TimeBounds): Promise<Range> {
  return logSpan(store, wasSetBack(clock) ? {} : bounds);
}

/** Whether the time of day ran more than `slackMs` behind what it had been before, measured by hub time. */
function wasSetBack({ steps }: Pick<Clock, 'steps'>): boolean {
  let most = Number.NEGATIVE_INFINITY;
  return steps.stretches.some(({ ahead }) => {
    most = Math.max(most, ahead);
    return most - ahead > slackMs;
  });
}

/** The instant `ms` later; earlier when negative. */
export const moved = (at: string, ms: number): string => instantText(Date.parse(at) + ms);

export const isWithin = (at: string, { from, to }: TimeBounds): boolean =>
  (from === undefined || at >= from) && (to === undefined || at < to);

/** The last sequence whose event was recorded before the instant; `after` of the range when there is none. */
async function lastBefore(store: Store, { after, upTo }: Range, at: string): Promise<Seq> {
  let [low, high] = [after, upTo];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const [event] = await store.ranges([{ after: middle - 1, upTo: middle }]);
    // An event that a trim has removed meanwhile is older than all others.
    if (event === undefined || event.at < at) low = middle;
    else high = middle - 1;
  }
  return low;
}
