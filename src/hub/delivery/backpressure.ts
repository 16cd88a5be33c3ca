/**
 * Measures the forwarding lag, by which the doors throttle ingest (back-pressure).
 */
import { quickTurns } from './fair-scheduler.ts';
import type { Waiting } from './lanes.ts';

/**
 * A receiver whose attempts take this long on average, ms, is left out of the lag: its deliveries wait for it, not for
 * the hub.
 */
const slowMs = 1_000;

/** What `lagOf` reads to decide whether a receiver's deliveries wait for the hub or for their partner. */
export interface Measured {
  /**
   * Ready deliveries of the modules whose circuit is closed, but for modules in which the partner catches up; null when
   * there are none. [RECEIVER-3]
   */
  readonly ready: Waiting | null;
  /** Moving average of attempt duration, ms. */
  readonly attemptMs: number;
  /** An operator has paused the partner. */
  readonly isPaused: boolean;
  /** Turn of the event loop in which a call last ended that took at most `quickTurns` turns. */
  readonly quickAt: number;
}

/**
 * Whether ready lanes wait for the hub: they have a free slot. Without one they wait for the partner, unless the
 * partner answers within `quickTurns` turns of the event loop: then the answers lie unread because the hub has no CPU
 * time, and the slots would be free if it had.
 */
const waitsForHub = (mayGo: boolean, quickAt: number, turn: number) => mayGo || turn - quickAt <= quickTurns;

/**
 * Forwarding lag, ms: the median over healthy receivers of how long their oldest ready delivery has waited, so that one
 * receiver cannot throttle ingest. Receivers that are slow, failing, paused or catching up do not count, nor do those
 * with no free slot, because their deliveries do not wait for the hub. `turn`: of the event loop, now; `now`: epoch ms; `most`: how many
 * receivers that count are looked at.
 */
export function lagOf(
  receivers: Iterable<Measured>,
  turn: number,
  now: number,
  most = Number.POSITIVE_INFINITY,
): number {
  const lags: number[] = [];
  for (const receiver of receivers) {
    const { ready } = receiver;
    if (ready === null || receiver.attemptMs >= slowMs || receiver.isPaused) continue;
    if (!waitsForHub(ready.mayGo, receiver.quickAt, turn)) continue;
    if (lags.push(now - ready.since) >= most) break;
  }
  lags.sort((a, b) => a - b);
  return Math.max(0, lags[(lags.length - 1) >> 1] ?? 0);
}

/** Gives all receivers, each time from where the last look has ended. */
export class LagTurns<Receiver> {
  #looked = 0;

  *of(receivers: Iterable<Receiver>): Iterable<Receiver> {
    const all = [...receivers];
    for (const _ of all) yield all[this.#looked++ % all.length] as Receiver;
  }
}
