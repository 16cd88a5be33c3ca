/**
 * What a delivery changes for its receiver: the object folded from the log up to it, beside the object as the receiver has it
 * by the last delivery before it that arrived. A PATCH alone says neither.
 */
import type { Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import type { ObjectEventData } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';
import { foldedTo } from '../delivery/object-history.ts';
import type { DeliveryChange } from '../ports/operator.ts';

interface Reader {
  readonly receiver: PartyId;
  /** Whether what an earlier event owed to the receiver arrived. */
  readonly isDelivered: (seq: Seq) => Promise<boolean>;
}

/** Null when the log does not tell: its beginning is gone, or it is too long to be folded for one look. */
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
