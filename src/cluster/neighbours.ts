/**
 * The other nodes, as this one knows them: how they are reached, and which of them hand shards over.
 *
 * G1  Nothing is passed to a node for a shard that it hands over, from its word on until it says that it is over.
 */
import type { Shard } from '../../storage/contract.ts';
import { systemClock } from '../kit/system-clock.ts';
import { peersPath, type Target } from './hop.ts';
import type { SharedStore } from './node-parts.ts';
import type { Passing } from './passing.ts';

/** A peer that said that it hands over, and nothing since, is asked again after so long. */
const leaverMs = 15_000;
const tellMs = 10_000;

const nameOf = (nodeId: string, shards: ReadonlySet<Shard> | null) => [nodeId, ...(shards ?? ['all'])].join();

export class Neighbours {
  readonly #store: SharedStore;
  readonly #passing: Passing | null;
  /** Hand-overs under way, by node and shards (null: all that it has). */
  readonly #leavers = new Map<string, { nodeId: string; since: number; shards: ReadonlySet<Shard> | null }>();

  constructor(store: SharedStore, passing: Passing | null) {
    this.#store = store;
    this.#passing = passing;
  }

  /** Whether one of them hands shards over. */
  get areMoving(): boolean {
    return this.#leavers.size > 0;
  }

  /** [G1] */
  holds(nodeId: string, shard: Shard): boolean {
    for (const leaver of this.#leavers.values()) {
      if (leaver.nodeId === nodeId && (leaver.shards?.has(shard) ?? true)) return true;
    }
    return false;
  }

  handsOver(nodeId: string, shards: ReadonlySet<Shard> | null): void {
    this.#leavers.set(nameOf(nodeId, shards), { nodeId, since: systemClock.monotonic(), shards });
  }

  /** This one is over; the next one of the same node may have begun. */
  isBack(nodeId: string, shards: ReadonlySet<Shard>): void {
    this.#leavers.delete(nameOf(nodeId, shards));
  }

  /** Forgets those that have been silent for long. */
  forgetSilent(): void {
    const now = systemClock.monotonic();
    for (const [name, { since }] of this.#leavers) if (now - since > leaverMs) this.#leavers.delete(name);
  }

  /** These have shards; the others have none, and nothing of theirs is waited for. */
  keepOnly(owners: ReadonlySet<string>): void {
    for (const [name, { nodeId }] of this.#leavers) if (!owners.has(nodeId)) this.#leavers.delete(name);
    this.#passing?.keepOnly(owners);
  }

  /** Those that live. */
  all(): Target[] {
    return this.#store
      .nodes()
      .flatMap(({ id, url, alive }) => (alive && id !== this.#store.id && url !== null ? [{ id, url }] : []));
  }

  /** Where the owner of a shard is reached; null when it is this node or not known. */
  ownerOf(shard: Shard): Target | null {
    const owner = this.#store.owner(shard);
    return owner === null || owner.id === this.#store.id || owner.url === null
      ? null
      : { id: owner.id, url: owner.url };
  }

  /** Resolves when all have answered, or do not. */
  async tell(what: string, withinMs = tellMs): Promise<void> {
    await this.#askAll('POST', what, withinMs);
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
