/**
 * Retention: how fast the hub trims expired events, idle and beside pushes, and what the pushes pay for it. Each round has a copy of one
 * store in which every event has expired; the hub's time of day is shifted so that the hourly sweep begins a few seconds after its start.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { builtHub } from '../support/child-hub.ts';
import { copyDataDirectory } from '../support/directory.ts';
import { admin } from '../support/plain-partner.ts';
import { type Around, aroundRow, startAround, watchAround } from './around.ts';
import type { LoadOutcome, OpenLoad } from './load.ts';
import { cpuS, pinnedTo, undoAtExit } from './processes.ts';
import type { Bench } from './run.ts';
import { ownDirectory, startMeasuredHub, triedFlags } from './scene.ts';
import { type Site, siteWith } from './site.ts';
import { ratios, rounded } from './statistics.ts';
import { sessionPush } from './systems.ts';
import { type Column, inTurns, rowsOf } from './turns.ts';

const hourMs = 3_600_000;
/** Longer than events are kept in a round, ms: the registrations at the beginning of the log were made just now. */
const laterMs = 48 * hourMs;
/** From the start of the process to the sweep, ms: it reads its store first. */
const untilSweepMs = 12_000;
const pushed = { perS: 1_700, connections: 64, objects: 10_000 };
const goals = { idle: 20_000, beside: 3_500 };
const lookMs = 250;

const ways = ['idle', 'pushes alone', 'beside pushes'] as const;
type Way = (typeof ways)[number];

interface Round {
  readonly trimmedPerS: number;
  /** Microseconds of CPU of the hub, all its threads, for each trimmed event. */
  readonly cpuMicros: number;
  readonly pushesPerS: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  readonly aroundShare: number;
}

const trims: readonly Column<Round>[] = [['events trimmed per second', ({ trimmedPerS }) => trimmedPerS, 0]];
const pushes: readonly Column<Round>[] = [
  ['pushes accepted per second', ({ pushesPerS }) => pushesPerS, 0],
  ['a push answered p50, ms', ({ p50Ms }) => p50Ms, 1],
  ['a push answered p95, ms', ({ p95Ms }) => p95Ms, 1],
  ['a push answered p99, ms', ({ p99Ms }) => p99Ms, 1],
];
const columns: Readonly<Record<Way, readonly Column<Round>[]>> = {
  idle: [
    ...trims,
    ['CPU of an event, all threads, µs', ({ cpuMicros }) => cpuMicros, 0],
    ['events trimmed per second of CPU', ({ cpuMicros }) => 1e6 / cpuMicros, 0],
    ['had of its core, %', ({ trimmedPerS, cpuMicros }) => (trimmedPerS * cpuMicros) / 1e4, 0],
  ],
  'pushes alone': pushes,
  'beside pushes': [...trims, ...pushes],
};

export const retention: Bench = {
  name: 'retention',
  says: `expired events trimmed: idle (goal: ≥ ${goals.idle}/s), and beside ${pushed.perS} pushes/s (goal: ≥ ${goals.beside}/s)`,
  async run(progress, { isShort }) {
    const [turns, seconds] = isShort ? [1, 5] : [5, 15];
    const site = await siteWith(isShort ? { objects: 10_000, pushes: 10 } : { objects: 30_000, pushes: 10 }, progress);
    const around = await startAround(1);
    const measured = await inTurns<Way, Round>(ways, turns, async (way, turn) => {
      const done = await round(site, around, way, seconds);
      const said = `${rounded(done.trimmedPerS, 0)} events/s trimmed, push p95 ${rounded(done.p95Ms, 1)} ms`;
      progress(`round ${turn} of ${turns}, ${way}: ${said}`);
      return done;
    });
    await around.end();
    const of = (way: Way) => measured.get(way) ?? [];
    const p95 = (way: Way) => of(way).map(({ p95Ms }) => p95Ms);
    return {
      ...Object.assign({}, ...ways.map((way) => rowsOf(way, of(way), columns[way]))),
      'ratio of the push p95, beside the trim to alone': ratios(p95('beside pushes'), p95('pushes alone')),
      ...aroundRow([...of('pushes alone'), ...of('beside pushes')]),
    };
  },
};

async function round(site: Site, around: Around, way: Way, seconds: number): Promise<Round> {
  const { directory: dataDir, remove } = ownDirectory();
  copyDataDirectory(site.dataDir, dataDir);
  // It tells a hub on this machine that the shifted time of day was moved.
  rmSync(join(dataDir, 'clock'));
  const startedAt = Date.now();
  const shiftMs = laterMs + hourMs - ((startedAt + untilSweepMs) % hourMs);
  const shift = `const now=Date.now;Date.now=()=>now()+${shiftMs}`;
  const [node = '', ...command] = builtHub;
  const run = [...pinnedTo('measured'), node, ...triedFlags, `--import=data:text/javascript,${shift}`, ...command];
  const env = { HUB_EVENTS_KEEP_DAYS: way === 'pushes alone' ? '0' : '1', HUB_RATE_OTHER_PER_MIN: '100000000' };
  const hub = await startMeasuredHub({ dataDir, port: 0, env, run });
  const settled = undoAtExit(() => process.kill(hub.pid, 'SIGKILL'));
  await around.receiver.ask('reset');
  const leftMs = startedAt + untilSweepMs - Date.now();
  if (leftMs < 0) throw new Error(`the hub needed ${-leftMs} ms longer to start than the sweep lets it`);
  const load: OpenLoad = { url: hub.url, shape: sessionPush(site.cpo), ...pushed, seconds };
  // Warm before it is measured.
  if (way !== 'idle') await around.load.ask('open', { ...load, seconds: Math.floor(leftMs / 1000) });
  await sleep(startedAt + untilSweepMs - Date.now());
  const aroundShare = watchAround(around);
  const ending = new AbortController();
  const pushing = way === 'idle' ? null : around.load.ask<LoadOutcome>('open', load);
  const trimming = way === 'pushes alone' ? null : watchTrim(hub, ending.signal);
  const taken = await pushing;
  if (taken) ending.abort();
  const trimmed = await trimming;
  if (taken?.refusal) throw new Error(`the hub refused: ${taken.refusal}`);
  const share = aroundShare();
  settled();
  await hub.stop();
  remove();
  return {
    ...(trimmed ?? { trimmedPerS: 0, cpuMicros: 0 }),
    pushesPerS: taken ? taken.accepted / taken.seconds : 0,
    ...{ p50Ms: taken?.p50Ms ?? 0, p95Ms: taken?.p95Ms ?? 0, p99Ms: taken?.p99Ms ?? 0 },
    aroundShare: share,
  };
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));

/** Looks where the log begins until the end is told, or until it has begun at the same place for a while. */
async function watchTrim(
  hub: Parameters<typeof admin>[0] & { readonly pid: number },
  ending: AbortSignal,
): Promise<Pick<Round, 'trimmedPerS' | 'cpuMicros'>> {
  const look = async () => {
    const { kept_from } = (await admin(hub, 'GET', '/events?limit=1')) as { kept_from: number };
    return { from: kept_from, at: performance.now(), cpu: cpuS(hub.pid) };
  };
  let [first, last] = [await look(), await look()];
  for (let same = 0; same < 12 && !ending.aborted; ) {
    await sleep(lookMs);
    const next = await look();
    if (next.from === last.from) same += last.from > 1 ? 1 : 0.1;
    else {
      if (last.from === 1) first = next;
      last = next;
      same = 0;
    }
  }
  const events = last.from - first.from;
  return { trimmedPerS: (1000 * events) / (last.at - first.at), cpuMicros: (1e6 * (last.cpu - first.cpu)) / events };
}
