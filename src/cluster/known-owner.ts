/**
 * The owner to which a node passes requests on.
 *
 * KNOWN-OWNER-1  When the database has been away, a node does not know at once who the owner is. Until its own lease is
 *     renewed, the last other node that it knew as the owner counts as such, for `keptMs`: that node answers from memory
 *     while it is isolated, and is a door afterwards.
 */
import type { Clock } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import type { PeerNode, SharedStore } from './node-parts.ts';

/** As long as an owner may be isolated; bounds how far its memory may lag behind that of another owner. [NODE-5] */
export const keptMs = 60_000;

export class KnownOwner {
  readonly #store: Pick<SharedStore, 'id' | 'owner' | 'health' | 'isFresh'>;
  readonly #clock: Pick<Clock, 'monotonic'>;
  #last: { readonly owner: PeerNode; readonly at: number } | null = null;

  constructor(store: Pick<SharedStore, 'id' | 'owner' | 'health' | 'isFresh'>, clock = systemClock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Whether this node reaches the database and its lease is renewed, so that it knows who the owner is. */
  isReached(): boolean {
    return this.#store.health().state === 'open' && this.#store.isFresh();
  }

  /** The owner, as far as this node knows; null when there is none. Call it often: it remembers what it saw. */
  now(): PeerNode | null {
    const owner = this.#store.owner();
    const isOther = owner !== null && owner.id !== this.#store.id;
    const at = this.#clock.monotonic();
    if (isOther) this.#last = { owner, at };
    else if (owner !== null && this.isReached()) this.#last = null;
    if (isOther || this.#last === null || this.isReached() || at - this.#last.at > keptMs) return owner;
    return this.#last.owner;
  }
}
