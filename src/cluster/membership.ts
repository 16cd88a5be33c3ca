/**
 * The other nodes, as this one knows them: how they are reached, and which of them hands over.
 *
 * MEMBERSHIP-1  Nothing is passed to a node that hands over, from its word on until another one is the owner.
 */
import { systemClock } from '../kit/system-clock.ts';
import { peersPath, type Target } from './node-auth.ts';
import type { SharedStore } from './node-parts.ts';
import type { Passing } from './passing.ts';

/** A peer that said that it hands over, and nothing since, is asked again after so long. */
const leaverMs = 15_000;
const tellMs = 10_000;

export class Membership {
  readonly #store: SharedStore;
  readonly #passing: Passing | null;
  /** Those that hand over, and since when. */
  readonly #leavers = new Map<string, number>();

  constructor(store: SharedStore, passing: Passing | null) {
    this.#store = store;
    this.#passing = passing;
  }

  /** Whether one of them hands over. */
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

  /** Forgets those that have been silent for long. */
  forgetSilent(): void {
    const now = systemClock.monotonic();
    for (const [nodeId, since] of this.#leavers) if (now - since > leaverMs) this.#leavers.delete(nodeId);
  }

  /** This one is the owner; nothing of the others is waited for. */
  keepOnly(owner: string): void {
    for (const nodeId of this.#leavers.keys()) if (nodeId !== owner) this.#leavers.delete(nodeId);
    this.#passing?.keepOnly(owner);
  }

  /** Those that live. */
  all(): Target[] {
    return this.#store
      .nodes()
      .flatMap(({ id, url, alive }) => (alive && id !== this.#store.id && url !== null ? [{ id, url }] : []));
  }

  /** Resolves when all have answered, or do not. */
  async tell(what: string, withinMs = tellMs): Promise<void> {
    await this.#askAll('POST', what, withinMs);
  }

  /** The same of the owner alone, when it is another node. */
  async tellOwner(what: string, withinMs: number): Promise<void> {
    const owner = this.#store.owner();
    const target = this.all().find(({ id }) => id === owner?.id);
    if (target) await this.#passing?.ask(target, 'POST', `${peersPath}${what}`, withinMs);
  }

  /** Whether one of them says that it is the owner. */
  async hasOwner(timeoutMs: number): Promise<boolean> {
    return (await this.#askAll('GET', 'owns', timeoutMs)).includes(200);
  }

  /** What each of those that live answered; null: nothing in time. */
  #askAll(method: 'GET' | 'POST', what: string, withinMs: number): Promise<(number | null | undefined)[]> {
    return Promise.all(this.all().map((peer) => this.#passing?.ask(peer, method, `${peersPath}${what}`, withinMs)));
  }
}
