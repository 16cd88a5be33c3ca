/**
 * What is in flight to all partners together, and how much more one of them may have.
 *
 * IN-FLIGHT-1  The sum is bounded by calls, which are sockets and memory, and by characters of bodies. Where it is used up everybody waits for an end.
 * IN-FLIGHT-2  Half of that is kept for the first call of each partner, so that many that hang leave one to each that does not. Of the other half one
 *     partner has at most as much as it leaves to the others.
 * IN-FLIGHT-3  A queue that only the common room keeps back has its turn again when any call ends, not when one of its own does.
 */

import type { HubPorts } from '../ports/ports.ts';
import type { Item, Lane } from './lanes.ts';
import type { Queue } from './outbox-reader.ts';
import { RoundRobin } from './round-robin.ts';

/** A call that ends after so few turns of the event loop was answered as soon as the hub looked. */
export const quickTurns = 2;

export interface Flight {
  readonly queue: Queue;
  /** Turns of the event loop before it. */
  readonly turn: number;
  size: number;
  /** Its partner had nothing else in flight. */
  readonly isFirst: boolean;
  landed: Promise<void>;
}

type Room = Pick<HubPorts, 'inFlightMax' | 'bodiesMax' | 'turn'>;

export class InFlight {
  readonly #room: Room;
  /** Not by lane: its next flight may start before the end of this one has been seen. */
  readonly #flights = new Set<Flight>();
  readonly #calls = new Map<Queue, number>();
  readonly #keptBack = new RoundRobin<Queue>();
  #size = 0;
  /** Calls that were not their partner's first, and characters of their bodies. */
  #more = 0;
  #moreSize = 0;

  constructor(room: Room) {
    this.#room = room;
  }

  /** [IN-FLIGHT-1] */
  get isFull(): boolean {
    return this.#flights.size >= this.#room.inFlightMax || this.#size >= this.#room.bodiesMax;
  }

  /** How many of a queue may be in flight now, of so many that its courier allows. [IN-FLIGHT-2] */
  slots({ lanes }: Queue, allowed: number): number {
    const { inFlightMax, bodiesMax } = this.#room;
    const more = lanes.busySize > bodiesMax / 2 - this.#moreSize ? 0 : Math.floor(inFlightMax / 2) - this.#more;
    return Math.min(allowed, 1 + Math.max(0, more));
  }

  /** `size`: characters of its body. The caller says in `landed` when it has ended. */
  begin(queue: Queue, size: number): Flight {
    const calls = this.#calls.get(queue) ?? 0;
    this.#calls.set(queue, calls + 1);
    const flight = { queue, size, isFirst: calls === 0, turn: this.#room.turn(), landed: Promise.resolve() };
    this.#flights.add(flight);
    this.#count(flight, 1);
    return flight;
  }

  /** The head of its lane goes in another form, of another size. */
  replace(flight: Flight, lane: Lane, head: Item): void {
    flight.queue.lanes.replace(lane, head);
    this.#count(flight, -1);
    flight.size = head.size;
    this.#count(flight, 1);
  }

  /** Its courier allows more than the common room has left. [IN-FLIGHT-3] */
  keepBack(queue: Queue): void {
    this.#keptBack.add(queue);
  }

  /** The queue that was kept back first, if any: it has its turn now. [IN-FLIGHT-3] */
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

  /** Resolves when all that is in flight now has ended. */
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
