/**
 * Whether a request is taken, made to wait a moment, or refused, by how full the hub is. Pure: figures go in, a verdict comes out.
 *
 * OVERLOAD-1  Who can best try again later is refused first: lists, then pushes (they are made to wait before), and last what a driver
 *     waits for.
 * OVERLOAD-2  Only the hub's own straits count. That a receiver is slow or down shows in none of these figures: what it is owed waits on
 *     the disk.
 * OVERLOAD-3  Accepting gives way to forwarding: a push waits a part of the time by which forwarding is behind, so that both settle at the
 *     pace that the hub can keep.
 * OVERLOAD-4  One partner gets at most a part of the room, so that it cannot take the others' with it.
 */

/** `driver`: a person waits for it (authorize, commands and their results). `list`: it can be had later as well. */
export type Urgency = 'driver' | 'push' | 'list';

/** How full the hub is. */
export interface Load {
  /** Requests that were taken and have not ended. */
  readonly requests: number;
  /** Of those, the ones of the partner that asks. */
  readonly ofPartner: number;
  /** Bytes of their bodies and answers that are held in memory. */
  readonly bytes: number;
  /** What was in use of the heap after it was last swept, as a part of its limit. */
  readonly heap: number;
  /** How late the event loop has been of late, milliseconds. It is late for everybody, deliveries and health included. */
  readonly loopDelayMs: number;
  /** How long deliveries wait that only the hub's own lack of time keeps back, milliseconds. */
  readonly forwardingMs: number;
}

export type Signal = keyof Load;

/** From where on a figure counts, and where it is full. */
export type Scales = Readonly<Record<Signal, { readonly from: number; readonly to: number }>>;

export type Verdict =
  | { readonly kind: 'take'; readonly pauseMs: number }
  | { readonly kind: 'shed'; readonly signal: Signal; readonly retryAfterS: number };

interface Rule {
  /** How full the hub may be, 0…1, before it is made to wait; absent: never. */
  readonly pausedFrom?: number;
  /** How full the hub may be before it is refused. */
  readonly shedFrom: number;
  readonly retryAfterS: number;
}

/** [OVERLOAD-1] */
const rules: Readonly<Record<Urgency, Rule>> = {
  list: { shedFrom: 0.5, retryAfterS: 5 },
  push: { pausedFrom: 0.5, shedFrom: 0.8, retryAfterS: 2 },
  driver: { shedFrom: 1, retryAfterS: 1 },
};

/** Long enough for a few commits and deliveries to end, short enough to go unnoticed in a push. */
const pauseMs = 250;

const giveWayShare = 4;
const giveWayMsMin = 5;
const giveWayMsMax = 1_000;

export const requestsMax = 2048;
/** Of them for one partner. [OVERLOAD-4] */
const ofPartnerMax = requestsMax / 2;

/** `bytesMax` follows the memory that the process was given. */
export function scalesFor(bytesMax: number): Scales {
  return {
    requests: { from: 0, to: requestsMax },
    ofPartner: { from: 0, to: ofPartnerMax },
    bytes: { from: 0, to: bytesMax },
    // A heap in good use is half full; behind 95 % the process ends.
    heap: { from: 0.7, to: 0.95 },
    loopDelayMs: { from: 50, to: 1000 },
    forwardingMs: { from: 0, to: 20_000 },
  };
}

const signals = [
  'requests',
  'ofPartner',
  'bytes',
  'heap',
  'loopDelayMs',
  'forwardingMs',
] as const satisfies readonly Signal[];

/** The fullest of the figures, 0 = no matter, 1 = full. */
function fullest(load: Load, scales: Scales): { readonly signal: Signal; readonly share: number } {
  let most: Signal = 'requests';
  let share = 0;
  for (const signal of signals) {
    const its = shareOf(load, scales, signal);
    if (its > share) [most, share] = [signal, its];
  }
  return { signal: most, share };
}

export function shareOf(load: Load, scales: Scales, signal: Signal): number {
  const { from, to } = scales[signal];
  return Math.max(0, (load[signal] - from) / (to - from));
}

/** [OVERLOAD-3] */
function giveWayMs({ forwardingMs }: Load): number {
  const waitMs = Math.min(forwardingMs / giveWayShare, giveWayMsMax);
  return waitMs < giveWayMsMin ? 0 : waitMs;
}

export function judge(urgency: Urgency, load: Load, scales: Scales): Verdict {
  const { pausedFrom, shedFrom, retryAfterS } = rules[urgency];
  // A driver waits for no delivery.
  const { signal, share } = fullest(urgency === 'driver' ? { ...load, forwardingMs: 0 } : load, scales);
  if (share >= shedFrom) return { kind: 'shed', signal, retryAfterS };
  if (pausedFrom === undefined) return { kind: 'take', pauseMs: 0 };
  return { kind: 'take', pauseMs: Math.max(share >= pausedFrom ? pauseMs : 0, giveWayMs(load)) };
}
