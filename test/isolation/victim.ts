/**
 * The victim of every attack: a CPO and an eMSP that walk session paths and authorize, one request after the other, for as long as an attack
 * lasts. Whatever the attack is, they notice nothing: no refusal, no time-out, no circuit, no restart, nothing lost, and the hub's memory
 * stays within its bound.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { allocator } from '../support/allocator.ts';
import { cdrBody, locationBody, sessionBody } from '../support/bodies.ts';
import { Unanswered } from '../support/caller.ts';
import { type ChildHub, startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { partnerFor } from '../support/hub-in-process.ts';
import { itemsOf, statusOf } from '../support/observed.ts';
import {
  type Answer,
  admin,
  eventually,
  type PlainPartner,
  type Received,
  type Reply,
} from '../support/plain-partner.ts';
import { isAtLength } from '../support/share.ts';
import { shared, type Test } from '../support/tap.ts';
import { Changes } from '../support/within.ts';
import type { Ends } from './attacks.ts';

/** Heap limit of an attacked hub, MiB: small, so that memory which is not bounded ends it. */
const heapMiB = 256;
/** What the hub may hold of its partners' requests and answers, and as much again in copies of them. */
export const roomsMiB = heapMiB / 4;
/** Paths that are walked during the shortest attack. */
export const pathsMin = isAtLength ? 5 : 2;

/** Paths that are walked while an attack lasts that waits for none; one more follows it. */
const pathsMax = isAtLength ? Number.POSITIVE_INFINITY : 3;

/** Authorizations beside a path: the victim is a client as others are, and no load of its own. */
const authorizationsMax = isAtLength ? 10 : 2;

const mebibyte = 1024 * 1024;

/** What `bin/ocpi-hub.ts` sets in V8 before the hub is read. */
const [, launchFlags = ''] = /setFlagsFromString\('(.+)'\)/.exec(readFileSync('bin/ocpi-hub.ts', 'utf8')) ?? [];
/** A hub that does not feel how busy the machine is. */
const calmHub = [process.execPath, ...launchFlags.split(' '), fileURLToPath(new URL('child.js', import.meta.url))];

/**
 * A hub to attack. Requests are not counted by the minute, because attacks come at once, and no call ends because the machine is slow; `env`
 * replaces any of this.
 */
export async function attackedHub(
  t: Ends,
  env: Readonly<Record<string, string>> = {},
  run: readonly string[] = calmHub,
): Promise<ChildHub> {
  const hub = await startChildHub({
    ...{ dataDir: directoryFor(t), port: 0, run },
    env: {
      ...allocator,
      UV_THREADPOOL_SIZE: '64',
      NODE_OPTIONS: `--max-old-space-size=${heapMiB}`,
      ...{ HUB_RATE_LISTS_PER_MIN: '1000000', HUB_RATE_COMMANDS_PER_MIN: '1000000' },
      ...{ HUB_RATE_OTHER_PER_MIN: '1000000', HUB_RATE_EXCHANGES_PER_MIN: '1000000' },
      ...{ HUB_AUTHORIZE_TIMEOUT_MS: '120000', HUB_COMMAND_TIMEOUT_MS: '120000' },
      ...{ HUB_CALLBACK_TIMEOUT_MS: '120000', HUB_DELIVERY_TIMEOUT_MS: '120000' },
      ...env,
    },
  });
  t.teardown(() => hub.kill());
  return hub;
}

/** From now on the most that it holds counts anew. */
const forgetPeak = (pid: number) => writeFileSync(`/proc/${pid}/clear_refs`, '5');

/** Resident memory of a process, bytes: now, and at most so far. */
function memoryOf(pid: number): { readonly now: number; readonly peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kibibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]);
  return { now: kibibytes('VmRSS') * 1024, peak: kibibytes('VmHWM') * 1024 };
}

/** When the victim goes on; each resolves when its next path, or authorization, may begin. */
export interface Pace {
  path(): Promise<void>;
  authorization(): Promise<void>;
}

/** What a victim noticed while it walked. */
export interface Noticed {
  readonly paths: number;
  /** How long each authorization took, ms. */
  readonly authorizationsMs: readonly number[];
  /** Its requests that were refused or not answered, a line each. */
  readonly harm: readonly string[];
  /** What it pushed of each path of which something did not arrive, or not in order. */
  readonly lost: Readonly<Record<string, readonly string[]>>;
  /** Events of circuits of its partners that opened. */
  readonly circuits: readonly unknown[];
  /** Resident memory of the hub, bytes: before, and the most. */
  readonly idle: number;
  readonly peak: number;
}

/** Resolves when so many paths more were walked, for an attack that only has to last. */
type Walked = (paths: number) => Promise<void>;

export interface Victim {
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  /** How its servers answer what has `ODD` in it; null: like anything else. */
  readonly odd: { reply: (() => Reply | Promise<Reply>) | null };
  /** Walks until the attack has ended, and `pathsMin` paths at least; then asserts that nothing was noticed of it. */
  during<T>(t: Test, attack: (walked: Walked) => Promise<T>): Promise<T>;
  /** The same, and tells instead; without a pace it walks a bounded number of paths. */
  watch<T>(attack: (walked: Walked) => Promise<T>, pace?: Pace): Promise<{ result: T; noticed: Noticed }>;
}

const token = { country_code: 'NL', party_id: 'VEM', uid: 'CARD1', type: 'RFID', contract_id: 'NL-VEM-C1' };
const toCpo = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'VCP' };
const toEmsp = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'VEM' };
const owner = { party_id: 'VCP', cdr_token: token };

export interface Scene {
  readonly hub: ChildHub;
  readonly victim: Victim;
}

type Settings = Readonly<Record<string, string>>;

/** One hub with its victim for the attacks of a file, one after the other; the first one starts it. */
export function sharedScene(env: Settings | (() => Promise<Settings>) = {}): () => Promise<Scene> {
  return shared(async (file) => {
    const hub = await attackedHub(file, typeof env === 'function' ? await env() : env);
    return { hub, victim: await victimOf(file, hub) };
  });
}

/** NL-VCP and NL-VEM, registered and routed. */
export async function victimOf(t: Ends, hub: ChildHub): Promise<Victim> {
  const odd: Victim['odd'] = { reply: null };
  const answering = (part: string, body: object) => (received: Received) => {
    if (odd.reply !== null && isOdd(received)) return odd.reply();
    return received.path.includes(part) ? { body } : {};
  };
  const cpo = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'VCP' },
    answer: answering('/commands/', { result: 'ACCEPTED', timeout: 120 }),
  });
  const emsp = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'VEM' },
    answer: answering('/authorize', { allowed: 'ALLOWED' }),
  });
  await admin(hub, 'PUT', '/routes/NL-VEM/NL-VCP', { active: true });
  await cpo.push('PUT', '/2.2.1/locations/NL/VCP/LOC1', locationBody('LOC1', { party_id: 'VCP' }));
  let paths = 0;

  const watch: Victim['watch'] = async (attack, pace) => {
    const idle = memoryOf(hub.pid).now;
    forgetPeak(hub.pid);
    const earlier = new Set((await circuitsOpened(hub)).map(({ seq }) => seq));
    const harm: string[] = [];
    const pushed = new Map<string, string[]>();
    const changes = new Changes();
    const authorizationsMs: number[] = [];
    let isAttacked = true;
    let walked = 0;
    let goal = 0;
    const ask = (from: PlainPartner) => asking(from, (what) => void harm.push(what));
    const walking = async () => {
      while (isAttacked || walked < pathsMin) {
        if (pace) await pace.path();
        else while (isAttacked && walked >= Math.max(pathsMax, goal)) await changes.next();
        const id = `V${paths++}`;
        pushed.set(id, await walk(id, { cpo, emsp, asCpo: ask(cpo), asEmsp: ask(emsp) }));
        walked += 1;
        changes.tell();
      }
    };
    const authorizing = async () => {
      while (isAttacked || authorizationsMs.length < pathsMin) {
        if (pace) await pace.authorization();
        else while (isAttacked && authorizationsMs.length > authorizationsMax * (walked + 1)) await changes.next();
        const begun = performance.now();
        await ask(cpo)('POST', '/2.2.1/tokens/CARD1/authorize', undefined, toEmsp);
        authorizationsMs.push(performance.now() - begun);
      }
    };
    const until = async (paths: number) => {
      goal = walked + paths;
      changes.tell();
      while (walked < goal) await changes.next();
    };
    const attacking = attack(until).finally(() => {
      isAttacked = false;
      changes.tell();
    });
    const [result] = await Promise.all([attacking, walking(), authorizing()]);
    await eventually('nothing is owed to the victim any more', async () => {
      const shown = await Promise.all([cpo, emsp].map(({ id }) => admin(hub, 'GET', `/parties/${id}`)));
      return shown.every(({ queue }) => (queue as { depth: number }).depth === 0);
    });

    const { peak } = memoryOf(hub.pid);
    const arrived = arrivedAt(emsp);
    const lost = [...pushed].filter(([id, texts]) => (arrived.get(id) ?? []).join('\n') !== texts.join('\n'));
    const circuits = (await circuitsOpened(hub)).filter(({ seq }) => !earlier.has(seq));
    const noticed = { paths: walked, authorizationsMs, harm, lost: Object.fromEntries(lost), circuits, idle, peak };
    return { result, noticed };
  };

  const during: Victim['during'] = async (t, attack) => {
    const { result, noticed } = await watch(attack);
    const { paths, authorizationsMs, harm, lost, circuits, idle, peak } = noticed;
    const figures = `${paths} paths, ${authorizationsMs.length} authorizations, memory ${mib(idle)} idle, ${mib(peak)} at most`;
    t.same(harm, [], `no request of the victim was refused or cut: ${figures}`);
    t.same(lost, {}, 'all that it pushed has arrived, in order');
    t.same(circuits, [], 'no circuit of it was opened');
    t.ok(peak < memoryMax(idle), `memory stayed within twice ${mib(idle)} and ${roomsMiB} MiB of rooms`);
    return result;
  };

  return { cpo, emsp, odd, during, watch };
}

export const isOdd = ({ path, body }: Pick<Received, 'path' | 'body'>): boolean => `${path}${body}`.includes('ODD');

/** What the hub may hold at most, bytes, by what it held before. */
export const memoryMax = (idle: number): number => idle * 2 + roomsMiB * mebibyte;

export const mib = (bytes: number) => `${Math.round(bytes / mebibyte)} MiB`;

type Ask = (...call: Parameters<PlainPartner['call']>) => Promise<Answer | null>;

/** Calls in the name of a victim, and tells what was no success. */
function asking(from: PlainPartner, tell: (harm: string) => void): Ask {
  return async (...call) => {
    const answer = await from.call(...call).catch((error: unknown) => {
      if (!(error instanceof Unanswered)) throw error;
      tell(error.message);
      return null;
    });
    if (answer && !/^20[01]\/1000$/.test(statusOf(answer))) tell(`${call[0]} ${call[1]}: ${statusOf(answer)}`);
    return answer;
  };
}

interface Walker {
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  readonly asCpo: Ask;
  readonly asEmsp: Ask;
}

/** One session from the card at the charger to the CDR; what the CPO pushed, as the eMSP is to get it. */
async function walk(id: string, { cpo, emsp, asCpo, asEmsp }: Walker): Promise<string[]> {
  const pushed: string[] = [];
  const push = async (method: string, path: string, body: object) => {
    const text = JSON.stringify(body);
    pushed.push(`${method} ${text}`);
    await asCpo(method, path, text);
  };
  const command = async (name: string, fields: object) => {
    const ref = `${id}-${name}`;
    const body = { response_url: `${emsp.url}/results/${ref}`, ...fields };
    const answer = await asEmsp('POST', `/2.2.1/commands/${name}`, body, toCpo);
    if (answer?.json.status_code !== 1000) return;
    const { body: forwarded } = await cpo.got(ref, ({ path, body }) => path.endsWith(name) && body.includes(`"${id}"`));
    const { response_url: url } = JSON.parse(forwarded) as { response_url: string };
    await asCpo('POST', url.slice(url.indexOf('/2.2.1/')), { result: 'ACCEPTED' });
    await emsp.got(ref, ({ path }) => path === `/results/${ref}`);
  };
  const session = `/2.2.1/sessions/NL/VCP/${id}`;
  const fragment = (fields: object) => push('PATCH', session, { last_updated: '2026-01-02T03:05:00Z', ...fields });
  const period = { start_date_time: '2026-01-02T03:04:00Z', dimensions: [{ type: 'ENERGY', volume: 1 }] };

  await asCpo('POST', '/2.2.1/tokens/CARD1/authorize', undefined, toEmsp);
  await command('START_SESSION', { token, location_id: 'LOC1', evse_uid: 'EVSE1', authorization_reference: id });
  await push('PUT', session, sessionBody(id, owner));
  await fragment({ kwh: 1, charging_periods: [period] });
  await asEmsp('GET', session);
  await asEmsp('GET', '/2.2.1/sessions?date_from=2020-01-01T00:00:00Z&limit=5');
  await command('STOP_SESSION', { session_id: id });
  await fragment({ kwh: 2, status: 'COMPLETED' });
  await push('POST', '/2.2.1/cdrs', cdrBody(`C-${id}`, { ...owner, session_id: id }));
  return pushed;
}

/** What the eMSP got of each session and its CDR; a repetition, which follows a call whose answer was cut, counts once. */
function arrivedAt({ received }: PlainPartner): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { method, path, body } of received) {
    const id = /\/sessions\/NL\/VCP\/(V\d+)$/.exec(path)?.[1] ?? /"id":"C-(V\d+)"/.exec(body)?.[1];
    if (id === undefined) continue;
    const texts = found.get(id) ?? [];
    found.set(id, texts);
    const text = `${method} ${body}`;
    if (texts.at(-1) !== text) texts.push(text);
  }
  return found;
}

/** Events of circuits of the victim's partners that opened. */
async function circuitsOpened(hub: ChildHub): Promise<Record<string, unknown>[]> {
  const events = await itemsOf(hub, '/events?type=circuit.opened');
  return events.filter(({ parties }) => (parties as string[]).some((id) => id === 'NL-VCP' || id === 'NL-VEM'));
}
