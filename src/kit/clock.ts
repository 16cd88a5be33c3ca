/**
 * The clock port: every wait and deadline goes through it, so tests can use simulated time.
 *
 * CLOCK-1  Waits, deadlines, ages and limits are hub time (`now`): a step of the wall clock moves none of them.
 * CLOCK-2  What leaves the process is time of day (`wall`): events, rows, log lines, answers.
 * CLOCK-3  Hub time and time of day meet only in `steady`, for one that was recorded, and in `stamp`, for a hub time
 *     that is shown or recorded. A recorded instant in the future is never converted by itself, but by its distance
 *     from the instant that was recorded with it, and so it is recorded: a step may be noticed between two stamps.
 * CLOCK-4  After a restart no wait is longer than its own maximum.
 * CLOCK-5  A suspended machine is a step forward: its monotonic clock stood still, so waits go on with what was left
 *     of them, and nothing expires because the machine slept.
 * CLOCK-6  Hub time never steps and never runs backwards: it begins as the time of day at the start of the process and advances with
 *     the monotonic clock, so it can be compared with times of day that were recorded.
 * CLOCK-7  Without a step, hub time and time of day are the same number.
 * CLOCK-8  A recorded time of day may name several instants after a step: it counts as the latest of them that is
 *     not in the future, so a step makes nothing older than it is. One that is in the future counts as now.
 * CLOCK-9  Repeated work whose interval is a multiple of `tickMs` falls due at multiples of `tickMs`, the first time up to one of them early, and
 *     what is due at one of them shares a timer: waking up an idle process costs more than the work. Other intervals are kept as they are.
 */

export interface Clock {
  /** Hub time, epoch ms: never steps. [CLOCK-6] */
  now(): number;
  /** Time of day, epoch ms: may step. Compares both clocks, and so notices a step. */
  wall(): number;
  /** Hub time of a time of day that was recorded; at most now. */
  steady(wall: number): number;
  /** Time of day of a hub time. */
  stamp(at: number): number;
  readonly steps: ClockSteps;
  /** Monotonic milliseconds from an arbitrary start, for deadlines and durations. */
  monotonic(): number;
  /** Passes `args` to `fn`, so that a timer per request needs no closure. */
  setTimeout<A extends unknown[]>(fn: (...args: A) => void, timeoutMs: number, ...args: A): unknown;
  /** Does nothing for a timer that has fired or never existed. */
  clearTimeout(id: unknown): void;
}

/** Resolves after `ms`, or as soon as `end` is aborted. */
export function sleep(clock: Clock, ms: number, end?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (end?.aborted) return resolve();
    const wake = () => {
      clock.clearTimeout(timer);
      end?.removeEventListener('abort', wake);
      resolve();
    };
    const timer = clock.setTimeout(wake, ms);
    end?.addEventListener('abort', wake);
  });
}

/** True when the work ended within `ms`, false at the time-out; rejects when the work rejects before it. */
export async function withTimeout(clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: unknown;
  const late = new Promise<false>((resolve) => {
    timer = clock.setTimeout(resolve, ms, false);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clock.clearTimeout(timer);
  }
}

/**
 * Repeats the work, each time about `ms` after the end of the run before, until the returned function is called. `lateMs`: how
 * long ago the run was due. The timer does not keep the process alive. [CLOCK-9]
 */
export function every(clock: Clock, ms: number, work: (lateMs: number) => void | Promise<void>): () => void {
  let isStopped = false;
  let drop = () => {};
  const arm = () => {
    drop = ms >= tickMs && ms % tickMs === 0 ? atTick(clock, ms, fire) : alone(clock, ms, fire);
  };
  const fire = async (lateMs: number) => {
    await work(lateMs);
    if (!isStopped) arm();
  };
  arm();
  return () => {
    isStopped = true;
    drop();
  };
}

type Fire = (lateMs: number) => unknown;

function alone(clock: Clock, ms: number, fire: Fire): () => void {
  const due = clock.monotonic() + ms;
  const timer = background(clock.setTimeout(() => fire(clock.monotonic() - due), ms));
  return () => clock.clearTimeout(timer);
}

/** Ms. A process that has nothing to do wakes up this often at most; a longer one would blur the lag of the event loop. */
const tickMs = 100;
/** Ms by which a timer may fire early: without it a run would come twice at one tick. */
const earlyMs = 5;

interface Tick {
  readonly timer: unknown;
  readonly fires: Set<Fire>;
}
const ticksOf = new WeakMap<Clock, Map<number, Tick>>();

/** [CLOCK-9] */
function atTick(clock: Clock, ms: number, fire: Fire): () => void {
  const ticks = ticksOf.get(clock) ?? new Map<number, Tick>();
  ticksOf.set(clock, ticks);
  const now = clock.monotonic();
  const due = Math.floor((now + ms + earlyMs) / tickMs) * tickMs;
  const tick = ticks.get(due) ?? newTick(clock, ticks, due, due - now);
  tick.fires.add(fire);
  return () => {
    tick.fires.delete(fire);
    if (tick.fires.size > 0 || ticks.get(due) !== tick) return;
    ticks.delete(due);
    clock.clearTimeout(tick.timer);
  };
}

function newTick(clock: Clock, ticks: Map<number, Tick>, due: number, inMs: number): Tick {
  const fires = new Set<Fire>();
  const timer = clock.setTimeout(() => {
    ticks.delete(due);
    for (const fire of fires) fire(clock.monotonic() - due);
  }, inMs);
  const tick = { timer: background(timer), fires };
  ticks.set(due, tick);
  return tick;
}

/** Unrefs the timer, so that it does not keep the process alive, and returns it. */
export function background(timer: unknown): unknown {
  (timer as { unref?(): void }).unref?.();
  return timer;
}

/** A stretch of hub time during which the wall clock took no step; it ends where the next one begins. */
export interface Stretch {
  /** Hub time, epoch ms. */
  readonly from: number;
  /** Time of day minus hub time, ms. */
  readonly ahead: number;
}

export interface Step {
  /** Hub time at which the step was noticed, epoch ms. */
  readonly at: number;
  /** Positive when the wall clock was moved forward. */
  readonly ms: number;
}

/** A smaller difference between both clocks is no step, ms: it hides rounding, and pauses between their readings. */
const stepMinMs = 500;
/** Bounds memory under a clock that keeps stepping: the oldest stretches are forgotten. */
const stretchesMax = 64;

export class ClockSteps {
  readonly #stretches: [Stretch, ...Stretch[]];
  #last: Step | null = null;
  readonly #listeners = new Set<(step: Step) => void>();

  /** `begun`: hub time of the start of the process. */
  constructor(begun: number) {
    this.#stretches = [{ from: begun, ahead: 0 }];
  }

  /** Oldest first, at least one. */
  get stretches(): readonly Stretch[] {
    return this.#stretches;
  }

  /** The last step that this process noticed. */
  get last(): Step | null {
    return this.#last;
  }

  /** Time of day minus hub time, ms. */
  get ahead(): number {
    return (this.#stretches.at(-1) ?? this.#first).ahead;
  }

  onStep(listener: (step: Step) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Compares a reading of both clocks, taken together. */
  compare(hub: number, wall: number): void {
    const ms = wall - hub - this.ahead;
    if (Math.abs(ms) < stepMinMs) return;
    this.#stretches.push({ from: hub, ahead: wall - hub });
    this.#forget();
    this.#last = { at: hub, ms };
    for (const listener of this.#listeners) listener(this.#last);
  }

  /**
   * Adds what an earlier process of this machine noted, in this process's hub time. Returns the step, ms, between the
   * last of that and the start of this process; 0 when there was none.
   */
  recall(stretches: readonly Stretch[]): number {
    const first = this.#first;
    const earlier = stretches.filter(({ from }) => from < first.from);
    const before = earlier.at(-1);
    const isSame = before !== undefined && Math.abs(before.ahead - first.ahead) < stepMinMs;
    if (isSame) this.#stretches.splice(0, 1, ...earlier.slice(0, -1), { ...first, from: before.from });
    else this.#stretches.unshift(...earlier);
    this.#forget();
    return isSame || before === undefined ? 0 : first.ahead - before.ahead;
  }

  /** Hub time of a recorded time of day; `now` in hub time. [CLOCK-8] */
  steady(wall: number, now: number): number {
    const stretches = this.#stretches;
    let end = now + stepMinMs;
    for (let index = stretches.length - 1; index >= 0; index--) {
      const { from, ahead } = stretches[index] ?? this.#first;
      const at = wall - ahead;
      if (at >= from && at <= end) return at;
      end = from;
    }
    const { from, ahead } = this.#first;
    if (wall >= from + ahead) return now;
    // Of the time before the first stretch nothing is known: the offset of any stretch may fit.
    const instants = stretches.map((stretch) => wall - stretch.ahead).filter((at) => at < from);
    return instants.length > 0 ? Math.max(...instants) : now;
  }

  /** Time of day of a hub time: as it was, or for the future as it will be unless the clock steps again. */
  stamp(hub: number): number {
    const stretches = this.#stretches;
    let index = stretches.length - 1;
    while (index > 0 && hub < (stretches[index] ?? this.#first).from) index--;
    return hub + (stretches[index] ?? this.#first).ahead;
  }

  get #first(): Stretch {
    return this.#stretches[0];
  }

  #forget(): void {
    while (this.#stretches.length > stretchesMax) this.#stretches.shift();
  }
}

/** The clock of a process made of two readings, each in epoch ms: one that never steps, and the time of day. */
export function facesOf(now: () => number, timeOfDay: () => number) {
  const steps = new ClockSteps(now());
  return {
    steps,
    now,
    wall(): number {
      const before = now();
      const wall = timeOfDay();
      // A process that paused between both readings must not take its pause for a step.
      if (Math.abs(wall - before - steps.ahead) >= stepMinMs && now() - before < stepMinMs) steps.compare(before, wall);
      return wall;
    },
    steady: (wall: number): number => steps.steady(wall, now()),
    stamp: (hub: number): number => steps.stamp(hub),
  };
}

// Spans of time, ms.

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;
