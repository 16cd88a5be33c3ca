/**
 * What the heap of a hub holds for each partner that does nothing and for each command whose result is awaited: after a collection, in
 * hubs that differ by nothing else.
 */
import { once } from 'node:events';
import { builtHub } from '../support/child-hub.ts';
import type { Bench } from './run.ts';
import { type Past, siteWith } from './site.ts';
import { median, rounded } from './statistics.ts';

const readings = 5;
/** In the hub's process: says after a signal what is in use when all garbage is gone. */
const probe = [
  "process.on('SIGUSR2', () => {",
  '  for (let n = 0; n < 4; n++) gc();',
  "  process.stderr.write('heap ' + process.memoryUsage().heapUsed + '\\n');",
  '});',
].join('');
const [node = '', ...command] = builtHub;
const probedHub = [node, '--expose-gc', `--import=data:text/javascript,${encodeURIComponent(probe)}`, ...command];

interface Reading {
  readonly heap: number;
  readonly readyS: number;
}

async function readingOf(past: Past, progress: (line: string) => void): Promise<Reading> {
  const site = await siteWith(past, progress);
  const begun = performance.now();
  const hub = await site.start({ run: probedHub });
  const readyS = (performance.now() - begun) / 1000;
  const heaps: number[] = [];
  for (let n = 0; n < readings; n++) {
    const said = hub.log().length;
    process.kill(hub.pid, 'SIGUSR2');
    let heap: string | undefined;
    while (heap === undefined) {
      await once(AbortSignal.timeout(50), 'abort');
      heap = /heap (\d+)\n/.exec(hub.log().slice(said))?.[1];
    }
    heaps.push(Number(heap));
  }
  await hub.kill();
  return { heap: median(heaps), readyS };
}

export const memory: Bench = {
  name: 'memory',
  goal: 'P7',
  says: 'heap for each idle partner with its actors, and for each open command',
  async run(progress, { isShort }) {
    const sizes = isShort ? [1_000, 10_000] : [10_000, 100_000];
    const figures: Record<string, number> = {};
    const rest = await readingOf({}, progress);
    figures['heap of a hub with two partners, MiB'] = rounded(rest.heap / 2 ** 20, 1);
    for (const [what, goal] of [
      ['partners', 8],
      ['commands', 2],
    ] as const) {
      for (const size of sizes) {
        const { heap, readyS } = await readingOf({ [what]: size }, progress);
        const each = (heap - rest.heap) / size / 1024;
        figures[`heap for each of ${size} ${what}, KiB (goal: at most ${goal})`] = rounded(each);
        figures[`ready with ${size} ${what}, s`] = rounded(readyS);
        progress(`${size} ${what}: ${rounded(each)} KiB each, ready in ${rounded(readyS)} s`);
      }
    }
    return figures;
  },
};
