/** The live end of the log as a page keeps it, and how each answer of the hub changes it. */
import type { EventPage, EventView } from '../../../api/events.ts';
export interface Tail {
  /** Newest first. */
  readonly events: readonly EventView[];
  /** Events that arrived while the tail was paused, newest first. */
  readonly waiting: readonly EventView[];
  readonly isPaused: boolean;
  /** Events of the log that the tail skipped because a poll returned no more. */
  readonly passedOver: number;
  /** Cursor of the search further back; null when it has reached the beginning of the log. */
  readonly older: string | null;
  /** Sequence of the first event that the log still holds. */
  readonly keptFrom: number;
  readonly isLoading: boolean;
  readonly isSearching: boolean;
  /** Why the last request failed, in a sentence. */
  readonly error: string | null;
}

export const keptMax = 1_000;
export const nothing: Tail = {
  events: [],
  waiting: [],
  isPaused: false,
  passedOver: 0,
  older: null,
  keptFrom: 1,
  isLoading: true,
  isSearching: false,
  error: null,
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

/** `from`: the sequence up to which the log was known before. */
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
