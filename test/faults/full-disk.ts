/**
 * A disk that is full at the n-th write after a moment, for one n after the other, under a hub that goes on: on a small file
 * system of its own, all of whose room but a few pages is taken, and given back once a write has failed.
 */
import { spawnSync } from 'node:child_process';
import { closeSync, ftruncateSync, mkdtempSync, openSync, rmdirSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ChildHub } from '../support/child-hub.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { drained, outcomeOf } from './kills.ts';
import { startLoad } from './load.ts';
import { oracleOf } from './oracle.ts';
import type { Part } from './part.ts';
import { seeded } from './random.ts';
import { makeWorld, type World } from './world.ts';

const diskBytes = 256 << 20;
const pageBytes = 4096;
const chunk = Buffer.alloc(1 << 20);

export const fullDisk: Part = {
  name: 'full disk',
  kinds: 1,
  unable: () => {
    const disk = mounted();
    if (disk === null) return 'a small file system cannot be mounted here';
    unmount(disk);
    return null;
  },
  async run({ seed, count }, progress) {
    const disk = mounted();
    if (disk === null) throw new Error('a small file system cannot be mounted here');
    try {
      const { world, hub } = await makeWorld(join(disk, 'data'), seeded(seed));
      try {
        const oracle = oracleOf(world.ledger, world.store);
        const load = startLoad(world);
        for (let write = 1; write <= count; write += 1) {
          await fullAt(world, hub, disk, write);
          progress(write, world.ledger.strange.length);
        }
        await load.stop();
        const outcome = outcomeOf(seed, count, await oracle.verdict(await drained(world, hub)));
        const refused = world.ledger.writes.filter(({ ending }) => ending === 'refused').length;
        return { ...outcome, figures: { ...outcome.figures, refused } };
      } finally {
        await hub.kill();
        await world.close();
      }
    } finally {
      unmount(disk);
    }
  },
};

/** Leaves room for about so many commits, waits until one fails, reads, and makes room again. */
async function fullAt(world: World, hub: ChildHub, disk: string, commits: number): Promise<void> {
  const stateOf = async () => ((await admin(hub, 'GET', '/status')) as { store: { state: string } }).store.state;
  const pushed = world.ledger.number + 20;
  await eventually('some writes went well', () => world.ledger.number > pushed);
  const filler = join(disk, 'filler');
  fill(filler, disk, commits * pageBytes);
  await eventually('a write failed', async () => (await stateOf()) === 'failed');
  await eventually('reads go on', () => readsOn(world));
  rmSync(filler);
  await eventually('it takes writes again, without a restart', async () => (await stateOf()) === 'open');
}

/** Whether an object can be read now. */
async function readsOn(world: World): Promise<boolean> {
  const [write] = world.ledger.writes.filter(({ ending }) => ending === 'acknowledged');
  const told = write && (await world.call(world.partner(write.sender), 'GET', write.readAt));
  return told?.ending === 'acknowledged';
}

/** Takes all room of a disk by a file, but so many bytes. */
export function fill(path: string, disk: string, left: number): void {
  const file = openSync(path, 'w');
  let size = 0;
  try {
    for (;;) {
      const { bavail, bsize } = statfsSync(disk);
      const room = Math.min(chunk.length, bavail * bsize - left);
      if (room <= 0) break;
      size += writeSync(file, chunk, 0, room);
    }
  } catch (error) {
    // The hub took a page in between.
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    ftruncateSync(file, Math.max(0, size - left));
  } finally {
    closeSync(file);
  }
}

/** A small file system of its own; null where none can be mounted. */
export function mounted(): string | null {
  const path = mkdtempSync(join(tmpdir(), 'full-disk-'));
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${diskBytes}`, 'tmpfs', path]);
  if (status === 0) return path;
  rmdirSync(path);
  return null;
}

export function unmount(path: string): void {
  spawnSync('umount', ['--lazy', path]);
  rmdirSync(path);
}
