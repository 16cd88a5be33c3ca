/**
 * Kills a hub again and again while partners push to it, and lets the oracle judge. A world is a directory, its partners and a
 * number of kills; then all must drain, and the account is made. Worlds are short: many beginnings, and short logs to read.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChildHub, Starting } from '../support/child-hub.ts';
import { dataText, quiet } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { startLoad } from './load.ts';
import { oracleOf, type Verdict } from './oracle.ts';
import { nothing, type Outcome, type Part, plus } from './part.ts';
import { dealt, seeded } from './random.ts';
import { makeWorld, type World } from './world.ts';

/** A way to choose the moment: starts a hub, and resolves when it was killed. */
export type Moment = (world: World) => Promise<void>;

/** Ways to choose the moment, dealt like cards: each comes once before any comes again. */
export type Moments = readonly Moment[];

/** At any instant under load. */
const underLoad: Moment = (world) => killedUnderLoad(world, world.spawn());

export async function killedUnderLoad(world: World, starting: Starting): Promise<void> {
  await upTo(world, starting);
  await requests(world, 10 + world.random.below(world.requestsMax));
  await sleep(world.random.below(10));
  await starting.kill();
}

/** So many requests later, not so long: a slow machine is under load just the same. */
async function requests({ ledger }: World, count: number): Promise<void> {
  const last = ledger.number + count;
  while (ledger.number < last && ledger.strange.length === 0) await sleep(1);
}

/** Also before it listens: while modules load, the store is verified, what is owed is found again. */
export const whileStarting: Moment = async (world) => {
  const starting = world.spawn();
  upTo(world, starting).catch(() => {});
  await sleep(150 + world.random.below(500));
  await starting.kill();
};

/** When a receiver has a call and has not answered it: sent, and its end not recorded. */
const afterSend: Moment = async (world) => {
  const { pid, gone, ...starting } = world.spawn();
  let left = 1 + world.random.below(world.requestsMax);
  world.onTaken = () => {
    left -= 1;
    if (left === 0) process.kill(pid, 'SIGKILL');
  };
  upTo(world, starting).catch(() => {});
  await gone;
  world.onTaken = () => {};
};

export async function upTo(world: World, { listening }: Pick<Starting, 'listening'>): Promise<void> {
  await listening;
  world.isUp = true;
}

export const kills = killsAt('kills at random', [underLoad, underLoad, whileStarting]);

export const sendMoments: Moments = [afterSend];
export const sendKills = killsAt('kills after a send', sendMoments);

/** `worldKills`: kills in one world; `requestsMax`: about so many requests of a life before its kill, at most. */
export function killsAt(name: string, moments: Moments, { worldKills = 30, requestsMax = 150 } = {}): Part {
  return {
    ...{ name, kinds: moments.length },
    async run({ seed, count }, progress) {
      let total = nothing;
      for (let world = 0; total.done < count; world += 1) {
        const before = total;
        const tick = (done: number) => progress(before.done + done, before.findings.length);
        const options = { seed: seed + world, count: Math.min(worldKills, count - total.done), requestsMax };
        total = plus(total, await oneWorld(options, tick, moments));
      }
      return total;
    },
  };
}

interface WorldOfKills {
  readonly seed: number;
  /** Kills. */
  readonly count: number;
  readonly requestsMax: number;
}

/** The first hub is killed under load, too, which does not count. */
async function oneWorld(
  { seed, count, requestsMax }: WorldOfKills,
  tick: (done: number) => void,
  moments: Moments,
): Promise<Outcome> {
  const random = seeded(seed);
  const dataDir = mkdtempSync(join(tmpdir(), 'killed-hub-'));
  const { world, hub } = await makeWorld(dataDir, random, requestsMax);
  try {
    const oracle = oracleOf(world.ledger, world.store);
    const load = startLoad(world);
    await requests(world, requestsMax);
    world.isUp = false;
    await hub.kill();
    await oracle.afterKill();
    const next = dealt(random, moments);
    for (let kill = 1; kill <= count; kill += 1) {
      await next()(world);
      world.isUp = false;
      await oracle.afterKill();
      tick(kill);
    }
    const last = await world.spawn().listening;
    world.isUp = true;
    await load.stop();
    const served = await drained(world, last);
    const verdict = await oracle.verdict(served);
    const outcome = outcomeOf(seed, count, verdict);
    return { ...outcome, figures: { ...outcome.figures, missed: world.missed } };
  } finally {
    await world.close();
    rmSync(dataDir, { recursive: true });
  }
}

/** Lets everything go out, reads every object, and stops the hub in good order. */
export async function drained(world: World, hub: ChildHub): Promise<Map<string, string | null>> {
  await quiet(hub);
  const { items } = (await admin(hub, 'GET', '/deliveries?state=DEAD')) as { items: object[] };
  for (const item of items) world.ledger.strange.push(`dead: ${JSON.stringify(item)}`);
  const served = new Map<string, string | null>();
  const seen = new Map(world.ledger.writes.map((write) => [write.object, write]));
  for (const [object, { sender, readAt }] of seen) {
    const answer = await world.partner(sender).call('GET', readAt);
    served.set(object, answer.status === 200 ? dataText(answer) : null);
  }
  world.isUp = false;
  const code = await hub.stop();
  if (code !== 0) world.ledger.strange.push(`the hub ended with code ${code}:\n${hub.log()}`);
  return served;
}

export function outcomeOf(seed: number, done: number, verdict: Verdict): Outcome {
  const { lost, reordered, unexplained, duplicated, inFlight, inFlightMax, acknowledged, taken, events } = verdict;
  const findings = [...lost, ...reordered, ...unexplained].map((what) => `seed ${seed}: ${what.slice(0, 400)}`);
  return {
    ...{ ...nothing, done, lost: lost.length, duplicated, reordered: reordered.length, findings },
    unexplained: unexplained.length,
    figures: { inFlight, inFlightMax, acknowledged, deliveriesTaken: taken, eventsInTheLog: events },
  };
}
