/** Queries of lists, cursors, and the headers that describe a page. */
import { HubError } from '../../src/domain/errors.ts';
import { pageHeaders, readCursor, readPage, writeCursor } from '../../src/transport/pagination.ts';
import { t } from '../support/tap.ts';

const limits = { pageDefault: 100, pageMax: 1000 };
const read = (query: Record<string, unknown>, demands = {}) => readPage(query, limits, demands).request;
const url = 'https://hub.example/ocpi/2.2.1/locations';
const position = { upd: '2024-05-01T00:00:00.000000000', owner: 'NL-CPO', id: 'loc/ü' };

t.test('a page has an offset and an applied size, which the hub caps [D31]', async (t) => {
  const rows: [query: Record<string, unknown>, offset: number, limit: number][] = [
    [{}, 0, 100],
    [{ offset: '7', limit: '5' }, 7, 5],
    [{ limit: '1000' }, 0, 1000],
    [{ limit: '1001' }, 0, 1000],
    [{ limit: '0' }, 0, 0],
    [{ limit: '99999999999999999999999' }, 0, 1000],
    [{ offset: '99999999999999999999999' }, Number.MAX_SAFE_INTEGER, 100],
  ];
  for (const [query, offset, limit] of rows) t.same(read(query), { offset, limit }, JSON.stringify(query));
});

t.test('dates are read with and without Z, with fractions and with a zone [D31]', async (t) => {
  const rows: [text: string, sortable: string][] = [
    ['2024-05-01T10:00:00Z', '2024-05-01T10:00:00.000000000'],
    ['2024-05-01T10:00:00', '2024-05-01T10:00:00.000000000'],
    ['2024-05-01T10:00:00.123Z', '2024-05-01T10:00:00.123000000'],
    ['2024-05-01T10:00:00.123456789', '2024-05-01T10:00:00.123456789'],
    ['2024-05-01T10:00:00+02:00', '2024-05-01T08:00:00.000000000'],
    ['2024-05-01T10:00:00 02:00', '2024-05-01T08:00:00.000000000'],
    ['2024-02-29T23:59:59Z', '2024-02-29T23:59:59.000000000'],
    ['2024-05-01 10:00:00Z', '2024-05-01T10:00:00.000000000'],
    ['2024-05-01 10:00:00', '2024-05-01T10:00:00.000000000'],
  ];
  for (const [text, sortable] of rows) {
    t.same(read({ date_from: text, date_to: text }), { offset: 0, limit: 100, from: sortable, to: sortable }, text);
  }
});

t.test('a parameter without a value counts as absent [D71]', async (t) => {
  const empty = { date_from: '', date_to: '', limit: '', offset: '', cursor: '' };
  t.strictSame(read(empty), read({}));
  const refusal = { code: 'invalid', message: 'date_from: expected RFC 3339 date-time' };
  t.throws(() => readPage(empty, { pageDefault: 100, pageMax: 500 }, { dateFrom: true }), refusal);
});

t.test('an invalid query is refused with the parameter [D3, D31]', async (t) => {
  const rows: [query: Record<string, unknown>, message: string][] = [
    [{ limit: '-1' }, 'limit: expected non-negative integer'],
    [{ limit: '1.5' }, 'limit: expected non-negative integer'],
    [{ offset: 'ten' }, 'offset: expected non-negative integer'],
    [{ offset: '0x10' }, 'offset: expected non-negative integer'],
    [{ offset: ['1', '2'] }, 'offset: expected one value'],
    [{ date_from: '2024-05-01' }, 'date_from: expected RFC 3339 date-time'],
    [{ date_from: 'yesterday' }, 'date_from: expected RFC 3339 date-time'],
    [{ date_to: '2023-02-29T00:00:00Z' }, 'date_to: expected RFC 3339 date-time'],
    [{ date_to: '2024-05-01T25:00:00Z' }, 'date_to: expected RFC 3339 date-time'],
    [{ cursor: 'nonsense' }, 'cursor: expected a cursor taken from a Link header'],
    [{ cursor: Buffer.from('{"upd":1}').toString('base64url') }, 'cursor: expected a cursor taken from a Link header'],
    [{ cursor: Buffer.from('null').toString('base64url') }, 'cursor: expected a cursor taken from a Link header'],
  ];
  for (const [query, message] of rows) {
    t.throws(() => read(query), { code: 'invalid', message }, JSON.stringify(query));
  }
});

t.test('a list that requires date_from refuses without it [interface, Sessions (eMSP pulls)]', async (t) => {
  const missing = new HubError('invalid', { message: 'date_from: expected RFC 3339 date-time' });
  t.throws(() => read({ date_to: '2024-05-01T00:00:00Z' }, { dateFrom: true }), missing);
  t.equal(read({ date_from: '2024-05-01T00:00:00Z' }, { dateFrom: true }).from, '2024-05-01T00:00:00.000000000');
});

t.test('a cursor is decoded to what was encoded, and fits into a URL [D32]', async (t) => {
  const cursor = writeCursor(position);
  t.match(cursor, /^[A-Za-z0-9_-]+$/);
  t.same(readCursor(cursor), position);
  t.same(read({ cursor }).after, position);
});

t.test(
  'next comes before prev, with cursor, offset, limit and the filters as they were written [D32, D33]',
  async (t) => {
    const page = readPage({ offset: '4', limit: '2', date_from: '2024-05-01T00:00:00+02:00' }, limits);
    const headers = pageHeaders(url, page, { count: 2, total: 9, isLast: false, last: position });
    const filter = `date_from=${encodeURIComponent('2024-05-01T00:00:00+02:00')}`;
    t.same(headers, {
      'X-Total-Count': '9',
      'X-Limit': '2',
      Link:
        `<${url}?${filter}&cursor=${writeCursor(position)}&offset=6&limit=2>; rel="next", ` +
        `<${url}?${filter}&offset=2&limit=2>; rel="prev"`,
    });
  },
);

t.test('first, last, empty and overrun pages link only to existing pages', async (t) => {
  const link = (offset: number, found: { count: number; total: number; isLast: boolean }) => {
    const page = readPage({ limit: '3', offset: String(offset) }, limits);
    return pageHeaders(url, page, { ...found, last: found.count > 0 ? position : null }).Link ?? '';
  };
  const links = (...of: Parameters<typeof link>) => [...link(...of).matchAll(/rel="(\w+)"/g)].map(([, rel]) => rel);
  t.same(links(0, { count: 3, total: 3, isLast: true }), [], 'the only page');
  t.same(links(0, { count: 3, total: 4, isLast: false }), ['next'], 'first page');
  t.same(links(3, { count: 1, total: 4, isLast: true }), ['prev'], 'last page');
  t.same(links(4, { count: 3, total: 4, isLast: false }), ['next', 'prev'], 'rows that moved behind the reader follow');
  t.same(links(0, { count: 0, total: 0, isLast: true }), [], 'nothing matches');
  t.same(links(50, { count: 0, total: 4, isLast: true }), ['prev'], 'behind the end');
  t.match(
    link(4, { count: 3, total: 4, isLast: false }),
    /&offset=3&limit=3>; rel="next"/,
    'which a client finds below the total',
  );
  t.match(link(50, { count: 0, total: 4, isLast: true }), /offset=1&limit=3>; rel="prev"/);
  t.match(link(2, { count: 2, total: 9, isLast: false }), /offset=0&limit=3>; rel="prev"/);
});
