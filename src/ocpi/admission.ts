/**
 * Counts what the hub has taken on and refuses what would be too much, with 503 and `Retry-After`. [D2] What decides stands in
 * `overload.ts`; health and the operators' door are never asked.
 *
 * A1  What was taken is counted until its work and its answer have both ended, also when the caller goes away meanwhile.
 * A2  Bytes count as they arrive, not as they are announced: to announce much costs the hub nothing and the others no room.
 * A3  Lists are read a few at a time, whoever asks for how many at once: a page is held in memory as a whole.
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
  /** Told of each refusal. */
  readonly shed: (urgency: Urgency, signal: Signal) => void;
}

/** One request that was taken. */
export interface Pass {
  /** Milliseconds that it has to wait before its body is read. */
  readonly pauseMs: number;
  /** More of its body is in memory. False: that is too much now, and what came of it is to be let go. */
  hold(bytes: number): boolean;
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

export function admission({ felt, bytesMax, shed }: AdmissionOptions): Admission {
  const scales = scalesFor(bytesMax);
  const requests = new Map<PartyId, number>();
  const inTurn = turnstile(listsMax);
  let total = 0;
  let held = 0;
  const loadOf = (partner: PartyId): Load => {
    const { heap, loopDelayMs, forwardingMs } = felt();
    const ofPartner = requests.get(partner) ?? 0;
    return { requests: total, ofPartner, bytes: held, heap, loopDelayMs, forwardingMs };
  };
  const count = (partner: PartyId, more: number) => {
    total += more;
    const now = (requests.get(partner) ?? 0) + more;
    if (now === 0) requests.delete(partner);
    else requests.set(partner, now);
  };
  const refuse = (urgency: Urgency, signal: Signal, retryAfterS: number): HubError => {
    shed(urgency, signal);
    return new HubError('unavailable', { retryAfterS });
  };

  function take(partner: PartyId, urgency: Urgency): Pass {
    const verdict = judge(urgency, loadOf(partner), scales);
    if (verdict.kind === 'shed') throw refuse(urgency, verdict.signal, verdict.retryAfterS);
    count(partner, 1);
    let own = 0;
    let isClosed = false;
    let isWorking = false;
    let isCounted = true;
    const leave = () => {
      if (!isClosed || isWorking) return;
      held -= own;
      own = 0;
      // Work may begin for a caller that has gone, and ends a second time then.
      if (isCounted) count(partner, -1);
      isCounted = false;
    };
    return {
      pauseMs: verdict.pauseMs,
      hold(bytes) {
        // A body is always taken when it is the only one, however small the room.
        const isTooMuch = held > own && held + bytes > (urgency === 'driver' ? bytesMax : bytesMax * bodiesShare);
        if (isTooMuch) shed(urgency, 'bytes');
        const more = isTooMuch ? -own : bytes;
        held += more;
        own += more;
        return !isTooMuch;
      },
      answer(bytes) {
        held += bytes;
        own += bytes;
      },
      closed() {
        if (isClosed) return;
        isClosed = true;
        leave();
      },
      async work(run) {
        isWorking = true;
        try {
          return await (urgency === 'list' ? inTurn(readWhileRoom(run)) : run());
        } finally {
          isWorking = false;
          leave();
        }
      },
    };
  }

  /** Many lists may have been taken before the first of their pages took its room. */
  function readWhileRoom<T>(run: () => T | Promise<T>): () => Promise<T> {
    return async () => {
      const verdict = judge('list', loadOf(''), scales);
      if (verdict.kind === 'shed') throw refuse('list', verdict.signal, verdict.retryAfterS);
      return run();
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

/** Lets so many run at once; the others wait in order. */
function turnstile(most: number) {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async <T>(run: () => Promise<T>): Promise<T> => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await run();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  };
}
