/**
 * The in-memory queue of one receiving partner: one lane per receiver and object, served round-robin. Lanes keep the
 * order of each object and confine head-of-line blocking to it.
 *
 * LANES-1  A lane is strictly first in, first out, with one delivery in flight.
 * LANES-2  A held lane blocks no other lane; ready lanes take turns.
 * LANES-3  Lanes with a re-driven head get one in `redriveShare` of the slots and turns: no more while others wait, so
 *     that a re-drive does not starve live traffic, and no less.
 * LANES-4  The caller of `add` bounds memory; a lane that is empty is removed.
 */
import type { Seq, StoredEvent } from '../../../storage/contract.ts';
import type { Attempt, Form } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';
import { MultisetMin, RoundRobin } from './queues.ts';

export interface Item {
  readonly receiver: PartyId;
  readonly seq: Seq;
  /** Event stream of the object. */
  readonly stream: string;
  readonly module: string;
  readonly sender: PartyId;
  /** Id of the object, as the event spells it. */
  readonly id: string;
  /** Characters of the body that is sent. */
  readonly size: number;
  /** Start of the retry window, epoch ms: acceptance, or the last re-drive. */
  readonly since: number;
  /** When the delivery came into memory, epoch ms. */
  readonly loadedAt: number;
  /** Stream whose undelivered updates go first (a CDR waits for its session), for at most 10 s. */
  readonly behind: string | null;
  readonly correlationId: string | null;
  readonly form: Form;
  /** The whole object is sent in place of a part. [D59] */
  readonly asWhole: boolean;
  /** Kept until the first attempt has ended, if memory allows; null: read from the log for the attempt. */
  readonly event: StoredEvent | null;
  /** A re-drive or resend: such deliveries share one in `redriveShare` of the partner's slots. [LANES-3] */
  readonly isRedriven: boolean;
  /** Attempts in this retry window. */
  readonly tries: number;
  /** All earlier attempts, also those before a re-drive, oldest first. */
  readonly attempts: readonly Attempt[];
}

interface OwnLane {
  readonly key: string;
  readonly items: Item[];
  state: 'ready' | 'busy' | 'held';
  /** When the head became or becomes due, epoch ms. It orders no lanes; lag and overdue deliveries are measured by it. */
  dueAt: number;
  /** Key of the lane whose updates the head waits for; null when it waits for none. */
  behind: string | null;
}

/** Only `Lanes` changes a lane. */
export type Lane = Readonly<OwnLane>;

/**
 * Re-driven deliveries get one in this many of a partner's slots (at least one), and of its turns while others wait. A
 * smaller number slows live traffic during a re-drive.
 */
const redriveShare = 4;

/** What others read of the lanes of a receiver. */
export type LaneCounts = Pick<Lanes, 'size' | 'busy' | 'busySize' | 'readySince'>;

export const laneKey = (receiver: PartyId, stream: string) => `${receiver} ${stream}`;

export class Lanes {
  readonly #lanes = new Map<string, OwnLane>();
  /** Ready lanes in round-robin order; `#readyAgain` has those with a re-driven head. */
  readonly #ready = new RoundRobin<OwnLane>();
  readonly #readyAgain = new RoundRobin<OwnLane>();
  /** Lanes that wait for the lane of another object, by the key of that lane. */
  readonly #followers = new Map<string, Set<OwnLane>>();
  readonly #oldest = new MultisetMin();
  #size = 0;
  #busy = 0;
  #busySize = 0;
  /** Re-driven deliveries in flight. */
  #busyAgain = 0;
  /** Turns since a re-driven head last had one. */
  #takenSince = 0;

  /** Deliveries in memory. */
  get size(): number {
    return this.#size;
  }

  /** Start of the earliest retry window, epoch ms; null when memory holds no delivery. */
  get oldestAt(): number | null {
    return this.#oldest.at;
  }

  /** When the lane whose turn is next became due, epoch ms; null when none is ready. Leaves re-driven heads out. */
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

  /** Takes the next lane and marks it busy; undefined when none may go. `slots`: limit of those in flight. [LANES-3] */
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

  /**
   * Removes the settled head of a busy lane; the next delivery is due now and takes its turn. When none is left, the
   * lanes that waited for the updates of this object go on.
   */
  done(lane: OwnLane, now: number): void {
    this.#land(lane);
    lane.dueAt = now;
    const ended = lane.items.shift();
    if (ended) this.#oldest.remove(ended.since);
    this.#size--;
    if (lane.items.length > 0) return this.#makeReady(lane);
    this.#lanes.delete(lane.key);
    const followers = this.#followers.get(lane.key);
    if (followers) for (const other of [...followers]) this.#makeReady(other);
  }

  /** Replaces the head of a busy lane by the form that is really sent. */
  replace(lane: OwnLane, head: Item): void {
    this.#busySize += head.size - (lane.items[0]?.size ?? 0);
    lane.items[0] = head;
  }

  /** Holds a lane until the head is due: its head, or the `head` that replaces it, stays and waits. */
  hold(lane: OwnLane, dueAt: number, head?: Item): void {
    if (lane.state === 'busy') this.#land(lane);
    else this.#unready(lane);
    lane.state = 'held';
    lane.dueAt = dueAt;
    if (head) lane.items[0] = head;
  }

  /** Makes a held lane ready; does nothing for one that is ready, busy or removed. */
  release(lane: OwnLane): void {
    if (lane.state === 'held' && this.#lanes.get(lane.key) === lane) this.#makeReady(lane);
  }

  /** The lane of an object; undefined when it has no undelivered updates for this receiver. */
  laneOf(receiver: PartyId, stream: string): Lane | undefined {
    return this.#lanes.get(laneKey(receiver, stream));
  }

  /** Holds a busy lane behind the updates of another object, at the latest until the head is due. */
  holdBehind(lane: OwnLane, ahead: Lane, dueAt: number): void {
    this.hold(lane, dueAt);
    const followers = this.#followers.get(ahead.key) ?? new Set<OwnLane>();
    this.#followers.set(ahead.key, followers.add(lane));
    lane.behind = ahead.key;
  }

  /** Makes every held lane ready. */
  releaseAll(): void {
    for (const lane of this.#lanes.values()) this.release(lane);
  }

  /** Counts lanes whose head was due before an instant (epoch ms), in flight or not. */
  countDueBefore(at: number): number {
    let due = 0;
    for (const lane of this.#lanes.values()) if (lane.dueAt < at) due++;
    return due;
  }

  #makeReady(lane: OwnLane): void {
    this.#unfollow(lane);
    lane.state = 'ready';
    (lane.items[0]?.isRedriven ? this.#readyAgain : this.#ready).add(lane);
  }

  /** The lane no longer waits for another one, so the end of that one must not release it. */
  #unfollow(lane: OwnLane): void {
    if (lane.behind === null) return;
    const followers = this.#followers.get(lane.behind);
    followers?.delete(lane);
    if (followers?.size === 0) this.#followers.delete(lane.behind);
    lane.behind = null;
  }

  #unready(lane: OwnLane): void {
    this.#ready.delete(lane);
    this.#readyAgain.delete(lane);
  }

  #land(lane: OwnLane): void {
    this.#busy--;
    this.#busySize -= lane.items[0]?.size ?? 0;
    if (lane.items[0]?.isRedriven) this.#busyAgain--;
  }
}
