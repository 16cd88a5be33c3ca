/**
 * A hub with a past: a data directory in which a real hub registered a CPO and an eMSP, and which was then filled, by the store's own
 * appends and in the hub's own form, with objects, commands and partners. Made once for each size and used again by later benches.
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { applyToCommand, type CommandRecord } from '../../src/domain/command.ts';
import type { CommandEvent, ObjectEventData } from '../../src/domain/events.ts';
import { applyToObject } from '../../src/domain/fold.ts';
import { objectKey, streamOf } from '../../src/domain/object.ts';
import { type Partner, partyKey, type Role } from '../../src/domain/party.ts';
import { commandRow, foundAgainBy } from '../../src/hub/exchange/command-routing.ts';
import { objectPut, ownerPut, partnerPut, routePut } from '../../src/hub/kernel/row-codecs.ts';
import { createSecrets } from '../../src/secrets.ts';
import type { Commit, Fence, NewEvent, Put, Store } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { sessionBody, tariffBody } from '../support/bodies.ts';
import { builtHub, type ChildHub } from '../support/child-hub.ts';
import { admin } from '../support/plain-partner.ts';
import { type BenchProcess, startPart } from './processes.ts';
import type { ReceiverReady } from './receiver.ts';
import { register, startMeasuredHub } from './scene.ts';

/** What a site holds beside its two registered partners. */
export interface Past {
  /** Stored: sessions of one CPO, or tariffs of so many. */
  readonly objects?: number;
  readonly owners?: number;
  /** Pushes of each object, all delivered to the eMSP; 1 when absent. */
  readonly pushes?: number;
  /** Accepted, their results awaited. */
  readonly commands?: number;
  /** Registered and idle, eMSPs and CPOs by turns, each eMSP with a route to the CPO behind it. */
  readonly partners?: number;
}

export interface Site {
  readonly dataDir: string;
  readonly receiver: BenchProcess<ReceiverReady>;
  /** Values of their `Authorization` headers. */
  readonly cpo: string;
  readonly emsp: string;
  /** Starts the built hub on it, or what is given to run instead. */
  start(options?: StartOptions): Promise<ChildHub>;
}

interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly run?: readonly string[];
}

type Progress = (line: string) => void;

const firstAt = Date.parse('2026-01-01T00:00:00.000Z');
/** Commits under way at a time: as many as the store writes in a few batches. */
const flying = 1024;
const day = 86_400_000;
const cpoId = 'NL-CPO';
const emspId = 'NL-EMS';
const unlimited = { HUB_RATE_OTHER_PER_MIN: '100000000', HUB_RATE_LISTS_PER_MIN: '100000000' };

const sites = new Map<string, Promise<Site>>();
const directories: string[] = [];
process.on('exit', () => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

export function siteWith(past: Past, progress: Progress): Promise<Site> {
  const name = JSON.stringify(past);
  const site = sites.get(name) ?? makeSite(past, progress);
  sites.set(name, site);
  return site;
}

/** Of numbers below a hundred million: a factor by which they come in another order, each once, for no size that ends in a zero. */
export const stride = 7919;

async function makeSite(past: Past, progress: Progress): Promise<Site> {
  const dataDir = mkdtempSync(join(tmpdir(), 'ocpi-hub-bench-site-'));
  directories.push(dataDir);
  const start: Site['start'] = ({ env = {}, run = builtHub } = {}) =>
    startMeasuredHub({ dataDir, port: 0, run, env: { ...unlimited, ...env } });
  const receiver = await startPart<ReceiverReady>('receiver', 'around', { partners: 1 });
  const [url = ''] = receiver.ready.urls;
  const hub = await start();
  const cpo = await register(hub, { role: 'CPO', partyId: 'CPO', url });
  const emsp = await register(hub, { role: 'EMSP', partyId: 'EMS', url });
  await admin(hub, 'PUT', `/routes/${emspId}/${cpoId}`, { active: true });
  await hub.stop();
  const store = await openLevelStore({ directory: join(dataDir, 'store'), node: 'bench' });
  try {
    const fence = store.held();
    if (fence === null) throw new Error('the store is not ours');
    const fill = filler(store, fence, progress);
    const like = await storedPartner(store, dataDir);
    await fill('owners', ownersOf((past.owners ?? 1) - 1, like));
    await fill('partners', partnersOf(past.partners ?? 0, like));
    await fill('objects', pushesOf(past));
    await fill('commands', commandsOf(past.commands ?? 0));
    await settleAll(store, fence);
  } finally {
    await store.close();
  }
  return { dataDir, receiver, cpo, emsp, start };
}

/** A party_id that no other n of a country has: three letters or digits. */
const letters = (n: number): string => (n % 46_656).toString(36).padStart(3, '0').toUpperCase();

type Change = Pick<Commit, 'events' | 'puts' | 'due'>;

/** Commits one by one, as the hub does, many at a time. */
function filler(store: Store, fence: Fence, progress: Progress) {
  return async (what: string, changes: Iterable<Change>): Promise<void> => {
    let waiting: Promise<unknown>[] = [];
    let done = 0;
    const write = async () => {
      await Promise.all(waiting);
      done += waiting.length;
      if (Math.floor(done / 100_000) > Math.floor((done - waiting.length) / 100_000))
        progress(`${done} ${what} written`);
      waiting = [];
    };
    for (const change of changes) {
      waiting.push(store.append({ fence, idem: randomBytes(16).toString('hex'), ...change }));
      if (waiting.length === flying) await write();
    }
    await write();
  };
}

const plain = { party: null, correlationId: null, to: [], body: null } as const;
const at = (n: number): string => new Date(firstAt + n * 1000).toISOString();

function* pushesOf({ objects = 0, owners = 1, pushes = 1 }: Past): Iterable<Change> {
  for (let round = 0; round < pushes; round++) {
    for (let n = 0; n < objects; n++) yield pushOf(n, round, objects, owners);
  }
}

/** Ids and times run in different orders, as those of real objects do. */
function pushOf(n: number, round: number, objects: number, owners: number): Change {
  const owner = owners === 1 || n % owners === 0 ? cpoId : partyKey('DE', letters((n % owners) - 1));
  const module = owners === 1 ? 'sessions' : 'tariffs';
  const [country_code = '', party_id = ''] = owner.split('-');
  const id = `S${String(n).padStart(7, '0')}`;
  const lastUpdated = at(round * objects + ((n * stride) % objects));
  const fields = { country_code, party_id, last_updated: lastUpdated };
  const isSession = module === 'sessions';
  const body = JSON.stringify(isSession ? sessionBody(id, { ...fields, kwh: round }) : tariffBody(id, fields));
  const facts = isSession ? { status: 'ACTIVE', cdrToken: { party: emspId, uid: 'CARD1' } } : {};
  const data: ObjectEventData = {
    ...{ module, method: 'PUT', owner, id, within: [], lastUpdated, facts, viewer: isSession ? emspId : null },
    ...{ owed: { method: 'PUT', path: `/${country_code}/${party_id}/${id}`, query: '' }, reason: null, warnings: [] },
  };
  const object = applyToObject(null, { type: 'object.put', data, body, to: [] });
  if (!object) throw new Error('a PUT makes an object');
  const key = objectKey(module, id, facts);
  const event: NewEvent = {
    ...{ stream: streamOf(module, owner, key), type: 'object.put', at: lastUpdated, party: owner, data, body },
    ...{ correlationId: `correlation-${round}-${n}`, to: [emspId] },
  };
  const puts: Put[] = [objectPut(object), ...(isSession && round === 0 ? [ownerPut(module, key, owner)] : [])];
  return { events: [event], puts };
}

function* commandsOf(count: number): Iterable<Change> {
  const now = new Date().toISOString();
  const dueAt = new Date(Date.now() + day).toISOString();
  for (let n = 0; n < count; n++) {
    const id = `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
    const requested: CommandEvent = {
      type: 'command.requested',
      data: {
        ...{ id, command: 'START_SESSION', emsp: emspId, cpo: cpoId, responseUrl: `http://127.0.0.1:9/results/${id}` },
        ...{ sessionId: null, reservationId: null, authorizationReference: `reference-${n}`, tokenUid: `card-${n}` },
      },
    };
    const answered: CommandEvent = { type: 'command.answered', data: { result: 'ACCEPTED', timeoutS: day / 1000 } };
    let record: CommandRecord | null = null;
    for (const event of [requested, answered]) {
      record = applyToCommand(record, event, now);
      const events = [{ ...plain, stream: `command:${id}`, at: now, ...event, correlationId: `command-${n}` }];
      const puts = [commandRow(record), ...foundAgainBy(record, event, now)];
      yield { events, puts, due: [{ key: `command:${id}`, at: dueAt }] };
    }
  }
}

/** A registered partner, and its token sealed for another one. */
interface Like {
  readonly partner: Partner;
  readonly sealedFor: (partner: string) => string;
}

async function storedPartner(store: Store, dataDir: string): Promise<Like> {
  const { open, seal } = createSecrets(readFileSync(join(dataDir, 'secret-key'), 'utf8').trim());
  for await (const { data } of store.scan('partners', emspId)) {
    const partner = data as Partner;
    const token = open(partner.partnerToken ?? '', partner.id);
    return { partner, sealedFor: (id) => seal(token, id) };
  }
  throw new Error(`${emspId} is not registered`);
}

/** Registered as the given one was, under a name and tokens of its own. */
function partnerOf({ partner: like, sealedFor }: Like, role: Role, country_code: string, party_id: string): Change {
  const id = partyKey(country_code, party_id);
  const roles = [{ role, country_code, party_id, business_details: { name: id } }];
  const [initialTokenDigest, hubTokenDigest] = [0, 1].map(() => randomBytes(32).toString('base64url'));
  const { settings, url, endpoints: discovered, lastUpdated } = like;
  if (!initialTokenDigest || !hubTokenDigest || !url) throw new Error(`${like.id} is not registered`);
  const partnerToken = sealedFor(id);
  const partner: Partner = { ...like, id, roles, hubTokenDigest, partnerToken, spentDigests: [initialTokenDigest] };
  const stream = { ...plain, stream: `partner:${id}`, at: lastUpdated, party: id };
  const added = { ...stream, type: 'partner.added', data: { id, roles, settings, initialTokenDigest } };
  const data = { url, roles, discovered, hubTokenDigest, partnerToken };
  return { events: [added, { ...stream, type: 'partner.registered', data }], puts: [partnerPut(partner)] };
}

function* ownersOf(count: number, like: Like): Iterable<Change> {
  for (let n = 0; n < count; n++) {
    yield partnerOf(like, 'CPO', 'DE', letters(n));
    yield routeCommit(emspId, partyKey('DE', letters(n)));
  }
}

function* partnersOf(count: number, like: Like): Iterable<Change> {
  for (let n = 0; n < count; n++) {
    const country = `X${String.fromCharCode(65 + Math.floor(n / 46_656))}`;
    yield partnerOf(like, n % 2 === 0 ? 'EMSP' : 'CPO', country, letters(n));
    if (n % 2 === 1) yield routeCommit(partyKey(country, letters(n - 1)), partyKey(country, letters(n)));
  }
}

function routeCommit(emsp: string, cpo: string): Change {
  const route = { emsp, cpo, active: true };
  const event = { ...plain, stream: `route:${emsp}/${cpo}`, type: 'route.set', at: at(0), data: route };
  return { events: [event], puts: [routePut(route)] };
}

/** Everything that is owed was delivered: each delivery has its row, and every receiver its floor at the head. */
async function settleAll(store: Store, fence: Fence): Promise<void> {
  const attempt = { at: at(0), duration_ms: 3, http_status: 200, ocpi_status: 1000, class: 'delivered', excerpt: '' };
  const memory = { attempts: [attempt], due: null, since: at(0), tries: 1, class: 'delivered', reason: null };
  const head = store.head();
  for (let after = 0; after < head; ) {
    const events = await store.read({ after, limit: 5_000 });
    const rows = events.flatMap(({ seq, to, data }) =>
      to.map((dest) => {
        const { module } = data as ObjectEventData;
        return { dest, seq, state: 'DELIVERED', data: { ...memory, module } } as const;
      }),
    );
    await store.settle(fence, rows, []);
    after = events.at(-1)?.seq ?? head;
  }
  const dests: string[] = [];
  for await (const { data } of store.scan('partners')) {
    dests.push(...(data as Partner).roles.map((role) => partyKey(role.country_code, role.party_id)));
  }
  await store.settle(
    fence,
    [],
    dests.map((dest) => ({ dest, seq: head })),
  );
}
