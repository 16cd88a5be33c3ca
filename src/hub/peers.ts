/**
 * Other hubs on the same store, each with the parties of its own shards, as this one needs them.
 *
 * Y1  What concerns a party is decided and done by the hub that it lives in. Whoever else needs it has it done there.
 * Y2  Every hub knows all partners and routes. It reads what others recorded of them, and has read it before whoever changed it there
 *     is answered.
 */
import type { DeliveryRow, FollowQuery, Shard, StoredEvent } from '../../storage/contract.ts';

export interface Peers {
  /** How many shards there are, whoever has them. */
  readonly shards: number;
  /** By shard, in order of sequence. */
  follow(query: FollowQuery): Promise<readonly StoredEvent[]>;
  /** Remembered deliveries to any of these receivers that wait for another attempt or are dead. */
  openRows(receivers: readonly string[]): Promise<readonly DeliveryRow[]>;
  /** One shard of each other hub that is known. */
  others(): readonly Shard[];
  /**
   * Has a verb done by the hub that has the shard; `data` and what it resolves with are JSON values. Rejects as the verb does. Null, and
   * nothing was asked, when the shard came here (`isHere`) while its hub was sought.
   */
  ask(shard: Shard, verb: string, data: unknown, isHere: () => boolean): Promise<unknown>;
  /** Resolves when all others have read what was recorded up to now, or do not answer. */
  tell(): Promise<void>;
}
