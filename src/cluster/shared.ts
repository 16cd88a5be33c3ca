/**
 * A hub's view of the node's store, with its own fence, health listeners and commit hook. The store outlives every hub
 * of the node, so closing the view leaves the store open.
 */
import type { Appended, Commit, Fence, Store, StoreHealth } from '../../storage/contract.ts';
import { withMethods } from '../kit/with-methods.ts';

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
