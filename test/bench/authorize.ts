/**
 * P3: authorize in real time, a CPO asking an eMSP, closed loop over 64 connections: through the hub and through a bare proxy, in turns.
 */
import { admin } from '../support/plain-partner.ts';
import { otherBuild } from './against.ts';
import { type Around, aroundRow, startAround, watchAround } from './around.ts';
import type { ClosedLoad, LoadOutcome } from './load.ts';
import type { Serving } from './part.ts';
import { type CpuMicros, startPart, watchCpu } from './processes.ts';
import { baselineToken, type RequestShape } from './request.ts';
import type { Bench } from './run.ts';
import { register, scene } from './scene.ts';
import { ratios } from './statistics.ts';
import { type Column, inTurns, onMainThread, rowsOf, shareOfCore } from './turns.ts';

const connections = 64;

interface Way {
  readonly name: string;
  readonly url: string;
  readonly authorization: string;
  readonly pid: number;
  readonly end: () => Promise<void>;
}

interface Round extends CpuMicros {
  /** How many questions were answered. */
  readonly asked: number;
  readonly perS: number;
  readonly p95Ms: number;
  readonly aroundShare: number;
}

async function throughHub(receiver: string, build?: readonly string[]): Promise<Way> {
  const { hub, end } = await scene({}, [], build);
  const authorization = await register(hub, { role: 'CPO', partyId: 'CPO', url: receiver });
  // Two, so that the headers decide who is asked.
  for (const partyId of ['EMS', 'SEC']) {
    await register(hub, { role: 'EMSP', partyId, url: receiver });
    await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
  }
  return { name: build ? 'other build' : 'hub', url: hub.url, authorization, pid: hub.pid, end };
}

async function throughProxy(receiver: string): Promise<Way> {
  const { ready, pid, end } = await startPart<Serving>('bare-proxy', 'measured', {
    receiver,
    concurrency: connections,
  });
  return { name: 'bare proxy', url: ready.url, authorization: baselineToken, pid, end };
}

export const question = (authorization: string): RequestShape => ({
  method: 'POST',
  path: '/ocpi/2.2.1/tokens/CARD1/authorize?type=RFID',
  headers: {
    ...{ Authorization: authorization, 'Content-Type': 'application/json' },
    ...{ 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' },
  },
  body: '{"location_id":"LOC1","evse_uids":["EVSE1"]}',
});

const columns: readonly Column<Round>[] = [
  ['requests per second', ({ perS }) => perS, 0],
  ['CPU per request, µs', ({ cpuMicros }) => cpuMicros, 0],
  onMainThread,
  shareOfCore,
  ['answered p95, ms', ({ p95Ms }) => p95Ms, 1],
];

export async function authorizeRound(
  { name, url, authorization, pid }: Way,
  around: Around,
  seconds: number,
): Promise<Round> {
  const aroundShare = watchAround(around);
  const cpu = watchCpu(pid);
  const options: ClosedLoad = { url, shape: question(authorization), connections, seconds, objects: 1 };
  const outcome = await around.load.ask<LoadOutcome>('closed', options);
  if (outcome.refused > 0) throw new Error(`${name} refused ${outcome.refused}: ${outcome.refusal}`);
  return {
    asked: outcome.accepted,
    perS: outcome.accepted / outcome.seconds,
    ...cpu(outcome.accepted),
    p95Ms: outcome.p95Ms,
    aroundShare: aroundShare(),
  };
}

export const authorize: Bench = {
  name: 'authorize',
  goal: 'P3',
  says: `authorize in real time from a CPO to an eMSP, ${connections} connections`,
  async run(progress, { isShort }) {
    const [turns, seconds] = isShort ? [3, 1.5] : [5, 3];
    const around = await startAround(3);
    const [first = '', second = '', third = ''] = around.receiver.ready.urls;
    const ways = [await throughHub(first), await throughProxy(second)];
    if (otherBuild) ways.push(await throughHub(third, otherBuild));
    for (const way of ways) {
      const { perS } = await authorizeRound(way, around, isShort ? 3 : 8);
      progress(`warming up, ${way.name}: ${Math.round(perS)} requests/s`);
    }
    const measured = await inTurns<Way, Round>(ways, turns, async (way, turn) => {
      const round = await authorizeRound(way, around, seconds);
      const said = `${Math.round(round.perS)} requests/s, ${Math.round(round.cpuMicros)} µs of CPU each`;
      progress(`round ${turn} of ${turns}, ${way.name}: ${said}`);
      return round;
    });
    await Promise.all([...ways.map(({ end }) => end()), around.end()]);
    const [hub = [], proxy = [], other] = measured.values();
    const of = (rounds: readonly Round[], what: keyof Round) => rounds.map((round) => round[what]);
    return {
      ...rowsOf('hub', hub, columns),
      ...rowsOf('bare proxy', proxy, columns),
      'ratio of requests per second, hub to bare proxy': ratios(of(hub, 'perS'), of(proxy, 'perS')),
      'ratio of CPU per request, bare proxy to hub (goal: ≥ 0.6)': ratios(of(proxy, 'cpuMicros'), of(hub, 'cpuMicros')),
      ...(other && {
        ...rowsOf('other build', other, columns),
        'ratio of CPU per request, other build to hub (goal: ≥ 0.97)': ratios(
          of(other, 'cpuMicros'),
          of(hub, 'cpuMicros'),
        ),
      }),
      ...aroundRow([...hub, ...proxy]),
    };
  },
};
