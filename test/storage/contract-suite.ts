/**
 * The exam that every store must pass: the promises S1 to S7 of the contract and each of its methods, in words that name no
 * engine. What only one engine can suffer (a full disk, a flipped bit, a killed process) is tested beside that engine.
 */
import { setImmediate as turn } from 'node:timers/promises';
import {
  Conflict,
  type DeliveryRow,
  type DeliveryState,
  Fenced,
  type ListPage,
  type ListQuery,
  type Store,
  StoreUnavailable,
  smallBody,
} from '../../storage/contract.ts';
import { isAtLength } from '../support/share.ts';
import type { Test } from '../support/tap.ts';
import { type Done, type Opener, promises } from './exam.ts';
import { AT, append, collect, event, gone, row, seen } from './support.ts';

const HOSTILE = ['', '/', 'a/b', 'e/00', '\x01', '\uffff', '😀', 'é', ' ', '%00', '"\\\n', 'x'.repeat(5000), '../..'];

const minute = (n: number): string => `2024-05-01T10:${String(n).padStart(2, '0')}:00.000Z`;
const ids = (page: { rows: readonly { id: string }[] }): string[] => page.rows.map(({ id }) => id);

function delivery(seq: number, state: DeliveryState, data: unknown = null, dest = 'NL-EMS'): DeliveryRow {
  return { dest, seq, state, data };
}

export function storeSuite(t: Test, open: Opener, done?: Done): void {
  const promise = promises(t, open, done);

  promise('a reading of the log is bounded by what its records hold, in their data, too', async (t, store) => {
    for (const text of ['a', 'b', 'c'])
      await append(store, { events: [event({ data: text.repeat(1_000), body: '{}' })] });
    const read = async (size: number) => (await store.read({ after: 0, limit: 10, size })).map(({ seq }) => seq);
    t.strictSame(await read(1), [1], 'one always');
    t.strictSame(await read(1_500), [1, 2]);
    t.strictSame(await read(1_000_000), [1, 2, 3]);
  });

  promise('how large rows are is known without reading them, and after reopening', async (t, store, again) => {
    const keys = ['1', '2', '3', '4'].map((id) => row(id));
    const isSized = async (one: Store, id: string, least: number) => {
      const size = await one.size([row(id)]);
      t.ok(size >= least && size < least + 1000, `${id}: ${size} for ${least}`);
    };
    const text = (length: number) => JSON.stringify('é'.repeat(length - 2));
    const puts = [row('1', { body: text(100_000) }), row('2', { body: text(200_000), shelf: null })];
    const small = [row('3', { body: text(smallBody) }), row('5', { body: text(1000) })];
    await append(store, { events: [event()], puts: [...puts, ...small] });
    const exam = async (one: Store) => {
      await isSized(one, '1', 100_000);
      await isSized(one, '2', 200_000);
      t.ok((await one.size([row('3')])) <= smallBody + 1000, 'of a small one nobody needs to know');
      t.equal(await one.size([row('4')]), 0, 'one that is not there has none');
      t.equal(await one.size([]), 0);
      t.ok((await one.getSmall(row('2'))) === (await one.size([row('2')])), 'of a large one its size stands for it');
      t.strictSame(await one.getSmall(row('5')), await one.get(row('5')), 'a small one is read');
      t.equal(await one.getSmall(row('4')), null);
      t.ok((await one.size(keys)) >= 300_000, 'of several together');
    };
    await exam(store);
    const second = await again();
    await exam(second);
    await append(second, { idem: 'next', puts: [row('1', { body: text(10) }), gone('2')] });
    t.strictSame([await second.size([row('1')]), await second.size([row('2')])], [0, 0], 'as they are now');
    t.strictSame(
      [await second.getSmall(row('1')), await second.getSmall(row('2'))],
      [await second.get(row('1')), null],
    );
  });

  promise('[CONTRACT-1] events, rows and due times of a commit are there after reopening', async (t, store, again) => {
    const stored = event({
      correlationId: 'c-1',
      to: ['NL-EMS', 'BE-EMS'],
      data: [1, { a: 'é' }],
      body: '{ "a" : 1.0 }',
    });
    await append(store, { events: [stored], puts: [row('1', { body: '{"x":1}' })], due: [{ key: 'k', at: AT }] });
    const second = await again();
    t.strictSame(await second.event(1), { ...stored, seq: 1 });
    t.strictSame(await second.get(row('1')), { ...row('1', { body: '{"x":1}' }), seq: 1 });
    t.strictSame(await second.due(), [{ key: 'k', at: AT }]);
    t.equal(second.head(), 1);
  });

  promise(
    '[CONTRACT-1] a commit that is refused leaves nothing behind, and its neighbours are not touched',
    async (t, store) => {
      const circle: Record<string, unknown> = {};
      circle.self = circle;
      const refused = [
        append(store, { events: [] }),
        append(store, { events: [event({ stream: 'a\0b' })] }),
        append(store, { events: [event({ correlationId: '\ud800' })] }),
        append(store, { events: [event({ body: 'half \udc00' })] }),
        append(store, { events: [event({ data: circle })] }),
        append(store, { events: [event(), event()], puts: [row('1'), row('2\0')] }),
        append(store, { due: [{ key: '\0', at: AT }] }),
      ];
      const kept = append(store, { puts: [row('kept')] });
      for (const commit of refused) await t.rejects(commit, TypeError);
      for (const bad of ['\0', '\udfff']) {
        await t.rejects(store.get(row(bad)), TypeError);
        await t.rejects(store.history(bad), TypeError);
        await t.rejects(store.correlated(bad), TypeError);
      }
      t.same(await kept, { first: 1, last: 1, replayed: false });
      t.strictSame(
        (await collect(store.scan('sessions'))).map(({ id }) => id),
        ['kept'],
      );
    },
  );

  promise(
    '[CONTRACT-11] a commit that was decided on what has changed since is refused, and changes nothing',
    async (t, store, again) => {
      await append(store, { puts: [row('1', { data: 'old' }), row('2'), row('hidden', { shelf: null })] });
      await append(store, { puts: [row('1', { data: 'new' }), gone('2')] });
      const exam = async (one: Store, when: string) => {
        const head = one.head();
        for (const stale of [
          [seen('1', 1)],
          [seen('1', null)],
          [seen('2', 1)],
          [seen('3', 1)],
          [seen('hidden', null)],
          [seen('1', 2), seen('2', null), seen('3', 2)],
          [seen('1', 1), seen('1', 2)],
          [seen('1', 2), seen('1', 1)],
        ]) {
          const refused = append(one, { puts: [row('1'), row('4')], due: [{ key: 'k', at: AT }], seen: stale });
          await t.rejects(refused, { name: 'Conflict', head }, `${when}: ${JSON.stringify(stale)}`);
        }
        t.equal(one.head(), head);
        t.strictSame([(await one.get(row('1')))?.data, await one.get(row('4')), await one.due()], ['new', null, []]);
        t.equal((await one.list({ kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 10 })).total, 1);
      };
      await exam(store, 'at once');
      const second = await again();
      await exam(second, 'after reopening');
      const asItIs = [seen('1', 2), seen('2', null), seen('3', null), seen('hidden', 1)];
      t.equal((await append(second, { puts: [row('2')], seen: asItIs })).last, 3, 'what is still so is no conflict');
      await t.rejects(append(second, { seen: [seen('2', null)] }), Conflict, 'one that is there again');
      await t.rejects(append(second, { seen: [seen('2', 1)] }), Conflict, 'and is not the one that was');
      for (const bad of ['\0', '\ud800']) await t.rejects(append(second, { seen: [seen(bad, null)] }), TypeError);
      for (const bad of [Number.NaN, 1.5]) await t.rejects(append(second, { seen: [seen('1', bad)] }), TypeError);
    },
  );

  promise(
    '[CONTRACT-11] of commits that wait together each is judged behind those before it, and none for another',
    async (t, store) => {
      await append(store, { puts: [row('1'), row('2')] });
      const together = await Promise.allSettled([
        append(store, { idem: 'a', puts: [row('1')], seen: [seen('1', 1)] }),
        append(store, { idem: 'b', puts: [row('1')], seen: [seen('1', 1), seen('2', 1)] }),
        append(store, { idem: 'c', puts: [row('3')], seen: [seen('2', 1)] }),
        append(store, { idem: 'd', puts: [gone('2')], seen: [seen('3', null)] }),
        append(store, { idem: 'e', puts: [row('4')], seen: [seen('2', 1)] }),
        append(store, { idem: 'f', puts: [row('4')], seen: [seen('2', null)] }),
        append(store, { idem: 'g', puts: [row('5')] }),
      ]);
      const ends = together.map((one) => (one.status === 'fulfilled' ? one.value.last : (one.reason as Error).name));
      t.strictSame(ends.slice(0, 4), [2, 'Conflict', 3, 'Conflict']);
      t.strictSame(ends.slice(4), [4, 'Conflict', 5], 'nothing was removed, since that was refused');
      const next = await append(store, { idem: 'b', puts: [row('1')], seen: [seen('1', 2), seen('2', 1)] });
      t.strictSame(next, { first: 6, last: 6, replayed: false }, 'the key of one that was refused is free');
    },
  );

  promise(
    '[CONTRACT-4, CONTRACT-11] a commit without a fence is judged by what it was decided on alone',
    async (t, store) => {
      const commit = { fence: null, events: [event()], puts: [row('101')] };
      const first = await store.append({ ...commit, idem: 'first', seen: [seen('101', null)] });
      t.strictSame([first.first, (await store.get(row('101')))?.seq], [1, 1]);
      await t.rejects(store.append({ ...commit, idem: 'late', seen: [seen('101', null)] }), Conflict);
      await store.append({ ...commit, idem: 'second', seen: [seen('101', 1)] });
      t.match(await store.append({ ...commit, idem: 'first', seen: [seen('101', null)] }), {
        first: 1,
        replayed: true,
      });
      await store.append({ fence: null, idem: 'a fact', events: [event()] });
      t.equal(store.head(), 3);
      await t.rejects(store.append({ ...commit, idem: 'blind' }), TypeError);
      const timer = { fence: null, events: [event()], due: [{ key: 'k', at: AT }] };
      await t.rejects(store.append({ ...timer, idem: 'blind timer' }), TypeError);
      await t.rejects(store.append({ ...timer, idem: 'late timer', seen: [seen('101', 1)] }), Conflict);
      t.same(await store.due(), []);
      await store.append({ ...timer, idem: 'timer', seen: [seen('101', 2)] });
      t.same(await store.due(), timer.due);
      t.equal((await append(store)).first, 5, 'one under the fence goes on behind them');
    },
  );

  promise(
    '[CONTRACT-3, CONTRACT-11] a commit that is in the log already is not judged again',
    async (t, store, again) => {
      const commit = { idem: 'once', puts: [row('1')], seen: [seen('1', null)] };
      const [first, second] = await Promise.all([append(store, commit), append(store, commit)]);
      t.strictSame(
        [first, second].map(({ last }) => last),
        [1, 1],
      );
      t.strictSame(await append(store, commit), { first: 1, last: 1, replayed: true });
      t.strictSame(await append(await again(), commit), { first: 1, last: 1, replayed: true });
    },
  );

  promise(
    '[CONTRACT-2] sequences are dense from 1, and the order of commits is the order of calls',
    async (t, store) => {
      const commits = Array.from({ length: 300 }, (_, i) =>
        append(store, { events: Array.from({ length: (i % 3) + 1 }, () => event({ data: i })) }),
      );
      let next = 1;
      for (const [i, { first, last }] of (await Promise.all(commits)).entries()) {
        t.equal(first, next);
        t.equal(last, first + (i % 3));
        next = last + 1;
      }
      const events = await store.read({ after: 0, limit: 1000 });
      t.strictSame(
        events.map(({ seq }) => seq),
        Array.from({ length: next - 1 }, (_, i) => i + 1),
      );
      t.equal(store.head(), next - 1);
    },
  );

  promise(
    '[CONTRACT-3] the same idempotency key appends once: at once, later, and after reopening',
    async (t, store, again) => {
      const twice = { idem: 'once', events: [event(), event()], puts: [row('1')] };
      const both = await Promise.all([append(store, twice), append(store, twice)]);
      t.strictSame(both, [
        { first: 1, last: 2, replayed: false },
        { first: 1, last: 2, replayed: true },
      ]);
      await append(store);
      t.strictSame(await append(store, twice), { first: 1, last: 2, replayed: true });
      const second = await again();
      t.strictSame(await append(second, twice), { first: 1, last: 2, replayed: true });
      t.equal(second.head(), 3);
    },
  );

  promise(
    '[CONTRACT-4] a commit under a fence that is not held is Fenced and changes nothing',
    async (t, store, again) => {
      const fence = store.held();
      if (fence === null) throw new Error('no fence');
      const commit = { idem: 'x', events: [event()], puts: [row('1')] };
      await t.rejects(store.append({ ...commit, fence: { ...fence, token: fence.token - 1 } }), Fenced);
      await t.rejects(store.append({ ...commit, fence: { ...fence, node: 'another' } }), Fenced);
      await t.rejects(store.settle({ ...fence, token: fence.token + 1 }, [delivery(1, 'DEAD')], []), Fenced);
      t.equal(store.head(), 0);
      const second = await again();
      t.ok((second.held()?.token ?? 0) > fence.token, 'the token grows with each owner');
      await t.rejects(second.append({ ...commit, fence }), Fenced);
      t.equal(await second.get(row('1')), null);
    },
  );

  promise('[CONTRACT-6] what was settled is there after reopening', async (t, store, again) => {
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    for (let i = 0; i < 9; i += 1) await append(store, { events: [event({ to: ['NL-EMS'] })] });
    await store.settle(
      fence,
      [
        delivery(2, 'PENDING', { due: AT }),
        delivery(4, 'DEAD', { why: 'expired' }),
        delivery(3, 'DISCARDED', { why: 'rejected' }),
        delivery(5, 'DELIVERED', { n: 1 }),
      ],
      [{ dest: 'NL-EMS', seq: 5 }],
    );
    const second = await again();
    t.strictSame(await second.floors(), [{ dest: 'NL-EMS', seq: 5 }]);
    const open = await second.deliveries({ dest: 'NL-EMS', rows: 'open', limit: 10 });
    t.strictSame(open, [
      delivery(2, 'PENDING', { due: AT }),
      delivery(3, 'DISCARDED', { why: 'rejected' }),
      delivery(4, 'DEAD', { why: 'expired' }),
    ]);
    const done = await second.deliveries({ dest: 'NL-EMS', rows: 'DELIVERED', limit: 10 });
    t.strictSame(done, [delivery(5, 'DELIVERED', { n: 1 })]);
  });

  promise('[CONTRACT-6] a delivery has one row: the last that was settled', async (t, store) => {
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    for (let i = 0; i < 4; i += 1) await append(store);
    const states = async (): Promise<(string | undefined)[]> => [
      (await store.delivery('NL-EMS', 3))?.state,
      (await store.deliveries({ dest: 'NL-EMS', rows: 'open', limit: 9 }))[0]?.state,
      (await store.deliveries({ dest: 'NL-EMS', rows: 'DELIVERED', limit: 9 }))[0]?.state,
    ];
    t.equal(await store.delivery('NL-EMS', 3), null);
    await store.settle(fence, [delivery(3, 'PENDING')], []);
    t.strictSame(await states(), ['PENDING', 'PENDING', undefined]);
    await store.settle(fence, [delivery(3, 'DELIVERED')], []);
    t.strictSame(await states(), ['DELIVERED', undefined, 'DELIVERED']);
    await store.settle(fence, [delivery(3, 'DEAD')], []);
    t.strictSame(await states(), ['DEAD', 'DEAD', undefined]);
    await store.settle(fence, [delivery(3, 'DISCARDED')], []);
    t.strictSame(await states(), ['DISCARDED', 'DISCARDED', undefined]);
    // In one group, and within one call.
    await Promise.all([
      store.settle(fence, [delivery(3, 'DELIVERED')], []),
      store.settle(fence, [delivery(3, 'PENDING'), delivery(3, 'DELIVERED')], []),
    ]);
    t.strictSame(await states(), ['DELIVERED', undefined, 'DELIVERED']);
  });

  promise('deliveries are read in order of sequence, between bounds, of one receiver', async (t, store) => {
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    for (let i = 0; i < 40; i += 1) await append(store);
    const some = [40, 3, 17, 9, 1, 20];
    await store.settle(fence, [...some.map((seq) => delivery(seq, 'DEAD')), delivery(5, 'DEAD', 1, 'NL-EMS2')], []);
    await store.settle(
      fence,
      [...some.map((seq) => delivery(seq, 'DELIVERED', 1, 'BE')), delivery(6, 'DELIVERED', 1, 'B')],
      [],
    );
    for (const [dest, rows] of [
      ['NL-EMS', 'open'],
      ['BE', 'DELIVERED'],
    ] as const) {
      const query = { dest, rows, limit: 10 };
      const seqs = async (more: object): Promise<number[]> =>
        (await store.deliveries({ ...query, ...more })).map(({ seq }) => seq);
      t.strictSame(await seqs({}), [1, 3, 9, 17, 20, 40]);
      t.strictSame(await seqs({ fromSeq: 3, toSeq: 20 }), [3, 9, 17, 20]);
      t.strictSame(await seqs({ fromSeq: 4, limit: 2 }), [9, 17]);
      t.strictSame(await seqs({ limit: 0 }), []);
      t.strictSame(await seqs({ fromSeq: 30, toSeq: 4 }), []);
    }
  });

  promise('[CONTRACT-7] a read that begins after a commit resolved sees it', async (t, store) => {
    for (let i = 1; i <= 50; i += 1) {
      await append(store, { puts: [row('same', { upd: minute(i), data: i })] });
      t.equal((await store.get(row('same')))?.data, i);
      t.equal((await store.read({ after: i - 1, limit: 5 })).length, 1);
      t.equal((await store.list({ kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 5 })).rows[0]?.seq, i);
    }
  });

  promise('names of any shape are kept apart and never leave their place', async (t, store, again) => {
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    for (const [i, name] of HOSTILE.entries()) {
      await append(store, {
        events: [event({ stream: name, correlationId: name, to: [name], party: name })],
        puts: [row(name, { owner: name, shelf: name, data: i })],
        due: [{ key: name, at: minute(i) }],
      });
      await store.settle(fence, [delivery(i + 1, 'DEAD', i, name)], [{ dest: name, seq: i + 1 }]);
    }
    const second = await again();
    t.equal((await second.floors()).length, HOSTILE.length);
    t.strictSame(
      (await second.due()).map(({ key }) => key),
      HOSTILE,
    );
    for (const [i, name] of HOSTILE.entries()) {
      t.equal((await second.get(row(name, { owner: name })))?.data, i);
      t.strictSame(
        (await second.history(name)).map(({ seq }) => seq),
        [i + 1],
      );
      t.strictSame(
        (await second.correlated(name)).map(({ seq }) => seq),
        [i + 1],
      );
      t.strictSame(
        (await second.read({ after: 0, limit: 99, to: name })).map(({ seq }) => seq),
        [i + 1],
      );
      t.strictSame(ids(await second.list({ kind: 'sessions', shelves: [name], offset: 0, limit: 9 })), [name]);
      t.equal((await second.deliveries({ dest: name, rows: 'open', limit: 9 })).length, 1);
    }
  });

  promise('bodies and data come back byte for byte, and null is not empty', async (t, store) => {
    const bodies = [null, '', '\n', '{"a":1}\n\n', '\u0000', '😀é', ' \t', '"'.repeat(70_000)];
    for (const body of bodies) {
      const { last } = await append(store, {
        events: [event({ body, data: body })],
        puts: [row('b', { body, data: body })],
      });
      t.ok(
        [(await store.event(last))?.body, (await store.get(row('b')))?.body, (await store.get(row('b')))?.data].every(
          (read) => read === body,
        ),
      );
    }
  });

  promise('events are read behind a sequence, at most so many, and those owed to one party alone', async (t, store) => {
    for (let i = 1; i <= 30; i += 1) {
      await append(store, {
        events: [event({ to: i % 10 === 0 ? ['BE-EMS', 'NL-EMS'] : ['NL-EM'], body: '"NL-EMS"' })],
      });
    }
    const seqs = async (more: object): Promise<number[]> =>
      (await store.read({ after: 0, limit: 5, ...more })).map(({ seq }) => seq);
    t.strictSame(await seqs({}), [1, 2, 3, 4, 5]);
    t.strictSame(await seqs({ after: 28 }), [29, 30]);
    t.strictSame(await seqs({ after: 30 }), []);
    t.strictSame(await seqs({ limit: 0 }), []);
    t.strictSame(await seqs({ to: 'NL-EMS' }), [10, 20, 30]);
    t.strictSame(await seqs({ to: 'NL-EMS', after: 10, limit: 1 }), [20]);
    t.equal(await store.event(31), null);
    t.equal(await store.event(0), null);
  });

  promise('stretches of the log are read at once, in order and without bodies', async (t, store) => {
    for (let i = 1; i <= 30; i += 1) await append(store, { events: [event({ data: i, body: 'not asked for' })] });
    const read = async (...pieces: readonly (readonly [after: number, upTo: number])[]) => {
      const events = await store.ranges(pieces.map(([after, upTo]) => ({ after, upTo })));
      return events.map(({ seq }) => seq);
    };
    t.strictSame(await read([0, 2], [7, 8], [28, 99]), [1, 2, 8, 29, 30]);
    t.strictSame(await read([7, 8], [1, 2]), [2, 8], 'in order of sequence, however they are asked for');
    t.strictSame(await read([5, 5], [30, 40]), [], 'an empty one, and one behind the end');
    t.strictSame(await read(), []);
    const [only] = await store.ranges([{ after: 3, upTo: 4 }]);
    t.strictSame(only, { ...event({ data: 4 }), seq: 4 });
  });

  promise('history and correlated give their own events, oldest first', async (t, store) => {
    for (let i = 1; i <= 12; i += 1) {
      const stream = i % 2 === 0 ? 'even' : 'even/more';
      await append(store, { events: [event({ stream, correlationId: i % 3 === 0 ? 'third' : null })] });
    }
    const seqs = (events: readonly { seq: number }[]): number[] => events.map(({ seq }) => seq);
    t.strictSame(seqs(await store.history('even')), [2, 4, 6, 8, 10, 12]);
    t.strictSame(seqs(await store.history('even', 4, 2)), [6, 8]);
    t.strictSame(seqs(await store.history('eve')), []);
    t.strictSame(seqs(await store.correlated('third')), [3, 6, 9, 12]);
    t.strictSame(seqs(await store.correlated('third', 2)), [9, 12], 'the newest of them');
    t.strictSame(seqs(await store.recent('even', 2)), [10, 12]);
    t.strictSame(seqs(await store.recent('even', 7)), [2, 4, 6, 8, 10, 12]);
    t.strictSame(await store.recent('eve', 7), []);
  });

  promise('a row is what was put last; its seq is that of the last event of its commit', async (t, store) => {
    await append(store, { events: [event(), event()], puts: [row('1'), row('2')] });
    await append(store, { puts: [row('1', { data: 'new', shelf: null }), gone('2'), gone('never')] });
    t.strictSame(await store.get(row('1')), { ...row('1', { data: 'new', shelf: null }), seq: 3 });
    t.equal(await store.get(row('2')), null);
    await append(store, { puts: [row('3'), gone('3'), gone('4'), row('4')] });
    t.equal(await store.get(row('3')), null);
    t.equal((await store.get(row('4')))?.seq, 4);
  });

  promise('scan gives every row of a kind, listed or not, in order of owner and id', async (t, store) => {
    const puts = [
      row('b', { owner: 'B' }),
      row('a', { owner: 'B', shelf: null }),
      row('z', { owner: 'A' }),
      row('\u{10000}', { owner: 'B' }),
      row('\uffff', { owner: 'B' }),
      row('other', { kind: 'session' }),
      row('other', { kind: 'sessions2' }),
    ];
    await append(store, { puts });
    const found = await collect(store.scan('sessions'));
    t.strictSame(
      found.map(({ owner, id }) => owner + id),
      ['Az', 'Ba', 'Bb', 'B\uffff', 'B\u{10000}'],
    );
    t.strictSame(await collect(store.scan('none')), []);
  });

  promise('count tells how many rows a kind and owner have, listed or not', async (t, store, again) => {
    const many = Array.from({ length: 2_500 }, (_, n) => row(`${n}`, { owner: 'MANY' }));
    const puts = [
      row('b', { owner: 'B' }),
      row('a', { owner: 'B', shelf: null }),
      row('z', { owner: 'B2' }),
      row('other', { owner: 'B', kind: 'session' }),
      row('other', { owner: 'B', kind: 'sessions2' }),
      row('gone', { owner: 'B' }),
    ];
    await append(store, { puts: [...puts, ...many] });
    await append(store, { puts: [{ kind: 'sessions', owner: 'B', id: 'gone', gone: true }] });
    for (const reopened of [false, true]) {
      const s = reopened ? await again() : store;
      t.equal(await s.count('sessions', 'B'), 2);
      t.equal(await s.count('sessions', 'MANY'), 2_500);
      t.equal(await s.count('sessions', 'NONE'), 0);
      t.equal(await s.count('none', 'B'), 0);
    }
  });

  promise(
    'a list is ordered by upd, owner, id, over the shelves that are asked for, and counts itself',
    async (t, store, again) => {
      await append(store, {
        puts: [
          row('b', { upd: minute(1) }),
          row('a', { upd: minute(1) }),
          row('c', { upd: minute(0), shelf: 'S2' }),
          row('a', { upd: minute(1), owner: 'AA', shelf: 'S2' }),
          row('d', { upd: minute(3), shelf: 'S2' }),
          row('hidden', { shelf: null }),
          row('e', { upd: minute(2), shelf: 'S3' }),
          row('f', { kind: 'cdrs' }),
        ],
      });
      const shelves = ['NL-TNM', 'S2', 'unknown', 'S2'];
      for (const reopened of [false, true]) {
        const s = reopened ? await again() : store;
        const list = (more: Partial<ListQuery> = {}) =>
          s.list({ kind: 'sessions', shelves, offset: 0, limit: 10, ...more });
        const all = await list();
        t.strictSame(
          all.rows.map(({ owner, id }) => `${owner} ${id}`),
          ['NL-TNM c', 'AA a', 'NL-TNM a', 'NL-TNM b', 'NL-TNM d'],
        );
        t.equal(all.total, 5);
        const withoutData = ({ rows }: ListPage) => rows.map((one) => ({ ...one, data: null }));
        t.strictSame(withoutData(await list({ bodiesOnly: true })), withoutData(all), 'data may be missing, no more');
        t.strictSame(ids(await list({ offset: 1, limit: 2 })), ['a', 'a']);
        const bounded = await list({ from: minute(1), to: minute(3), offset: 1 });
        t.strictSame([ids(bounded), bounded.total, bounded.isLast], [['a', 'b'], 3, true]);
        const after = await list({ after: { upd: minute(1), owner: 'AA', id: 'a' }, limit: 1, offset: 77 });
        t.strictSame([ids(after), after.total, after.isLast], [['a'], 5, false]);
        const beyond = await list({ offset: 9 });
        t.strictSame([ids(beyond), beyond.total, beyond.isLast], [[], 5, true]);
        t.strictSame(ids(await list({ shelves: [] })), []);
        t.strictSame([ids(await list({ limit: 0 })), (await list({ limit: 0 })).total], [[], 5]);
        const owned = (more: Partial<ListQuery> = {}) => list({ owner: 'NL-TNM', ...more });
        const [whole, within] = [await owned(), await owned({ from: minute(1), to: minute(3), offset: 1, limit: 1 })];
        t.strictSame([ids(whole), whole.total], [['c', 'a', 'b', 'd'], 4]);
        t.strictSame([ids(within), within.total, within.isLast], [['b'], 2, true]);
        const behind = await owned({ after: { upd: minute(1), owner: 'AA', id: 'a' }, limit: 2, offset: 77 });
        t.strictSame([ids(behind), behind.total, behind.isLast], [['a', 'b'], 4, false]);
        t.strictSame([ids(await owned({ owner: 'NL-TN' })), (await owned({ offset: 4 })).total], [[], 4]);
        // A position whose row is gone is still a place.
        t.strictSame(ids(await list({ after: { upd: minute(2), owner: 'ZZ', id: '' } })), ['d']);
      }
    },
  );

  promise('a row that changes moves: to the end of its list, to another shelf, off all lists', async (t, store) => {
    const list = async (...shelves: string[]): Promise<string> =>
      ids(await store.list({ kind: 'sessions', shelves, offset: 0, limit: 9 })).join('');
    await append(store, {
      puts: [row('a', { upd: minute(1) }), row('b', { upd: minute(2) }), row('c', { upd: minute(3) })],
    });
    await append(store, { puts: [row('a', { upd: minute(4) })] });
    t.equal(await list('NL-TNM'), 'bca');
    await append(store, { puts: [row('b', { upd: minute(2), shelf: 'S2' })] });
    t.strictSame([await list('NL-TNM'), await list('S2'), await list('S2', 'NL-TNM')], ['ca', 'b', 'bca']);
    await append(store, { puts: [row('c', { shelf: null }), gone('b')] });
    t.strictSame([await list('NL-TNM'), await list('S2')], ['a', '']);
  });

  promise(
    '[CONTRACT-7] a list that is read over and over while its rows change in place is never older than what was acknowledged',
    async (t, first, again) => {
      let store = first;
      const names = Array.from({ length: 40 }, (_, n) => `r${n}`);
      const changes = isAtLength ? 100 : 15;
      const written = new Map<string, number>();
      const write = async (version: number, id: string) => {
        await append(store, { puts: [row(id, { body: String(version) })] });
        written.set(id, version);
      };
      await Promise.all(names.map((id) => write(0, id)));
      store = await again();
      const bodies = async () => {
        const { rows } = await store.list({
          ...{ kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 99, bodiesOnly: true },
        });
        return new Map(rows.map(({ id, body }) => [id, Number(body)]));
      };
      let version = 0;
      let older = 0;
      let seen = 0;
      const read = async () => {
        for (; version < 4 * changes; seen += 1) {
          // A store in memory needs no turn of the loop, which the others of this test do.
          await turn();
          const before = new Map(written);
          const found = await bodies();
          for (const [id, least] of before) if ((found.get(id) ?? -1) < least) older += 1;
        }
      };
      const change = async (ids: readonly string[]) => {
        for (const id of ids) {
          version += 1;
          await write(version, id);
          await turn();
        }
      };
      const shuffled = (offset: number) =>
        Array.from({ length: changes }, (_, n) => names[(n * 7 + offset) % 40] ?? '');
      await Promise.all([read(), read(), ...[0, 1, 2, 3].map((offset) => change(shuffled(offset)))]);
      t.ok(seen > 2, `${seen} lists`);
      t.equal(older, 0, 'rows that were older than what was acknowledged');
      t.strictSame(await bodies(), written);
      await append(store, { puts: [gone('r0')] });
      t.notOk((await bodies()).has('r0'));
      await write(1000, 'r0');
      t.equal((await bodies()).get('r0'), 1000);
    },
  );

  promise('timers are set, moved and removed, and read in order of instant', async (t, store, again) => {
    await append(store, {
      due: [
        { key: 'a', at: minute(9) },
        { key: 'b', at: minute(5) },
        { key: 'c', at: minute(7) },
      ],
    });
    await append(store, {
      due: [
        { key: 'a', at: minute(1) },
        { key: 'c', at: null },
        { key: 'never', at: null },
      ],
    });
    t.strictSame(await (await again()).due(), [
      { key: 'a', at: minute(1) },
      { key: 'b', at: minute(5) },
    ]);
  });

  promise('a floor is what was settled last', async (t, store) => {
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    for (const seq of [1, 2, 3])
      await store.settle(
        fence,
        [],
        [
          { dest: 'A', seq },
          { dest: 'B', seq: 1 },
        ],
      );
    t.strictSame(await store.floors(), [
      { dest: 'A', seq: 3 },
      { dest: 'B', seq: 1 },
    ]);
  });

  promise('close finishes what waits; afterwards everything is refused, in words', async (t, store, again) => {
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    t.match(store.health(), { state: 'open', reason: null, head: 0, damagedRows: { length: 0 } });
    const heard: string[] = [];
    store.onHealth(({ state }) => heard.push(state));
    const waiting = Array.from({ length: 20 }, () => append(store, {}));
    await store.close();
    t.equal((await Promise.all(waiting)).length, 20);
    t.equal(store.health().state, 'closed');
    t.strictSame(heard, ['closed']);
    t.equal(store.held(), null);
    await t.rejects(store.append({ fence, idem: 'late', events: [event()] }), StoreUnavailable);
    await t.rejects(store.get(row('1')), StoreUnavailable);
    t.equal((await again()).head(), 20);
  });
}
