/**
 * Reads the changes of one object from the log and folds the object after each: for wholes that replace a part, and for
 * the diff that operators see.
 *
 * OBJECT-HISTORY-1  It reads at most `changesMax` changes unless all are asked for, in pages, and yields to the event loop between pages, and after
 *     `foldedPerTurn` characters of objects that were folded: one object must not block the hub.
 */
import type { Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import type { DeliveryChange } from '../../api/deliveries.ts';
import type { ObjectEventData } from '../../domain/events.ts';
import { applyToObject, type Change } from '../../domain/fold.ts';
import type { HubObject } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import { nextTurn } from '../../kit/system-clock.ts';

/** A change may have a body of 4 MiB. */
const batch = 16;
export const changesMax = 5_000;
/** Characters; a fold of them takes some milliseconds. */
const foldedPerTurn = 1_000_000;

/** The changes after a sequence, oldest first. `most`: how many are read, rounded up to whole pages. [OBJECT-HISTORY-1] */
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
 * `turn`: waits for a turn of the event loop. [OBJECT-HISTORY-1]
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
