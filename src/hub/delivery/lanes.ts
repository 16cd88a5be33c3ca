/**
 * The in-memory queue of one receiving partner: one lane per receiver and object. Lanes keep the order of each object and
 * confine head-of-line blocking to it; modules take turns, in each the sending partners, and the lanes of each of these.
 *
 * LANES-1  A lane is strictly first in, first out, with one delivery in flight.
 * LANES-2  A held lane blocks no other lane. Modules take turns; in a module the partners that send do, so that the flood of
 *     one makes no other one's deliveries late; and so do the ready lanes of a partner.
 * LANES-3  Lanes with a re-driven head get one in `redriveShare` of the slots and turns: no more while others wait, so
 *     that a re-drive does not starve live traffic, and no less.
 * LANES-4  The caller of `add` bounds memory; a lane that is empty is removed.
 * LANES-5  While a partner receives several modules, none of them gets all slots: one in `reserveShare`, at least one, stays free for
 *     the others, so that calls of one module that hang do not hold them back.
 */
import type { Seq } from '../../../storage/contract.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Item } from './delivery-row.ts';
import { GroupedRoundRobin, MultisetMin, noSource, type Place, type Source, Sources } from './queues.ts';

/** The lanes of one module. */
interface Queue {
  readonly module: ObjectModule;
  /** Ready lanes by sending partner; `readyAgain` has those with a re-driven head. */
  readonly ready: GroupedRoundRobin<OwnLane>;
  readonly readyAgain: GroupedRoundRobin<OwnLane>;
  /** Deliveries in memory, and left in the log by lanes. */
  readonly sources: Sources;
  /** Deliveries in flight. */
  busy: number;
  /** Turns since a re-driven head last had one. */
  takenSince: number;
  /** When a delivery was last added, hub time, ms. */
  addedAt: number;
  /** When `waiting` last saw a delivery that was owed before the partner last began to take the module, hub time, ms. */
  heldAt: number;
}

interface OwnLane {
  readonly key: string;
  readonly queue: Queue;
  /** Partner of the object's owner. */
  readonly from: string;
  readonly items: Item[];
  /** A lane without deliveries in memory whose rest is in the log is held. */
  state: 'ready' | 'busy' | 'held';
  /** The rest that is in the log: behind `after` up to `upTo`; null when memory holds all. */
  skipped: { readonly after: Seq; readonly upTo: Seq; readonly count: number } | null;
  /** When the head became or becomes due, hub time, ms. It orders no lanes; lag and overdue deliveries are measured by it. */
  dueAt: number;
  /** Key of the lane whose updates the head waits for; null when it waits for none. */
  behind: string | null;
  /** Where it is among the ready lanes, and among which of both; null when it is not ready. */
  place: Place<OwnLane> | null;
  ready: GroupedRoundRobin<OwnLane> | null;
}

/** Only `Lanes` changes a lane. */
export type Lane = Readonly<OwnLane>;

/** What may be in flight to a partner now. */
export interface Slots {
  /** Of all modules together. */
  readonly all: number;
  /** Of one module, as far as its circuit says. */
  readonly of: (module: ObjectModule) => number;
  /** Characters of a body at most. */
  readonly sizeMax: number;
}

/** Ready lanes that have not been taken. */
export interface Waiting {
  /** When the oldest of them became due, hub time, ms. */
  readonly since: number;
  /** They have a free slot. */
  readonly mayGo: boolean;
}

/**
 * Re-driven deliveries get one in this many of a partner's slots (at least one), and of its turns while others wait. A
 * smaller number slows live traffic during a re-drive.
 */
const redriveShare = 4;
/** A smaller number leaves fewer slots to a partner that has a backlog of one module. [LANES-5] */
const reserveShare = 4;
/** How long after its last delivery a module still counts as one that the partner receives, ms. [LANES-5] */
const receivedMs = 60_000;

/** What others read of the lanes of a receiver. */
export type LaneCounts = Pick<Lanes, 'size' | 'busy' | 'busySize'>;

/** Ready lanes of a module among which one is sought: whose body there is room for, or whose head has waited since before the partner took any. */
const lookedAt = 16;

/** A part that goes as a whole is as large as that may be. */
function fits({ items }: Lane, { sizeMax }: Slots): boolean {
  const head = items[0];
  return (head?.asWhole ? Number.POSITIVE_INFINITY : (head?.size ?? 0)) <= sizeMax;
}

export const laneKey = (receiver: PartyId, stream: string) => `${receiver} ${stream}`;

export class Lanes {
  readonly #lanes = new Map<string, OwnLane>();
  /** In the order of their turns. */
  readonly #queues: Queue[] = [];
  /** Lanes that wait for the lane of another object, by the key of that lane. */
  readonly #followers = new Map<string, Set<OwnLane>>();
  readonly #oldest = new MultisetMin();
  #size = 0;
  #busy = 0;
  #busySize = 0;
  /** Re-driven deliveries in flight. */
  #busyAgain = 0;
  readonly #partnerOf: (sender: PartyId) => string;

  /** `partnerOf`: the partner of a sending party, whose turns it shares. */
  constructor(partnerOf = (sender: PartyId): string => sender) {
    this.#partnerOf = partnerOf;
  }

  /** Deliveries in memory. */
  get size(): number {
    return this.#size;
  }

  /** Start of the earliest retry window, hub time, ms; null when memory holds no delivery. */
  get oldestAt(): number | null {
    return this.#oldest.at;
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
      const queue = this.#queueOf(item.module);
      const from = this.#partnerOf(item.sender);
      const [dueAt, place, ready] = [item.loadedAt, null, null];
      lane = { key, queue, from, items: [], state: 'held', skipped: null, dueAt, behind: null, place, ready };
      this.#lanes.set(key, lane);
    }
    lane.items.push(item);
    if (lane.items.length === 1 && lane.state === 'held') this.#makeReady(lane);
    lane.queue.sources.count(lane.from, { size: 1 });
    lane.queue.addedAt = item.loadedAt;
    this.#oldest.add(item.since);
    this.#size++;
    return lane;
  }

  /** What memory holds of a module, and lanes have left in the log of it. */
  heldOf(module: ObjectModule): Pick<Source, 'size' | 'skipped'> {
    return this.#known(module)?.sources ?? noSource;
  }

  /** The same of one sending partner. */
  heldFrom(module: ObjectModule, sender: PartyId): Source {
    return this.#known(module)?.sources.of(this.#partnerOf(sender)) ?? noSource;
  }

  /** Leaves a delivery in the log when its lane has `most` in memory, or has left some before it there. */
  skip(key: string, seq: Seq, most: number): boolean {
    const lane = this.#lanes.get(key);
    if (!lane || (!lane.skipped && lane.items.length < most)) return false;
    const { after, count } = lane.skipped ?? { after: seq - 1, count: 0 };
    lane.skipped = { after, upTo: seq, count: count + 1 };
    lane.queue.sources.count(lane.from, { skipped: 1 });
    return true;
  }

  /** Of what a lane has left in the log, `count` deliveries up to this sequence are added now. */
  found(lane: OwnLane, upTo: Seq, count: number): void {
    if (!lane.skipped) return;
    const isAll = upTo >= lane.skipped.upTo;
    lane.queue.sources.count(lane.from, { skipped: -(isAll ? lane.skipped.count : count) });
    lane.skipped = isAll ? null : { ...lane.skipped, after: upTo, count: lane.skipped.count - count };
  }

  /** Takes the next lane and marks it busy; undefined when none may go. `now`: hub time, ms. [LANES-2] */
  take(slots: Slots, now: number): Lane | undefined {
    for (const queue of this.#queues) {
      const lane = this.#mayGo(queue, slots, now) ? this.#firstOf(queue, slots) : undefined;
      if (!lane) continue;
      if (this.#queues.length > 1) {
        this.#queues.splice(this.#queues.indexOf(queue), 1);
        this.#queues.push(queue);
      }
      queue.takenSince = lane.items[0]?.isRedriven ? 0 : queue.takenSince + 1;
      this.#unready(lane);
      lane.state = 'busy';
      queue.busy++;
      this.#busy++;
      this.#busySize += lane.items[0]?.size ?? 0;
      if (lane.items[0]?.isRedriven) this.#busyAgain++;
      return lane;
    }
    return undefined;
  }

  /** Whether any lane of a sending partner is ready; of any partner when null. */
  hasReady(from: string | null): boolean {
    return this.#queues.some(({ ready }) => (from === null ? ready.first : ready.firstIn(from)) !== undefined);
  }

  /**
   * When the oldest ready lane of some modules became due that may go now; when none of them may, the same of those that
   * only wait for a slot. Null when none is ready. Leaves re-driven heads out, and modules among whose first ready lanes
   * one has an untried head up to `heldUpTo`, owed since before the partner last began to take the module; what waited
   * behind those counts from when one was last seen. `from`: only that sending partner's first lane of each module, and nothing but what the
   * last look at all partners has seen of those that are behind.
   */
  waiting(
    slots: Slots,
    now: number,
    counts: (module: ObjectModule) => boolean,
    heldUpTo: (module: ObjectModule) => Seq,
    from: string | null = null,
  ): Waiting | null {
    const waiting = this.#queues.flatMap((queue): Waiting[] => {
      const first = from === null ? queue.ready.first : queue.ready.firstIn(from);
      if (!first || !counts(queue.module)) return [];
      let { dueAt } = first;
      if (from === null) {
        const upTo = heldUpTo(queue.module);
        const isHeld = (lane: Lane) => {
          const [head] = lane.items;
          dueAt = Math.min(dueAt, lane.dueAt);
          return head !== undefined && head.tries === 0 && head.seq <= upTo;
        };
        if (queue.ready.firstOf(lookedAt, isHeld)) {
          queue.heldAt = now;
          return [];
        }
      }
      const since = Math.max(dueAt, queue.heldAt);
      return [{ since, mayGo: fits(first, slots) && this.#mayGo(queue, slots, now) }];
    });
    const going = waiting.filter(({ mayGo }) => mayGo);
    return (going.length > 0 ? going : waiting).sort((a, b) => a.since - b.since)[0] ?? null;
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
    const { sources } = lane.queue;
    sources.count(lane.from, { size: -1 });
    if (lane.items.length > 0) return this.#makeReady(lane);
    sources.count(lane.from, { moving: -1 });
    lane.state = 'held';
    if (lane.skipped) return;
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
    if (lane.state !== 'held') lane.queue.sources.count(lane.from, { moving: -1 });
    lane.state = 'held';
    lane.dueAt = dueAt;
    if (head) lane.items[0] = head;
  }

  /** Makes a held lane ready; does nothing for one that is ready, busy or removed. */
  release(lane: OwnLane): void {
    if (lane.state === 'held' && lane.items.length > 0 && this.#lanes.get(lane.key) === lane) this.#makeReady(lane);
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

  /** Counts lanes of some modules whose head was due before an instant (hub time, ms), in flight or not. */
  countDueBefore(at: number, counts: (module: ObjectModule) => boolean): number {
    let due = 0;
    for (const { dueAt, queue } of this.#lanes.values()) if (dueAt < at && counts(queue.module)) due++;
    return due;
  }

  /** Deliveries of a module in flight. */
  busyOf(module: ObjectModule): number {
    return this.#queueOf(module).busy;
  }

  #known(module: ObjectModule): Queue | undefined {
    return this.#queues.find((queue) => queue.module === module);
  }

  #queueOf(module: ObjectModule): Queue {
    const known = this.#known(module);
    if (known) return known;
    const lanes = { ready: new GroupedRoundRobin<OwnLane>(), readyAgain: new GroupedRoundRobin<OwnLane>() };
    const queue = { module, ...lanes, sources: new Sources(), busy: 0, takenSince: 0, addedAt: 0, heldAt: 0 };
    this.#queues.push(queue);
    return queue;
  }

  /** [LANES-5] */
  #mayGo(queue: Queue, { all, of }: Slots, now: number): boolean {
    if (this.#busy >= all || queue.busy >= of(queue.module)) return false;
    const reserved = Math.min(all - 1, Math.max(1, Math.floor(all / reserveShare)));
    if (queue.busy < all - reserved) return true;
    let used = 0;
    for (const other of this.#queues) {
      if (other !== queue && (other.sources.size > 0 || now - other.addedAt < receivedMs)) used += of(other.module);
    }
    return queue.busy < all - Math.min(reserved, used);
  }

  /** The ready lane of a module whose turn it is. [LANES-3] */
  #firstOf({ ready, readyAgain, takenSince }: Queue, slots: Slots): OwnLane | undefined {
    const shareMax = Math.max(1, Math.floor(slots.all / redriveShare));
    const firstIn = (lanes: GroupedRoundRobin<OwnLane>) => {
      const { first } = lanes;
      return !first || fits(first, slots) ? first : lanes.firstOf(lookedAt, (lane) => fits(lane, slots));
    };
    const again = this.#busyAgain < shareMax ? firstIn(readyAgain) : undefined;
    const fresh = firstIn(ready);
    return takenSince >= redriveShare - 1 ? (again ?? fresh) : (fresh ?? again);
  }

  #makeReady(lane: OwnLane): void {
    this.#unfollow(lane);
    if (lane.state === 'held') lane.queue.sources.count(lane.from, { moving: 1 });
    if (lane.state === 'ready') return;
    lane.state = 'ready';
    lane.ready = lane.items[0]?.isRedriven ? lane.queue.readyAgain : lane.queue.ready;
    lane.place = lane.ready.add(lane.from, lane);
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
    if (lane.place) lane.ready?.remove(lane.from, lane.place);
    [lane.place, lane.ready] = [null, null];
  }

  #land(lane: OwnLane): void {
    lane.queue.busy--;
    this.#busy--;
    this.#busySize -= lane.items[0]?.size ?? 0;
    if (lane.items[0]?.isRedriven) this.#busyAgain--;
  }
}
