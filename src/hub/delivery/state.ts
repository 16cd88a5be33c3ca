/**
 * Looks up the state of one delivery from its row, or from the outbox when it has none.
 *
 * STATE-1  A delivery is shown as DELIVERED only when its receiver has accepted it. A delivery that ends during the
 *     look-up gets its row before it stops being pending, so the row is read once more after the check for pending.
 */
import type { DeliveryRow, DeliveryState, Seq } from '../../../storage/contract.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Dispatcher } from './dispatcher.ts';

export interface DeliveryStanding {
  /** Null before the first attempt is settled, and for an old success of which only the floor tells. */
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
