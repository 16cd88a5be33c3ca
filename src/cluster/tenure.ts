/**
 * The store as one hub has it, for as long as its node is the owner.
 *
 * T1  Its fence is the one that it began under: what a hub that has ended still wants to write is refused, also when the same process has
 *     become the owner again.
 * T2  It is over for good once it has ended, or once the store does not hold that fence any more.
 */
import type { Fence, Store, StoreHealth } from '../../storage/contract.ts';

export interface Tenure {
  readonly token: number;
  readonly store: Store;
  /** Asked before anything is sent. Turns false by the clock alone, with nobody to notice it. */
  isHeld(): boolean;
  end(): void;
  /** To be called when the health of the store has changed. */
  healthChanged(health: StoreHealth): void;
}

export function beginTenure(store: Store, fence: Fence): Tenure {
  const { token } = fence;
  const listeners: ((health: StoreHealth) => void)[] = [];
  let isOver = false;
  const held = (): Fence | null => (!isOver && store.held()?.token === token ? fence : null);
  return {
    token,
    isHeld: () => held() !== null,
    end() {
      isOver = true;
    },
    healthChanged(health) {
      if (!isOver) for (const listener of listeners) listener(health);
    },
    store: {
      held,
      head: () => store.head(),
      horizon: () => store.horizon(),
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
      event: (seq) => store.event(seq),
      read: (query) => store.read(query),
      ranges: (of) => store.ranges(of),
      history: (...of) => store.history(...of),
      correlated: (...of) => store.correlated(...of),
      get: (key) => store.get(key),
      size: (keys) => store.size(keys),
      list: (query) => store.list(query),
      scan: (...of) => store.scan(...of),
      due: () => store.due(),
    },
  };
}
