/**
 * How the queues of partners stand: for operators, and for the doors, which take less while forwarding falls behind.
 */
import type { SnapshotFrom } from 'xstate';
import type { courierMachine } from '../../machines/courier.ts';
import type { Queue } from './intake.ts';
import type { Progress } from './outbox.ts';

type Courier = SnapshotFrom<typeof courierMachine> | undefined;

/** A receiver whose calls take longer is what its own deliveries wait for, milliseconds. */
const slowMs = 1_000;

const isBehind = ({ behind }: Progress) => behind;

/** `behind`: the log holds more than `depth`, which is what memory has. */
export function standingOf({ lanes, progress, dead, delivered }: Readonly<Queue>) {
  return { depth: lanes.size, oldestAt: lanes.oldestAt, dead, delivered, behind: progress.some(isBehind) };
}

/** Whether neither circuit nor operator holds deliveries back. */
function flows(courier: Courier): boolean {
  const { hold, circuit } = courier?.value ?? {};
  return hold !== 'paused' && (circuit === undefined || circuit === 'closed');
}

/**
 * Lanes whose head should have gone before an instant (epoch ms), though nothing holds it back: a fault of ours, or more than the
 * partner takes. A log that is not read on although memory is empty counts as one.
 */
export function overdueOf({ lanes, progress }: Queue, courier: Courier, before: number): number {
  if (!flows(courier)) return 0;
  const { oldestAt } = lanes;
  if (oldestAt === null) return progress.some(isBehind) ? 1 : 0;
  // No head may go since before the oldest one was owed.
  return oldestAt < before ? lanes.countDueBefore(before) : 0;
}

/**
 * How long deliveries wait that could go, milliseconds: the middle one of the receivers for whom any does, so that one receiver never
 * decides for all. Receivers who are slow, ill or kept back are their own reason and do not count.
 */
export function lagOf(queues: Iterable<Queue>, courierOf: (queue: Queue) => Courier, now: number): number {
  const lags: number[] = [];
  for (const queue of queues) {
    const { readySince } = queue.lanes;
    if (readySince !== null && queue.attemptMs < slowMs && flows(courierOf(queue))) lags.push(now - readySince);
  }
  lags.sort((a, b) => a - b);
  return Math.max(0, lags[(lags.length - 1) >> 1] ?? 0);
}
