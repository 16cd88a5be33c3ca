/**
 * The store as one hub has it, from the moment that it gained its shards until it lost one of them.
 *
 * T1  Its fences are those of its beginning: what a hub that has ended still wants to write is refused, also when the same process has
 *     become the owner again.
 * T2  It is over for good once it has ended, or as soon as the store does not hold one of its fences any more.
 */
import type { Fence, Shard, Store, StoreHealth } from '../../storage/contract.ts';

export interface Tenure {
  readonly shards: ReadonlySet<Shard>;
  readonly store: Store;
  /** Asked before anything is sent. Turns false by the clock alone, with nobody to notice it. */
  isHeld(): boolean;
  /** Whether every one of its fences stands. */
  isWhole(): boolean;
  end(): void;
  /** To be called when the health of the store has changed. */
  healthChanged(health: StoreHealth): void;
}

export function beginTenure(store: Store, fences: readonly Fence[]): Tenure {
  const listeners: ((health: StoreHealth) => void)[] = [];
  const own = new Map(fences.map((fence) => [fence.shard, fence]));
  const [first] = fences;
  let isOver = false;
  const held = (shard: Shard): Fence | null => {
    const fence = own.get(shard);
    return !isOver && fence !== undefined && store.held(shard)?.token === fence.token ? fence : null;
  };
  return {
    shards: new Set(own.keys()),
    // The lease is one for all of them.
    isHeld: () => first !== undefined && held(first.shard) !== null,
    isWhole: () => fences.every(({ shard }) => held(shard) !== null),
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
      history: (...of) => store.history(...of),
      correlated: (...of) => store.correlated(...of),
      get: (key) => store.get(key),
      list: (query) => store.list(query),
      scan: (...of) => store.scan(...of),
      due: (shard) => store.due(shard),
    },
  };
}
