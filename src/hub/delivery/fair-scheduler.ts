/**
 * Holds the delivery queue of each partner and decides which partner sends next.
 *
 * FAIR-SCHEDULER-1  Partners are served round-robin, so one partner's backlog does not raise the latency of others.
 *     (DISPATCHER-4)
 */
import { courierMachine } from '../../../machines/courier.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import { courierActor } from '../partners/partner-actors.ts';
import { lagOf, overdueOf, standingOf } from './backpressure.ts';
import { emptyQueue, type Queue } from './outbox-reader.ts';
import { RoundRobin } from './round-robin.ts';

export class FairScheduler {
  readonly #context: Context;
  readonly #queues = new Map<PartyId, Queue>();
  /** Queues that may have something to send, in round-robin order. */
  readonly #turns = new RoundRobin<Queue>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** The queue of the partner that holds a party, created on first use; undefined when no partner holds it. */
  ofReceiver(receiver: PartyId): Queue | undefined {
    const partner = this.#context.directory.partnerOf(receiver);
    if (!partner) return undefined;
    const queue = this.#queues.get(partner.id) ?? emptyQueue(partner.id);
    this.#queues.set(partner.id, queue);
    return queue;
  }

  /** Adds the partner's queue to the round; false when the partner has none. */
  giveTurn(partnerId: PartyId): boolean {
    const queue = this.#queues.get(partnerId);
    if (queue) this.#turns.add(queue);
    return queue !== undefined;
  }

  /** Removes and returns the queue whose turn it is. */
  nextTurn(): Queue | undefined {
    const queue = this.#turns.first;
    if (queue) this.#turns.delete(queue);
    return queue;
  }

  releaseAll(partnerId: PartyId): void {
    this.#queues.get(partnerId)?.lanes.releaseAll();
  }

  courier(partnerId: PartyId) {
    return this.#context.supervisor.snapshot(courierMachine, courierActor(partnerId));
  }

  /** Depth, age and counts of a partner's queue. */
  standing(partnerId: PartyId): ReturnType<typeof standingOf> {
    return standingOf(this.#queues.get(partnerId) ?? nothingOwed);
  }

  /** Counts a partner's deliveries first in their lane that were due before an instant (epoch ms) and are not blocked. */
  overdue(partnerId: PartyId, before: number): number {
    const queue = this.#queues.get(partnerId);
    return queue ? overdueOf(queue, this.courier(partnerId), before) : 0;
  }

  /** Forwarding lag, ms: how long deliveries wait for the hub itself. */
  lagMs(slotsOf: (queue: Queue) => number): number {
    const { clock, turn } = this.#context.ports;
    const courierOf = ({ partnerId }: Queue) => this.courier(partnerId);
    return lagOf([...this.#queues.values()], { courierOf, slotsOf, turn: turn(), now: clock.now() });
  }

  /** Whether memory holds `windowMax` deliveries of the partner that holds the party. */
  isFull(receiver: PartyId): boolean {
    return (this.ofReceiver(receiver)?.lanes.size ?? 0) >= this.#context.ports.windowMax;
  }
}

const nothingOwed: Readonly<Queue> = emptyQueue('');
