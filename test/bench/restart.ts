/**
 * How long a hub takes from its start until it serves, on a store with a past, against a program that reads every record of the same
 * store and does nothing with it. In turns; the hub is measured from the start of its process, the scan from its opening of the store.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { admin } from '../support/plain-partner.ts';
import { cpuS } from './processes.ts';
import type { Bench } from './run.ts';
import { residentMiB } from './scene.ts';
import { siteWith } from './site.ts';
import { ratios, rounded, spread } from './statistics.ts';

const sizes = { objects: 100_000, pushes: 10, commands: 10_000 };
const shortSizes = { objects: 10_000, pushes: 10, commands: 1_000 };
const turns = 5;

const scanner = fileURLToPath(new URL('./raw-scan/child.js', import.meta.url));

interface Scan {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly records: number;
  readonly characters: number;
}

async function scan(directory: string): Promise<Scan> {
  const args = [scanner, directory];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 1 << 20 });
  return JSON.parse(stdout) as Scan;
}

export const restart: Bench = {
  name: 'restart',
  goal: 'P6',
  says: 'ready after a restart, against a scan of every record of the same store, in turns',
  async run(progress, { isShort }) {
    const past = isShort ? shortSizes : sizes;
    const site = await siteWith(past, progress);
    const store = join(site.dataDir, 'store');
    const scans: Scan[] = [];
    const readyS: number[] = [];
    const readyCpuS: number[] = [];
    let resident = 0;
    let events = 0;
    for (let turn = 0; turn < turns; turn++) {
      scans.push(await scan(store));
      const begun = performance.now();
      const hub = await site.start();
      readyS.push((performance.now() - begun) / 1000);
      readyCpuS.push(cpuS(hub.pid));
      resident = residentMiB(hub.pid);
      events = Number((await admin(hub, 'GET', '/status')).sequence);
      await hub.stop();
      const [scanned, ready] = [scans.at(-1)?.seconds ?? 0, readyS.at(-1) ?? 0].map((seconds) => rounded(seconds));
      progress(`turn ${turn + 1}: scanned in ${scanned} s, ready in ${ready} s`);
    }
    const [last] = scans;
    const scanS = scans.map(({ seconds }) => seconds);
    const scanCpuS = scans.map(({ cpuSeconds }) => cpuSeconds);
    return {
      events,
      ...{ objects: past.objects, 'open commands': past.commands },
      'records in the store': last?.records ?? 0,
      'characters in the store, millions': rounded((last?.characters ?? 0) / 1e6, 0),
      'scan of all records, s': spread(scanS),
      'ready, s': spread(readyS),
      'ratio of ready to scan (goal: at most 2)': ratios(readyS, scanS),
      'scan of all records, s of CPU': spread(scanCpuS),
      'ready, s of CPU': spread(readyCpuS),
      'ratio of CPU': ratios(readyCpuS, scanCpuS),
      'hub when ready, MiB resident': rounded(resident, 0),
    };
  },
};
