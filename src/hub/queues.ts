/**
 * The queues of the partners that live here, and whose turn it is.
 *
 * T1  Partners take turns, so one partner's backlog raises nobody else's latency. (F4 of `deliveries.ts`)
 * T2  A queue that was calmed sends nothing more; what it holds stays owed, and what is owed meanwhile is taken as before.
 */
import { courierMachine } from '../../machines/courier.ts';
import type { PartyId } from '../domain/party.ts';
import type { Core } from './core.ts';
import { emptyQueue, type Queue } from './intake.ts';
import { courierActor } from './partners.ts';
import { lagOf, overdueOf, standingOf } from './standing.ts';
import { Turns } from './turns.ts';

export class Queues {
  readonly #core: Core;
  readonly #queues = new Map<PartyId, Queue>();
  /** Queues that may be able to send, in order of turn. */
  readonly #turns = new Turns<Queue>();
  readonly #calm = new Set<PartyId>();

  constructor(core: Core) {
    this.#core = core;
  }

  /** The queue of the partner that holds a party, made when there is none; undefined when no such partner lives here. */
  ofReceiver(receiver: PartyId): Queue | undefined {
    const partner = this.#core.state.partnerOf(receiver);
    if (!partner || !this.#core.isOurs(partner.id)) return undefined;
    const queue = this.#queues.get(partner.id) ?? emptyQueue(partner.id);
    this.#queues.set(partner.id, queue);
    return queue;
  }

  /** Whether it was not put away meanwhile. */
  holds(queue: Queue): boolean {
    return this.#queues.get(queue.partnerId) === queue;
  }

  /** False when the partner has no queue. */
  giveTurn(partnerId: PartyId): boolean {
    const queue = this.#queues.get(partnerId);
    if (queue && !this.#calm.has(partnerId)) this.#turns.add(queue);
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

  /** [T2] */
  calm(isTheirs: (party: PartyId) => boolean): void {
    for (const { id } of this.#core.state.partners()) if (isTheirs(id)) this.#calm.add(id);
    for (const queue of this.#queues.values()) if (isTheirs(queue.partnerId)) this.#turns.delete(queue);
  }

  /** Calmed ones send again. */
  wake(isTheirs: (party: PartyId) => boolean): PartyId[] {
    const woken = [...this.#calm].filter(isTheirs);
    for (const id of woken) this.#calm.delete(id);
    return woken;
  }

  /** Takes queues away, with all that they hold. */
  remove(isTheirs: (party: PartyId) => boolean): Queue[] {
    const removed = [...this.#queues.values()].filter(({ partnerId }) => isTheirs(partnerId));
    for (const queue of removed) {
      this.#queues.delete(queue.partnerId);
      this.#turns.delete(queue);
    }
    return removed;
  }

  courier(partnerId: PartyId) {
    return this.#core.supervisor.snapshot(courierMachine, courierActor(partnerId));
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
    const { clock, turn } = this.#core.ports;
    const flowing = [...this.#queues.values()].filter(({ partnerId }) => !this.#calm.has(partnerId));
    const courierOf = ({ partnerId }: Queue) => this.courier(partnerId);
    return lagOf(flowing, { courierOf, slotsOf, turn: turn(), now: clock.now() });
  }

  /** Whether as much waits for the partner of a party as memory holds. */
  isFull(receiver: PartyId): boolean {
    return (this.ofReceiver(receiver)?.lanes.size ?? 0) >= this.#core.ports.windowMax;
  }
}

const nothingOwed: Readonly<Queue> = emptyQueue('');
