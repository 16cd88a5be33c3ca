/**
 * Lists on the wire: pages, filters, links and the cursor, the same for all six. [interface, Pagination; D31–D33]
 */
import { request } from 'node:http';
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { linksOf, statusOf } from '../support/observed.ts';
import { type Answer, admin, type PlainPartner } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const clock = new SimulatedClock('2026-02-01T09:00:00Z');
/** Not where it listens: what the hub emits must not come from the request. */
const publicUrl = 'https://hub.example.test/roaming';
const pageDefault = 7;
const pageMax = 20;
const env = {
  ...{ HUB_PUBLIC_URL: publicUrl, HUB_EGRESS_ALLOW: 'loopback', HUB_RATE_LISTS_PER_MIN: '1000000' },
  ...{ HUB_PAGE_DEFAULT: String(pageDefault), HUB_PAGE_MAX: String(pageMax) },
};
const hub = await hubFor(t, env, { clock });
const { cpo, emsp } = await routedPair(t, hub, {
  cpo: ({ path }) => (path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 30 } } : {}),
});
const secondCpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'BE', partyId: 'CPO' });
const secondEmsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'BE', partyId: 'EMS' });
const lonely = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'DE', partyId: 'EMS' });
const lonelyCpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'DE', partyId: 'CPO' });
await admin(hub, 'PUT', '/routes/NL-EMS/BE-CPO', { active: true });
await admin(hub, 'PUT', '/routes/BE-EMS/NL-CPO', { active: true });

const count = 24;
/** Ties of three, and the forms of a date: designator, fraction, neither. */
const instant = (index: number) => {
  const minute = String(Math.floor(index / 3)).padStart(2, '0');
  return `2026-02-01T10:${minute}:0${['0Z', '0.000Z', '0'][index % 3]}`;
};
const later = '2026-02-02T00:00:00Z';
const earlier = '2026-01-31T00:00:00Z';

type Item = Record<string, string>;
interface List {
  readonly name: string;
  readonly reader: PlainPartner;
  /** Someone who may ask and has nothing to see; null when everyone sees the same. */
  readonly empty: PlainPartner | null;
  readonly query?: string;
  /** Stores item `index` of the seed, or a new one with an old date. */
  readonly put: (index: number, lastUpdated: string) => Promise<unknown>;
  /** Changes an item so that its `last_updated` is `later`; absent where nothing changes. */
  readonly change?: (item: Item) => Promise<unknown>;
  readonly remove?: (item: Item) => Promise<unknown>;
}

const cpos = [cpo, secondCpo] as const;
const emsps = [emsp, secondEmsp] as const;
const ofIndex = (partners: readonly [PlainPartner, PlainPartner], index: number) => partners[index % 2 === 0 ? 0 : 1];
const ofItem = (partners: readonly PlainPartner[], item: Item) =>
  partners.find(({ id }) => id === `${item.country_code}-${item.party_id}`) ?? cpo;
const party = ({ id }: PlainPartner) => ({ country_code: id.slice(0, 2), party_id: id.slice(3) });
const path = (module: string, { id }: PlainPartner, name = '') => `/2.2.1/${module}/${id.replace('-', '/')}/${name}`;

/** A module in which `partners` push, in turn. */
function pushed(module: string, partners: readonly [PlainPartner, PlainPartner], bodyOf: typeof locationBody) {
  return {
    put: (index: number, last_updated: string) => {
      const owner = ofIndex(partners, index);
      return owner.call(
        'PUT',
        path(module, owner, `I${index}`),
        bodyOf(`I${index}`, { ...party(owner), last_updated }),
      );
    },
    change: (item: Item) => {
      const owner = ofItem(partners, item);
      return owner.call('PATCH', path(module, owner, item.id ?? item.uid), { last_updated: later });
    },
  };
}

const tariffs = pushed('tariffs', cpos, tariffBody);
const lists: readonly List[] = [
  { name: 'locations', reader: emsp, empty: lonely, ...pushed('locations', cpos, locationBody) },
  {
    ...{ name: 'tariffs', reader: emsp, empty: lonely, put: tariffs.put },
    change: (item) => {
      const owner = ofItem(cpos, item);
      const body = tariffBody(item.id ?? '', { ...party(owner), last_updated: later });
      return owner.call('PUT', path('tariffs', owner, item.id), body);
    },
    remove: (item) => ofItem(cpos, item).call('DELETE', path('tariffs', ofItem(cpos, item), item.id)),
  },
  {
    ...{ name: 'sessions', reader: emsp, empty: lonely, query: 'date_from=2020-01-01T00:00:00Z' },
    ...pushed('sessions', cpos, sessionBody),
  },
  {
    ...{ name: 'cdrs', reader: emsp, empty: lonely },
    put: (index, last_updated) => {
      const owner = ofIndex(cpos, index);
      return owner.call('POST', '/2.2.1/cdrs', cdrBody(`I${index}`, { ...party(owner), last_updated }));
    },
  },
  { name: 'tokens', reader: cpo, empty: lonelyCpo, ...pushed('tokens', emsps, tokenBody) },
  {
    ...{ name: 'hubclientinfo', reader: emsp, empty: null },
    put: (index) => {
      clock.advance(60_000);
      const role = { role: 'CPO', country_code: 'FR', party_id: `P${index.toString(36).toUpperCase()}` };
      return admin(hub, 'POST', '/parties', { roles: [role] });
    },
    change: (item) => {
      clock.advance(60_000);
      const business_details = { name: 'changed' };
      return admin(hub, 'PATCH', `/parties/${item.country_code}-${item.party_id}`, { business_details });
    },
  },
];

for (const { put } of lists) for (let index = 0; index < count; index++) await put(index, instant(index));

const nameOf = (item: Item) => [item.country_code, item.party_id, item.id ?? item.uid ?? item.role].join('/');
const itemsOf = ({ json }: Answer) => json.data as Item[];
const namesOf = (answer: Answer) => itemsOf(answer).map(nameOf);
const epoch = (text = '') => Date.parse(/(Z|[+-]\d\d:\d\d)$/.test(text) ? text : `${text}Z`);

/** A page by its query; the query that the list needs anyway goes in front. */
function pageOf(list: List, query = '', reader = list.reader): Promise<Answer> {
  const parts = [list.query, query].filter((part) => part).join('&');
  return reader.call('GET', `/2.2.1/${list.name}${parts && '?'}${parts}`);
}

/** The page behind a link, fetched where the hub listens. */
function follow(list: List, url: string): Promise<Answer> {
  return list.reader.call('GET', url.slice(`${publicUrl}/ocpi`.length));
}

/** All pages from here on, following `rel="next"`; `between` runs after each page but the last. */
async function crawl(list: List, query: string, between: (page: Answer) => Promise<unknown> = async () => {}) {
  const pages = [await pageOf(list, query)];
  for (;;) {
    const last = pages.at(-1);
    const next = last && linksOf(last).get('next');
    if (!last || !next) return pages;
    await between(last);
    pages.push(await follow(list, next));
  }
}

const whole = async (list: List) => (await crawl(list, `limit=${pageMax}`)).flatMap(itemsOf);

function eachList(title: string, check: (t: Test, list: List) => Promise<void>): void {
  t.test(title, async (t) => {
    for (const list of lists) await t.test(list.name, (t) => check(t, list));
  });
}

eachList(
  'a page says how many there are, what was applied, and where to go on [interface, Pagination; D31, D32]',
  async (t, list) => {
    const pages = await crawl(list, 'limit=5');
    const items = pages.flatMap(itemsOf);
    t.ok(items.length >= count, 'all of the seed is there');
    t.equal(new Set(items.map(nameOf)).size, items.length, 'nothing twice');
    const places = items.map((item) => [epoch(item.last_updated), nameOf(item)] as const);
    t.same(
      places,
      [...places].sort(([a, x], [b, y]) => a - b || (x < y ? -1 : 1)),
      'by last_updated, then owner and id, ascending',
    );
    for (const [index, page] of pages.entries()) {
      t.equal(statusOf(page), '200/1000');
      t.equal(page.headers.get('x-limit'), '5', 'X-Limit is the applied page size');
      t.equal(page.headers.get('x-total-count'), String(items.length), 'X-Total-Count');
      const relations = [...(index < pages.length - 1 ? ['next'] : []), ...(index > 0 ? ['prev'] : [])];
      t.same([...linksOf(page).keys()], relations, `page ${index}: rel="next" stands before rel="prev"`);
      if (index < pages.length - 1) t.equal(itemsOf(page).length, 5, `page ${index} is full`);
      const prev = linksOf(page).get('prev');
      const before = pages[index - 1];
      if (prev && before) t.same(namesOf(await follow(list, prev)), namesOf(before), `page ${index}: the page before`);
    }
  },
);

eachList('without limit the default, above the maximum the maximum [interface, Pagination; D31]', async (t, list) => {
  const total = (await whole(list)).length;
  for (const [query, applied] of [
    ['', pageDefault],
    [`limit=${pageMax}`, pageMax],
    [`limit=${pageMax + 1}`, pageMax],
    ['limit=999999999999999999999', pageMax],
    ['limit=1', 1],
    ['limit=0', 0],
  ] as const) {
    const page = await pageOf(list, query);
    t.equal(page.headers.get('x-limit'), String(applied), query);
    t.equal(itemsOf(page).length, Math.min(applied, total), `${query}: items`);
    t.equal(page.headers.get('x-total-count'), String(total), `${query}: X-Total-Count`);
    const next = linksOf(page).get('next');
    if (applied > 0) t.equal(new URL(next ?? '').searchParams.get('limit'), String(applied), `${query}: in the link`);
  }
});

eachList('date_from is inclusive, date_to exclusive, and links keep both [interface, Pagination]', async (t, list) => {
  const all = await whole(list);
  const [low, high] = [all[6]?.last_updated ?? '', all[18]?.last_updated ?? ''];
  const within = all.filter((item) => epoch(item.last_updated) >= epoch(low) && epoch(item.last_updated) < epoch(high));
  t.ok(within.length > 2 && within.length < all.length, 'the bounds cut both ends');
  // The list's own date_from must not stand beside another.
  const plain = { ...list, query: '' };
  const pages = await crawl(plain, `date_from=${low}&date_to=${high}&limit=2`);
  t.same(pages.flatMap(itemsOf).map(nameOf), within.map(nameOf));
  for (const page of pages) {
    t.equal(page.headers.get('x-total-count'), String(within.length), 'X-Total-Count counts under the same filters');
    for (const [rel, url] of linksOf(page)) {
      const { searchParams } = new URL(url);
      t.same([searchParams.get('date_from'), searchParams.get('date_to')], [low, high], `${rel} keeps both`);
    }
  }
  const none = await pageOf(plain, 'date_from=2100-01-01T00:00:00Z');
  t.same([none.json.data, none.headers.get('x-total-count'), none.headers.get('link')], [[], '0', null], 'none match');
});

eachList('dates are read in every form of RFC 3339 [D31]', async (t, list) => {
  const all = await whole(list);
  const at = epoch(all[9]?.last_updated);
  const expected = String(all.filter((item) => epoch(item.last_updated) >= at).length);
  const utc = new Date(at).toISOString();
  const shifted = new Date(at + 2 * 3_600_000).toISOString().slice(0, 23);
  const forms = [
    utc,
    utc.slice(0, -1),
    `${utc.slice(0, -1)}000000Z`,
    utc.toLowerCase(),
    `${shifted}%2B02:00`,
    `${shifted}+02:00`,
  ];
  for (const form of forms) {
    const page = await pageOf({ ...list, query: '' }, `date_from=${form}&limit=1`);
    t.equal(page.headers.get('x-total-count'), expected, form);
  }
});

eachList('a bad value is 200/2001 and named [D1, D3, D31]', async (t, list) => {
  const plain = { ...list, query: '' };
  const from = 'date_from=2020-01-01T00:00:00Z';
  const cases = [
    ...['-1', '1.5', 'ten', '%201', '1e2', '0x1'].map((value) => ['limit', `${from}&limit=${value}`] as const),
    ...['-1', '1.5', 'x'].map((value) => ['offset', `${from}&offset=${value}`] as const),
    ...[
      'yesterday',
      '2026-02-30T00:00:00Z',
      '2026-02-01',
      '2026-02-01T25:00:00Z',
      '2026-02-01T10:00Z',
      '1767225600',
    ].flatMap((value) => [
      ['date_from', `date_from=${value}`] as const,
      ['date_to', `${from}&date_to=${value}`] as const,
    ]),
    ['limit', `${from}&limit=1&limit=2`],
    ['date_from', `${from}&${from}`],
    ...['x', 'e30', '%00', 'bnVsbA'].map((value) => ['cursor', `${from}&cursor=${value}`] as const),
  ] as const;
  for (const [name, query] of cases) {
    const answer = await pageOf(plain, query);
    t.equal(statusOf(answer), '200/2001', query);
    t.equal(answer.json.status_message?.split(':')[0], name, `${query}: names ${name}`);
  }
});

eachList('a parameter without a value counts as absent [D71]', async (t, list) => {
  const [plain, empty] = [await pageOf(list, ''), await pageOf(list, 'date_to=&limit=&offset=')];
  t.same([statusOf(empty), namesOf(empty)], ['200/1000', namesOf(plain)]);
  t.equal(empty.headers.get('x-total-count'), plain.headers.get('x-total-count'));
});

eachList('a client that counts offsets by itself gets everything once [D32]', async (t, list) => {
  const all = (await whole(list)).map(nameOf);
  const found: string[] = [];
  for (let offset = 0; offset < all.length; offset += 10) {
    found.push(...namesOf(await pageOf(list, `offset=${offset}&limit=10`)));
  }
  t.same(found, all);
});

eachList('a page behind the end is empty, says the total and leads back [interface, Pagination]', async (t, list) => {
  const all = await whole(list);
  for (const offset of [String(all.length), '1000', '99999999999999999999']) {
    const page = await pageOf(list, `offset=${offset}&limit=5`);
    t.equal(statusOf(page), '200/1000', offset);
    t.same([page.json.data, page.headers.get('x-total-count')], [[], String(all.length)], offset);
    t.same([...linksOf(page).keys()], ['prev'], `${offset}: no next`);
    const back = await follow(list, linksOf(page).get('prev') ?? '');
    t.same(namesOf(back), all.slice(-5).map(nameOf), `${offset}: prev is the last page`);
  }
  if (!list.empty) return;
  const page = await pageOf(list, 'limit=5', list.empty);
  t.same([page.json.data, page.headers.get('x-total-count')], [[], '0'], 'nothing to see');
  t.equal(page.headers.get('link'), null, 'no links');
});

t.test(
  'a client that follows rel="next" misses nothing and repeats nothing unchanged, whatever is written meanwhile [D32]',
  async (t) => {
    for (const [at, list] of lists.entries()) {
      const before = (await whole(list)).map(nameOf);
      const all = await whole(list);
      const changedSeen = new Set<string>();
      const changedAhead = new Set<string>();
      let pages = 0;
      const crawled = await crawl(list, 'limit=4', async (page) => {
        pages++;
        if (pages > 3) return;
        // Rows in front are put in and taken out, so that offsets slip both ways.
        await list.put(100 + at * 10 + pages, earlier);
        const [seen, alsoSeen] = itemsOf(page);
        const ahead = all[pages * 4 + 6];
        if (seen && ahead && list.change) {
          for (const item of [seen, ahead]) await list.change(item);
          changedSeen.add(nameOf(seen));
          changedAhead.add(nameOf(ahead));
        }
        if (alsoSeen) await list.remove?.(alsoSeen);
      });
      t.ok(pages > 3, `${list.name}: it took several pages`);
      t.equal(changedSeen.size, list.change ? 3 : 0, `${list.name}: rows changed meanwhile`);
      const times = new Map<string, number>();
      for (const name of crawled.flatMap(namesOf)) times.set(name, (times.get(name) ?? 0) + 1);
      const wrong = before.filter((name) => times.get(name) !== (changedSeen.has(name) ? 2 : 1));
      t.same(wrong, [], `${list.name}: unchanged ones once, changed ones after they changed`);
    }
  },
);

t.test('every URL starts with the public URL, whatever the Host header says [D33]', async (t) => {
  const get = (who: PlainPartner, at: string) =>
    new Promise<string>((resolve, reject) => {
      const headers = {
        Host: 'evil.example.test',
        Authorization: `Token ${btoa(who.hubToken)}`,
        'X-Forwarded-Host': 'evil',
      };
      request(`${hub.url}/ocpi${at}`, { headers }, (response) => {
        let body = '';
        response.setEncoding('utf8').on('data', (chunk: string) => {
          body += chunk;
        });
        response.on('end', () => resolve(JSON.stringify([response.headers, body])));
      })
        .on('error', reject)
        .end();
    });
  const cdr = cdrBody('LOCATION');
  const { headers } = await cpo.call('POST', '/2.2.1/cdrs', cdr);
  const location = locationBody('COMMANDED');
  await cpo.call('PUT', path('locations', cpo, 'COMMANDED'), location);
  await emsp.call('POST', '/2.2.1/commands/UNLOCK_CONNECTOR', {
    ...{ response_url: `${emsp.url}/x`, location_id: 'COMMANDED', evse_uid: 'EVSE1', connector_id: '1' },
  });
  const command = cpo.received.find((call) => call.path.endsWith('/UNLOCK_CONNECTOR'));
  const emitted = [
    ['versions', await get(emsp, '/versions')],
    ['version details', await get(emsp, '/2.2.1')],
    ['credentials', await get(emsp, '/2.2.1/credentials')],
    ['Link', await get(emsp, '/2.2.1/locations?limit=1&offset=1')],
    ['Location of a CDR', headers.get('location') ?? ''],
    ['callback of a command', command?.body ?? ''],
  ] as const;
  const ours = new RegExp(`^${publicUrl}/ocpi/`);
  for (const [what, text] of emitted) {
    const urls = text.match(/https?:\/\/[^"\\<>\s]+/g) ?? [];
    t.ok(urls.length > 0, `${what}: has URLs`);
    t.same(
      urls.filter((url) => !ours.test(url)),
      [],
      what,
    );
    t.notMatch(text, /evil/, `${what}: nothing of the request's host`);
  }
});
