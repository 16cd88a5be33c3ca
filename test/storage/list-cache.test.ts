/**
 * Rows that are kept as they were read for lists.
 */
import { ListCache } from '../../storage/level/caches.ts';
import { t } from '../support/tap.ts';

const row = (id: string, body: string | null = null, kind = 'sessions') => ({
  ...{ kind, owner: 'NL-CPO', id, shelf: 'NL-EMS', upd: '2026', seq: 1, body, data: null },
});

t.test('a row that was read is cached, unless it was written meanwhile [CACHES-3] [CACHES-4]', async (t) => {
  const rows = new ListCache();
  const keep = rows.reading(['a', 'b']);
  t.equal(rows.get('sessions', 'a'), undefined, 'it is being read');
  rows.delete('b');
  keep(0, { ...row('a'), data: { large: true } });
  keep(1, row('b'));
  t.strictSame(rows.get('sessions', 'a'), row('a'), 'without its data');
  t.equal(rows.get('sessions', 'b'), undefined);
  rows.delete('a');
  keep(0, row('a'));
  t.equal(rows.get('sessions', 'a'), undefined, 'what was read before it was written does not come back');
});

t.test(
  'of two readers of the same row each may cache it, until it is written; a kind gets its own rows alone [CACHES-3] [CACHES-5]',
  async (t) => {
    const rows = new ListCache();
    const [first, second] = [rows.reading(['a']), rows.reading(['a'])];
    rows.delete('a');
    const third = rows.reading(['a']);
    first(0, row('a', 'before it was written'));
    second(0, row('a', 'before it was written'));
    t.equal(rows.get('sessions', 'a'), undefined);
    const fourth = rows.reading(['a']);
    third(0, row('a', 'written'));
    t.equal(rows.get('sessions', 'a')?.body, 'written');
    fourth(0, row('a', 'by another'));
    t.equal(rows.get('sessions', 'a')?.body, 'written');
    t.equal(rows.get('tariffs', 'a'), undefined);
    rows.reading(['a'])(0, row('a', null, 'tariffs'));
    t.ok(rows.get('tariffs', 'a'));
    t.equal(rows.get('sessions', 'a'), undefined);
  },
);

t.test('it is bounded in number and in characters, and evicts the oldest [CACHES-1]', async (t) => {
  const many = new ListCache();
  const read = (rows: ListCache, entry: string, body = '') => rows.reading([entry])(0, row(entry, body));
  for (let n = 0; n <= 16_384; n++) read(many, String(n));
  t.equal(many.get('sessions', '0'), undefined);
  t.ok(many.get('sessions', '1'));
  const large = new ListCache();
  for (const entry of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']) read(large, entry, 'x'.repeat(2 << 20));
  t.equal(large.get('sessions', 'a'), undefined);
  t.ok(large.get('sessions', 'b'));
  t.ok(large.get('sessions', 'i'));
  read(large, 'j', 'x'.repeat((2 << 20) + 1));
  t.equal(large.get('sessions', 'j'), undefined);
  t.ok(large.get('sessions', 'b'), 'a row of more than an eighth of the characters evicts no other');
});
