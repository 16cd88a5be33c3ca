/**
 * Kills at the store's named points: the process ends itself, by SIGKILL, at the n-th time that it comes by. The hub is started
 * by a program of a few lines that listens to the points.
 */
import { join } from 'node:path';
import { Level } from 'level';
import { under } from '../../storage/keys.ts';
import { killsAt, type Moment, type Moments, upTo } from './kills.ts';
import type { World } from './world.ts';

/** How a hub is made to come by a point, and killed there. */
type Way = (world: World, point: string) => Promise<void>;

const soon: Way = (world, point) => killedAt(world, point, 1 + world.random.below(20));
const once: Way = (world, point) => killedAt(world, point, 1);

const ways: Readonly<Record<string, Way>> = {
  ...{ 'commit.before': soon, 'commit.after': soon, 'settle.before': soon, 'settle.after': soon },
  ...{ 'verify.before': once, 'verify.after': once, rebuild: whileRebuilding },
};

const commitMoments: Moments = Object.entries(ways).map(
  ([point, way]): Moment =>
    (world) =>
      way(world, point),
);
export const commitKills = killsAt('kills at commits', commitMoments);

/** The same for a few kills: before or after each work of the store, by chance. */
export const pointMoments: Moments = [...new Set(Object.keys(ways).map((point) => point.split('.')[0]))].map(
  (work): Moment => {
    const points = Object.keys(ways).filter((point) => point.split('.')[0] === work);
    return (world) => {
      const point = world.random.pick(points);
      return ways[point]?.(world, point) ?? Promise.resolve();
    };
  },
);

async function killedAt(world: World, point: string, nth: number): Promise<void> {
  const { listening, gone } = world.spawn({ run: pointedHub({ point, nth, shiftMs: shiftOf(world) }) });
  upTo(world, { listening }).catch(() => {});
  await gone;
}

async function whileRebuilding(world: World, point: string): Promise<void> {
  await forgetIndexEntry(world);
  await killedAt(world, point, 1);
}

export interface Pointed {
  readonly point: string;
  readonly nth: number;
  /** Its clock is ahead by so much … */
  readonly shiftMs?: number;
  /** … and goes on to this instant, epoch ms, at SIGUSR2. */
  readonly jumpTo?: number;
}

const child = join(import.meta.dirname, 'pointed', 'child.js');

/** A hub that kills itself when it comes by a point for the n-th time. */
export const pointedHub = (pointed: Pointed): readonly string[] => [process.execPath, child, JSON.stringify(pointed)];

/** How far the clock of the hubs of a world is ahead; the last program of the world says so. */
export const shiftOf = ({ run }: World): number => (JSON.parse(run?.at(-1) ?? '{}') as Partial<Pointed>).shiftMs ?? 0;

/** Takes one entry out of an index, so that the next open makes the index anew. */
async function forgetIndexEntry({ store }: World): Promise<void> {
  const db = new Level<string, string>(join(store, 'db'));
  await db.open();
  const [entry] = await db.keys({ ...under('s/'), limit: 1 }).all();
  if (entry !== undefined) await db.del(entry);
  await db.close();
}
