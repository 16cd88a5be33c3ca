/**
 * The window of one receiving partner: which of its owed deliveries are in memory. The rest stays in the log, and is read
 * when there is room.
 *
 * WINDOW-1  Live events, restart and catching up enter the lanes by the same function (`#offer`).
 * WINDOW-2  Each module has an equal share of the window, so that the backlog of one keeps no other out of memory.
 * WINDOW-3  A lane has at most `laneMax` deliveries in memory, so that the backlog of one object keeps no other of its
 *     module out. What follows of it is noted as outstanding and read from the stream of the object, in order; those
 *     notes are bounded by `windowMax` for each module.
 * WINDOW-4  The backlog of a module is read on when half of its share is free, so that a page is read for many
 *     deliveries; or when all that memory holds of it waits for another attempt: those keep no other out while there
 *     is room for one.
 * WINDOW-5  What a restart leaves in the log is counted in the background, one page of all receivers at a time; `isUncounted` until then. No
 *     delivery waits for that. [PROGRESS-3]
 */
import type { Range, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { ObjectEventData } from '../../domain/events.ts';
import { moduleNames, type ObjectModule } from '../../domain/modules.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Limit } from '../../kit/concurrency.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Context } from '../kernel/context.ts';
import type { DeliveryMemory } from './delivery-row.ts';
import { type Lane, type Lanes, laneKey } from './lanes.ts';
import { type OutboxWriter, rowsOf } from './outbox-writer.ts';
import { Progress } from './progress.ts';

/** Deliveries of one lane in memory; it is read on at half. */
export const laneMax = 8;
/** Limits of one read of the log: events, and characters of records that it brings into memory. */
export const logPage = { limit: 500, size: 4 * 1024 * 1024 };
const readAgainMs = 1_000;
/** A party that is more windows than this behind at a restart is not waited for: it reads the log by itself, while the hub serves. */
const scannedWindows = 8;

interface Parts {
  readonly context: Context;
  readonly writer: OutboxWriter;
  readonly partnerId: PartyId;
  readonly lanes: Lanes;
  readonly pages: Limit;
  readonly counts: Limit;
  /** Puts a delivery without a row at the tail of its lane. */
  readonly enter: (receiver: PartyId, event: StoredEvent) => void;
}

export class DeliveryWindow {
  readonly #parts: Parts;
  readonly #parties = new Map<PartyId, Progress>();
  /** Parties and lanes whose backlog is being read, and names of parties whose backlog is being counted. */
  readonly #reading = new Set<Progress | Lane | PartyId>();
  /** Lanes that are to be read on. */
  readonly #short = new Map<Lane, { readonly receiver: PartyId; readonly stream: string }>();
  /** The log is being scanned for all receivers: one that has no room leaves the scan. */
  #isScanned = true;
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Restores a party from its floor; `know` what has rows, then offer the log from `lowestCursor` on. */
  opened(party: PartyId, floor: Seq): Progress {
    this.#isScanned = false;
    const progress = new Progress(party, floor, floor);
    this.#parties.set(party, progress);
    const { ports, recorder } = this.#parts.context;
    const head = recorder.feed.upTo;
    progress.restored(head);
    if (head - floor > scannedWindows * ports.windowMax) progress.restoredFarBehind(head);
    return progress;
  }

  close(): void {
    this.#isClosed = true;
    this.touch();
  }

  /** Deliveries of one module in memory at most. [WINDOW-2] */
  get share(): number {
    return Math.max(1, Math.floor(this.#parts.context.ports.windowMax / moduleNames.length));
  }

  /** Whether memory has no more room for a module. */
  isFull(module: ObjectModule): boolean {
    const { lanes, context } = this.#parts;
    return lanes.sizeOf(module) >= this.share || lanes.skippedOf(module) >= context.ports.windowMax;
  }

  /** Deliveries that are in the log and not in memory. */
  get left(): number {
    let left = 0;
    for (const progress of this.#parties.values()) left += progress.left;
    for (const module of moduleNames) left += this.#parts.lanes.skippedOf(module);
    return left;
  }

  /** Whether more deliveries may be in the log than `left` says. [WINDOW-5] */
  get isUncounted(): boolean {
    for (const progress of this.#parties.values()) if (progress.uncounted) return true;
    return false;
  }

  /** Whether a module of which memory holds nothing has a backlog in the log. */
  isUnread(counts: (module: ObjectModule) => boolean): boolean {
    const behind = [...this.#parties.values()].flatMap((progress) => [...progress.behind().keys()]);
    return behind.some((module) => counts(module) && this.#parts.lanes.sizeOf(module) === 0);
  }

  /** Takes a committed event that is owed to a party, unless the party will read it from the log. */
  offer(party: PartyId, event: StoredEvent): void {
    const progress = this.progressOf(party, event.seq - 1);
    if (progress.expects(moduleOf(event), event.seq)) this.#offer(progress, event);
    else progress.leave(moduleOf(event), event.seq);
  }

  /** Starts the floor of a new party at the head of the log: it is owed nothing of the past. */
  addParty(party: PartyId): void {
    this.#parts.writer.touch(this.progressNow(party));
  }

  /** Whether a delivery that has no row is still going to be sent. */
  isPending(party: PartyId, seq: Seq): boolean {
    return this.#parties.get(party)?.isPending(seq) ?? true;
  }

  /** Whether deliveries of a module to a party, up to a sequence, may still be in the log. */
  mayHold(party: PartyId, module: ObjectModule, seq: Seq): boolean {
    return this.#parties.get(party)?.isUnread(module, seq) ?? false;
  }

  /** The lowest sequence from which a party that is not behind needs the log; null when there is none. */
  get lowestCursor(): Seq | null {
    const cursors = [...this.#parties.values()].flatMap(({ isBehind, offered }) => (isBehind ? [] : [offered]));
    return cursors.length > 0 ? Math.min(...cursors) : null;
  }

  /** The log was offered up to its head: what is behind is read from now on. */
  scanned(): void {
    this.#isScanned = true;
    for (const progress of this.#parties.values()) if (!progress.isBehind) progress.caughtUp();
    this.readOn();
  }

  /** Has the floors written that have moved. */
  touch(): void {
    for (const progress of this.#parties.values()) this.#parts.writer.touch(progress);
  }

  progressNow(party: PartyId): Progress {
    return this.progressOf(party, this.#parts.context.recorder.feed.upTo);
  }

  progressOf(party: PartyId, from: Seq): Progress {
    const known = this.#parties.get(party);
    if (known) return known;
    const progress = new Progress(party, from);
    this.#parties.set(party, progress);
    return progress;
  }

  /** The head of a lane has ended: the lane is read on when little is left of it. */
  shortened(lane: Lane, receiver: PartyId, stream: string): void {
    if (lane.skipped && lane.items.length <= laneMax / 2) this.#short.set(lane, { receiver, stream });
  }

  /** Reads more of the backlog of modules, and of lanes. [WINDOW-4] */
  readOn(): void {
    if (this.#isClosed) return;
    for (const progress of this.#parties.values()) {
      if (progress.isBehind && this.#readable(progress, this.share / 2).size > 0)
        this.#read(progress, () => this.#catchUp(progress));
      if (progress.uncounted) this.#read(progress.receiver, () => this.#count(progress));
    }
    for (const [lane, { receiver, stream }] of this.#short)
      this.#read(lane, () => this.#refill(lane, receiver, stream));
  }

  #read(what: Progress | Lane | PartyId, read: () => Promise<void>): void {
    if (this.#reading.has(what)) return;
    const { partnerId, context } = this.#parts;
    const { ports, timers } = context;
    this.#reading.add(what);
    read()
      .catch((error: unknown) => {
        ports.log.error({ err: error }, 'could not read the backlog from the log; next try in 1 s');
        timers.arm(`read-on:${partnerId}`, ports.clock.now() + readAgainMs, () => this.readOn());
      })
      .finally(() => this.#reading.delete(what));
  }

  /** Modules that are behind, and hold at most so many deliveries in memory or none that may go, each with its position. */
  #readable(progress: Progress, most: number): Map<ObjectModule, Seq> {
    const { lanes } = this.#parts;
    const isRead = (one: ObjectModule) => !this.isFull(one) && (lanes.sizeOf(one) <= most || lanes.isIdle(one));
    return new Map([...progress.behind()].filter(([one]) => isRead(one)));
  }

  /** Takes an owed event into its lane, or leaves it in the log when memory is full. [WINDOW-1] */
  #offer(progress: Progress, event: StoredEvent): void {
    const { lanes, enter } = this.#parts;
    const module = moduleOf(event);
    if (this.isFull(module)) {
      if (this.#isScanned) progress.fallBehind(module);
      else progress.fallBehindWholly();
      progress.leave(module, event.seq);
      return;
    }
    if (!progress.take(module, event.seq)) return;
    if (!lanes.skip(laneKey(progress.receiver, event.stream), event.seq, laneMax)) enter(progress.receiver, event);
  }

  async #catchUp(progress: Progress): Promise<void> {
    while (await this.#parts.pages.run(() => this.#readPage(progress)));
  }

  /** Takes a page of the backlog; false when there is no room or no more. */
  async #readPage(progress: Progress): Promise<boolean> {
    const { store, recorder } = this.#parts.context;
    const reading = this.#readable(progress, this.share);
    if (this.#isClosed || reading.size === 0) return false;
    const head = recorder.feed.upTo;
    const query = { after: Math.min(...reading.values()), to: progress.receiver };
    const due = (await store.read({ ...logPage, ...query })).filter(({ seq }) => seq <= head);
    // `size` may cut a page before its limit, so only an empty page is the end of the log.
    const last = due.at(-1);
    if (last) await this.#know(progress, { after: query.after, upTo: last.seq }, reading);
    for (const event of due) {
      const module = moduleOf(event);
      if (event.seq <= (reading.get(module) ?? Number.POSITIVE_INFINITY)) continue;
      if (this.isFull(module)) reading.delete(module);
      else this.#offer(progress, event);
    }
    progress.passed(reading.keys(), last?.seq ?? head, !last && recorder.feed.upTo === head);
    return true;
  }

  async #count(progress: Progress): Promise<void> {
    while (!this.#isClosed && progress.uncounted) await this.#parts.counts.run(() => this.#countPage(progress));
  }

  /** [WINDOW-5] */
  async #countPage(progress: Progress): Promise<void> {
    const { store } = this.#parts.context;
    const { counted: after, head } = progress.uncounted ?? { counted: 0, head: 0 };
    const { receiver: dest } = progress;
    const owed = (await store.read({ ...logPage, after, to: dest })).filter(({ seq }) => seq <= head);
    const upTo = owed.at(-1)?.seq ?? head;
    const rowed = new Set<Seq>();
    for (const rows of ['open', 'DELIVERED'] as const) {
      for await (const { seq } of rowsOf(store, { dest, rows, fromSeq: after + 1, toSeq: upTo })) rowed.add(seq);
    }
    const left = owed.filter(({ seq }) => !rowed.has(seq));
    progress.count(
      left.map((event) => ({ module: moduleOf(event), seq: event.seq })),
      upTo,
    );
    await nextTurn();
  }

  /** After a restart far behind: learns which deliveries of a page have rows, so that they are not taken again. */
  async #know(progress: Progress, { after, upTo }: Range, reading: ReadonlyMap<ObjectModule, Seq>): Promise<void> {
    if (!progress.hasUnknownRows(after)) return;
    const { store } = this.#parts.context;
    // Open ones first: a row that ends meanwhile is found in one of the two.
    for (const rows of ['open', 'DELIVERED'] as const) {
      const query = { dest: progress.receiver, rows, fromSeq: after + 1, toSeq: upTo };
      for await (const { seq, data } of rowsOf(store, query)) {
        const read = reading.get((data as DeliveryMemory).module as ObjectModule);
        if (read !== undefined && seq > read) progress.know(seq);
      }
    }
  }

  /** Reads the next deliveries of a lane from the stream of its object. [WINDOW-3] */
  async #refill(lane: Lane, receiver: PartyId, stream: string): Promise<void> {
    const { context, lanes, enter } = this.#parts;
    while (!this.#isClosed && lane.skipped && lane.items.length <= laneMax / 2) {
      const { after, upTo } = lane.skipped;
      const events = (await context.store.history(stream, after, laneMax)).filter(({ seq }) => seq <= upTo);
      const isLast = events.length === 0 || events.at(-1)?.seq === upTo;
      const progress = this.progressNow(receiver);
      const owed = events.filter(
        (event) => event.to.includes(receiver) && progress.isOutstanding(moduleOf(event), event.seq),
      );
      lanes.found(lane, isLast ? upTo : (events.at(-1)?.seq ?? upTo), owed.length);
      for (const event of owed) enter(receiver, event);
    }
    this.#short.delete(lane);
  }
}

export const moduleOf = ({ data }: StoredEvent): ObjectModule => (data as ObjectEventData).module;
