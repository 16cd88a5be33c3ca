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
 * ADMISSION-6  A large body is parsed in pieces (TURNS-5), and then checked, and a large object is read, and then changed, each in a turn of the event loop that is far from those of
 *     other large texts (TURNS-2); partners take turns. What a driver waits for is read at once.
 * ADMISSION-7  Forwarding lag delays and refuses requests of the partners whose own deliveries wait: what one pushes to many
 *     receivers is no load of another one, whose deliveries take turns with those.
 */
import { HubError } from '../domain/errors.ts';
import type { PartyId } from '../domain/party.ts';
import type { ChangeTurn } from '../hub/ports/hub.ts';
import { addTo } from '../kit/memo.ts';
import { nextTurn } from '../kit/system-clock.ts';
import { inTurns, largeTurn, perTurn, turnstile } from '../kit/turns.ts';
import { judge, type Load, type Scales, type Signal, scalesFor, shareOf, type Urgency } from './overload.ts';
import type { Pass } from './passage.ts';

export interface Admission extends Pick<Room, 'shares' | 'partners'> {
  /** Admits a request; refuses with `unavailable`. */
  take(partner: PartyId, urgency: Urgency): Pass;
}

/** Load measured on the process rather than counted here. */
type Felt = Pick<Load, 'heap' | 'loopDelayMs' | 'forwardingMs'>;

interface RoomOptions {
  readonly felt: () => Felt;
  /** Forwarding lag of what a partner has pushed, ms. Absent: that of the hub. */
  readonly forwardingOfMs?: (partner: PartyId) => number;
  /** Bytes of bodies and answers that may be held in memory. */
  readonly bytesMax: number;
  /** Size limit of a list page, characters, reserved while the page is read. Absent: nothing is reserved. */
  readonly pageMax?: number;
  /** Called for each refusal. */
  readonly shed: (urgency: Urgency, signal: Signal) => void;
  /** Resolves in the next turn of the event loop. */
  readonly turnOf?: () => Promise<void>;
  /** When a large text of a partner may be parsed or read; null: now. Default: `largeTurn` of the process. */
  readonly large?: typeof largeTurn;
}

/** A larger body is parsed and checked in turns of its own, bytes: each takes longer than all else of a turn. [ADMISSION-6] */
const largeBody = 65_536;
/** Reads of lists and large objects at a time, and large bodies that wait to be parsed; one partner gets half of them. */
const listsMax = 4;
/** Share of the room that is open to pushes and lists; the rest is reserved for requests that a driver waits for. */
const bodiesShare = 0.9;
/** Share of the room that one partner may hold. [ADMISSION-4] */
const partnerShare = 0.25;
const noRoomRetryS = 5;
/** Pushes per turn of the event loop; fewer make smaller group commits, which cost more. [ADMISSION-5] */
const pushesMax = 8;
/** Requests of one partner that a driver waits for, per turn of the event loop. [ADMISSION-5] */
const ofPartnerMax = 32;

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
  /** Ends the turn of its large body. */
  #bodyTurn: (() => void) | null = null;
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

  async reserve(bytes: number): Promise<ChangeTurn> {
    const more = Math.max(0, bytes - this.#reserved);
    if (more > 0 && this.#isTooMuch(more)) throw this.#room.refuse(this.#urgency);
    this.#reserved += more;
    this.#keep(more);
    await this.#largeTurn();
    return (tookMs) => this.#largeTurn(tookMs);
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
    try {
      const begun = this.#room.begins(this.#urgency, this.#partner);
      if (begun !== null) await begun;
      if (this.#own > largeBody) {
        this.#bodyTurn = await this.#room.bodyTurn(this.#partner);
        await this.#room.largeTurn(this.#partner);
      }
      if (this.#urgency !== 'list') return await run();
      await this.#takeReadTurn();
      return await this.#room.readPage(this.#partner, this.#own, run);
    } finally {
      this.#isWorking = false;
      this.#endBodyTurn();
      this.#endReadTurn();
      this.#leave();
    }
  }

  parse<T>(pieces: () => Generator<void, T>): Promise<T> | null {
    return this.#own > largeBody ? this.#parse(pieces()) : null;
  }

  async #parse<T>(pieces: Generator<void, T>): Promise<T> {
    const turn = (tookMs?: number) => this.#room.largeTurn(this.#partner, tookMs);
    const parsed = await inTurns(pieces, turn).finally(() => this.#endBodyTurn());
    await turn();
    return parsed;
  }

  #isTooMuch(bytes: number): boolean {
    return this.#room.isTooMuch(this.#partner, this.#urgency, this.#own, bytes);
  }

  #keep(bytes: number): void {
    this.#own += bytes;
    this.#room.keep(this.#partner, bytes);
  }

  /** What a driver waits for goes at once, and nothing that waits for its turn keeps a slot. */
  async #largeTurn(tookMs?: number): Promise<void> {
    this.#endReadTurn();
    if (this.#urgency !== 'driver') await this.#room.largeTurn(this.#partner, tookMs);
    await this.#takeReadTurn();
  }

  async #takeReadTurn(): Promise<void> {
    this.#readTurn ??= this.#room.readTurn(this.#partner);
    await this.#readTurn;
  }

  #endReadTurn(): void {
    void this.#readTurn?.then((end) => end());
    this.#readTurn = null;
  }

  #endBodyTurn(): void {
    this.#bodyTurn?.();
    this.#bodyTurn = null;
  }

  /** Work may begin after the caller has disconnected; then this runs a second time. */
  #leave(): void {
    if (!this.#isClosed || this.#isWorking) return;
    this.#keep(-this.#own);
    if (this.#isCounted) this.#room.leave(this.#partner, this.#urgency);
    this.#isCounted = false;
  }
}

/** What requests in flight share: how many there are and what they hold, of all partners and of each, and whose turn it is. */
class Room {
  /** A slot for reading lists and large objects. [ADMISSION-3] */
  readonly readTurn = turnstile(listsMax);
  /** A slot for a large body, which has its turn before that of its object. [ADMISSION-3] */
  readonly bodyTurn = turnstile(listsMax);
  readonly shed: RoomOptions['shed'];
  /** [ADMISSION-6] */
  readonly largeTurn: typeof largeTurn;
  readonly #felt: () => Felt;
  readonly #forwardingOfMs: (partner: PartyId) => number;
  readonly #bytesMax: number;
  readonly #pageMax: number;
  readonly #scales: Scales;
  readonly #pushesInTurns: ReturnType<typeof perTurn>;
  readonly #driversInTurns: ReturnType<typeof perTurn>;
  #requests = 0;
  readonly #requestsOf = new Map<PartyId, number>();
  #bytes = 0;
  readonly #bytesOf = new Map<PartyId, number>();
  /** Reserved for pages that are being read. */
  #pages = 0;
  /** Requests that a driver waits for. */
  #drivers = 0;
  readonly #driversOf = new Map<PartyId, number>();

  constructor(options: RoomOptions) {
    const { felt, bytesMax, pageMax = 0, shed, turnOf = nextTurn, large = largeTurn } = options;
    this.#felt = felt;
    this.#forwardingOfMs = options.forwardingOfMs ?? (() => Number.POSITIVE_INFINITY);
    this.#bytesMax = bytesMax;
    this.#pageMax = pageMax;
    this.shed = shed;
    this.largeTurn = large;
    this.#scales = scalesFor(bytesMax);
    this.#pushesInTurns = perTurn({ ofAll: pushesMax }, turnOf);
    this.#driversInTurns = perTurn({ ofOne: ofPartnerMax }, turnOf);
  }

  /** Counts a request that is admitted, and says how long it is to wait, ms; refuses with `unavailable`. */
  enter(partner: PartyId, urgency: Urgency): number {
    const { pauseMs } = this.#judged(urgency, this.#loadOf(urgency, partner));
    this.#count(partner, urgency, 1);
    return pauseMs;
  }

  leave(partner: PartyId, urgency: Urgency): void {
    this.#count(partner, urgency, -1);
  }

  /** When the work of a request may begin; null: now. [ADMISSION-5] */
  begins(urgency: Urgency, partner: PartyId): Promise<void> | null {
    if (urgency === 'push') return this.#pushesInTurns(this.#drivers > 0);
    if (urgency !== 'driver') return null;
    return this.#driversInTurns(this.#drivers > (this.#driversOf.get(partner) ?? 0), partner);
  }

  /** Counts bytes of a partner, which has made room for them. */
  keep(partner: PartyId, bytes: number): void {
    this.#bytes += bytes;
    addTo(this.#bytesOf, partner, bytes);
  }

  /** Whether there is no room for the bytes of a request that holds `own` already. [ADMISSION-4] */
  isTooMuch(partner: PartyId, urgency: Urgency, own: number, bytes: number): boolean {
    const share = urgency === 'driver' ? 1 : bodiesShare;
    const isFull = this.#bytes > own && this.#bytes + bytes > this.#bytesMax * share;
    return isFull || this.#isTooMuchOfPartner(partner, share, own, bytes);
  }

  refuse(urgency: Urgency, signal: Signal = 'bytes', retryAfterS = noRoomRetryS): HubError {
    this.shed(urgency, signal);
    return new HubError('unavailable', { retryAfterS });
  }

  /**
   * Reads a page of a list for a request that holds `own` bytes. Checks the load again, since many lists may have been
   * admitted before the first page reserved room. Reserves `pageMax`, because the size of a page is known only after it
   * was read.
   */
  async readPage<T>(partner: PartyId, own: number, read: () => T | Promise<T>): Promise<T> {
    this.#judged('list', { ...this.#loadOf('list', partner), ofPartner: 0 });
    if (this.#isTooMuchOfPartner(partner, bodiesShare, own, this.#pageMax)) throw this.refuse('list');
    const reserve = (bytes: number) => {
      addTo(this.#bytesOf, partner, bytes);
      this.#pages += bytes;
    };
    reserve(this.#pageMax);
    try {
      return await read();
    } finally {
      reserve(-this.#pageMax);
    }
  }

  /** Load per signal as a share of its scale, 1 = full. */
  shares(): Readonly<Record<Signal, number>> {
    const present = { ...this.#load(), ofPartner: Math.max(0, ...this.#requestsOf.values()) };
    const signals = Object.keys(this.#scales) as Signal[];
    const shares = signals.map((signal) => [signal, shareOf(present, this.#scales, signal)] as const);
    return Object.fromEntries(shares) as Record<Signal, number>;
  }

  /** What partners hold at present, as shares of what one may hold. */
  partners(): Readonly<Record<'requests' | 'bytes', ReadonlyMap<PartyId, number>>> {
    return {
      requests: sharesOf(this.#requestsOf, this.#scales.ofPartner.to),
      bytes: sharesOf(this.#bytesOf, this.#bytesMax * partnerShare),
    };
  }

  #load(): Load {
    const { heap, loopDelayMs, forwardingMs } = this.#felt();
    return { requests: this.#requests, ofPartner: 0, bytes: this.#bytes, heap, loopDelayMs, forwardingMs };
  }

  /** What others hold is no load of a partner that holds nothing, while there is room. [ADMISSION-4] */
  #loadOf(urgency: Urgency, partner: PartyId): Load {
    const page = urgency === 'list' ? this.#pages + this.#pageMax : 0;
    const isAside = !this.#bytesOf.has(partner) && this.#bytes + page < this.#bytesMax * bodiesShare;
    const load = this.#load();
    return {
      ...load,
      forwardingMs: this.#forwardingMs(load, urgency, partner),
      ofPartner: this.#requestsOf.get(partner) ?? 0,
      ...(isAside && { bytes: 0 }),
    };
  }

  /** [ADMISSION-7] */
  #forwardingMs({ forwardingMs }: Load, urgency: Urgency, partner: PartyId): number {
    // It refuses nothing that a driver waits for.
    return forwardingMs === 0 || urgency === 'driver' ? 0 : Math.min(forwardingMs, this.#forwardingOfMs(partner));
  }

  #judged(urgency: Urgency, load: Load) {
    const verdict = judge(urgency, load, this.#scales);
    if (verdict.kind === 'shed') throw this.refuse(urgency, verdict.signal, verdict.retryAfterS);
    return verdict;
  }

  #count(partner: PartyId, urgency: Urgency, more: number): void {
    this.#requests += more;
    addTo(this.#requestsOf, partner, more);
    if (urgency !== 'driver') return;
    this.#drivers += more;
    addTo(this.#driversOf, partner, more);
  }

  #isTooMuchOfPartner(partner: PartyId, share: number, own: number, bytes: number): boolean {
    const ofPartner = this.#bytesOf.get(partner) ?? 0;
    return ofPartner > own && ofPartner + bytes > this.#bytesMax * partnerShare * share;
  }
}

const sharesOf = (counts: ReadonlyMap<PartyId, number>, most: number): ReadonlyMap<PartyId, number> =>
  new Map([...counts].map(([partner, count]) => [partner, count / most]));
