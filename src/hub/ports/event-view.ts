/**
 * Events as operators read them, with the filters and ranges of their queries.
 */
import type { Actor } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';

export interface EventView {
  readonly seq: number;
  readonly at: string;
  readonly type: string;
  /** Subject of the event as `{noun}:{key}`, for example `partner:NL-CPO`. */
  readonly about: string;
  /** All parties that the event concerns. */
  readonly parties: readonly PartyId[];
  /** The partner that the event was recorded for; `by` says who acted. */
  readonly party: PartyId | null;
  /** `{cc}-{pid}/{id}`. */
  readonly object: string | null;
  readonly correlation_id: string | null;
  readonly by: Actor;
  readonly data: unknown;
}

export interface EventFilter {
  /** An event type, or a prefix of one up to a dot. */
  readonly type?: string;
  readonly about?: string;
  /** A party that the event concerns. */
  readonly party?: string;
  readonly object?: string;
  readonly correlation_id?: string;
}

export interface EventRange {
  readonly order: 'oldest' | 'newest';
  /** The range begins after this sequence. */
  readonly after: number;
  /**
   * `next_cursor` of the previous page. Oldest first: the page begins after it, and `after` is ignored. Newest first:
   * the page begins before it.
   */
  readonly cursor: number | null;
  readonly limit: number;
}

export interface EventPage {
  readonly items: readonly EventView[];
  readonly next_cursor: string | null;
  /**
   * Sequence up to which the log was searched; newest first, the end of the log. Use it as `after` to find later
   * events.
   */
  readonly last_seq: number;
  /** First sequence that the list can return: earlier events are older than HUB_EVENTS_KEEP_DAYS and were trimmed. */
  readonly kept_from: number;
}

export interface EventVerbs {
  events(filter: EventFilter, range: EventRange): Promise<EventPage>;
}
