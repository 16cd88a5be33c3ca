/**
 * The id of a delivery: `{seq}-{receiver}`, or `{shard}.{seq}-{receiver}` when the event stands in another shard than the first.
 */
import type { Seq, Shard } from '../../storage/contract.ts';
import type { PartyId } from '../domain/party.ts';

export interface DeliveryName {
  readonly shard: Shard;
  readonly seq: Seq;
  readonly receiver: PartyId;
}

/** Stable over retries, restarts and re-drives. */
export function deliveryId(receiver: PartyId, { shard, seq }: { readonly shard: Shard; readonly seq: Seq }): string {
  return shard === 0 ? `${seq}-${receiver}` : `${shard}.${seq}-${receiver}`;
}

/** Null: it is no id of a delivery. */
export function readDeliveryId(id: string): DeliveryName | null {
  const [, shard = '0', seq, receiver] = /^(?:(\d{1,3})\.)?(\d{1,15})-(.+)$/.exec(id) ?? [];
  return seq === undefined || receiver === undefined ? null : { shard: Number(shard), seq: Number(seq), receiver };
}
