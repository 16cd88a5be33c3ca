/**
 * P1: durable pushes of sessions, each forwarded to one receiver, closed loop over 64 connections: the hub, the bare parts and, where Redis
 * is installed, BullMQ, in turns.
 */
import { otherBuild } from './against.ts';
import { aroundRow, startAround } from './around.ts';
import { isRedisInstalled } from './redis.ts';
import type { Bench, Figures } from './run.ts';
import { ratios, rounded } from './statistics.ts';
import { bareParts, bullmq, hubSystem, inFlight, type PushSystem, pushRound, type Round, warmUp } from './systems.ts';
import { type Column, inTurns, onMainThread, rowsOf, shareOfCore } from './turns.ts';

const connections = 64;

/** What the hub is to be beside each other system, by its rate or by the CPU of a push. */
const rateGoals: Readonly<Record<string, string>> = { BullMQ: ' (goal: ≥ 3)' };
const cpuGoals: Readonly<Record<string, string>> = {
  'bare parts': ' (goal: ≥ 0.6)',
  'other build': ' (goal: ≥ 0.97)',
};

const columns: readonly Column<Round>[] = [
  ['pushes accepted per second', ({ perS }) => perS, 0],
  ['CPU per push, µs', ({ cpuMicros }) => cpuMicros, 0],
  onMainThread,
  shareOfCore,
  ['refused', ({ refused }) => refused, 0],
  ['forwarded when the load stopped, %', ({ forwardedAtOnce }) => 100 * forwardedAtOnce, 1],
  ['forwarded in the end, %', ({ forwarded }) => 100 * forwarded, 1],
  ['accept to receiver p95, ms', ({ arrivals }) => arrivals.p95Ms, 1],
  ['answered p95, ms', ({ answers }) => answers.p95Ms, 1],
];

export const push: Bench = {
  name: 'push',
  goal: 'P1',
  says: `durable pushes of 1 KB with forward, ${connections} connections, ${inFlight} deliveries in flight at most`,
  async run(progress, { isShort }) {
    const [turns, seconds] = isShort ? [3, 1] : [5, 3];
    const around = await startAround(4);
    const [first = '', second = '', third = '', fourth = ''] = around.receiver.ready.urls;
    const systems: PushSystem[] = [await hubSystem(first), await bareParts(second)];
    if (isRedisInstalled) systems.push(await bullmq(third));
    else progress('BullMQ is left out: redis-server is not installed');
    if (otherBuild) systems.push(await hubSystem(fourth, [], undefined, otherBuild));
    await warmUp(systems, around, { isShort, progress });
    const measured = await inTurns(systems, turns, async (system, turn) => {
      const round = await pushRound(system, around, { connections, seconds });
      const said = `${rounded(round.perS, 0)} pushes/s, ${rounded(round.cpuMicros, 0)} µs of CPU each`;
      progress(`round ${turn} of ${turns}, ${system.name}: ${said}`);
      return round;
    });
    await Promise.all([...systems.map(({ end }) => end()), around.end()]);
    return figures([...measured]);
  },
};

function figures(measured: readonly (readonly [PushSystem, readonly Round[]])[]): Figures {
  const [[, hub = []] = [], ...others] = measured;
  const perS = (rounds: readonly Round[]) => rounds.map((round) => round.perS);
  const cpu = (rounds: readonly Round[]) => rounds.map(({ cpuMicros }) => cpuMicros);
  const compared = others.map(([{ name }, rounds]) => ({
    [`ratio of pushes per second, hub to ${name}${rateGoals[name] ?? ''}`]: ratios(perS(hub), perS(rounds)),
    [`ratio of CPU per push, ${name} to hub${cpuGoals[name] ?? ''}`]: ratios(cpu(rounds), cpu(hub)),
  }));
  const rows = measured.map(([{ name }, rounds]) => rowsOf(name, rounds, columns));
  return Object.assign({}, ...rows, ...compared, aroundRow(measured.flatMap(([, rounds]) => rounds)));
}
