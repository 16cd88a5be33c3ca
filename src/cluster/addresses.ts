/**
 * Checks that each node's `HUB_NODE_URL` leads to that node: every `everyMs` this node asks at the address of each live
 * node, its own included, which node answers there.
 *
 * ADDRESSES-1  This node's own address is right when the node that answers there has its id, or when another node asked
 *     there for that id within the last `heardMs`: some networks do not lead a machine back to itself.
 * ADDRESSES-2  A node whose own address failed the check, or whose secret no other node accepts, shows a warning. It
 *     leaves a free log to the others for one lease, because they could not pass requests on to it; when none takes it,
 *     this node does. (LEASES-7)
 * ADDRESSES-3  A failed check counts only when the one before had the same result: a node may be starting, or its
 *     machine busy.
 */
import { every } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { peersPath, type Target } from './node-auth.ts';
import type { SharedStore } from './node-parts.ts';
import type { Passing } from './passing.ts';

const [everyMs, answerMs, heardMs] = [2000, 1000, 10_000];

/** What answers at a node's address; `stranger`: a process that does not accept this node's secret. */
export type Reached = 'itself' | 'another' | 'stranger' | 'nobody';

export class Addresses {
  #passing: Passing | null = null;
  #store: SharedStore | null = null;
  /** Last two results by node id, the later one first. */
  readonly #found = new Map<string, readonly Reached[]>();
  /** A node has accepted this node's secret once. So when the last other node refuses it, that node's is wrong. */
  #isKnown = false;
  #askedAt = Number.NEGATIVE_INFINITY;
  #stop = () => {};
  #isLooking = false;

  /** Call once this node listens. */
  start(store: SharedStore, passing: Passing): void {
    this.#store = store;
    this.#passing = passing;
    this.#stop = every(systemClock, everyMs, () => void this.#look());
    void this.#look();
  }

  close(): void {
    this.#stop();
  }

  isThis(id: string): boolean {
    return id === this.#store?.id;
  }

  /** The same for a question of another node, which proves that it reaches this one. [ADDRESSES-1] */
  isAskedFor(id: string): boolean {
    if (this.isThis(id)) this.#askedAt = systemClock.monotonic();
    return this.isThis(id);
  }

  /** Result of the last check of this node id; null before the first. */
  reached(id: string): Reached | null {
    return this.#found.get(id)?.[0] ?? null;
  }

  /** [ADDRESSES-2] */
  warnings(): string[] {
    return [this.#ofAddress(), this.#ofSecret()].flatMap((warning) => warning ?? []);
  }

  /** Asks a node whether it is at its address, and ready to answer requests that are passed on to it. */
  async isReady(target: Target, withinMs: number): Promise<{ readonly by: Reached; readonly isReady: boolean }> {
    const path = `${peersPath}ready/${encodeURIComponent(target.id)}`;
    const answered = (await this.#passing?.ask(target, 'GET', path, withinMs)) ?? null;
    return { by: byOf(answered), isReady: answered === 200 };
  }

  #ofAddress(): string | null {
    const { id = '' } = this.#store ?? {};
    if (systemClock.monotonic() - this.#askedAt < heardMs || !this.#isSure(id)) return null;
    const reached = this.reached(id);
    if (reached === 'itself' || reached === null) return null;
    return `HUB_NODE_URL of this node does not lead to it: ${whoAnswers[reached]}`;
  }

  #ofSecret(): string | null {
    const store = this.#store;
    const others = store?.nodes().filter(({ id, alive, url }) => alive && url !== null && id !== store.id) ?? [];
    const areStrangers = !this.#isKnown && others.some(({ id }) => this.reached(id) === 'stranger' && this.#isSure(id));
    return areStrangers
      ? 'no other node takes the HUB_CLUSTER_SECRET of this one, or their clocks differ by more than five minutes'
      : null;
  }

  /** [ADDRESSES-3] */
  #isSure(id: string): boolean {
    const [last, before] = this.#found.get(id) ?? [];
    return last !== undefined && last === before;
  }

  async #look(): Promise<void> {
    const store = this.#store;
    if (store === null || this.#isLooking) return;
    this.#isLooking = true;
    const live = store.nodes().flatMap(({ id, url, alive }) => (alive && url !== null ? [{ id, url }] : []));
    const found = await Promise.all(live.map((target) => this.#lookAt(target)));
    for (const id of this.#found.keys()) if (!live.some((target) => target.id === id)) this.#found.delete(id);
    for (const [i, { id }] of live.entries()) {
      this.#found.set(id, [found[i] as Reached, ...(this.#found.get(id) ?? [])].slice(0, 2));
    }
    this.#isKnown ||= live.some(({ id }, i) => found[i] === 'itself' && !this.isThis(id));
    this.#isLooking = false;
  }

  async #lookAt(target: Target): Promise<Reached> {
    const path = `${peersPath}${this.isThis(target.id) ? 'self' : 'is'}/${encodeURIComponent(target.id)}`;
    return byOf((await this.#passing?.ask(target, 'GET', path, answerMs)) ?? null);
  }
}

const whoAnswers = {
  another: 'another node answers there',
  stranger: 'what answers there is no node with its secret',
  nobody: 'nobody answers there',
} as const;

/** HTTP status of the answer of a node with another id, and of the node itself while it is not ready. */
export const [isAnother, notReadyYet] = [409, 202];

/** Any other status is the refusal of a process that does not accept the secret. */
function byOf(status: number | null): Reached {
  if (status === null) return 'nobody';
  return status === 200 || status === notReadyYet ? 'itself' : status === isAnother ? 'another' : 'stranger';
}
