/**
 * The store as one hub has it, whose shards join and go.
 *
 * T1  Its fences are those that joined: what a hub that has ended, or has given a shard, still wants to write is refused, also when the same
 *     process has become the owner again.
 * T2  It is over for good once it has ended. A shard is out of it as soon as the store does not hold that fence any more.
 */
import type { Fence, Shard, Store, StoreHealth } from '../../storage/contract.ts';

export interface Tenure {
  readonly shards: Iterable<Shard> & Pick<ReadonlySet<Shard>, 'has'>;
  readonly store: Store;
  /** Asked before anything is sent. Turns false by the clock alone, with nobody to notice it. */
  isHeld(): boolean;
  join(fences: readonly Fence[]): void;
  drop(shards: Iterable<Shard>): void;
  /** Shards whose fences do not stand any more. */
  lost(): Shard[];
  end(): void;
  /** To be called when the health of the store has changed. */
  healthChanged(health: StoreHealth): void;
}

export function beginTenure(store: Store): Tenure {
  const listeners: ((health: StoreHealth) => void)[] = [];
  const own = new Map<Shard, Fence>();
  let isOver = false;
  const held = (shard: Shard): Fence | null => {
    const fence = own.get(shard);
    return !isOver && fence !== undefined && store.held(shard)?.token === fence.token ? fence : null;
  };
  return {
    shards: { has: (shard) => own.has(shard), [Symbol.iterator]: () => own.keys() },
    isHeld() {
      // The lease is one for all of them.
      for (const shard of own.keys()) return held(shard) !== null;
      return false;
    },
    join(fences) {
      for (const fence of fences) own.set(fence.shard, fence);
    },
    drop(shards) {
      for (const shard of shards) own.delete(shard);
    },
    lost: () => [...own.keys()].filter((shard) => held(shard) === null),
    end() {
      isOver = true;
    },
    healthChanged(health) {
      if (!isOver) for (const listener of listeners) listener(health);
    },
    store: {
      shardOf: (party) => store.shardOf(party),
      held,
      head: (shard) => store.head(shard),
      heads: () => store.heads(),
      horizon: (shard) => store.horizon(shard),
      health: () => store.health(),
      onHealth: (listener) => void listeners.push(listener),
      append: (commit) => store.append(commit),
      settle: (...ends) => store.settle(...ends),
      trim: (trim) => store.trim(trim),
      backup: (...to) => store.backup(...to),
      // It outlives its owners.
      close: async () => {},
      floors: () => store.floors(),
      deliveries: (query) => store.deliveries(query),
      delivery: (...of) => store.delivery(...of),
      event: (...of) => store.event(...of),
      read: (query) => store.read(query),
      ranges: (of) => store.ranges(of),
      history: (...of) => store.history(...of),
      correlated: (...of) => store.correlated(...of),
      get: (key) => store.get(key),
      size: (keys) => store.size(keys),
      list: (query) => store.list(query),
      scan: (...of) => store.scan(...of),
      due: (shard) => store.due(shard),
    },
  };
}
