/**
 * Kills while the store is looked after: while its log is trimmed, at the first pieces, and while a backup of it is made and sealed,
 * before and after that has its name.
 *
 * TEST-UPKEEP-1  A sweep trims what lives before this one have logged, and nothing that this one logs: all of it was seen by the oracle.
 * TEST-UPKEEP-2  The sweep begins when nothing is owed any more: what is owed holds the log back, and the point would not be met.
 * TEST-UPKEEP-3  How long a life lasts is counted in requests. Where its point is not met by then it is a kill at random, and counted.
 */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { verifyStore } from '../../storage/level/restore.ts';
import { backupKeysIn } from '../support/backup-keys.ts';
import { Unanswered } from '../support/caller.ts';
import type { ChildHub, Starting } from '../support/child-hub.ts';
import { quiet } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { killsAt, type Moments } from './kills.ts';
import { pointedHub, shiftOf } from './points.ts';
import type { World } from './world.ts';

const hourMs = 3_600_000;
/** So long before the full hour, at which the log is trimmed, a life begins; less than what events are kept. [TEST-UPKEEP-1] */
const beforeHourMs = 120_000;
const kept = { HUB_EVENTS_KEEP_DAYS: '0.01', HUB_COMPATIBILITY_WINDOW_H: '0.1', HUB_PROBE_INTERVAL_S: '0.2' };
const piecesMax = 2;
const underLoadMs = 300;
const requestsWhileTrimming = 400;
const requestsWhileBackingUp = 150;

const upkeepMoments: Moments = [
  (world) => whileTrimming(world, world.random.pick(['trim.before', 'trim.after', 'trim.compact'])),
  (world) => whileBackingUp(world, world.random.pick(['backup.copied', 'backup.sealed', 'backup.named'])),
];
/** Short worlds: a log that is trimmed by a few pieces a life grows all the same, and each backup copies all of it. */
export const upkeepKills = killsAt('kills at upkeep', upkeepMoments, { worldKills: 10 });

/** The clock is hours ahead, so that what was logged before is old; when all was delivered it goes on to the full hour. [TEST-UPKEEP-2] */
async function whileTrimming(world: World, point: string): Promise<void> {
  const jumpTo = (Math.floor((Date.now() + shiftOf(world)) / hourMs) + 2) * hourMs + 1;
  const shiftMs = jumpTo - beforeHourMs - Date.now();
  const nth = 1 + world.random.below(piecesMax);
  const starting = world.spawn({ run: pointedHub({ point, nth, shiftMs, jumpTo }), env: kept });
  const hub = await starting.listening;
  world.isUp = true;
  await sleep(underLoadMs);
  world.isPaused = true;
  await quiet(hub);
  world.isPaused = false;
  process.kill(hub.pid, 'SIGUSR2');
  await goneAfter(world, starting, requestsWhileTrimming);
  world.run = pointedHub({ point: '', nth: 0, shiftMs: shiftMs + beforeHourMs });
}

/** [TEST-UPKEEP-3] */
async function goneAfter(world: World, { gone, kill }: Starting, requests: number): Promise<void> {
  let isGone = false;
  const ended = gone.then(() => {
    isGone = true;
  });
  const last = world.ledger.number + requests;
  while (!isGone && world.ledger.number < last && world.ledger.strange.length === 0) await sleep(5);
  if (!isGone) world.missed += 1;
  await kill();
  await ended;
}

/** A sealed backup has its name when it is whole, and not before; nothing in its place was ever readable. */
async function whileBackingUp(world: World, point: string): Promise<void> {
  const { strange } = world.ledger;
  const directory = `${world.dataDir}.backup`;
  const keys = backupKeysIn(`${world.dataDir}.keys`);
  const env = { HUB_BACKUP_PUBLIC_KEY: keys.publicPath };
  const starting = world.spawn({ run: pointedHub({ point, nth: 1, shiftMs: shiftOf(world) }), env });
  const hub = await starting.listening;
  world.isUp = true;
  const last = world.ledger.number + requestsWhileBackingUp;
  const state = await endOfBackup(hub, directory, () => {
    world.isPaused = world.ledger.number >= last;
  });
  world.isPaused = false;
  if (state !== null) {
    strange.push(`the backup ended before ${point}: ${state}`);
    await starting.kill();
  }
  await starting.gone;
  if (existsSync(directory) !== (point === 'backup.named')) {
    strange.push(`killed at ${point}: the backup ${existsSync(directory) ? 'has its name' : 'is not there'}`);
  }
  if (existsSync(directory)) {
    const { faults } = await verifyStore(directory, () => {}, keys.privateKey);
    if (faults.length > 0) strange.push(`the backup is damaged: ${faults.join('; ')}`);
  }
  for (const place of [directory, `${directory}.partial`]) {
    if (existsSync(join(place, 'store'))) strange.push(`killed at ${point}: ${place} is readable`);
  }
  for (const path of [directory, `${directory}.partial`, `${world.dataDir}.keys`])
    rmSync(path, { recursive: true, force: true });
}

/** Begins a backup and waits for it. Resolves with null when the hub is killed meanwhile, else with what became of it. */
async function endOfBackup(hub: ChildHub, directory: string, between: () => void): Promise<string | null> {
  try {
    let view = await admin(hub, 'POST', '/backup', { directory });
    while (view.state === 'RUNNING') {
      between();
      await sleep(20);
      view = await admin(hub, 'GET', `/backups/${String(view.id)}`);
    }
    return JSON.stringify(view);
  } catch (error) {
    // Of a hub that is gone; a refusal is an error of another kind.
    if (error instanceof Unanswered) return null;
    return String(error);
  }
}
