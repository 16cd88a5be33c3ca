/**
 * What the process itself feels: how full its heap is and how late its event loop. Taken a few times a second, so that asking for
 * it costs nothing on the way of a request.
 *
 * PROCESS-LOAD-1  A heap that is small for its limit is swept after it has grown by `growthMax`, however small it is. V8 alone
 *     sweeps a hub's again after as little as a fifth more of it, under load every few seconds, and where its helpers have no core of
 *     their own each sweep keeps requests and deliveries waiting for a tenth of a second and more.
 */
import { existsSync, readFileSync } from 'node:fs';
import { PerformanceObserver, performance } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { type Clock, every } from './kit/clock.ts';

/** As the doors ask for it. */
interface Felt {
  /** What was in use of the heap after its last sweep, as a part of its limit. */
  readonly heap: number;
  readonly loopDelayMs: number;
  /** How far forwarding is behind because the process has no time for it. */
  readonly forwardingMs: number;
}

export interface PressureGauge {
  felt(): Felt;
  close(): void;
}

const sampledEveryMs = 100;
/** A single late turn is nothing: the mean of so many is looked at. */
const samplesMax = 10;
/** However long the process stood still, it was one turn. Milliseconds. */
const lateMax = 2000;
/** A process that is idle for more of its time does not keep its deliveries waiting. */
const busyFrom = 0.8;
/** Kind of a collection that sweeps the whole heap, in what Node reports of it. */
const majorKind = 4;

const mebibyte = 1024 * 1024;

const limitsFile = '/proc/self/limits';

/** Bytes that bodies and answers may hold: what is parsed from them takes a few times as much. */
export const heldBytesMax = Math.min(512 * mebibyte, Math.max(8 * mebibyte, getHeapStatistics().heap_size_limit / 8));

/** Characters of bodies on their way to partners; as many again wait to be sent. */
export const bodiesMax = Math.min(32 * mebibyte, getHeapStatistics().heap_size_limit / 16);

/** Files and sockets that the process may have open; Node raises its own limit when it starts. Where the system does not tell: few. */
const descriptorsMax = existsSync(limitsFile) ? descriptorsOf(readFileSync(limitsFile, 'utf8')) : 1024;

/** Connections that callers may have: the console holds one file more for each, and the rest is for the store, the log and the calls to partners. */
export const connectionsMax = Math.min(10_000, Math.max(16, Math.floor((descriptorsMax - 64) / 3)));

/** Of the heap's limit for each delivery in flight: its socket with TLS takes some 64 KiB, most of them outside of the heap. */
const heapPerDelivery = mebibyte / 2;

/** Deliveries in flight: a quarter of the descriptors at most, and no more than memory bears. */
export const inFlightMax = Math.floor(
  Math.min(descriptorsMax / 4, getHeapStatistics().heap_size_limit / heapPerDelivery),
);

/** Of `limits` of proc(5): what the process has now. */
export function descriptorsOf(limits: string): number {
  const soft = /^Max open files +(\d+)/m.exec(limits)?.[1];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}

/** Turns of the event loop so far. */
export const turnOfLoop = (): number => performance.nodeTiming.uvMetricsInfo.loopCount;

/** Characters of a page of objects: those that are read at the same time leave half of the room to others, and two fit the share of one partner. */
export const pageSizeMax = Math.min(8 * mebibyte, heldBytesMax / 9);

/** By how much a heap may grow between two sweeps, in bytes. [PROCESS-LOAD-1] */
const growthMax = Math.min(128 * mebibyte, getHeapStatistics().heap_size_limit / 16);
/** Where that is less than so much of what is in use, V8 decides by itself. */
const growthPercentMin = 30;
/** What is in use may itself have grown when the next sweep applies it. */
const growthPercentMax = 300;

/** `used`: bytes that the last sweep left; 0: as V8 sees fit. [PROCESS-LOAD-1] */
export function growthPercent(used: number): number {
  const percent = Math.floor((100 * growthMax) / used);
  return percent < growthPercentMin ? 0 : Math.min(percent, growthPercentMax);
}

export function pressureGauge(clock: Clock, forwardingLagMs: () => number = () => 0): PressureGauge {
  const limit = getHeapStatistics().heap_size_limit;
  // Not `process.memoryUsage`: it opens a file, and throws when there are no descriptors left.
  const used = () => getHeapStatistics().used_heap_size / limit;
  // What is in use just before a sweep is mostly garbage: only what a sweep left counts, unless even less is in use now.
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
  let sampledAt = clock.monotonic();
  let loopBefore = performance.eventLoopUtilization();
  const stop = every(clock, sampledEveryMs, () => {
    const now = clock.monotonic();
    late.push(Math.min(lateMax, Math.max(0, now - sampledAt - sampledEveryMs)));
    sampledAt = now;
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
