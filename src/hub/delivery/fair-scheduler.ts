/**
 * Decides which partner sends next, and limits what is in flight to all partners together and kept in memory for them.
 *
 * FAIR-SCHEDULER-1  Partners are served round-robin, so one partner's backlog does not raise the latency of others.
 *     (DISPATCHER-4)
 * FAIR-SCHEDULER-2  The limit counts calls (sockets and memory) and characters of their bodies. At the limit every
 *     partner waits until a call ends.
 * FAIR-SCHEDULER-3  Half of the limit is reserved for the first call of each partner, so that many partners that hang
 *     still leave one call to each that does not. Of the other half one partner gets at most as much as it leaves free.
 * FAIR-SCHEDULER-4  A partner that only this limit blocks gets its turn when any call ends, not only when one of its own
 *     does.
 * FAIR-SCHEDULER-5  Memory keeps at most about `bodiesMax` characters of bodies that wait for their first attempt.
 * FAIR-SCHEDULER-6  Large bodies leave room for small ones (at most `smallBody`), so that a few partners that hang on
 *     large ones delay only large ones of the others. A partner that waits for room comes before the round when there is.
 */
import { smallBody } from '../../../storage/contract.ts';
import type { HubPorts } from '../ports/ports.ts';
import type { LaneCounts } from './lanes.ts';
import { RoundRobin } from './queues.ts';

/** A call that takes at most this many turns of the event loop was answered before the hub looked for the answer. */
export const quickTurns = 2;

/** Small bodies go beside any large ones until they take this part of the room themselves. [FAIR-SCHEDULER-6] */
const smallShare = 1 / 8;

/** A receiving partner, as far as its turn and its share depend on it. */
export interface Sender {
  readonly lanes: Pick<LaneCounts, 'busySize'>;
  /** Counts a call that begins; true when no other call of the partner is in flight. */
  begun(): boolean;
  /** Counts a call that has ended; `quickAt`: the present turn of the event loop if the answer was quick, else null. */
  ended(quickAt: number | null): void;
}

export interface Flight<S> {
  readonly sender: S;
  /** Turn of the event loop in which the call began. */
  readonly turn: number;
  /** Characters of its body. */
  size: number;
  readonly isFirst: boolean;
}

type Room = Pick<HubPorts, 'inFlightMax' | 'bodiesMax' | 'turn'>;

export class FairScheduler<S extends Sender> {
  readonly #room: Room;
  /** Partners that may have something to send, in round-robin order. */
  readonly #turns = new RoundRobin<S>();
  readonly #keptBack = new RoundRobin<S>();
  /** Partners that wait for room for a large body. */
  readonly #forRoom = new RoundRobin<S>();
  /** Calls in flight, and characters of their bodies, and of the small ones; then those that are not their partner's first. */
  #calls = 0;
  #size = 0;
  #smallSize = 0;
  #more = 0;
  #moreSize = 0;
  #kept = 0;

  constructor(room: Room) {
    this.#room = room;
  }

  /** [FAIR-SCHEDULER-2] */
  get isFull(): boolean {
    return this.#calls >= this.#room.inFlightMax || this.sizeMax === 0;
  }

  /**
   * Characters of the largest body that may go now; the last one may exceed the limit. A small one may become large, as a
   * whole in place of a part: at twice the limit none goes. [FAIR-SCHEDULER-6]
   */
  get sizeMax(): number {
    const { bodiesMax } = this.#room;
    if (this.#size < bodiesMax) return Number.POSITIVE_INFINITY;
    return this.#smallSize < bodiesMax * smallShare && this.#size < 2 * bodiesMax ? smallBody : 0;
  }

  /** Adds a partner to the round. */
  giveTurn(sender: S): void {
    this.#turns.add(sender);
  }

  /** Removes and returns the partner whose turn it is. */
  nextTurn(): S | undefined {
    const waits = this.sizeMax > smallBody && this.#forRoom.first !== undefined;
    const round = waits ? this.#forRoom : this.#turns;
    const sender = round.first;
    if (sender) round.delete(sender);
    return sender;
  }

  /** How many deliveries of a partner may be in flight now; at most `allowed`, which its courier says. */
  slots({ lanes }: S, allowed: number): number {
    const { inFlightMax, bodiesMax } = this.#room;
    const more = lanes.busySize > bodiesMax / 2 - this.#moreSize ? 0 : Math.floor(inFlightMax / 2) - this.#more;
    return Math.min(allowed, 1 + Math.max(0, more));
  }

  /** `size`: characters of the body. */
  begin(sender: S, size: number): Flight<S> {
    const flight = { sender, size, isFirst: sender.begun(), turn: this.#room.turn() };
    this.#calls++;
    this.#count(flight, 1);
    return flight;
  }

  /** Another form is really sent, whose size differs. */
  resize(flight: Flight<S>, size: number): void {
    this.#count(flight, -1);
    flight.size = size;
    this.#count(flight, 1);
  }

  /** Queues a partner whose courier allows more than `slots`, or than there is room for. [FAIR-SCHEDULER-4, FAIR-SCHEDULER-6] */
  keepBack(sender: S, { slots, allowed }: { slots: number; allowed: number }): void {
    if (slots < allowed) this.#keptBack.add(sender);
    if (this.sizeMax <= smallBody) this.#forRoom.add(sender);
  }

  /** Ends a call; the partner that was kept back first, if any, and that of the call get their turns. */
  end(flight: Flight<S>): void {
    this.#calls--;
    this.#count(flight, -1);
    const turn = this.#room.turn();
    flight.sender.ended(turn - flight.turn <= quickTurns ? turn : null);
    const keptBack = this.#keptBack.first;
    if (keptBack) {
      this.#keptBack.delete(keptBack);
      this.giveTurn(keptBack);
    }
    this.giveTurn(flight.sender);
  }

  /** Whether memory may keep a body until its first attempt; `dropBody` ends it. `size`: characters. */
  keepBody(size: number): boolean {
    if (this.#kept >= this.#room.bodiesMax) return false;
    this.#kept += size;
    return true;
  }

  dropBody(size: number): void {
    this.#kept -= size;
  }

  #count({ size, isFirst }: Flight<S>, by: 1 | -1): void {
    this.#size += by * size;
    if (size <= smallBody) this.#smallSize += by * size;
    if (isFirst) return;
    this.#more += by;
    this.#moreSize += by * size;
  }
}
