/**
 * Rows that are kept as they were written.
 */
import { RowCache } from '../../storage/level/caches.ts';
import { t } from '../support/tap.ts';

const row = (id: string, body: string | null = null, data = '{"n":1}') => ({
  ...{ kind: 'sessions', owner: 'NL-CPO', id, shelf: 'NL-EMS', upd: '2026', seq: 1, body, data },
});

t.test('a row is the last one written, and each reader has its own copy of its data [CACHES-2]', async (t) => {
  const rows = new RowCache();
  rows.add('a', row('A', 'old'));
  rows.add('a', row('A', 'new', '{"n":2}'));
  t.strictSame(rows.get('a'), { ...row('A', 'new'), data: { n: 2 } });
  (rows.get('a')?.data as { n: number }).n = 3;
  t.strictSame(rows.get('a')?.data, { n: 2 });
  rows.delete('a');
  t.equal(rows.get('a'), undefined);
});

t.test('it is bounded in number and in characters, and evicts the oldest [CACHES-1]', async (t) => {
  const many = new RowCache();
  for (let n = 0; n <= 16_384; n++) many.add(String(n), row(String(n)));
  t.equal(many.get('0'), undefined);
  t.ok(many.get('1'));
  const large = new RowCache();
  const body = 'x'.repeat((2 << 20) - 100);
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']) large.add(name, row(name, body));
  t.equal(large.get('a'), undefined);
  t.ok(large.get('b'));
  t.ok(large.get('i'));
  large.delete('c');
  large.add('j', row('j', body));
  t.ok(large.get('b'), 'what was removed takes no room');
});

t.test(
  'a row of more than an eighth of the characters evicts no other, and only its sequence is kept [CACHES-1]',
  async (t) => {
    const rows = new RowCache();
    rows.add('small', row('small', 'x'));
    rows.add('large', row('large', 'old'));
    for (let n = 0; n < 9; n++) rows.add('large', { ...row('large', 'x'.repeat(2 << 20)), seq: 2 });
    t.ok(rows.get('small'));
    t.equal(rows.get('large'), undefined, 'nor is its former version kept');
    t.equal(rows.seqOf('large'), 2);
  },
);
