/** How the versions of the rows are read on which commits were decided. */
import { named } from '../../storage/keys.ts';
import { RowCache } from '../../storage/level/caches.ts';
import { Versions } from '../../storage/level/jobs.ts';
import type { Database } from '../../storage/level/leveldb.ts';
import { OrderIndex } from '../../storage/level/order-index.ts';
import type { Found } from '../../storage/level/verify.ts';
import { encode } from '../../storage/records.ts';
import { t } from '../support/tap.ts';

const key = { kind: 'directory', owner: '', id: 'directory' };

/** A database that has this row, and a count of its reads. */
function scene() {
  let reads = 0;
  const seen = named([{ ...key, seq: 7 }]);
  const name = seen[0]?.name ?? '';
  const db = {
    getSync() {
      reads += 1;
      return Buffer.from(encode(name, JSON.stringify([7, null, '']), 'null'));
    },
  } as unknown as Database;
  const order = new OrderIndex();
  order.place(key, null, '');
  const recent = new RowCache();
  const found = { recent, order } as unknown as Found;
  return { reads: () => reads, seen, name, recent, versions: () => Versions.of(seen, db, found) };
}

t.test('a row that is not in memory is read once for its version, until it is written again [CACHES-2]', async (t) => {
  const { reads, seen, name, recent, versions } = scene();
  for (let batch = 0; batch < 10; batch++) {
    t.equal((await versions()).refusal(seen, 10), null);
  }
  t.equal(reads(), 1);
  recent.add(name, { ...key, shelf: null, upd: '', body: null, data: 'null', seq: 11 });
  t.match((await versions()).refusal(seen, 11), { name: 'Conflict' });
  recent.delete(name);
  await versions();
  t.equal(reads(), 2, 'what was removed from memory is read again');
});

t.test('a large row that was evicted is not read whole for its version [CACHES-2]', async (t) => {
  const { reads, seen, name, recent, versions } = scene();
  const write = (body: string) => recent.add(name, { ...key, shelf: null, upd: '', body, data: 'null', seq: 7 });
  const evict = () => {
    const body = 'x'.repeat(1 << 20);
    for (let n = 0; n < 17; n++) recent.add(`other ${n}`, { ...key, shelf: null, upd: '', body, data: 'null', seq: 8 });
  };
  write('x'.repeat(100_000));
  evict();
  t.equal(recent.get(name), undefined, 'it was evicted');
  t.equal((await versions()).refusal(seen, 10), null);
  t.equal(reads(), 0);
  write('{}');
  evict();
  await versions();
  t.equal(reads(), 1, 'a small one is');
});
