/**
 * Dispatches deliveries (store and forward): sends what the outbox owes, lane by lane, and decides from each outcome
 * whether the delivery is done, is retried or becomes a dead letter.
 *
 * DISPATCHER-1  The log is the outbox: after any crash every owed delivery is found there again. Memory holds a bounded
 *     window of it.
 * DISPATCHER-2  A transient failure blocks its own lane only; a final one frees the lane. No delivery is dropped
 *     without a row that says so and why.
 * DISPATCHER-3  The hub makes no attempt while the partner's courier allows none (circuit open, paused).
 * DISPATCHER-4  Partners are served round-robin, so one partner's backlog does not raise the latency of others.
 * DISPATCHER-5  A delivery is shown as DELIVERED only when its receiver has accepted it.
 */
import { allowance, isGrowing } from '../../../machines/courier.ts';
import type { DeliveryRow, DeliveryState, Seq, StoredEvent } from '../../../storage/contract.ts';
import { faultOf, HubError, type Outcome, type OutcomeClass } from '../../domain/errors.ts';
import { attemptOf, charactersOf, formOf, type ObjectEventData, owedTo } from '../../domain/events.ts';
import { instantOf, instantText } from '../../domain/instant.ts';
import { endpointOf, isSuspendedSince, type Partner, type PartyId } from '../../domain/party.ts';
import { isExpired, type RetryRules, verdict } from '../../domain/retry.ts';
import { withTimeout } from '../../kit/clock.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Context } from '../kernel/context.ts';
import { courierActor, partnerStream } from '../partners/partner-actors.ts';
import { FairScheduler } from './fair-scheduler.ts';
import { type Flight, InFlight } from './in-flight.ts';
import type { Item, Lane } from './lanes.ts';
import { OutboxReader, type Queue, type Taker } from './outbox-reader.ts';
import { type DeliveryMemory, type DeliveryStanding, type Ending, memoryOf, OutboxWriter } from './outbox-writer.ts';
import { attemptLine, callOf, noteDead } from './request.ts';
import { asDelivered, isToHeal, Wholes } from './wholes.ts';

/** A CDR waits at most this long, ms, for the undelivered updates of its session; then it may overtake them. */
const behindMs = 10_000;
const hourMs = 3_600_000;
/** Window of the moving average of attempt duration, in attempts. */
const attemptsMeant = 16;
/** Back-off of a lane, ms, after an attempt failed by a bug of the hub and its end could not be noted either. */
const faultMs = 60_000;

export class Dispatcher {
  readonly scheduler: FairScheduler;
  readonly reader: OutboxReader;
  readonly wholes: Wholes;
  readonly #context: Context;
  readonly #rules: RetryRules;
  readonly #writer: OutboxWriter;
  readonly #inFlight: InFlight;
  /** Characters of fresh bodies that memory keeps until the first attempt is settled; at most about `bodiesMax`. */
  #fresh = 0;
  /** Starts no further attempt. */
  #calm = false;

  constructor(context: Context) {
    const { settings, recorder, store, ports } = context;
    this.#context = context;
    this.#rules = {
      scheduleS: settings.retryScheduleS,
      jitter: settings.retryJitter,
      windowMs: settings.retryWindowH * hourMs,
      windowCdrMs: settings.retryWindowCdrH * hourMs,
    };
    this.#writer = new OutboxWriter(store, ports.clock, ports.log, () => recorder.feed.upTo);
    this.#inFlight = new InFlight(ports);
    this.scheduler = new FairScheduler(context);
    const queueOf = (receiver: PartyId) => this.scheduler.ofReceiver(receiver);
    const take: Taker['take'] = (...delivery) => this.#take(...delivery);
    this.reader = new OutboxReader(context, { queueOf, take }, this.#writer);
    this.wholes = new Wholes(context, this);
  }

  /** Takes a committed event into the lanes of its receivers. */
  owed(event: StoredEvent): void {
    this.reader.owed(event);
  }

  /** Starts the floors of a new partner's parties at the head of the log: they are owed nothing of the past. */
  added(partner: Partner): void {
    this.reader.added(partner);
  }

  /** Sends what the partner's courier and the global limit allow now. */
  pump(partnerId: PartyId): void {
    if (this.scheduler.giveTurn(partnerId)) this.#dispatch();
  }

  /** Ends every delivery that waits for a suspended partner as a dead letter with that reason. [D50] */
  suspend(partner: Partner): void {
    this.#context.supervisor.send(courierActor(partner.id), { type: 'suspend' });
    this.scheduler.releaseAll(partner.id);
    this.pump(partner.id);
  }

  /** Whether a delivery that has no row is still going to be sent. */
  isPending(receiver: PartyId, seq: Seq): boolean {
    return this.reader.isPending(receiver, seq);
  }

  /** Forwarding lag, ms; 0 while the dispatcher stops. */
  lagMs(): number {
    return this.#calm ? 0 : this.scheduler.lagMs((queue) => this.#slots(queue));
  }

  /** Resolves when the store holds the row of every delivery that ended before this call. */
  flushed(): Promise<void> {
    return this.#writer.flushed();
  }

  /**
   * Re-drives a delivery: puts it at the tail of its lane as if it had just been accepted, with a new retry window.
   * Survives a kill once it resolves, with its new row.
   */
  async again(event: StoredEvent, receiver: PartyId, before: DeliveryRow | null): Promise<DeliveryRow> {
    const queue = this.scheduler.ofReceiver(receiver);
    const progress = this.reader.progressFor(receiver);
    if (!queue || !progress) throw new HubError('notFound');
    const since = instantText(this.#context.ports.clock.now());
    const { module } = event.data as ObjectEventData;
    const attempts = (before?.data as DeliveryMemory | undefined)?.attempts ?? [];
    const memory: DeliveryMemory = {
      ...{ module, attempts, since, tries: 0, due: null, class: null, reason: null },
      redriven: true,
    };
    const row: DeliveryRow = { dest: receiver, seq: event.seq, state: 'PENDING', data: memory };
    this.#writer.remember(progress, row);
    await this.#writer.flushed();
    if (before?.state === 'DEAD') queue.dead--;
    this.#take(queue, receiver, event, memory);
    return row;
  }

  /** Subtracts the dead letters that a trim of the log removed. */
  forgotten(receiver: PartyId, dead: number): void {
    const queue = this.scheduler.ofReceiver(receiver);
    if (queue) queue.dead -= dead;
  }

  /** State of a delivery, and its row, including one that is not written yet. [DISPATCHER-5] */
  async standing(receiver: PartyId, seq: Seq): Promise<DeliveryStanding> {
    // Before the row: a delivery that ends gets its row before it stops being pending.
    const isPending = this.isPending(receiver, seq);
    const row = this.#writer.unwritten(receiver, seq) ?? (await this.#context.store.delivery(receiver, seq));
    return { row, state: row?.state ?? (isPending ? 'PENDING' : 'DELIVERED') };
  }

  unwritten(): readonly DeliveryRow[] {
    return this.#writer.unwrittenRows();
  }

  /** Starts no further attempt; resolves when the calls in flight have ended, at the latest after `graceMs`. */
  async calm(graceMs: number): Promise<void> {
    this.#calm = true;
    await withTimeout(this.#context.ports.clock, graceMs, this.#inFlight.landed());
  }

  /** Waits for the calls in flight without a limit, and writes their rows and all floors. */
  async close(): Promise<void> {
    this.#calm = true;
    await this.#inFlight.landed();
    this.reader.close();
    await this.wholes.close();
    await this.#writer.close();
  }

  #take(queue: Queue, receiver: PartyId, event: StoredEvent, memory: DeliveryMemory | null): void {
    const data = event.data as ObjectEventData;
    const { module, owner: sender, id } = data;
    const owed = owedTo(data, receiver);
    const isFresh = memory === null && this.#fresh < this.#context.ports.bodiesMax;
    if (isFresh) this.#fresh += charactersOf(event);
    const lane = queue.lanes.add({
      ...{ receiver, module, sender, id, seq: event.seq, stream: event.stream },
      size: (owed?.body ?? event.body)?.length ?? 0,
      correlationId: event.correlationId,
      since: instantOf(memory?.since ?? event.at),
      loadedAt: this.#context.ports.clock.now(),
      behind: owed?.behind ?? null,
      form: formOf(data, receiver),
      asWhole: memory?.whole ?? false,
      event: isFresh ? event : null,
      isRedriven: memory?.redriven ?? event.type === 'object.resent',
      tries: memory?.tries ?? 0,
      attempts: memory?.attempts ?? [],
    });
    if (memory?.due && lane.items.length === 1) {
      queue.lanes.holdReady(lane);
      this.#releaseAt(queue, lane, Date.parse(memory.due));
    } else this.pump(queue.partnerId);
  }

  #dispatch(): void {
    while (!this.#calm && !this.#inFlight.isFull) {
      const queue = this.scheduler.nextTurn();
      if (!queue) return;
      const [{ lanes }, allowed] = [queue, this.#allowed(queue)];
      const slots = this.#inFlight.slots(queue, allowed);
      const lane = lanes.busy < slots ? lanes.take(slots) : undefined;
      if (!lane) {
        // Lanes wait and the courier allows them to go: only the global limit blocks this queue.
        if (slots < allowed && lanes.busy < allowed && lanes.busy < lanes.size) this.#inFlight.keepBack(queue);
        continue;
      }
      this.scheduler.giveTurn(queue.partnerId);
      if (!this.#waitsForSession(queue, lane)) this.#launch(queue, lane);
    }
  }

  #allowed(queue: Queue): number {
    const courier = this.scheduler.courier(queue.partnerId);
    return courier ? allowance(courier) : 0;
  }

  #slots(queue: Queue): number {
    return this.#inFlight.slots(queue, this.#allowed(queue));
  }

  /** Holds a CDR behind the undelivered updates of its session, for at most `behindMs` since it came into memory. */
  #waitsForSession(queue: Queue, lane: Lane): boolean {
    const [head] = lane.items;
    const ahead = head?.behind ? queue.lanes.laneOf(head.receiver, head.behind) : undefined;
    const until = (head?.loadedAt ?? 0) + behindMs;
    if (!head?.behind || !ahead || this.#context.ports.clock.now() >= until) return false;
    queue.lanes.holdBehind(lane, head.receiver, head.behind);
    this.#releaseAt(queue, lane, until);
    return true;
  }

  #launch(queue: Queue, lane: Lane): void {
    const flight = this.#inFlight.begin(queue, lane.items[0]?.size ?? 0);
    flight.landed = this.#fly(flight, lane);
  }

  async #fly(flight: Flight, lane: Lane): Promise<void> {
    const { queue } = flight;
    try {
      await this.#deliver(flight, lane);
    } catch (error) {
      this.#failed(queue, lane, error);
    } finally {
      const keptBack = this.#inFlight.end(flight);
      if (keptBack) this.scheduler.giveTurn(keptBack.partnerId);
      this.pump(queue.partnerId);
      this.reader.readOn(queue);
    }
  }

  /** A bug of the hub, not a failure of the receiver: retried on the same schedule, and not reported to its breaker. */
  #failed(queue: Queue, lane: Lane, error: unknown): void {
    const { log, clock } = this.#context.ports;
    log.error({ err: error, lane: lane.key }, 'could not attempt a delivery');
    const isBusy = () => lane.state === 'busy';
    if (!isBusy()) return;
    try {
      const [item] = lane.items;
      if (item) this.#settle(queue, lane, item, faultOf(error));
    } catch (again) {
      // Settling failed, too: the row stays as it was, and the lane goes on after `faultMs`.
      log.error({ err: again, lane: lane.key }, 'could not settle a delivery');
      if (!isBusy()) return;
      queue.lanes.hold(lane);
      this.#releaseAt(queue, lane, clock.now() + faultMs);
    }
  }

  async #deliver(flight: Flight, lane: Lane): Promise<void> {
    const { queue } = flight;
    const { store, directory, ports, breakerFeed } = this.#context;
    const [item] = lane.items;
    if (!item) throw new Error(`lane ${lane.key} was taken while empty`);
    const partner = directory.partnerOf(item.receiver);
    const endpoint = partner && endpointOf(partner, item.module, 'RECEIVER');
    if (!partner || isSuspendedSince(partner, item.since))
      return this.#buryUnsent(queue, lane, item, 'auth_error', suspended);
    if (!endpoint) return this.#buryUnsent(queue, lane, item, 'not_found', 'no receiver endpoint');
    if (isExpired(this.#rules, { module: item.module, since: item.since, at: ports.clock.now() })) {
      return this.#buryUnsent(queue, lane, item, 'expired', 'its time was over before it could be sent');
    }
    const event = item.event ?? (await store.event(item.seq));
    if (!event) return this.#bury(queue, lane, item, 'expired', 'no longer in the log');
    const sent = await this.wholes.formFor(item, event);
    if (!sent) return this.#buryUnsent(queue, lane, item, 'not_found', 'no whole object to send in place of a part');
    const { owed, head } = sent;
    if (head !== item) this.#inFlight.replace(flight, lane, head);
    const outcome = await ports.client.call(callOf(this.#context, partner, endpoint.url, item.receiver, event, owed));
    ports.log.info(attemptLine(item, event, outcome), 'delivery attempt');
    queue.attemptMs += (outcome.durationMs - queue.attemptMs) / attemptsMeant;
    this.#settle(queue, lane, head, outcome);
    // After #settle: otherwise the success that closes the circuit and resets the slots to 1 would also double them.
    breakerFeed.told(partnerStream(queue.partnerId), 'async', outcome, ports.clock.now());
  }

  #settle(queue: Queue, lane: Lane, item: Item, outcome: Outcome): void {
    const { ports, supervisor } = this.#context;
    const at = ports.clock.now();
    const attempts = [...item.attempts, attemptOf(outcome, instantText(at))];
    const tried = { ...item, attempts, tries: item.tries + 1 };
    const { module, since } = item;
    const partner = this.#context.directory.partnerOf(item.receiver);
    ports.meter.attempted(module, outcome.class, outcome.durationMs / 1000);
    if (isToHeal(item, outcome) && partner && !isSuspendedSince(partner, item.since))
      return this.#heal(queue, lane, tried);
    const met = { module, outcome: asDelivered(item, outcome), attempts: tried.tries, since, at };
    const next = verdict(this.#rules, { ...met, random: ports.random() });
    if (next.kind === 'retry' && partner && isSuspendedSince(partner, item.since)) {
      this.#bury(queue, lane, tried, 'auth_error', suspended);
    } else if (next.kind === 'retry') {
      this.#remember(tried, 'PENDING', { due: instantText(next.dueAt), class: null, reason: null });
      this.#letGo(item);
      queue.lanes.hold(lane, { ...tried, event: null });
      this.#releaseAt(queue, lane, next.dueAt);
    } else if (next.kind === 'delivered') {
      this.#remember(tried, 'DELIVERED', { due: null, class: 'delivered', reason: null });
      queue.delivered++;
      this.wholes.arrived(item);
      ports.meter.deliveryEnded(module, 'delivered', (at - since) / 1000);
      this.#finish(queue, lane, item);
      const courier = this.scheduler.courier(queue.partnerId);
      if (courier && isGrowing(courier)) supervisor.send(courierActor(queue.partnerId), { type: 'delivered' });
    } else if (next.class === 'expired') {
      this.#bury(queue, lane, tried, 'expired', `its time is over; the last attempt met: ${outcome.message}`);
    } else this.#bury(queue, lane, tried, next.class, outcome.message);
  }

  /** Yields to the event loop first: a backlog that ends at once must not block it. */
  #buryUnsent(queue: Queue, lane: Lane, item: Item, outcomeClass: OutcomeClass, reason: string): Promise<void> {
    return nextTurn().then(() => this.#bury(queue, lane, item, outcomeClass, reason));
  }

  #bury(queue: Queue, lane: Lane, item: Item, outcomeClass: OutcomeClass, reason: string): void {
    this.#recordDead(queue, item, outcomeClass, reason);
    this.wholes.missed(item);
    this.#finish(queue, lane, item);
  }

  /** The receiver lacks the object of a part: sends the whole, once, before anything else of that object. [D59] */
  #heal(queue: Queue, lane: Lane, item: Item): void {
    lane.dueAt = this.#context.ports.clock.now();
    const healing = { ...item, asWhole: true };
    this.#remember(healing, 'PENDING', { due: instantText(lane.dueAt), class: null, reason: null });
    this.#letGo(item);
    queue.lanes.hold(lane, { ...healing, event: null });
    queue.lanes.release(lane);
  }

  #recordDead(queue: Queue, item: Item, outcomeClass: OutcomeClass, reason: string): void {
    const { recorder, ports } = this.#context;
    this.#remember(item, 'DEAD', { due: null, class: outcomeClass, reason });
    queue.dead++;
    ports.meter.deliveryEnded(item.module, outcomeClass, (ports.clock.now() - item.since) / 1000);
    // The log already has the suspension of the partner, and the rows say the rest: no event per delivery.
    if (reason === suspended) return;
    noteDead(recorder, item, outcomeClass, reason);
  }

  #finish(queue: Queue, lane: Lane, item: Item): void {
    this.#letGo(item);
    queue.lanes.done(lane);
    lane.dueAt = this.#context.ports.clock.now();
    if (lane.items.length === 0) queue.lanes.releaseBehind(lane);
  }

  /** Stops counting the body of a fresh event, which memory no longer keeps. */
  #letGo(item: Item): void {
    if (item.event) this.#fresh -= charactersOf(item.event);
  }

  #remember(item: Item, state: DeliveryState, end: Ending): void {
    const { receiver: dest, seq } = item;
    const progress = this.reader.progress(dest);
    if (!progress) return;
    progress.outstanding.delete(seq);
    this.#writer.remember(progress, { dest, seq, state, data: memoryOf(item, end) });
  }

  #releaseAt(queue: Queue, lane: Lane, dueAt: number): void {
    lane.dueAt = dueAt;
    this.#context.timers.arm(`lane:${lane.key}`, dueAt, () => {
      queue.lanes.release(lane);
      this.pump(queue.partnerId);
    });
  }
}

const suspended = 'suspended';
