/**
 * Load shedding: decides from the load whether a request is admitted, delayed or refused. Pure: figures in, verdict
 * out.
 *
 * OVERLOAD-1  Requests that can best be retried later are refused first: lists, then pushes (which are delayed before),
 *     and last those that a driver waits for.
 * OVERLOAD-2  Only the hub's own load counts. A slow or dead receiver affects none of these figures: its backlog is on
 *     disk.
 * OVERLOAD-3  Back-pressure: a push waits for a fraction of the forwarding lag, so that ingest and forwarding settle at
 *     a rate that the hub can sustain.
 * OVERLOAD-4  One partner has at most a quarter of the requests in flight, which delays and refuses nothing of others.
 */

/** `driver`: a person waits for it (authorize, commands and their results). `list`: the caller can retry later. */
export type Urgency = 'driver' | 'push' | 'list';

export interface Load {
  readonly requests: number;
  /** Requests in flight of the partner that calls. */
  readonly ofPartner: number;
  /** Bytes of request bodies and answers held in memory. */
  readonly bytes: number;
  /** Heap in use after the last full garbage collection, as a share of its limit. */
  readonly heap: number;
  /** Moving average of the event-loop delay, ms. It delays everything, deliveries and health checks included. */
  readonly loopDelayMs: number;
  /** Forwarding lag, ms: how long ready deliveries, of the partner that calls, wait only because the hub has no time for them. [ADMISSION-7] */
  readonly forwardingMs: number;
}

export type Signal = keyof Load;

/** Per signal, the value at which it starts to count (share 0) and the value at which it is full (share 1). */
export type Scales = Readonly<Record<Signal, { readonly from: number; readonly to: number }>>;

export type Verdict =
  | { readonly kind: 'take'; readonly pauseMs: number }
  | { readonly kind: 'shed'; readonly signal: Signal; readonly retryAfterS: number };

interface Rule {
  /** Load share, 0…1, from which a request is delayed; absent: never. */
  readonly pausedFrom?: number;
  /** Load share from which a request is refused. */
  readonly shedFrom: number;
  readonly retryAfterS: number;
}

/** [OVERLOAD-1] */
const rules: Readonly<Record<Urgency, Rule>> = {
  list: { shedFrom: 0.5, retryAfterS: 5 },
  push: { pausedFrom: 0.5, shedFrom: 0.8, retryAfterS: 2 },
  driver: { shedFrom: 1, retryAfterS: 1 },
};

/**
 * Delay of a push under load: long enough for a few commits and deliveries to end, too short to matter to the partner.
 */
const pauseMs = 250;

/**
 * A push waits for the forwarding lag divided by this, at most `giveWayMsMax`; waits below `giveWayMsMin` are skipped.
 * [OVERLOAD-3]
 */
const giveWayShare = 4;
const giveWayMsMin = 5;
const giveWayMsMax = 1_000;

export const requestsMax = 2048;
/** Requests in flight of one partner. [OVERLOAD-4] */
const ofPartnerMax = requestsMax / 4;

/** `bytesMax` depends on the memory of the process. */
export function scalesFor(bytesMax: number): Scales {
  return {
    requests: { from: 0, to: requestsMax },
    ofPartner: { from: 0, to: ofPartnerMax },
    bytes: { from: 0, to: bytesMax },
    // A healthy heap is half full; beyond 95 % the process is about to run out of memory and end.
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

/** The signal with the highest share; 0 = none counts, 1 = full. */
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
  // A request that a driver waits for needs no delivery, so forwarding lag does not refuse it.
  const { signal, share } = fullest(urgency === 'driver' ? { ...load, forwardingMs: 0 } : load, scales);
  if (share >= shedFrom) return { kind: 'shed', signal, retryAfterS };
  if (pausedFrom === undefined) return { kind: 'take', pauseMs: 0 };
  return { kind: 'take', pauseMs: Math.max(share >= pausedFrom ? pauseMs : 0, giveWayMs(load)) };
}
