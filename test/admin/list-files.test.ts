/** Lists as files: lines of JSON and CSV have every item of the pages, whatever the list. */
import * as z from 'zod';
import { fileOf } from '../../src/admin/list-files.ts';
import { route } from '../../src/admin/route.ts';
import { listOf, type Page } from '../../src/api/common.ts';
import { locationBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

type Item = Readonly<Record<string, unknown>>;
type Media = Readonly<Record<string, { schema: { properties?: { items?: object; next_cursor?: object } } }>>;
type Operations = Readonly<Record<string, { responses: Readonly<Record<string, { content?: Media }>> }>>;

async function listsFor(t: Test) {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '3600' });
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status: 400, text: 'no' }) });
  for (let n = 0; n < 3; n++)
    await cpo.call('PUT', `/2.2.1/locations/NL/CPO/L${n}`, locationBody(`L${n}`, { name: `=1+1 "${n}";=2;-3,\n+4` }));
  const notes = () => itemsOf(hub, '/events?type=object.missed');
  await eventually('all are dead, and noted as missed', async () => (await notes()).length === 3);
  const file = (path: string, accept: string) =>
    callOnce('GET', `${hub.url}/admin/v1${path}`, undefined, { authorization: `Bearer ${hub.adminToken}`, accept });
  return { hub, cpo, emsp, file };
}

/** Rows of cells, by the rules of RFC 4180. */
function cellsOf(text: string): string[][] {
  const rows: string[][] = [[]];
  for (const [, quoted, bare, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n|$)/g)) {
    if (quoted === undefined && bare === '' && end === '') continue;
    rows.at(-1)?.push(quoted?.replaceAll('""', '"') ?? bare ?? '');
    if (end === '\n') rows.push([]);
  }
  return rows.filter((row) => row.length > 0);
}

const cellIn = (item: Item, column: string): string => {
  const value = column.split('.').reduce<unknown>((inside, name) => (inside as Item | null)?.[name], item);
  const text = typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? '');
  return typeof value === 'number' ? text : text.replaceAll(/(^|[;\t\n])(?=[=+\-@\t])/g, "$1'");
};

t.test('[LIST-FILES-1, LIST-FILES-3] every list exports all of its items as NDJSON and as CSV', async (t) => {
  const { hub, file } = await listsFor(t);
  const document = (await admin(hub, 'GET', '/openapi.json')) as { paths: Readonly<Record<string, Operations>> };
  const lists = Object.entries(document.paths).flatMap(([path, { get }]) => {
    const content = get?.responses[200]?.content;
    const { items, next_cursor } = content?.['application/json']?.schema.properties ?? {};
    return items ? [{ path, whole: next_cursor ? '?limit=1000' : '', types: Object.keys(content ?? {}) }] : [];
  });
  t.ok(lists.length >= 11, `${lists.length} lists`);
  for (const { path, whole, types } of lists) {
    t.strictSame(types, ['application/json', 'application/x-ndjson', 'text/csv'], `${path} is documented so`);
    const at = path.replace('{id}', 'NL-CPO');
    const { items } = (await admin(hub, 'GET', `${at}${whole}`)) as unknown as Page<Item>;
    const lines = await file(at, 'application/x-ndjson');
    const found = lines.text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
    // Reading the audit log is recorded in it.
    if (at !== '/audit') t.strictSame(found, items, `${path} as lines`);
    const csv = await file(at, 'text/csv');
    t.match(csv.headers.get('content-type'), /^text\/csv/);
    const [columns = [], ...rows] = cellsOf(csv.text);
    t.ok(columns.length > 2, `${path} as CSV: ${columns.join()}`);
    if (at === '/audit') continue;
    const cells = items.map((item) => columns.map((column) => cellIn(item, column)));
    t.strictSame(rows, cells, `${path} as CSV`);
  }
});

t.test(
  '[LIST-FILES-1] a file continues beyond the first page, applies the filter, and has as many items as the limit says',
  async (t) => {
    const { hub, file } = await listsFor(t);
    const { operations } = hub.created.hub;
    const trace = { requestId: 'r', correlationId: 'c' };
    for (let n = 0; n < 600; n++) await operations.setRoute('NL-EMS', 'NL-CPO', n % 2 === 1, trace);
    const linesOf = async (query: string) => {
      const { text } = await file(`/events${query}`, 'application/x-ndjson');
      return text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { seq: number; type: string });
    };
    const all = await linesOf('');
    t.ok(all.length > 600, `${all.length} events`);
    t.ok(
      all.every(({ seq }, i) => seq === i + 1),
      'each once, in order',
    );
    const rows = cellsOf((await file('/events', 'text/csv')).text);
    t.equal(rows.length, all.length + 1);
    const set = await linesOf('?type=route.set&order=newest');
    t.strictSame(
      set.map(({ seq }) => seq),
      all
        .filter(({ type }) => type === 'route.set')
        .map(({ seq }) => seq)
        .reverse(),
    );
    t.equal((await linesOf('?limit=7')).length, 7);
    const refused = await file('/deliveries?state=LOST', 'text/csv');
    t.equal(refused.status, 422);
    t.match(refused.headers.get('content-type'), /problem\+json/);
  },
);

t.test('[LIST-FILES-1] a limit counts the items of the whole file, not those of a page', async (t) => {
  const limits: unknown[] = [];
  const sparse = route({
    ...{ method: 'GET', path: '/made-up', summary: '', query: z.looseObject({}) },
    answer: listOf(z.object({ n: z.number() })),
    run: ({ query: { cursor = '0', limit } }) => {
      limits.push(limit);
      const n = Number(cursor);
      return { items: n % 2 === 0 ? [] : [{ n }], next_cursor: n === 9 ? null : String(n + 1) };
    },
  });
  const raw = { params: {}, body: undefined, trace: { requestId: '', correlationId: '' } };
  const found = async (query: object) => {
    limits.length = 0;
    const asked = { ...raw, query, caller: { name: '', role: 'admin' } as const };
    const file = await fileOf(sparse, asked, 'application/x-ndjson', (item) => item);
    const numbers: number[] = [];
    for await (const line of file?.content ?? []) numbers.push((JSON.parse(String(line)) as { n: number }).n);
    return numbers;
  };
  t.strictSame(await found({ limit: '3' }), [1, 3, 5]);
  t.strictSame(limits, ['3', 3, 2, 2, 1, 1], 'a page is asked for what is left');
  t.strictSame(await found({ limit: '9' }), [1, 3, 5, 7, 9], 'or all of them');
  t.strictSame(await found({}), [1, 3, 5, 7, 9]);
});

t.test('[LIST-FILES-2] a file ends with an error when a later page fails', async (t) => {
  let pages = 0;
  const failing = route({
    ...{ method: 'GET', path: '/made-up', summary: '', query: z.looseObject({}) },
    answer: listOf(z.object({ n: z.number() })),
    run: () => {
      pages += 1;
      if (pages % 2 === 0) throw new Error('the store is gone');
      return { items: [{ n: 1 }], next_cursor: '1' };
    },
  });
  const raw = { params: {}, query: {}, body: undefined, trace: { requestId: '', correlationId: '' } };
  for (const accept of ['application/x-ndjson', 'text/csv']) {
    const file = await fileOf(failing, { ...raw, caller: { name: '', role: 'admin' } }, accept, (item) => item);
    const read = (async () => {
      for await (const _chunk of file?.content ?? []);
    })();
    await t.rejects(read, /the store is gone/, accept);
  }
});

t.test('[LIST-FILES-3] no text becomes a formula in a spreadsheet, whatever separates the cells', async (t) => {
  const items = ['foo;=HYPERLINK("x");bar', '=1', 'a\t@b\n-c\r\n+d', 'a-b=c; d', '\uFF1D1'].map((text, n) => ({
    n: -n,
    text,
  }));
  const list = route({
    ...{ method: 'GET', path: '/made-up', summary: '', query: z.looseObject({}) },
    answer: listOf(z.object({ n: z.number(), text: z.string() })),
    run: () => ({ items, next_cursor: null }),
  });
  const raw = { params: {}, query: {}, body: undefined, trace: { requestId: '', correlationId: '' } };
  const file = await fileOf(list, { ...raw, caller: { name: '', role: 'admin' } }, 'text/csv', (item) => item);
  const text = String(await file?.content.map(String).reduce((all, part) => all + part, ''));
  t.equal(
    text,
    `n,text
0,"foo;'=HYPERLINK(""x"");bar"
-1,'=1
-2,"a\t'@b\n'-c\r\n'+d"
-3,"a-b=c; d"
-4,'\uFF1D1
`,
  );
});
