/**
 * Position of one receiver in the log: for each module up to where its deliveries were taken into memory, and which of
 * them are still owed.
 *
 * PROGRESS-1  The floor never passes a delivery that has neither ended nor a row of its own. (OUTBOX-WRITER-1)
 * PROGRESS-2  The deliveries of one module are taken in the order of the log. A module that is behind takes no live event:
 *     it reads the log itself, whatever the other modules do.
 * PROGRESS-3  What is left in the log is counted: as it comes, and what a restart left there page by page, each delivery once.
 */
import type { Seq } from '../../../storage/contract.ts';
import { moduleNames, type ObjectModule } from '../../domain/modules.ts';
import type { PartyId } from '../../domain/party.ts';

interface Place {
  /** Everything owed of the module up to this sequence was taken into memory. */
  cursor: Seq;
  /** The log holds more that is not in memory. */
  isBehind: boolean;
  /** Deliveries behind the cursor that are in the log and have no row, as far as they are counted. */
  left: number;
  /** Sequences taken that have neither ended nor a row; ascending. */
  readonly outstanding: Set<Seq>;
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

  get isBehind(): boolean {
    for (const { isBehind } of this.#places.values()) if (isBehind) return true;
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

  /** Modules whose backlog is in the log, each with the sequence after which it is to be read. */
  behind(): Map<ObjectModule, Seq> {
    const behind = [...this.#places].filter(([, { isBehind }]) => isBehind);
    return new Map(behind.map(([module, { cursor }]) => [module, cursor]));
  }

  /** Whether a live event is to be taken: it is new, and its module is not behind. [PROGRESS-2] */
  expects(module: ObjectModule, seq: Seq): boolean {
    const place = this.#places.get(module);
    return place ? !place.isBehind && seq > place.cursor : seq > this.#offered;
  }

  /** Memory has no room for the module: what follows of it stays in the log. */
  fallBehind(module: ObjectModule): void {
    const place = this.#placeOf(module);
    if (!place.isBehind) place.cursor = Math.max(place.cursor, this.#offered);
    place.isBehind = true;
  }

  /** The log is offered no further: each module reads on from here by itself. */
  fallBehindWholly(): void {
    for (const module of moduleNames) this.fallBehind(module);
  }

  /** An event stays in the log. */
  leave(module: ObjectModule, seq: Seq): void {
    const place = this.#places.get(module);
    if (place?.isBehind && seq > place.cursor && this.#isCounted(seq)) place.left++;
  }

  /** At a restart: what of the log up to the head is left there is to be counted. */
  restored(head: Seq): void {
    if (head > this.#written) this.#uncounted = { counted: this.#written, head };
  }

  /** Counts the next of what a restart left in the log: these events, which have no rows, up to a sequence. [PROGRESS-3] */
  count(events: Iterable<{ readonly module: ObjectModule; readonly seq: Seq }>, upTo: Seq): void {
    for (const { module, seq } of events) {
      const place = this.#places.get(module);
      if (place?.isBehind && seq > place.cursor) place.left++;
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

  /** Passes an event of the log; false when its delivery has a row, so that it must not be taken. */
  take(module: ObjectModule, seq: Seq): boolean {
    const place = this.#placeOf(module);
    place.cursor = seq;
    if (!place.isBehind) this.#offered = Math.max(this.#offered, seq);
    if (this.#known.delete(seq)) return false;
    if (place.isBehind && this.#isCounted(seq)) place.left--;
    place.outstanding.add(seq);
    return true;
  }

  /** The log holds nothing more that is owed of these modules, up to this sequence; `isAll`: nor behind it. */
  passed(modules: Iterable<ObjectModule>, seq: Seq, isAll: boolean): void {
    for (const module of modules) {
      const place = this.#placeOf(module);
      place.cursor = Math.max(place.cursor, seq);
      if (isAll) [place.isBehind, place.left] = [false, 0];
    }
    if (isAll && !this.isBehind) this.caughtUp();
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
    for (const { outstanding } of this.#places.values()) if (outstanding.delete(seq)) return;
  }

  /** Whether deliveries of a module up to a sequence may still be in the log. */
  isUnread(module: ObjectModule, seq: Seq): boolean {
    const place = this.#places.get(module);
    return place?.isBehind === true && place.cursor < seq;
  }

  /** Whether a delivery that has no row is still going to be sent. */
  isPending(seq: Seq): boolean {
    for (const { outstanding, isBehind, cursor } of this.#places.values()) {
      if (outstanding.has(seq) || (isBehind && seq > cursor)) return true;
    }
    return false;
  }

  /** `dispatchedTo`: the sequence up to which events were offered to receivers. [PROGRESS-1] */
  floor(dispatchedTo: Seq): Seq {
    let floor = dispatchedTo;
    for (const { outstanding, isBehind, cursor } of this.#places.values()) {
      const [first] = outstanding;
      if (first !== undefined) floor = Math.min(floor, first - 1);
      if (isBehind) floor = Math.min(floor, cursor);
    }
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

  #placeOf(module: ObjectModule): Place {
    const known = this.#places.get(module);
    if (known) return known;
    const place = { cursor: this.#offered, isBehind: false, left: 0, outstanding: new Set<Seq>() };
    this.#places.set(module, place);
    return place;
  }
}
