/**
 * Lists whose pages cannot be followed by links: the pull goes on by offset, or says how much is missing, and it ends.
 * [D61, D85]
 */
import type { ReportView } from '../../src/api/report.ts';
import type { Outcome } from '../../src/domain/errors.ts';
import type { OutboundCall } from '../../src/hub/ports/ports.ts';
import type { Read } from '../../src/partners/client.ts';
import { locationBody } from '../support/bodies.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { ended } from '../support/observed.ts';
import { admin, plainPartner, type Reply } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { shared, t } from '../support/tap.ts';

interface Page {
  readonly offset: number;
  /** Of the page without a link. */
  readonly reply: Reply;
  /** Of the whole list. */
  readonly rows: readonly object[];
  /** Origin of a server that is not the partner. */
  readonly elsewhere: string;
}

interface Row {
  readonly habit: string;
  /** Objects of the list. */
  readonly count: number;
  /** Objects of a page at most; 2 unless told. */
  readonly pageRows?: number;
  readonly page: (page: Page) => Reply;
  readonly pull: Record<string, unknown>;
  readonly offsets: readonly number[];
  readonly quirks?: readonly string[];
  readonly tier?: typeof atLength;
}

const linked = ({ reply }: Page, link: string): Reply => ({ ...reply, headers: { ...reply.headers, Link: link } });
const without = ({ reply }: Page, total: string | null): Reply => ({
  ...reply,
  headers: total === null ? {} : { 'X-Total-Count': total },
});
/** `X-Total-Count` is the number of rows of the page. */
const ofPage = (page: Page, headers: Readonly<Record<string, string>> = {}): Reply => {
  const reply = without(page, String((page.reply.body as object[]).length));
  return { ...reply, headers: { ...reply.headers, ...headers } };
};
let answers = 0;
/** Each object has a date of its own in each answer. */
const ofNow = (reply: Reply): Reply => {
  answers++;
  const last_updated = new Date(Date.UTC(2026, 4, 1) + answers * 1_000).toISOString();
  return { ...reply, body: (reply.body as object[]).map((object) => ({ ...object, last_updated })) };
};
const foreign = (page: Page) => `<${page.elsewhere}/ocpi/2.2.1/locations?offset=${page.offset + 2}>; rel="next"`;
/** Links to the page behind it, and tells no total. */
const onward = (page: Page): Reply =>
  linked(
    { ...page, reply: without(page, null) },
    `</ocpi/2.2.1/locations?limit=100&offset=${page.offset + 2}>; rel="next"`,
  );
/** Links to a page of its own that it refuses. */
const refused = (page: Page): Reply =>
  page.offset === 900
    ? { status: 422, text: '{"detail":[]}' }
    : linked(page, '</ocpi/2.2.1/locations?limit=100&offset=900>; rel="next"');

const rows: readonly Row[] = [
  {
    ...{ habit: 'no link but a total', count: 5, page: ({ reply }) => reply, offsets: [0, 2, 4] },
    ...{ pull: { state: 'DONE', stored: 5, pages: 3 }, quirks: ['locations no-next-link 2'] },
  },
  {
    ...{ habit: 'a link that cannot be read', count: 5, offsets: [0, 2, 4] },
    page: (page) => linked(page, '<http://[not-a-host>; rel="next"'),
    ...{ pull: { state: 'DONE', stored: 5 }, quirks: ['locations unreadable-next-link 3'] },
  },
  {
    ...{ habit: 'a link to another origin', count: 5, offsets: [0, 2, 4] },
    page: (page) => linked(page, foreign(page)),
    ...{ pull: { state: 'DONE', stored: 5 }, quirks: ['locations foreign-next-link 3'] },
  },
  {
    ...{ habit: 'a link to another origin, and no total', count: 5, offsets: [0] },
    page: (page) => linked({ ...page, reply: without(page, null) }, foreign(page)),
    pull: { state: 'FAILED', error: 'the link of page 1 leads to another origin', stored: 2 },
    quirks: ['locations foreign-next-link 1'],
  },
  {
    ...{ habit: 'a link that is refused', count: 5, page: refused, offsets: [0, 900, 2, 4] },
    ...{ pull: { state: 'DONE', stored: 5 }, quirks: ['locations refused-next-link 2'] },
  },
  {
    ...{ habit: 'a link behind the last page that is refused', count: 2, page: refused, offsets: [0, 900] },
    ...{ pull: { state: 'DONE', stored: 2 }, quirks: ['locations refused-next-link 1'] },
  },
  {
    ...{ habit: 'a link that is refused, and no total', count: 5, offsets: [0, 900] },
    page: (page) => refused({ ...page, reply: without(page, null) }),
    pull: { state: 'FAILED', error: 'page 2: client_error: The partner answered HTTP 422', stored: 2 },
  },
  {
    ...{ habit: 'a link and an offset that are refused', count: 5, offsets: [0, 900, 2] },
    page: (page) => (page.offset === 0 ? refused(page) : refused({ ...page, offset: 900 })),
    pull: { state: 'FAILED', error: 'page 3: client_error: The partner answered HTTP 422', stored: 2 },
  },
  {
    ...{ habit: 'a link on every page, also on empty ones', count: 5, offsets: [0, 2, 4, 6] },
    page: (page) => linked(page, `</ocpi/2.2.1/locations?limit=100&offset=${page.offset + 2}>; rel="next"`),
    pull: { state: 'DONE', stored: 5, pages: 4 },
  },
  {
    ...{ habit: 'a link on every page, also on empty ones, and no total', count: 5 },
    offsets: Array.from({ length: 13 }, (_, n) => 2 * n),
    page: (page) => onward(page),
    pull: { state: 'DONE', stored: 5, pages: 13, note: /^the list may go on behind the last page that was read/ },
  },
  {
    ...{ habit: 'empty pages before the last one, and no total', count: 8, offsets: [0, 2, 4, 6] },
    page: (page) => {
      if (page.offset === 6) return without(page, null);
      return onward(page.offset === 0 ? page : { ...page, reply: { body: [] } });
    },
    pull: { state: 'DONE', stored: 4, pages: 4, note: null },
  },
  {
    ...{ habit: 'no link and no total', count: 5, page: (page) => without(page, null), offsets: [0] },
    pull: { state: 'DONE', stored: 2 },
  },
  {
    ...{ habit: 'full pages and neither link nor total', count: 230, pageRows: 100, offsets: [0, 100, 200] },
    page: (page) => without(page, null),
    ...{ pull: { state: 'DONE', stored: 230, pages: 3 }, quirks: ['locations no-next-link 2'] },
  },
  {
    ...{ habit: 'an offset that is not read, and one full page', count: 100, pageRows: 100, offsets: [0, 100] },
    page: (page) => without(page, null),
    pull: { state: 'DONE', stored: 100, pages: 1 },
  },
  {
    ...{ habit: 'more in a page than was asked for', count: 120, pageRows: 120, offsets: [0] },
    page: (page) => without(page, null),
    pull: { state: 'DONE', stored: 120, pages: 1 },
  },
  {
    ...{ habit: 'totals of the page, and no link', count: 230, pageRows: 100, offsets: [0, 100, 200] },
    page: (page) => ofPage(page),
    ...{ pull: { state: 'DONE', stored: 230, pages: 3 }, quirks: ['locations no-next-link 2'] },
  },
  {
    ...{ habit: 'totals of the page, fewer rows than were asked for, and no link', count: 5, offsets: [0, 2, 4] },
    page: (page) => ofPage(page, { 'X-Limit': '2' }),
    ...{ pull: { state: 'DONE', stored: 5, pages: 3 }, quirks: ['locations no-next-link 2'] },
  },
  {
    ...{ habit: 'totals of the page, and links', count: 9, offsets: [0, 2, 4, 6, 8] },
    page: (page) => {
      const link = `</ocpi/2.2.1/locations?limit=100&offset=${page.offset + 2}>; rel="next"`;
      return page.offset < 8 ? linked({ ...page, reply: ofPage(page) }, link) : ofPage(page);
    },
    pull: { state: 'DONE', stored: 9, pages: 5 },
  },
  {
    ...{ habit: 'totals that say what is left', count: 9, offsets: [0, 2, 4, 6, 8] },
    page: (page) => {
      const left = without(page, String(9 - page.offset));
      const link = `</ocpi/2.2.1/locations?limit=100&offset=${page.offset + 2}>; rel="next"`;
      return page.offset < 8 ? linked({ ...page, reply: left }, link) : left;
    },
    pull: { state: 'DONE', stored: 9, pages: 5 },
  },
  {
    ...{ habit: 'one full page, a total, and no page behind it', count: 100, pageRows: 100, offsets: [0, 100] },
    page: ({ reply, offset }) => (offset === 0 ? reply : { status: 404, text: '{"status_code":2003}' }),
    pull: { state: 'DONE', stored: 100, pages: 1 },
  },
  {
    ...{ habit: 'an offset that is not read, one full page, and a total', count: 100, pageRows: 100 },
    ...{ page: ({ reply }) => reply, offsets: [0, 100], pull: { state: 'DONE', stored: 100, pages: 1 } },
  },
  {
    ...{
      habit: 'an offset that is not read, one page with its rows as limit, and dates of now',
      count: 3,
      pageRows: 3,
    },
    ...{ page: (page) => ofNow(ofPage(page, { 'X-Limit': '3' })), offsets: [0, 3] },
    pull: { state: 'DONE', received: 3, pages: 1 },
  },
  {
    ...{ habit: 'an offset that is not read, one full page, dates of now, and no total', count: 100, pageRows: 100 },
    ...{ page: (page) => ofNow(without(page, null)), offsets: [0, 100] },
    pull: { state: 'DONE', received: 100, pages: 1 },
  },
  {
    ...{ habit: 'totals that count the rows up to the page, and no link', count: 230, pageRows: 100 },
    page: (page) => without(page, String(page.offset + (page.reply.body as object[]).length)),
    ...{ offsets: [0, 100, 200], pull: { state: 'DONE', stored: 230, pages: 3 } },
    quirks: ['locations no-next-link 2'],
  },
  {
    ...{ habit: 'other objects behind each page, and totals of the page', count: 1_005, pageRows: 1 },
    ...{ page: (page) => ofPage(page, { 'X-Limit': '1' }), offsets: Array.from({ length: 1_000 }, (_, n) => n) },
    pull: { state: 'FAILED', error: 'the list has more than 1000 pages', stored: 1_000 },
    ...{ quirks: ['locations no-next-link 999'], tier: atLength },
  },
  {
    ...{ habit: 'a lone link to itself, without a relation', count: 2, offsets: [0] },
    page: (page) => linked({ ...page, reply: without(page, null) }, '</ocpi/2.2.1/locations?limit=100>'),
    pull: { state: 'DONE', stored: 2, pages: 1 },
  },
  {
    ...{ habit: 'a lone link to the page before, without a relation', count: 5, offsets: [0, 2, 4] },
    page: (page) => {
      const before = page.offset === 2 ? '' : `&offset=${page.offset - 2}`;
      return page.offset === 0 ? page.reply : linked(page, `</ocpi/2.2.1/locations?limit=100${before}>`);
    },
    ...{ pull: { state: 'DONE', stored: 5, pages: 3 }, quirks: ['locations no-next-link 2'] },
  },
  ...['null', '</ocpi/docs>'].map((link): Row => {
    const page = (each: Page) => linked(each, link);
    const pull = { state: 'DONE', stored: 5, pages: 3 };
    return {
      ...{ habit: `a link that is ${link}`, count: 5, page, offsets: [0, 2, 4], pull },
      quirks: ['locations no-next-link 2'],
    };
  }),
  {
    ...{ habit: 'rows that move between its pages', count: 5, offsets: [0, 2, 4] },
    page: (page) => (page.offset === 2 ? { ...page.reply, body: page.rows.slice(1, 3) } : page.reply),
    pull: { state: 'FAILED', error: '4 of 5: the list names 1 more than once', stored: 4 },
    quirks: ['locations no-next-link 2'],
  },
  {
    ...{ habit: 'a total that is too high', count: 3, page: (page) => without(page, '7'), offsets: [0, 2, 3] },
    pull: { state: 'FAILED', error: '3 of 7: the list ends before', stored: 3 },
    quirks: ['locations no-next-link 2'],
  },
  {
    ...{ habit: 'an offset that is not read', count: 2, page: (page) => without(page, '9'), offsets: [0, 2] },
    pull: { state: 'FAILED', error: 'page 2 repeats the one before', stored: 2 },
    quirks: ['locations no-next-link 1'],
  },
  {
    ...{ habit: 'pages that become smaller', count: 9, offsets: [0, 2, 3, 4, 5, 6, 7] },
    page: ({ reply, offset }) => (offset === 0 ? reply : { ...reply, body: (reply.body as object[]).slice(0, 1) }),
    pull: { state: 'FAILED', error: '8 of 9 came in 7 pages', stored: 8 },
    quirks: ['locations no-next-link 7'],
  },
];

/** Each list is that of a CPO of its own. */
const hubOfLists = shared(hubFor);

for (const [nth, { habit, count, pageRows = 2, page, pull, offsets, quirks = [], tier = {} }] of rows.entries()) {
  t.test(`a list with ${habit} [D61] [D85]`, tier, async (t) => {
    const hub = await hubOfLists();
    const other = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'OTH' });
    t.teardown(() => other.close());
    const party_id = `C${10 + nth}`;
    const all = Array.from({ length: count }, (_, n) => locationBody(`L${n}`, { party_id }));
    const cpo = await partnerFor(t, hub, {
      ...{ role: 'CPO', countryCode: 'NL', partyId: party_id },
      answer: ({ path }) => {
        const offset = Number(new URL(path, 'http://partner').searchParams.get('offset') ?? 0);
        const from = habit.startsWith('an offset') ? 0 : offset;
        const reply = { body: all.slice(from, from + pageRows), headers: { 'X-Total-Count': String(count) } };
        return page({ offset, reply, rows: all, elsewhere: other.url });
      },
    });
    const { id } = await admin(hub, 'POST', `/parties/NL-${party_id}/pull/locations`, { full: true });
    t.match(await ended(hub, `/pulls/${String(id)}`), pull);
    const urls = cpo.received.map(({ path }) => new URL(path, 'http://partner'));
    t.same(
      urls.map(({ searchParams }) => Number(searchParams.get('offset') ?? 0)),
      offsets,
      'pages that were asked for',
    );
    t.ok(
      urls.every(({ searchParams }) => searchParams.get('limit') === '100'),
      'each with the limit',
    );
    t.equal(other.received.length, 0, 'the token goes to no other origin');
    const report = (await admin(hub, 'GET', `/parties/NL-${party_id}/report`)) as unknown as ReportView;
    t.same(
      report.quirks.map(({ module, quirk, count: times }) => `${module} ${quirk} ${times}`),
      quirks,
    );
  });
}

t.test('a check finds a next link that its own server refuses [PULL-7]', async (t) => {
  const hub = await hubFor(t);
  await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO' },
    answer: ({ path }) => {
      const offset = Number(new URL(path, 'http://partner').searchParams.get('offset') ?? 0);
      return refused({
        offset,
        reply: { body: [locationBody('L1')], headers: { 'X-Total-Count': '2' } },
        rows: [],
        elsewhere: '',
      });
    },
  });
  const { id } = await admin(hub, 'POST', '/parties/NL-CPO/check', {});
  const { findings } = await ended(hub, `/checks/${String(id)}`);
  const found = (findings as { name: string; module: string }[]).filter(({ module }) => module === 'locations');
  t.match(found, [{ name: 'refused-next-link', seen: /HTTP 422/ }]);
});

t.test('a check finds an empty list without data, which a pull reads as empty, and no failure', async (t) => {
  const hub = await hubFor(t);
  const answer = ({ path }: { path: string }) =>
    path.includes('/locations')
      ? { body: null, headers: { 'X-Total-Count': '0', 'X-Limit': '100' } }
      : { text: JSON.stringify({ data: 'none', status_code: 1000, timestamp: '2026-05-01T00:00:00Z' }) };
  await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO', answer });
  const { id } = await admin(hub, 'POST', '/parties/NL-CPO/check', {});
  const { findings } = await ended(hub, `/checks/${String(id)}`);
  const found = (findings as { name: string; module: string; severity: string }[])
    .filter(({ name }) => name.startsWith('list-'))
    .map(({ module, name, severity }) => `${module} ${name} ${severity}`);
  t.same(found, ['sessions list-failed error', 'locations list-without-data warning']);
});

t.test('a check follows http links of an https list as https, and no links to another origin [PULL-3]', async (t) => {
  const asked: string[] = [];
  let link = '';
  const wrap = <P extends object>(port: P): P =>
    new Proxy(port, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        if (name !== 'read') return value.bind(target);
        return async ({ url }: OutboundCall): Promise<Read> => {
          asked.push(url);
          const outcome = { class: 'delivered', data: [] } as unknown as Outcome;
          return { outcome, text: '{"data":[],"status_code":1000}', headers: { link } };
        };
      },
    });
  const hub = await hubFor(t, {}, { wrap });
  await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const url = 'https://cpo.example/locations';
  const endpoints = [{ identifier: 'locations', role: 'SENDER', url }];
  await admin(hub, 'PUT', '/parties/NL-CPO/endpoints', { endpoints });
  for (const [leads, pages] of [
    ['http://cpo.example/locations?offset=1', [`${url}?offset=1`]],
    ['https://cpo.example:444/locations?offset=1', []],
    ['http://other.example/locations?offset=1', []],
  ] as const) {
    asked.length = 0;
    link = `<${leads}>; rel="next"`;
    const { id } = await admin(hub, 'POST', '/parties/NL-CPO/check', {});
    await ended(hub, `/checks/${String(id)}`);
    const lists = [1, 2].map((limit) => `${url}?limit=${limit}`);
    t.strictSame(
      asked.filter((each) => each.includes('.example')),
      [lists[0], ...pages, lists[1]],
      leads,
    );
  }
});
