/**
 * What the hub holds of one receiving partner: its window with the lanes of its parties, the counters and the state of its
 * courier. Nothing else changes any of it.
 *
 * RECEIVER-1  A delivery that was taken is outstanding until it has ended or has a row; the floor stays below it.
 * RECEIVER-2  A delivery is not sent before its due time, wherever it is in its lane: a restart restores a lane in the order of the log, so that a
 *     re-driven delivery may come before one that has been tried.
 * RECEIVER-3  What was owed before the partner last began to take a module (its circuit was open, or an operator had paused
 *     it) waits for the partner, however long it takes to catch up: it is no lag of the hub. A delivery that was tried
 *     waits for its retry.
 */
import { allowance, courierMachine, isPaused, isSuspended } from '../../../machines/courier.ts';
import type { DeliveryRow, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { Outcome } from '../../domain/errors.ts';
import { charactersOf, formOf, type ObjectEventData, owedTo } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import { isModule, type ObjectModule } from '../../domain/modules.ts';
import type { PartyId } from '../../domain/party.ts';
import { withTimeout } from '../../kit/clock.ts';
import { courierActor } from '../partners/partner-actors.ts';
import { AdaptiveWindow } from './adaptive-window.ts';
import type { Measured } from './backpressure.ts';
import { DeadCounts, groupOf } from './dead-counts.ts';
import type { Item } from './delivery-row.ts';
import { type DeliveryMemory, type Ending, memoryOf, pastOf, type RedrivenAs, redrivenRow } from './delivery-row.ts';
import type { Backlog, Desk } from './desk.ts';
import type { Sender } from './fair-scheduler.ts';
import { type Lane, type LaneCounts, Lanes, type Slots } from './lanes.ts';
import { rowsOf } from './outbox-writer.ts';
import type { Progress } from './progress.ts';
import { DeliveryWindow, moduleOf } from './window.ts';

/** A CDR waits at most this long, ms, for the undelivered updates of its session; then it may overtake them. */
const behindMs = 10_000;
/** Events of waiting deliveries that a restart reads concurrently for one receiver. */
const recalledAtOnce = 4;
/** Window of the moving average of attempt duration, in attempts. */
const attemptsMeant = 16;

export class Receiver implements Sender {
  readonly partnerId: PartyId;
  readonly #courierId: string;
  readonly #desk: Desk<Receiver>;
  readonly #lanes: Lanes;
  readonly lanes: LaneCounts;
  readonly window: DeliveryWindow;
  readonly dead = new DeadCounts();
  #delivered = 0;
  #attemptMs = 0;
  /** One per module: calls of a module that hangs must not use up what the others may have in flight. */
  readonly #paces = new Map<ObjectModule, AdaptiveWindow>();
  #quickAt = Number.NEGATIVE_INFINITY;
  /** By module, the last event that was owed while the partner took none. [RECEIVER-3] */
  readonly #heldUpTo = new Map<ObjectModule, Seq>();
  /** Calls in flight. */
  #calls = 0;
  #isDraining = false;
  /** Called when no call is in flight any more. */
  readonly #landed: (() => void)[] = [];

  constructor(desk: Desk<Receiver>, partnerId: PartyId) {
    this.#desk = desk;
    this.partnerId = partnerId;
    this.#courierId = courierActor(partnerId);
    const enter = (party: PartyId, event: StoredEvent) => this.#take(party, event, null);
    const { context, writer, erasures, pages, counts } = desk;
    const lanes = new Lanes((sender) => context.directory.partnerOf(sender)?.id ?? sender);
    this.#lanes = lanes;
    this.lanes = lanes;
    this.window = new DeliveryWindow({ context, writer, erasures, partnerId, lanes, pages, counts, enter });
  }

  /**
   * Restores the parties from their floors and rows; the caller then offers the log from `window.lowestCursor`
   * on and calls `window.scanned`. Must end before the first delivery is sent.
   */
  async open(floors: ReadonlyMap<PartyId, Seq>): Promise<void> {
    for (const [party, floor] of floors) await this.#recall(this.window.opened(party, floor));
  }

  /** Offers a committed event that is owed to a party of the partner. */
  offer(party: PartyId, event: StoredEvent): void {
    this.noteHeld(moduleOf(event), event.seq);
    this.window.offer(party, event);
  }

  /**
   * Notes what is owed while the partner takes none of the module. To be called when an event is owed, when an attempt has
   * ended, and when the courier or a circuit changed. [RECEIVER-3]
   */
  noteHeld(module: ObjectModule, upTo: Seq = this.#desk.context.recorder.feed.upTo): void {
    if (this.isPaused || !this.#isCircuitClosed(module)) this.#heldUpTo.set(module, upTo);
  }

  /** Starts no further attempt; resolves when the calls in flight have ended, at the latest after `graceMs`. */
  async drain(graceMs: number): Promise<void> {
    const landed = this.#land();
    if (this.#calls > 0) await withTimeout(this.#desk.context.ports.clock, graceMs, landed);
  }

  /** Waits for the calls in flight without a limit, reads no more of the log, and has the floors written. */
  async close(): Promise<void> {
    await this.#land();
    this.window.close();
  }

  get backlog(): Backlog {
    const { oldestAt, size } = this.#lanes;
    const depth = size + this.window.left;
    return { depth, oldestAt, dead: this.dead.size, delivered: this.#delivered, behind: this.window.isUncounted };
  }

  get isPaused(): boolean {
    const courier = this.#courier;
    return courier !== undefined && isPaused(courier);
  }

  /** Whether what was taken of a module may still be sent: an operator, a circuit or its pace may have stopped it since. */
  mayGo(module: ObjectModule): boolean {
    return !this.isPaused && this.#lanes.busyOf(module) <= this.#slotsOf(module);
  }

  /** What `lagOf` reads, of all that it is sent or of what one partner sends to it. */
  measured(from: PartyId | null): Measured {
    return { ready: this.#ready(from), attemptMs: this.#attemptMs, quickAt: this.#quickAt, isPaused: this.isPaused };
  }

  #ready(from: PartyId | null): Measured['ready'] {
    if (!this.#lanes.hasReady(from)) return null;
    const slots = this.#slots(this.#desk.scheduler.slots(this, this.allowed));
    const now = this.#desk.context.ports.clock.now();
    return this.#lanes.waiting(slots, now, this.#isCircuitClosed, this.#upToHeld, from);
  }

  /** Deliveries that the courier allows in flight; 0 while the receiver drains. */
  get allowed(): number {
    const courier = this.#isDraining ? undefined : this.#courier;
    return courier ? allowance(courier) : 0;
  }

  /**
   * Counts deliveries first in their lane that were due before an instant (hub time, ms) although neither a circuit nor an
   * operator blocks them: a bug of the hub, or a partner that takes less than it is owed. A backlog of a module in the
   * log that is not read although memory holds nothing of it counts as one.
   */
  overdue(before: number): number {
    if (this.isPaused) return 0;
    const { oldestAt } = this.#lanes;
    const unread = this.window.isUnread(this.#isCircuitClosed) ? 1 : 0;
    // No head is due before the oldest retry window starts: a younger one spares the walk over all lanes.
    if (oldestAt === null || oldestAt >= before) return unread;
    return unread + this.#lanes.countDueBefore(before, this.#isCircuitClosed);
  }

  /**
   * Re-drives a delivery: puts it at the tail of its lane at once, as if it had just been accepted, with a new retry window.
   * Survives a kill once it resolves, with its new row. `before`: its present row.
   */
  async redrive(event: StoredEvent, party: PartyId, before: DeliveryRow | null, as: RedrivenAs): Promise<DeliveryRow> {
    const row = redrivenRow(event, party, before, as, this.#desk.context);
    const replaced = this.#replace(before, row);
    // What is read of the log later must not bring it again.
    const { module, owner: sender } = event.data as ObjectEventData;
    if (this.window.mayHold(party, { module, sender, seq: event.seq })) this.window.progressNow(party).know(event.seq);
    this.#take(party, event, row.data as DeliveryMemory);
    return replaced;
  }

  /** Gives up a dead letter; survives a kill once it resolves, with its new row. `before`: its present row. */
  discard(before: DeliveryRow): Promise<DeliveryRow> {
    return this.#replace(before, { ...before, state: 'DISCARDED' });
  }

  /** Stops counting a dead letter that was trimmed with the log. */
  forget(row: DeliveryRow): void {
    if (this.dead.remove(row)) this.#desk.cleared(groupOf(row));
  }

  releaseAll(): void {
    this.#lanes.releaseAll();
  }

  /** Takes the next lane, at most `all` at a time; undefined when none may go. */
  next(all: number): Lane | undefined {
    return this.#lanes.take(this.#slots(all), this.#desk.context.ports.clock.now());
  }

  /** Holds a CDR behind the undelivered updates of its session, for at most `behindMs` since it came into memory. */
  waitsForSession(lane: Lane): boolean {
    const [head] = lane.items;
    const until = (head?.loadedAt ?? 0) + behindMs;
    if (!head?.behind || this.#desk.context.ports.clock.now() >= until) return false;
    const { receiver, behind, sender, seq } = head;
    const ahead = this.#lanes.laneOf(receiver, behind);
    if (!ahead) {
      // Its updates may still be in the log.
      const [module = ''] = behind.split('/');
      if (!isModule(module) || !this.window.mayHold(receiver, { module, sender, seq })) return false;
      this.hold(lane, until);
      return true;
    }
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

  attempted(module: ObjectModule, { durationMs, class: met }: Outcome): void {
    this.#attemptMs += (durationMs - this.#attemptMs) / attemptsMeant;
    if (met !== 'delivered' && met !== 'timeout') return;
    const inFlight = this.#lanes.busyOf(module);
    this.#paceOf(module).attempted(durationMs, { inFlight, at: this.#desk.context.ports.clock.now() });
  }

  /** The head, as an attempt at `at` (hub time) leaves it, is tried again at `dueAt`, before anything else of its object. [DELIVERY-ROW-1] */
  retry(lane: Lane, head: Item, at: number, dueAt: number): void {
    const due = instantText(Date.parse(head.attempts.at(-1)?.at ?? '') + dueAt - at);
    this.#remember(head, 'PENDING', { due, class: null, reason: null });
    this.#dropBody(head);
    this.#lanes.hold(lane, dueAt, { ...head, event: null, dueAt });
    this.#releaseAt(lane, dueAt);
  }

  delivered(lane: Lane, head: Item): void {
    this.#delivered++;
    this.#end(lane, head, 'DELIVERED', { due: null, class: 'delivered', reason: null });
  }

  died(lane: Lane, head: Item, why: Pick<Ending, 'class' | 'reason'>): void {
    const row = this.#end(lane, head, 'DEAD', { due: null, ...why });
    // A dead letter whose event was trimmed meanwhile ends with it.
    if (row.seq <= this.#desk.context.store.horizon()) return;
    this.dead.add(row);
    this.#desk.notes.add(row);
  }

  /** Holds a lane whose head stays as it is until an instant (hub time, ms). */
  hold(lane: Lane, dueAt: number): void {
    this.#lanes.hold(lane, dueAt);
    this.#releaseAt(lane, dueAt);
  }

  #slots(all: number): Slots {
    return { all, of: this.#slotsOf, sizeMax: this.#desk.scheduler.sizeMax };
  }

  /** Deliveries of a suspended partner end without a call, so no circuit holds them. */
  readonly #slotsOf = (module: ObjectModule): number => {
    const courier = this.#courier;
    if (courier !== undefined && isSuspended(courier)) return courier.context.slotsMax;
    return Math.min(this.#desk.context.circuits.slots(this.partnerId, module), this.#paceOf(module).limit);
  };

  #paceOf(module: ObjectModule): AdaptiveWindow {
    const known = this.#paces.get(module);
    if (known) return known;
    const pace = new AdaptiveWindow(this.#desk.context.settings.deliveryConcurrency);
    this.#paces.set(module, pace);
    return pace;
  }

  readonly #isCircuitClosed = (module: ObjectModule): boolean =>
    this.#desk.context.circuits.state(this.partnerId, module) === 'closed';

  readonly #upToHeld = (module: ObjectModule): Seq => this.#heldUpTo.get(module) ?? 0;

  get #courier() {
    return this.#desk.context.supervisor.snapshot(courierMachine, this.#courierId);
  }

  /** Starts no further attempt; resolves when the calls in flight have ended. */
  #land(): Promise<void> {
    this.#isDraining = true;
    return this.#calls === 0 ? Promise.resolve() : new Promise((resolve) => this.#landed.push(resolve));
  }

  /** Puts a delivery at the tail of its lane; `memory` is its row's, null when it has none. */
  #take(receiver: PartyId, event: StoredEvent, memory: DeliveryMemory | null): void {
    const { context, scheduler, pump } = this.#desk;
    const data = event.data as ObjectEventData;
    const { module, owner: sender, id } = data;
    const owed = owedTo(data, receiver);
    const lane = this.#lanes.add({
      receiver,
      module,
      sender,
      id,
      seq: event.seq,
      stream: event.stream,
      size: (owed?.body ?? event.body)?.length ?? 0,
      correlationId: event.correlationId,
      loadedAt: context.ports.clock.now(),
      behind: owed?.behind ?? null,
      form: formOf(data, receiver),
      event: memory === null && scheduler.keepBody(charactersOf(event)) ? event : null,
      ...pastOf(event, memory, context),
    });
    if (lane.items.length === 1) this.#holdTried(lane);
    pump(this);
  }

  /**
   * Puts deliveries with a PENDING row back into their lanes with their due time. Every row above the floor is known, so
   * that the scan of the log does not take those deliveries again; one that is far behind learns of them as it reads on.
   */
  async #recall(progress: Progress): Promise<void> {
    const { store } = this.#desk.context;
    const { receiver: dest, offered: floor } = progress;
    let pending: DeliveryRow[] = [];
    const take = async () => {
      const rows = pending;
      pending = [];
      const events = await Promise.all(rows.map(({ seq }) => store.event(seq)));
      for (const [place, { data }] of rows.entries()) {
        const event = events[place];
        if (event) this.#take(dest, event, data as DeliveryMemory);
      }
    };
    for await (const row of rowsOf(store, { dest, rows: 'open', fromSeq: 0 })) {
      if (row.seq > floor && !progress.isBehind) progress.know(row.seq);
      if (row.state === 'DEAD') this.dead.add(row);
      if (row.state !== 'PENDING') this.#desk.notes.add(row);
      if (row.state === 'PENDING' && pending.push(row) === recalledAtOnce) await take();
    }
    await take();
    if (progress.isBehind) return;
    for await (const row of rowsOf(store, { dest, rows: 'DELIVERED', fromSeq: floor + 1 })) progress.know(row.seq);
  }

  #end(lane: Lane, head: Item, state: 'DELIVERED' | 'DEAD', end: Ending): DeliveryRow {
    const row = this.#remember(head, state, end);
    this.#dropBody(head);
    this.#desk.notes.ended(lane.key, head.seq, state);
    this.#lanes.done(lane, this.#desk.context.ports.clock.now());
    this.#holdTried(lane);
    this.window.shortened(lane, head.receiver, head.stream);
    return row;
  }

  /** Holds a lane until its head is due. What was owed before a suspension ends at once, also after a restart. [RECEIVER-2] */
  #holdTried(lane: Lane): void {
    const [head] = lane.items;
    const { directory, ports } = this.#desk.context;
    if (!head || head.dueAt === null || head.dueAt <= ports.clock.now()) return;
    const partner = directory.partner(this.partnerId);
    if (partner && !directory.isSuspendedSince(partner, head.owedAt)) this.hold(lane, head.dueAt);
  }

  /** [RECEIVER-1] */
  #remember(item: Item, state: DeliveryRow['state'], end: Ending): DeliveryRow {
    const { receiver: dest, seq } = item;
    const row = { dest, seq, state, data: memoryOf(item, end, this.#desk.context.ports.clock) };
    this.#desk.writer.remember(this.window.progressNow(dest), row);
    return row;
  }

  /** Resolves when the row that takes the place of an ended delivery's survives a kill; throws `unavailable` when it is only remembered. */
  async #replace(before: DeliveryRow | null, row: DeliveryRow): Promise<DeliveryRow> {
    const { writer, notes } = this.#desk;
    writer.remember(this.window.progressNow(row.dest), row);
    notes.replaced(row);
    const wasLast = before?.state === 'DEAD' && this.dead.remove(before);
    // Not earlier: a kill would have the dead letter back [DEAD-GROUPS-1]. Nor by the caller, who may have given up by then.
    const cleared = () => {
      if (wasLast && this.dead.of(groupOf(before)) === 0) this.#desk.cleared(groupOf(before));
    };
    writer.written().then(cleared, () => {});
    await writer.flushed();
    return row;
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
