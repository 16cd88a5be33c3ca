/**
 * How the queues of partners stand: for operators, and for the doors, which take less while forwarding falls behind.
 */
import type { SnapshotFrom } from 'xstate';
import type { courierMachine } from '../../../machines/courier.ts';
import { quickTurns } from './in-flight.ts';
import type { Queue } from './outbox-reader.ts';
import type { Progress } from './outbox-writer.ts';

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

/** What tells whose reason it is that something waits. */
export interface Sight {
  readonly courierOf: (queue: Queue) => Courier;
  /** How many a queue may have in flight now. */
  readonly slotsOf: (queue: Queue) => number;
  /** Turns of the event loop so far. */
  readonly turn: number;
  /** Epoch ms. */
  readonly now: number;
}

/**
 * Whether it is the hub that lanes wait for: a slot is free for them. Where none is, they wait for the partner, unless its answers are
 * there as soon as the hub looks: then it is the hub that has no time to take them, and the slots would be free if it had.
 */
const waitsForHub = (queue: Queue, { slotsOf, turn }: Sight) =>
  queue.lanes.busy < slotsOf(queue) || turn - queue.quickAt <= quickTurns;

/**
 * How long deliveries wait that could go, milliseconds: the middle one of the receivers for whom any does, so that one receiver never
 * decides for all. Receivers that are slow, fail or are held back are their own reason and do not count, nor do those
 * that have as much in flight as they may.
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
