/**
 * L1: pushes at a fixed rate, open loop, to one eMSP that takes a while to answer: a hub with its default settings (only its limits of
 * rates are lifted) and the bare parts in turns. At 200 ms the rate needs 120 in flight; the bare parts have 64.
 */
import { type Around, aroundRow, startAround } from './around.ts';
import { canPin } from './processes.ts';
import type { Bench, Figures } from './run.ts';
import { ratios, rounded } from './statistics.ts';
import { bareParts, hubSystem, inFlight, type PushSystem, pushRound, type Round, warmUp } from './systems.ts';
import { type Column, inTurns, onMainThread, rowsOf } from './turns.ts';

const perS = 600;
const connections = 64;
const answersMs = [20, 50, 200];

const columns: readonly Column<Round>[] = [
  ['pushes accepted per second', (round) => round.perS, 0],
  ['forwarded per second while the load ran', (round) => round.perS * round.forwardedAtOnce, 0],
  ['forwarded in the end, %', ({ forwarded }) => 100 * forwarded, 1],
  ['accept to receiver p50, ms', ({ arrivals }) => arrivals.p50Ms, 0],
  ['accept to receiver p95, ms', ({ arrivals }) => arrivals.p95Ms, 0],
  ['answered p95, ms', ({ answers }) => answers.p95Ms, 1],
  ['in flight at the receiver, most', ({ arrivals }) => arrivals.inFlightMost, 0],
  ['in flight at the receiver, mean', ({ arrivals }) => arrivals.inFlightMean, 1],
  ['CPU per push, µs', ({ cpuMicros }) => cpuMicros, 0],
  onMainThread,
  ...(canPin ? ([['others had of its core, %', ({ othersShare }) => 100 * othersShare, 0]] as Column<Round>[]) : []),
];

export const slowReceiver: Bench = {
  name: 'slow-receiver',
  goal: 'L1',
  says: `${perS} pushes/s to one eMSP that answers in ${answersMs.join(', ')} ms, default settings (goals: all forwarded, p95 ≤ 500 ms)`,
  async run(progress, { isShort }) {
    const [turns, seconds] = isShort ? [1, 3] : [3, 10];
    const around = await startAround(2);
    const [first = '', second = ''] = around.receiver.ready.urls;
    const systems: readonly PushSystem[] = [
      await hubSystem(first, [], {}),
      { ...(await bareParts(second)), name: `bare parts, ${inFlight} in flight` },
    ];
    await warmUp(systems, around, { isShort, progress });
    const all: Round[] = [];
    let figures: Figures = {};
    for (const ms of answersMs) {
      const measured = await measure(systems, around, { ms, rounds: turns, seconds, progress });
      const [hub = [], bare = []] = measured.values();
      const rows = [...measured].map(([{ name }, of]) => rowsOf(`${ms} ms, ${name}`, of, columns));
      const p95 = (of: readonly Round[]) => of.map(({ arrivals }) => arrivals.p95Ms);
      const compared = { [`${ms} ms: ratio of the p95, hub to bare parts`]: ratios(p95(hub), p95(bare)) };
      figures = Object.assign({}, figures, ...rows, compared);
      all.push(...hub, ...bare);
    }
    await Promise.all([...systems.map(({ end }) => end()), around.end()]);
    return { ...figures, ...aroundRow(all) };
  },
};

interface Measuring {
  readonly ms: number;
  readonly rounds: number;
  readonly seconds: number;
  readonly progress: (line: string) => void;
}

async function measure(systems: readonly PushSystem[], around: Around, { ms, rounds, seconds, progress }: Measuring) {
  await around.receiver.ask('answerAfter', { ms });
  return inTurns(systems, rounds, async (system, turn) => {
    const round = await pushRound(system, around, { connections, seconds, perS });
    const { p95Ms, inFlightMost } = round.arrivals;
    progress(
      `answers in ${ms} ms, ${system.name}, ${turn}: p95 ${rounded(p95Ms, 0)} ms, ${inFlightMost} in flight at most`,
    );
    return round;
  });
}
