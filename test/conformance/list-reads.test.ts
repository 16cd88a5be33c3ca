/**
 * Lists that a partner pages through by offsets that it counts itself, while objects are updated and deleted.
 * [D31, D32, D70]
 */
import type { ReportView } from '../../src/api/report.ts';
import { ListReads } from '../../src/ocpi/list-reads.ts';
import { readPage } from '../../src/transport/pagination.ts';
import { tariffBody } from '../support/bodies.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const path = (id: string) => `/2.2.1/tariffs/NL/CPO/${id}`;
const second = (n: number) => `2026-01-02T03:04:${String(n).padStart(2, '0')}Z`;

/** A hub with so many tariffs, T1 the oldest, and an eMSP that reads their list. */
async function scene(t: Test, count: number, env: Readonly<Record<string, string>> = {}) {
  const clock = new SimulatedClock('2026-05-01T10:00:00.000Z');
  const hub = await hubFor(t, env, { clock });
  const { cpo, emsp } = await routedPair(t, hub);
  let seconds = 0;
  /** Creates a tariff, or updates it, which moves it to the end of the list unless its date is another one. */
  const put = async (id: string, date = second(++seconds)) => {
    await cpo.push('PUT', path(id), tariffBody(id, { last_updated: date }));
  };
  const remove = (id: string) => cpo.push('DELETE', path(id));
  for (let n = 1; n <= count; n++) await put(`T${n}`);
  const page = async (query: string) => {
    const { headers, json } = await emsp.call('GET', `/2.2.1/tariffs?${query}`);
    const ids = (json.data as { id: string }[]).map(({ id }) => id);
    return { ids, total: Number(headers.get('x-total-count')), limit: Number(headers.get('x-limit')) };
  };
  /** The pages of a client that adds so much to the offset until it is at the total. */
  const walk = async (query: string, step: (page: { ids: string[]; limit: number }) => number) => {
    const pages: string[][] = [];
    const totals: number[] = [];
    for (let [offset, total] = [0, 1]; offset < total && pages.length < 20; ) {
      const read = await page(`${query}&offset=${offset}`);
      pages.push(read.ids);
      totals.push(read.total);
      [offset, total] = [offset + step(read), read.total];
    }
    return { pages, totals };
  };
  const quirks = async () => {
    const report = (await admin(hub, 'GET', '/parties/NL-EMS/report')) as unknown as ReportView;
    return report.quirks.map(({ module, quirk, count }) => `${module} ${quirk} ${count}`);
  };
  return { clock, put, remove, page, walk, quirks };
}

const items = ({ ids }: { ids: string[] }) => ids.length;

t.test('an offset where a page ended continues after its last item, whatever has moved since [D32]', async (t) => {
  const { put, remove, page, walk, quirks } = await scene(t, 9);
  t.strictSame(await page('limit=3'), { ids: ['T1', 'T2', 'T3'], total: 9, limit: 3 });
  await put('T1');
  await remove('T2');
  t.strictSame(await page('limit=3&offset=3'), { ids: ['T4', 'T5', 'T6'], total: 8, limit: 3 });
  await put('T4');
  const lost = 'a page whose answer was lost is asked for again';
  t.strictSame(await page('limit=3&offset=3'), { ids: ['T5', 'T6', 'T7'], total: 8, limit: 3 }, lost);
  const more = 'a client that stops at the total goes on while items follow';
  t.strictSame(await page('limit=3&offset=6'), { ids: ['T8', 'T9', 'T1'], total: 10, limit: 3 }, more);
  t.strictSame(await page('limit=3&offset=9'), { ids: ['T4'], total: 8, limit: 3 });
  await put('T5');
  t.strictSame(await page('limit=3&offset=10'), { ids: [], total: 8, limit: 3 }, 'behind the end nothing follows');
  const again = [
    ['T3', 'T6', 'T7'],
    ['T8', 'T9', 'T1'],
    ['T4', 'T5'],
  ];
  t.strictSame(await walk('limit=3', items), { pages: again, totals: [8, 8, 8] }, 'from the start it is another read');
  t.strictSame(await quirks(), [], 'OCPI lets clients count offsets');
});

t.test('a client that counts offsets reaches the end of a list into which older objects come', async (t) => {
  const { put, page } = await scene(t, 9);
  await page('limit=3');
  await put('T0', second(0));
  t.strictSame((await page('limit=3&offset=3')).ids, ['T4', 'T5', 'T6']);
  t.strictSame(await page('limit=3&offset=6'), { ids: ['T7', 'T8', 'T9'], total: 10, limit: 3 });
  t.strictSame(await page('limit=3&offset=9'), { ids: ['T9'], total: 10, limit: 3 });
});

t.test('only a read of the same list is continued, from its last pages, for a limited time', async (t) => {
  const { clock, put, page } = await scene(t, 20);
  const ids = async (query: string) => (await page(query)).ids;
  const from = `date_from=${second(1)}`;
  await page('limit=2');
  await put('T1');
  t.strictSame(await ids(`limit=2&offset=2&${from}`), ['T4', 'T5'], 'other filters');
  t.strictSame(await ids('limit=2&offset=2'), ['T4', 'T5'], 'the list of before is forgotten');
  await page('limit=2');
  await put('T2');
  t.strictSame(await ids('limit=2&offset=4'), ['T7', 'T8'], 'the pages of a read before');
  t.strictSame(await ids('limit=2&offset=3'), ['T6', 'T7'], 'another offset');
  t.strictSame(await ids('limit=1&offset=2'), ['T4'], 'another limit does not matter');
  await page('limit=4');
  await put('T4');
  clock.advance(600_001);
  t.strictSame(await ids('limit=2&offset=4'), ['T8', 'T9'], 'the page of ten minutes ago');
});

/** A partner that asks for pages of three tariffs, of which it has read these; `answers` reads one and gives the tariff that it begins behind. */
function readerOf(isAlone: boolean, offsets: readonly number[]) {
  const reads = new ListReads({ clock: new SimulatedClock(), isAlone });
  const reader = { partner: 'NL-EMS', party: 'NL-EMS', to: undefined, module: 'tariffs' };
  const at = (offset: number) => readPage({ limit: '3', offset: String(offset) }, { pageDefault: 100, pageMax: 1000 });
  const continued = (offset: number) => reads.continued(reader, at(offset));
  const answers = (offset: number, count: number) => {
    const page = continued(offset);
    const last = { upd: second(3), owner: 'NL-CPO', id: `T${offset + count}` };
    reads.answered(reader, page, { count, total: 999, isLast: false, last });
    return page.request.after?.id;
  };
  for (const offset of offsets) answers(offset, 3);
  return { after: (offset: number) => continued(offset).request.after?.id, answers };
}

t.test('with several nodes no read is continued: a node does not know what the others answered', async (t) => {
  t.equal(readerOf(true, [0]).after(3), 'T3');
  t.equal(readerOf(false, [0]).after(3), undefined);
});

t.test('a client that adds its own limit misses nothing after a page that was cut for its size [D31]', async (t) => {
  const { answers } = readerOf(true, []);
  const pages = [
    [0, 3],
    [3, 3],
    [6, 2],
    [9, 1],
    [12, 3],
    [15, 3],
  ] as const;
  const after = pages.map(([offset, count]) => answers(offset, count));
  t.strictSame(after, [undefined, 'T3', 'T6', 'T8', 'T10', 'T15']);
  const { answers: byItems } = readerOf(true, [0]);
  t.strictSame(
    [byItems(3, 2), byItems(5, 2), byItems(8, 3)],
    ['T3', 'T5', undefined],
    'one that counts items goes on by them',
  );
});

t.test('the last 32 pages of a read are remembered', async (t) => {
  const { after } = readerOf(
    true,
    Array.from({ length: 33 }, (_, n) => 3 * n),
  );
  t.strictSame([after(3), after(6), after(99)], [undefined, 'T6', 'T99']);
});

t.test('a client that adds its own limit, which X-Limit reduces, misses nothing [D31, D70]', async (t) => {
  const { put, page, walk, quirks } = await scene(t, 7, { HUB_PAGE_MAX: '2' });
  const whole = { pages: [['T1', 'T2'], ['T3', 'T4'], ['T5', 'T6'], ['T7']], totals: [7, 11, 16, 7] };
  t.strictSame(await walk('limit=5', () => 5), whole);
  t.strictSame(await quirks(), ['tariffs own-limit 3']);

  const { pages } = await walk('limit=5', ({ limit }) => limit);
  t.strictSame(pages, whole.pages, 'a client that adds X-Limit');
  await page('limit=4');
  t.strictSame((await page('limit=3&offset=4')).ids, ['T5', 'T6'], 'another limit');
  await page('limit=4');
  await page('limit=4&offset=1');
  t.strictSame((await page('limit=4&offset=4')).ids, ['T5', 'T6'], 'a page in between');
  await page('limit=4');
  await put('T1');
  t.strictSame((await page('limit=4&offset=2')).ids, ['T3', 'T4']);
  t.strictSame((await page('limit=4&offset=6')).ids, ['T1'], 'an offset by the items: it counts those, also ahead');
  t.strictSame(await quirks(), ['tariffs own-limit 3']);
});
