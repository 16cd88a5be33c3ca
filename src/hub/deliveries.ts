/**
 * Delivers what is owed: sends it in lanes, and decides by the outcome what comes next.
 *
 * F1  The log is the outbox: what is owed is found there again after any crash; memory holds a bounded window of it.
 * F2  A transient failure holds its lane alone; a final one frees it. Nothing is dropped without a row that says so.
 * F3  No attempt is made while the partner's courier allows none (circuit open, paused).
 * F4  Partners take turns, so one partner's backlog raises nobody else's latency.
 * F5  What a partner is owed is put away when its shard goes: what is in flight then ends and is not remembered, and comes again where
 *     the partner lives by then, like after a crash.
 */
import { allowance, isGrowing } from '../../machines/courier.ts';
import type { DeliveryRow, DeliveryState, Seq, Shard, StoredEvent } from '../../storage/contract.ts';
import { faultOf, HubError, type Outcome, type OutcomeClass } from '../domain/errors.ts';
import { type Attempt, attemptOf, type ObjectEventData } from '../domain/events.ts';
import { instantOf, instantText } from '../domain/instant.ts';
import { endpointOf, type Partner, type PartyId } from '../domain/party.ts';
import { isExpired, type RetryRules, verdict } from '../domain/retry.ts';
import { atHome } from './asked.ts';
import { atMost } from './at-most.ts';
import type { Core } from './core.ts';
import { deliveryId } from './delivery-id.ts';
import { attemptLine, callOf } from './delivery-request.ts';
import { Intake, type Queue, type Taker } from './intake.ts';
import type { Item, Lane } from './lanes.ts';
import { type DeliveryMemory, OutboxWriter } from './outbox.ts';
import { courierActor, partnerStream } from './partners.ts';
import { Queues } from './queues.ts';

/** In flight to all partners together. */
const inFlightMax = 256;
/** Of the room for bodies in flight one partner gets at most this. */
const ofPartnerShare = 1 / 8;
/** A CDR waits at most this long for its session's undelivered updates. */
const behindMs = 10_000;
const hourMs = 3_600_000;
/** Over so many tries what one takes is averaged. */
const attemptsMeant = 16;
/** A lane that met a fault of ours twice is left alone for so long. */
const faultMs = 60_000;

interface Flight {
  readonly queue: Queue;
  landed: Promise<void>;
}

export class Deliveries {
  readonly queues: Queues;
  readonly intake: Intake;
  readonly #core: Core;
  readonly #rules: RetryRules;
  readonly #writer: OutboxWriter;
  /** Not by lane: its next flight may start before the end of this one has been seen. */
  readonly #flights = new Set<Flight>();
  #fresh = 0;
  #inFlightSize = 0;
  #closed = false;

  constructor(core: Core) {
    const { settings, recorder, store, ports } = core;
    this.#core = core;
    this.#rules = {
      scheduleS: settings.retryScheduleS,
      jitter: settings.retryJitter,
      windowMs: settings.retryWindowH * hourMs,
      windowCdrMs: settings.retryWindowCdrH * hourMs,
    };
    this.#writer = new OutboxWriter(store, ports.clock, ports.log, (shard) => recorder.dispatchedTo(shard));
    this.queues = new Queues(core);
    const queueOf = (receiver: PartyId) => this.queues.ofReceiver(receiver);
    const take: Taker['take'] = (...delivery) => this.#take(...delivery);
    this.intake = new Intake(core, { queueOf, take }, this.#writer);
  }

  /** An event was committed. */
  owed(event: StoredEvent): void {
    this.intake.owed(event);
  }

  /** A partner was added. */
  added(partner: Partner): void {
    this.intake.added(partner);
  }

  /** Sends what may be sent to this partner now. */
  pump(partnerId: PartyId): void {
    if (this.queues.giveTurn(partnerId)) this.#dispatch();
  }

  /** A suspended partner is owed nothing any more: what waits for it ends as dead, with the reason. [D50] */
  suspend(partner: Partner): void {
    this.#core.supervisor.send(courierActor(partner.id), { type: 'suspend' });
    this.queues.releaseAll(partner.id);
    this.pump(partner.id);
  }

  /** Whether a delivery without a row is still to come. */
  isPending(receiver: PartyId, shard: Shard, seq: Seq): boolean {
    return this.intake.isPending(receiver, shard, seq);
  }

  /** The same of a receiver that may live elsewhere. */
  async awaits(receiver: PartyId, { shard, seq }: { readonly shard: Shard; readonly seq: Seq }): Promise<boolean> {
    const here = async () => this.isPending(receiver, shard, seq);
    return atHome(this.#core, receiver, 'isPending', { receiver, shard, seq }, here);
  }

  /** Resolves when every end of a delivery up to now stands in the store. */
  flushed(): Promise<void> {
    return this.#writer.flushed();
  }

  /** Puts a delivery at the tail of its lane, as if it had just been accepted; safe from a kill when it resolves. */
  async again(event: StoredEvent, receiver: PartyId, attempts: readonly Attempt[], wasDead: boolean): Promise<void> {
    const queue = this.queues.ofReceiver(receiver);
    const progress = this.intake.progressFor(receiver, event.shard);
    if (!queue || !progress) throw new HubError('notFound');
    const since = instantText(this.#core.ports.clock.now());
    const { module } = event.data as ObjectEventData;
    const memory: DeliveryMemory = {
      ...{ module, attempts, since, tries: 0, due: null, class: null, reason: null },
      redriven: true,
    };
    const { shard, seq } = event;
    this.#writer.remember(progress, { dest: receiver, shard, seq, state: 'PENDING', data: memory });
    await this.#writer.flushed();
    // Its shard went meanwhile: where it lives now nothing is known of this.
    if (!this.queues.holds(queue)) throw new HubError('unavailable', { retryAfterS: 1 });
    if (wasDead) queue.dead--;
    this.#take(queue, receiver, event, memory);
  }

  /** So many dead letters of a receiver went with their events. */
  forgotten(receiver: PartyId, dead: number): void {
    const queue = this.queues.ofReceiver(receiver);
    if (queue) queue.dead -= dead;
  }

  /** What is remembered of a delivery, also before it is written. */
  async row(receiver: PartyId, shard: Shard, seq: Seq): Promise<DeliveryRow | null> {
    return this.#writer.unwritten(receiver, shard, seq) ?? (await this.#core.store.delivery(receiver, shard, seq));
  }

  unwritten(): readonly DeliveryRow[] {
    return this.#writer.unwrittenRows();
  }

  /** Sends nothing more to these receivers; resolves when what is in flight to them has ended, or after a while. */
  async calm(isTheirs: (party: PartyId) => boolean, graceMs: number): Promise<void> {
    this.queues.calm(isTheirs);
    const theirs = [...this.#flights].flatMap(({ queue, landed }) => (isTheirs(queue.partnerId) ? [landed] : []));
    await atMost(this.#core.ports.clock, graceMs, Promise.all(theirs));
  }

  /** Sends again to those that were calmed. */
  wake(isTheirs: (party: PartyId) => boolean): void {
    for (const partnerId of this.queues.wake(isTheirs)) this.pump(partnerId);
  }

  /** Puts away all that is owed to receivers of shards that go. [F5] */
  forget(shards: ReadonlySet<Shard>, isTheirs: (party: PartyId) => boolean): void {
    for (const queue of this.queues.remove(isTheirs)) {
      for (const lane of queue.lanes.all()) {
        for (const item of lane.items) this.#letGo(item);
        this.#core.timers.disarm(`lane:${lane.key}`);
      }
    }
    this.queues.wake(isTheirs);
    this.intake.forget(shards, isTheirs);
  }

  /** Lets what is in flight end, and remembers it. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#flights].map(({ landed }) => landed));
    this.intake.close();
    await this.#writer.close();
  }

  #take(queue: Queue, receiver: PartyId, event: StoredEvent, memory: DeliveryMemory | null): void {
    const { module, owed } = event.data as ObjectEventData;
    const isFresh = memory === null && this.#fresh < this.#core.ports.bodiesMax;
    if (isFresh) this.#fresh += event.body?.length ?? 0;
    const lane = queue.lanes.add({
      receiver,
      module,
      shard: event.shard,
      seq: event.seq,
      stream: event.stream,
      size: (owed?.body ?? event.body)?.length ?? 0,
      correlationId: event.correlationId,
      since: instantOf(memory?.since ?? event.at),
      loadedAt: this.#core.ports.clock.now(),
      behind: owed?.behind ?? null,
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
    while (!this.#closed && this.#flights.size < inFlightMax && this.#inFlightSize < this.#core.ports.bodiesMax) {
      const queue = this.queues.nextTurn();
      if (!queue) return;
      const courier = this.queues.courier(queue.partnerId);
      const slots = courier ? allowance(courier, inFlightMax - this.#flights.size) : 0;
      const isFull = queue.lanes.busy >= slots || queue.lanes.busySize >= this.#core.ports.bodiesMax * ofPartnerShare;
      const lane = isFull ? undefined : queue.lanes.take(slots);
      if (!lane) continue;
      this.queues.giveTurn(queue.partnerId);
      if (!this.#waitsForSession(queue, lane)) this.#launch(queue, lane);
    }
  }

  /** A CDR goes after the undelivered updates of its session, for a while. */
  #waitsForSession(queue: Queue, lane: Lane): boolean {
    const [head] = lane.items;
    const ahead = head?.behind ? queue.lanes.laneOf(head.receiver, head.behind) : undefined;
    const until = (head?.loadedAt ?? 0) + behindMs;
    if (!head?.behind || !ahead || this.#core.ports.clock.now() >= until) return false;
    queue.lanes.holdBehind(lane, head.receiver, head.behind);
    this.#releaseAt(queue, lane, until);
    return true;
  }

  #launch(queue: Queue, lane: Lane): void {
    const size = lane.items[0]?.size ?? 0;
    this.#inFlightSize += size;
    const flight: Flight = { queue, landed: Promise.resolve() };
    this.#flights.add(flight);
    flight.landed = this.#fly(flight, lane, size);
  }

  async #fly(flight: Flight, lane: Lane, size: number): Promise<void> {
    const { queue } = flight;
    try {
      await this.#deliver(queue, lane);
    } catch (error) {
      this.#failed(queue, lane, error);
    } finally {
      this.#flights.delete(flight);
      this.#inFlightSize -= size;
      this.pump(queue.partnerId);
      this.intake.readOn(queue);
    }
  }

  /** A fault of ours, not the receiver's: tried again on the same schedule, without a word to its circuit. */
  #failed(queue: Queue, lane: Lane, error: unknown): void {
    const { log, clock } = this.#core.ports;
    log.error({ err: error, lane: lane.key }, 'a delivery could not be attempted');
    const isBusy = () => lane.state === 'busy' && this.queues.holds(queue);
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

  async #deliver(queue: Queue, lane: Lane): Promise<void> {
    const { store, state, ports, signs } = this.#core;
    const [item] = lane.items;
    if (!item) throw new Error(`lane ${lane.key} was taken while empty`);
    const partner = state.partnerOf(item.receiver);
    const endpoint = partner && endpointOf(partner, item.module, 'RECEIVER');
    if (!partner || isSuspendedSince(partner, item))
      return this.#buryUnsent(queue, lane, item, 'auth_error', suspended);
    if (!endpoint) return this.#buryUnsent(queue, lane, item, 'not_found', 'no receiver endpoint');
    if (isExpired(this.#rules, { module: item.module, since: item.since, at: ports.clock.now() })) {
      return this.#buryUnsent(queue, lane, item, 'expired', 'its time was over before it could be sent');
    }
    const event = item.event ?? (await store.event(item.shard, item.seq));
    if (!event) return this.#bury(queue, lane, item, 'expired', 'no longer in the log');
    if (!this.queues.holds(queue)) return;
    const outcome = await ports.client.call(callOf(this.#core, partner, endpoint.url, item.receiver, event));
    ports.log.info(attemptLine(item, event, outcome), 'delivery attempt');
    if (!this.queues.holds(queue)) return;
    queue.attemptMs += (outcome.durationMs - queue.attemptMs) / attemptsMeant;
    this.#settle(queue, lane, item, outcome);
    // After it, so that the success that closes a circuit is not also the first that widens it.
    signs.told(partnerStream(queue.partnerId), 'async', outcome, ports.clock.now());
  }

  #settle(queue: Queue, lane: Lane, item: Item, outcome: Outcome): void {
    const { ports, supervisor } = this.#core;
    const at = ports.clock.now();
    const attempts = [...item.attempts, attemptOf(outcome, instantText(at))];
    const tried = { ...item, attempts, tries: item.tries + 1 };
    const { module, since } = item;
    const partner = this.#core.state.partnerOf(item.receiver);
    ports.meter.attempted(module, outcome.class, outcome.durationMs / 1000);
    const next = verdict(this.#rules, { module, outcome, attempts: tried.tries, since, at, random: ports.random() });
    if (next.kind === 'retry' && partner && isSuspendedSince(partner, item)) {
      this.#bury(queue, lane, tried, 'auth_error', suspended);
    } else if (next.kind === 'retry') {
      this.#remember(tried, 'PENDING', { due: instantText(next.dueAt), class: null, reason: null });
      this.#letGo(item);
      queue.lanes.hold(lane, { ...tried, event: null });
      this.#releaseAt(queue, lane, next.dueAt);
    } else if (next.kind === 'delivered') {
      this.#remember(tried, 'DELIVERED', { due: null, class: 'delivered', reason: null });
      queue.delivered++;
      ports.meter.deliveryEnded(module, 'delivered', (at - since) / 1000);
      this.#finish(queue, lane, item);
      const courier = this.queues.courier(queue.partnerId);
      if (courier && isGrowing(courier)) supervisor.send(courierActor(queue.partnerId), { type: 'delivered' });
    } else if (next.class === 'expired') {
      this.#bury(queue, lane, tried, 'expired', `its time is over; the last attempt met: ${outcome.message}`);
    } else this.#bury(queue, lane, tried, next.class, outcome.message);
  }

  /** Many may end at once: others get their turn between them. */
  async #buryUnsent(queue: Queue, lane: Lane, item: Item, outcomeClass: OutcomeClass, reason: string): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#bury(queue, lane, item, outcomeClass, reason);
  }

  #bury(queue: Queue, lane: Lane, item: Item, outcomeClass: OutcomeClass, reason: string): void {
    if (!this.queues.holds(queue)) return;
    this.#recordDead(queue, item, outcomeClass, reason);
    this.#finish(queue, lane, item);
  }

  #recordDead(queue: Queue, item: Item, outcomeClass: OutcomeClass, reason: string): void {
    const { recorder, ports } = this.#core;
    this.#remember(item, 'DEAD', { due: null, class: outcomeClass, reason });
    queue.dead++;
    ports.meter.deliveryEnded(item.module, outcomeClass, (ports.clock.now() - item.since) / 1000);
    // That a partner was suspended stands in the log already; its rows say the rest.
    if (reason === suspended) return;
    const delivery = deliveryId(item.receiver, item);
    const data = { delivery, receiver: item.receiver, class: outcomeClass, reason };
    recorder.note({
      shardOf: item.receiver,
      facts: [{ stream: `delivery:${delivery}`, event: { type: 'delivery.dead', data }, party: null }],
      trace: item.correlationId === null ? null : { correlationId: item.correlationId },
      at: recorder.instant(),
    });
  }

  #finish(queue: Queue, lane: Lane, item: Item): void {
    this.#letGo(item);
    queue.lanes.done(lane);
    lane.dueAt = this.#core.ports.clock.now();
    if (lane.items.length === 0) queue.lanes.releaseBehind(lane);
  }

  /** The body of a fresh event is not kept any more. */
  #letGo(item: Item): void {
    this.#fresh -= item.event?.body?.length ?? 0;
  }

  #remember(item: Item, state: DeliveryState, end: Pick<DeliveryMemory, 'due' | 'class' | 'reason'>): void {
    const { receiver: dest, shard, seq, module, attempts, tries } = item;
    const progress = this.intake.progress(dest, shard);
    if (!progress) return;
    const since = instantText(item.since);
    const { due, class: ended, reason } = end;
    const data: DeliveryMemory = item.isRedriven
      ? { module, attempts, tries, since, due, class: ended, reason, redriven: true }
      : { module, attempts, tries, since, due, class: ended, reason };
    progress.outstanding.delete(seq);
    this.#writer.remember(progress, { dest, shard, seq, state, data });
  }

  #releaseAt(queue: Queue, lane: Lane, dueAt: number): void {
    lane.dueAt = dueAt;
    this.#core.timers.arm(`lane:${lane.key}`, dueAt, () => {
      queue.lanes.release(lane);
      this.pump(queue.partnerId);
    });
  }
}

const suspended = 'suspended';

/** What was owed before a suspension is not sent, also when the partner has registered again. [D50] */
function isSuspendedSince(partner: Partner, item: Item): boolean {
  const { partnerToken, suspendedAt } = partner;
  return partnerToken === null || (suspendedAt !== null && item.since < Date.parse(suspendedAt));
}
