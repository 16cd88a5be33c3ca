/**
 * P4: one CPO's locations to 200 eMSPs, each at an address of its own: the hub, with a durable push before every fan-out, and bare PUTs of
 * undici to the same addresses, in turns.
 */
import { locationBody } from '../support/bodies.ts';
import { admin } from '../support/plain-partner.ts';
import { otherBuild } from './against.ts';
import { type Around, aroundRow, startAround, watchAround } from './around.ts';
import type { Sending } from './baselines/bare-puts.ts';
import type { ClosedLoad, LoadOutcome } from './load.ts';
import { type CpuMicros, startPart, watchCpu } from './processes.ts';
import type { Arrivals } from './receiver.ts';
import { microseconds, objectMark, type RequestShape, sentMember } from './request.ts';
import type { Bench, Figures } from './run.ts';
import { register, scene } from './scene.ts';
import { ratios } from './statistics.ts';
import { arrival } from './systems.ts';
import { type Column, inTurns, onMainThread, rowsOf, shareOfCore } from './turns.ts';

export const fanOutReceivers = 200;
/** In flight to each. */
const inFlight = 8;
/** Connections of the CPO. */
const connections = 8;

interface Round extends CpuMicros {
  readonly perS: number;
  readonly arrived: number;
  readonly aroundShare: number;
}

interface Way {
  readonly name: string;
  readonly pid: number;
  /** Has so many locations sent to every receiver; resolves when it has done its own part. */
  readonly send: (objects: number) => Promise<void>;
  readonly end: () => Promise<void>;
}

interface HubWay extends Way {
  /** A push of a location to this URL. */
  readonly url: string;
  readonly shape: RequestShape;
}

function locationPut(path: string, headers: Readonly<Record<string, string>>): RequestShape {
  const directions = ['en', 'nl', 'de'].map((language) => ({
    language,
    text: 'Second level, behind the lifts '.repeat(3),
  }));
  const text = JSON.stringify(locationBody(`L${objectMark}`, { directions }));
  const body = `{${sentMember}${text.slice(1)}`;
  return { method: 'PUT', path, headers: { ...headers, 'Content-Type': 'application/json' }, body };
}

/** A hub to which a CPO and all the receivers are registered. */
export async function fanOutHub(
  { load, receiver }: Around,
  progress: (line: string) => void,
  nodeFlags: readonly string[] = [],
  build?: readonly string[],
): Promise<HubWay> {
  const env = { HUB_DELIVERY_CONCURRENCY: String(inFlight) };
  const { hub, end } = await scene(env, nodeFlags, build);
  const [first = '', ...urls] = receiver.ready.urls;
  const Authorization = await register(hub, { role: 'CPO', partyId: 'CPO', url: first });
  const onboard = async (url: string, n: number) => {
    const partyId = `${String.fromCharCode(65 + Math.floor(n / 100))}${String(n % 100).padStart(2, '0')}`;
    await register(hub, { role: 'EMSP', partyId, url });
    await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
  };
  await Promise.all(urls.map(onboard));
  progress(`${urls.length} eMSPs registered`);
  const shape = locationPut(`/ocpi/2.2.1/locations/NL/CPO/L${objectMark}`, { Authorization });
  const send = async (objects: number) => {
    const options: ClosedLoad = { url: hub.url, shape, connections, objects, requests: objects, seconds: 600 };
    const { accepted, refusal } = await load.ask<LoadOutcome>('closed', options);
    if (accepted < objects) throw new Error(`the hub refused: ${refusal}`);
  };
  return { name: build ? 'other build' : 'hub', pid: hub.pid, url: hub.url, shape, send, end };
}

async function bareWay({ receiver }: Around): Promise<Way> {
  const [, ...urls] = receiver.ready.urls;
  const { pid, ask, end } = await startPart('bare-puts', 'measured', { receivers: urls, concurrency: inFlight });
  const shape = locationPut(`/EMSP/2.2.1/locations/NL/CPO/L${objectMark}`, { authorization: 'Token b3V0' });
  return { name: 'bare PUTs', pid, send: (objects) => ask('send', { shape, objects } satisfies Sending), end };
}

const columns: readonly Column<Round>[] = [
  ['deliveries per second', ({ perS }) => perS, 0],
  ['CPU per delivery, µs', ({ cpuMicros }) => cpuMicros, 0],
  onMainThread,
  shareOfCore,
  ['arrived, %', ({ arrived }) => 100 * arrived, 1],
];

export async function fanOutRound(way: Way, around: Around, objects: number): Promise<Round> {
  const { receiver } = around;
  await receiver.ask('reset');
  const aroundShare = watchAround(around);
  const [cpu, startedAt] = [watchCpu(way.pid), microseconds()];
  const expected = objects * fanOutReceivers;
  await way.send(objects);
  await arrival(receiver, expected);
  const { arrived, lastAt } = await receiver.ask<Arrivals>('arrivals');
  return {
    perS: arrived / ((lastAt - startedAt) / 1e6),
    ...cpu(arrived),
    arrived: arrived / expected,
    aroundShare: aroundShare(),
  };
}

/** The hub and bare PUTs in turns, with receivers that take so long to answer, one after the other. */
const toAll = (name: string, goal: 'P4' | 'L2', least: number, answersMs: readonly number[]): Bench => ({
  name,
  goal,
  says: `locations of 1 KB to ${fanOutReceivers} eMSPs that answer in ${answersMs.join(', ')} ms, ${inFlight} in flight to each at most`,
  async run(progress, { isShort }) {
    const [turns, objects, warmUp] = isShort ? [3, 25, 50] : [5, 200, 100];
    const around = await startAround(fanOutReceivers + 1);
    const ways: Way[] = [await fanOutHub(around, progress), await bareWay(around)];
    if (otherBuild) ways.push(await fanOutHub(around, progress, [], otherBuild));
    for (const way of ways) {
      const { perS } = await fanOutRound(way, around, warmUp);
      progress(`warming up, ${way.name}: ${Math.round(perS)} deliveries/s`);
    }
    const all: Round[] = [];
    let figures: Figures = {};
    for (const ms of answersMs) {
      await around.receiver.ask('answerAfter', { ms });
      const measured = await inTurns<Way, Round>(ways, turns, async (way, turn) => {
        const round = await fanOutRound(way, around, objects);
        const said = `${Math.round(round.perS)} deliveries/s, ${Math.round(round.cpuMicros)} µs of CPU each`;
        progress(`answers in ${ms} ms, round ${turn} of ${turns}, ${way.name}: ${said}`);
        return round;
      });
      figures = { ...figures, ...compared(`${ms} ms, `, least, [...measured.values()]) };
      all.push(...[...measured.values()].flat());
    }
    await Promise.all([...ways.map(({ end }) => end()), around.end()]);
    return { ...figures, ...aroundRow(all) };
  },
});

function compared(head: string, least: number, [hub = [], bare = [], other]: readonly (readonly Round[])[]): Figures {
  const of = (rounds: readonly Round[], what: keyof Round) => rounds.map((round) => round[what]);
  const cpuBeside = (rounds: readonly Round[]) => ratios(of(rounds, 'cpuMicros'), of(hub, 'cpuMicros'));
  return {
    ...rowsOf(`${head}hub`, hub, columns),
    ...rowsOf(`${head}bare PUTs`, bare, columns),
    [`${head}ratio of deliveries per second, hub to bare PUTs (goal: ≥ ${least})`]: ratios(
      of(hub, 'perS'),
      of(bare, 'perS'),
    ),
    [`${head}ratio of CPU per delivery, bare PUTs to hub`]: cpuBeside(bare),
    ...(other && {
      ...rowsOf(`${head}other build`, other, columns),
      [`${head}ratio of CPU per delivery, other build to hub (goal: ≥ 0.97)`]: cpuBeside(other),
    }),
  };
}

export const fanOut = toAll('fan-out', 'P4', 0.85, [0]);
export const slowFanOut = toAll('slow-fan-out', 'L2', 0.7, [20, 50, 200]);
