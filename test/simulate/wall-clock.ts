/** The time of day as a simulated hub sees it: somebody may set it, and nothing else in the world moves by that. */
import type { Stretch } from '../../src/kit/clock.ts';

/** What the hub writes down lies so near to the present at most: due times with `Retry-After`, and facts while a disk is slow. */
const nearMs = 1_200_000;

const shifted = (stretches: readonly Stretch[], ms: number): Stretch[] =>
  stretches.map(({ from, ahead }) => ({ from: from + ms, ahead: ahead - ms }));

export class WallClock {
  /** All that the clock was off by, ms, and from when on, newest first. */
  readonly #offs: { readonly from: number; readonly ms: number }[] = [{ from: 0, ms: 0 }];

  /** Stretches between steps that processes have noticed, in the world's own time. */
  #kept: readonly Stretch[] = [];

  /** How much it is ahead of the world's own time, ms. */
  get offMs(): number {
    return this.#offs[0]?.ms ?? 0;
  }

  /** It was never set. */
  get isSteady(): boolean {
    return this.#offs.length === 1;
  }

  set(ms: number, now: number): void {
    this.#offs.unshift({ from: now, ms });
  }

  /** Keeps what a process that began when it was off by so much has noticed of its steps, as `clock-watch.ts` does in its file. */
  keep(stretches: readonly Stretch[], begunAhead: number): void {
    this.#kept = shifted(stretches, -begunAhead);
  }

  /** What was kept, in the hub time of a process that begins when it is off by so much. */
  kept(begunAhead: number): Stretch[] {
    return shifted(this.#kept, begunAhead);
  }

  /** The world's own time of a fact that the hub recorded about now: the nearest, since the clock may have been set between. */
  recordedAt(text: string, now: number): number {
    const instants = this.#offs.map(({ ms }) => Date.parse(text) - ms);
    return instants.reduce((best, at) => (Math.abs(at - now) < Math.abs(best - now) ? at : best));
  }

  /** The latest instant until then at which the clock may have shown this; -Infinity when there is none. [CLOCK-8] */
  latestOf(text: string, until: number): number {
    const instants = this.#offs.map(({ from, ms }) => ({ from, at: Date.parse(text) - ms }));
    return Math.max(...instants.filter(({ from, at }) => at >= from && at <= until).map(({ at }) => at));
  }

  /** The earliest instant that the hub may have meant by what it wrote down about now, whatever the clock said then. */
  earliestOf(text: string, now: number): number {
    const instants = this.#offs.map(({ ms }) => Date.parse(text) - ms);
    const near = instants.filter((at) => Math.abs(at - now) <= nearMs);
    return near.length > 0 ? Math.min(...near) : Date.parse(text) - this.offMs;
  }
}
