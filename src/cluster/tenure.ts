/**
 * A hub's view of the node's store, which outlives every hub of the node; and a tenure, one period of ownership, whose
 * view can write only under the fencing token of that period.
 *
 * TENURE-1  A tenure keeps the fencing token that it began with. Late writes of a stopped hub are refused, even when
 *     the same process has become the owner again under a later token.
 * TENURE-2  A tenure ends for good with `end()`, or as soon as the store no longer holds its fencing token.
 */
import type { Appended, Commit, Fence, Store, StoreHealth } from '../../storage/contract.ts';
import { withMethods } from '../kit/with-methods.ts';

export interface Tenure {
  readonly token: number;
  readonly store: Store;
  /**
   * Must be checked before each call to a partner: it turns false when the lease expires by the clock, and nothing
   * announces that.
   */
  isHeld(): boolean;
  end(): void;
  /** Call when the health of the store has changed; the hub's listeners run while the tenure has not ended. */
  healthChanged(health: StoreHealth): void;
}

export function beginTenure(store: Store, fence: Fence, appended: Having['appended'] = () => {}): Tenure {
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
    store: sharedBy(store, { held, onHealth: (listener) => void listeners.push(listener), appended }),
  };
}

// A hub's view of the node's store, with its own fence, health listeners and commit hook. The store outlives every hub
// of the node, so closing the view leaves the store open.

/** What a view replaces of the store. */
export interface Having {
  readonly held: () => Fence | null;
  readonly onHealth: (listener: (health: StoreHealth) => void) => void;
  /** Runs after a commit is durable; the commit is acknowledged when the result has resolved. */
  readonly appended: (commit: Commit, appended: Appended) => Promise<void> | void;
}

export function sharedBy(store: Store, { held, onHealth, appended }: Having): Store {
  return withMethods(store, {
    held,
    onHealth,
    async append(commit) {
      const written = await store.append(commit);
      await appended(commit, written);
      return written;
    },
    close: async () => {},
  });
}
