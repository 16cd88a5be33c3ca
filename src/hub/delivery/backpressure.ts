/**
 * Measures the delivery queues of partners: depth and overdue deliveries for operators, and the forwarding lag by which the
 * doors throttle ingest (back-pressure).
 */
import type { SnapshotFrom } from 'xstate';
import type { courierMachine } from '../../../machines/courier.ts';
import { quickTurns } from './in-flight.ts';
import type { Queue } from './outbox-reader.ts';
import type { Progress } from './outbox-writer.ts';

type Courier = SnapshotFrom<typeof courierMachine> | undefined;

/**
 * A receiver whose attempts take this long on average, ms, is left out of the lag: its deliveries wait for it, not for
 * the hub.
 */
const slowMs = 1_000;

const isBehind = ({ behind }: Progress) => behind;

/** `depth` counts the deliveries in memory; `behind`: the log holds more that are not in memory. */
export function standingOf({ lanes, progress, dead, delivered }: Readonly<Queue>) {
  return { depth: lanes.size, oldestAt: lanes.oldestAt, dead, delivered, behind: progress.some(isBehind) };
}

/** Whether the circuit is closed and no operator has paused the partner. */
function flows(courier: Courier): boolean {
  const { hold, circuit } = courier?.value ?? {};
  return hold !== 'paused' && (circuit === undefined || circuit === 'closed');
}

/**
 * Counts deliveries first in their lane that were due before an instant (epoch ms) although neither circuit nor
 * operator blocks them: a bug of the hub, or a partner that takes less than it is owed. A backlog in the log that is
 * not read although memory is empty counts as one.
 */
export function overdueOf({ lanes, progress }: Queue, courier: Courier, before: number): number {
  if (!flows(courier)) return 0;
  const { oldestAt } = lanes;
  if (oldestAt === null) return progress.some(isBehind) ? 1 : 0;
  // No head is due before the oldest retry window starts: a younger one spares the walk over all lanes.
  return oldestAt < before ? lanes.countDueBefore(before) : 0;
}

/** What `lagOf` reads to decide whether a delivery waits for the hub or for its partner. */
export interface Sight {
  readonly courierOf: (queue: Queue) => Courier;
  /** How many deliveries the queue may have in flight now. */
  readonly slotsOf: (queue: Queue) => number;
  /** Turns of the event loop so far. */
  readonly turn: number;
  /** Epoch ms. */
  readonly now: number;
}

/**
 * Whether ready lanes wait for the hub: they have a free slot. Without one they wait for the partner, unless the
 * partner answers within `quickTurns` turns of the event loop: then the answers lie unread because the hub has no CPU
 * time, and the slots would be free if it had.
 */
const waitsForHub = (queue: Queue, { slotsOf, turn }: Sight) =>
  queue.lanes.busy < slotsOf(queue) || turn - queue.quickAt <= quickTurns;

/**
 * Forwarding lag, ms: the median over healthy receivers of how long their oldest ready delivery has waited, so that one
 * receiver cannot throttle ingest. Receivers that are slow, failing or paused do not count, nor do those with no free
 * slot, because their deliveries do not wait for the hub.
 */
export function lagOf(queues: Iterable<Queue>, sight: Sight): number {
  const lags: number[] = [];
  for (const queue of queues) {
    const { readySince } = queue.lanes;
    if (readySince === null || queue.attemptMs >= slowMs || !flows(sight.courierOf(queue))) continue;
    if (waitsForHub(queue, sight)) lags.push(sight.now - readySince);
  }
  lags.sort((a, b) => a - b);
  return Math.max(0, lags[(lags.length - 1) >> 1] ?? 0);
}
