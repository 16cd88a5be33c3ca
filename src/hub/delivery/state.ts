/**
 * How one delivery stands.
 *
 * STATE-1  A delivery is shown as delivered only when its receiver has taken it. One that ends during the look-up has its row before it is
 *     not pending any more, so the row is read again after that was asked.
 */
import type { DeliveryRow, DeliveryState, Seq } from '../../../storage/contract.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Dispatcher } from './dispatcher.ts';

export interface DeliveryStanding {
  /** Null of a delivery that has not been tried, and of one that was delivered long ago. */
  readonly row: DeliveryRow | null;
  readonly state: DeliveryState;
}

/** [STATE-1] */
export async function standingOf(
  outbound: Pick<Dispatcher, 'isPending' | 'row'>,
  receiver: PartyId,
  seq: Seq,
): Promise<DeliveryStanding> {
  const row = await outbound.row(receiver, seq);
  if (row) return { row, state: row.state };
  if (outbound.isPending(receiver, seq)) return { row, state: 'PENDING' };
  const ended = await outbound.row(receiver, seq);
  return { row: ended, state: ended?.state ?? 'DELIVERED' };
}
