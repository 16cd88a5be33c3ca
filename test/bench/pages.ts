/**
 * P5: pages of 100 of a long list over HTTP, total counted: whether depth costs, and what finding and reading a page costs beside answering
 * the same bytes from memory. Of one CPO's sessions, and of the tariffs of 500 CPOs (a fifth as many), whose lists are merged. In turns.
 */
import { builtHub } from '../support/child-hub.ts';
import type { Answered } from './baselines/same-bytes.ts';
import type { ClosedLoad, LoadOutcome } from './load.ts';
import type { Serving } from './part.ts';
import { type BenchProcess, cpuS, pinnedTo, startPart } from './processes.ts';
import { objectMark, type RequestShape } from './request.ts';
import type { Bench, Figures, RunOptions } from './run.ts';
import { type Past, siteWith } from './site.ts';
import { ratios, rounded, spread } from './statistics.ts';

const limit = 100;
const sessionsPath = '/ocpi/2.2.1/sessions?date_from=2020-01-01T00:00:00Z&';
const connections = 4;
/** From page to page: not one page again and again. */
const step = 7;
/** So many times as many pages of what is quick: a server that answers from memory would else be measured while it warms up. */
const quickTimes = 5;

interface Round {
  readonly perS: number;
  readonly cpuMicros: number;
  readonly p50Ms: number;
}

interface Way {
  readonly name: string;
  readonly pid: number;
  /** Of the pages of a round. */
  readonly times: number;
  readonly options: Omit<ClosedLoad, 'seconds' | 'connections'>;
}

/** A hub with so many sessions of one CPO, and its first page asked for over and over. */
export async function firstPage(objects: number, progress: (line: string) => void, nodeFlags: readonly string[]) {
  const site = await siteWith({ objects }, progress);
  const [node = '', ...command] = builtHub;
  const hub = await site.start({ run: [...pinnedTo('measured'), node, ...nodeFlags, ...command] });
  const shape = pageAt(sessionsPath, '0', site.emsp);
  return { hub, asked: { url: hub.url, shape, objects, connections } };
}

export const pages: Bench = {
  name: 'pages',
  goal: 'P5',
  says: `pages of ${limit} of a million objects over HTTP, first, deep, and from memory`,
  async run(progress, { isShort }) {
    const objects = isShort ? 100_000 : 1_000_000;
    const load = await startPart<unknown>('load', 'around');
    const memory = await startPart<Serving>('same-bytes', 'measured');
    const around = { load, memory, progress, isShort };
    const one = await measure({ objects }, 'one owner', sessionsPath, around);
    const merged = { objects: objects / 5, owners: 500 };
    const many = isShort ? {} : await measure(merged, '500 owners', '/ocpi/2.2.1/tariffs?', around);
    await Promise.all([load.end(), memory.end()]);
    return { objects, ...one, ...many };
  },
};

function pageAt(path: string, offset: string, authorization: string): RequestShape {
  const headers = { Authorization: authorization };
  return { method: 'GET', path: `${path}limit=${limit}&offset=${offset}`, headers, body: '' };
}

interface Around extends RunOptions {
  readonly load: BenchProcess<unknown>;
  readonly memory: BenchProcess<Serving>;
  readonly progress: (line: string) => void;
}

async function measure(
  past: Past & { objects: number },
  name: string,
  path: string,
  { load, memory, progress, isShort }: Around,
): Promise<Figures> {
  const [rounds, pagesARound] = isShort ? [5, 200] : [7, 1_000];
  const { objects } = past;
  const site = await siteWith(past, progress);
  const hub = await site.start({ run: [...pinnedTo('measured'), ...builtHub] });
  const at = (offset: string) => pageAt(path, offset, site.emsp);
  await memory.ask('hold', await answerOf(hub.url, at('0'), objects));
  const span = { objects, step };
  const ways: Way[] = [
    { name: 'first', pid: hub.pid, times: 1, options: { url: hub.url, shape: at(objectMark), ...span } },
    {
      ...{ name: 'deep', pid: hub.pid, times: 1 },
      options: { url: hub.url, shape: at(objectMark), ...span, from: 0.9 * objects },
    },
    { name: 'the first', pid: hub.pid, times: quickTimes, options: { url: hub.url, shape: at('0'), objects } },
    {
      ...{ name: 'from memory', pid: memory.pid, times: quickTimes },
      options: { url: memory.ready.url, shape: at('0'), objects },
    },
  ];
  const measured = new Map<string, Round[]>();
  for (let round = 0; round <= rounds; round++) {
    const said: string[] = [];
    for (const { name: way, pid, times, options } of ways) {
      const cpuBefore = cpuS(pid);
      const asked: ClosedLoad = { ...options, connections, requests: times * pagesARound, seconds: 600 };
      const { accepted, refusal, seconds, p50Ms } = await load.ask<LoadOutcome>('closed', asked);
      if (refusal !== null) throw new Error(`a page was refused: ${refusal}`);
      const cpuMicros = ((cpuS(pid) - cpuBefore) * 1e6) / accepted;
      said.push(`${way} ${rounded(p50Ms)} ms`);
      const done = measured.get(way) ?? [];
      if (round > 0) measured.set(way, [...done, { perS: accepted / seconds, cpuMicros, p50Ms }]);
    }
    progress(`${name}, ${round === 0 ? 'warming up' : `round ${round} of ${rounds}`}: ${said.join(', ')}`);
  }
  await hub.kill();
  const of = (way: string, what: keyof Round) => (measured.get(way) ?? []).map((round) => round[what]);
  return {
    [`${name}: first pages, p50 ms`]: spread(of('first', 'p50Ms')),
    [`${name}: pages from ${0.9 * objects} on, p50 ms`]: spread(of('deep', 'p50Ms')),
    [`${name}: ratio, deep to first (goal: at most 1.5)`]: ratios(of('deep', 'p50Ms'), of('first', 'p50Ms')),
    [`${name}: CPU for a page, first and deep, µs`]: spread(
      [...of('first', 'cpuMicros'), ...of('deep', 'cpuMicros')],
      0,
    ),
    [`${name}: ratio of CPU, deep to first`]: ratios(of('deep', 'cpuMicros'), of('first', 'cpuMicros')),
    [`${name}: the first page, pages/s`]: spread(of('the first', 'perS'), 0),
    [`${name}: the same bytes from memory, pages/s`]: spread(of('from memory', 'perS'), 0),
    [`${name}: ratio, to memory (goal: at least 0.3)`]: ratios(of('the first', 'perS'), of('from memory', 'perS')),
    [`${name}: ratio of CPU, memory to the first page`]: ratios(
      of('from memory', 'cpuMicros'),
      of('the first', 'cpuMicros'),
    ),
  };
}

/** What the hub answers, to be answered from memory. */
async function answerOf(url: string, { path, headers }: RequestShape, total: number): Promise<Answered> {
  const answer = await fetch(`${url}${path}`, { headers });
  const body = await answer.text();
  const { length } = (JSON.parse(body) as { data: unknown[] }).data;
  if (length !== limit || answer.headers.get('x-total-count') !== String(total)) {
    throw new Error(`a page of ${length} of ${answer.headers.get('x-total-count')}`);
  }
  const own = new Set(['connection', 'keep-alive', 'date', 'content-length', 'transfer-encoding']);
  return { headers: Object.fromEntries([...answer.headers].filter(([name]) => !own.has(name))), body };
}
