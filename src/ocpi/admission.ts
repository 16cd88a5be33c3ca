/**
 * Admission control of the OCPI door: counts requests in flight and the bytes that they hold, and refuses what exceeds
 * the limits with 503 and `Retry-After`. [D2] `overload.ts` decides; health checks and the admin API bypass admission
 * control.
 *
 * ADMISSION-1  A request counts until both its work and its answer have ended, even if the caller disconnects earlier.
 * ADMISSION-2  Bytes count when they arrive, not when `Content-Length` announces them, so announcing a large body takes
 *     no room from others.
 * ADMISSION-3  Lists and large objects are held in memory as a whole, so at most `listsMax` of them are read at a time,
 *     with partners taking turns, also when a push changes the object or a command looks its EVSE up. Large bodies have turns of their own, likewise.
 * ADMISSION-4  A partner holds at most a quarter of the room for bodies, answers and reads in progress; room for a read
 *     is reserved before it. This limit never refuses a partner's only request, however small the room. What others hold
 *     refuses nothing of a partner that holds nothing while that leaves a tenth of the room free. A tenth of the
 *     room is reserved for requests that a driver waits for, except that answers of up to 64 KiB count only after they
 *     are read.
 * ADMISSION-5  While a request that a driver waits for is in flight, at most `pushesMax` pushes begin their work in one
 *     turn of the event loop, in order of arrival but for large bodies: each step of that request waits for one turn.
 *     Likewise, while one of another partner is in flight, at most `ofPartnerMax` requests of a partner that a driver waits
 *     for begin in a turn: a thousand at once would take it for a quarter of a second, and again when all of them time out.
 * ADMISSION-6  A large body is parsed, and then checked, and a large object is read, each in a turn of the event loop that is far from those of
 *     other large texts (PER-TURN-2); partners take turns. What a driver waits for is read at once.
 * ADMISSION-7  Forwarding lag delays and refuses requests of the partners whose own deliveries wait: what one pushes to many
 *     receivers is no load of another one, whose deliveries take turns with those.
 */
import type { PartyId } from '../domain/party.ts';
import type { Urgency } from './overload.ts';
import { Room, type RoomOptions } from './room.ts';

/** One admitted request. */
export interface Pass {
  /** Back-pressure: milliseconds to wait before the body is read. */
  readonly pauseMs: number;
  /** Counts body bytes that are now in memory. False: no room, and the caller must drop the body read so far. */
  hold(bytes: number): boolean;
  /**
   * Reserves room for a large read until the answer has ended, and waits for a read slot, which it keeps until the work
   * has ended. Of several reads the largest counts: work that is repeated reads the same object again. Rejects with
   * `unavailable` when there is no room.
   */
  reserve(bytes: number): Promise<void>;
  /** Like `reserve`, but the room and the slot are free again when `read` has ended: the request goes on without its text. */
  reading<T>(bytes: number, read: () => Promise<T>): Promise<T>;
  /** Counts the bytes of the answer until it has been sent. */
  answer(bytes: number): void;
  /** Call when the answer has been sent or the caller has disconnected. */
  closed(): void;
  /** Runs the request's work; a list first waits for a read slot. */
  work<T>(run: () => T | Promise<T>): Promise<T>;
  /** When the body may be checked, which the work has parsed; null: now, because it is small. [ADMISSION-6] */
  checkTurn(): Promise<void> | null;
}

export interface Admission extends Pick<Room, 'shares' | 'partners'> {
  /** Admits a request; refuses with `unavailable`. */
  take(partner: PartyId, urgency: Urgency): Pass;
}

/** A larger body is parsed and checked in turns of its own, bytes: each takes longer than all else of a turn. [ADMISSION-6] */
const largeBody = 65_536;

export function admission(options: RoomOptions): Admission {
  const room = new Room(options);
  return {
    take: (partner, urgency) => new AdmittedRequest(room, partner, urgency),
    shares: () => room.shares(),
    partners: () => room.partners(),
  };
}

class AdmittedRequest implements Pass {
  readonly pauseMs: number;
  readonly #room: Room;
  readonly #partner: PartyId;
  readonly #urgency: Urgency;
  /** Bytes that it holds, and of those what is reserved for reads. */
  #own = 0;
  #reserved = 0;
  /** Its read slot: one, however many reads it makes. */
  #readTurn: Promise<() => void> | null = null;
  #isWorking = false;
  #isClosed = false;
  #isCounted = true;

  constructor(room: Room, partner: PartyId, urgency: Urgency) {
    this.#room = room;
    this.#partner = partner;
    this.#urgency = urgency;
    this.pauseMs = room.enter(partner, urgency);
  }

  readonly hold = (bytes: number): boolean => {
    const isRefused = this.#isTooMuch(bytes);
    if (isRefused) this.#room.shed(this.#urgency, 'bytes');
    this.#keep(isRefused ? -this.#own : bytes);
    return !isRefused;
  };

  async reserve(bytes: number): Promise<void> {
    const more = Math.max(0, bytes - this.#reserved);
    if (this.#isTooMuch(more)) throw this.#room.refuse(this.#urgency);
    this.#reserved += more;
    this.#keep(more);
    // What a driver waits for goes at once, and nothing that waits for its turn keeps a slot.
    if (this.#urgency !== 'driver') await this.#room.largeTurn(this.#partner);
    await this.#takeReadTurn();
  }

  async reading<T>(bytes: number, read: () => Promise<T>): Promise<T> {
    const before = this.#reserved;
    await this.reserve(bytes);
    try {
      return await read();
    } finally {
      this.#keep(before - this.#reserved);
      this.#reserved = before;
      this.#endReadTurn();
    }
  }

  answer(bytes: number): void {
    // The caller has disconnected, so no `close` would release these bytes. [ADMISSION-1]
    if (this.#isClosed) return;
    // An answer that is a slice of the text read keeps the whole text in memory, so the reservation stays.
    this.#keep(Math.max(0, bytes - this.#reserved));
  }

  readonly closed = (): void => {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#leave();
  };

  async work<T>(run: () => T | Promise<T>): Promise<T> {
    this.#isWorking = true;
    let endOfTurn = () => {};
    /** `run` has parsed the body when it returns, so the turn ends before the work does. */
    const begin = () => {
      try {
        return run();
      } finally {
        endOfTurn();
      }
    };
    try {
      const begun = this.#room.begins(this.#urgency, this.#partner);
      if (begun !== null) await begun;
      if (this.#own > largeBody) {
        endOfTurn = await this.#room.bodyTurn(this.#partner);
        await this.#room.largeTurn(this.#partner);
      }
      if (this.#urgency !== 'list') return await begin();
      await this.#takeReadTurn();
      return await this.#room.readPage(this.#partner, this.#own, begin);
    } finally {
      this.#isWorking = false;
      this.#endReadTurn();
      this.#leave();
    }
  }

  checkTurn(): Promise<void> | null {
    return this.#own > largeBody ? this.#room.largeTurn(this.#partner) : null;
  }

  #isTooMuch(bytes: number): boolean {
    return this.#room.isTooMuch(this.#partner, this.#urgency, this.#own, bytes);
  }

  #keep(bytes: number): void {
    this.#own += bytes;
    this.#room.keep(this.#partner, bytes);
  }

  async #takeReadTurn(): Promise<void> {
    this.#readTurn ??= this.#room.readTurn(this.#partner);
    await this.#readTurn;
  }

  #endReadTurn(): void {
    void this.#readTurn?.then((end) => end());
    this.#readTurn = null;
  }

  /** Work may begin after the caller has disconnected; then this runs a second time. */
  #leave(): void {
    if (!this.#isClosed || this.#isWorking) return;
    this.#keep(-this.#own);
    if (this.#isCounted) this.#room.leave(this.#partner, this.#urgency);
    this.#isCounted = false;
  }
}
