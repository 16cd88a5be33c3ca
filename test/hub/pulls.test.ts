/** What a pull is when other things happen at the same time: pushes, restarts, suspension, rotation. [D51] */
import { join } from 'node:path';
import type { Replaced } from '../../src/main.ts';
import { nextLink } from '../../src/partners/pull.ts';
import { StoreUnavailable } from '../../storage/contract.ts';
import { locationBody, tariffBody } from '../support/bodies.ts';
import { copyDataDirectory, directoryFor } from '../support/directory.ts';
import { closed, hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { lists, pagesAsked } from '../support/lists.ts';
import { idsOf, itemsOf } from '../support/observed.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

const modules = [
  ['locations', 'SENDER'],
  ['tariffs', 'SENDER'],
] as const;

const at = (minute: number) => ({ last_updated: `2026-05-01T10:0${minute}:00Z` });
const location = (id: string, minute: number, fields: object = {}) =>
  JSON.stringify(locationBody(id, { ...at(minute), ...fields }));
const tariff = (id: string, minute: number) => JSON.stringify(tariffBody(id, at(minute)));

const start = async (hub: TestHub, module: string, body?: object) =>
  String((await admin(hub, 'POST', `/parties/NL-CPO/pull/${module}`, body)).id);

async function ended(hub: TestHub, id: string): Promise<Record<string, unknown>> {
  await hub.settled();
  return admin(hub, 'GET', `/pulls/${id}`);
}

async function scene(t: Test, replaced: Replaced = {}) {
  const dataDir = join(directoryFor(t), 'data');
  const hub = await hubFor(t, {}, replaced, dataDir);
  const served = lists();
  const cpo = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO', modules },
    answer: served.answer,
  });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  return { hub, served, cpo, emsp, dataDir };
}

t.test('a push during the fetch of its page stays, unless the page is newer', async (t) => {
  const { hub, served, cpo } = await scene(t);
  const textOf = async (id: string) => (await cpo.call('GET', `/2.2.1/locations/NL/CPO/${id}`)).text;
  const pushed = [location('L1', 5, { name: 'pushed' }), location('L2', 1, { name: 'pushed' })];
  const page = [location('L1', 4, { name: 'paged' }), location('L2', 3, { name: 'paged' })];
  served.instead = async () => {
    await cpo.call('PUT', '/2.2.1/locations/NL/CPO/L1', pushed[0]);
    await cpo.call('PUT', '/2.2.1/locations/NL/CPO/L2', pushed[1]);
    return { body: page.map((text) => JSON.parse(text) as object) };
  };
  t.match(await ended(hub, await start(hub, 'locations')), { received: 2, stored: 1, unchanged: 1 });
  t.match(await textOf('L1'), '"name":"pushed"');
  t.match(await textOf('L2'), '"name":"paged"');

  served.instead = () => ({ body: [JSON.parse(page[0] ?? '') as object] });
  t.match(
    await ended(hub, await start(hub, 'locations', { full: true })),
    { stored: 1 },
    'later, arrival decides [D46]',
  );
  t.match(await textOf('L1'), '"name":"paged"');
});

t.test('a tariff that is pushed or deleted while the list is read stays in that state', async (t) => {
  const { hub, served, cpo, emsp } = await scene(t);
  for (const id of ['GONE', 'OLD']) await cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariff(id, 1));
  served.instead = async ({ path }) => {
    if (path.includes('page=2')) return { body: [JSON.parse(tariff('T2', 2)) as object] };
    await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/NEW', tariff('NEW', 1));
    await cpo.call('DELETE', '/2.2.1/tariffs/NL/CPO/GONE');
    return { body: [JSON.parse(tariff('T1', 1)) as object], headers: { Link: '<?page=2>; rel="next"' } };
  };
  t.match(await ended(hub, await start(hub, 'tariffs')), { state: 'DONE', stored: 2, deleted: 1 });
  t.same(idsOf(await emsp.call('GET', '/2.2.1/tariffs')).sort(), ['NEW', 'T1', 'T2']);
});

t.test('an operator cancels a pull: it fetches no further page, and another one may start [PULLS-6]', async (t) => {
  const { hub, served, cpo, emsp } = await scene(t);
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  t.teardown(() => release());
  served.instead = async ({ path }) => {
    if (!path.includes('page=2'))
      return { body: [JSON.parse(location('L1', 1)) as object], headers: { Link: '<?page=2>; rel="next"' } };
    await held;
    return { body: [JSON.parse(location('L2', 2)) as object], headers: { Link: '<?page=3>; rel="next"' } };
  };
  const id = await start(hub, 'locations');
  await cpo.got('the second page is asked for', ({ path }) => path.includes('page=2'));
  const canceled = await admin(hub, 'DELETE', `/pulls/${id}`);
  const end = { state: 'FAILED', error: 'an operator canceled it', pages: 1, stored: 1 };
  t.match(canceled, end);
  t.not(canceled.ended_at, null);
  t.match(await admin(hub, 'DELETE', `/pulls/${id}`), end, 'once more changes nothing');
  await t.rejects(admin(hub, 'DELETE', '/pulls/none'), /404/);
  served.instead = () => ({ body: [JSON.parse(location('L3', 3)) as object] });
  const next = await start(hub, 'locations');
  release();
  t.match(await ended(hub, next), { state: 'DONE', date_from: null, stored: 1 }, 'it begins where that one began');
  t.same(idsOf(await emsp.call('GET', '/2.2.1/locations')).sort(), ['L1', 'L3'], 'what came late is not stored');
  t.notOk(cpo.received.some(({ path }) => path.includes('page=3')));
});

t.test('a pull that waits out a throttled list is canceled at once, and deletes nothing [PULLS-6]', async (t) => {
  const clock = new SimulatedClock('2026-05-01T12:00:00Z');
  const { hub, served, cpo, emsp } = await scene(t, { clock });
  await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/OLD', tariff('OLD', 1));
  served.instead = () => ({ status: 429, headers: { 'Retry-After': '60' } });
  const id = await start(hub, 'tariffs', { full: true });
  await cpo.got('the list is asked for', ({ path }) => path.includes('/tariffs'));
  await hub.settled();
  t.match(await admin(hub, 'DELETE', `/pulls/${id}`), {
    state: 'FAILED',
    error: 'an operator canceled it',
    deleted: 0,
  });
  t.same(idsOf(await emsp.call('GET', '/2.2.1/tariffs')), ['OLD']);
});

/** Of clocks: behind, not behind, unknown; the others are at length. */
const kinds = ['five hours behind', 'ahead', 'unreadable'];
for (const { title, timestamp, from } of [
  { title: 'five hours behind', timestamp: '2026-05-01T07:00:00Z', from: '2026-05-01T07:00:00.000Z' },
  {
    title: 'behind, and says so in a zone of its own',
    timestamp: '2026-05-01T13:30:00+02:00',
    from: '2026-05-01T11:30:00.000Z',
  },
  { title: 'right, but without fractions', timestamp: '2026-05-01T11:59:59Z', from: '2026-05-01T12:00:00.000Z' },
  { title: 'ahead', timestamp: '2026-05-01T17:00:00Z', from: '2026-05-01T12:00:00.000Z' },
  { title: 'none: it is always the same', timestamp: '2026-01-01T00:00:00Z', from: '2026-05-01T12:00:00.000Z' },
  { title: 'not told', timestamp: undefined, from: '2026-05-01T12:00:00.000Z' },
  { title: 'unreadable', timestamp: 'noon', from: '2026-05-01T12:00:00.000Z' },
]) {
  t.test(
    `the next pull asks by the clock of a partner that is behind; it is ${title}`,
    kinds.includes(title) ? {} : atLength,
    async (t) => {
      const { hub, served, cpo } = await scene(t, { clock: new SimulatedClock('2026-05-01T12:00:00Z') });
      served.instead = () => ({ text: JSON.stringify({ status_code: 1000, timestamp, data: [] }) });
      await ended(hub, await start(hub, 'locations'));
      const second = await ended(hub, await start(hub, 'locations'));
      t.equal(second.date_from, from);
      t.same(
        pagesAsked(cpo.received, 'locations').map((query) => query.get('date_from')),
        [null, from.replace('.000Z', 'Z')],
      );
    },
  );
}

t.test('a pull that a restart cut off is FAILED with its stored objects, and may run again', async (t) => {
  const clock = new SimulatedClock(new Date().toISOString());
  const { hub, served, cpo, emsp, dataDir } = await scene(t, { clock });
  served.texts.locations = [1, 2, 3].map((n) => location(`L${n}`, n));
  served.instead = ({ path }) => (path.includes('offset=2') ? new Promise(() => {}) : undefined);
  const id = await start(hub, 'locations');
  await hub.settled(cpo);
  t.equal((await admin(hub, 'GET', `/pulls/${id}`)).pages, 1, 'the first page was taken');
  t.equal(cpo.received.length, 2, 'the second page is asked for');

  // The directory as a power cut would leave it: everything acknowledged is in it.
  const copy = join(dataDir, '..', 'copy');
  copyDataDirectory(dataDir, copy);
  await closed(hub, clock);
  served.instead = () => undefined;

  const cut = await hubFor(t, {}, {}, copy);
  const found = await admin(cut, 'GET', `/pulls/${id}`);
  t.match(found, { state: 'FAILED', error: 'the hub was restarted meanwhile', pages: 1, received: 2, stored: 2 });
  await cut.close();

  const again = await hubFor(t, {}, {}, dataDir);
  t.match(await admin(again, 'GET', `/pulls/${id}`), {
    state: 'FAILED',
    error: 'the hub was shut down meanwhile',
    pages: 1,
  });
  t.match(await ended(again, await start(again, 'locations')), { state: 'DONE', full: true, stored: 1, unchanged: 2 });
  const stored = await ocpi(again, 'GET', '/2.2.1/locations', { token: emsp.hubToken });
  t.equal((stored.json.data as unknown[]).length, 3);
  t.equal(cpo.received.length, 4);
});

t.test('a throttled page is fetched again, and the pull continues there [PULL-8]', async (t) => {
  const clock = new SimulatedClock('2026-05-02T00:00:00Z');
  const { hub, served, cpo } = await scene(t, { clock });
  served.texts.locations = [1, 2, 3].map((n) => location(`L${n}`, n));
  const refusals = [{ 'Retry-After': '7' }, {}, { 'Retry-After': '3600' }];
  served.instead = ({ path }) => {
    const headers = path.includes('offset=2') ? refusals.shift() : undefined;
    return headers && { status: 429, headers };
  };
  const id = await start(hub, 'locations');
  await cpo.gotCalls(2);
  for (const [calls, waitMs] of [
    [2, 7_000],
    [3, 5_000],
    [4, 60_000],
  ] as const) {
    await hub.settled();
    clock.advance(waitMs - 1);
    await hub.settled();
    t.equal(cpo.received.length, calls, 'not before its time');
    clock.advance(1);
    await cpo.gotCalls(calls + 1);
  }
  t.match(await ended(hub, id), { state: 'DONE', pages: 2, stored: 3 });
  t.equal(
    pagesAsked(cpo.received, 'locations').filter((query) => !query.has('offset')).length,
    1,
    'the first page once',
  );

  refusals.push(...Array.from({ length: 20 }, () => ({})));
  const throttled = await start(hub, 'locations', { full: true });
  for (let tries = 1; tries < 10; tries++) {
    await cpo.gotCalls(5 + 1 + tries);
    await hub.settled();
    clock.advance(5_000);
  }
  t.match(await ended(hub, throttled), { state: 'FAILED', error: /^page 2: throttled: / });
  t.equal(refusals.length, 10, 'ten requests of a page are enough');
});

t.test('a partner that is suspended during a pull contributes nothing more', async (t) => {
  const { hub, served } = await scene(t);
  served.texts.locations = [1, 2, 3].map((n) => location(`L${n}`, n));
  served.instead = ({ path }) =>
    path.includes('offset=2')
      ? admin(hub, 'POST', '/parties/NL-CPO/suspend').then(() => ({ body: [JSON.parse(location('L3', 3)) as object] }))
      : undefined;
  const found = await ended(hub, await start(hub, 'locations'));
  t.match(found, { state: 'FAILED', error: /suspended/, stored: 2 });
  t.same(
    (await itemsOf(hub, '/events?type=object.put')).map(({ object }) => object),
    ['NL-CPO/L1', 'NL-CPO/L2'],
  );
});

t.test('a pull whose end the store refuses is FAILED when the store accepts writes again [PULLS-1]', async (t) => {
  const clock = new SimulatedClock('2026-05-01T12:00:00Z');
  let isAway = false;
  const wrap = wrapStore((store) => ({
    append: async (commit) => {
      if (isAway) throw new StoreUnavailable('away');
      return store.append(commit);
    },
  }));
  const { hub, served } = await scene(t, { clock, wrap });
  served.texts.locations = [1, 2, 3].map((n) => location(`L${n}`, n));
  served.instead = ({ path }) => {
    if (path.includes('offset=2')) isAway = true;
    return undefined;
  };
  const id = await start(hub, 'locations');
  t.match(await ended(hub, id), { state: 'RUNNING', pages: 1 });
  isAway = false;
  clock.advance(1_000);
  t.match(await ended(hub, id), { state: 'FAILED', pages: 1, stored: 2 });
  served.instead = () => undefined;
  t.match(await ended(hub, await start(hub, 'locations')), { state: 'DONE', stored: 1, unchanged: 2 });
});

t.test('a page of many objects is stored completely, refused ones too', async (t) => {
  const { hub, served, emsp } = await scene(t);
  served.pageSize = 1000;
  const ids = Array.from({ length: 320 }, (_, n) => `L${n}`);
  served.texts.locations = ids.map((id, n) => location(id, n % 9, n % 4 === 0 ? { publish: 'no' } : {}));
  served.texts.locations[1] = location('L1', 1, { with_too_many_values: Array(40_000).fill(0) });
  t.match(await ended(hub, await start(hub, 'locations')), { pages: 1, received: 320, stored: 239, invalid: 81 });
  t.equal((await emsp.call('GET', '/2.2.1/locations?limit=1')).headers.get('x-total-count'), '239');
  t.equal((await itemsOf(hub, '/quarantine?limit=30')).length, 81, 'page by page');
  served.texts.locations = [location('L1', 1, { with_too_many_values: Array(500_000).fill(0) })];
  const refused = await ended(hub, await start(hub, 'locations', { full: true }));
  t.match(refused, { state: 'FAILED', error: /too many values/ }, 'a page has no more values than its size allows for');
});

t.test('the next link is found at any place in the header', async (t) => {
  const table: [header: string, link: string | null][] = [
    ['', null],
    ['<https://a/b?offset=2>; rel="next"', 'https://a/b?offset=2'],
    ['<https://a/b>; rel=next', 'https://a/b'],
    ['<https://a/p>; rel="prev", <https://a/n>; rel="next"', 'https://a/n'],
    ['<https://a/1,2>; title="x, y"; rel="last next"', 'https://a/1,2'],
    ['<https://a/b>; REL="NEXT"', 'https://a/b'],
    ['<https://a/p>; rel="prev"', null],
    ['<https://a/p>; rel="nextish"', null],
    ['<https://a/b?offset=4>', 'https://a/b?offset=4'],
    ['<?offset=4>; title="more"', '?offset=4'],
    ['<https://a/b?offset=4>, <https://a/b?offset=6>', null],
    ["<https://a/p>; rel='prev', <https://a/n>; rel='last next'", 'https://a/n'],
    ['https://a/b?offset=4; rel="next"', 'https://a/b?offset=4'],
    ['https://a/b?offset=4', 'https://a/b?offset=4'],
    ['https://a/b?offset=4; rel=prev', null],
    ['null', null],
    ['undefined', null],
    ['-', null],
    ['""', null],
    ['<>', null],
    ['</ocpi/docs>', null],
    ['null; rel="next"', null],
    ['<https://a/n?offset=4>', null],
    ['<https://c/b?offset=4>', null],
    ['<https://a/b>', null],
    ['<https://a/b?offset=2>', null],
    ['<https://a/b?limit=2>', null],
  ];
  const seen = new Set(['https://a/b?limit=2', 'https://a/b?offset=2']);
  for (const [header, link] of table) t.equal(nextLink(header, 'https://a/b?offset=2', seen), link, header);
});
