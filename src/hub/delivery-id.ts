/**
 * The id of a delivery: `{seq}-{receiver}`, or `{shard}.{seq}-{receiver}` when the event stands in another shard than the first.
 */
import type { Seq, Shard } from '../../storage/contract.ts';
import type { PartyId } from '../domain/party.ts';
import { readPlace } from './log-order.ts';

export interface DeliveryName {
  readonly shard: Shard;
  readonly seq: Seq;
  readonly receiver: PartyId;
}

/** Stable over retries, restarts and re-drives. */
export function deliveryId(receiver: PartyId, { shard, seq }: { readonly shard: Shard; readonly seq: Seq }): string {
  return shard === 0 ? `${seq}-${receiver}` : `${shard}.${seq}-${receiver}`;
}

/** Also with the place of the event in the logs of all shards, as lists show it. Null: it is no id of a delivery. */
export function readDeliveryId(id: string): DeliveryName | null {
  const [, shard, seq, receiver] = /^(?:(\d{1,3})\.)?(\d{1,16})-(.+)$/.exec(id) ?? [];
  if (seq === undefined || receiver === undefined) return null;
  return { ...(shard === undefined ? readPlace(Number(seq)) : { shard: Number(shard), seq: Number(seq) }), receiver };
}
