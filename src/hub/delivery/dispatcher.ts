/**
 * Delivers what is owed: sends it in lanes, and decides by the outcome what comes next.
 *
 * DISPATCHER-1  The log is the outbox: what is owed is found there again after any crash; memory holds a bounded window of it.
 * DISPATCHER-2  A transient failure holds its lane alone; a final one frees it. Nothing is dropped without a row that says so.
 * DISPATCHER-3  No attempt is made while the partner's courier allows none (circuit open, paused).
 * DISPATCHER-4  Partners take turns, so one partner's backlog raises nobody else's latency.
 */
import { allowance, isGrowing } from '../../../machines/courier.ts';
import type { DeliveryRow, DeliveryState, Seq, StoredEvent } from '../../../storage/contract.ts';
import { faultOf, HubError, type Outcome, type OutcomeClass } from '../../domain/errors.ts';
import { type Attempt, attemptOf, charactersOf, formOf, type ObjectEventData, owedTo } from '../../domain/events.ts';
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
import { type DeliveryMemory, type Ending, memoryOf, OutboxWriter } from './outbox-writer.ts';
import { attemptLine, callOf, noteDead } from './request.ts';
import { asDelivered, isToHeal, Wholes } from './wholes.ts';

/** A CDR waits at most this long for its session's undelivered updates. */
const behindMs = 10_000;
const hourMs = 3_600_000;
/** Over so many tries what one takes is averaged. */
const attemptsMeant = 16;
/** A lane that met a fault of ours twice is left alone for so long. */
const faultMs = 60_000;

export class Dispatcher {
  readonly scheduler: FairScheduler;
  readonly reader: OutboxReader;
  readonly wholes: Wholes;
  readonly #context: Context;
  readonly #rules: RetryRules;
  readonly #writer: OutboxWriter;
  readonly #inFlight: InFlight;
  #fresh = 0;
  /** It sends nothing more. */
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

  /** An event was committed. */
  owed(event: StoredEvent): void {
    this.reader.owed(event);
  }

  /** A partner was added. */
  added(partner: Partner): void {
    this.reader.added(partner);
  }

  /** Sends what may be sent to this partner now. */
  pump(partnerId: PartyId): void {
    if (this.scheduler.giveTurn(partnerId)) this.#dispatch();
  }

  /** A suspended partner is owed nothing any more: what waits for it ends as dead, with the reason. [D50] */
  suspend(partner: Partner): void {
    this.#context.supervisor.send(courierActor(partner.id), { type: 'suspend' });
    this.scheduler.releaseAll(partner.id);
    this.pump(partner.id);
  }

  /** Whether a delivery without a row is still to come. */
  isPending(receiver: PartyId, seq: Seq): boolean {
    return this.reader.isPending(receiver, seq);
  }

  /** How long deliveries wait for the hub itself, milliseconds. */
  lagMs(): number {
    return this.#calm ? 0 : this.scheduler.lagMs((queue) => this.#slots(queue));
  }

  /** Resolves when every end of a delivery up to now stands in the store. */
  flushed(): Promise<void> {
    return this.#writer.flushed();
  }

  /** Puts a delivery at the tail of its lane, as if it had just been accepted; safe from a kill when it resolves. */
  async again(event: StoredEvent, receiver: PartyId, attempts: readonly Attempt[], wasDead: boolean): Promise<void> {
    const queue = this.scheduler.ofReceiver(receiver);
    const progress = this.reader.progressFor(receiver);
    if (!queue || !progress) throw new HubError('notFound');
    const since = instantText(this.#context.ports.clock.now());
    const { module } = event.data as ObjectEventData;
    const memory: DeliveryMemory = {
      ...{ module, attempts, since, tries: 0, due: null, class: null, reason: null },
      redriven: true,
    };
    this.#writer.remember(progress, { dest: receiver, seq: event.seq, state: 'PENDING', data: memory });
    await this.#writer.flushed();
    if (wasDead) queue.dead--;
    this.#take(queue, receiver, event, memory);
  }

  /** So many dead letters of a receiver went with their events. */
  forgotten(receiver: PartyId, dead: number): void {
    const queue = this.scheduler.ofReceiver(receiver);
    if (queue) queue.dead -= dead;
  }

  /** What is remembered of a delivery, also before it is written. */
  async row(receiver: PartyId, seq: Seq): Promise<DeliveryRow | null> {
    return this.#writer.unwritten(receiver, seq) ?? (await this.#context.store.delivery(receiver, seq));
  }

  unwritten(): readonly DeliveryRow[] {
    return this.#writer.unwrittenRows();
  }

  /** Sends nothing more; resolves when what is in flight has ended, or after a while. */
  async calm(graceMs: number): Promise<void> {
    this.#calm = true;
    await withTimeout(this.#context.ports.clock, graceMs, this.#inFlight.landed());
  }

  /** Lets what is in flight end, and remembers it. */
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
        // Something waits, and its courier allows it: only the common room keeps it back.
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

  /** A CDR goes after the undelivered updates of its session, for a while. */
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

  /** A fault of ours, not the receiver's: tried again on the same schedule, without a word to its circuit. */
  #failed(queue: Queue, lane: Lane, error: unknown): void {
    const { log, clock } = this.#context.ports;
    log.error({ err: error, lane: lane.key }, 'a delivery could not be attempted');
    const isBusy = () => lane.state === 'busy';
    if (!isBusy()) return;
    try {
      const [item] = lane.items;
      if (item) this.#settle(queue, lane, item, faultOf(error));
    } catch (again) {
      // Not even that could be noted: its row stays as it was, and it is taken up again after a while.
      log.error({ err: again, lane: lane.key }, 'the end of a delivery could not be noted');
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
    // After it, so that the success that closes a circuit is not also the first that widens it.
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

  /** Many may end at once: others get their turn between them. */
  #buryUnsent(queue: Queue, lane: Lane, item: Item, outcomeClass: OutcomeClass, reason: string): Promise<void> {
    return nextTurn().then(() => this.#bury(queue, lane, item, outcomeClass, reason));
  }

  #bury(queue: Queue, lane: Lane, item: Item, outcomeClass: OutcomeClass, reason: string): void {
    this.#recordDead(queue, item, outcomeClass, reason);
    this.wholes.missed(item);
    this.#finish(queue, lane, item);
  }

  /** The receiver does not have what it was sent a part of: it gets the whole, once, before anything else of the object. [D59] */
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
    // That a partner was suspended stands in the log already; its rows say the rest.
    if (reason === suspended) return;
    noteDead(recorder, item, outcomeClass, reason);
  }

  #finish(queue: Queue, lane: Lane, item: Item): void {
    this.#letGo(item);
    queue.lanes.done(lane);
    lane.dueAt = this.#context.ports.clock.now();
    if (lane.items.length === 0) queue.lanes.releaseBehind(lane);
  }

  /** The body of a fresh event is not kept any more. */
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
