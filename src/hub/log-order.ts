/**
 * Lists over the logs of all shards: shard by shard, since no order holds between them. A place in them is one number: the sequence, and
 * above it the shard. With one shard it is the sequence.
 */
import type { Seq, Shard, Store } from '../../storage/contract.ts';

/** More events than a shard will ever have; with 256 shards a place is still a safe integer. */
const span = 2 ** 44;

export const placeOf = (shard: Shard, seq: Seq): number => shard * span + seq;

export function readPlace(place: number): { readonly shard: Shard; readonly seq: Seq } {
  return { shard: Math.floor(place / span), seq: place % span };
}

/** Shards that hold events, ascending. */
export function usedShards(store: Store): Shard[] {
  const shards = Object.keys(store.health().heads).map(Number);
  return shards.filter((shard) => store.head(shard) > store.horizon(shard)).sort((a, b) => a - b);
}
