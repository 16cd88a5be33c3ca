/**
 * A list of 30 pages, in the campaign of 100 with 1,000 objects each, crawled page by page while it is being written to. The oracle is the CPO's own memory of what the hub
 * had acknowledged when the crawl began and what it acknowledged since.
 */
import { Pool } from 'undici';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { admin, eventually, type PlainPartner, plainPartner } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

const pages = 100;
const objectCount = 100_000;
const pageSize = objectCount / pages;
const connections = 64;
/**
 * Pages around which there are writes. Not around the last ones: two writes under way at once may land against the order of their
 * dates, and behind a reader that has come to the end nobody can put an object in front of it.
 */
const busyPages = pages - 16;
/** Half of them before the page is asked for, half while it is on its way. */
const updatesPerPage = 12;
const updatedCount = busyPages * updatesPerPage;
/** Deleted, and newly made, between the pages. */
const deletedCount = 40;
const createdCount = 60;

interface Seen {
  readonly id: string;
  readonly version: number;
}

const idOf = (index: number) => `T${String(index).padStart(6, '0')}`;

/** More objects than a page has share one instant: their order is then that of their ids. [D32] */
const instants = 97;
const firstUpdated = (index: number) => new Date(Date.UTC(2020, 0, 1) + (index % instants) * 1000).toISOString();

/** `version` is the price: each acknowledged write of an object has a higher one. */
function tariffText(id: string, version: number, lastUpdated: string): string {
  const elements = [{ price_components: [{ type: 'FLAT', price: version, step_size: 1 }] }];
  return JSON.stringify({
    ...{ country_code: 'NL', party_id: 'CPO', id, currency: 'EUR', elements },
    last_updated: lastUpdated,
  });
}

/** The CPO's own view of its tariffs: what the hub acknowledged. */
function catalogue(hubUrl: string, token: string) {
  const pool = new Pool(hubUrl, { connections });
  const versions = new Map<string, number>();
  const headers = {
    authorization: `Token ${Buffer.from(token).toString('base64')}`,
    'content-type': 'application/json',
  };

  async function send(method: 'PUT' | 'DELETE', id: string, body?: string): Promise<void> {
    const path = `/ocpi/2.2.1/tariffs/NL/CPO/${id}`;
    const answer = await pool.request({ method, path, headers, ...(body !== undefined && { body }) });
    const text = await answer.body.text();
    if (answer.statusCode !== 200 || !text.includes('"status_code":1000')) throw new Error(`${method} ${id}: ${text}`);
  }
  async function put(id: string, lastUpdated: string): Promise<void> {
    const version = (versions.get(id) ?? 0) + 1;
    await send('PUT', id, tariffText(id, version, lastUpdated));
    versions.set(id, version);
  }
  async function remove(id: string): Promise<void> {
    await send('DELETE', id);
    versions.delete(id);
  }
  /** Puts tariffs 0 to `count` - 1, as fast as the connections carry them. */
  async function fill(count: number): Promise<void> {
    let next = 0;
    const worker = async () => {
      for (let index = next++; index < count; index = next++) await put(idOf(index), firstUpdated(index));
    };
    await Promise.all(Array.from({ length: connections }, worker));
  }
  return { versions, put, remove, fill, close: () => pool.close() };
}

type Catalogue = ReturnType<typeof catalogue>;

interface PageRead {
  readonly objects: readonly Seen[];
  readonly total: number;
  readonly next: string | null;
  readonly ms: number;
}

/** One page; `path` is below `/ocpi`. */
async function readPage(emsp: PlainPartner, path: string): Promise<PageRead> {
  const started = performance.now();
  const { status, headers, json } = await emsp.call('GET', path);
  const ms = performance.now() - started;
  if (status !== 200 || json.status_code !== 1000) throw new Error(`GET ${path}: ${status} ${json.status_message}`);
  const tariffs = json.data as { id: string; elements: { price_components: { price: number }[] }[] }[];
  const objects = tariffs.map(({ id, elements }) => ({ id, version: elements[0]?.price_components[0]?.price ?? 0 }));
  const next = /<[^>]*\/ocpi(\/[^>]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1] ?? null;
  return { objects, total: Number(headers.get('x-total-count')), next, ms };
}

/** Writes that happen around the pages of a crawl, each object at most once. */
function writesAround(cpo: Catalogue) {
  const updated = new Set<string>();
  const deleted = new Set<string>();
  let created = 0;
  // A prime stride visits every index before it repeats one: changes fall before, on and behind the page that is being read.
  let step = 0;
  const nextId = () => idOf((step++ * 7919) % objectCount);

  async function update(count: number): Promise<void> {
    const ids = Array.from({ length: count }, nextId);
    for (const id of ids) updated.add(id);
    await Promise.all(ids.map((id) => cpo.put(id, new Date().toISOString())));
  }
  async function createAndDelete(): Promise<void> {
    if (created < createdCount) await cpo.put(`N${created++}`, new Date().toISOString());
    if (deleted.size >= deletedCount) return;
    const id = nextId();
    deleted.add(id);
    await cpo.remove(id);
  }
  return { updated, deleted, update, createAndDelete };
}

function timesComment(t: Test, what: string, times: readonly number[]): void {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))]?.toFixed(1);
  t.comment(`${what}: ${times.length} pages, ms each: median ${at(0.5)}, p95 ${at(0.95)}, most ${at(1)}`);
  t.comment(`${what}, page by page: ${times.map((ms) => ms.toFixed(0)).join(' ')}`);
}

// A minute on an idle machine, several on one that runs other tests beside it.
t.setTimeout(900_000);

t.test(`a crawl of ${pages} pages of objects that are written to meanwhile misses none [D32]`, atLength, async (t) => {
  const env = { HUB_RATE_OTHER_PER_MIN: '100000000', HUB_RATE_LISTS_PER_MIN: '1000000' };
  const hub = await startChildHub({ dataDir: directoryFor(t), port: 0, env });
  t.teardown(() => hub.kill());
  const cpo = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsp = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  t.teardown(() => Promise.all([cpo.close(), emsp.close()]));
  await cpo.register(hub);
  const tariffs = catalogue(hub.url, cpo.hubToken);
  t.teardown(() => tariffs.close());
  const started = performance.now();
  await tariffs.fill(objectCount);
  t.comment(`${objectCount} tariffs pushed in ${((performance.now() - started) / 1000).toFixed(1)} s`);
  await emsp.register(hub);
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });

  await t.test('by rel="next", with writes between and during the pages', async (t) => {
    const atStart = new Map(tariffs.versions);
    const writes = writesAround(tariffs);
    const seen = new Map<string, number[]>();
    const times: number[] = [];
    let page: PageRead | null = null;
    let path: string | null = `/2.2.1/tariffs?limit=${pageSize}`;
    while (path !== null) {
      const isBusy = times.length < busyPages;
      if (isBusy) await writes.update(updatesPerPage / 2);
      if (isBusy && times.length > 0) await writes.createAndDelete();
      const writing = isBusy ? writes.update(updatesPerPage / 2) : null;
      const read: PageRead = await readPage(emsp, path);
      await writing;
      if (page === null) t.equal(read.total, objectCount, 'X-Total-Count is right at the start');
      for (const { id, version } of read.objects) seen.set(id, [...(seen.get(id) ?? []), version]);
      times.push(read.ms);
      page = read;
      path = read.next;
    }
    t.equal(page?.total, objectCount + createdCount - deletedCount, 'X-Total-Count is right at the end');
    t.equal(writes.updated.size, updatedCount, `${updatedCount} objects were updated meanwhile`);
    t.equal(writes.deleted.size, deletedCount, 'some were deleted');

    const throughout = [...atStart].filter(([id]) => !writes.deleted.has(id));
    const missed = throughout.filter(([id, version]) => Math.max(0, ...(seen.get(id) ?? [])) < version);
    t.same(missed, [], 'every object that was there throughout was seen, not older than when the crawl began');
    const unchanged = throughout.filter(([id]) => !writes.updated.has(id));
    const repeated = unchanged.filter(([id]) => seen.get(id)?.length !== 1);
    t.same(repeated, [], `each of the ${unchanged.length} unchanged objects was seen exactly once`);
    const backwards = [...seen].filter(([, versions]) =>
      versions.some((version, at) => version <= (versions[at - 1] ?? 0)),
    );
    t.same(backwards, [], 'no object was seen again in the same or an older version');
    const latest = [...tariffs.versions].filter(([id, version]) => seen.get(id)?.at(-1) !== version);
    t.same(latest, [], 'what was written before the last page was seen in its last version');
    t.comment(`${[...seen.values()].filter(({ length }) => length > 1).length} changed objects were seen twice`);
    timesComment(t, 'by links', times);
  });

  await t.test('by offsets that the client counts itself', async (t) => {
    const seen: Seen[] = [];
    const times: number[] = [];
    let total = Number.POSITIVE_INFINITY;
    while (seen.length < total) {
      const page = await readPage(emsp, `/2.2.1/tariffs?offset=${seen.length}&limit=${pageSize}`);
      if (page.objects.length === 0) break;
      seen.push(...page.objects);
      times.push(page.ms);
      total = page.total;
    }
    t.equal(seen.length, tariffs.versions.size, 'as many as there are');
    const wrong = seen.filter(({ id, version }) => tariffs.versions.get(id) !== version);
    t.same(wrong, [], 'each in its last version');
    t.equal(new Set(seen.map(({ id }) => id)).size, seen.length, 'none of them twice');
    timesComment(t, 'by offsets', times);
  });

  await t.test('and everything written meanwhile reached the eMSP', async () => {
    const expected = updatedCount + createdCount + deletedCount;
    await eventually('every update, creation and deletion has arrived', () => emsp.received.length >= expected);
  });
});
