/** The order index against a naive model: an array that is filtered, sorted and sliced. */

import type { ListQuery, Position } from '../../storage/contract.ts';
import { OrderIndex, type Page, type Place, placeOf } from '../../storage/level/order-index.ts';
import { SortedList } from '../../storage/level/sorted-list.ts';
import { fc } from '../support/property.ts';
import { t } from '../support/tap.ts';

interface Placed extends Position {
  readonly shelf: string;
}

/** By code point, written another way than the index does it. */
const compareText = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
const compare = (a: Position, b: Position): number =>
  compareText(a.upd, b.upd) || compareText(a.owner, b.owner) || compareText(a.id, b.id);

/** A page of places. */
interface PlacedPage extends Pick<Page, 'total' | 'offset'> {
  readonly places: readonly Place[];
}

const pageOf = (index: OrderIndex, query: ListQuery): PlacedPage => {
  const { entries, total, offset } = index.page(query);
  return { places: entries.map((entry) => placeOf(query.kind, entry)), total, offset };
};

function naive(rows: readonly Placed[], query: ListQuery): PlacedPage {
  const { kind, shelves, owner, from, to, after, limit } = query;
  const matching = rows
    .filter((row) => shelves.includes(row.shelf) && (owner === undefined || row.owner === owner))
    .filter(({ upd }) => from === undefined || compareText(upd, from) >= 0)
    .filter(({ upd }) => to === undefined || compareText(upd, to) < 0)
    .sort(compare);
  const offset = after === undefined ? query.offset : matching.filter((row) => compare(row, after) <= 0).length;
  const places = matching.slice(offset, offset + limit).map(({ owner, id, upd }) => ({ kind, owner, id, upd }));
  return { places, total: matching.length, offset };
}

const name = fc.constantFrom('', 'a', 'b', 'ab', 'a\x01', 'é', '\uffff', '\u{10000}', '\u{1f600}', '\ue000', 'z');
const place = fc.record({ upd: name, owner: name, id: name, shelf: fc.option(name) });
const query = fc.record(
  {
    shelves: fc.array(name, { maxLength: 6 }),
    owner: name,
    from: name,
    to: name,
    offset: fc.nat(40),
    limit: fc.nat(12),
    after: fc.record({ upd: name, owner: name, id: name }),
  },
  { requiredKeys: ['shelves', 'offset', 'limit'] },
);

t.test('every page of every query equals a page of everything sorted', async () => {
  fc.assert(
    fc.property(
      fc.array(place, { maxLength: 120 }),
      fc.array(query, { minLength: 1, maxLength: 8 }),
      (places, queries) => {
        const index = new OrderIndex();
        const model = new Map<string, Placed>();
        for (const { shelf, ...position } of places) {
          const { upd, owner, id } = position;
          index.place({ kind: 'k', owner, id }, shelf, upd);
          model.delete(`${owner}\0${id}`);
          if (shelf !== null) model.set(`${owner}\0${id}`, { ...position, shelf });
        }
        const standing = [...model.values()];
        // A page that goes on behind one that stands there, which chance alone seldom asks for.
        const some = standing.slice(0, 4);
        const following = some.map(({ shelf, ...after }) => ({ shelves: [shelf], after, offset: 0, limit: 12 }));
        const narrowed = some.map(({ shelf, owner }) => ({ shelves: [shelf], owner, offset: 0, limit: 12 }));
        for (const asked of [...queries, ...following, ...narrowed]) {
          const full = { kind: 'k', ...asked };
          const expected = naive(standing, full);
          const found = pageOf(index, full);
          if (JSON.stringify(found) !== JSON.stringify(expected)) {
            throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
          }
        }
      },
    ),
    { numRuns: 500 },
  );
});

t.test('a sorted list of many blocks adds, removes, ranks and slices as an array does', async () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 0, max: 3000 }), fc.integer({ min: 1, max: 400 }), fc.boolean()), {
        maxLength: 40,
      }),
      fc.array(fc.nat(3500), { minLength: 5, maxLength: 20 }),
      (changes, probes) => {
        const list = new SortedList<number>();
        const model = new Set<number>();
        for (const [from, count, add] of changes) {
          for (let value = from; value < from + count; value += 1) {
            const changed = add ? list.add(value) : list.remove(value);
            if (changed !== (add ? !model.has(value) : model.has(value))) throw new Error(`${value}`);
            if (add) model.add(value);
            else model.delete(value);
          }
        }
        const sorted = [...model].sort((a, b) => a - b);
        if (list.size !== sorted.length) throw new Error('size');
        for (const probe of probes) {
          if (list.has(probe) !== model.has(probe)) throw new Error(`has ${probe}`);
          if (list.rank(probe) !== sorted.filter((value) => value < probe).length) throw new Error(`rank ${probe}`);
          const slice = list.slice(probe, probe + 700);
          if (`${slice}` !== `${sorted.slice(probe, probe + 700)}`) throw new Error(`slice ${probe}`);
        }
      },
    ),
    { numRuns: 60 },
  );
});

t.test('shelves that follow each other, nest or interleave merge exactly, page by page', async (t) => {
  for (const updOf of [
    (shelf: number, i: number) => shelf * 1000 + i,
    (shelf: number, i: number) => i * 50 + shelf,
    (shelf: number, i: number) => (shelf % 2 === 0 ? i : 5000 + ((i * 7919) % 1000)),
  ]) {
    const index = new OrderIndex();
    const all: string[] = [];
    for (let shelf = 0; shelf < 40; shelf += 1) {
      for (let i = 0; i < 60; i += 1) {
        const upd = `${updOf(shelf, i)}`.padStart(8, '0');
        index.place({ kind: 'k', owner: `o${shelf}`, id: `${i}` }, `s${shelf}`, upd);
        all.push([upd, `o${shelf}`, `${i}`].join('\0'));
      }
    }
    all.sort();
    const shelves = Array.from({ length: 40 }, (_, shelf) => `s${shelf}`);
    const walked: string[] = [];
    for (let offset = 0; offset < 2400; offset += 97) {
      const page = pageOf(index, { kind: 'k', shelves, offset, limit: 97 });
      walked.push(...page.places.map(({ owner, id }) => [owner, id].join('\0')));
    }
    t.strictSame(
      walked,
      all.map((entry) => entry.slice(9)),
    );
  }
});
