/**
 * The peers of this node: sends them cluster messages and remembers which of them are handing over the lease, and which one is the owner.
 *
 * MEMBERSHIP-1  From a peer's announcement that it hands over until another node is the owner, no request is passed to
 *     that peer; `leaverMs` bounds the wait.
 * MEMBERSHIP-2  When the database has been away, a node does not know at once who the owner is. Until its own lease is
 *     renewed, the last other node that it knew as the owner counts as such, for `keptMs`: that node answers from memory
 *     while it is isolated, and is a door afterwards.
 */

import type { Clock } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { messageMs, peersPath, type Target } from './node-auth.ts';
import type { PeerNode, SharedStore } from './node-parts.ts';
import type { Passing } from './passing.ts';

/** A peer that announced a handover and is still the owner after this time gets requests passed to it again. */
const leaverMs = 15_000;
const tellMs = 10_000;

export class Membership {
  readonly #store: SharedStore;
  readonly #passing: Passing | null;
  /** Peers that hand over, with the monotonic time of their announcement, ms. */
  readonly #leavers = new Map<string, number>();

  constructor(store: SharedStore, passing: Passing | null) {
    this.#store = store;
    this.#passing = passing;
  }

  /** Whether any peer hands over. */
  get areLeaving(): boolean {
    return this.#leavers.size > 0;
  }

  /** [MEMBERSHIP-1] */
  isLeaving(nodeId: string): boolean {
    return this.#leavers.has(nodeId);
  }

  handsOver(nodeId: string): void {
    this.#leavers.set(nodeId, systemClock.monotonic());
  }

  /** Drops handovers announced more than `leaverMs` ago. */
  forgetSilent(): void {
    const now = systemClock.monotonic();
    for (const [nodeId, since] of this.#leavers) if (now - since > leaverMs) this.#leavers.delete(nodeId);
  }

  /** `owner` is now the owner, perhaps again: drops all handovers and aborts the requests in flight to other nodes. */
  keepOnly(owner: string): void {
    this.#leavers.clear();
    this.#passing?.keepOnly(owner);
  }

  /** Live peers that have a URL. */
  all(): Target[] {
    return this.#store
      .nodes()
      .flatMap(({ id, url, alive }) => (alive && id !== this.#store.id && url !== null ? [{ id, url }] : []));
  }

  /** Sends a message to all peers; resolves when each has answered, failed or timed out. */
  async tell(what: string, withinMs = tellMs): Promise<void> {
    await Promise.all(this.#askAll('POST', what, withinMs));
  }

  /** Null when the owner is this node or unknown. */
  owner(): Target | null {
    const owner = this.#store.owner();
    return this.all().find(({ id }) => id === owner?.id) ?? null;
  }

  /** Sends a ping to the owner; does nothing when the owner is this node or unknown. */
  async pingOwner(what: string): Promise<void> {
    const target = this.owner();
    if (target) await this.#passing?.ping(target, `${peersPath}${what}`, messageMs);
  }

  /** The HTTP status that the owner answered; null: no answer in time, or no other node is known as the owner. */
  async askOwner(what: string): Promise<number | null> {
    const target = this.owner();
    return (target && (await this.#passing?.ask(target, 'GET', `${peersPath}${what}`, messageMs))) ?? null;
  }

  /** Whether any peer reports that it is the owner: true with the first that does, false when each has ended. */
  hasOwner(timeoutMs: number): Promise<boolean> {
    const answers = this.#askAll('GET', 'owns', timeoutMs).map(async (answer) => {
      if ((await answer) !== 200) throw new Error('not the owner');
    });
    return Promise.any(answers).then(
      () => true,
      () => false,
    );
  }

  /** The HTTP status that each live peer answered; null: no answer in time. */
  #askAll(method: 'GET' | 'POST', what: string, withinMs: number): Promise<number | null | undefined>[] {
    const path = `${peersPath}${what}`;
    return this.all().map(async (peer) => this.#passing?.ask(peer, method, path, withinMs));
  }
}

// The owner to which a node passes requests on.

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
