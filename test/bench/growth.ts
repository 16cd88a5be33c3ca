/**
 * P9: whether a push costs more where much is stored, or where there are many partners: updates of sessions, durable and forwarded to one
 * receiver, on a small hub and on a large one, in turns. Both are pushed to a thousand objects again and again, which stand evenly among all
 * that are stored. How it is when each push meets another one of a million is measured too: then memory holds none of them.
 */
import { builtHub } from '../support/child-hub.ts';
import { pinnedTo, startPart } from './processes.ts';
import type { Bench, Figures } from './run.ts';
import { type Past, siteWith, stride } from './site.ts';
import { ratios, rounded, spread } from './statistics.ts';
import { inFlight, type PushSystem, pushRound, type Round } from './systems.ts';

const connections = 64;
/** Objects that are pushed to. */
const active = 1_000;

interface Grown {
  readonly name: string;
  /** Of what there is more. */
  readonly what: 'objects' | 'partners';
  /** Each push to another object. */
  readonly isScattered?: true;
  readonly small: Past & { objects: number };
  readonly large: Past & { objects: number };
}

const few = { objects: active };

const grownTo = (objects: number, partners: number): readonly Grown[] => [
  { name: 'objects', what: 'objects', small: few, large: { objects } },
  { name: 'objects, each push another', what: 'objects', isScattered: true, small: few, large: { objects } },
  { name: 'partners', what: 'partners', small: { ...few, partners: 10 }, large: { ...few, partners } },
];

export const growth: Bench = {
  name: 'growth',
  goal: 'P9',
  says: `a push on a hub that holds little and on one that holds much, ${connections} connections`,
  async run(progress, { isShort }) {
    const [rounds, requests] = isShort ? [5, 1_500] : [7, 8_000];
    const load = await startPart<unknown>('load', 'around');
    let figures: Figures = {};
    for (const { name, what, isScattered, small, large } of isShort
      ? grownTo(100_000, 500)
      : grownTo(1_000_000, 2_000)) {
      const sizes = [small, large];
      const hubs = await Promise.all(
        sizes.map(async (past) => {
          const site = await siteWith(past, progress);
          const env = { HUB_DELIVERY_CONCURRENCY: String(inFlight) };
          const { url, pid, kill } = await site.start({ env, run: [...pinnedTo('measured'), ...builtHub] });
          const system: PushSystem = { name: 'hub', url, authorization: site.cpo, pids: [pid], end: kill };
          return { past, system, around: { load, receiver: site.receiver, end: async () => {} }, done: [] as Round[] };
        }),
      );
      for (let round = 0; round <= rounds; round++) {
        const said: string[] = [];
        for (const { past, system, around, done } of hubs) {
          const { objects } = past;
          const chosen = isScattered ? { step: stride, from: round * requests } : { step: objects / active };
          const driven = { connections, seconds: 600, requests, objects, ...chosen };
          const one = await pushRound(system, around, driven);
          if (round > 0) done.push(one);
          const holds = past[what];
          said.push(`${holds} ${what} ${rounded(one.cpuMicros, 0)} µs, ${rounded(one.perS, 0)}/s`);
        }
        progress(`${name}, ${round === 0 ? 'warming up' : `round ${round} of ${rounds}`}: ${said.join(', ')}`);
      }
      for (const { system } of hubs) await system.end();
      figures = { ...figures, ...rows(name, what, hubs) };
    }
    await load.end();
    return figures;
  },
};

function rows(name: string, what: Grown['what'], hubs: readonly { past: Past; done: readonly Round[] }[]): Figures {
  const [small, large] = hubs.map(({ done }) => done);
  const of = (rounds: readonly Round[] | undefined, field: 'cpuMicros' | 'perS' | 'forwarded') =>
    (rounds ?? []).map((round) => round[field]);
  const each = hubs.map(({ past, done }) => {
    const holds = `${past[what]} ${name}`;
    return {
      [`${holds}: CPU for a push, µs`]: spread(of(done, 'cpuMicros'), 0),
      [`${holds}: pushes per second`]: spread(of(done, 'perS'), 0),
      [`${holds}: forwarded in the end, %`]: spread(
        of(done, 'forwarded').map((share) => 100 * share),
        1,
      ),
    };
  });
  return {
    ...Object.assign({}, ...each),
    [`${name}: ratio of CPU, much to little (goal: at most 1.2)`]: ratios(
      of(large, 'cpuMicros'),
      of(small, 'cpuMicros'),
    ),
    [`${name}: ratio of pushes per second, much to little`]: ratios(of(large, 'perS'), of(small, 'perS')),
  };
}
