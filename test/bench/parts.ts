/**
 * Where the time of the hub's main thread goes in pushes (P1), authorize (P3), fan-out (P4) and first pages (P5): V8's sampling profiler in the hub, each
 * sample given to the innermost frame that belongs to a part. The profiler costs something itself and what it sees is wall time, so read
 * the shares here, and the sums in P1, P3, P4 and P5.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startAround } from './around.ts';
import { authorizeRound } from './authorize.ts';
import { fanOutHub, fanOutReceivers, fanOutRound } from './fan-out.ts';
import type { ClosedLoad, LoadOutcome } from './load.ts';
import { firstPage } from './pages.ts';
import { microseconds } from './request.ts';
import type { Bench, Figures } from './run.ts';
import { ownDirectory } from './scene.ts';
import { rounded } from './statistics.ts';
import { hubSystem, pushRound, warmUp } from './systems.ts';

/** Line and column from 0. */
interface Frame {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
  readonly columnNumber: number;
}

interface Profile {
  /** Microseconds of the monotonic clock. */
  readonly startTime: number;
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: Frame;
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** The first that matches the frame, `{source} {function}`, has it. */
const parts: readonly (readonly [part: string, frame: RegExp])[] = [
  ['collector', /\(garbage collector\)/],
  ['actors: machines, XState', /\/xstate\/|\/machines\//],
  ['metrics', /\/prom-client\/|\/src\/metrics\./],
  ['door: checks of token, path and body, answer', /\/zod\/|\/src\/(?:transport|ocpi)\/|\/domain\/json-text\./],
  ['store: records, batches, look-ups', /\/storage\/|\/(?:classic|abstract)-level\//],
  ['forward: HTTP client', /\/undici\/|\/src\/partners\//],
  ['forward: lanes, deliveries, outbox', /\/src\/hub\/delivery\//],
  ['hub: turn, decision, events', /\/src\/(?:hub|domain)\//],
  ['HTTP server', /\/fastify\/|\/find-my-way\/|node:_http_|node:http|node:net|node:internal\/(?:streams?|stream_base)/],
];
const other = 'the rest of Node';

const maps = new Map<string, SourceMap | null>();

/** The source of a function: the hub is bundled, so its frames name files of the bundle. */
function sourceOf({ url, lineNumber, columnNumber }: Frame): string {
  if (!url.startsWith('file:')) return url;
  const map = `${fileURLToPath(url)}.map`;
  if (!maps.has(map)) maps.set(map, existsSync(map) ? new SourceMap(JSON.parse(readFileSync(map, 'utf8'))) : null);
  const found = maps.get(map)?.findEntry(lineNumber, columnNumber);
  return found && 'originalSource' in found ? found.originalSource : url;
}

/** Microseconds by part, between two instants of the monotonic clock. */
function timeByPart({ startTime, nodes, samples, timeDeltas }: Profile, from: number, to: number): Map<string, number> {
  const parentOf = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, `${sourceOf(callFrame)} ${callFrame.functionName}`]));
  const known = new Map<number, string>();
  const partOf = (id: number): string => {
    const frame = frames.get(id) ?? '';
    const parent = parentOf.get(id);
    const own = known.get(id) ?? parts.find(([, pattern]) => pattern.test(frame))?.[0];
    const part = own ?? (parent === undefined ? other : partOf(parent));
    known.set(id, part);
    return part;
  };
  const spent = new Map<string, number>();
  let at = startTime;
  for (const [index, id] of samples.entries()) {
    const passed = timeDeltas[index] ?? 0;
    at += passed;
    if (at < from || at > to || frames.get(id)?.endsWith('(idle)')) continue;
    spent.set(partOf(id), (spent.get(partOf(id)) ?? 0) + passed);
  }
  return spent;
}

/** Something that a hub does over and over, and how often it did. */
interface Work {
  readonly unit: string;
  readonly run: () => Promise<number>;
}

/** Runs works on one hub, whose profile is in the directory after `end`. */
async function rowsOfWorks(works: readonly Work[], directory: string, end: () => Promise<unknown>): Promise<Figures> {
  const windows: { readonly unit: string; readonly times: number; readonly from: number; readonly to: number }[] = [];
  for (const { unit, run } of works) {
    const from = microseconds();
    const times = await run();
    windows.push({ unit, times, from, to: microseconds() });
  }
  await end();
  const [file = ''] = readdirSync(directory);
  const profile = JSON.parse(readFileSync(join(directory, file), 'utf8')) as Profile;
  const rows = windows.flatMap(({ unit, times, from, to }): [string, string | number][] => {
    const spent = [...timeByPart(profile, from, to)].sort(([, one], [, another]) => another - one);
    const sum = spent.reduce((total, [, micros]) => total + micros, 0);
    const shared = (micros: number) => `${rounded(micros / times, 1)} µs, ${rounded((100 * micros) / sum, 1)} %`;
    return [
      [`${unit}: times`, times],
      [`${unit}: main thread busy, µs`, rounded(sum / times, 0)],
      ...spent.map(([part, micros]): [string, string] => [`${unit}: ${part}`, shared(micros)]),
    ];
  });
  return Object.fromEntries(rows);
}

const flagsFor = (directory: string) => ['--cpu-prof', '--cpu-prof-interval=300', `--cpu-prof-dir=${directory}`];

export const partsBench: Bench = {
  name: 'parts',
  says: "where the time of the hub's main thread goes, by part, while the profiler looks; busy is wall time",
  async run(progress, { isShort }) {
    const seconds = isShort ? 2 : 8;
    const [one, two, three] = [ownDirectory(), ownDirectory(), ownDirectory()];
    const around = await startAround(fanOutReceivers + 1);
    const [first = ''] = around.receiver.ready.urls;
    const hub = await hubSystem(first, flagsFor(one.directory));
    await warmUp([hub], around, { isShort, progress });
    const ask = async (forSeconds: number) =>
      (await authorizeRound({ ...hub, pid: hub.pids[0] ?? 0 }, around, forSeconds)).asked;
    await ask(seconds / 2);
    const pushes = async () => (await pushRound(hub, around, { connections: 64, seconds })).accepted;
    const works = [
      { unit: 'push', run: pushes },
      { unit: 'authorize', run: () => ask(seconds) },
    ];
    const ofHub = await rowsOfWorks(works, one.directory, hub.end);
    progress('pushes and authorize are done, a fan-out follows');
    const wide = await fanOutHub(around, progress, flagsFor(two.directory));
    const objects = isShort ? 25 : 150;
    const send = async () => (await fanOutRound(wide, around, objects)).arrived * objects * fanOutReceivers;
    await send();
    const ofWide = await rowsOfWorks([{ unit: 'delivery of a fan-out', run: send }], two.directory, wide.end);
    progress('and pages');
    const { hub: reader, asked } = await firstPage(isShort ? 100_000 : 1_000_000, progress, flagsFor(three.directory));
    const read = async (requests: number) =>
      (await around.load.ask<LoadOutcome>('closed', { ...asked, requests, seconds: 600 } satisfies ClosedLoad))
        .accepted;
    await read(1000);
    const ofReader = await rowsOfWorks([{ unit: 'first page', run: () => read(5000) }], three.directory, reader.stop);
    await around.end();
    for (const { remove } of [one, two, three]) remove();
    return { ...ofHub, ...ofWide, ...ofReader };
  },
};
