/**
 * The queue of one receiving partner, in memory: a lane per receiver and object, served in turn.
 *
 * LANES-1  Inside a lane strictly first in, first out, and one in flight.
 * LANES-2  A held lane holds nobody else; lanes that are ready take turns.
 * LANES-3  Lanes with a re-driven head take no more than their share of the slots, and are not kept from it either.
 * LANES-4  Memory is bounded by whoever adds: a lane that is empty is forgotten.
 */
import type { Seq, StoredEvent } from '../../../storage/contract.ts';
import type { Attempt, Form } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';
import { MultisetMin } from './multiset-min.ts';
import { RoundRobin } from './round-robin.ts';

export interface Item {
  readonly receiver: PartyId;
  readonly seq: Seq;
  /** Event stream of the object. */
  readonly stream: string;
  readonly module: string;
  readonly sender: PartyId;
  /** Of the object, as the event has it. */
  readonly id: string;
  /** Characters of the body that is sent. */
  readonly size: number;
  /** Start of the retry window, epoch ms: acceptance, or the last re-drive. */
  readonly since: number;
  /** When it came into memory, epoch ms. */
  readonly loadedAt: number;
  /** Stream whose undelivered updates go first, for a while. */
  readonly behind: string | null;
  readonly correlationId: string | null;
  readonly form: Form;
  /** It goes as a whole in place of a part. [D59] */
  readonly asWhole: boolean;
  /** Kept while it is fresh and memory allows; read again from the log otherwise. */
  readonly event: StoredEvent | null;
  /** Put back or sent anew by an operator: such deliveries share a part of the partner's slots. */
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
  /** From when on its head may go, epoch ms. Order does not follow it; it tells what has waited for too long. */
  dueAt: number;
  /** Key of the lane that its head waits for, while it does. */
  behind: string | null;
}

/** Re-driven deliveries get at most one in so many of a partner's slots, and of its turns while others wait. */
const redriveShare = 4;

export const laneKey = (receiver: PartyId, stream: string) => `${receiver} ${stream}`;

export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  /** In order of turn; those whose head was re-driven apart. */
  readonly #ready = new RoundRobin<Lane>();
  readonly #readyAgain = new RoundRobin<Lane>();
  /** Lanes that wait for the lane of another object. */
  readonly #followers = new Map<string, Set<Lane>>();
  readonly #oldest = new MultisetMin();
  #size = 0;
  #busy = 0;
  #busySize = 0;
  #busyAgain = 0;
  /** Takes since a re-driven head had its turn. */
  #takenSince = 0;

  /** Deliveries in memory. */
  get size(): number {
    return this.#size;
  }

  /** Start of the earliest retry window, epoch ms; null when nothing waits. */
  get oldestAt(): number | null {
    return this.#oldest.at;
  }

  /** Since when the lane whose turn is next may go, epoch ms; null when none waits for its turn. */
  get readySince(): number | null {
    return this.#ready.first?.dueAt ?? null;
  }

  /** Deliveries in flight. */
  get busy(): number {
    return this.#busy;
  }

  /** Characters of the bodies in flight. */
  get busySize(): number {
    return this.#busySize;
  }

  add(item: Item): Lane {
    const key = laneKey(item.receiver, item.stream);
    let lane = this.#lanes.get(key);
    if (!lane) {
      lane = { key, items: [], state: 'ready', dueAt: item.loadedAt, behind: null };
      this.#lanes.set(key, lane);
      (item.isRedriven ? this.#readyAgain : this.#ready).add(lane);
    }
    lane.items.push(item);
    this.#oldest.add(item.since);
    this.#size++;
    return lane;
  }

  /** The lane whose turn it is, now busy; undefined when none may go. `slots`: how many may be in flight. [LANES-3] */
  take(slots: number): Lane | undefined {
    const shareMax = Math.max(1, Math.floor(slots / redriveShare));
    const again = this.#busyAgain < shareMax ? this.#readyAgain.first : undefined;
    const fresh = this.#ready.first;
    const lane = this.#takenSince >= redriveShare - 1 ? (again ?? fresh) : (fresh ?? again);
    if (!lane) return undefined;
    this.#takenSince = lane === again ? 0 : this.#takenSince + 1;
    this.#unready(lane);
    lane.state = 'busy';
    this.#busy++;
    this.#busySize += lane.items[0]?.size ?? 0;
    if (lane.items[0]?.isRedriven) this.#busyAgain++;
    return lane;
  }

  /** The head of a busy lane is settled: the next one takes its turn. */
  done(lane: Lane): void {
    this.#land(lane);
    const ended = lane.items.shift();
    if (ended) this.#oldest.remove(ended.since);
    this.#size--;
    if (lane.items.length === 0) this.#lanes.delete(lane.key);
    else this.#makeReady(lane);
  }

  /** The head of a busy lane goes in another form. */
  replace(lane: Lane, head: Item): void {
    this.#busySize += head.size - (lane.items[0]?.size ?? 0);
    lane.items[0] = head;
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

  /** Nothing of this lane's object is left: what waited for its updates takes its turn. */
  releaseBehind(lane: Lane): void {
    const followers = this.#followers.get(lane.key);
    if (followers) for (const other of [...followers]) this.release(other);
  }

  /** The head of a busy lane waits for another object's updates. */
  holdBehind(lane: Lane, receiver: PartyId, stream: string): void {
    this.hold(lane);
    const key = laneKey(receiver, stream);
    const followers = this.#followers.get(key) ?? new Set<Lane>();
    this.#followers.set(key, followers.add(lane));
    lane.behind = key;
  }

  /** Nothing waits any more. */
  releaseAll(): void {
    for (const lane of this.#lanes.values()) this.release(lane);
  }

  /** Lanes whose head may go since before an instant, in flight or not. */
  countDueBefore(at: number): number {
    let due = 0;
    for (const lane of this.#lanes.values()) if (lane.dueAt < at) due++;
    return due;
  }

  #makeReady(lane: Lane): void {
    this.#unfollow(lane);
    lane.state = 'ready';
    (lane.items[0]?.isRedriven ? this.#readyAgain : this.#ready).add(lane);
  }

  /** It waits for no other lane any more, so that one's end is no word for it to go. */
  #unfollow(lane: Lane): void {
    if (lane.behind === null) return;
    const followers = this.#followers.get(lane.behind);
    followers?.delete(lane);
    if (followers?.size === 0) this.#followers.delete(lane.behind);
    lane.behind = null;
  }

  #unready(lane: Lane): void {
    this.#ready.delete(lane);
    this.#readyAgain.delete(lane);
  }

  #land(lane: Lane): void {
    this.#busy--;
    this.#busySize -= lane.items[0]?.size ?? 0;
    if (lane.items[0]?.isRedriven) this.#busyAgain--;
  }
}
