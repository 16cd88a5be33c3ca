/**
 * Power cuts of the whole hub: each life is traced and killed under load; then its store is made anew as a power cut at that moment
 * may have left it, and the next life goes on from there. The oracle is that of the kills.
 */
import { cpSync, renameSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { MARK_FILES } from '../../storage/level/marks.ts';
import { builtHub } from '../support/child-hub.ts';
import { tell } from './cuts.ts';
import { Disk } from './disk.ts';
import { killedUnderLoad, killsAt, type Moment } from './kills.ts';
import type { Part } from './part.ts';
import { readTrace, traced, whyNotTraced } from './trace.ts';

/** Only room: what a power cut leaves of it does not matter, and it is large. */
const without: ReadonlySet<string> = new Set(['ballast']);

const powerCut: Moment = async (world) => {
  const { store, random } = world;
  const [before, trace, left] = [`${store}.before`, `${store}.trace`, `${store}.left`];
  cpSync(store, before, { recursive: true, filter: (path) => !without.has(basename(path)) });
  await killedUnderLoad(world, world.spawn({ run: traced(trace, world.run ?? builtHub) }));
  const disk = new Disk(store, before, without);
  for (const step of readTrace(trace)) tell(disk, step);
  disk.cut(left, random);
  for (const name of ['db', ...MARK_FILES]) {
    rmSync(join(store, name), { recursive: true });
    renameSync(join(left, name), join(store, name));
  }
  for (const path of [before, trace, left]) rmSync(path, { recursive: true });
};

export const hubCuts: Part = { ...killsAt('power cuts of the hub', [powerCut]), unable: whyNotTraced };
