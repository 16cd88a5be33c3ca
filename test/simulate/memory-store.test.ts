/** The store of simulated worlds passes the exam of every store, so that what it shows of the hub holds for a real one. */
import type { Store } from '../../storage/contract.ts';
import { storeSuite } from '../storage/contract-suite.ts';
import { append, row } from '../storage/support.ts';
import { trimSuite } from '../storage/trim-suite.ts';
import { t } from '../support/tap.ts';
import { MemoryDisk } from './memory-disk.ts';
import { MemoryStore, noTroubles, type WriteFate } from './memory-store.ts';

const disks = new Map<string, MemoryDisk>();

const open = async (place: string): Promise<Store> => {
  const disk = disks.get(place) ?? new MemoryDisk();
  disks.set(place, disk);
  return new MemoryStore(disk);
};

storeSuite(t, open);
trimSuite(t, open);

t.test(
  '[CONTRACT-3, CONTRACT-5] the outcome of a failed write is known when the same commit is requested again',
  async (t) => {
    for (const isWritten of [false, true]) {
      const fates: WriteFate[] = [{ kind: 'open', isWritten, mendMs: 5 }];
      const mends: (() => void)[] = [];
      const store = new MemoryStore(new MemoryDisk(), {
        ...noTroubles,
        fate: () => fates.shift() ?? { kind: 'done' },
        after: (_ms, run) => mends.push(run),
      });
      await t.rejects(append(store, { idem: 'one' }), { name: 'OutcomeUnknown' });
      t.equal(store.health().state, 'failed');
      if (!isWritten) await t.rejects(append(store, { idem: 'one' }), { name: 'StoreUnavailable' });
      for (const mend of mends) mend();
      t.strictSame(await append(store, { idem: 'one' }), { first: 1, last: 1, replayed: isWritten });
    }
  },
);

t.test('[CONTRACT-6] a power cut takes the newest settles, none older than a second, and never a commit', async (t) => {
  const disk = new MemoryDisk();
  let now = 0;
  const store = new MemoryStore(disk, { ...noTroubles, now: () => now });
  const fence = store.held();
  if (!fence) throw new Error('no fence');
  for (const seq of [1, 2, 3]) {
    now += 600;
    await store.settle(fence, [{ dest: 'A', seq, state: 'DELIVERED', data: null }], []);
    if (seq === 1) await append(store);
  }
  t.equal(disk.losable(now), 2);
  disk.lose(1);
  t.equal((await store.delivery('A', 2))?.state, 'DELIVERED');
  t.equal(await store.delivery('A', 3), null);
  t.equal(store.head(), 1);
});

t.test('[CONTRACT-8] a damaged row is named and unreadable, and readable again when it is rewritten', async (t) => {
  const disk = new MemoryDisk();
  await append(new MemoryStore(disk), { puts: [row('1'), row('2')] });
  const rotten = disk.rows.get('sessions')?.values().next().value;
  if (!rotten) throw new Error('no row');
  disk.damage(rotten);
  const store = new MemoryStore(disk);
  const key = { kind: 'sessions', owner: 'NL-TNM', id: '1' };
  t.strictSame(store.health().damagedRows, [key]);
  await t.rejects(store.get(key), { name: 'Damaged' });
  const { rows } = await store.list({ kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 9 });
  t.strictSame(
    rows.map(({ id }) => id),
    ['2'],
  );
  await append(store, { puts: [row('1')] });
  t.strictSame(store.health().damagedRows, []);
  t.match(await store.get(key), { data: { id: '1' } });
});
