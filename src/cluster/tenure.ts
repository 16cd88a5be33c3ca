/**
 * The store as one hub has it, for as long as its node is the owner.
 *
 * TENURE-1  Its fence is the one that it began under: what a hub that has ended still wants to write is refused, also when the same process has
 *     become the owner again.
 * TENURE-2  It is over for good once it has ended, or once the store does not hold that fence any more.
 */
import type { Fence, Store, StoreHealth } from '../../storage/contract.ts';
import { type Having, sharedBy } from './shared.ts';

export interface Tenure {
  readonly token: number;
  readonly store: Store;
  /** Asked before anything is sent. Turns false by the clock alone, with nobody to notice it. */
  isHeld(): boolean;
  end(): void;
  /** To be called when the health of the store has changed. */
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
