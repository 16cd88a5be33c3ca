/**
 * Other hubs on the same store, each with the parties of its own shards, as this one needs them.
 *
 * Y1  What concerns a party is decided and done by the hub that it lives in. Whoever else needs it has it done there.
 * Y2  Every hub knows all partners and routes. It reads what others recorded of them, and has read it before whoever changed it there
 *     is answered.
 */
import type { DeliveryRow, FollowQuery, Seq, Shard, StoredEvent } from '../../storage/contract.ts';

export interface Peers {
  /** Shards whose parties live in this hub, as long as it runs. */
  readonly shards: ReadonlySet<Shard>;
  /** Where the log of each shard ends by now, whoever writes it. */
  heads(): Promise<ReadonlyMap<Shard, Seq>>;
  /** By shard, in order of sequence. */
  follow(query: FollowQuery): Promise<readonly StoredEvent[]>;
  /** Remembered deliveries to any of these receivers that wait for another attempt or are dead. */
  openRows(receivers: readonly string[]): Promise<readonly DeliveryRow[]>;
  /** One shard of each other hub that is known. */
  others(): readonly Shard[];
  /** Has a verb done by the hub that has the shard; `data` and what it resolves with are JSON values. Rejects as the verb does. */
  ask(shard: Shard, verb: string, data: unknown): Promise<unknown>;
  /** Resolves when all others have read what was recorded up to now, or do not answer. */
  tell(): Promise<void>;
}
