/**
 * Counts what the hub has taken on and refuses what would be too much, with 503 and `Retry-After`. [D2] What decides stands in
 * `overload.ts`; health and the operators' door are never asked.
 *
 * ADMISSION-1  What was taken is counted until its work and its answer have both ended, also when the caller goes away meanwhile.
 * ADMISSION-2  Bytes count as they arrive, not as they are announced: to announce much costs the hub nothing and the others no room.
 * ADMISSION-3  Lists and large objects are read a few at a time, however many are asked for at once, and partners take turns: what is read is
 *     held in memory as a whole.
 * ADMISSION-4  Nobody holds more than a quarter of the room: bodies, answers, and what is about to be read, whose room is taken before. One
 *     request of a partner is always taken, however small the room. A tenth is kept for what a driver waits for, but for answers of up to
 *     64 KiB, which are counted only once they are read.
 */
import { HubError } from '../domain/errors.ts';
import type { PartyId } from '../domain/party.ts';
import { judge, type Load, type Signal, scalesFor, shareOf, type Urgency } from './overload.ts';

/** What the process itself feels. */
export type Felt = Pick<Load, 'heap' | 'loopDelayMs' | 'forwardingMs'>;

export interface AdmissionOptions {
  readonly felt: () => Felt;
  /** Bytes of bodies and answers that may be held in memory. */
  readonly bytesMax: number;
  /** Characters that a page of a list may have; none is reserved when absent. */
  readonly pageMax?: number;
  /** Hears of each refusal. */
  readonly shed: (urgency: Urgency, signal: Signal) => void;
}

/** One request that was taken. */
export interface Pass {
  /** Milliseconds that it has to wait before its body is read. */
  readonly pauseMs: number;
  /** More of its body is in memory. False: that is too much now, and what came of it is to be dropped. */
  hold(bytes: number): boolean;
  /** Takes room for what is about to be read, until its answer has ended, and a turn, until its work has; rejects with `unavailable`. */
  reserve(bytes: number): Promise<void>;
  /** Its answer is in memory until it was sent. */
  answer(bytes: number): void;
  /** Its answer has ended, or nobody waits for it. */
  closed(): void;
  /** Runs its work; a list takes its turn. */
  work<T>(run: () => T | Promise<T>): Promise<T>;
}

export interface Admission {
  /** Refuses with `unavailable`. */
  take(partner: PartyId, urgency: Urgency): Pass;
  /** How full each figure is, 1 = full. */
  shares(): Readonly<Record<Signal, number>>;
}

const listsMax = 4;
/** The rest of the room for bodies is kept for what a driver waits for. */
const bodiesShare = 0.9;
/** Of the room, for one partner. [ADMISSION-4] */
const partnerShare = 0.25;
const noRoomRetryS = 5;

export function admission({ felt, bytesMax, pageMax = 0, shed }: AdmissionOptions): Admission {
  const scales = scalesFor(bytesMax);
  const requests = new Map<PartyId, number>();
  const bytesOf = new Map<PartyId, number>();
  const turn = turnstile(listsMax);
  let total = 0;
  let held = 0;
  const loadOf = (partner: PartyId): Load => {
    const { heap, loopDelayMs, forwardingMs } = felt();
    const ofPartner = requests.get(partner) ?? 0;
    return { requests: total, ofPartner, bytes: held, heap, loopDelayMs, forwardingMs };
  };
  const count = (partner: PartyId, more: number) => {
    total += more;
    add(requests, partner, more);
  };
  const refuse = (urgency: Urgency, signal: Signal, retryAfterS: number): HubError => {
    shed(urgency, signal);
    return new HubError('unavailable', { retryAfterS });
  };

  const judged = (urgency: Urgency, partner: PartyId) => {
    const verdict = judge(urgency, loadOf(partner), scales);
    if (verdict.kind === 'shed') throw refuse(urgency, verdict.signal, verdict.retryAfterS);
    return verdict;
  };

  function take(partner: PartyId, urgency: Urgency): Pass {
    const { pauseMs } = judged(urgency, partner);
    count(partner, 1);
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
    /** Many lists may have been taken before the first of their pages took its room. How long a page is shows when it was read. */
    const readingPage = async <T>(run: () => T | Promise<T>): Promise<T> => {
      judged('list', '');
      if (isTooMuchOfPartner(pageMax)) throw refuse('list', 'bytes', noRoomRetryS);
      add(bytesOf, partner, pageMax);
      try {
        return await run();
      } finally {
        add(bytesOf, partner, -pageMax);
      }
    };
    /** One for all that a request reads. */
    const takeTurn = async () => {
      ownTurn ??= turn(partner);
      await ownTurn;
    };
    const leave = () => {
      if (!isClosed || isWorking) return;
      keep(-own);
      // Work may begin for a caller that has gone, and ends a second time then.
      if (isCounted) count(partner, -1);
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
        if (isTooMuch(bytes)) throw refuse(urgency, 'bytes', noRoomRetryS);
        reserved += bytes;
        keep(bytes);
        await takeTurn();
      },
      answer(bytes) {
        // Nobody waits for it any more, and nothing would tell of its end. [ADMISSION-1]
        if (isClosed) return;
        // A part of what was read keeps the whole in memory.
        keep(Math.max(0, bytes - reserved));
      },
      closed() {
        if (isClosed) return;
        isClosed = true;
        leave();
      },
      async work(run) {
        isWorking = true;
        try {
          if (urgency !== 'list') return await run();
          await takeTurn();
          return await readingPage(run);
        } finally {
          isWorking = false;
          void ownTurn?.then((end) => end());
          leave();
        }
      },
    };
  }

  function shares(): Record<Signal, number> {
    const load = { ...loadOf(''), ofPartner: Math.max(0, ...requests.values()) };
    const signals = Object.keys(scales) as Signal[];
    return Object.fromEntries(signals.map((signal) => [signal, shareOf(load, scales, signal)])) as Record<
      Signal,
      number
    >;
  }

  return { take, shares };
}

/** Keeps no entry for a partner that has none left. */
function add(counts: Map<PartyId, number>, partner: PartyId, more: number): void {
  const now = (counts.get(partner) ?? 0) + more;
  if (now === 0) counts.delete(partner);
  else counts.set(partner, now);
}

/**
 * Lets so many run at once, and half as many of one partner; the others wait, a partner's in order and the partners by turns. Gives what
 * ends a turn.
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
