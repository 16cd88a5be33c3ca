/**
 * Diff of a delivery for its receiver: the object after the delivery's event, and the object as of the last delivery
 * before it that arrived. Both are folded from the log, because a PATCH alone shows neither.
 */
import type { Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import type { DeliveryChange } from '../../api/deliveries.ts';
import type { ObjectEventData } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';
import { foldedTo } from '../kernel/object-history.ts';

interface Reader {
  readonly receiver: PartyId;
  /** Whether the delivery of an earlier event arrived at the receiver. */
  readonly isDelivered: (seq: Seq) => Promise<boolean>;
}

/** Null when the history's beginning was trimmed, or when it is too long to fold for one request. */
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
