/**
 * Lists of the PostgreSQL store, counted by months, days and hours, beside the order that the embedded store keeps in memory: whatever is put, moved,
 * removed and trimmed, every page and every count is the same.
 */

import type { ListQuery, Put } from '../../storage/contract.ts';
import { OrderIndex, placeOf } from '../../storage/level/order-index.ts';
import { listing } from '../../storage/postgres/lists.ts';
import { openPostgresStore } from '../../storage/postgres/store.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, openSession, type PostgresServer, postgresHere, sharedPostgres } from '../support/postgres.ts';
import { fc } from '../support/property.ts';
import { partOf } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { append, gone, patient, row, trim } from './support.ts';

const histories = partOf(200);
const shelves = ['S1', 'S2', '😀', '\uffff', ''];
/** So many that the counts of the whole kind are read. */
const others = Array.from({ length: 40 }, (_, i) => `other ${i}`);
const day = fc.constantFrom('2024-05-01', '2024-05-01', '2024-05-02', '2024-05-31', '2024-06-01', '2025-05-01');
/** Few hours, so that bounds and pages fall within one and between two; and some that are no instants at all. */
const upd = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .record({ day, hour: fc.integer({ min: 0, max: 3 }), second: fc.integer({ min: 0, max: 5 }) })
      .map(({ day, hour, second }) => `${day}T0${hour}:00:0${second}.000Z`),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      ...['', '2024', '2024-05', '2024-05\u{10ffff}', '2024-05-01', '2024-05-01\u{10ffff}', '2024-05-01T03'],
      ...['\u{10ffff}', '2024-05-01T03\u{10ffff}', 'z'.repeat(20)],
    ),
  },
);
const id = fc.integer({ min: 0, max: 25 }).map(String);
const owner = fc.constantFrom('A', 'B');
const put: fc.Arbitrary<Put> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc
      .record({ id, owner, upd, shelf: fc.constantFrom(...shelves, null) })
      .map(({ id, ...fields }) => row(id, fields)),
  },
  { weight: 1, arbitrary: fc.record({ id, owner }).map(({ id, owner }) => gone(id, { owner })) },
);
const query: fc.Arbitrary<ListQuery> = fc.record(
  {
    kind: fc.constant('sessions'),
    shelves: fc
      .tuple(fc.uniqueArray(fc.constantFrom(...shelves, 'unknown')), fc.constantFrom([], others))
      .map((each) => each.flat()),
    offset: fc.integer({ min: 0, max: 30 }),
    limit: fc.integer({ min: 0, max: 20 }),
    from: upd,
    to: upd,
    after: fc.record({ upd, owner, id }),
  },
  { requiredKeys: ['kind', 'shelves', 'offset', 'limit'] },
);
const history = fc.record({
  commits: fc.array(fc.array(put, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 12 }),
  queries: fc.array(query, { minLength: 20, maxLength: 20 }),
  /** Rows that are asked to go with the events up to this part of the log. */
  trimmed: fc.record({ part: fc.double({ min: 0, max: 1, noNaN: true }), rows: fc.array(fc.record({ id, owner })) }),
});

function suite(server: PostgresServer): void {
  t.test('every page and every count equals that of the order in memory', async (t) => {
    let pages = 0;
    const property = fc.asyncProperty(history, async ({ commits, queries, trimmed }) => {
      const store = await openPostgresStore({ url: server.url(newSchema('lists')), node: 'test', ...patient });
      try {
        const order = new OrderIndex();
        const writtenAt = new Map<string, number>();
        const appended = commits.map((puts) => append(store, { puts }));
        for (const [i, puts] of commits.entries()) {
          for (const each of puts) {
            order.place(each, each.gone ? null : each.shelf, each.gone ? '' : each.upd);
            writtenAt.set(`${each.owner} ${each.id}`, i + 1);
          }
        }
        await Promise.all(appended);
        const upTo = Math.floor(trimmed.part * commits.length);
        if (upTo > 0) {
          await trim(store, upTo, { rows: trimmed.rows.map((each) => row(each.id, each)) });
          for (const each of trimmed.rows) {
            if ((writtenAt.get(`${each.owner} ${each.id}`) ?? 0) <= upTo) order.place(row(each.id, each), null, '');
          }
        }
        for (const each of queries) {
          const { entries, total, offset } = order.page(each);
          const page = await store.list(each);
          const names = (rows: readonly { upd: string; owner: string; id: string }[]) =>
            rows.map(({ upd, owner, id }) => [upd, owner, id]);
          const same = JSON.stringify([names(page.rows), page.total, page.isLast]);
          const isLast = offset + entries.length >= total;
          const wanted = JSON.stringify([names(entries.map((entry) => placeOf(each.kind, entry))), total, isLast]);
          if (same !== wanted) throw new Error(`${JSON.stringify(each)} gave ${same}, not ${wanted}`);
          pages += 1;
        }
      } finally {
        await store.close();
      }
    });
    await fc.assert(property, { numRuns: histories, endOnFailure: true });
    t.ok(pages >= histories * 20, `${pages} pages`);
  });
}

/** Of the indexes by which lists are read, since the server was asked last. */
async function entriesRead(server: PostgresServer, schema: string): Promise<number> {
  const [found] = await server.query<{ n: string }>(
    `select sum(idx_tup_read) as n from pg_stat_user_indexes
       where schemaname = $1 and indexrelname in ('rows_listed', 'rows_by_upd')`,
    [schema],
  );
  return Number(found?.n);
}

function readingSuite(server: PostgresServer): void {
  t.test('a page over many shelves reads what is on it, not a page of each shelf', async (t) => {
    const schema = newSchema('lists');
    const store = await openPostgresStore({ url: server.url(schema), node: 'test', ...patient });
    const many = Array.from({ length: 40 }, (_, i) => `S${i}`);
    const [hours, limit] = [20, 40];
    const puts = many.flatMap((shelf) =>
      Array.from({ length: hours }, (_, hour) =>
        row(`${shelf}-${hour}`, { shelf, upd: `2024-05-01T${String(hour).padStart(2, '0')}:00:00.000Z` }),
      ),
    );
    await append(store, { puts });
    const ask = { kind: 'sessions', shelves: many, limit };
    const first = await store.list({ ...ask, offset: 0 });
    await store.list({ ...ask, offset: 5 * many.length });
    // More often than a session plans anew for the values that it is given.
    const pages = 20;
    const deep = { upd: '2024-05-01T15:00:00.000Z', owner: '', id: '' };
    for (let page = 2; page < pages; page++) await store.list({ ...ask, offset: 0, after: deep });
    t.equal(first.total, hours * many.length);
    // What a session has counted it tells at the end of it.
    await store.close();
    await eventually('it is counted', async () => (await entriesRead(server, schema)) > 0);
    const read = await entriesRead(server, schema);
    t.ok(read <= 3 * pages * limit, `${pages} pages of ${limit} read ${read} entries`);
  });

  t.test('[LISTS-1] the reads that count a list of most shelves do not grow with their number', async (t) => {
    const schema = newSchema('lists');
    const store = await openPostgresStore({ url: server.url(schema), node: 'test', ...patient });
    const names = Array.from({ length: 200 }, (_, i) => `S${i}`);
    const puts = names.flatMap((shelf) =>
      Array.from({ length: 5 }, (_, hour) => row(`${shelf}-${hour}`, { shelf, upd: `2024-05-01T0${hour}:00:00.000Z` })),
    );
    await append(store, { puts });
    await store.close();
    const session = await openSession(t, server, 'lists');
    await session.query(`set search_path = ${schema}`);
    for (const shelves of [names, names.slice(2)]) {
      const place = [{ offset: 0 }, { offset: 2.5 * shelves.length }, { offset: 0, from: '2024-05-01T02' }];
      for (const each of place) {
        const { text, values } = listing({ kind: 'sessions', shelves, limit: 1, ...each });
        const { rows } = await session.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
          `explain (analyze, buffers, format json) ${text}`,
          [...values],
        );
        const pages = rows[0]?.['QUERY PLAN'][0].Plan['Shared Hit Blocks'] ?? Number.NaN;
        t.ok(pages < 2 * shelves.length, `${pages} pages for ${shelves.length} shelves at ${JSON.stringify(each)}`);
      }
    }
  });
}

if (postgresHere === null) t.plan(0, 'no PostgreSQL server is installed here');
else for (const each of [suite, readingSuite]) each(await sharedPostgres());
