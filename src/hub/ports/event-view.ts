/**
 * Events as operators read them, and what they ask for.
 */
import type { Actor } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';

export interface EventView {
  readonly seq: number;
  readonly at: string;
  readonly type: string;
  /** `{noun}:{key}` of what it is about, for example `partner:NL-CPO`. */
  readonly about: string;
  /** All that it concerns. */
  readonly parties: readonly PartyId[];
  /** The partner that it was recorded for; `by` says who acted. */
  readonly party: PartyId | null;
  /** `{cc}-{pid}/{id}`. */
  readonly object: string | null;
  readonly correlation_id: string | null;
  readonly by: Actor;
  readonly data: unknown;
}

export interface EventFilter {
  /** Or the beginning of one, up to a dot. */
  readonly type?: string;
  readonly about?: string;
  /** One of those that it concerns. */
  readonly party?: string;
  readonly object?: string;
  readonly correlation_id?: string;
}

export interface EventRange {
  readonly order: 'oldest' | 'newest';
  /** Behind which sequence the range begins. */
  readonly after: number;
  /** `next_cursor` of the page before. Oldest first: the page begins behind it, and `after` is ignored. Newest first: the page begins before it. */
  readonly cursor: number | null;
  readonly limit: number;
}

export interface EventPage {
  readonly items: readonly EventView[];
  readonly next_cursor: string | null;
  /** Up to here the log was looked at; with the newest first, its end. What came later is found behind it. */
  readonly last_seq: number;
  /** The first sequence that is still kept: what came before is older than HUB_EVENTS_KEEP_DAYS. */
  readonly kept_from: number;
}

export interface EventVerbs {
  events(filter: EventFilter, range: EventRange): Promise<EventPage>;
}
