/**
 * What the hub holds of one receiving partner: the lanes of its parties, their positions in the log, the counters and the
 * state of its courier. Nothing else changes any of it.
 *
 * RECEIVER-1  Live events, restart and catching up enter the lanes by the same function (`#offer`).
 * RECEIVER-2  A delivery that was taken is outstanding until it has ended or has a row; the floor stays below it.
 * RECEIVER-3  A party that is behind takes no live event: it reads the log itself, so its order is the log's.
 * RECEIVER-4  Memory holds at most `windowMax` deliveries; the backlog beyond stays in the log until there is room.
 */
import { allowance, courierMachine, isPaused, isSuspended } from '../../../machines/courier.ts';
import type { DeliveryRow, Seq, StoredEvent } from '../../../storage/contract.ts';
import { charactersOf, formOf, type ObjectEventData, owedTo } from '../../domain/events.ts';
import { instantOf, instantText } from '../../domain/instant.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import type { PartyId } from '../../domain/party.ts';
import { withTimeout } from '../../kit/clock.ts';
import { courierActor } from '../kernel/actor-names.ts';
import type { Measured } from './backpressure.ts';
import type { Backlog, Desk } from './desk.ts';
import type { Sender } from './fair-scheduler.ts';
import { type Item, type Lane, type LaneCounts, Lanes } from './lanes.ts';
import { type DeliveryMemory, type Ending, memoryOf, Progress, rowsOf } from './outbox-writer.ts';

/** A CDR waits at most this long, ms, for the undelivered updates of its session; then it may overtake them. */
const behindMs = 10_000;
/** Limits of one read of the log: events, and characters of records that it brings into memory. */
export const logPage = { limit: 500, size: 4 * 1024 * 1024 };
const readAgainMs = 1_000;
/** Window of the moving average of attempt duration, in attempts. */
const attemptsMeant = 16;

export class Receiver implements Sender, Measured {
  readonly partnerId: PartyId;
  readonly #desk: Desk<Receiver>;
  readonly #lanes = new Lanes();
  readonly lanes: LaneCounts = this.#lanes;
  readonly #parties = new Map<PartyId, Progress>();
  /** Parties whose backlog is being read. */
  readonly #reading = new Set<Progress>();
  #dead = 0;
  #delivered = 0;
  #attemptMs = 0;
  #quickAt = Number.NEGATIVE_INFINITY;
  /** Calls in flight. */
  #calls = 0;
  #isDraining = false;
  /** Called when no call is in flight any more. */
  readonly #landed: (() => void)[] = [];
  #isClosed = false;

  constructor(desk: Desk<Receiver>, partnerId: PartyId) {
    this.#desk = desk;
    this.partnerId = partnerId;
  }

  /**
   * Restores the parties from their floors and rows; the caller then offers the log from `lowestCursor` on and calls
   * `scanned`. Must end before the first delivery is sent.
   */
  async open(floors: ReadonlyMap<PartyId, Seq>): Promise<void> {
    for (const [party, floor] of floors) {
      const progress = new Progress(party, floor, floor);
      this.#parties.set(party, progress);
      await this.#recall(progress);
    }
  }

  /** Starts no further attempt; resolves when the calls in flight have ended, at the latest after `graceMs`. */
  async drain(graceMs: number): Promise<void> {
    const landed = this.#land();
    if (this.#calls > 0) await withTimeout(this.#desk.context.ports.clock, graceMs, landed);
  }

  /** Waits for the calls in flight without a limit, reads no more of the log, and has the floors written. */
  async close(): Promise<void> {
    await this.#land();
    this.#isClosed = true;
    this.touch();
  }

  get backlog(): Backlog {
    const { size: depth, oldestAt } = this.#lanes;
    return { depth, oldestAt, dead: this.#dead, delivered: this.#delivered, behind: this.#isBehind };
  }

  get isFull(): boolean {
    return this.#lanes.size >= this.#desk.context.ports.windowMax;
  }

  get attemptMs(): number {
    return this.#attemptMs;
  }

  get quickAt(): number {
    return this.#quickAt;
  }

  get isPaused(): boolean {
    const courier = this.#courier;
    return courier !== undefined && isPaused(courier);
  }

  get ready(): Measured['ready'] {
    if (this.#lanes.size === 0) return null;
    const all = this.#desk.scheduler.slots(this, this.allowed);
    return this.#lanes.waiting({ all, of: this.#slotsOf }, this.#desk.context.ports.clock.now(), this.#isCircuitClosed);
  }

  /** Deliveries that the courier allows in flight; 0 while the receiver drains. */
  get allowed(): number {
    const courier = this.#isDraining ? undefined : this.#courier;
    return courier ? allowance(courier) : 0;
  }

  /**
   * Counts deliveries first in their lane that were due before an instant (epoch ms) although neither a circuit nor an
   * operator blocks them: a bug of the hub, or a partner that takes less than it is owed. A backlog in the log that is
   * not read although memory is empty counts as one.
   */
  overdue(before: number): number {
    if (this.isPaused) return 0;
    const { oldestAt } = this.#lanes;
    if (oldestAt === null) return this.#isBehind ? 1 : 0;
    // No head is due before the oldest retry window starts: a younger one spares the walk over all lanes.
    if (oldestAt >= before) return 0;
    return this.#lanes.countDueBefore(before, this.#isCircuitClosed);
  }

  /** Takes a committed event that is owed to a party, unless the party will read it from the log. [RECEIVER-3] */
  owed(party: PartyId, event: StoredEvent): void {
    const progress = this.#progressOf(party, event.seq - 1);
    if (!progress.isBehind && event.seq > progress.cursor) this.#offer(progress, event);
  }

  /** Starts the floor of a new party at the head of the log: it is owed nothing of the past. */
  added(party: PartyId): void {
    this.#desk.writer.touch(this.#progressNow(party));
  }

  /** Whether a delivery that has no row is still going to be sent. */
  isPending(party: PartyId, seq: Seq): boolean {
    return this.#parties.get(party)?.isPending(seq) ?? true;
  }

  /** The lowest sequence from which a party that is not behind needs the log; null when there is none. */
  get lowestCursor(): Seq | null {
    const cursors = [...this.#parties.values()].flatMap(({ isBehind, cursor }) => (isBehind ? [] : [cursor]));
    return cursors.length > 0 ? Math.min(...cursors) : null;
  }

  /** The log was offered up to its head. */
  scanned(): void {
    for (const progress of this.#parties.values()) if (!progress.isBehind) progress.caughtUp();
  }

  /** Has the floors written that have moved. */
  touch(): void {
    for (const progress of this.#parties.values()) this.#desk.writer.touch(progress);
  }

  /** Reads more of the backlog from the log once memory is at most half full. [RECEIVER-4] */
  readOn(): void {
    const { ports, timers } = this.#desk.context;
    if (this.#isClosed || this.#lanes.size > ports.windowMax / 2) return;
    for (const progress of this.#parties.values()) {
      if (!progress.isBehind || this.#reading.has(progress)) continue;
      this.#reading.add(progress);
      this.#catchUp(progress)
        .catch((error: unknown) => {
          ports.log.error({ err: error }, 'could not read the backlog from the log; next try in 1 s');
          timers.arm(`read-on:${this.partnerId}`, ports.clock.now() + readAgainMs, () => this.readOn());
        })
        .finally(() => this.#reading.delete(progress));
    }
  }

  /**
   * Re-drives a delivery: puts it at the tail of its lane as if it had just been accepted, with a new retry window.
   * Survives a kill once it resolves, with its new row. `before`: its present row.
   */
  async again(event: StoredEvent, party: PartyId, before: DeliveryRow | null): Promise<DeliveryRow> {
    const { writer, context } = this.#desk;
    const { module } = event.data as ObjectEventData;
    const attempts = (before?.data as DeliveryMemory | undefined)?.attempts ?? [];
    const data: DeliveryMemory = {
      ...{ module, attempts, since: instantText(context.ports.clock.now()), tries: 0 },
      ...{ due: null, class: null, reason: null, redriven: true },
    };
    const row: DeliveryRow = { dest: party, seq: event.seq, state: 'PENDING', data };
    writer.remember(this.#progressNow(party), row);
    await writer.flushed();
    if (before?.state === 'DEAD') this.#dead--;
    this.#take(party, event, data);
    return row;
  }

  /** Subtracts the dead letters that a trim of the log removed. */
  forget(dead: number): void {
    this.#dead -= dead;
  }

  releaseAll(): void {
    this.#lanes.releaseAll();
  }

  /** Takes the next lane, at most `all` at a time; undefined when none may go. */
  next(all: number): Lane | undefined {
    return this.#lanes.take({ all, of: this.#slotsOf }, this.#desk.context.ports.clock.now());
  }

  /** Holds a CDR behind the undelivered updates of its session, for at most `behindMs` since it came into memory. */
  waitsForSession(lane: Lane): boolean {
    const [head] = lane.items;
    const ahead = head?.behind ? this.#lanes.laneOf(head.receiver, head.behind) : undefined;
    const until = (head?.loadedAt ?? 0) + behindMs;
    if (!ahead || this.#desk.context.ports.clock.now() >= until) return false;
    this.#lanes.holdBehind(lane, ahead, until);
    this.#releaseAt(lane, until);
    return true;
  }

  begun(): boolean {
    return this.#calls++ === 0;
  }

  ended(quickAt: number | null): void {
    this.#quickAt = quickAt ?? this.#quickAt;
    if (--this.#calls === 0 && this.#isDraining) for (const landed of this.#landed.splice(0)) landed();
  }

  /** The form that is really sent in place of the head of a busy lane. */
  replace(lane: Lane, head: Item): void {
    this.#lanes.replace(lane, head);
  }

  attempted(durationMs: number): void {
    this.#attemptMs += (durationMs - this.#attemptMs) / attemptsMeant;
  }

  /** The head, as the attempt leaves it, is tried again at an instant (epoch ms), before anything else of its object. */
  retry(lane: Lane, head: Item, dueAt: number): void {
    this.#remember(head, 'PENDING', { due: instantText(dueAt), class: null, reason: null });
    this.#dropBody(head);
    this.#lanes.hold(lane, dueAt, { ...head, event: null });
    this.#releaseAt(lane, dueAt);
  }

  delivered(lane: Lane, head: Item): void {
    this.#delivered++;
    this.#end(lane, head, 'DELIVERED', { due: null, class: 'delivered', reason: null });
  }

  died(lane: Lane, head: Item, why: Pick<Ending, 'class' | 'reason'>): void {
    this.#dead++;
    this.#end(lane, head, 'DEAD', { due: null, ...why });
  }

  /** Holds a lane whose head stays as it is until an instant (epoch ms). */
  hold(lane: Lane, dueAt: number): void {
    this.#lanes.hold(lane, dueAt);
    this.#releaseAt(lane, dueAt);
  }

  /** Deliveries of a suspended partner end without a call, so no circuit holds them. */
  readonly #slotsOf = (module: ObjectModule): number => {
    const courier = this.#courier;
    const isHeldByNone = courier !== undefined && isSuspended(courier);
    return isHeldByNone ? courier.context.slotsMax : this.#desk.context.circuits.slots(this.partnerId, module);
  };

  readonly #isCircuitClosed = (module: ObjectModule): boolean =>
    this.#desk.context.circuits.state(this.partnerId, module) === 'closed';

  get #courier() {
    return this.#desk.context.supervisor.snapshot(courierMachine, courierActor(this.partnerId));
  }

  get #isBehind(): boolean {
    for (const { isBehind } of this.#parties.values()) if (isBehind) return true;
    return false;
  }

  /** Starts no further attempt; resolves when the calls in flight have ended. */
  #land(): Promise<void> {
    this.#isDraining = true;
    return this.#calls === 0 ? Promise.resolve() : new Promise((resolve) => this.#landed.push(resolve));
  }

  #progressNow(party: PartyId): Progress {
    return this.#progressOf(party, this.#desk.context.recorder.feed.upTo);
  }

  #progressOf(party: PartyId, from: Seq): Progress {
    const known = this.#parties.get(party);
    if (known) return known;
    const progress = new Progress(party, from);
    this.#parties.set(party, progress);
    return progress;
  }

  /** Takes an owed event into its lane, or falls behind when memory is full. [RECEIVER-1] */
  #offer(progress: Progress, event: StoredEvent): void {
    if (this.isFull) progress.fallBehind();
    else if (progress.take(event.seq)) this.#take(progress.receiver, event, null);
  }

  /** Puts a delivery at the tail of its lane; `memory` is its row's, null when it has none. */
  #take(receiver: PartyId, event: StoredEvent, memory: DeliveryMemory | null): void {
    const { context, scheduler, pump } = this.#desk;
    const data = event.data as ObjectEventData;
    const { module, owner: sender, id } = data;
    const owed = owedTo(data, receiver);
    const lane = this.#lanes.add({
      ...{ receiver, module, sender, id, seq: event.seq, stream: event.stream },
      size: (owed?.body ?? event.body)?.length ?? 0,
      correlationId: event.correlationId,
      since: instantOf(memory?.since ?? event.at),
      loadedAt: context.ports.clock.now(),
      behind: owed?.behind ?? null,
      form: formOf(data, receiver),
      asWhole: memory?.whole ?? false,
      event: memory === null && scheduler.keepBody(charactersOf(event)) ? event : null,
      isRedriven: memory?.redriven ?? event.type === 'object.resent',
      tries: memory?.tries ?? 0,
      attempts: memory?.attempts ?? [],
    });
    if (memory?.due && lane.items.length === 1) this.hold(lane, Date.parse(memory.due));
    else pump(this);
  }

  async #catchUp(progress: Progress): Promise<void> {
    const { store, recorder } = this.#desk.context;
    while (!this.#isClosed && progress.isBehind && !this.isFull) {
      const head = recorder.feed.upTo;
      const query = { after: progress.cursor, to: progress.receiver };
      const due = (await store.read({ ...logPage, ...query })).filter(({ seq }) => seq <= head);
      for (const event of due) if (!this.isFull) this.#offer(progress, event);
      // `size` may cut a page before its limit, so only an empty page is the end of the log.
      if (due.length > 0) continue;
      progress.skipTo(head);
      if (recorder.feed.upTo === head) progress.caughtUp();
    }
  }

  /**
   * Puts deliveries with a PENDING row back into their lanes with their due time. Every row above the floor is known, so
   * that the scan of the log does not take those deliveries again.
   */
  async #recall(progress: Progress): Promise<void> {
    const { store } = this.#desk.context;
    const { receiver: dest, cursor: floor } = progress;
    for await (const row of rowsOf(store, { dest, rows: 'open', fromSeq: 0 })) {
      progress.know(row.seq);
      if (row.state === 'DEAD') this.#dead++;
      const event = row.state === 'PENDING' ? await store.event(row.seq) : null;
      if (event) this.#take(dest, event, row.data as DeliveryMemory);
    }
    for await (const row of rowsOf(store, { dest, rows: 'DELIVERED', fromSeq: floor + 1 })) progress.know(row.seq);
  }

  #end(lane: Lane, head: Item, state: 'DELIVERED' | 'DEAD', end: Ending): void {
    this.#remember(head, state, end);
    this.#dropBody(head);
    this.#lanes.done(lane, this.#desk.context.ports.clock.now());
  }

  /** [RECEIVER-2] */
  #remember(item: Item, state: DeliveryRow['state'], end: Ending): void {
    const { receiver: dest, seq } = item;
    const progress = this.#progressNow(dest);
    this.#desk.writer.remember(progress, { dest, seq, state, data: memoryOf(item, end) });
  }

  /** Stops counting the body of a fresh event, which memory no longer keeps. */
  #dropBody({ event }: Item): void {
    if (event) this.#desk.scheduler.dropBody(charactersOf(event));
  }

  #releaseAt(lane: Lane, dueAt: number): void {
    const { context, pump } = this.#desk;
    if (dueAt <= context.ports.clock.now()) return this.#lanes.release(lane);
    context.timers.arm(`lane:${lane.key}`, dueAt, () => {
      this.#lanes.release(lane);
      pump(this);
    });
  }
}
