/**
 * The window of one receiving partner: which of its owed deliveries are in memory. The rest stays in the log, and is read
 * when there is room.
 *
 * WINDOW-1  Live events, restart and catching up enter the lanes by the same function (`#offer`).
 * WINDOW-2  Each module has an equal share of the window, and in it a sending partner has room while memory holds fewer deliveries
 *     of it than are free: a flood of one takes half, one of two a third each. Of a partner of which memory holds nothing it
 *     takes one however full it is. What a sender has no room for is set aside in the log (PROGRESS-4) and keeps no other there.
 * WINDOW-3  A lane has at most `laneMax` deliveries in memory, so that the backlog of one object keeps no other of its
 *     module out. What follows of it is noted as outstanding and read from the stream of the object, in order; those
 *     notes are bounded by `windowMax` for each module.
 * WINDOW-4  What was set aside is read on when half of its sender's room is free, so that a page is read for many deliveries; or
 *     when all that memory holds of the sender waits for another attempt: those keep no other out while there is room for one.
 * WINDOW-5  What a restart leaves in the log is counted in the background, one page of all receivers at a time; `isUncounted` until then. No
 *     delivery waits for that. [PROGRESS-3]
 * WINDOW-6  A lane keeps its name when an erasure renames the stream of its object, and is read on under both names.
 */
import type { Range, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { ObjectEventData } from '../../domain/events.ts';
import { moduleNames, type ObjectModule } from '../../domain/modules.ts';
import type { PartyId } from '../../domain/party.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Desk } from './desk.ts';
import type { Sender } from './fair-scheduler.ts';
import { type Lane, type Lanes, laneKey } from './lanes.ts';
import { rowsOf } from './outbox-writer.ts';
import { type Owed, Progress, type Reader } from './progress.ts';

/** Deliveries of one lane in memory; it is read on at half. */
export const laneMax = 8;
/** Limits of one read of the log: events, and characters of records that it brings into memory. */
export const logPage = { limit: 500, size: 4 * 1024 * 1024 };
/** The shortest page of what was set aside: it doubles while its sender has room, so that little is read for little room. */
const pageMin = 16;
const readAgainMs = 1_000;
/** A party that is more windows than this behind at a restart is not waited for: it reads the log by itself, while the hub serves. */
const scannedWindows = 8;

/** A page of a backlog: behind a sequence, at most so many deliveries. */
interface Page {
  readonly after: Seq;
  readonly limit: number;
}

const start: Page = { after: 0, limit: 0 };

interface Parts extends Pick<Desk<Sender>, 'context' | 'writer' | 'erasures' | 'pages' | 'counts'> {
  readonly partnerId: PartyId;
  readonly lanes: Lanes;
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

  /** Whether memory has no more room for deliveries of a module from a sender. [WINDOW-2] */
  isFull(module: ObjectModule, sender: PartyId): boolean {
    const { lanes, context } = this.#parts;
    const [all, own] = [lanes.heldOf(module), lanes.heldFrom(module, sender)];
    if (own.size + own.skipped === 0) return false;
    return own.size >= this.share - all.size || own.skipped >= context.ports.windowMax - all.skipped;
  }

  /** Deliveries that are in the log and not in memory. */
  get left(): number {
    let left = 0;
    for (const progress of this.#parties.values()) left += progress.left;
    for (const module of moduleNames) left += this.#parts.lanes.heldOf(module).skipped;
    return left;
  }

  /** Whether more deliveries may be in the log than `left` says. [WINDOW-5] */
  get isUncounted(): boolean {
    for (const progress of this.#parties.values()) if (progress.uncounted) return true;
    return false;
  }

  /** Whether a module of which memory holds nothing has a backlog in the log. */
  isUnread(counts: (module: ObjectModule) => boolean): boolean {
    const readers = [...this.#parties.values()].flatMap((progress) => [...progress.readers()]);
    return readers.some(({ module }) => counts(module) && this.#parts.lanes.heldOf(module).size === 0);
  }

  /** Takes a committed event that is owed to a party, unless the party will read it from the log. */
  offer(party: PartyId, event: StoredEvent): void {
    const progress = this.progressOf(party, event.seq - 1);
    const owed = owedIn(event);
    if (!progress.expects(owed.module, owed.seq)) progress.leave(owed.module, owed.seq);
    else if (!progress.isAside(owed.module, owed.sender) && !this.isFull(owed.module, owed.sender))
      this.#offer(progress, event, false);
    else if (this.#isScanned) progress.setAside(owed);
    else {
      progress.fallBehindWholly();
      progress.leave(owed.module, owed.seq);
    }
  }

  /** Starts the floor of a new party at the head of the log: it is owed nothing of the past. */
  addParty(party: PartyId): void {
    this.#parts.writer.touch(this.progressNow(party));
  }

  /** Forgets a party to which nothing is owed. */
  removeParty(party: PartyId): void {
    this.#parties.delete(party);
  }

  /** Whether a delivery to a party that has no row is still going to be sent. */
  isOwed(party: PartyId): boolean {
    const { upTo } = this.#parts.context.recorder.feed;
    return (this.#parties.get(party)?.floor(upTo) ?? upTo) < upTo;
  }

  /** Whether a delivery that has no row is still going to be sent. */
  isPending(party: PartyId, seq: Seq): boolean {
    return this.#parties.get(party)?.isPending(seq) ?? true;
  }

  /** Whether deliveries of a sender of a module to a party, up to a sequence, may still be in the log. */
  mayHold(party: PartyId, owed: Owed): boolean {
    return this.#parties.get(party)?.isUnread(owed) ?? false;
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

  /** Reads more of the backlog of modules and senders, and of lanes. [WINDOW-4] */
  readOn(): void {
    if (this.#isClosed) return;
    for (const progress of this.#parties.values()) {
      if (progress.isBehind && !this.#reading.has(progress) && this.#next(progress, start))
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

  /**
   * The page of the backlog to read after another one: from the lowest position behind it at which there is room, or else the
   * lowest at all, so that all have their turns. Null when none is to be read.
   */
  #next(progress: Progress, last: Page): Page | null {
    let [lowest, behind] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    let wanted = pageMin;
    for (const { module, sender, cursor } of progress.readers()) {
      const room = sender === null ? logPage.limit : this.#roomFor(module, sender);
      if (room === 0) continue;
      wanted += room;
      lowest = Math.min(lowest, cursor);
      if (cursor >= last.after) behind = Math.min(behind, cursor);
    }
    if (wanted === pageMin) return null;
    const after = Number.isFinite(behind) ? behind : lowest;
    // A sender that is rare in the log is soon found.
    const limit = after === last.after ? Math.max(wanted, 2 * last.limit) : wanted;
    return { after, limit: Math.min(logPage.limit, limit) };
  }

  /** How many deliveries of a sender that is set aside are to be read; 0 while enough of it is in memory. [WINDOW-4] */
  #roomFor(module: ObjectModule, sender: PartyId): number {
    const { lanes } = this.#parts;
    const { size, moving } = lanes.heldFrom(module, sender);
    const free = this.share - lanes.heldOf(module).size;
    const isLow = size === 0 || 3 * size <= free;
    return (isLow || moving === 0) && !this.isFull(module, sender) ? Math.max(1, free - size) : 0;
  }

  /** Takes an owed event into its lane. [WINDOW-1] */
  #offer(progress: Progress, event: StoredEvent, hasRow: boolean): void {
    const { lanes, enter } = this.#parts;
    if (!progress.take(owedIn(event), hasRow)) return;
    if (!lanes.skip(laneKey(progress.receiver, event.stream), event.seq, laneMax)) enter(progress.receiver, event);
  }

  async #catchUp(progress: Progress): Promise<void> {
    for (let last: Page | null = start; last; ) {
      const before: Page = last;
      last = await this.#parts.pages.run(() => this.#readPage(progress, before));
    }
  }

  /** Takes a page of the backlog; the next one is read behind the page that it returns. Null when there is no room or no more. */
  async #readPage(progress: Progress, last: Page): Promise<Page | null> {
    const { store, recorder } = this.#parts.context;
    const page = this.#isClosed ? null : this.#next(progress, last);
    if (!page) return null;
    const { after, limit } = page;
    const head = recorder.feed.upTo;
    const read = await store.read({ ...logPage, limit, after, to: progress.receiver });
    const due = read.filter(({ seq }) => seq <= head);
    const upTo = due.at(-1)?.seq ?? head;
    const rowed = progress.hasUnknownRows(after) ? await this.#rowed(progress.receiver, { after, upTo }) : null;
    const stopped = new Set<Reader>();
    for (const event of due) {
      const owed = owedIn(event);
      const reader = progress.readerOf(owed);
      if (!reader || reader.cursor < after || stopped.has(reader)) continue;
      const isOfModule = reader.sender === null;
      const { module, sender } = owed;
      const isOut = (isOfModule && progress.isAside(module, sender)) || this.isFull(module, sender);
      if (!isOut) this.#offer(progress, event, rowed?.has(event.seq) ?? false);
      else stopped.add(isOfModule ? progress.setAside(owed) : reader);
    }
    // `size` may cut a page before its limit, so only an empty page is the end of the log.
    progress.passed({ after, upTo, stopped }, due.length === 0 && recorder.feed.upTo === head);
    return { after: upTo, limit };
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
    const rowed = await this.#rowed(dest, { after, upTo });
    const left = owed.filter(({ seq }) => !rowed.has(seq));
    progress.count(left.map(owedIn), upTo);
    await nextTurn();
  }

  /** Which deliveries of a range have rows. */
  async #rowed(dest: PartyId, { after, upTo }: Range): Promise<ReadonlySet<Seq>> {
    const { store } = this.#parts.context;
    const rowed = new Set<Seq>();
    // Open ones first: a row that ends meanwhile is found in one of the two.
    for (const rows of ['open', 'DELIVERED'] as const) {
      for await (const { seq } of rowsOf(store, { dest, rows, fromSeq: after + 1, toSeq: upTo })) rowed.add(seq);
    }
    return rowed;
  }

  /** Reads the next deliveries of a lane from the stream of its object. [WINDOW-3] */
  async #refill(lane: Lane, receiver: PartyId, stream: string): Promise<void> {
    const { lanes, enter } = this.#parts;
    while (!this.#isClosed && lane.skipped && lane.items.length <= laneMax / 2) {
      const { after, upTo } = lane.skipped;
      const events = (await this.#following(stream, after)).filter(({ seq }) => seq <= upTo);
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

  /** The next events of an object, under the name that its lane has. [WINDOW-6] */
  async #following(stream: string, after: Seq): Promise<StoredEvent[]> {
    const { context, erasures } = this.#parts;
    const events = await context.store.history(stream, after, laneMax);
    // Only now: what is renamed while the first read runs is found by one of the two, or by both.
    const renamed = erasures.text(after + 1, stream);
    if (renamed === stream) return events;
    const found = new Map(events.map((event) => [event.seq, event]));
    // A later event of that name is of the erasure itself, and in a lane of its own.
    for (const event of await context.store.history(renamed, after, laneMax))
      if (erasures.text(event.seq, stream) === renamed) found.set(event.seq, { ...event, stream });
    return [...found.values()].sort((a, b) => a.seq - b.seq).slice(0, laneMax);
  }
}

const owedIn = ({ seq, data }: StoredEvent): Owed => {
  const { module, owner: sender } = data as ObjectEventData;
  return { module, sender, seq };
};

export const moduleOf = ({ data }: StoredEvent): ObjectModule => (data as ObjectEventData).module;
