/**
 * L3: what one slow partner costs the others and the CPO: locations at a fixed rate, open loop, to 200 eMSPs, in turns with all of them quick
 * and with one that takes 2 s to answer. The slow one's arrivals are not measured.
 */
import { type Around, aroundRow, startAround, watchAround } from './around.ts';
import { fanOutHub, fanOutReceivers } from './fan-out.ts';
import type { LoadOutcome, OpenLoad } from './load.ts';
import type { Arrivals } from './receiver.ts';
import type { Bench } from './run.ts';
import { ratios, rounded } from './statistics.ts';
import { arrival } from './systems.ts';
import { type Column, inTurns, rowsOf } from './turns.ts';

const slowMs = 2_000;
const perS = 10;
const connections = 8;
const goal = 1.2;

interface Round {
  readonly answers: Pick<LoadOutcome, 'p50Ms' | 'p95Ms'>;
  readonly arrivals: Arrivals;
  /** Of what was owed to the others, 0…1. */
  readonly arrived: number;
  readonly aroundShare: number;
}

const columns: readonly Column<Round>[] = [
  ['accept to receiver p50, ms', ({ arrivals }) => arrivals.p50Ms, 1],
  ['accept to receiver p95, ms', ({ arrivals }) => arrivals.p95Ms, 1],
  ['a push answered p50, ms', ({ answers }) => answers.p50Ms, 1],
  ['a push answered p95, ms', ({ answers }) => answers.p95Ms, 1],
  ['arrived at the others, %', ({ arrived }) => 100 * arrived, 1],
];

export const slowPartner: Bench = {
  name: 'slow-partner',
  goal: 'L3',
  says: `${perS} locations/s to ${fanOutReceivers} eMSPs, one of which takes ${slowMs} ms (goal: p95 of the others ≤ ${goal} times without it)`,
  async run(progress, { isShort }) {
    const [turns, seconds] = isShort ? [3, 3] : [5, 10];
    const around = await startAround(fanOutReceivers + 1);
    const hub = await fanOutHub(around, progress);
    await hub.send(isShort ? 50 : 200);
    const measured = await inTurns<string, Round>(['all quick', 'one slow'], turns, async (way, turn) => {
      const done = await round(around, hub, { isSlow: way === 'one slow', seconds });
      progress(`round ${turn} of ${turns}, ${way}: p95 ${rounded(done.arrivals.p95Ms, 1)} ms`);
      return done;
    });
    await Promise.all([hub.end(), around.end()]);
    const [quick = [], slow = []] = measured.values();
    const p95 = (rounds: readonly Round[]) => rounds.map(({ arrivals }) => arrivals.p95Ms);
    const answered = (rounds: readonly Round[]) => rounds.map(({ answers }) => answers.p95Ms);
    return {
      ...rowsOf('all quick', quick, columns),
      ...rowsOf('one slow', slow, columns),
      [`ratio of the p95 at the others, one slow to all quick (goal: ≤ ${goal})`]: ratios(p95(slow), p95(quick)),
      'ratio of the p95 of answers to the CPO, one slow to all quick': ratios(answered(slow), answered(quick)),
      ...aroundRow([...quick, ...slow]),
    };
  },
};

async function round(
  around: Around,
  { url, shape }: Awaited<ReturnType<typeof fanOutHub>>,
  { isSlow, seconds }: { isSlow: boolean; seconds: number },
): Promise<Round> {
  const { load, receiver } = around;
  await receiver.ask('answerAfter', { ms: isSlow ? slowMs : 0, partner: 1 });
  await receiver.ask('reset');
  const aroundShare = watchAround(around);
  const options: OpenLoad = { url, shape, connections, perS, seconds, objects: perS * seconds };
  const { refusal, accepted, p50Ms, p95Ms } = await load.ask<LoadOutcome>('open', options);
  if (refusal) throw new Error(`the hub refused: ${refusal}`);
  const owed = accepted * (fanOutReceivers - 1);
  await arrival(receiver, owed);
  const arrivals = await receiver.ask<Arrivals>('arrivals');
  return { answers: { p50Ms, p95Ms }, arrivals, arrived: arrivals.arrived / owed, aroundShare: aroundShare() };
}
