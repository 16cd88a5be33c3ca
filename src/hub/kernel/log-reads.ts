/**
 * Reads of a part of the log: what was recorded between two instants, found by bisection; the changes of one object; the
 * events of a partner from which its actors are restored.
 *
 * LOG-READS-1  The part contains every event of the time: it begins and ends `slackMs` further out, because `at` goes back
 *     when the wall clock is set back. The reader filters by `at` itself.
 * LOG-READS-2  Of a clock that is known to have been set back further, a reader that may miss nothing gets the whole log: there a
 *     bisection may land behind what it looks for.
 * LOG-READS-3  A read of the changes of an object reads at most `changesMax` changes unless all are asked for, in pages, and yields to the event loop between pages, and after
 *     `foldedPerTurn` characters of objects that were folded: one object must not block the hub.
 * LOG-READS-4  Of what an event says of a circuit or the connection, and a later one says again, only the latest is
 *     held, and beside it one page: a partner that fails now and then writes tens of thousands of them a day.
 */
import type { Range, Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import type { DeliveryChange } from '../../api/deliveries.ts';
import type { CircuitChange, ObjectEventData } from '../../domain/events.ts';
import { applyToObject, type Change } from '../../domain/fold.ts';
import { instantText } from '../../domain/instant.ts';
import type { HubObject } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Clock } from '../../kit/clock.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import { partnerStream } from './directory.ts';

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

/** Like `logSpan`, for a reader that may miss nothing. [LOG-READS-2] */
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

// Reads the changes of one object from the log and folds the object after each: for wholes that replace a part, and for
// the diff that operators see.

/** A change may have a body of 4 MiB. */
const batch = 16;
export const changesMax = 5_000;
/** Characters; a fold of them takes some milliseconds. */
const foldedPerTurn = 1_000_000;

/** The changes after a sequence, oldest first. `most`: how many are read, rounded up to whole pages. [LOG-READS-3] */
export async function* changesOf(
  store: Pick<Store, 'history'>,
  stream: string,
  from: Seq = 0,
  most = changesMax,
): AsyncIterable<StoredEvent> {
  for (let after = from, seen = 0; seen < most; seen += batch) {
    const page = await store.history(stream, after, batch);
    yield* page;
    const last = page.at(-1);
    if (!last || page.length < batch) return;
    after = last.seq;
    await nextTurn();
  }
}

/** What the fold reads of an event. */
export const changeOf = ({ type, data, body, to }: StoredEvent): Change => {
  return { type, data: data as ObjectEventData, body: body ?? '', to };
};

/** An object after the last of its first changes. */
export interface Folded {
  readonly seq: Seq;
  readonly object: HubObject | null;
  readonly changes: number;
}

export const unfolded: Folded = { seq: 0, object: null, changes: 0 };

/**
 * Each change up to and including an event, with the object after it; null when none is left. `from`: where it goes on;
 * `turn`: waits for a turn of the event loop. [LOG-READS-3]
 */
export async function* foldedTo(
  store: Pick<Store, 'history'>,
  event: Pick<StoredEvent, 'stream' | 'seq'>,
  from: Folded = unfolded,
  turn: () => Promise<void> | null = nextTurn,
): AsyncIterable<{ readonly change: StoredEvent; readonly object: HubObject | null }> {
  let { object } = from;
  let folded = 0;
  for await (const change of changesOf(store, event.stream, from.seq)) {
    object = applyToObject(object, changeOf(change));
    folded += object?.body.length ?? 0;
    if (folded > foldedPerTurn) {
      folded = 0;
      await turn();
    }
    yield { change, object };
    if (change.seq >= event.seq) return;
  }
}

interface Reader {
  readonly receiver: PartyId;
  /** Whether the delivery of an earlier event arrived at the receiver. */
  readonly isDelivered: (seq: Seq) => Promise<boolean>;
}

/**
 * Diff of a delivery for its receiver: the object after the delivery's event, and the object as of the last delivery
 * before it that arrived, because a PATCH alone shows neither. Null when the history's beginning was trimmed, or when it is too long to fold for one
 * request.
 */
export async function changeBy(store: Store, event: StoredEvent, reader: Reader): Promise<DeliveryChange | null> {
  let before: DeliveryChange['before'] = null;
  for await (const { change, object } of foldedTo(store, event)) {
    if (object === null && (change.data as ObjectEventData).method !== 'DELETE') return null;
    const body = object?.body ?? null;
    if (change.seq === event.seq) return { before, after: body };
    if (change.to.includes(reader.receiver) && (await reader.isDelivered(change.seq))) {
      before = { seq: change.seq, at: change.at, body };
    }
  }
  return null;
}

// Reads the events of a partner from which its actors are restored.

const pageEvents = 500;

/** What of a partner a circuit or connection event states, which the next one of it replaces; null of any other event. */
export function stateIn({ type, data }: StoredEvent): string | null {
  if (type.startsWith('circuit.')) {
    const { circuit, module = '' } = data as CircuitChange;
    return `circuit ${circuit} ${module}`;
  }
  return type === 'partner.online' || type === 'partner.offline' ? 'connection' : null;
}

/** Oldest first; they fold to what all events of the partner do, and the last one is among them. `known`: what it resolved with before. */
export async function partnerHistory(
  store: Pick<Store, 'history'>,
  partner: PartyId,
  known: readonly StoredEvent[] = [],
): Promise<StoredEvent[]> {
  const latest = new Map<string | Seq, StoredEvent>();
  for (let page = known; ; ) {
    for (const event of page) {
      const key = stateIn(event) ?? event.seq;
      // A key that is set again would keep its place.
      latest.delete(key);
      latest.set(key, event);
    }
    const after = page.at(-1)?.seq ?? 0;
    page = await store.history(partnerStream(partner), after, pageEvents);
    if (page.length === 0) return [...latest.values()];
  }
}

/** A function that reads `partnerHistory` at each call. The first call reads only what came after `known`, and releases `known`. */
export function historyAfter(
  store: Pick<Store, 'history'>,
  partner: PartyId,
  known: readonly StoredEvent[] = [],
): () => Promise<StoredEvent[]> {
  let before = known;
  return async () => {
    const events = await partnerHistory(store, partner, before);
    before = [];
    return events;
  };
}
