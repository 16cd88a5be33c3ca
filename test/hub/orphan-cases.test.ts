/** Sessions that do not end as they should: the watch, the case, what the CPO says when it is asked. [D36, D52] */
import { join } from 'node:path';
import type { OrphanKind } from '../../src/domain/events.ts';
import { OrphanRecords, orphanRow } from '../../src/hub/exchange/orphan-records.ts';
import type { Replaced } from '../../src/main.ts';
import { turnOfLoop } from '../../src/process-load.ts';
import type { Put, Store } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { HeldWrites } from '../delivery/held-writes.ts';
import { cdrBody, sessionBody } from '../support/bodies.ts';
import { copyDataDirectory, directoryFor } from '../support/directory.ts';
import { closed, hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { type Lists, lists, pagesAsked } from '../support/lists.ts';
import { itemsOf, lines, quiet } from '../support/observed.ts';
import {
  admin,
  type PlainPartner,
  type PlainPartnerOptions,
  type Received,
  type Reply,
} from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

const minute = 60_000;
const now = '2026-05-01T10:01:00.000Z';
const modules = [
  ['commands', 'RECEIVER'],
  ['sessions', 'SENDER'],
  ['cdrs', 'SENDER'],
] as const;

interface Scene {
  readonly hub: Awaited<ReturnType<typeof hubFor>>;
  readonly clock: SimulatedClock;
  readonly served: Lists;
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  readonly dataDir: string;
}

async function scene(
  t: Test,
  env: Record<string, string> = {},
  others: PlainPartnerOptions['others'] = [],
  replaced: Pick<Replaced, 'wrap'> = {},
): Promise<Scene> {
  const clock = new SimulatedClock(now);
  const dataDir = join(directoryFor(t), 'data');
  const hub = await hubFor(t, env, { clock, ...replaced }, dataDir);
  const served = lists();
  Object.assign(served.texts, { sessions: [], cdrs: [] });
  const cpo = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO', modules, others },
    answer: (received) =>
      received.method === 'POST' ? { body: { result: 'ACCEPTED', timeout: 30 } } : served.answer(received),
  });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  return { hub, clock, served, cpo, emsp, dataDir };
}

const session = (id: string, status: string, fields: object = {}) =>
  JSON.stringify(sessionBody(id, { status, last_updated: '2026-05-01T09:59:00Z', ...fields }));

/** An active session that the eMSP stopped. */
async function stopped({ cpo, emsp, hub }: Scene, id = 'S1', fields: object = {}): Promise<void> {
  await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, session(id, 'ACTIVE', fields));
  const command = { response_url: `${emsp.url}/ocpi/result`, session_id: id };
  const { json } = await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', command);
  if ((json.data as { result: string }).result !== 'ACCEPTED') throw new Error(JSON.stringify(json));
  await quiet(hub);
  cpo.received.splice(0);
  emsp.received.splice(0);
}

/** Writes rows into the store of a closed hub, with events of these instants; how many rows. */
async function write(dataDir: string, ats: string[], rowsOf: (store: Store) => AsyncIterable<Put>): Promise<number> {
  const store = await openLevelStore({ directory: join(dataDir, 'store'), node: 'test' });
  const puts: Put[] = [];
  for await (const put of rowsOf(store)) puts.push(put);
  const event = { stream: 'test', type: 'test.forged', party: null, correlationId: null, to: [], data: null };
  const events = ats.map((at) => ({ at, ...event, body: null }));
  await store.append({ fence: store.held(), idem: 'forged', events, puts });
  await store.close();
  return puts.length;
}

/** More events than are looked through where no floor says up to where all were followed. */
const longAfter = (at: string): string[] =>
  [-120_000, 0].flatMap((ms) => new Array<string>(1_000).fill(new Date(Date.parse(at) + ms).toISOString()));

async function* noWatches(store: Store): AsyncIterable<Put> {
  for await (const { kind, owner, id } of store.scan('orphans')) yield { kind, owner, id, gone: true };
}

/** As many watches of stopped sessions as a CPO may have, `OLD0` and so on. */
async function* manyWatches(): AsyncIterable<Put> {
  for (let n = 0; n < 10_000; n++) {
    const ends = {
      graceEndsAt: '2026-05-02T00:00:00.000Z',
      openedAt: null,
      pulledAt: null,
      resolvedAt: null,
      note: null,
    };
    const of = { id: `old${n}`, cpo: 'NL-CPO', emsp: 'NL-EMS', session: `OLD${n}` };
    yield orphanRow({ ...of, ...ends, kind: 'stop_without_complete', state: 'GRACE' });
  }
}

async function* completed(store: Store): AsyncIterable<Put> {
  for await (const row of store.scan('sessions')) {
    const data = row.data as { facts: object };
    yield { ...row, data: { ...data, facts: { ...data.facts, status: 'COMPLETED' } } };
  }
}

/** Cases, and behind them the watches that are no cases yet. */
const cases = async (hub: Scene['hub']) => [
  ...(await itemsOf(hub, '/orphans')),
  ...(await itemsOf(hub, '/orphans?state=GRACE')),
];

/** Moves the clock over grace and sweep, and gives the case once the CPO was asked for it. */
async function opened({ hub, clock }: Scene, spanMs = 5 * minute): Promise<Record<string, unknown>> {
  clock.advance(spanMs);
  await hub.settled();
  const [found = {}] = await cases(hub);
  if (found.pulled_at == null && found.state !== 'RESOLVED') throw new Error(`not asked: ${JSON.stringify(found)}`);
  return found;
}

t.test('the first sweep after the grace opens a case, and the CPO is queried once by date [D36]', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, served, cpo, emsp } = scenery;
  await stopped(scenery);
  t.match(await cases(hub), [{ state: 'GRACE', kind: 'stop_without_complete', session: 'NL-CPO/S1', opened_at: null }]);
  clock.advance(3 * minute);
  t.match(await cases(hub), [{ state: 'GRACE' }], 'the grace is over, the sweep is not due');
  served.texts.sessions = [session('S0', 'COMPLETED'), session('S2', 'ACTIVE'), session('s1', 'ACTIVE')];
  const found = await opened(scenery, minute);
  t.match(found, { state: 'OPEN', opened_at: '2026-05-01T10:05:00.000Z', cpo: 'NL-CPO', emsp: 'NL-EMS' });
  t.equal(found.note, 'queried: the CPO reports ACTIVE');
  const [first, second, ...more] = pagesAsked(cpo.received, 'sessions');
  t.equal(first?.get('date_from'), '2026-05-01T08:59:00Z', 'from around its last change');
  t.equal(first?.get('date_to'), '2026-05-01T11:05:00Z');
  t.equal(second?.get('offset'), '2', 'it stood on the second page');
  t.same(more, []);
  clock.advance(20 * minute);
  await hub.settled();
  t.equal((await cases(hub)).length, 1, 'sweeps came and went');
  t.equal(pagesAsked(cpo.received, 'sessions').length, 2, 'once');
  t.same(lines(cpo.received.filter(({ method }) => method !== 'GET')), [], 'and no second stop');
  t.same(
    lines(emsp.received),
    ['PUT /ocpi/2.2.1/sessions/NL/CPO/S1'],
    'what the CPO has is stored and forwarded, other sessions are not',
  );
});

t.test('a sweep opens one case in a turn of the event loop [ORPHAN-CASES-3]', async (t) => {
  const reads = new Map<number, number>();
  const wrap = wrapStore((store) => ({
    get(key) {
      const turn = turnOfLoop();
      if (key.kind === 'sessions') reads.set(turn, (reads.get(turn) ?? 0) + 1);
      return store.get(key);
    },
  }));
  const scenery = await scene(t, {}, [], { wrap });
  const { hub, clock } = scenery;
  for (let n = 0; n < 20; n++) await stopped(scenery, `S${n}`);
  reads.clear();
  clock.advance(5 * minute);
  await hub.settled();
  t.equal((await itemsOf(hub, '/orphans?state=OPEN')).length, 20);
  const counts = [...reads.values()];
  t.ok(counts.length >= 20, `${counts.length} turns`);
  // The sweep begins within a turn, and the look-up of a case that is open reads its session, too.
  t.ok(Math.max(...counts) <= 3, `${Math.max(...counts)} sessions are read in one turn`);
});

t.test('a CPO has at most 10,000 sessions of each kind that are watched or a case [ORPHAN-RECORDS-1]', async (t) => {
  const said: unknown[] = [];
  const never = () => t.fail('it is a warning');
  const log = { debug: never, info: never, error: never, warn: (...of: unknown[]) => void said.push(of) };
  const records = new OrphanRecords({ clock: new SimulatedClock(now), log });
  const begin = (id: string, cpo: string, kind: OrphanKind) => records.begin(`${kind}:${cpo}/${id}`, kind, cpo);
  for (const [kind, sentence] of [
    ['stop_without_complete', 'stopped sessions are not watched: their CPO has too many cases'],
    ['complete_without_cdr', 'completed sessions are not watched for their CDRs: their CPO owes too many'],
  ] as const) {
    for (let n = 0; n < 10_000; n++)
      if (!begin(`S${n}`, 'NL-CPO', kind)) throw new Error(`S${n} is not watched: ${kind}`);
    t.notOk(begin('more', 'NL-CPO', kind));
    t.strictSame(said.splice(0), [[{ partyId: 'NL-CPO', count: 1, most: 10_000 }, sentence]]);
    t.ok(begin('more', 'NL-OTH', kind), 'of another CPO');
    records.delete(`${kind}:NL-CPO/S7`);
    t.ok(begin('more', 'NL-CPO', kind), 'one that ends makes room');
    t.notOk(begin('yet another', 'NL-CPO', kind));
  }
});

t.test(
  'a stopped session of a CPO with too many watches is not watched, until another watch ends',
  atLength,
  async (t) => {
    const scenery = await scene(t);
    const { hub, clock, cpo, emsp, dataDir } = scenery;
    await closed(hub, clock);
    t.equal(await write(dataDir, [now], manyWatches), 10_000);
    const lines: string[] = [];
    const again = await hubFor(t, {}, { clock, logTo: { write: (line) => void lines.push(line) } }, dataDir);
    for (const partner of [cpo, emsp]) partner.moveTo(again);
    const isWatched = (id: string) => again.created.context.supervisor.has(`orphan-stop:NL-CPO/${id}`);
    await stopped({ ...scenery, hub: again }, 'S1');
    t.notOk(isWatched('s1'));
    t.match(
      lines.filter((line) => line.includes('are not watched')),
      [/"partyId":"NL-CPO","count":1,"most":10000/],
    );
    t.ok(isWatched('old0'));
    await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/OLD0', session('OLD0', 'COMPLETED'));
    await again.settled();
    t.notOk(isWatched('old0'));
    await stopped({ ...scenery, hub: again }, 'S2');
    t.ok(isWatched('s2'), 'one that ends makes room');
  },
);

t.test('for a platform of several CPOs, the query names the CPO of the session [D16]', async (t) => {
  const scenery = await scene(t, {}, [{ role: 'CPO', country_code: 'DE', party_id: 'TWO' }]);
  await stopped(scenery);
  await opened(scenery);
  t.match(scenery.cpo.received, [{ headers: { 'ocpi-to-country-code': 'NL', 'ocpi-to-party-id': 'CPO' } }]);
});

t.test('a pulled COMPLETED is stored, forwarded byte for byte, and resolves the case [D52]', async (t) => {
  const scenery = await scene(t);
  const { hub, served, emsp } = scenery;
  await stopped(scenery);
  const text = session('S1', 'COMPLETED', { kwh: 4.5, last_updated: '2026-05-01T10:02:00Z' }).replace('4.5', '4.500');
  served.texts.sessions = [text];
  t.match(await opened(scenery), { kind: 'stop_without_complete' });
  t.match(await cases(hub), [
    { state: 'RESOLVED', note: 'the CPO reported COMPLETED', resolved_at: /^2026-05-01T10:0/ },
  ]);
  t.match(emsp.received, [{ method: 'PUT', path: '/ocpi/2.2.1/sessions/NL/CPO/S1', body: text }]);
  const { text: stored } = await emsp.call('GET', '/2.2.1/sessions/NL/CPO/S1');
  t.ok(stored.includes(text));
  t.same(await itemsOf(hub, '/stored-not-forwarded'), []);
});

t.test('an open case is assigned, snoozed and commented on, which it keeps when it is resolved', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, served, dataDir } = scenery;
  await stopped(scenery);
  const [watch] = await cases(hub);
  const path = `/orphans/${watch?.id}`;
  await t.rejects(admin(hub, 'POST', `${path}/triage`, { assignee: 'ann' }), /409/, 'a watch is no case');
  served.texts.sessions = [session('S1', 'ACTIVE')];
  t.match(await opened(scenery), { state: 'OPEN', triage: null });
  const totals = async (of: Scene['hub']) => (await admin(of, 'GET', '/overview')).totals;
  t.match(await totals(hub), { open_cases: 1, snoozed_cases: 0 });
  const change = { assignee: 'ann', snooze_until: '2026-05-01T11:00:00Z', remark: 'the driver has CARD-4711' };
  const triage = {
    assignee: 'ann',
    snoozed_until: '2026-05-01T11:00:00.000Z',
    remarks: [{ by: 'admin', text: 'the driver has CARD-4711', at: '2026-05-01T10:06:00.000Z' }],
  };
  t.match(await admin(hub, 'POST', `${path}/triage`, change), { state: 'OPEN', triage });
  t.match(await itemsOf(hub, '/orphans?assignee=ann'), [{ id: watch?.id, triage }]);
  t.strictSame(await itemsOf(hub, '/orphans?assignee=bob'), []);
  t.match(await itemsOf(hub, '/events?type=orphan.triaged'), [
    { by: 'operator', who: 'admin', object: 'NL-CPO/S1', parties: ['NL-CPO', 'NL-EMS'] },
  ]);

  await closed(hub, clock);
  const again = await hubFor(t, {}, { clock }, dataDir);
  t.match(await totals(again), { open_cases: 1, snoozed_cases: 1 });
  t.match(await cases(again), [{ state: 'OPEN', triage }], 'after a restart');
  clock.advance(54 * minute);
  await again.settled();
  t.match(await totals(again), { open_cases: 1, snoozed_cases: 0 }, 'it wakes by itself');
  await admin(again, 'POST', '/erase', { uid: 'CARD-4711', force: true });
  await admin(again, 'POST', `${path}/pull`);
  await again.settled();
  const named = async () => JSON.stringify(await cases(again)).includes('CARD-4711');
  t.notOk(await named(), 'what was erased does not come back with the next query');
  t.match(await admin(again, 'POST', `${path}/resolve`, { note: 'settled' }), {
    ...{ state: 'RESOLVED', triage: { assignee: 'ann', remarks: [{ text: /^the driver has (?!CARD)/ }] } },
  });
  t.notOk(await named(), 'nor with its end');
  await t.rejects(admin(again, 'POST', `${path}/triage`, { remark: 'late' }), /409/);
});

t.test('an unchanged session of the CPO is neither stored nor forwarded again', async (t) => {
  const scenery = await scene(t);
  const { hub, served, emsp } = scenery;
  await stopped(scenery);
  served.texts.sessions = [session('S1', 'ACTIVE')];
  const found = await opened(scenery);
  t.match(found, { state: 'OPEN', note: 'queried: the CPO reports ACTIVE, which was known' });
  await quiet(hub);
  t.same(emsp.received, []);
});

t.test('a push during the query is not undone by the older answer', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, served, cpo, emsp } = scenery;
  await stopped(scenery);
  const completed = session('S1', 'COMPLETED', { last_updated: '2026-05-01T10:03:00Z' });
  served.instead = async ({ method }) => {
    if (method !== 'GET') return {};
    await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', completed);
    return { body: [JSON.parse(session('S1', 'ACTIVE', { kwh: 2 }))] };
  };
  clock.advance(5 * minute);
  await hub.settled();
  t.equal((await cases(hub))[0]?.state, 'RESOLVED');
  t.match(emsp.received, [{ body: completed }]);
  t.equal(emsp.received.length, 1);
});

t.test('a failed pull is noted on the case, and can be repeated', async (t) => {
  const scenery = await scene(t);
  const { hub, served, emsp } = scenery;
  await stopped(scenery);
  served.instead = () => ({ status: 500, text: '' });
  const found = await opened(scenery);
  t.match(found, { state: 'OPEN', note: /^could not be queried: page 1: unavailable: / });
  const path = `/orphans/${String(found.id)}/pull`;
  const noteOf = async () => (await cases(hub))[0]?.note;
  for (const [texts, note] of [
    [[], /^queried: the CPO does not list the session$/],
    [[session('S1', 'COMPLETED', { kwh: 'much' })], /cannot be used: kwh: expected number/],
  ] as const) {
    served.instead = () => undefined;
    served.texts.sessions = [...texts];
    t.match(await admin(hub, 'POST', path), { id: found.id, state: 'OPEN' });
    await hub.settled();
    t.match(await noteOf(), note, 'its note says what came');
  }
  let asked = 0;
  served.instead = () => ({ body: [], headers: { Link: `<?page=${++asked}>; rel="next"` } });
  await admin(hub, 'POST', path);
  await hub.settled();
  t.equal(asked, 10);
  t.match(await noteOf(), /^could not be queried: the list may go on behind the last page that was read/, '[PULL-9]');
  served.instead = () => undefined;
  const { circuits } = await admin(hub, 'GET', '/parties/NL-CPO');
  t.match(circuits, [{ circuit: 'sync', failures: 0 }, { circuit: 'async' }], 'no circuit heard of it');
  await quiet(hub);
  t.same(emsp.received, [], 'nothing was invented');
  served.texts.sessions = [session('S1', 'INVALID')];
  await admin(hub, 'POST', path);
  await hub.settled();
  t.equal((await cases(hub))[0]?.state, 'RESOLVED');
  t.equal(await noteOf(), 'the CPO reported INVALID');
});

t.test('the list of a large CPO is scanned whole, an endless one up to its bounds [ORPHAN-LOOKUP-3]', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, cpo, served } = scenery;
  await stopped(scenery);
  const others = (count: number, fields: object = {}) =>
    Array.from({ length: count }, (_, n) => session(`OTHER${n}`, 'ACTIVE', fields));
  served.texts.sessions = [...others(44), session('S1', 'ACTIVE', { kwh: 2 })];
  const found = await opened(scenery);
  t.equal(found.note, 'queried: the CPO reports ACTIVE');
  t.equal(pagesAsked(cpo.received, 'sessions').length, 23, 'it was on the last of small pages');
  const path = `/orphans/${String(found.id)}/pull`;
  const noteNow = async () => {
    await admin(hub, 'POST', path);
    await hub.settled();
    return (await cases(hub))[0]?.note;
  };
  served.pageSize = 100;
  served.texts.sessions = [...others(99, { x: 'x'.repeat(25_000) }), session('S1', 'ACTIVE', { kwh: 3 })];
  t.equal(await noteNow(), 'queried: the CPO reports ACTIVE', 'in a page of 2.5 MB');

  const data = (text: string) => `{"status_code":1000,"timestamp":"2026-01-01T00:00:00Z","data":[${text}]}`;
  const large = (mebibytes: number) => session('OTHER', 'ACTIVE', { x: 'x'.repeat(mebibytes * 1024 * 1024) });
  let page = 0;
  const endless = (text: string) => {
    page = 0;
    served.instead = () => {
      page += 1;
      return { text: data(text.replace('OTHER', `OTHER${page}`)), headers: { Link: `<?page=${page}>; rel="next"` } };
    };
  };
  endless(large(7));
  t.equal(await noteNow(), 'could not be queried: the list has more than 40 MiB');
  t.equal(page, 6);
  endless(session('OTHER', 'ACTIVE'));
  t.equal(await noteNow(), 'could not be queried: the list has more than 1000 pages');
  t.equal(page, 1_000);
  endless(large(8));
  t.match(await noteNow(), /^could not be queried: page 1: .*larger than 8 MiB/);
  let answered = () => {};
  let asked = () => {};
  const isAsked = new Promise<void>((resolve) => (asked = resolve));
  served.instead = () => {
    asked();
    return new Promise((resolve) => (answered = () => resolve({ text: data('') })));
  };
  await admin(hub, 'POST', path);
  await isAsked;
  clock.advance(2 * minute);
  await hub.settled(cpo);
  t.equal((await cases(hub))[0]?.note, 'could not be queried: it took longer than 120 s');
  answered();
});

t.test('one scan of a list answers all waiting cases whose time it covers [ORPHAN-LOOKUP-4]', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, cpo, served } = scenery;
  // The time that is covered begins with the last change of the session whose turn it is.
  const changedAt = ['10:00', '09:59', '09:59', '09:59', '09:58', '09:59'];
  for (const [at, time] of changedAt.entries())
    await stopped(scenery, `S${at + 1}`, { last_updated: `2026-05-01T${time}:00Z` });
  const listed = (id: string, status = 'ACTIVE') => JSON.parse(session(id, status, { kwh: 2 })) as object;
  const more = { Link: '<?page=2>; rel="next"' };
  let answerFirst = () => {};
  const first = new Promise<Reply>((resolve) => (answerFirst = () => resolve({ body: [] })));
  const replies = [
    first,
    { body: [listed('S3', 'COMPLETED')], headers: more },
    { status: 500, text: '' },
    { body: [listed('S6')] },
    { body: [listed('S5')] },
  ];
  served.instead = ({ method }) => (method === 'GET' ? replies.shift() : undefined);
  clock.advance(5 * minute);
  await hub.settled(cpo);
  t.equal((await itemsOf(hub, '/orphans?state=OPEN')).length, 6, 'the others wait');
  answerFirst();
  await hub.settled();
  const notes = (await cases(hub)).map(({ session, note }) => `${String(session).slice(-2)} ${String(note)}`);
  t.match(notes.sort(), [
    'S1 queried: the CPO does not list the session',
    /^S2 could not be queried: page 2: unavailable/,
    'S3 the CPO reported COMPLETED',
    'S4 queried: the CPO does not list the session',
    'S5 queried: the CPO reports ACTIVE',
    'S6 queried: the CPO reports ACTIVE',
  ]);
  const froms = pagesAsked(cpo.received, 'sessions').map((query) => query.get('date_from'));
  t.strictSame(
    froms.map((from) => from?.slice(11, 16)),
    ['09:00', '08:59', undefined, '08:59', '08:58'],
    'for S1, for S2, of which the second page failed, for S4 and for S5',
  );
});

t.test('a look-up of many small pages from a slow CPO ends in time [ORPHAN-LOOKUP-3]', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, served } = scenery;
  await stopped(scenery);
  let page = 0;
  served.instead = ({ method }) => {
    if (method !== 'GET') return undefined;
    clock.advance(100);
    page += 1;
    const body = [JSON.parse(page === 700 ? session('S1', 'ACTIVE', { kwh: 2 }) : session(`OTHER${page}`, 'ACTIVE'))];
    return { body, headers: page === 700 ? {} : { Link: `<?page=${page}>; rel="next"` } };
  };
  clock.advance(5 * minute);
  const noteNow = async () => {
    await hub.settled();
    return (await cases(hub))[0]?.note;
  };
  let note = await noteNow();
  for (; note === null; note = await noteNow()) clock.advance(150);
  t.equal(note, 'queried: the CPO reports ACTIVE');
  t.equal(page, 700);
});

t.test('after each page of a look-up the hub pauses for three times as long as it took [SENDER-LISTS-4]', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, cpo, served } = scenery;
  await stopped(scenery);
  let tookMs = 40;
  served.texts.sessions = ['A', 'B', 'C', 'D', 'E', 'F', 'G'].map((id) => session(id, 'ACTIVE'));
  served.instead = ({ method }) => {
    if (method === 'GET') clock.advance(tookMs);
    return undefined;
  };
  clock.advance(5 * minute);
  const pages = async (restMs: number) => {
    clock.advance(restMs);
    await hub.settled();
    return pagesAsked(cpo.received, 'sessions').length;
  };
  t.equal(await pages(0), 1);
  t.equal(await pages(119), 1);
  t.equal(await pages(1), 2);
  tookMs = 5_000;
  t.equal(await pages(120), 3);
  t.equal(await pages(149), 3, 'a slow partner is not held up as much');
  t.equal(await pages(1), 4);
  t.equal(await pages(150), 4);
  t.match(await cases(hub), [{ note: 'queried: the CPO does not list the session' }]);
});

t.test('an operator resolves a case by hand, with or without a note; a case that is not open is refused', async (t) => {
  const scenery = await scene(t, { HUB_VIEWER_TOKEN: 'viewer-token-of-the-test' });
  const { hub, clock, served, emsp } = scenery;
  await stopped(scenery);
  const refusal = (path: string, body: object = {}, adminToken = hub.adminToken) =>
    admin({ url: hub.url, adminToken }, 'POST', path, body).then(String, (error: Error) => error.message);
  const [inGrace] = await cases(hub);
  t.match(await refusal(`/orphans/${String(inGrace?.id)}/resolve`), /409 .*not open/, 'a watch is no case yet');
  const { id } = await opened(scenery);
  t.match(await refusal(`/orphans/${String(id)}/resolve`, {}, 'viewer-token-of-the-test'), /403/);
  t.match(await refusal(`/orphans/${String(id)}/resolve`, { remark: 'x' }), /422/);
  t.match(await refusal('/orphans/none/resolve'), /404/);
  t.match(await refusal('/orphans/none/pull'), /404/);
  const closed = await admin(hub, 'POST', `/orphans/${String(id)}/resolve`, { note: 'the CPO phoned' });
  t.match(closed, { id, state: 'RESOLVED', note: 'the CPO phoned', resolved_at: /^2026/ });
  t.match(await refusal(`/orphans/${String(id)}/resolve`), /409/);
  t.match(await refusal(`/orphans/${String(id)}/pull`), /409/);
  t.same(hub.created.context.supervisor.has('orphan-stop:NL-CPO/s1'), false, 'its actor is gone');

  await stopped(scenery);
  served.texts.sessions = [];
  clock.advance(10 * minute);
  await hub.settled();
  const [second, ...others] = await itemsOf(hub, '/orphans?state=OPEN');
  t.ok(second, 'a second stop is a second case');
  t.same(others, []);
  t.match(await admin(hub, 'POST', `/orphans/${String(second?.id)}/resolve`), { note: 'closed by an operator' });
  t.equal((await cases(hub)).length, 2);
  await quiet(hub);
  const { text } = await emsp.call('GET', '/2.2.1/sessions/NL/CPO/S1');
  t.match(text, /"status":"ACTIVE"/, 'the session is as the CPO last said');
});

t.test(
  'a COMPLETED session without its CDR becomes a case where that is configured, and the CDR ends it',
  async (t) => {
    const scenery = await scene(t, { HUB_ORPHAN_CDR_AFTER_S: '600' });
    const { hub, clock, served, cpo, emsp } = scenery;
    const kindsOf = async () =>
      (await cases(hub)).map(({ session, state }) => `${String(session)} ${String(state)}`).sort();
    for (const id of ['S1', 'S2', 'S3', 'S4']) {
      if (id === 'S2') await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C2', { session_id: 's2' }));
      await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, session(id, 'COMPLETED'));
    }
    const unowned = { cdr_token: { country_code: 'XX', party_id: 'XXX', uid: 'U', type: 'RFID', contract_id: 'C' } };
    await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S5', session('S5', 'COMPLETED', unowned));
    await hub.settled();
    t.same(
      await kindsOf(),
      ['NL-CPO/S1 GRACE', 'NL-CPO/S3 GRACE', 'NL-CPO/S4 GRACE'],
      'not those billed before, or of nobody',
    );
    await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C3', { session_id: 'S3' }));
    await quiet(hub);
    t.equal((await cases(hub)).length, 2, 'one was billed in time');
    cpo.received.splice(0);
    emsp.received.splice(0);

    const cdr = JSON.stringify(cdrBody('C4', { session_id: 'S4', last_updated: '2026-05-01T10:20:00Z' }));
    served.texts.cdrs = [
      JSON.stringify(cdrBody('C9', { session_id: 'S9', last_updated: '2026-05-01T10:20:00Z' })),
      cdr,
    ];
    clock.advance(10 * minute);
    clock.advance(5 * minute);
    await hub.settled();
    t.same(await kindsOf(), ['NL-CPO/S1 OPEN', 'NL-CPO/S4 RESOLVED']);
    const [open] = await itemsOf(hub, '/orphans?state=OPEN');
    t.match(open, { kind: 'complete_without_cdr', note: 'queried: the CPO does not list a CDR of the session' });
    t.equal(emsp.received.length, 1, 'the CDR that the CPO had was forwarded');
    t.match(emsp.received, [{ method: 'POST', path: '/ocpi/2.2.1/cdrs', body: cdr }]);
    await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', session('S1', 'COMPLETED', { kwh: 7 }));
    await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1', { session_id: 's1' }));
    await hub.settled();
    t.same(await itemsOf(hub, '/orphans?state=OPEN'), [], 'the late CDR resolved the case');
    t.ok((await cases(hub)).some(({ note }) => note === 'the CDR C1 came'));
  },
);

t.test('a COMPLETED session without an eMSP waits for its CDR once its CPO has corrected it', async (t) => {
  const scenery = await scene(t, { HUB_ORPHAN_CDR_AFTER_S: '600' });
  const { hub, clock, cpo } = scenery;
  const push = (fields: object = {}) =>
    cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', session('S1', 'COMPLETED', fields));
  await push({ cdr_token: { country_code: 'XX', party_id: 'XXX', uid: 'U', type: 'RFID', contract_id: 'C' } });
  await hub.settled();
  t.same(await cases(hub), []);
  await push();
  await hub.settled();
  clock.advance(10 * minute);
  t.match(await opened(scenery), { state: 'OPEN', kind: 'complete_without_cdr', emsp: 'NL-EMS' });
  t.equal((await cases(hub)).length, 1);
  await admin(hub, 'POST', `/orphans/${(await cases(hub))[0]?.id}/resolve`);
  await push({ kwh: 7 });
  await hub.settled();
  t.equal((await cases(hub)).length, 1, 'and once');
});

t.test('without that setting a missing CDR is no case', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, cpo } = scenery;
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', session('S1', 'COMPLETED'));
  clock.advance(24 * 60 * minute);
  await stopped(scenery, 'S2');
  t.match(await cases(hub), [{ session: 'NL-CPO/S2' }], 'a watch that came later is there, so the other would be');
  t.equal((await cases(hub)).length, 1);
});

t.test(
  'a restart keeps running graces and open cases, and queries the CPO where that is missing [ORPHAN-STOP-2]',
  async (t) => {
    const scenery = await scene(t, { HUB_PROBE_INTERVAL_S: '1000000' });
    const { hub, clock, served, cpo, emsp, dataDir } = scenery;
    await stopped(scenery, 'S1');
    served.instead = ({ method }) => (method === 'GET' ? new Promise(() => {}) : undefined);
    clock.advance(5 * minute);
    await hub.settled(cpo);
    t.equal(pagesAsked(cpo.received, 'sessions').length, 1, 'the CPO is being asked');
    t.match(await cases(hub), [{ state: 'OPEN', pulled_at: null }]);
    await stopped(scenery, 'S2');

    // The directory as a power cut would leave it: everything acknowledged is in it.
    const copy = join(dataDir, '..', 'copy');
    copyDataDirectory(dataDir, copy);
    await closed(hub, clock);
    served.instead = () => undefined;
    served.texts.sessions = [session('S1', 'COMPLETED'), session('S2', 'COMPLETED')];
    const later = new SimulatedClock(new Date(clock.now()).toISOString());
    const again = await hubFor(t, { HUB_PROBE_INTERVAL_S: '1000000' }, { clock: later }, copy);
    await again.settled();
    t.ok(
      (await itemsOf(again, '/orphans?state=RESOLVED')).some(({ session }) => session === 'NL-CPO/S1'),
      'the open case is resolved by what the CPO says',
    );
    t.match(await itemsOf(again, '/orphans?state=GRACE'), [{ session: 'NL-CPO/S2' }], 'the other grace runs on');
    later.advance(5 * minute);
    await again.settled();
    t.ok(
      (await itemsOf(again, '/orphans?state=RESOLVED')).some(({ session }) => session === 'NL-CPO/S2'),
      'its case was opened and resolved in time',
    );
    t.ok(
      ['S1', 'S2'].every((id) =>
        emsp.received.some(({ path, body }) => path.endsWith(id) && body.includes('COMPLETED')),
      ),
      'both reached the eMSP',
    );
  },
);

t.test('a hub that closes during a query of a CPO queries again at its next start', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, served, cpo, dataDir } = scenery;
  await stopped(scenery);
  served.instead = ({ method }) => (method === 'GET' ? new Promise(() => {}) : undefined);
  clock.advance(5 * minute);
  await hub.settled(cpo);
  t.equal(pagesAsked(cpo.received, 'sessions').length, 1, 'the CPO is being asked');
  await closed(hub, clock);
  served.instead = () => undefined;
  const again = await hubFor(t, {}, { clock }, dataDir);
  await again.settled();
  t.ok((await itemsOf(again, '/orphans'))[0]?.pulled_at !== null, 'it was asked again');
  t.match(await itemsOf(again, '/orphans'), [{ state: 'OPEN', note: 'queried: the CPO does not list the session' }]);
});

t.test('a watch that a kill prevented is set at the next start, from the instant of the answer [D36]', async (t) => {
  const dataDir = directoryFor(t);
  const clock = new SimulatedClock('2026-01-02T03:00:00Z');
  const first = await hubFor(t, {}, { clock }, dataDir);
  const cpoAnswers = (received: Received) =>
    received.path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 30 } } : {};
  const { cpo, emsp } = await routedPair(t, first, { cpo: cpoAnswers });
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  const stop = { response_url: `${emsp.url}/ocpi/2.2.1/results`, session_id: 'S1' };
  t.match(await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', stop), { json: { data: { result: 'ACCEPTED' } } });
  await first.close();
  // As the kill would have left it: the answer is in the log, the watch is not.
  t.equal(await write(dataDir, ['2026-01-02T03:00:01.000Z'], noWatches), 1, 'there was a watch');
  clock.advance(60_000);
  const second = await hubFor(t, {}, { clock }, dataDir);
  t.match(await admin(second, 'GET', '/orphans?state=GRACE'), {
    items: [{ kind: 'stop_without_complete', state: 'GRACE', session: 'NL-CPO/S1' }],
  });
  await second.close();
  const third = await hubFor(t, {}, { clock }, dataDir);
  t.equal(((await admin(third, 'GET', '/orphans?state=GRACE')).items as unknown[]).length, 1, 'once');
});

t.test('a session is watched although a kill prevented the record that its stop was accepted', async (t) => {
  const clock = new SimulatedClock(now);
  const held = new HeldWrites();
  const dataDir = join(directoryFor(t), 'data');
  const hub = await hubFor(t, {}, { clock, wrap: held.wrap }, dataDir);
  const { cpo, emsp } = await routedPair(t, hub, { cpo: () => ({ body: { result: 'ACCEPTED', timeout: 30 } }) });
  for (const id of ['S1', 'S2']) await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
  const isHeld = held.hold('command.answered');
  const stop = { response_url: `${emsp.url}/ocpi/2.2.1/results`, session_id: 'S1' };
  const answered = emsp.push('POST', '/2.2.1/commands/STOP_SESSION', stop);
  await isHeld;
  // The directory as a kill would leave it.
  const copy = join(dataDir, '..', 'copy');
  copyDataDirectory(dataDir, copy);
  held.release('command.answered');
  await answered;
  const again = await hubFor(t, {}, { clock }, copy);
  t.match(await itemsOf(again, '/commands'), [{ command: 'STOP_SESSION', state: 'rejected' }], 'it was cut off');
  t.match(await itemsOf(again, '/orphans?state=GRACE'), [{ session: 'NL-CPO/S1', kind: 'stop_without_complete' }]);
  t.equal((await cases(again)).length, 1, 'no other session is watched');
});

t.test(
  'an answer waits at most a second for its record, and as long for the watch of its session [COMMANDS-9]',
  async (t) => {
    const held = new HeldWrites();
    const { hub, clock, cpo, emsp } = await scene(t, {}, [], { wrap: held.wrap });
    await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
    const [answer, watch] = [held.hold('command.answered'), held.hold('orphan.armed')];
    const stop = { response_url: `${emsp.url}/ocpi/result`, session_id: 'S1' };
    const stopped = emsp.call('POST', '/2.2.1/commands/STOP_SESSION', stop);
    await answer;
    clock.advance(1_000);
    await watch;
    clock.advance(1_000);
    t.match(await stopped, { json: { data: { result: 'ACCEPTED' } } });
    const forwarded = cpo.received.find(({ path }) => path.endsWith('/STOP_SESSION'));
    const { response_url } = JSON.parse(forwarded?.body ?? '') as { response_url: string };
    const relay = held.hold('command.relayed');
    const called = cpo.call('POST', new URL(response_url).pathname.slice('/ocpi'.length), { result: 'ACCEPTED' });
    held.release('command.answered');
    held.release('orphan.armed');
    await relay;
    clock.advance(1_000);
    t.match(await called, { status: 200 }, 'the result was relayed');
    held.release('command.relayed');
    await hub.settled();
    t.match(await itemsOf(hub, '/commands'), [{ state: 'relayed' }]);
    t.match(await itemsOf(hub, '/orphans?state=GRACE'), [{ session: 'NL-CPO/S1' }]);
    const facts = await hub.created.context.store.history(
      `command:${response_url.slice(response_url.lastIndexOf('/') + 1)}`,
    );
    t.same(
      facts.map(({ type }) => type.slice('command.'.length)),
      ['requested', 'answered', 'resultReceived', 'relayed'],
    );
  },
);

t.test(
  'a start opens the case of a session whose grace ended meanwhile, without waiting for the next sweep',
  async (t) => {
    const scenery = await scene(t);
    const { hub, clock, cpo, dataDir } = scenery;
    await stopped(scenery);
    await closed(hub, clock);
    const later = new SimulatedClock('2026-05-01T11:01:30.000Z');
    const again = await hubFor(t, {}, { clock: later }, dataDir);
    later.advance(0);
    await again.settled();
    t.match(await cases(again), [{ state: 'OPEN', opened_at: '2026-05-01T11:01:30.000Z' }]);
    t.equal(pagesAsked(cpo.received, 'sessions').length, 1, 'and the CPO was asked');
  },
);

t.test('a stop that a door recorded while there was no owner is watched, after any delay', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, dataDir } = scenery;
  // Two intervals: the floor of the follow-ups is written.
  for (let n = 0; n < 2; n++) clock.advance(10_000);
  await hub.settled();
  await stopped(scenery);
  await closed(hub, clock);
  const later = new Date(clock.now() + 300_000).toISOString();
  t.equal(await write(dataDir, longAfter(later), noWatches), 1);
  const next = await hubFor(t, {}, { clock: new SimulatedClock(later) }, dataDir);
  await next.settled();
  t.match(await cases(next), [{ kind: 'stop_without_complete', session: 'NL-CPO/S1' }]);
});

t.test('a start resolves the cases whose session ended while no owner followed', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, dataDir } = scenery;
  await stopped(scenery);
  t.match(await opened(scenery), { state: 'OPEN' });
  await closed(hub, clock);
  const later = new Date(clock.now() + 300_000).toISOString();
  await write(dataDir, longAfter(later), completed);
  const next = await hubFor(t, {}, { clock: new SimulatedClock(later) }, dataDir);
  await next.settled();
  t.match(await cases(next), [{ state: 'RESOLVED', note: 'the CPO reported COMPLETED' }]);
});
