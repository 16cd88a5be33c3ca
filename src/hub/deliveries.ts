/**
 * Delivers what is owed: sends it in lanes, and decides by the outcome what comes next.
 *
 * F1  The log is the outbox: what is owed is found there again after any crash; memory holds a bounded window of it.
 * F2  A transient failure holds its lane alone; a final one frees it. Nothing is dropped without a row that says so.
 * F3  No attempt is made while the partner's courier allows none (circuit open, paused).
 * F4  Partners take turns, so one partner's backlog raises nobody else's latency.
 */
import { allowance, courierMachine } from '../../machines/courier.ts';
import type { DeliveryState, Seq, Shard, StoredEvent } from '../../storage/contract.ts';
import { circuitSign, type Outcome, type OutcomeClass } from '../domain/errors.ts';
import { attemptOf, type ObjectEventData } from '../domain/events.ts';
import { endpointOf, type Partner, type PartyId } from '../domain/party.ts';
import { type RetryRules, verdict } from '../domain/retry.ts';
import type { Core } from './core.ts';
import { Intake, type Queue, type Taker } from './intake.ts';
import { type Item, type Lane, Lanes } from './lanes.ts';
import { type DeliveryMemory, OutboxWriter } from './outbox.ts';
import { courierActor, partnerStream } from './partners.ts';

/** In flight to all partners together. */
const inFlightMax = 256;
/** A CDR waits at most this long for its session's undelivered updates. */
const behindMs = 10_000;
/** After a fault of ours a delivery is tried again this much later. */
const faultMs = 1_000;
const hourMs = 3_600_000;

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

  /** Whether a delivery without a row is still to come. */
  isPending(receiver: PartyId, shard: Shard, seq: Seq): boolean {
    return this.#intake.isPending(receiver, shard, seq);
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
    const lane = queue.lanes.add({
      ...{ receiver, module, shard: event.shard, seq: event.seq, stream: event.stream },
      since: Date.parse(memory?.since ?? event.at),
      loadedAt: this.#core.ports.clock.now(),
      behind: owed?.behind ?? null,
      event: memory ? null : event,
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
      const lane = queue.lanes.take();
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
        // A fault of ours, not the receiver's: the delivery stays at the head of its lane and is tried again.
        this.#core.ports.log.error({ err: error }, 'a delivery could not be attempted');
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
    const { store, state } = this.#core;
    const [item] = lane.items;
    if (!item) throw new Error(`lane ${lane.key} was taken while empty`);
    const event = item.event ?? (await store.event(item.shard, item.seq));
    const partner = state.partnerOf(item.receiver);
    const endpoint = partner && endpointOf(partner, item.module, 'RECEIVER');
    if (!event || !(event.data as ObjectEventData).owed)
      return this.#bury(queue, lane, item, 'expired', 'no longer in the log');
    if (!partner || partner.partnerToken === null) return this.#bury(queue, lane, item, 'auth_error', 'suspended');
    if (!endpoint) return this.#bury(queue, lane, item, 'not_found', 'no receiver endpoint');
    const outcome = await this.#send(partner, endpoint.url, item, event);
    this.#settle(queue, lane, item, outcome);
  }

  async #send(partner: Partner, moduleUrl: string, item: Item, event: StoredEvent): Promise<Outcome> {
    const { state, ports, settings } = this.#core;
    const { owed, owner } = event.data as ObjectEventData;
    const [path = '', ownQuery] = moduleUrl.split('?');
    const query = owed?.query || (ownQuery ? `?${ownQuery}` : '');
    const body = owed?.body ?? event.body;
    const outcome = await ports.client.call({
      method: owed?.method ?? 'PUT',
      url: path.replace(/\/+$/, '') + (owed?.path ?? '') + query,
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
    supervisor.send(partnerStream(queue.partnerId), { type: signEvents[circuitSign(outcome)], at });
    const attempts = [...item.attempts, attemptOf(outcome, new Date(at).toISOString())];
    const tried = { ...item, attempts, tries: item.tries + 1 };
    const { module, since } = item;
    const next = verdict(this.#rules, { module, outcome, attempts: tried.tries, since, at, random: ports.random() });
    if (next.kind === 'retry') {
      this.#remember(tried, 'PENDING', { due: new Date(next.dueAt).toISOString(), reason: null });
      queue.lanes.hold(lane, tried);
      this.#releaseAt(queue, lane, next.dueAt);
    } else if (next.kind === 'delivered') {
      this.#remember(tried, 'DELIVERED', { due: null, reason: null });
      this.#finish(queue, lane, item);
      supervisor.send(courierActor(queue.partnerId), { type: 'delivered' });
    } else this.#bury(queue, lane, tried, next.class, outcome.message);
  }

  #bury(queue: Queue, lane: Lane, item: Item, outcomeClass: OutcomeClass, reason: string): void {
    this.#recordDead(queue, item, outcomeClass, reason);
    this.#finish(queue, lane, item);
  }

  #recordDead(queue: Queue, item: Item, outcomeClass: OutcomeClass, reason: string): void {
    const { recorder } = this.#core;
    this.#remember(item, 'DEAD', { due: null, reason });
    queue.dead++;
    const delivery = deliveryId(item.receiver, item.seq);
    const data = { delivery, receiver: item.receiver, class: outcomeClass, reason };
    recorder.note({
      shardOf: item.receiver,
      facts: [{ stream: `delivery:${delivery}`, event: { type: 'delivery.dead', data }, party: null }],
      trace: item.event ? { correlationId: item.event.correlationId ?? '' } : null,
      at: recorder.instant(),
    });
  }

  #finish(queue: Queue, lane: Lane, item: Item): void {
    queue.lanes.done(lane);
    if (queue.lanes.laneOf(item.receiver, item.stream)) return;
    for (const other of queue.lanes.waitingBehind(item.receiver, item.stream)) queue.lanes.release(other);
  }

  #remember(item: Item, state: DeliveryState, end: Pick<DeliveryMemory, 'due' | 'reason'>): void {
    const { receiver: dest, shard, seq, attempts, tries } = item;
    const progress = this.#intake.progress(dest, shard);
    if (!progress) return;
    const data: DeliveryMemory = { attempts, tries, since: new Date(item.since).toISOString(), ...end };
    progress.outstanding.delete(seq);
    this.#writer.remember(progress, { dest, shard, seq, state, data });
  }

  #releaseAt(queue: Queue, lane: Lane, dueAt: number): void {
    this.#core.timers.arm(`lane:${lane.key}`, dueAt, () => {
      queue.lanes.release(lane);
      this.pump(queue.partnerId);
    });
  }
}

/** Stable over retries, restarts and re-drives. */
export function deliveryId(receiver: PartyId, seq: Seq): string {
  return `${seq}-${receiver}`;
}
