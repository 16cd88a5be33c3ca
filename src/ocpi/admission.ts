/**
 * Admission control of the OCPI door: counts requests in flight and the bytes that they hold, and refuses what exceeds
 * the limits with 503 and `Retry-After`. [D2] `overload.ts` decides; health checks and the admin API bypass admission
 * control.
 *
 * ADMISSION-1  A request counts until both its work and its answer have ended, even if the caller disconnects earlier.
 * ADMISSION-2  Bytes count when they arrive, not when `Content-Length` announces them, so announcing a large body takes
 *     no room from others.
 * ADMISSION-3  Lists and large objects are held in memory as a whole, so at most `listsMax` of them are read at a time,
 *     with partners taking turns, also when a push changes the object. Large bodies have turns of their own, likewise.
 * ADMISSION-4  A partner holds at most a quarter of the room for bodies, answers and reads in progress; room for a read
 *     is reserved before it. This limit never refuses a partner's only request, however small the room. What others hold
 *     refuses nothing of a partner that holds nothing while that leaves a tenth of the room free. A tenth of the
 *     room is reserved for requests that a driver waits for, except that answers of up to 64 KiB count only after they
 *     are read.
 * ADMISSION-5  While a request that a driver waits for is in flight, at most `pushesMax` pushes begin their work in one
 *     turn of the event loop, in order of arrival but for large bodies: each step of that request waits for one turn.
 *     Likewise, while one of another partner is in flight, at most `ofPartnerMax` requests of a partner that a driver waits
 *     for begin in a turn: a thousand at once would take it for a quarter of a second, and again when all of them time out.
 * ADMISSION-6  At most one large body is begun to be parsed, or large object to be read, in `apartTurns` turns of the event
 *     loop: what follows takes the thread for as long as the text is large, and a request that a driver waits for, which
 *     takes as many turns, meets two of them at most.
 */
import { HubError } from '../domain/errors.ts';
import type { PartyId } from '../domain/party.ts';
import { perTurn } from '../kit/per-turn.ts';
import { nextTurn } from '../kit/system-clock.ts';
import { judge, type Load, type Signal, scalesFor, shareOf, type Urgency } from './overload.ts';

/** Load measured on the process rather than counted here. */
export type Felt = Pick<Load, 'heap' | 'loopDelayMs' | 'forwardingMs'>;

export interface AdmissionOptions {
  readonly felt: () => Felt;
  /** Bytes of bodies and answers that may be held in memory. */
  readonly bytesMax: number;
  /** Size limit of a list page, characters, reserved while the page is read. Absent: nothing is reserved. */
  readonly pageMax?: number;
  /** Called for each refusal. */
  readonly shed: (urgency: Urgency, signal: Signal) => void;
  /** Resolves in the next turn of the event loop. */
  readonly turnOf?: () => Promise<void>;
}

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
  /** Counts the bytes of the answer until it has been sent. */
  answer(bytes: number): void;
  /** Call when the answer has been sent or the caller has disconnected. */
  closed(): void;
  /** Runs the request's work; a list first waits for a read slot. */
  work<T>(run: () => T | Promise<T>): Promise<T>;
}

export interface Admission {
  /** Admits a request; refuses with `unavailable`. */
  take(partner: PartyId, urgency: Urgency): Pass;
  /** Load per signal as a share of its scale, 1 = full. */
  shares(): Readonly<Record<Signal, number>>;
  /** What partners hold at present, as shares of what one may hold. */
  partners(): Readonly<Record<'requests' | 'bytes', ReadonlyMap<PartyId, number>>>;
}

/** Reads of lists and large objects at a time, and large bodies that wait to be parsed; one partner gets half of them. */
const listsMax = 4;
/** Share of the room that is open to pushes and lists; the rest is reserved for requests that a driver waits for. */
const bodiesShare = 0.9;
/** Share of the room that one partner may hold. [ADMISSION-4] */
const partnerShare = 0.25;
const noRoomRetryS = 5;
/** A larger body is parsed in a turn of its own, bytes: it takes longer than all else of a turn. [ADMISSION-6] */
const largeBody = 65_536;
/** Turns of the event loop that an authorize takes. [ADMISSION-6] */
const apartTurns = 4;
/** Pushes per turn of the event loop; fewer make smaller group commits, which cost more. [ADMISSION-5] */
const pushesMax = 8;
/** Requests of one partner that a driver waits for, per turn of the event loop. [ADMISSION-5] */
const ofPartnerMax = 32;

export function admission({ felt, bytesMax, pageMax = 0, shed, turnOf = nextTurn }: AdmissionOptions): Admission {
  const scales = scalesFor(bytesMax);
  const requests = new Map<PartyId, number>();
  const bytesOf = new Map<PartyId, number>();
  const turn = turnstile(listsMax);
  /** Of its own: a body has its turn before that of its object, a read within that. */
  const bodyTurn = turnstile(listsMax);
  const inTurns = perTurn(pushesMax, turnOf);
  const largeInTurns = perTurn(1, async () => {
    for (let n = 0; n < apartTurns; n++) await turnOf();
  });
  /** Requests in flight that a driver waits for, of all partners and of each. */
  let drivers = 0;
  const driversOf = new Map<PartyId, number>();
  /** Of partners that had more than `ofPartnerMax` of them at once. */
  const turnsOf = new Map<PartyId, ReturnType<typeof perTurn>>();
  let total = 0;
  let held = 0;
  /** Reserved for pages that are being read. */
  let reading = 0;
  const load = (): Load => {
    const { heap, loopDelayMs, forwardingMs } = felt();
    return { requests: total, ofPartner: 0, bytes: held, heap, loopDelayMs, forwardingMs };
  };
  /** What others hold is no load of a partner that holds nothing, while there is room. [ADMISSION-4] */
  const loadOf = (urgency: Urgency, partner: PartyId): Load => {
    const page = urgency === 'list' ? reading + pageMax : 0;
    const isAside = !bytesOf.has(partner) && held + page < bytesMax * bodiesShare;
    return { ...load(), ofPartner: requests.get(partner) ?? 0, ...(isAside && { bytes: 0 }) };
  };
  const count = (partner: PartyId, more: number) => {
    total += more;
    add(requests, partner, more);
  };
  const countDriver = (partner: PartyId, more: number) => {
    drivers += more;
    add(driversOf, partner, more);
    if (!driversOf.has(partner)) turnsOf.delete(partner);
  };
  /** [ADMISSION-5] */
  const inTurnsOf = (partner: PartyId): Promise<void> | null => {
    const own = driversOf.get(partner) ?? 0;
    if (own <= ofPartnerMax && !turnsOf.has(partner)) return null;
    const known = turnsOf.get(partner) ?? perTurn(ofPartnerMax, turnOf);
    turnsOf.set(partner, known);
    return known(drivers > own);
  };
  const begins = (urgency: Urgency, partner: PartyId): Promise<void> | null => {
    if (urgency === 'push') return inTurns(drivers > 0);
    return urgency === 'driver' ? inTurnsOf(partner) : null;
  };
  const refuse = (urgency: Urgency, signal: Signal, retryAfterS: number): HubError => {
    shed(urgency, signal);
    return new HubError('unavailable', { retryAfterS });
  };

  const judged = (urgency: Urgency, load: Load) => {
    const verdict = judge(urgency, load, scales);
    if (verdict.kind === 'shed') throw refuse(urgency, verdict.signal, verdict.retryAfterS);
    return verdict;
  };

  function take(partner: PartyId, urgency: Urgency): Pass {
    const { pauseMs } = judged(urgency, loadOf(urgency, partner));
    count(partner, 1);
    if (urgency === 'driver') countDriver(partner, 1);
    let own = 0;
    let isClosed = false;
    let isWorking = false;
    let reserved = 0;
    let ownTurn: Promise<() => void> | null = null;
    let isCounted = true;
    const keep = (bytes: number) => {
      held += bytes;
      own += bytes;
      add(bytesOf, partner, bytes);
    };
    const share = urgency === 'driver' ? 1 : bodiesShare;
    /** [ADMISSION-4] */
    const isTooMuchOfPartner = (bytes: number) => {
      const ofPartner = bytesOf.get(partner) ?? 0;
      return ofPartner > own && ofPartner + bytes > bytesMax * partnerShare * share;
    };
    const isTooMuch = (bytes: number) => (held > own && held + bytes > bytesMax * share) || isTooMuchOfPartner(bytes);
    /**
     * Checks the load again, since many lists may have been admitted before the first page reserved room. Reserves
     * `pageMax`, because the size of a page is known only after it was read.
     */
    const readingPage = async <T>(run: () => T | Promise<T>): Promise<T> => {
      judged('list', { ...loadOf('list', partner), ofPartner: 0 });
      if (isTooMuchOfPartner(pageMax)) throw refuse('list', 'bytes', noRoomRetryS);
      add(bytesOf, partner, pageMax);
      reading += pageMax;
      try {
        return await run();
      } finally {
        add(bytesOf, partner, -pageMax);
        reading -= pageMax;
      }
    };
    /** A request takes one read slot, however many reads it makes. */
    const takeTurn = async () => {
      ownTurn ??= turn(partner);
      await ownTurn;
    };
    const leave = () => {
      if (!isClosed || isWorking) return;
      keep(-own);
      // Work may begin after the caller has disconnected; then `leave` runs a second time.
      if (isCounted) count(partner, -1);
      if (isCounted && urgency === 'driver') countDriver(partner, -1);
      isCounted = false;
    };
    return {
      pauseMs,
      hold(bytes) {
        const isRefused = isTooMuch(bytes);
        if (isRefused) shed(urgency, 'bytes');
        keep(isRefused ? -own : bytes);
        return !isRefused;
      },
      async reserve(bytes) {
        const more = Math.max(0, bytes - reserved);
        if (isTooMuch(more)) throw refuse(urgency, 'bytes', noRoomRetryS);
        reserved += more;
        keep(more);
        await takeTurn();
        await largeInTurns(true);
      },
      answer(bytes) {
        // The caller has disconnected, so no `close` would release these bytes. [ADMISSION-1]
        if (isClosed) return;
        // An answer that is a slice of the text read keeps the whole text in memory, so the reservation stays.
        keep(Math.max(0, bytes - reserved));
      },
      closed() {
        if (isClosed) return;
        isClosed = true;
        leave();
      },
      async work(run) {
        isWorking = true;
        let endOfTurn = () => {};
        /** `run` has parsed and checked the body when it returns, so the turn ends before the work does. */
        const begin = () => {
          try {
            return run();
          } finally {
            endOfTurn();
          }
        };
        try {
          const begun = begins(urgency, partner);
          if (begun !== null) await begun;
          if (own > largeBody) {
            endOfTurn = await bodyTurn(partner);
            await largeInTurns(true);
          }
          if (urgency !== 'list') return await begin();
          await takeTurn();
          return await readingPage(begin);
        } finally {
          isWorking = false;
          void ownTurn?.then((end) => end());
          leave();
        }
      },
    };
  }

  function shares(): Record<Signal, number> {
    const present = { ...load(), ofPartner: Math.max(0, ...requests.values()) };
    const signals = Object.keys(scales) as Signal[];
    return Object.fromEntries(signals.map((signal) => [signal, shareOf(present, scales, signal)])) as Record<
      Signal,
      number
    >;
  }

  const partners = () => ({
    requests: sharesOf(requests, scales.ofPartner.to),
    bytes: sharesOf(bytesOf, bytesMax * partnerShare),
  });

  return { take, shares, partners };
}

const sharesOf = (counts: ReadonlyMap<PartyId, number>, most: number): ReadonlyMap<PartyId, number> =>
  new Map([...counts].map(([partner, count]) => [partner, count / most]));

/** Adds to a partner's count and drops the entry at 0, so the map stays small. */
function add(counts: Map<PartyId, number>, partner: PartyId, more: number): void {
  const now = (counts.get(partner) ?? 0) + more;
  if (now === 0) counts.delete(partner);
  else counts.set(partner, now);
}

/**
 * A semaphore with `most` slots, of which one partner may use half. Waiters of one partner are served first in, first
 * out, and partners round-robin. The promise resolves to the function that releases the slot.
 */
function turnstile(most: number): (partner: PartyId) => Promise<() => void> {
  const waiting = new Map<PartyId, (() => void)[]>();
  const runningOf = new Map<PartyId, number>();
  let running = 0;
  const isFree = (partner: PartyId) => running < most && (runningOf.get(partner) ?? 0) < most / 2;
  const begin = (partner: PartyId, more: number) => {
    running += more;
    add(runningOf, partner, more);
  };
  const next = () => {
    for (const [partner, [first, ...rest]] of waiting) {
      if (!isFree(partner)) continue;
      waiting.delete(partner);
      if (rest.length > 0) waiting.set(partner, rest);
      begin(partner, 1);
      first?.();
      return;
    }
  };
  return async (partner) => {
    if (isFree(partner)) begin(partner, 1);
    else await new Promise<void>((go) => waiting.set(partner, [...(waiting.get(partner) ?? []), go]));
    return () => {
      begin(partner, -1);
      next();
    };
  };
}
