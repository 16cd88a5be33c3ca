/**
 * P2: how long a push takes from the instant it was due until the receiver has it: open loop at half of what the hub takes in a closed loop,
 * the bare parts at the same rate in turns; then a closed loop over 256 connections, where what is accepted must still arrive.
 */
import { aroundRow, startAround } from './around.ts';
import { canPin, tellsWaiting } from './processes.ts';
import type { Bench } from './run.ts';
import { median, rounded } from './statistics.ts';
import { bareParts, type Driven, hubSystem, type PushSystem, pushRound, type Round, warmUp } from './systems.ts';
import { type Column, inTurns, rowsOf } from './turns.ts';

const connections = 64;
const many = 256;

/** Its own helpers, which share its core, are waited for too. */
const waited: Column<Round> = ['main thread waited for a core, ms a second', ({ waitedMsPerS }) => waitedMsPerS, 0];
/** What the machine did beside: with much of this a tail says little of the system. */
const othersHad: Column<Round> = ['others had of its core, %', ({ othersShare }) => 100 * othersShare, 0];

const columns: readonly Column<Round>[] = [
  ['accept to receiver p50, ms', ({ arrivals }) => arrivals.p50Ms, 1],
  ['accept to receiver p95, ms', ({ arrivals }) => arrivals.p95Ms, 1],
  ['accept to receiver p99, ms', ({ arrivals }) => arrivals.p99Ms, 1],
  ['answered p95, ms', ({ answers }) => answers.p95Ms, 1],
  ['accepted per second', ({ perS }) => perS, 0],
  ['refused, % of all', ({ refused, accepted }) => (100 * refused) / (refused + accepted), 1],
  ['forwarded when the load stopped, %', ({ forwardedAtOnce }) => 100 * forwardedAtOnce, 1],
  ['forwarded in the end, %', ({ forwarded }) => 100 * forwarded, 1],
  ...(tellsWaiting ? [waited] : []),
  ...(canPin ? [othersHad] : []),
];

export const latency: Bench = {
  name: 'latency',
  goal: 'P2',
  says: 'a push from the instant it was due to its arrival (goals: p95 < 50 ms, p99 < 250 ms; p95 < 1 s over 256 connections)',
  async run(progress, { isShort }) {
    const [turns, seconds] = isShort ? [3, 1] : [5, 4];
    const around = await startAround(2);
    const [first = '', second = ''] = around.receiver.ready.urls;
    const hub = await hubSystem(first);
    const systems: readonly PushSystem[] = [hub, await bareParts(second)];
    await warmUp(systems, around, { isShort, progress });
    const driven = (how: Driven) => async (system: PushSystem, turn: number) => {
      const round = await pushRound(system, around, how);
      const said = how.perS === undefined ? `${how.connections} connections` : `${how.perS}/s`;
      progress(`${system.name}, ${said}, ${turn}: p95 ${rounded(round.arrivals.p95Ms, 1)} ms`);
      return round;
    };
    const full = await inTurns([hub], isShort ? 1 : 3, driven({ connections, seconds }));
    const perS = Math.floor(median((full.get(hub) ?? []).map((round) => round.perS)) / 2);
    const half = await inTurns(systems, turns, driven({ connections, seconds, perS }));
    const crowded = await inTurns(systems, turns, driven({ connections: many, seconds }));
    await Promise.all([...systems.map(({ end }) => end()), around.end()]);
    const rows = [...half].map(([{ name }, rounds]) => rowsOf(`${name}, at half of the load`, rounds, columns));
    const ofMany = [...crowded].map(([{ name }, rounds]) => rowsOf(`${name}, ${many} connections`, rounds, columns));
    const all = [...half.values(), ...crowded.values()].flat();
    return Object.assign({ "half of the hub's load, pushes per second": perS }, ...rows, ...ofMany, aroundRow(all));
  },
};
