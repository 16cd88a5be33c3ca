/**
 * Bit rot: a data directory that a hub filled is copied, one file of the copy is spoilt, and a hub is started on it. Whatever it
 * answers is compared with what it answered before. It may refuse to start, refuse to answer, or mend what was spoilt; it may not
 * answer wrongly, and it may not end without saying why.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ChildHub, spawnChildHub } from '../support/child-hub.ts';
import { dataText } from '../support/observed.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { drained } from './kills.ts';
import { startLoad } from './load.ts';
import { type Filled, type Filling, nothing, type Part, plus } from './part.ts';
import { type Random, seeded } from './random.ts';
import { spoiler } from './spoil.ts';
import { makeWorld, type World } from './world.ts';

type Ending = 'refused' | 'aborted' | 'quarantined' | 'mended' | 'harmless';

/** Kinds of files without which a hub starts: one that is refused then has been refused for something else, whatever was spoilt. */
const unread: ReadonlySet<string> = new Set(['LOG', 'ballast']);

interface Seen {
  readonly ending: Ending;
  readonly wrong: readonly string[];
  /** What it said about the damage. */
  readonly said: string;
}

export const rot: Part = {
  name: 'bit rot',
  // Both files that are the hub's own, and one of the store's, each kind of which is spoilt without a hub.
  kinds: 3,
  run: ({ seed, count, filling = fillingAnew }, progress) =>
    filling(seed, count, async ({ dataDir, world, truth }) => {
      const root = mkdtempSync(join(tmpdir(), 'rot-'));
      const spoiltCopy = spoiler(dataDir, seeded(seed));
      let total = nothing;
      try {
        for (let done = 1; done <= count; done += 1) {
          const copy = join(root, 'copy');
          const { what, kind } = spoiltCopy(copy);
          const { ending, wrong, said } = await look(world, truth, copy);
          rmSync(copy, { recursive: true });
          const isUntold = ending !== 'harmless' && said === '';
          const isNeedless = ending === 'refused' && unread.has(kind);
          const told = [
            ...wrong,
            ...(isUntold ? ['it said nothing'] : []),
            ...(isNeedless ? ['the hub does not read this file'] : []),
          ];
          const findings = told.map((text) => `seed ${seed}, ${done}: ${what}: ${ending} (${said}): ${text}`);
          const figures = { [ending]: 1, [`${ending} ${kind}`]: 1, wrongAnswers: wrong.length };
          total = plus(total, { ...nothing, done: 1, unexplained: told.length, findings, figures });
          progress(done, total.findings.length);
        }
        return total;
      } finally {
        rmSync(root, { recursive: true });
      }
    }),
};

/** A new directory for each use, removed afterwards. */
export const fillingAnew: Filling = async (seed, corruptions, use) => {
  const root = mkdtempSync(join(tmpdir(), 'filled-'));
  try {
    const given = await filled(join(root, 'original'), seeded(seed), corruptions);
    return await use(given).finally(() => given.world.close());
  } finally {
    rmSync(root, { recursive: true });
  }
};

/** With everything in it; fewer objects for a few corruptions. */
export async function filled(dataDir: string, random: Random, corruptions: number): Promise<Filled> {
  const { world, hub } = await makeWorld(dataDir, random);
  let running = hub;
  const load = startLoad(world);
  const requests = Math.min(700, 25 * corruptions);
  // Opened again: so some of it stands in tables and some in the log. A small one has no room for more than one table of each.
  const restarts = requests < 700 ? [requests * 0.5] : [requests * 0.4, requests * 0.7];
  for (const upTo of restarts) {
    while (world.ledger.number < upTo) await sleep(5);
    world.isUp = false;
    await running.kill();
    running = await world.spawn().listening;
    world.isUp = true;
  }
  while (world.ledger.number < requests) await sleep(5);
  await load.stop();
  return { dataDir, world, truth: await drained(world, running) };
}

async function look(world: World, truth: ReadonlyMap<string, string | null>, dataDir: string): Promise<Seen> {
  const starting = spawnChildHub({
    dataDir,
    port: 0,
    env: { HUB_RATE_OTHER_PER_MIN: '1000000' },
  });
  let hub: ChildHub;
  try {
    hub = await starting.listening;
  } catch (error) {
    const code = await starting.gone;
    const said = /^ocpi-hub: .+$/m.exec(String(error))?.[0] ?? '';
    const assertion = /^.*Assertion .* failed\.$/m.exec(String(error))?.[0];
    if (code === null && assertion) return { ending: 'aborted', wrong: [], said: assertion };
    return { ending: 'refused', wrong: code === 1 || code === 2 ? [] : [`it ended with ${code}: ${error}`], said };
  }
  try {
    const { store } = (await admin(hub, 'GET', '/status')) as { store: { state: string; reason: string | null } };
    const wrong = await wrongAnswers(world, truth, hub);
    const rebuilt = (await admin(hub, 'GET', '/events?type=row.rebuilt&limit=1000')).items as object[];
    const said = store.reason ?? (rebuilt.length > 0 ? `${rebuilt.length} rows were made again` : '');
    const ending = store.state !== 'open' ? 'quarantined' : said === '' ? 'harmless' : 'mended';
    return { ending, wrong, said };
  } finally {
    await hub.kill();
  }
}

/** Objects that read otherwise than they did; that one cannot be read now (5xx) is no wrong answer. */
async function wrongAnswers(
  world: World,
  truth: ReadonlyMap<string, string | null>,
  { url }: ChildHub,
): Promise<string[]> {
  const wrong: string[] = [];
  const seen = new Map(world.ledger.writes.map((write) => [write.object, write]));
  for (const [object, { sender, readAt }] of seen) {
    const { status, text } = await get(world.partner(sender), `${url}/ocpi${readAt}`);
    const served = status === 200 ? dataText({ text }) : null;
    if (status < 500 && served !== truth.get(object)) wrong.push(`${object}: ${status} ${text.slice(0, 100)}`);
  }
  return wrong;
}

async function get({ hubToken }: PlainPartner, url: string): Promise<{ status: number; text: string }> {
  const headers = { Authorization: `Token ${Buffer.from(hubToken).toString('base64')}` };
  const response = await fetch(url, { headers });
  return { status: response.status, text: await response.text() };
}
