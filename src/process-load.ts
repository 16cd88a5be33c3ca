/**
 * Measures the load of the process (heap use, event-loop delay) and derives limits from its memory and file
 * descriptors. The load is sampled every `sampledEveryMs`, so that reading it costs a request nothing.
 *
 * PROCESS-LOAD-1  While the heap is small relative to its limit, a full garbage collection runs only after it has grown
 *     by `growthMax`. By default V8 collects a hub's heap again after as little as 20 % growth, every few seconds under
 *     load; where V8's helper threads have no core of their own, each collection delays requests and deliveries by 100
 *     ms or more.
 */
import { existsSync, readFileSync } from 'node:fs';
import { PerformanceObserver, performance } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { type Clock, every } from './kit/clock.ts';
import type { Load } from './ocpi/overload.ts';

/** Load of the process, input of admission control; `forwardingMs` is 0 while the process is not busy. */
type Felt = Pick<Load, 'heap' | 'loopDelayMs' | 'forwardingMs'>;

export interface PressureGauge {
  felt(): Felt;
  close(): void;
}

const sampledEveryMs = 100;
/** Window of the moving average of the event-loop delay, in samples: 1 s, so that a single late turn sheds nothing. */
const samplesMax = 10;
/** Cap of one delay sample, ms, so that a long pause of the process counts as one late turn. */
const lateMax = 2000;
/**
 * Event-loop utilization from which forwarding lag counts. Below it the process has spare time, so lag has another
 * cause.
 */
const busyFrom = 0.8;
/** The `kind` that Node reports for a full (mark-sweep) garbage collection. */
const majorKind = 4;

const mebibyte = 1024 * 1024;

const limitsFile = '/proc/self/limits';

/** Bytes of bodies and answers that may be held in memory; the values parsed from them take a few times as much. */
export const heldBytesMax = Math.min(512 * mebibyte, Math.max(8 * mebibyte, getHeapStatistics().heap_size_limit / 8));

/** Characters of bodies in flight to partners; as many again may be held ready to send. */
export const bodiesMax = Math.min(32 * mebibyte, getHeapStatistics().heap_size_limit / 16);

/** File descriptors of the process (Node raises its soft limit at start); 1024 where the system does not tell. */
const descriptorsMax = existsSync(limitsFile) ? descriptorsOf(readFileSync(limitsFile, 'utf8')) : 1024;

/**
 * Connections of callers: a third of the descriptors; the rest is for the store, the log and calls to partners.
 */
export const connectionsMax = Math.min(10_000, Math.max(16, Math.floor((descriptorsMax - 64) / 3)));

/** Bytes of heap limit per delivery in flight. Its TLS socket takes about 64 KiB, mostly outside the heap. */
const heapPerDelivery = mebibyte / 2;

/** Deliveries in flight to all partners: at most a quarter of the descriptors, and one per `heapPerDelivery`. */
export const inFlightMax = Math.floor(
  Math.min(descriptorsMax / 4, getHeapStatistics().heap_size_limit / heapPerDelivery),
);

/** The soft limit of open files in the text of `/proc/self/limits`; infinite when it has no number. */
export function descriptorsOf(limits: string): number {
  const soft = /^Max open files +(\d+)/m.exec(limits)?.[1];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}

/** Count of event-loop turns since the start of the process. */
export const turnOfLoop = (): number => performance.nodeTiming.uvMetricsInfo.loopCount;

/**
 * Size limit of a list page, characters. The four pages that are read at a time take under half of the room, and two
 * fit into one partner's share; see `admission.ts`.
 */
export const pageSizeMax = Math.min(8 * mebibyte, heldBytesMax / 9);

/** Growth of the heap between two full garbage collections, bytes. [PROCESS-LOAD-1] */
const growthMax = Math.min(128 * mebibyte, getHeapStatistics().heap_size_limit / 16);
/** Below this percentage of the heap in use, V8 decides by itself. */
const growthPercentMin = 30;
/** Cap, because the heap in use may have grown by the time the next collection applies the percentage. */
const growthPercentMax = 300;

/** Value of V8's growth setting for `used` bytes left by the last collection; 0: V8's default. [PROCESS-LOAD-1] */
export function growthPercent(used: number): number {
  const percent = Math.floor((100 * growthMax) / used);
  return percent < growthPercentMin ? 0 : Math.min(percent, growthPercentMax);
}

export function pressureGauge(clock: Clock, forwardingLagMs: () => number = () => 0): PressureGauge {
  const limit = getHeapStatistics().heap_size_limit;
  // `process.memoryUsage` would open a file and throw when no descriptors are left.
  const used = () => getHeapStatistics().used_heap_size / limit;
  // Just before a collection the heap is mostly garbage, so the size after the last one counts, or the current one if
  // smaller.
  let afterSweep = used();
  const spaceSweeps = () => setFlagsFromString(`--heap-growing-percent=${growthPercent(afterSweep * limit)}`);
  spaceSweeps();
  let felt: Felt = { heap: 0, loopDelayMs: 0, forwardingMs: 0 };
  const sweeps = new PerformanceObserver((list) => {
    const entries = list.getEntries() as unknown as readonly { detail?: { kind?: number } }[];
    if (!entries.some(({ detail }) => detail?.kind === majorKind)) return;
    afterSweep = used();
    spaceSweeps();
  });
  sweeps.observe({ entryTypes: ['gc'] });
  const late: number[] = [];
  let loopBefore = performance.eventLoopUtilization();
  const stop = every(clock, sampledEveryMs, (lateMs) => {
    late.push(Math.min(lateMax, Math.max(0, lateMs)));
    if (late.length > samplesMax) late.shift();
    const loopDelayMs = late.reduce((sum, one) => sum + one, 0) / samplesMax;
    const loop = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(loop, loopBefore);
    loopBefore = loop;
    const forwardingMs = utilization >= busyFrom ? forwardingLagMs() : 0;
    felt = { heap: Math.min(afterSweep, used()), loopDelayMs, forwardingMs };
  });
  return {
    felt: () => felt,
    close() {
      stop();
      sweeps.disconnect();
    },
  };
}
