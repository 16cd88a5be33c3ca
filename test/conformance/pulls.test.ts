/** Admin pulls: a CPO's own lists, read on an operator's word. [interface, Admin pulls; D51] */
import { locationBody, tariffBody } from '../support/bodies.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { lists, pagesAsked } from '../support/lists.ts';
import { idsOf, itemsOf, lines, quiet } from '../support/observed.ts';
import { admin, type PlainPartner, type Reply } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

interface HubAddress {
  readonly url: string;
  readonly adminToken: string;
}

const modules = [
  ['locations', 'SENDER'],
  ['tariffs', 'SENDER'],
] as const;

const changedAt = (minute: number) => ({ last_updated: `2026-05-01T10:${String(minute).padStart(2, '0')}:00Z` });
const location = (id: string, minute = 0, fields: object = {}) =>
  JSON.stringify(locationBody(id, { ...changedAt(minute), ...fields }));
const tariff = (id: string, minute = 0, fields: object = {}) =>
  JSON.stringify(tariffBody(id, { ...changedAt(minute), ...fields }));

async function listed(t: Test, options: { clock?: SimulatedClock; env?: Record<string, string> } = {}) {
  const hub = await hubFor(t, options.env, options.clock ? { clock: options.clock } : {});
  const served = lists();
  const cpo = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO', modules },
    answer: served.answer,
  });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  return { hub, served, cpo, emsp };
}

/** Starts a pull and gives what it came to. */
async function pull(
  hub: TestHub,
  module: string,
  body?: object,
  ...holders: PlainPartner[]
): Promise<Record<string, unknown>> {
  const { id } = await admin(hub, 'POST', `/parties/NL-CPO/pull/${module}`, body);
  await hub.settled(...holders);
  return admin(hub, 'GET', `/pulls/${String(id)}`);
}

/** Texts of the eMSP's list, byte for byte. */
async function catalogue(emsp: PlainPartner, module: string): Promise<string> {
  const { text } = await emsp.call('GET', `/2.2.1/${module}`);
  return text;
}

async function refusal(hub: HubAddress, path: string, body?: object): Promise<string> {
  return admin(hub, 'POST', path, body).then(
    () => 'accepted',
    (error: Error) => error.message,
  );
}

const withSpaces = (text: string) => text.replace('"publish":true', '"publish" :  true, "kept": 1.50');

t.test('a pull follows the links of every page and stores each object byte for byte [D17, D51]', async (t) => {
  const { hub, served, cpo, emsp } = await listed(t);
  const texts = [1, 2, 3, 4, 5].map((n) => withSpaces(location(`LOC${n}`, n)));
  served.texts.locations = texts;
  const done = await pull(hub, 'locations');
  t.match(done, {
    state: 'DONE',
    pages: 3,
    received: 5,
    stored: 5,
    unchanged: 0,
    invalid: 0,
    full: true,
    party: 'NL-CPO',
  });
  t.notOk('error' in done, 'no error stands where none was');
  const asked = pagesAsked(cpo.received, 'locations');
  t.same(
    asked.map((query) => query.get('offset')),
    [null, '2', '4'],
  );
  t.equal(asked[0]?.get('date_from'), null, 'the first pull asks for all');
  t.equal(cpo.received[0]?.headers['ocpi-to-party-id'], 'CPO');
  const stored = await catalogue(emsp, 'locations');
  for (const text of texts) t.ok(stored.includes(text), 'the very text');
  await quiet(hub);
  t.same(emsp.received, [], 'nothing is forwarded unless that is asked for');
});

t.test(
  'the next pull begins at the start of the last successful one, a full pull at the beginning [D51]',
  async (t) => {
    const clock = new SimulatedClock('2026-05-01T10:30:00.400Z');
    const { hub, served, cpo, emsp } = await listed(t, { clock });
    served.texts.locations = [location('LOC1', 1), location('LOC2', 2)];
    const first = await pull(hub, 'locations');
    t.equal(first.started_at, '2026-05-01T10:30:00.400Z');
    clock.advance(60_000);
    served.texts.locations = [location('LOC1', 1), location('LOC2', 45, { name: 'New' }), location('LOC3', 46)];
    const second = await pull(hub, 'locations');
    t.match(second, { full: false, date_from: first.started_at, received: 2, stored: 2 });
    t.equal(pagesAsked(cpo.received, 'locations').at(-1)?.get('date_from'), '2026-05-01T10:30:00Z', 'of its second');
    const third = await pull(hub, 'locations', { full: true });
    t.match(
      third,
      { full: true, date_from: null, received: 3, stored: 0, unchanged: 3 },
      'what is known is not stored again',
    );
    t.equal((await itemsOf(hub, '/events?type=object.put')).length, 4, 'once for each new text');
    t.same(idsOf(await emsp.call('GET', '/2.2.1/locations')), ['LOC1', 'LOC2', 'LOC3']);
    t.match(await pull(hub, 'tariffs'), { full: true, date_from: null }, 'each module has its own');
  },
);

t.test(
  'a failed pull keeps the objects that it stored, and the next one begins where the last successful one did',
  async (t) => {
    const { hub, served, cpo, emsp } = await listed(t);
    served.texts.locations = [1, 2, 3, 4].map((n) => location(`LOC${n}`, n));
    served.instead = ({ path }) => (path.includes('offset=2') ? { status: 500, text: 'oops' } : undefined);
    const failed = await pull(hub, 'locations');
    t.match(failed, { state: 'FAILED', pages: 1, received: 2, stored: 2, error: /page 2: unavailable: .*500/ });
    t.same(idsOf(await emsp.call('GET', '/2.2.1/locations')), ['LOC1', 'LOC2']);
    served.instead = () => undefined;
    t.match(await pull(hub, 'locations'), { state: 'DONE', full: true, received: 4, stored: 2, unchanged: 2 });
    t.equal(pagesAsked(cpo.received, 'locations')[2]?.get('date_from'), null);
  },
);

t.test('an invalid object is quarantined with its reason and does not stop the others', async (t) => {
  const { hub, served, emsp } = await listed(t);
  const broken = location('LOC2', 2, { publish: 'yes' });
  const foreign = location('LOC9', 3, { party_id: 'OTH' });
  served.texts.locations = [
    location('LOC1', 1),
    broken,
    foreign,
    '{"nobody":"knows"}',
    location('..', 4),
    location('LOC3', 5),
  ];
  served.pageSize = 10;
  t.match(await pull(hub, 'locations'), { state: 'DONE', received: 6, stored: 2, invalid: 4 });
  t.same(idsOf(await emsp.call('GET', '/2.2.1/locations')), ['LOC1', 'LOC3']);
  const kept = await itemsOf(hub, '/quarantine');
  t.match(
    new Map(kept.map(({ object, reason, text }) => [object, { reason, text }])),
    new Map<string | null, object>([
      ['NL-CPO/LOC2', { reason: 'publish: expected boolean', text: broken }],
      ['NL-OTH/LOC9', { reason: 'it belongs to NL-OTH', text: foreign }],
      [null, { reason: /country_code/, text: '{"nobody":"knows"}' }],
      ['NL-CPO/..', { reason: /not usable/ }],
    ]),
  );
  t.equal((await itemsOf(hub, '/events?type=pull.objectRefused')).length, 4, 'and in the log');

  served.texts.locations = [location('LOC2', 6)];
  await pull(hub, 'locations', { full: true });
  t.notOk(
    (await itemsOf(hub, '/quarantine')).some(({ object }) => object === 'NL-CPO/LOC2'),
    'what came good leaves',
  );
});

t.test(
  'with forward the routed eMSPs get new objects, and those that an earlier pull did not send [D51]',
  async (t) => {
    const { hub, served, emsp } = await listed(t);
    served.texts.locations = [location('LOC1', 1), location('LOC2', 2, { publish: false })];
    await pull(hub, 'locations');
    await quiet(hub);
    t.same(emsp.received, []);
    t.match(await pull(hub, 'locations', { full: true, forward: true }), { stored: 1, unchanged: 1 });
    t.same(lines(emsp.received), ['PUT /ocpi/2.2.1/locations/NL/CPO/LOC1'], 'an unpublished one is nobody’s');
    t.equal(emsp.received[0]?.body, served.texts.locations[0]);
    t.match(await pull(hub, 'locations', { full: true, forward: true }), { stored: 0, unchanged: 2 }, 'once');
  },
);

t.test('a full tariff pull replaces the catalogue, an incremental one deletes nothing [Admin pulls]', async (t) => {
  const clock = new SimulatedClock('2026-05-01T10:30:00Z');
  const { hub, served, cpo, emsp } = await listed(t, { clock });
  for (const id of ['OLD', 'BAD']) await cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariff(id));
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', location('LOC1'));
  await quiet(hub);
  emsp.received.splice(0);
  const ids = async () => idsOf(await emsp.call('GET', '/2.2.1/tariffs')).sort();
  served.texts.tariffs = [tariff('T1', 1), tariff('T2', 2), tariff('BAD', 3, { elements: 'none' })];
  t.match(await pull(hub, 'tariffs'), { state: 'DONE', full: true, stored: 2, invalid: 1, deleted: 1, note: null });
  t.same(await ids(), ['BAD', 'T1', 'T2'], 'what is listed stays, even where its new text is refused');
  clock.advance(60_000);
  served.texts.tariffs = [tariff('T2', 50, { currency: 'SEK' })];
  t.match(await pull(hub, 'tariffs'), { full: false, stored: 1, deleted: 0 });
  t.same(await ids(), ['BAD', 'T1', 'T2']);
  await quiet(hub);
  t.same(emsp.received, [], 'nothing of it was forwarded');
  t.match(await pull(hub, 'tariffs', { full: true, forward: true }), { deleted: 2 });
  t.equal(emsp.received.filter(({ method }) => method === 'DELETE').length, 2, 'the deletions arrived');
  t.same(await ids(), ['T2']);
  for (const type of ['object.put', 'object.deleted']) {
    const facts = await itemsOf(hub, `/events?object=NL-CPO/T1&type=${type}`);
    t.match(facts, [{ party: 'NL-CPO', by: 'hub' }], `${type} of a pull is an act of the hub`);
  }
  t.match(await itemsOf(hub, '/events?object=NL-CPO/OLD'), [{ by: 'partner' }, { by: 'hub' }], 'pushed, then deleted');
  served.texts.locations = [];
  t.match(await pull(hub, 'locations', { full: true }), { state: 'DONE', deleted: 0 });
  t.same(idsOf(await emsp.call('GET', '/2.2.1/locations')), ['LOC1'], 'locations are never deleted');
});

t.test('a tariff list that may have gaps deletes nothing', async (t) => {
  const { hub, served, cpo, emsp } = await listed(t);
  await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/OLD', tariff('OLD'));
  served.instead = () => ({ body: [JSON.parse(tariff('T1'))], headers: { 'X-Total-Count': '2' } });
  t.match(await pull(hub, 'tariffs'), { state: 'FAILED', deleted: 0, error: 'page 2 repeats the one before' });
  served.instead = () => ({ body: [JSON.parse(tariff('T1')), { currency: 'EUR' }] });
  t.match(await pull(hub, 'tariffs', { full: true }), { state: 'DONE', deleted: 0, note: /did not say which one/ });
  served.instead = () => ({ body: [JSON.parse(tariff('T1'))] });
  t.match(await pull(hub, 'tariffs', { full: true }), { state: 'DONE', deleted: 0, note: /did not say where it ends/ });
  t.same(idsOf(await emsp.call('GET', '/2.2.1/tariffs')).sort(), ['OLD', 'T1']);
  const full = Array.from({ length: 100 }, (_, n) => JSON.parse(tariff(`T${n}`)) as object);
  served.instead = ({ path }) => ({ body: path.includes('offset=100') ? [JSON.parse(tariff('T100'))] : full });
  t.match(
    await pull(hub, 'tariffs', { full: true }),
    { received: 101, deleted: 1, note: null },
    'a page that is not full',
  );
});

t.test(
  'after many empty pages in a row the pull ends, and nothing counts as deleted [PULL-9, PULLS-4, PULLS-5]',
  async (t) => {
    const clock = new SimulatedClock('2026-05-01T10:30:00Z');
    const { hub, served, cpo, emsp } = await listed(t, { clock });
    let empty = 2;
    served.instead = ({ path }) => {
      const page = Number(new URL(path, cpo.url).searchParams.get('page') ?? 0);
      if (page > empty) return { body: [JSON.parse(tariff('T3'))] };
      const next = `${cpo.url}${path.split('?', 1)[0]}?page=${page + 1}`;
      return { body: page === 0 ? [JSON.parse(tariff('T1'))] : [], headers: { Link: `<${next}>; rel="next"` } };
    };
    const first = await pull(hub, 'tariffs');
    t.match(first, { state: 'DONE', pages: 4, stored: 2, note: null }, 'a few are followed');
    clock.advance(60_000);
    empty = 10;
    const note = /^the list may go on behind the last page that was read: nothing was deleted/;
    t.match(await pull(hub, 'tariffs', { full: true }), { state: 'DONE', pages: 11, deleted: 0, note });
    t.same(idsOf(await emsp.call('GET', '/2.2.1/tariffs')).sort(), ['T1', 'T3']);
    clock.advance(60_000);
    const again = { state: 'DONE', full: false, date_from: first.started_at, note };
    t.match(await pull(hub, 'tariffs'), again, 'the next one asks from the last that read all');
    t.match(await pull(hub, 'tariffs'), again);
  },
);

t.test('a link that leads back, to another origin or nowhere ends the pull with the reason', async (t) => {
  const { hub, served, cpo } = await listed(t);
  const body = [JSON.parse(location('LOC1'))];
  const table: [name: string, link: (path: string) => string, error: RegExp][] = [
    ['to itself', (path) => `<${cpo.url}${path}>; rel="next"`, /leads back/],
    ['in a circle', (path) => `<?page=${path.includes('page=1') ? 2 : 1}>; rel="next"`, /repeats the one before/],
    ['to a metadata address', () => '<http://169.254.169.254/latest>; rel="next"', /another origin/],
    ['to another scheme', () => '<file:///etc/passwd>; rel=next', /another origin/],
    ['to no URL', () => '<http://[>; rel="next"', /not usable/],
  ];
  for (const [name, link, error] of table) {
    served.instead = ({ path }) => ({ body, headers: { Link: link(path) } });
    t.match(await pull(hub, 'locations', { full: true }), { state: 'FAILED', error }, name);
  }
  served.instead = () => ({ body: { not: 'a list' } });
  t.match(await pull(hub, 'locations'), { state: 'FAILED', error: /not a list/ });
  served.instead = () => ({ body: Array(3_000).fill({}) });
  t.match(await pull(hub, 'locations'), { state: 'FAILED', error: /3000 items are no objects/ }, '[PULL-6]');
});

t.test('an empty list may lack data [PULL-5]', async (t) => {
  const { hub, served, cpo, emsp } = await listed(t);
  await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/OLD', tariff('OLD'));
  const answer = { status_code: 1000, timestamp: '2026-01-01T00:00:00Z' };
  for (const text of [JSON.stringify(answer), JSON.stringify({ ...answer, data: null })]) {
    served.instead = () => ({ text });
    t.match(await pull(hub, 'tariffs', { full: true }), { state: 'DONE', received: 0, deleted: 0 }, text);
    served.instead = () => ({ text, headers: { 'X-Total-Count': '2' } });
    t.match(
      await pull(hub, 'tariffs', { full: true }),
      { state: 'FAILED', error: /0 of 2/ },
      'but not where rows are told',
    );
  }
  t.same(idsOf(await emsp.call('GET', '/2.2.1/tariffs')), ['OLD']);
  const { quirks } = await admin(hub, 'GET', '/parties/NL-CPO/report');
  t.match(quirks, [{ module: 'tariffs', quirk: 'list-without-data', count: 4 }]);
  const full = Array.from({ length: 100 }, (_, n) => JSON.parse(tariff(`T${n}`)) as object);
  const link = (path: string) => `<${cpo.url}${path.split('?')[0]}?page=2>; rel="next"`;
  served.instead = ({ path }) =>
    path.includes('page=2') ? { text: JSON.stringify(answer) } : { body: full, headers: { Link: link(path) } };
  const cutShort = await pull(hub, 'tariffs', { full: true });
  t.match(cutShort, { state: 'FAILED', deleted: 0, error: 'page 2: its data is not a list' }, 'a linked page');
});

t.test('a guessed page without new objects leaves a list as complete as it was [PULL-5, PULLS-5]', async (t) => {
  const { hub, served, cpo } = await listed(t);
  const full = Array.from({ length: 100 }, (_, n) => JSON.parse(tariff(`T${n}`)) as object);
  const other = full.map((each) => ({ ...each, ...changedAt(1) }));
  const text = '{"status_code":1000,"timestamp":"2026-01-01T00:00:00Z"}';
  const ends = { state: 'DONE', received: 100, deleted: 1, note: null };
  const unsaid = { state: 'DONE', received: 100, deleted: 0, note: /did not say where it ends/ };
  const unread = {
    state: 'DONE',
    received: 100,
    deleted: 0,
    note: /^the list may go on .* the next pull asks for the same/,
  };
  const headers = { 'X-Total-Count': '100' };
  const table: [what: string, behind: Reply, told: object, untold: object][] = [
    ['no rows', { body: [] }, ends, ends],
    ['no rows, and a total', { body: [], headers: { 'X-Total-Count': '150' } }, ends, ends],
    ['the same rows, changed', { body: other, headers }, ends, unsaid],
    ['404', { status: 404, text: '{"status_code":2003}' }, ends, unsaid],
    ['no data', { text }, ends, unsaid],
    ['data of another kind', { body: { not: 'a list' } }, ends, unsaid],
    ['401', { status: 401, text: '' }, unread, unread],
    ['500', { status: 500, text: 'oops' }, unread, unread],
  ];
  for (const [what, behind, told, untold] of table) {
    for (const [first, expected] of [
      [{ body: full, headers }, told],
      [{ body: full }, untold],
    ] as const) {
      await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/OLD', tariff('OLD'));
      served.instead = ({ path }) => (path.includes('offset=100') ? behind : first);
      const name = `${what}, ${'headers' in first ? 'and a total before' : 'and no total'}`;
      t.match(await pull(hub, 'tariffs', { full: true }), expected, name);
    }
  }
  const more = Array.from({ length: 100 }, (_, n) => JSON.parse(tariff(`U${n}`)) as object);
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/OLD', tariff('OLD'));
  for (const behind of [{ status: 500, text: 'oops' }, { status: 404 }, { body: more }]) {
    for (const rows of [100, 50]) {
      served.instead = ({ path }) => {
        if (path.includes(`offset=${2 * rows}`)) return behind;
        const body = (path.includes(`offset=${rows}`) ? more : full).slice(0, rows);
        return { body, headers: { 'X-Total-Count': String(rows), 'X-Limit': String(rows) } };
      };
      const expected = {
        ...(behind.status === 500 ? unread : unsaid),
        received: behind.body && rows === 50 ? 200 : 2 * rows,
      };
      const found = await pull(hub, 'tariffs', { full: true });
      t.match(found, expected, 'new objects on a guessed page: the total counts as not told');
    }
  }
});

t.test('an object that a page has twice fails no pull, and nothing is deleted [PULLS-5, PULLS-7]', async (t) => {
  const { hub, served, cpo } = await listed(t);
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/OLD', tariff('OLD'));
  served.texts.tariffs = [tariff('T1'), tariff('T2'), tariff('T2')];
  served.pageSize = 3;
  const note = 'nothing was deleted: 2 objects came, but X-Total-Count is 3';
  t.match(await pull(hub, 'tariffs'), { state: 'DONE', received: 3, deleted: 0, note });
  served.texts.tariffs = [tariff('T1'), tariff('T1'), tariff('T2'), tariff('T3')];
  served.pageSize = 2;
  t.match(await pull(hub, 'tariffs', { full: true }), { state: 'DONE', received: 4, deleted: 0, note: /^nothing/ });
  served.texts.tariffs = [tariff('T1'), tariff('T2'), tariff('T2'), tariff('T3')];
  const error = '3 of 4: the list names 1 more than once';
  t.match(await pull(hub, 'tariffs', { full: true }), { state: 'FAILED', error }, 'on two pages');
});

t.test('one pull runs per partner and module, and shows its progress', async (t) => {
  const { hub, served, cpo } = await listed(t);
  served.texts.locations = [1, 2, 3].map((n) => location(`LOC${n}`, n));
  served.texts.tariffs = [];
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const last = () => ({ body: [JSON.parse(location('LOC3', 3))] });
  served.instead = ({ path }) => (path.includes('offset=2') ? held.then(last) : undefined);
  const { id } = await admin(hub, 'POST', '/parties/NL-CPO/pull/locations');
  const shown = () => admin(hub, 'GET', `/pulls/${String(id)}`);
  await hub.settled(cpo);
  t.match(await shown(), { state: 'RUNNING', pages: 1, received: 2, stored: 2, ended_at: null });
  t.match(await refusal(hub, '/parties/NL-CPO/pull/locations', { full: true }), /409/);
  t.match(await pull(hub, 'tariffs', {}, cpo), { state: 'DONE' }, 'another module is another pull');
  release();
  await hub.settled();
  t.equal((await shown()).state, 'DONE', 'it ended');
  t.match(await pull(hub, 'locations'), { state: 'DONE' }, 'then it may run again');
  t.equal((await itemsOf(hub, '/pulls')).length, 3);
});

t.test('an impossible pull is refused, and no call of a pull affects a circuit', async (t) => {
  const { hub, served } = await listed(t, {
    env: { HUB_CIRCUIT_FAILURES: '1', HUB_VIEWER_TOKEN: 'viewer-token-of-the-test' },
  });
  t.match(await refusal(hub, '/parties/NL-XXX/pull/locations'), /404/);
  t.match(await refusal(hub, '/parties/NL-EMS/pull/locations'), /409 .*no CPO/);
  t.match(await refusal(hub, '/parties/NL-CPO/pull/locations', { fully: true }), /422/);
  t.match(await refusal({ ...hub, adminToken: 'viewer-token-of-the-test' }, '/parties/NL-CPO/pull/locations'), /403/);
  await partnerFor(t, hub, { role: 'CPO', countryCode: 'BE', partyId: 'CPO', modules: [] });
  t.match(await refusal(hub, '/parties/BE-CPO/pull/tariffs'), /409 .*no tariffs endpoint/);
  served.instead = () => ({ status: 503, text: '' });
  t.match(await pull(hub, 'locations'), { state: 'FAILED' });
  const { circuits } = await admin(hub, 'GET', '/parties/NL-CPO');
  t.match(circuits, [
    { circuit: 'sync', state: 'closed', failures: 0 },
    { circuit: 'async', state: 'closed', failures: 0 },
  ]);
  await admin(hub, 'POST', '/parties/NL-CPO/suspend');
  t.match(await refusal(hub, '/parties/NL-CPO/pull/locations'), /409 .*not registered/);
});

t.test('a platform lists the objects of all its CPOs [D16]', async (t) => {
  const hub = await hubFor(t);
  const served = lists();
  const others = [{ role: 'CPO', country_code: 'DE', party_id: 'TWO' }] as const;
  const cpo = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO', modules, others },
    answer: served.answer,
  });
  served.texts.locations = [location('L1', 1), location('L2', 2, { country_code: 'DE', party_id: 'TWO' })];
  t.match(await pull(hub, 'locations'), { stored: 2, invalid: 0 });
  t.equal((await cpo.call('GET', '/2.2.1/locations/DE/TWO/L2')).status, 200);
  t.equal(cpo.received[0]?.headers['ocpi-to-party-id'], undefined, 'none of them alone is meant');
  t.match(cpo.received[0]?.path, /locations\?limit=/, 'no parameter is empty');

  const tariffs = async () =>
    Promise.all(
      [
        ['NL', 'CPO', 'T1'],
        ['DE', 'TWO', 'T2'],
        ['DE', 'TWO', 'T3'],
      ].map(async (name) => (await cpo.call('GET', `/2.2.1/tariffs/${name.join('/')}`)).json.status_code),
    );
  const two = { country_code: 'DE', party_id: 'TWO' };
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariff('T1', 1));
  for (const id of ['T2', 'T3']) await cpo.push('PUT', `/2.2.1/tariffs/DE/TWO/${id}`, tariff(id, 1, two));
  served.texts.tariffs = [tariff('T1', 1)];
  t.match(await pull(hub, 'tariffs', { full: true }), {
    deleted: 0,
    note: 'nothing of DE-TWO was deleted: the list has no tariff of it',
  });
  t.same(await tariffs(), [1000, 1000, 1000], 'a platform may list one of its CPOs alone');
  served.texts.tariffs = [tariff('T2', 1, two), tariff('T1', 1)];
  t.match(await pull(hub, 'tariffs', { full: true }), { deleted: 1, note: null });
  t.same(await tariffs(), [1000, 1000, 2003]);
});
