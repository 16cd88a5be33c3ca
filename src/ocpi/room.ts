/**
 * The room that requests in flight share: how many there are and what they hold, of all partners and of each, and whose
 * turn it is. Its rules are those of `admission.ts`.
 */
import { HubError } from '../domain/errors.ts';
import type { PartyId } from '../domain/party.ts';
import { largeTurn, perTurn } from '../kit/per-turn.ts';
import { nextTurn } from '../kit/system-clock.ts';
import { addTo, turnstile } from '../kit/turnstile.ts';
import { judge, type Load, type Scales, type Signal, scalesFor, shareOf, type Urgency } from './overload.ts';

/** Load measured on the process rather than counted here. */
export type Felt = Pick<Load, 'heap' | 'loopDelayMs' | 'forwardingMs'>;

export interface RoomOptions {
  /** Another object whenever it was measured. */
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

export class Room {
  /** A slot for reading lists and large objects. [ADMISSION-3] */
  readonly readTurn = turnstile(listsMax);
  /** A slot for a large body, which has its turn before that of its object. [ADMISSION-3] */
  readonly bodyTurn = turnstile(listsMax);
  readonly shed: RoomOptions['shed'];
  /** [ADMISSION-6] */
  readonly largeTurn: typeof largeTurn;
  readonly #felt: () => Felt;
  readonly #forwardingOfMs: (partner: PartyId) => number;
  /** By partner, since the hub was last felt. [ADMISSION-7] */
  #lags: { readonly asOf: Felt; readonly ms: Map<PartyId, number> } | null = null;
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
    return {
      ...this.#load(),
      forwardingMs: this.#forwardingMs(partner),
      ofPartner: this.#requestsOf.get(partner) ?? 0,
      ...(isAside && { bytes: 0 }),
    };
  }

  /** [ADMISSION-7] */
  #forwardingMs(partner: PartyId): number {
    const felt = this.#felt();
    if (felt.forwardingMs === 0) return 0;
    if (this.#lags?.asOf !== felt) this.#lags = { asOf: felt, ms: new Map() };
    const { ms } = this.#lags;
    const own = ms.get(partner) ?? this.#forwardingOfMs(partner);
    ms.set(partner, own);
    return Math.min(felt.forwardingMs, own);
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
