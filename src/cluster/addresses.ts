/**
 * Whether nodes are where their addresses lead: each asks all that live, itself too, every `everyMs` who answers there.
 *
 * ADDRESSES-1  An address is this node's when a node that answers there has its id, or when another node has come by it and asked for that id: a
 *     network may not lead a machine back to itself.
 * ADDRESSES-2  A node whose address is doubtful, or whose secret no other node takes, says so as a warning, and leaves the log to others for as long as
 *     they may take it: they could not pass on to it. When none does it takes it.
 * ADDRESSES-3  One look that fails says nothing: a node may be just starting, and a machine busy.
 */
import { every } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { peersPath, type Target } from './node-auth.ts';
import type { SharedStore } from './node-parts.ts';
import type { Passing } from './passing.ts';

const [everyMs, answerMs, heardMs] = [2000, 1000, 10_000];

/** Who answers where a node should be; `stranger`: somebody who does not take the secret of this one. */
export type Reached = 'itself' | 'another' | 'stranger' | 'nobody';

export class Addresses {
  #passing: Passing | null = null;
  #store: SharedStore | null = null;
  /** By node, the last look first. */
  readonly #found = new Map<string, readonly Reached[]>();
  /** Another node has taken the secret of this one: of two that remain the other one is wrong then. */
  #isKnown = false;
  #askedAt = Number.NEGATIVE_INFINITY;
  #stop = () => {};
  #isLooking = false;

  /** To be called when this node listens. */
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

  /** The same, asked by another node. [ADDRESSES-1] */
  isAskedFor(id: string): boolean {
    if (this.isThis(id)) this.#askedAt = systemClock.monotonic();
    return this.isThis(id);
  }

  /** As it was last looked at; null when it was not. */
  reached(id: string): Reached | null {
    return this.#found.get(id)?.[0] ?? null;
  }

  /** [ADDRESSES-2] */
  warnings(): string[] {
    return [this.#ofAddress(), this.#ofSecret()].flatMap((warning) => warning ?? []);
  }

  /** Asks a node whether it is there, and ready to answer what is passed on to it. */
  async isReady(target: Target, withinMs: number): Promise<{ readonly by: Reached; readonly isReady: boolean }> {
    const asked = (path: string) => this.#passing?.ask(target, 'GET', path, withinMs) ?? Promise.resolve(null);
    const answered = await asked(`${peersPath}ready/${encodeURIComponent(target.id)}`);
    const by = byOf(answered);
    // A node with another secret answers what is passed on to it as it answers anybody.
    return { by, isReady: by === 'stranger' ? (await asked('/readyz')) === 200 : answered === 200 };
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
    return areStrangers ? 'no other node takes the HUB_CLUSTER_SECRET of this one' : null;
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

/** How a node answers who is asked for another id, and how one that is asked whether it is ready and is not. */
export const [isAnother, notReadyYet] = [409, 202];

/** Whoever does not take the secret refuses, in one of several ways. */
function byOf(status: number | null): Reached {
  if (status === null) return 'nobody';
  return status === 200 || status === notReadyYet ? 'itself' : status === isAnother ? 'another' : 'stranger';
}
