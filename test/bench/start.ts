/**
 * How long a hub takes from its start until it serves, on a store with a million events, against what
 * opening the store costs: a process that opens it and ends. A program that only reads what memory is made of (rows, open deliveries,
 * floors, timers, the end of the log) and does nothing with it shows what of that is reading. In turns. Then how long the rest is
 * verified in the background.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { cpuS } from './processes.ts';
import type { Bench } from './run.ts';
import { verifiedWhole } from './scene.ts';
import { siteWith } from './site.ts';
import { ratios, rounded, spread } from './statistics.ts';

const sizes = { objects: 100_000, pushes: 10 };
const shortSizes = { objects: 10_000, pushes: 10 };
const turns = 5;

const opener = fileURLToPath(new URL('./opening/child.js', import.meta.url));

interface Bare {
  readonly engineS: number;
  readonly memoryS: number;
}

export const start: Bench = {
  name: 'start',
  says: 'ready after a restart, against what opening the database costs, and the verification in the background',
  async run(progress, { isShort }) {
    const past = isShort ? shortSizes : sizes;
    const site = await siteWith(past, progress);
    const bare: Bare[] = [];
    const openingS: number[] = [];
    const openingCpuS: number[] = [];
    const readyS: number[] = [];
    const readyCpuS: number[] = [];
    const restS: number[] = [];
    let events = 0;
    // Once, so that every turn begins after a clean end of the hub.
    await (await site.start()).stop();
    for (let turn = 0; turn < turns; turn++) {
      const directory = join(site.dataDir, 'store');
      const { stdout } = await promisify(execFile)(process.execPath, [opener, directory, 'bare']);
      bare.push(JSON.parse(stdout) as Bare);
      const begun = performance.now();
      const opened = await promisify(execFile)(process.execPath, [opener, directory, 'store']);
      openingCpuS.push(Number(opened.stdout));
      openingS.push((performance.now() - begun) / 1000);
      const started = performance.now();
      const hub = await site.start();
      readyS.push((performance.now() - started) / 1000);
      readyCpuS.push(cpuS(hub.pid));
      events = await verifiedWhole(hub);
      restS.push((performance.now() - started) / 1000);
      await hub.stop();
      const said = [openingS.at(-1), readyS.at(-1), restS.at(-1)].map((seconds) => rounded(seconds ?? 0));
      progress(`turn ${turn + 1}: opened in ${said[0]} s, ready in ${said[1]} s, verified whole after ${said[2]} s`);
    }
    return {
      events,
      'the engine opens, s': spread(bare.map(({ engineS }) => engineS)),
      'what memory is made of, read and nothing else, s': spread(bare.map(({ memoryS }) => memoryS)),
      'opening: a process that opens the store, s': spread(openingS),
      'ready, s': spread(readyS),
      'ratio of ready to opening (goal: at most 1.2)': ratios(readyS, openingS),
      'opening, s of CPU': spread(openingCpuS),
      'ready, s of CPU': spread(readyCpuS),
      'ratio of CPU': ratios(readyCpuS, openingCpuS),
      'verified whole after, s': spread(restS),
    };
  },
};
