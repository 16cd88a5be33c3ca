/**
 * T1: how long a driver waits while the hub is busy: authorize at a fixed rate, open loop, alone and beside 1,000 pushes a second of another CPO,
 * in turns on one hub.
 */
import { admin } from '../support/plain-partner.ts';
import { type Around, aroundRow, startAround, watchAround } from './around.ts';
import { question } from './authorize.ts';
import type { LoadOutcome, OpenLoad } from './load.ts';
import { type BenchProcess, startPart } from './processes.ts';
import type { Bench } from './run.ts';
import { register, scene } from './scene.ts';
import { ratios, rounded } from './statistics.ts';
import { sessionPush } from './systems.ts';
import { type Column, inTurns, rowsOf } from './turns.ts';

const asked = { perS: 100, connections: 16 };
const pushed = { perS: 1_000, connections: 64, objects: 10_000 };
const goal = 3;

interface Round {
  readonly answers: Pick<LoadOutcome, 'p50Ms' | 'p95Ms' | 'p99Ms'>;
  /** Pushes accepted a second; 0 in a round without. */
  readonly pushesPerS: number;
  readonly pushedP95Ms: number;
  readonly aroundShare: number;
}

const columns: readonly Column<Round>[] = [
  ['authorize p50, ms', ({ answers }) => answers.p50Ms, 1],
  ['authorize p95, ms', ({ answers }) => answers.p95Ms, 1],
  ['authorize p99, ms', ({ answers }) => answers.p99Ms, 1],
  ['pushes accepted per second', ({ pushesPerS }) => pushesPerS, 0],
  ['a push answered p95, ms', ({ pushedP95Ms }) => pushedP95Ms, 1],
];

export const besidePushes: Bench = {
  name: 'beside-pushes',
  goal: 'T1',
  says: `authorize, ${asked.perS}/s, alone and beside ${pushed.perS} pushes/s (goal: p99 ≤ ${goal} times its p99 alone)`,
  async run(progress, { isShort }) {
    const [turns, seconds] = isShort ? [3, 3] : [7, 10];
    const around = await startAround(2);
    const pusher = await startPart<unknown>('load', 'around');
    const [first = '', second = ''] = around.receiver.ready.urls;
    const { hub, end } = await scene();
    const asking = await register(hub, { role: 'CPO', partyId: 'CPO', url: first });
    const pushing = await register(hub, { role: 'CPO', partyId: 'CP2', url: first });
    await register(hub, { role: 'EMSP', partyId: 'EMS', url: second });
    for (const cpo of ['NL-CPO', 'NL-CP2']) await admin(hub, 'PUT', `/routes/NL-EMS/${cpo}`, { active: true });
    const questions = (forS: number): OpenLoad => ({
      ...{ url: hub.url, shape: question(asking), ...asked, objects: 1, seconds: forS },
    });
    const pushes = (forS: number): OpenLoad => ({
      ...{ url: hub.url, shape: sessionPush(pushing, 'CP2'), ...pushed, seconds: forS },
    });
    await round(around, pusher, questions(seconds), pushes(seconds * 2));
    const measured = await inTurns<string, Round>(['alone', 'beside pushes'], turns, async (way, turn) => {
      const done = await round(around, pusher, questions(seconds), way === 'alone' ? null : pushes(seconds));
      progress(`round ${turn} of ${turns}, ${way}: p99 ${rounded(done.answers.p99Ms, 1)} ms`);
      return done;
    });
    await Promise.all([end(), around.end(), pusher.end()]);
    const [alone = [], beside = []] = measured.values();
    const p99 = (rounds: readonly Round[]) => rounds.map(({ answers }) => answers.p99Ms);
    return {
      ...rowsOf('alone', alone, columns.slice(0, 3)),
      ...rowsOf('beside pushes', beside, columns),
      [`ratio of the p99, beside pushes to alone (goal: ≤ ${goal})`]: ratios(p99(beside), p99(alone)),
      ...aroundRow([...alone, ...beside]),
    };
  },
};

async function round(
  around: Around,
  pusher: BenchProcess<unknown>,
  questions: OpenLoad,
  pushes: OpenLoad | null,
): Promise<Round> {
  await around.receiver.ask('reset');
  const aroundShare = watchAround(around);
  const [answers, taken] = await Promise.all([
    around.load.ask<LoadOutcome>('open', questions),
    pushes && pusher.ask<LoadOutcome>('open', pushes),
  ]);
  const refusal = answers.refusal ?? taken?.refusal;
  if (refusal) throw new Error(`the hub refused: ${refusal}`);
  return {
    answers,
    pushesPerS: taken ? taken.accepted / taken.seconds : 0,
    pushedP95Ms: taken?.p95Ms ?? 0,
    aroundShare: aroundShare(),
  };
}
