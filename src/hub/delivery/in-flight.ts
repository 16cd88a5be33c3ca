/**
 * Limits the deliveries in flight to all partners together, and gives each partner its share of that limit.
 *
 * IN-FLIGHT-1  The limit counts calls (sockets and memory) and characters of their bodies. At the limit every partner
 *     waits until a call ends.
 * IN-FLIGHT-2  Half of the limit is reserved for the first call of each partner, so that many partners that hang still
 *     leave one call to each that does not. Of the other half one partner gets at most as much as it leaves free.
 * IN-FLIGHT-3  A queue that only this limit blocks gets its turn when any call ends, not only when one of its own does.
 */

import type { HubPorts } from '../ports/ports.ts';
import type { Item, Lane } from './lanes.ts';
import type { Queue } from './outbox-reader.ts';
import { RoundRobin } from './round-robin.ts';

/** A call that takes at most this many turns of the event loop was answered before the hub looked for the answer. */
export const quickTurns = 2;

export interface Flight {
  readonly queue: Queue;
  /** Turn of the event loop in which the call began. */
  readonly turn: number;
  /** Characters of its body. */
  size: number;
  /** The partner had no other call in flight. */
  readonly isFirst: boolean;
  /** Resolves when the call has ended and is settled. */
  landed: Promise<void>;
}

type Room = Pick<HubPorts, 'inFlightMax' | 'bodiesMax' | 'turn'>;

export class InFlight {
  readonly #room: Room;
  /** Not keyed by lane: a lane's next call may begin before `end` has been called for this one. */
  readonly #flights = new Set<Flight>();
  readonly #calls = new Map<Queue, number>();
  readonly #keptBack = new RoundRobin<Queue>();
  #size = 0;
  /** Calls in flight that were not their partner's first, and characters of their bodies. */
  #more = 0;
  #moreSize = 0;

  constructor(room: Room) {
    this.#room = room;
  }

  /** [IN-FLIGHT-1] */
  get isFull(): boolean {
    return this.#flights.size >= this.#room.inFlightMax || this.#size >= this.#room.bodiesMax;
  }

  /** How many deliveries of a queue may be in flight now; at most `allowed`, which its courier says. [IN-FLIGHT-2] */
  slots({ lanes }: Queue, allowed: number): number {
    const { inFlightMax, bodiesMax } = this.#room;
    const more = lanes.busySize > bodiesMax / 2 - this.#moreSize ? 0 : Math.floor(inFlightMax / 2) - this.#more;
    return Math.min(allowed, 1 + Math.max(0, more));
  }

  /** `size`: characters of the body. The caller sets `landed` to a promise that resolves when the call has ended. */
  begin(queue: Queue, size: number): Flight {
    const calls = this.#calls.get(queue) ?? 0;
    this.#calls.set(queue, calls + 1);
    const flight = { queue, size, isFirst: calls === 0, turn: this.#room.turn(), landed: Promise.resolve() };
    this.#flights.add(flight);
    this.#count(flight, 1);
    return flight;
  }

  /** Replaces the head of the lane by the form that is really sent, whose size differs. */
  replace(flight: Flight, lane: Lane, head: Item): void {
    flight.queue.lanes.replace(lane, head);
    this.#count(flight, -1);
    flight.size = head.size;
    this.#count(flight, 1);
  }

  /** Queues a partner whose courier allows more than this limit does. [IN-FLIGHT-3] */
  keepBack(queue: Queue): void {
    this.#keptBack.add(queue);
  }

  /** Ends a call; returns the queue that was kept back first, if any, whose turn it is now. [IN-FLIGHT-3] */
  end(flight: Flight): Queue | undefined {
    const { queue } = flight;
    this.#flights.delete(flight);
    this.#count(flight, -1);
    const calls = (this.#calls.get(queue) ?? 0) - 1;
    if (calls > 0) this.#calls.set(queue, calls);
    else this.#calls.delete(queue);
    const turn = this.#room.turn();
    if (turn - flight.turn <= quickTurns) queue.quickAt = turn;
    const keptBack = this.#keptBack.first;
    if (keptBack) this.#keptBack.delete(keptBack);
    return keptBack;
  }

  /** Resolves when all calls that are in flight now have ended. */
  async landed(): Promise<void> {
    await Promise.all([...this.#flights].map(({ landed }) => landed));
  }

  #count({ size, isFirst }: Flight, by: 1 | -1): void {
    this.#size += by * size;
    if (isFirst) return;
    this.#more += by;
    this.#moreSize += by * size;
  }
}
