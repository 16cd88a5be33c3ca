/** The id of a delivery: `{seq}-{receiver}`. */
import type { Seq } from '../../../storage/contract.ts';
import type { PartyId } from '../../domain/party.ts';

export interface DeliveryName {
  readonly seq: Seq;
  readonly receiver: PartyId;
}

/** Stable over retries, restarts and re-drives. */
export const deliveryId = (receiver: PartyId, { seq }: { readonly seq: Seq }): string => `${seq}-${receiver}`;

/** Null when the text is not a delivery id. */
export function readDeliveryId(id: string): DeliveryName | null {
  const [, seq, receiver] = /^(\d{1,16})-(.+)$/.exec(id) ?? [];
  return seq === undefined || receiver === undefined ? null : { seq: Number(seq), receiver };
}
