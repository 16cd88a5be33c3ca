/**
 * Position of one receiver in the log: for each module up to where its deliveries were taken into memory, which senders
 * were set aside on the way, and which deliveries are still owed.
 *
 * PROGRESS-1  The floor never passes a delivery that has neither ended nor a row of its own. (OUTBOX-WRITER-1)
 * PROGRESS-2  The deliveries of one sender of a module are taken in the order of the log. A module that is behind takes no live
 *     event, and a sender that is set aside none of its own: they are read from the log, whatever the others do.
 * PROGRESS-3  What is left in the log is counted: as it comes, and what a restart left there page by page, each delivery once.
 * PROGRESS-4  A sender that is set aside costs one position, however much of it is in the log. When all of it was taken, it goes
 *     on with its module.
 * PROGRESS-5  Of the senders that are set aside in a module, the first `apartMax` are read each from its own position, the others
 *     together from the lowest of theirs: so however many they are, the log is read a bounded number of times.
 */
import type { Range, Seq } from '../../../storage/contract.ts';
import { moduleNames, type ObjectModule } from '../../domain/modules.ts';
import type { PartyId } from '../../domain/party.ts';
import { MultisetMin } from './queues.ts';

/** What is read from the log in the order of the log: a module, or a sender of it that is set aside. */
export interface Reader {
  readonly module: ObjectModule;
  /** Null: every sender that is not set aside. */
  readonly sender: PartyId | null;
  /** Everything owed up to this sequence was taken into memory, or its sender was set aside. */
  readonly cursor: Seq;
}

/** A delivery, as far as its place in the log depends on it. */
export interface Owed {
  readonly module: ObjectModule;
  /** Owner of the object. */
  readonly sender: PartyId;
  readonly seq: Seq;
}

/** Each reads the log once more when all are behind: 8 of 300 senders read 7 to 11 events a delivery, 300 of them 30 to 50. */
const apartMax = 8;

/** A page of the log, read for all whose position is not before it. */
export interface Passed extends Range {
  /** Those that had no room for all that it holds of them. */
  readonly stopped: ReadonlySet<Reader>;
}

interface Aside extends Reader {
  readonly sender: PartyId;
  cursor: Seq;
  /** Its last delivery up to the cursor of the module: more of it is behind its own cursor up to here. */
  upTo: Seq;
}

interface Place extends Reader {
  cursor: Seq;
  /** The log holds more than was taken or set aside. */
  isBehind: boolean;
  /** Deliveries that are in the log and have no row, as far as they are counted. */
  left: number;
  /** Sequences taken that have neither ended nor a row. */
  readonly outstanding: MultisetMin;
  /** Senders without room in memory. */
  readonly aside: Map<PartyId, Aside>;
}

export class Progress {
  readonly receiver: PartyId;
  /** By module, from its first delivery on. */
  readonly #places = new Map<ObjectModule, Place>();
  /** Every event up to this sequence was offered, of all modules that are not behind. */
  #offered: Seq;
  /** Sequences above the floor that have rows, so that they are not taken again. */
  readonly #known = new Set<Seq>();
  /** The floor that the store holds. */
  #written: Seq;
  /** Up to here deliveries may have rows that are not among the known. */
  #rowsUpTo: Seq = 0;
  /** What a restart left in the log, behind `counted` up to `head`, is not counted yet. [PROGRESS-3] */
  #uncounted: { readonly counted: Seq; readonly head: Seq } | null = null;

  constructor(receiver: PartyId, offered: Seq, written: Seq = 0) {
    this.receiver = receiver;
    this.#offered = offered;
    this.#written = written;
  }

  /** Up to where the log was offered; modules that are behind have their own positions. */
  get offered(): Seq {
    return this.#offered;
  }

  /** Whether the log holds deliveries that are to be read. */
  get isBehind(): boolean {
    for (const { isBehind, aside } of this.#places.values()) if (isBehind || aside.size > 0) return true;
    return false;
  }

  /** Deliveries that are in the log and not in memory; fewer than there are while `uncounted` is not null. [PROGRESS-3] */
  get left(): number {
    let left = 0;
    for (const place of this.#places.values()) left += place.left;
    return left;
  }

  get uncounted(): { readonly counted: Seq; readonly head: Seq } | null {
    return this.#uncounted;
  }

  /** All whose backlog is in the log. */
  *#readers(): IterableIterator<Reader> {
    for (const place of this.#places.values()) {
      if (place.isBehind) yield place;
      yield* place.aside.values();
    }
  }

  /** Those from whose positions the log is read. [PROGRESS-5] */
  *readers(): IterableIterator<Reader> {
    for (const place of this.#places.values()) {
      if (place.isBehind) yield place;
      let count = 0;
      let last: Reader | null = null;
      for (const aside of place.aside.values()) {
        if (count++ < apartMax) yield aside;
        else if (!last || aside.cursor < last.cursor) last = aside;
      }
      if (last) yield last;
    }
  }

  /** Who reads a delivery from the log; null when it was taken, or comes live. */
  readerOf({ module, sender, seq }: Owed): Reader | null {
    const place = this.#places.get(module);
    if (!place) return null;
    if (seq > place.cursor) return place.isBehind ? place : null;
    const aside = place.aside.get(sender);
    return aside && seq > aside.cursor ? aside : null;
  }

  /** Whether a live event is to be taken, or its sender set aside: it is new, and its module is not behind. [PROGRESS-2] */
  expects(module: ObjectModule, seq: Seq): boolean {
    const place = this.#places.get(module);
    return place ? !place.isBehind && seq > place.cursor : seq > this.#offered;
  }

  isAside(module: ObjectModule, sender: PartyId): boolean {
    return this.#places.get(module)?.aside.has(sender) ?? false;
  }

  /** Memory has no room for the sender: this delivery of it, and what follows, stays in the log. [PROGRESS-4] */
  setAside({ module, sender, seq }: Owed): Reader {
    const place = this.#placeOf(module);
    const aside = place.aside.get(sender) ?? { module, sender, cursor: seq - 1, upTo: seq };
    aside.upTo = seq;
    place.aside.set(sender, aside);
    if (!place.isBehind && this.#isCounted(seq)) place.left++;
    this.#pass(place, seq);
    return aside;
  }

  /** The log is offered no further: each module reads on from here by itself. */
  fallBehindWholly(): void {
    for (const module of moduleNames) {
      const place = this.#placeOf(module);
      if (!place.isBehind) place.cursor = Math.max(place.cursor, this.#offered);
      place.isBehind = true;
    }
  }

  /** An event of a module that is behind stays in the log. */
  leave(module: ObjectModule, seq: Seq): void {
    const place = this.#places.get(module);
    if (place?.isBehind && seq > place.cursor && this.#isCounted(seq)) place.left++;
  }

  /** At a restart: what of the log up to the head is left there is to be counted. */
  restored(head: Seq): void {
    if (head > this.#written) this.#uncounted = { counted: this.#written, head };
  }

  /** Counts the next of what a restart left in the log: these deliveries, which have no rows, up to a sequence. [PROGRESS-3] */
  count(deliveries: Iterable<Owed>, upTo: Seq): void {
    for (const owed of deliveries) {
      const place = this.#places.get(owed.module);
      if (place && this.readerOf(owed)) place.left++;
    }
    const { head } = this.#uncounted ?? { head: upTo };
    this.#uncounted = upTo < head ? { counted: upTo, head } : null;
  }

  /** At a restart, too far behind to be scanned with the others: which deliveries up to the head have rows is read with the log. */
  restoredFarBehind(head: Seq): void {
    this.fallBehindWholly();
    this.#rowsUpTo = head;
  }

  /** Whether deliveries behind a sequence may have rows that are not known. */
  hasUnknownRows(after: Seq): boolean {
    return after < this.#rowsUpTo;
  }

  /** Passes a delivery; false when it has a row, so that it must not be taken. */
  take({ module, sender, seq }: Owed, hasRow: boolean): boolean {
    const place = this.#placeOf(module);
    const aside = place.aside.get(sender);
    if (aside) this.#readTo(place, aside, seq);
    else this.#pass(place, seq);
    if (this.#known.delete(seq) || hasRow) return false;
    if ((aside || place.isBehind) && this.#isCounted(seq)) place.left--;
    place.outstanding.add(seq);
    this.#restOf(place);
    return true;
  }

  /** A page was read. `isAll`: the log holds nothing behind it. */
  passed({ after, upTo, stopped }: Passed, isAll: boolean): void {
    for (const place of this.#places.values()) {
      for (const aside of place.aside.values()) {
        if (aside.cursor >= after && !stopped.has(aside)) this.#readTo(place, aside, Math.max(aside.cursor, upTo));
      }
      if (place.isBehind && place.cursor >= after) {
        place.cursor = Math.max(place.cursor, upTo);
        place.isBehind = !isAll;
      }
      this.#restOf(place);
    }
    if (!this.isBehind) this.caughtUp();
  }

  /** The log was offered to its end. */
  caughtUp(): void {
    this.#known.clear();
    this.#uncounted = null;
  }

  /** A delivery that was not passed yet has a row. */
  know(seq: Seq): void {
    this.#known.add(seq);
  }

  /** Whether the delivery was taken and has neither ended nor a row. */
  isOutstanding(module: ObjectModule, seq: Seq): boolean {
    return this.#places.get(module)?.outstanding.has(seq) ?? false;
  }

  /** The delivery has ended or has a row. */
  settle(seq: Seq): void {
    for (const { outstanding } of this.#places.values()) if (outstanding.has(seq)) return outstanding.remove(seq);
  }

  /** Whether deliveries of a sender of a module up to a sequence may still be in the log. */
  isUnread({ module, sender, seq }: Owed): boolean {
    const place = this.#places.get(module);
    if (!place) return false;
    return (place.isBehind && place.cursor < seq) || (place.aside.get(sender)?.cursor ?? seq) < seq;
  }

  /** Whether a delivery that has no row is still going to be sent. */
  isPending(seq: Seq): boolean {
    for (const { outstanding } of this.#places.values()) if (outstanding.has(seq)) return true;
    for (const { cursor } of this.#readers()) if (seq > cursor) return true;
    return false;
  }

  /** `dispatchedTo`: the sequence up to which events were offered to receivers. [PROGRESS-1] */
  floor(dispatchedTo: Seq): Seq {
    let floor = dispatchedTo;
    for (const { outstanding } of this.#places.values()) {
      if (outstanding.at !== null) floor = Math.min(floor, outstanding.at - 1);
    }
    for (const { cursor } of this.#readers()) floor = Math.min(floor, cursor);
    return floor;
  }

  /** Whether the store's floor is lower. */
  isRaisedTo(floor: Seq): boolean {
    return floor > this.#written;
  }

  written(floor: Seq): void {
    this.#written = floor;
  }

  #isCounted(seq: Seq): boolean {
    return this.#uncounted === null || seq <= this.#uncounted.counted || seq > this.#uncounted.head;
  }

  #pass(place: Place, seq: Seq): void {
    place.cursor = seq;
    if (!place.isBehind) this.#offered = Math.max(this.#offered, seq);
  }

  /** [PROGRESS-4] */
  #readTo(place: Place, aside: Aside, seq: Seq): void {
    aside.cursor = seq;
    if (seq >= aside.upTo) place.aside.delete(aside.sender);
  }

  /** Nothing of a module is left in the log when nobody reads it. */
  #restOf(place: Place): void {
    if (!place.isBehind && place.aside.size === 0) place.left = 0;
  }

  #placeOf(module: ObjectModule): Place {
    const known = this.#places.get(module);
    if (known) return known;
    const place: Place = {
      module,
      sender: null,
      cursor: this.#offered,
      isBehind: false,
      left: 0,
      outstanding: new MultisetMin(),
      aside: new Map(),
    };
    this.#places.set(module, place);
    return place;
  }
}
