/**
 * Lets users take turns: `perTurn` spreads work over turns of the event loop, so that each of these is short, and `turnstile` bounds the work
 * that goes on at a time.
 *
 * TURNS-1  Users take turns, and each of them is served first in, first out. Nothing is kept of a user for longer than it waits, and a turn.
 * TURNS-2  In the process at most one large text is begun to be read, parsed or checked in `apartTurns` turns: what follows takes the
 *     thread for as long as the text is large, and a request that a driver waits for, which takes as many turns, meets two of them
 *     at most.
 * TURNS-3  Large texts of all partners take a ninth of the thread at most: the next one waits eight times as long as the turn of
 *     the last one took, of which `turnMsMax` count.
 * TURNS-4  A caller that does a large text in short pieces says how long those of a turn took. The next one waits eight times as long as
 *     that alone, and for no further turns: on a busy process, whose turns are long, a text in many pieces would else take seconds.
 * TURNS-5  Of a large text that is done in pieces, those that begin in one turn of the event loop take `pieceMsMax` at most.
 */
import { sleep } from './clock.ts';
import { addTo } from './memo.ts';
import { nextTurn, systemClock } from './system-clock.ts';

/** Turns of the event loop that an authorize takes. [TURNS-2] */
const apartTurns = 4;
/** How many times as long as the turn of a large text the process takes no other. [TURNS-3] */
const restTimes = 8;
/** A longer turn, ms, had more in it than its large text: the process stood still. */
const turnMsMax = 100;

/** How many callers go on in one turn. */
interface PerTurn {
  /** Default: no bound. */
  readonly ofAll?: number;
  /** Of one user. Default: no bound. */
  readonly ofOne?: number;
}

/**
 * Lets so many callers go on in one turn of the event loop, as long as the last of them says that it matters; the others go on at
 * once (null).
 */
export function perTurn(
  { ofAll = Number.POSITIVE_INFINITY, ofOne = Number.POSITIVE_INFINITY }: PerTurn,
  turn: () => Promise<void>,
): (matters: boolean, user?: string) => Promise<void> | null {
  const waiting = new Map<string, (() => void)[]>();
  let begun = 0;
  const begunOf = new Map<string, number>();
  let isCounting = false;
  const mayBegin = (user: string) => begun < ofAll && (begunOf.get(user) ?? 0) < ofOne;
  const begin = (user: string) => {
    begun += 1;
    addTo(begunOf, user, 1);
  };
  const count = async () => {
    isCounting = true;
    while (begun > 0 || waiting.size > 0) {
      await turn();
      begun = 0;
      begunOf.clear();
      for (const [user, queue] of waiting) {
        if (!mayBegin(user)) continue;
        begin(user);
        waiting.delete(user);
        queue.shift()?.();
        // Behind the others: the walk comes to it again. [TURNS-1]
        if (queue.length > 0) waiting.set(user, queue);
      }
    }
    isCounting = false;
  };
  return (matters, user = '') => {
    if (!matters && !waiting.has(user)) return null;
    const isNow = mayBegin(user);
    if (isNow) begin(user);
    if (!isCounting) void count();
    if (isNow) return null;
    return new Promise((go) => {
      const queue = waiting.get(user) ?? [];
      queue.push(go);
      waiting.set(user, queue);
    });
  };
}

/**
 * Lets one caller go on in `apartTurns` turns, and then rests. `tookMs`: how long the large text of the present turn took, of a caller
 * that had it and needs another. [TURNS-2, TURNS-3, TURNS-4]
 */
export function largeTurns(
  turn: () => Promise<void>,
  clock = systemClock,
): (user: string, tookMs?: number) => Promise<void> | null {
  let textMs: number | undefined;
  const inTurns = perTurn({ ofAll: 1 }, async () => {
    const begunAt = clock.monotonic();
    textMs = undefined;
    await turn();
    const turnMs = Math.min(textMs ?? clock.monotonic() - begunAt, turnMsMax);
    const nextAt = begunAt + turnMs * (1 + restTimes);
    for (let n = 1; n < apartTurns && textMs === undefined; n++) await turn();
    const restMs = nextAt - clock.monotonic();
    if (restMs >= 1) await sleep(clock, restMs);
  });
  return (user, tookMs) => {
    textMs = tookMs ?? textMs;
    return inTurns(true, user);
  };
}

/** When a large text of a partner may be read, parsed or checked; null: now. [TURNS-2] */
export const largeTurn = largeTurns(nextTurn);

/**
 * A semaphore with `most` slots, of which one user may use `ofOneMax`, by default half. Waiters of one user are served
 * first in, first out, and users round-robin. The promise resolves to the function that releases the slot.
 */
export function turnstile(most: number, ofOneMax = most / 2): (user: string) => Promise<() => void> {
  const waiting = new Map<string, (() => void)[]>();
  const runningOf = new Map<string, number>();
  let running = 0;
  const isFree = (user: string) => running < most && (runningOf.get(user) ?? 0) < ofOneMax;
  const begin = (user: string, more: number) => {
    running += more;
    addTo(runningOf, user, more);
  };
  const next = () => {
    for (const [user, [first, ...rest]] of waiting) {
      if (!isFree(user)) continue;
      waiting.delete(user);
      if (rest.length > 0) waiting.set(user, rest);
      begin(user, 1);
      first?.();
      return;
    }
  };
  return async (user) => {
    if (isFree(user)) begin(user, 1);
    else await new Promise<void>((go) => waiting.set(user, [...(waiting.get(user) ?? []), go]));
    return () => {
      begin(user, -1);
      next();
    };
  };
}

/** Longer, and what a driver waits for meets it; shorter, and the turns of large texts, which are far apart, are too many. */
const pieceMsMax = 2;

/** Does the pieces between which a generator yields in several turns; `turn` is called with the ms of those in this turn, and resolves when the next one may begin. [TURNS-5] */
export async function inTurns<T>(
  work: Generator<void, T>,
  turn: (tookMs: number) => Promise<void> | null,
  clock: Pick<typeof systemClock, 'monotonic'> = systemClock,
): Promise<T> {
  for (;;) {
    const begunAt = clock.monotonic();
    let tookMs: number;
    do {
      const piece = work.next();
      if (piece.done) return piece.value;
      tookMs = clock.monotonic() - begunAt;
    } while (tookMs < pieceMsMax);
    await turn(tookMs);
  }
}
