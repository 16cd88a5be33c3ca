/**
 * How one delivery stands, whichever node its receiver lives on.
 *
 * V1  A delivery is shown as delivered only when its receiver has taken it. One that ends during the look-up has its row before it is
 *     not pending any more, so the row is read again after that was asked.
 */
import type { DeliveryRow, DeliveryState, StoredEvent } from '../../storage/contract.ts';
import type { PartyId } from '../domain/party.ts';
import { atHome } from './asked.ts';
import type { Core } from './core.ts';
import type { Deliveries } from './deliveries.ts';

type Outbound = Pick<Deliveries, 'isPending' | 'row'>;
type Place = Pick<StoredEvent, 'shard' | 'seq'>;

export interface DeliveryStanding {
  /** Null of a delivery that has not been tried, and of one that was delivered long ago. */
  readonly row: DeliveryRow | null;
  readonly state: DeliveryState;
}

/** Whether a delivery without a row is still to come. */
export async function awaits(core: Core, outbound: Outbound, receiver: PartyId, place: Place): Promise<boolean> {
  const { shard, seq } = place;
  const here = async () => outbound.isPending(receiver, shard, seq);
  return atHome(core, receiver, 'isPending', { receiver, shard, seq }, here);
}

/** [V1] */
export async function standingOf(
  core: Core,
  outbound: Outbound,
  receiver: PartyId,
  { shard, seq }: Place,
): Promise<DeliveryStanding> {
  const row = await outbound.row(receiver, shard, seq);
  if (row) return { row, state: row.state };
  if (await awaits(core, outbound, receiver, { shard, seq })) return { row, state: 'PENDING' };
  const ended = await outbound.row(receiver, shard, seq);
  return { row: ended, state: ended?.state ?? 'DELIVERED' };
}
