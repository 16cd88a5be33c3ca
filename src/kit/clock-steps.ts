/**
 * Hub time: time that no step of the wall clock moves. It begins as the time of day at the start of the process and
 * advances with the monotonic clock, so it can be compared with times of day that were recorded.
 *
 * CLOCK-STEPS-1  Hub time never steps and never runs backwards.
 * CLOCK-STEPS-2  Without a step, hub time and time of day are the same number.
 * CLOCK-STEPS-3  A recorded time of day may name several instants after a step: it counts as the latest of them that is
 *     not in the future, so a step makes nothing older than it is. One that is in the future counts as now.
 */

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

  /** Hub time of a recorded time of day; `now` in hub time. [CLOCK-STEPS-3] */
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
