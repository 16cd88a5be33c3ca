/**
 * Pace of background work that shares the event loop with requests: how large a piece of work may be, and how long the
 * pause after it lasts. The rule looks at the clock and at whether others worked; it has no fixed waits.
 *
 * SWEEP-PACE-1  After a piece that took w ms there is a pause of w × (1 / share − 1) ms: whatever a piece costs, the work has at
 *     most its share of the time. The size of a piece is in proportion to the share.
 * SWEEP-PACE-2  The share begins at `shareMin` and grows by a quarter after each piece, up to 1, or up to `busyMax` when others
 *     worked meanwhile.
 * SWEEP-PACE-3  A pause that ends `lateMs` or more after its time shows that others wait for the event loop: the share halves,
 *     down to `shareMin`.
 * SWEEP-PACE-4  A pause lasts `pauseMaxMs` at most: a piece during which the process or its disk stood still delays the work no
 *     longer.
 */
import { type Clock, sleep } from '../../kit/clock.ts';

const shareMin = 1 / 8;
/** Half of the time: the work may catch up beside requests, and they have the loop for at least as long. */
const busyMax = 1 / 2;
const growth = 5 / 4;
const pauseMaxMs = 10_000;
/** Delay of the event loop, ms, that callers notice. */
const lateMs = 25;

export class Pace {
  readonly #clock: Clock;
  #share = shareMin;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Share of the time that the work may take, 0 to 1. */
  get share(): number {
    return this.#share;
  }

  /** Size of the next piece; `most` is the size of a piece of work that has all the time. */
  sized(most: number): number {
    return Math.round(most * this.#share);
  }

  /** Pauses after a piece that took `tookMs`, or until `end` is aborted. `isBusy`: others worked since the last pause. */
  async pause(tookMs: number, isBusy: boolean, end: AbortSignal): Promise<void> {
    const pauseMs = Math.min(pauseMaxMs, tookMs * (1 / this.#share - 1));
    const begun = this.#clock.monotonic();
    await sleep(this.#clock, pauseMs, end);
    const isLate = this.#clock.monotonic() - begun - pauseMs >= lateMs;
    const next = isLate ? this.#share / 2 : this.#share * growth;
    this.#share = Math.max(shareMin, Math.min(next, isBusy ? busyMax : 1));
  }
}
