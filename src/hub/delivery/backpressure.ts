/**
 * Measures the forwarding lag, by which the doors throttle ingest (back-pressure).
 */
import { quickTurns } from './fair-scheduler.ts';
import type { LaneCounts } from './lanes.ts';

/**
 * A receiver whose attempts take this long on average, ms, is left out of the lag: its deliveries wait for it, not for
 * the hub.
 */
const slowMs = 1_000;

/** What `lagOf` reads to decide whether a receiver's deliveries wait for the hub or for their partner. */
export interface Waiting {
  readonly lanes: Pick<LaneCounts, 'readySince'>;
  /** Moving average of attempt duration, ms. */
  readonly attemptMs: number;
  /** The circuit is closed and no operator has paused the partner. */
  readonly isFlowing: boolean;
  /** One more delivery may be in flight now. */
  readonly hasSlot: boolean;
  /** Turn of the event loop in which a call last ended that took at most `quickTurns` turns. */
  readonly quickAt: number;
}

/**
 * Whether ready lanes wait for the hub: they have a free slot. Without one they wait for the partner, unless the
 * partner answers within `quickTurns` turns of the event loop: then the answers lie unread because the hub has no CPU
 * time, and the slots would be free if it had.
 */
const waitsForHub = ({ hasSlot, quickAt }: Waiting, turn: number) => hasSlot || turn - quickAt <= quickTurns;

/**
 * Forwarding lag, ms: the median over healthy receivers of how long their oldest ready delivery has waited, so that one
 * receiver cannot throttle ingest. Receivers that are slow, failing or paused do not count, nor do those with no free
 * slot, because their deliveries do not wait for the hub. `turn`: of the event loop, now; `now`: epoch ms.
 */
export function lagOf(receivers: Iterable<Waiting>, turn: number, now: number): number {
  const lags: number[] = [];
  for (const receiver of receivers) {
    const { readySince } = receiver.lanes;
    if (readySince === null || receiver.attemptMs >= slowMs || !receiver.isFlowing) continue;
    if (waitsForHub(receiver, turn)) lags.push(now - readySince);
  }
  lags.sort((a, b) => a - b);
  return Math.max(0, lags[(lags.length - 1) >> 1] ?? 0);
}
