/**
 * What a delivery changes for its receiver: the object folded from the log up to it, beside the object as the receiver has it
 * by the last delivery before it that arrived. A PATCH alone says neither.
 */
import type { Seq, Store, StoredEvent } from '../../storage/contract.ts';
import type { ObjectEventData } from '../domain/events.ts';
import { applyToObject } from '../domain/fold.ts';
import type { HubObject } from '../domain/object.ts';
import type { PartyId } from '../domain/party.ts';
import { placeOf } from './log-order.ts';
import type { DeliveryChange } from './operator.ts';

const batch = 100;
/** Changes of one object that are folded at most: one look must not keep the hub busy. */
const eventsMax = 5_000;

interface Reader {
  readonly receiver: PartyId;
  /** Whether what an earlier event owed to the receiver arrived. */
  readonly isDelivered: (seq: Seq) => Promise<boolean>;
}

/** Null when the log does not tell: its beginning is gone, or it is too long to be folded for one look. */
export async function changeBy(store: Store, event: StoredEvent, reader: Reader): Promise<DeliveryChange | null> {
  let object: HubObject | null = null;
  let before: DeliveryChange['before'] = null;
  let after: Seq = 0;
  for (let folded = 0; folded < eventsMax; folded += batch) {
    for (const change of await store.history(event.shard, event.stream, after, batch)) {
      const data = change.data as ObjectEventData;
      object = applyToObject(object, data, change.body ?? '');
      if (object === null && data.method !== 'DELETE') return null;
      after = change.seq;
      if (after === event.seq) return { before, after: object?.body ?? null };
      if (change.to.includes(reader.receiver) && (await reader.isDelivered(after))) {
        before = { seq: placeOf(change), at: change.at, body: object?.body ?? null };
      }
    }
    if (after === 0) return null;
  }
  return null;
}
