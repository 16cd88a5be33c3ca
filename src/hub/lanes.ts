/**
 * The queue of one receiving partner, in memory: a lane per receiver and object, served in turn.
 *
 * L1  Inside a lane strictly first in, first out, and one in flight.
 * L2  A held lane holds nobody else; lanes that are ready take turns.
 * L3  Lanes with a re-driven head take no more than their share of the slots, and are not kept from it either.
 * L4  Memory is bounded by whoever adds: a lane that is empty is forgotten.
 */
import type { Seq, Shard, StoredEvent } from '../../storage/contract.ts';
import type { Attempt } from '../domain/events.ts';
import type { PartyId } from '../domain/party.ts';

export interface Item {
  readonly receiver: PartyId;
  readonly shard: Shard;
  readonly seq: Seq;
  /** Event stream of the object. */
  readonly stream: string;
  readonly module: string;
  /** Start of the retry window, epoch ms: acceptance, or the last re-drive. */
  readonly since: number;
  /** When it came into memory, epoch ms. */
  readonly loadedAt: number;
  /** Stream whose undelivered updates go first, for a while. */
  readonly behind: string | null;
  readonly correlationId: string | null;
  /** Kept while it is fresh and memory allows; read again from the log otherwise. */
  readonly event: StoredEvent | null;
  /** Put back by an operator: such deliveries share a part of the partner's slots. */
  readonly isRedriven: boolean;
  /** Attempts in this window. */
  readonly tries: number;
  /** The whole story of failed attempts, oldest first. */
  readonly attempts: readonly Attempt[];
}

export interface Lane {
  readonly key: string;
  readonly items: Item[];
  state: 'ready' | 'busy' | 'held';
}

const laneKey = (receiver: PartyId, stream: string) => `${receiver} ${stream}`;

export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  /** In order of turn; those whose head was re-driven apart. */
  readonly #ready = new Set<Lane>();
  readonly #readyAgain = new Set<Lane>();
  /** Lanes that wait for the lane of another object. */
  readonly #followers = new Map<string, Set<Lane>>();
  #size = 0;
  #busy = 0;
  #busyAgain = 0;

  /** Deliveries in memory. */
  get size(): number {
    return this.#size;
  }

  /** Deliveries in flight. */
  get busy(): number {
    return this.#busy;
  }

  add(item: Item): Lane {
    const key = laneKey(item.receiver, item.stream);
    let lane = this.#lanes.get(key);
    if (!lane) {
      lane = { key, items: [], state: 'ready' };
      this.#lanes.set(key, lane);
      (item.isRedriven ? this.#readyAgain : this.#ready).add(lane);
    }
    lane.items.push(item);
    this.#size++;
    return lane;
  }

  /** The lane whose turn it is, now busy; undefined when none may go. Of re-driven ones at most `shareMax` are in flight. */
  take(shareMax: number): Lane | undefined {
    const [again] = this.#busyAgain < shareMax ? this.#readyAgain : [];
    const [fresh] = this.#ready;
    const lane = again ?? fresh;
    if (!lane) return undefined;
    this.#unready(lane);
    lane.state = 'busy';
    this.#busy++;
    if (lane.items[0]?.isRedriven) this.#busyAgain++;
    return lane;
  }

  /** The head of a busy lane is settled: the next one takes its turn. */
  done(lane: Lane): void {
    this.#land(lane);
    lane.items.shift();
    this.#size--;
    if (lane.items.length === 0) this.#lanes.delete(lane.key);
    else this.#makeReady(lane);
  }

  /** The head of a busy lane stays, and waits. */
  hold(lane: Lane, head?: Item): void {
    this.#land(lane);
    lane.state = 'held';
    if (head) lane.items[0] = head;
  }

  /** A lane that nobody has taken yet waits. */
  holdReady(lane: Lane): void {
    this.#unready(lane);
    lane.state = 'held';
  }

  /** A held lane takes its turn again. */
  release(lane: Lane): void {
    if (lane.state === 'held' && this.#lanes.get(lane.key) === lane) this.#makeReady(lane);
  }

  /** The lane of an object that still has undelivered updates for this receiver. */
  laneOf(receiver: PartyId, stream: string): Lane | undefined {
    return this.#lanes.get(laneKey(receiver, stream));
  }

  /** Held lanes whose head waits for this object's updates. */
  *waitingBehind(receiver: PartyId, stream: string): Iterable<Lane> {
    for (const lane of this.#followers.get(laneKey(receiver, stream)) ?? []) yield lane;
    this.#followers.delete(laneKey(receiver, stream));
  }

  /** The head of a busy lane waits for another object's updates. */
  holdBehind(lane: Lane, receiver: PartyId, stream: string): void {
    this.hold(lane);
    const key = laneKey(receiver, stream);
    const followers = this.#followers.get(key) ?? new Set<Lane>();
    this.#followers.set(key, followers.add(lane));
  }

  /** Nothing waits any more. */
  releaseAll(): void {
    for (const lane of this.#lanes.values()) this.release(lane);
  }

  *items(): Iterable<Item> {
    for (const lane of this.#lanes.values()) yield* lane.items;
  }

  #makeReady(lane: Lane): void {
    lane.state = 'ready';
    (lane.items[0]?.isRedriven ? this.#readyAgain : this.#ready).add(lane);
  }

  #unready(lane: Lane): void {
    this.#ready.delete(lane);
    this.#readyAgain.delete(lane);
  }

  #land(lane: Lane): void {
    this.#busy--;
    if (lane.items[0]?.isRedriven) this.#busyAgain--;
  }
}
