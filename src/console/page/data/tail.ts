/**
 * What a page keeps of the log's live end, and what each answer of the hub makes of it.
 */
import type { EventPage, EventView } from '../../../hub/ports/operator.ts';

export interface Tail {
  /** Newest first. */
  readonly events: readonly EventView[];
  /** Came while it was paused, newest first. */
  readonly waiting: readonly EventView[];
  readonly isPaused: boolean;
  /** Events of the log that went by too fast to be looked at. */
  readonly passedOver: number;
  /** Where a search further back goes on; null: the beginning of the log was reached. */
  readonly older: string | null;
  /** The first event that is still in the log. */
  readonly keptFrom: number;
  readonly isLoading: boolean;
  readonly isSearching: boolean;
  /** Why the hub was not heard the last time, in a sentence. */
  readonly error: string | null;
}

export const keptMax = 1_000;
export const nothing: Tail = {
  ...{ events: [], waiting: [], isPaused: false, passedOver: 0, older: null, keptFrom: 1 },
  ...{ isLoading: true, isSearching: false, error: null },
};

export function begun(now: Tail, page: EventPage): Tail {
  return {
    ...now,
    events: page.items,
    older: page.next_cursor,
    keptFrom: page.kept_from,
    isLoading: false,
    error: null,
  };
}

/** `from`: the log was known up to here. */
export function grownBy(now: Tail, page: EventPage, from: number): Tail {
  const { next_cursor: left } = page;
  const passedOver = now.passedOver + (left === null ? 0 : Number(left) - from);
  if (page.items.length === 0 && passedOver === now.passedOver && now.error === null) return now;
  const place = now.isPaused ? 'waiting' : 'events';
  return { ...now, [place]: kept(page.items, now[place]), passedOver, error: null };
}

export function resumed(now: Tail): Tail {
  return { ...now, isPaused: false, waiting: [], events: kept(now.waiting, now.events) };
}

export function extended(now: Tail, page: EventPage): Tail {
  return { ...now, isSearching: false, older: page.next_cursor, events: kept(now.events, page.items) };
}

const kept = (newer: readonly EventView[], older: readonly EventView[]) => [...newer, ...older].slice(0, keptMax);
