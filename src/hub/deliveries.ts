/**
 * Delivers what is owed: sends it in lanes, and decides by the outcome what comes next.
 *
 * F1  The log is the outbox: what is owed is found there again after any crash; memory holds a bounded window of it.
 * F2  A transient failure holds its lane alone; a final one frees it. Nothing is dropped without a row that says so.
 * F3  No attempt is made while the partner's courier allows none (circuit open, paused).
 * F4  Partners take turns, so one partner's backlog raises nobody else's latency.
 */
import { allowance, courierMachine } from '../../machines/courier.ts';
import type { DeliveryRow, DeliveryState, Seq, Shard, StoredEvent } from '../../storage/contract.ts';
import { circuitSign, HubError, type Outcome, type OutcomeClass } from '../domain/errors.ts';
import { type Attempt, attemptOf, type ObjectEventData } from '../domain/events.ts';
import { endpointOf, type Partner, type PartyId } from '../domain/party.ts';
import { isExpired, type RetryRules, verdict } from '../domain/retry.ts';
import type { Core } from './core.ts';
import { Intake, type Queue, type Taker, windowMax } from './intake.ts';
import { type Item, type Lane, Lanes } from './lanes.ts';
import { type DeliveryMemory, OutboxWriter } from './outbox.ts';
import { courierActor, partnerStream } from './partners.ts';

/** In flight to all partners together. */
const inFlightMax = 256;
/** A CDR waits at most this long for its session's undelivered updates. */
const behindMs = 10_000;
/** Bodies of fresh events that wait in memory, UTF-16 code units; beyond it they are read again from the log. */
const freshMax = 32 * 1024 * 1024;
const hourMs = 3_600_000;
/** A lane that met a fault of ours twice is left alone for so long. */
const faultMs = 60_000;

const signEvents = { failure: 'async.failed', reachable: 'async.reached', neutral: 'async.neutral' } as const;

export class Deliveries {
  readonly #core: Core;
  readonly #rules: RetryRules;
  readonly #writer: OutboxWriter;
  readonly #intake: Intake;
  readonly #queues = new Map<PartyId, Queue>();
  /** Queues that may be able to send, in order of turn. */
  readonly #turns = new Set<Queue>();
  readonly #flights = new Set<Promise<void>>();
  #fresh = 0;
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
    const queueOf = (receiver: PartyId) => this.#queueOf(receiver);
    const take: Taker['take'] = (...delivery) => this.#take(...delivery);
    this.#intake = new Intake(core, { queueOf, take }, this.#writer);
  }

  /** An event was committed. */
  owed(event: StoredEvent): void {
    this.#intake.owed(event);
  }

  /** A partner was added. */
  added(partner: Partner): void {
    this.#intake.added(partner);
  }

  /** Sends what may be sent to this partner now. */
  pump(partnerId: PartyId): void {
    const queue = this.#queues.get(partnerId);
    if (!queue) return;
    this.#turns.add(queue);
    this.#dispatch();
  }

  /** A suspended partner is owed nothing any more: what waits for it ends as dead, with the reason. [D50] */
  suspend(partner: Partner): void {
    this.#core.supervisor.send(courierActor(partner.id), { type: 'suspend' });
    this.#queues.get(partner.id)?.lanes.releaseAll();
    this.pump(partner.id);
  }

  queue(partnerId: PartyId): { depth: number; oldestAt: number | null; dead: number } {
    const queue = this.#queues.get(partnerId);
    let oldestAt: number | null = null;
    for (const item of queue?.lanes.items() ?? []) oldestAt = Math.min(oldestAt ?? item.since, item.since);
    return { depth: queue?.lanes.size ?? 0, oldestAt, dead: queue?.dead ?? 0 };
  }

  /**
   * Lanes whose head should have gone before an instant (epoch ms), though neither circuit nor operator holds it back: a fault
   * of ours, or more than the partner takes. A log that is not read on although memory is empty counts as one.
   */
  overdue(partnerId: PartyId, before: number): number {
    const queue = this.#queues.get(partnerId);
    const courier = this.#core.supervisor.snapshot(courierMachine, courierActor(partnerId))?.value;
    if (!queue || courier?.hold === 'paused' || (courier && courier.circuit !== 'closed')) return 0;
    const isStarved = queue.lanes.size === 0 && queue.progress.some(({ behind }) => behind);
    return queue.lanes.countDueBefore(before) + (isStarved ? 1 : 0);
  }

  /** Whether a delivery without a row is still to come. */
  isPending(receiver: PartyId, shard: Shard, seq: Seq): boolean {
    return this.#intake.isPending(receiver, shard, seq);
  }

  /** Resolves when every end of a delivery up to now stands in the store. */
  flushed(): Promise<void> {
    return this.#writer.flushed();
  }

  /** Whether as much waits for the partner of a party as memory holds. */
  isFull(receiver: PartyId): boolean {
    return (this.#queueOf(receiver)?.lanes.size ?? 0) >= windowMax;
  }

  /** Puts a delivery at the tail of its lane, as if it had just been accepted; safe from a kill when it resolves. */
  async again(event: StoredEvent, receiver: PartyId, attempts: readonly Attempt[], wasDead: boolean): Promise<void> {
    const queue = this.#queueOf(receiver);
    const progress = this.#intake.progressFor(receiver, event.shard);
    if (!queue || !progress) throw new HubError('notFound');
    const since = new Date(this.#core.ports.clock.now()).toISOString();
    const { module } = event.data as ObjectEventData;
    const memory: DeliveryMemory = {
      module,
      class: null,
      attempts,
      tries: 0,
      since,
      due: null,
      reason: null,
      redriven: true,
    };
    const { shard, seq } = event;
    this.#writer.remember(progress, { dest: receiver, shard, seq, state: 'PENDING', data: memory });
    await this.#writer.flushed();
    if (wasDead) queue.dead--;
    this.#take(queue, receiver, event, memory);
  }

  /** What is remembered of a delivery, also before it is written. */
  async row(receiver: PartyId, shard: Shard, seq: Seq): Promise<DeliveryRow | null> {
    return this.#writer.unwritten(receiver, shard, seq) ?? (await this.#core.store.delivery(receiver, shard, seq));
  }

  recover(shards: readonly Shard[]): Promise<void> {
    return this.#intake.recover(shards);
  }

  /** Lets what is in flight end, and remembers it. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#flights);
    this.#intake.close();
    await this.#writer.close();
  }

  #queueOf(receiver: PartyId): Queue | undefined {
    const partner = this.#core.state.partnerOf(receiver);
    if (!partner) return undefined;
    const queue = this.#queues.get(partner.id) ?? { partnerId: partner.id, lanes: new Lanes(), progress: [], dead: 0 };
    this.#queues.set(partner.id, queue);
    return queue;
  }

  #take(queue: Queue, receiver: PartyId, event: StoredEvent, memory: DeliveryMemory | null): void {
    const { module, owed } = event.data as ObjectEventData;
    const isFresh = memory === null && this.#fresh < freshMax;
    if (isFresh) this.#fresh += event.body?.length ?? 0;
    const lane = queue.lanes.add({
      ...{ receiver, module, shard: event.shard, seq: event.seq, stream: event.stream },
      correlationId: event.correlationId,
      since: Date.parse(memory?.since ?? event.at),
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
    while (!this.#closed && this.#flights.size < inFlightMax) {
      const [queue] = this.#turns;
      if (!queue) return;
      this.#turns.delete(queue);
      const courier = this.#core.supervisor.snapshot(courierMachine, courierActor(queue.partnerId));
      if (!courier || queue.lanes.busy >= allowance(courier)) continue;
      const lane = queue.lanes.take(allowance(courier));
      if (!lane) continue;
      this.#turns.add(queue);
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
    const flight = this.#deliver(queue, lane)
      .catch((error: unknown) => {
        // A fault of ours, not the receiver's: tried again on the same schedule, without a word to its circuit.
        this.#core.ports.log.error({ err: error, lane: lane.key }, 'a delivery could not be attempted');
        const [item] = lane.items;
        if (item && lane.state === 'busy') this.#settle(queue, lane, item, faultOf(error));
      })
      .catch((error: unknown) => {
        // Not even that could be noted: its row stays as it was, and it is taken up again after a while.
        this.#core.ports.log.error({ err: error, lane: lane.key }, 'the end of a delivery could not be noted');
        if (lane.state !== 'busy') return;
        queue.lanes.hold(lane);
        this.#releaseAt(queue, lane, this.#core.ports.clock.now() + faultMs);
      })
      .finally(() => {
        this.#flights.delete(flight);
        this.pump(queue.partnerId);
        this.#intake.readOn(queue);
      });
    this.#flights.add(flight);
  }

  async #deliver(queue: Queue, lane: Lane): Promise<void> {
    const { store, state, ports, supervisor } = this.#core;
    const [item] = lane.items;
    if (!item) throw new Error(`lane ${lane.key} was taken while empty`);
    const partner = state.partnerOf(item.receiver);
    const endpoint = partner && endpointOf(partner, item.module, 'RECEIVER');
    if (!partner || isSuspendedSince(partner, item))
      return this.#buryUnsent(queue, lane, item, 'auth_error', suspended);
    if (!endpoint) return this.#buryUnsent(queue, lane, item, 'not_found', 'no receiver endpoint');
    if (isExpired(this.#rules, { ...item, at: ports.clock.now() })) {
      return this.#buryUnsent(queue, lane, item, 'expired', 'its time was over before it could be sent');
    }
    const event = item.event ?? (await store.event(item.shard, item.seq));
    if (!event) return this.#bury(queue, lane, item, 'expired', 'no longer in the log');
    const outcome = await this.#send(partner, endpoint.url, item, event);
    this.#settle(queue, lane, item, outcome);
    // After it, so that the success that closes a circuit is not also the first that widens it.
    const sign = signEvents[circuitSign(outcome)];
    supervisor.send(partnerStream(queue.partnerId), { type: sign, at: ports.clock.now() });
  }

  async #send(partner: Partner, moduleUrl: string, item: Item, event: StoredEvent): Promise<Outcome> {
    const { state, ports, settings } = this.#core;
    const { owed, owner } = event.data as ObjectEventData;
    const [path = '', ownQuery] = moduleUrl.split('?');
    const queries = [ownQuery, owed?.query.slice(1)].filter(Boolean).join('&');
    const body = owed?.body ?? event.body;
    const outcome = await ports.client.call({
      method: owed?.method ?? 'PUT',
      url: path.replace(/\/+$/, '') + (owed?.path ?? '') + (queries ? `?${queries}` : ''),
      token: ports.secrets.open(partner.partnerToken ?? ''),
      encoding: partner.settings.token_encoding,
      from: state.party(owner) ?? null,
      to: state.party(item.receiver) ?? null,
      requestId: ports.secrets.newId(),
      correlationId: event.correlationId ?? ports.secrets.newId(),
      body: owed?.method === 'DELETE' ? null : body,
      timeoutMs: settings.deliveryTimeoutMs,
      emptyOk: partner.settings.empty_2xx_ok,
      resend: true,
    });
    ports.log.info(
      {
        ...{ partyId: item.receiver, module: item.module, objectKey: item.stream, attempt: item.tries + 1 },
        ...{ deliveryId: deliveryId(item.receiver, item.seq), outcome: outcome.class },
        ...{ durationMs: Math.round(outcome.durationMs), correlationId: event.correlationId },
      },
      'delivery attempt',
    );
    return outcome;
  }

  #settle(queue: Queue, lane: Lane, item: Item, outcome: Outcome): void {
    const { ports, supervisor } = this.#core;
    const at = ports.clock.now();
    const attempts = [...item.attempts, attemptOf(outcome, new Date(at).toISOString())];
    const tried = { ...item, attempts, tries: item.tries + 1 };
    const { module, since } = item;
    const partner = this.#core.state.partnerOf(item.receiver);
    ports.meter.attempted(module, outcome.class, outcome.durationMs / 1000);
    const next = verdict(this.#rules, { module, outcome, attempts: tried.tries, since, at, random: ports.random() });
    if (next.kind === 'retry' && partner && isSuspendedSince(partner, item)) {
      this.#bury(queue, lane, tried, 'auth_error', suspended);
    } else if (next.kind === 'retry') {
      this.#remember(tried, 'PENDING', { due: new Date(next.dueAt).toISOString(), class: null, reason: null });
      this.#letGo(item);
      queue.lanes.hold(lane, { ...tried, event: null });
      this.#releaseAt(queue, lane, next.dueAt);
    } else if (next.kind === 'delivered') {
      this.#remember(tried, 'DELIVERED', { due: null, class: 'delivered', reason: null });
      ports.meter.deliveryEnded(module, 'delivered', (at - since) / 1000);
      this.#finish(queue, lane, item);
      supervisor.send(courierActor(queue.partnerId), { type: 'delivered' });
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
    const delivery = deliveryId(item.receiver, item.seq);
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
    if (queue.lanes.laneOf(item.receiver, item.stream)) return;
    for (const other of queue.lanes.waitingBehind(item.receiver, item.stream)) queue.lanes.release(other);
  }

  /** The body of a fresh event is not kept any more. */
  #letGo(item: Item): void {
    this.#fresh -= item.event?.body?.length ?? 0;
  }

  #remember(item: Item, state: DeliveryState, end: Pick<DeliveryMemory, 'due' | 'class' | 'reason'>): void {
    const { receiver: dest, shard, seq, module, attempts, tries } = item;
    const progress = this.#intake.progress(dest, shard);
    if (!progress) return;
    const since = new Date(item.since).toISOString();
    const data: DeliveryMemory = { module, attempts, tries, since, ...end, ...(item.isRedriven && { redriven: true }) };
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
  return partner.partnerToken === null || item.since < Date.parse(partner.suspendedAt ?? '');
}

function faultOf(error: unknown): Outcome {
  const message = `a fault of the hub: ${error instanceof Error ? error.message : String(error)}`;
  return { class: 'unavailable', httpStatus: null, ocpiStatus: null, message, excerpt: '', durationMs: 0 };
}

/** Stable over retries, restarts and re-drives. */
export function deliveryId(receiver: PartyId, seq: Seq): string {
  return `${seq}-${receiver}`;
}
