/** The part of the exam of stores on a disk that is about rewriting what is stored. */
import { Fenced, type Rewrite, type RowKey, type Store } from '../../storage/contract.ts';
import type { Test } from '../support/tap.ts';
import { type Done, type Opener, promises } from './exam.ts';
import { append, event, row, trim } from './support.ts';

const replaced = (text: string) => text.replaceAll('secret', 'digest');
const renamed = ({ kind, owner, id }: RowKey) => ({ kind, owner: replaced(owner), id: replaced(id) });

function rewrite(store: Store, events: readonly number[], rows: readonly RowKey[], parts: Partial<Rewrite> = {}) {
  const fence = store.held();
  if (!fence) throw new Error('no fence');
  return store.rewrite({ fence, events, heads: [], rows, key: renamed, text: replaced, ...parts });
}

export function rewriteSuite(t: Test, open: Opener, done?: Done): void {
  const promise = promises(t, open, done);

  promise('[CONTRACT-12] a row that gets the name of another takes its place', async (t, store) => {
    for (const id of ['digest', 'secret']) await append(store, { puts: [row(id, { body: id, upd: `of ${id}` })] });
    await rewrite(store, [1, 2], [row('secret')]);
    t.equal(await store.get(row('secret')), null);
    const list = { kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 10 };
    t.match(await store.list(list), { total: 1, rows: [{ id: 'digest', upd: 'of secret', seq: 2 }] });
    const { last } = await append(store, { puts: [row('digest', { body: 'new' })] });
    t.match(await store.get(row('digest')), { body: 'new', seq: last });
    t.match(await store.list(list), { total: 1, rows: [{ body: 'new' }] });
  });

  promise(
    '[CONTRACT-12] a row is renamed with the events that name it in what they touched',
    async (t, first, again) => {
      let store = first;
      const of = (stream: string) => [event({ stream, data: 'secret', body: 'secret' })];
      await append(store, { events: [...of('a'), ...of('b')], puts: [row('secret')] });
      await append(store, { events: of('c'), puts: [row('secret'), row('other secret')] });
      await append(store, {
        events: of('d'),
        puts: [{ kind: 'sessions', owner: 'NL-TNM', id: 'gone secret', gone: true }],
      });
      await trim(store, 2, {
        keeps: [{ ...event({ stream: 'b', data: 'secret', body: null }), seq: 2, rows: [row('secret')] }],
      });
      const key = (one: RowKey) => (one.id.startsWith('other') ? one : renamed(one));
      const before = await store.read({ after: 0, limit: 9, kept: true });
      await rewrite(store, [], [row('secret')], { heads: [2, 3, 4], key });
      const look = async () => {
        t.strictSame(await store.read({ after: 0, limit: 9, kept: true }), before, 'nothing else of them changes');
        const read = await store.read({ after: 0, limit: 9, size: 1e6, kept: true, withTouched: true });
        t.strictSame(
          read.map(({ seq, touched }) => [seq, touched?.map(({ kind, owner, id }) => `${kind} ${owner} ${id}`)]),
          [
            [2, ['sessions NL-TNM digest']],
            [3, ['sessions NL-TNM digest', 'sessions NL-TNM other secret']],
            [4, ['sessions NL-TNM gone digest']],
          ],
        );
        t.match(await store.read({ after: 2, limit: 1, withTouched: true }), [{ seq: 3, touched: { length: 2 } }]);
      };
      await look();
      store = await again();
      t.match(store.health(), { state: 'open', reason: null, damagedRows: { length: 0 } });
      await look();
    },
  );

  promise(
    '[LEVEL-REWRITE-2] a row that was renamed alone is missed until the events that name it are rewritten',
    async (t, first, again) => {
      let store = first;
      await append(store, { puts: [row('secret')] });
      await rewrite(store, [], [row('secret')]);
      for (const _ of [1, 2]) {
        store = await again();
        await rewrite(store, [], [row('secret')], { heads: [1] });
        t.match(store.health(), { state: 'open', reason: null, damagedRows: { length: 0 } });
        t.match(await store.get(row('digest')), { seq: 1 });
        t.equal(await store.get(row('secret')), null);
      }
    },
  );

  promise(
    '[CONTRACT-12] what a trim kept of a stream is dropped once, also when a rewrite renames the stream',
    async (t, first, again) => {
      let store = first;
      const former = ['tokens/NL-EMS/secret1', 'tokens/NL-EMS/secret2'];
      const present = ['tokens/NL-EMS/digest1', 'tokens/NL-EMS/digest2'];
      const push = (stream: string) => append(store, { events: [event({ stream })] });
      for (const stream of former) await push(stream);
      t.strictSame(await store.kept([...former, 'tokens/NL-EMS/digest2']), [], 'what a store may remember');
      await trim(store, 2, { keeps: former.map((stream, i) => ({ ...event({ stream }), seq: i + 1, rows: [] })) });
      await rewrite(store, [1, 2], []);
      for (const stream of [...present, ...former]) await push(stream);
      const drops = await store.kept([...present, ...former]);
      t.strictSame(
        drops.map(({ seq, stream }) => [seq, stream]),
        present.map((stream, i) => [i + 1, stream]),
      );
      await t.rejects(trim(store, 3, { drops: [...drops, ...drops] }), RangeError, 'nor is it dropped twice');
      await trim(store, 4, { drops });
      t.strictSame(await store.kept([...present, ...former]), []);
      store = await again();
      t.match(store.health(), { state: 'open', reason: null });
      await trim(store, 6);
      store = await again();
      t.match(store.health(), { state: 'open', reason: null });
    },
  );

  promise(
    '[CONTRACT-12] a rewrite replaces text in events, rows and deliveries, and nothing else changes',
    async (t, first, again) => {
      let store = first;
      for (const n of [1, 2, 3]) {
        const stream = `tokens/NL-EMS/secret${n}`;
        const events = [
          event({ stream, correlationId: 'of secret', to: ['A'], data: { uid: 'secret' }, body: 'secret\n\0' }),
        ];
        const puts = [row(`secret${n}`, { upd: `2024-0${n}`, data: { uid: 'secret' }, body: `${n} of secret` })];
        await append(store, { events, puts });
      }
      const fence = store.held();
      if (!fence) throw new Error('no fence');
      await store.settle(fence, [{ dest: 'A', seq: 2, state: 'DEAD', data: 'secret' }], []);
      await store.settle(fence, [{ dest: 'A', seq: 1, state: 'DELIVERED', data: 'secret' }], []);
      const kept = { ...event({ stream: 'tokens/NL-EMS/secret1', data: 'secret', body: 'secret' }), seq: 1, rows: [] };
      await trim(store, 1, { keeps: [kept] });
      const list = { kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 10 };
      const before = await store.list({ ...list, bodiesOnly: true });
      t.equal((await store.get(row('secret2')))?.body, '2 of secret', 'it is in the caches');

      const keys = ['secret2', 'unknown'].map((id) => ({ kind: 'sessions', owner: 'NL-TNM', id }));
      await t.rejects(rewrite(store, [2], keys, { fence: { ...fence, token: fence.token + 1 } }), Fenced);
      await rewrite(store, [1, 2, 99], keys);
      await store.reclaim(() => true);
      const look = async (store: Store) => {
        t.match(await store.event(2), {
          ...{ seq: 2, stream: 'tokens/NL-EMS/digest2', correlationId: 'of digest', to: ['A'] },
          ...{ data: { uid: 'digest' }, body: 'digest\n\0' },
        });
        t.match(await store.event(3), { body: 'secret\n\0' }, 'another event is as it was');
        t.match(await store.read({ after: 0, limit: 9 }), [{ seq: 2 }, { seq: 3 }]);
        const all = await store.read({ after: 0, limit: 9, kept: true });
        t.match(all, [{ seq: 1, body: 'digest', data: 'digest' }, { seq: 2 }, { seq: 3 }], 'kept events come first');
        t.match(await store.read({ after: 1, limit: 1, size: 1, kept: true }), [{ seq: 2 }]);
        t.strictSame(await store.history('tokens/NL-EMS/secret2'), []);
        t.match(await store.history('tokens/NL-EMS/digest2'), [{ seq: 2 }]);
        t.match(await store.correlated('of digest'), [{ seq: 2 }]);
        t.match(await store.correlated('of secret'), [{ seq: 3 }]);
        t.match(await store.delivery('A', 2), { state: 'DEAD', data: 'digest' });
        t.equal(await store.get(row('secret2')), null);
        t.match(await store.get(row('digest2')), {
          seq: 2,
          shelf: 'NL-TNM',
          data: { uid: 'digest' },
          body: '2 of digest',
        });
        t.equal(await store.get(row('unknown')), null);
        const after = await store.list({ ...list, bodiesOnly: true });
        t.strictSame(
          [after.total, after.rows.map(({ upd, seq }) => [upd, seq])],
          [before.total, before.rows.map(({ upd, seq }) => [upd, seq])],
        );
        t.strictSame(
          after.rows.map(({ body }) => body),
          ['1 of secret', '2 of digest', '3 of secret'],
        );
        t.strictSame([store.head(), store.horizon()], [3, 1]);
      };
      await look(store);
      store = await again();
      t.match(store.health(), { state: 'open', reason: null, damagedRows: { length: 0 } });
      await look(store);
      t.equal((await append(store)).first, 4);
    },
  );
}
