/**
 * The same day over and over: partners that hang, fail, talk nonsense and go away, credentials that change, commands with and
 * without results, inspectors that come and leave, pulls, re-drives. After so many days the hub rests; what it holds at two such rests
 * must be the same, or become so after more days. Run alone, it runs the number of days that `--cycles` gives:
 *
 *     node dist/test/overload/soak.js --cycles 200
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';
import { nothing, type Part } from '../faults/part.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { quiet } from '../support/observed.ts';
import {
  admin,
  eventually,
  type PlainPartner,
  plainPartner,
  type Received,
  type Reply,
} from '../support/plain-partner.ts';
import type { Held } from './child.ts';

export interface SoakOptions {
  /** Days before the first rest that counts: caches and pools fill once. */
  readonly warmUp: number;
  /** Days between two rests. */
  readonly cycles: number;
}

export interface SoakReport {
  readonly before: Held;
  readonly after: Held;
  /** What was done, by kind. */
  readonly counts: Readonly<Record<string, number>>;
}

interface Hub {
  readonly url: string;
  readonly adminToken: string;
}

type Mood = 'well' | 'fails' | 'refuses' | 'hangs' | 'babbles' | 'cuts' | 'redirects';

const moods: readonly Mood[] = ['fails', 'refuses', 'hangs', 'babbles', 'cuts', 'redirects'];
const sessions = 20;

const replies: Readonly<Record<Exclude<Mood, 'well' | 'hangs'>, Reply>> = {
  fails: { status: 500, text: 'out of order' },
  refuses: { status: 401, text: '' },
  babbles: { text: '<html>' },
  cuts: { isCut: true },
  redirects: { status: 302, text: '', headers: { Location: '/elsewhere' } },
};

/** A partner whose mood can be set. */
async function moody(role: 'CPO' | 'EMSP', partyId: string) {
  const state = { mood: 'well' as Mood };
  const waiting = new Set<() => void>();
  const answer = (received: Received): Reply | Promise<Reply> => {
    // Long runs must not fill the memory of the test.
    partner.received.splice(0, Math.max(0, partner.received.length - 50));
    if (state.mood === 'hangs') return new Promise((resolve) => waiting.add(() => resolve({ isCut: true })));
    if (state.mood !== 'well') return replies[state.mood];
    return received.path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 1 } } : {};
  };
  const partner = await plainPartner({ role, countryCode: 'NL', partyId, answer });
  const set = (mood: Mood) => {
    state.mood = mood;
    for (const cut of waiting) cut();
    waiting.clear();
  };
  return { partner, set };
}

const settings = {
  ...{ HUB_PORT: '0', HUB_LOG_LEVEL: 'fatal', HUB_RATE_OTHER_PER_MIN: '1000000', HUB_RATE_COMMANDS_PER_MIN: '1000000' },
  HUB_RATE_EXCHANGES_PER_MIN: '1000000',
  ...{ HUB_DELIVERY_TIMEOUT_MS: '300', HUB_RETRY_SCHEDULE_S: '0.05,0.1', HUB_RETRY_WINDOW_H: '0.0003' },
  ...{ HUB_CIRCUIT_OPEN_MS: '50', HUB_COMMAND_TIMEOUT_MS: '500', HUB_COMMAND_RESULT_WINDOW_S: '0.3' },
  ...{ HUB_ORPHAN_GRACE_S: '0.2', HUB_ORPHAN_SWEEP_S: '0.2', HUB_PROBE_INTERVAL_S: '0.5', HUB_OFFLINE_AFTER_S: '0.5' },
};

/** A busy machine lets a pool of connections grow once more; what leaks grows with every stretch of days. */
const stretchesMax = 3;

export async function soak({ warmUp, cycles }: SoakOptions, progress: (cycle: number) => void): Promise<SoakReport> {
  const dataDir = mkdtempSync(join(tmpdir(), 'ocpi-hub-soak-'));
  const child = fork(fileURLToPath(new URL('./child.js', import.meta.url)), {
    execArgv: ['--expose-gc'],
    env: { ...process.env, ...settings, HUB_DATA_DIR: dataDir },
  });
  const [hub] = (await once(child, 'message')) as [Hub];
  const cpo = await moody('CPO', 'CPO');
  const emsps = [await moody('EMSP', 'EMA'), await moody('EMSP', 'EMB')];
  const counts: Record<string, number> = {};
  const did = (kind: string) => {
    counts[kind] = (counts[kind] ?? 0) + 1;
  };
  const world: World = { hub, child, cpo, emsps, did };
  try {
    for (const { partner } of [cpo, ...emsps]) await partner.register(hub);
    for (const { partner } of emsps) await admin(hub, 'PUT', `/routes/${partner.id}/NL-CPO`, { active: true });
    let cycle = 0;
    const days = async (count: number) => {
      for (let n = 0; n < count; n++) {
        await day(world, ++cycle);
        progress(cycle);
      }
    };
    await days(warmUp);
    let before = await firstRest(world);
    for (let stretch = 1; ; stretch++) {
      await days(cycles);
      const report = { before, after: await rest(world, before), counts };
      if (stretch === stretchesMax || differences(report).length === 0) return report;
      before = await firstRest(world);
    }
  } finally {
    child.send('stop');
    await once(child, 'exit');
    for (const { partner } of [cpo, ...emsps]) await partner.close();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

interface World {
  readonly hub: Hub;
  readonly child: ChildProcess;
  readonly cpo: Awaited<ReturnType<typeof moody>>;
  readonly emsps: readonly Awaited<ReturnType<typeof moody>>[];
  readonly did: (kind: string) => void;
}

async function day(world: World, cycle: number): Promise<void> {
  const { hub, cpo, emsps, did } = world;
  const inspectors = await Promise.all(Array.from({ length: 3 }, () => inspect(hub)));
  did('inspectors');
  for (const [at, mood] of moods.entries()) {
    emsps[(cycle + at) % emsps.length]?.set(mood);
    did(mood);
    await pushAll(world, mood);
    await commands(world, at);
    for (const { set } of emsps) set('well');
  }
  cpo.set(moods[cycle % moods.length] ?? 'fails');
  await commands(world, cycle);
  await admin(hub, 'POST', '/parties/NL-CPO/pull/locations', { full: true }).then(() => did('pulls'));
  cpo.set('well');
  await exchange(world, cycle);
  // One says goodbye, one is gone, one is there for the re-drive.
  inspectors[0]?.close();
  inspectors[1]?.terminate();
  await quiet(hub);
  await admin(hub, 'POST', '/redrive', { filter: {}, dry_run: false, rate_per_s: 1000 }).then(() => did('redrives'));
  await endSessions(world);
  await quiet(hub);
  inspectors[2]?.terminate();
}

/** Sessions, a location: answered by the hub, whatever becomes of them at the eMSPs. */
async function pushAll({ cpo: { partner }, did }: World, name: string): Promise<void> {
  const work = Array.from({ length: sessions }, async (_, n) => {
    const cdr_token = { country_code: 'NL', party_id: n % 2 ? 'EMA' : 'EMB', uid: 'U', type: 'RFID', contract_id: 'C' };
    await accepted(partner, `sessions/NL/CPO/S${n}`, sessionBody(`S${n}`, { cdr_token, kwh: n, name }));
    did('pushes');
  });
  await Promise.all(work);
  await accepted(partner, 'locations/NL/CPO/L1', locationBody('L1', { name }));
}

async function accepted(partner: PlainPartner, path: string, body: object): Promise<void> {
  const { status, text } = await partner.call('PUT', `/2.2.1/${path}`, body);
  if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
}

/** A start whose result comes, one whose result never does, a stop that leaves a watch. */
async function commands({ cpo, emsps, did }: World, turn: number): Promise<void> {
  const emsp = emsps[turn % emsps.length]?.partner;
  if (!emsp) return;
  const response_url = `${emsp.url}/ocpi/2.2.1/commands/START_SESSION/${turn}`;
  const token = { country_code: 'NL', party_id: emsp.id.slice(3), uid: 'U', type: 'RFID', contract_id: 'C' };
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'CPO' };
  for (const called of [true, false]) {
    const start = { response_url, token, location_id: 'L1' };
    const answer = await emsp.call('POST', '/2.2.1/commands/START_SESSION', start, to);
    did(answer.status === 200 ? 'commands' : 'failed commands');
    const sent = cpo.partner.received.filter(({ path }) => path.includes('START_SESSION')).at(-1);
    if (!called || answer.status !== 200 || !sent) continue;
    const callback = new URL((JSON.parse(sent.body) as { response_url: string }).response_url).pathname;
    await cpo.partner.call('POST', callback.replace('/ocpi', ''), { result: 'ACCEPTED' });
    did('results');
  }
  await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', {
    response_url,
    session_id: emsp.id === 'NL-EMA' ? 'S1' : 'S0',
  });
}

/** One eMSP takes new tokens, the other leaves and comes back. */
async function exchange({ hub, emsps, did }: World, cycle: number): Promise<void> {
  const [staying, leaving] = cycle % 2 ? emsps : [...emsps].reverse();
  if (!staying || !leaving) return;
  const { partner } = staying;
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: partner.id.slice(3) }];
  const body = { token: partner.token, url: `${partner.url}/ocpi/versions`, roles };
  const { json } = await partner.call('PUT', '/2.2.1/credentials', body);
  partner.hubToken = (json.data as { token: string }).token;
  did('rotations');
  await leaving.partner.call('DELETE', '/2.2.1/credentials');
  const { initial_token: initialToken } = await admin(hub, 'POST', `/parties/${leaving.partner.id}/initial-token`);
  await leaving.partner.registerAgain(String(initialToken));
  did('registrations');
}

/** Every watched session comes to its end, and is active again for the next day. */
async function endSessions({ cpo: { partner } }: World): Promise<void> {
  for (const [n, party_id] of ['EMB', 'EMA'].entries()) {
    const cdr_token = { country_code: 'NL', party_id, uid: 'U', type: 'RFID', contract_id: 'C' };
    await accepted(partner, `sessions/NL/CPO/S${n}`, sessionBody(`S${n}`, { cdr_token, status: 'COMPLETED' }));
  }
}

/** Connected, and told of every actor. */
function inspect(hub: Hub): Promise<WebSocket> {
  const protocols = ['ocpi-hub.inspector', `bearer.${encodeURIComponent(hub.adminToken)}`];
  const socket = new WebSocket(`${hub.url.replace('http', 'ws')}/admin/v1/inspector`, protocols);
  return new Promise((resolve, reject) => {
    socket.on('error', reject);
    socket.on('message', (data) => {
      if (String(data).includes('"ocpi-hub.complete"')) resolve(socket);
    });
  });
}

async function heldBy(child: ChildProcess): Promise<Held> {
  child.send('held');
  const [held] = (await once(child, 'message')) as [Held];
  return held;
}

/** What stands at rest, the memory aside, by name. */
function standing({ resources, deadlines, actors, backlog }: Held): Map<string, number> {
  const counts = new Map(Object.entries({ ...resources, deadlines, backlog }));
  for (const [kind, states] of Object.entries(actors)) {
    for (const [state, count] of Object.entries(states)) counts.set(`${kind} ${state}`, count);
  }
  return counts;
}

/** What there is more of; something that was there of late and is gone is no leak. */
function grown(before: Held, after: Held): string[] {
  const least = standing(before);
  return [...standing(after)]
    .filter(([name, count]) => count > (least.get(name) ?? 0))
    .map(([name, count]) => `at rest it held ${least.get(name) ?? 0} of ${name}, and later ${count}`);
}

const restMs = 20_000;
/** A partner closes a connection on which nothing came for 5 s. */
const idleMs = 6_000;
/** Each look collects garbage three times over, which is most of what a short run costs. */
const looks = 4;
const lookAgainMs = 500;

/** Partners drop the connections that they have kept; those of the hub close by themselves. */
async function quieted({ hub, cpo, emsps }: World): Promise<void> {
  await quiet(hub);
  for (const { partner } of [cpo, ...emsps]) partner.moveTo(hub);
}

/** What is held before days that may add to it: a probe or a write that is under way now and then counts. */
async function firstRest(world: World): Promise<Held> {
  await quieted(world);
  await new Promise((resolve) => setTimeout(resolve, idleMs));
  return most(await looked(world.child));
}

/** What is held once nothing is under way any more: no more than before, or what there is when it has had time enough. */
async function rest(world: World, before: Held): Promise<Held> {
  await quieted(world);
  let last: Held | undefined;
  const isAtRest = async () => {
    last = least(await looked(world.child));
    return grown(before, last).length === 0;
  };
  await eventually('it rests', isAtRest, restMs).catch(() => {});
  return last ?? heldBy(world.child);
}

async function looked(child: ChildProcess): Promise<Held[]> {
  const seen = [await heldBy(child)];
  while (seen.length < looks) {
    await new Promise((resolve) => setTimeout(resolve, lookAgainMs));
    seen.push(await heldBy(child));
  }
  return seen;
}

const least = (seen: readonly Held[]) => over(seen, Math.min);
const most = (seen: readonly Held[]) => ({ ...over(seen, Math.max), heapBytes: least(seen).heapBytes });

/** Of several looks each figure by itself; what there was none of in one of them counts as none there. */
function over(seen: readonly Held[], pick: (...counts: number[]) => number): Held {
  const kinds = [...new Set(seen.flatMap(({ resources }) => Object.keys(resources)))].sort();
  const counts = kinds.map((kind) => [kind, pick(...seen.map(({ resources }) => resources[kind] ?? 0))] as const);
  return {
    ...(seen.at(-1) as Held),
    resources: Object.fromEntries(counts.filter(([, count]) => count > 0)),
    deadlines: pick(...seen.map(({ deadlines }) => deadlines)),
    heapBytes: pick(...seen.map(({ heapBytes }) => heapBytes)),
  };
}

/** Of what is remembered per event for a while: keys against repetition, the order of lists. */
const bytesPerEventMax = 512;
/** The collector leaves a little more one time than another. */
const noiseBytes = 4 * 1024 * 1024;

/** What the second rest holds that the first did not, a sentence each. */
export function differences({ before, after }: SoakReport): string[] {
  const grownBytes = after.heapBytes - before.heapBytes;
  const allowed = (after.events - before.events) * bytesPerEventMax + noiseBytes;
  return [
    ...grown(before, after),
    ...(grownBytes <= allowed ? [] : [`the heap grew by ${grownBytes} bytes, more than ${allowed}`]),
  ];
}

/** As a part of the fault campaign: `count` days. */
export const soakPart: Part = {
  name: 'soak',
  kinds: 1,
  async run({ count }, progress) {
    const warmUp = 3;
    const report = await soak({ warmUp, cycles: count }, (cycle) => progress(Math.max(0, cycle - warmUp), 0));
    const findings = differences(report);
    const { before, after, counts } = report;
    const figures = {
      ...counts,
      events: after.events,
      heapBytesBefore: before.heapBytes,
      heapBytesAfter: after.heapBytes,
    };
    return { ...nothing, done: count, unexplained: findings.length, findings, figures };
  },
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const at = process.argv.indexOf('--cycles');
  const cycles = at === -1 ? 50 : Number(process.argv[at + 1]);
  const report = await soak({ warmUp: 3, cycles }, (cycle) => process.stderr.write(`\rday ${cycle} of ${cycles + 3}`));
  console.log(`\n${JSON.stringify(report, null, 2)}`);
  console.log(differences(report).join('\n') || 'what it holds at both rests is the same');
}
