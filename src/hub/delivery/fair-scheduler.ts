/**
 * The queues of the partners, and whose turn it is.
 *
 * FAIR-SCHEDULER-1  Partners take turns, so one partner's backlog raises nobody else's latency. (DISPATCHER-4)
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
  /** Queues that may be able to send, in order of turn. */
  readonly #turns = new RoundRobin<Queue>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** The queue of the partner that holds a party, made when there is none; undefined when there is no such partner. */
  ofReceiver(receiver: PartyId): Queue | undefined {
    const partner = this.#context.directory.partnerOf(receiver);
    if (!partner) return undefined;
    const queue = this.#queues.get(partner.id) ?? emptyQueue(partner.id);
    this.#queues.set(partner.id, queue);
    return queue;
  }

  /** False when the partner has no queue. */
  giveTurn(partnerId: PartyId): boolean {
    const queue = this.#queues.get(partnerId);
    if (queue) this.#turns.add(queue);
    return queue !== undefined;
  }

  /** Whose turn it is; its turn is over with that. */
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

  /** How a partner's deliveries stand. */
  standing(partnerId: PartyId): ReturnType<typeof standingOf> {
    return standingOf(this.#queues.get(partnerId) ?? nothingOwed);
  }

  /** Lanes of a partner whose head should have gone before an instant, epoch ms. */
  overdue(partnerId: PartyId, before: number): number {
    const queue = this.#queues.get(partnerId);
    return queue ? overdueOf(queue, this.courier(partnerId), before) : 0;
  }

  /** How long deliveries wait for the hub itself, milliseconds. */
  lagMs(slotsOf: (queue: Queue) => number): number {
    const { clock, turn } = this.#context.ports;
    const courierOf = ({ partnerId }: Queue) => this.courier(partnerId);
    return lagOf([...this.#queues.values()], { courierOf, slotsOf, turn: turn(), now: clock.now() });
  }

  /** Whether as much waits for the partner of a party as memory holds. */
  isFull(receiver: PartyId): boolean {
    return (this.ofReceiver(receiver)?.lanes.size ?? 0) >= this.#context.ports.windowMax;
  }
}

const nothingOwed: Readonly<Queue> = emptyQueue('');
