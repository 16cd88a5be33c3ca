/**
 * The part of every store's exam that is about the past: trimming the log, and what must be left of it; and, for stores that can
 * make them, backups.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type DeliveryRow,
  Fenced,
  type Kept,
  type NewEvent,
  type Store,
  type StoredEvent,
} from '../../storage/contract.ts';
import { partOf } from '../support/share.ts';
import type { Test } from '../support/tap.ts';
import { type Done, type Opener, promises } from './exam.ts';
import { append, event, row, trim, until } from './support.ts';

const kept = (seq: number, fields: Partial<NewEvent>, rows: Kept['rows'] = []): Kept => ({
  ...event(fields),
  seq,
  rows,
});
const seqs = (events: readonly { seq: number }[]): number[] => events.map(({ seq }) => seq);
const everything = (store: Store): Promise<number[]> => store.read({ after: 0, limit: 1000 }).then(seqs);

export function trimSuite(t: Test, open: Opener, done?: Done): void {
  const promise = promises(t, open, done);

  promise(
    '[CONTRACT-9] behind the horizon nothing changes; up to it there is what was kept',
    async (t, store, again) => {
      for (const stream of ['a', 'b', 'a', 'c', 'a', 'b'])
        await append(store, { events: [event({ stream, correlationId: `of ${stream}`, body: stream })] });
      await trim(store, 4, {
        keeps: [kept(3, { stream: 'a', type: 'object.base', data: { sum: 2 }, body: 'both', correlationId: null })],
      });
      const look = async (store: Store): Promise<void> => {
        t.equal(store.horizon(), 4);
        t.equal(store.head(), 6);
        t.strictSame(await everything(store), [5, 6]);
        t.strictSame(seqs(await store.read({ after: 2, limit: 1 })), [5], 'a page begins behind the horizon');
        t.strictSame(seqs(await store.ranges([{ after: 0, upTo: 6 }])), [5, 6], 'and so does a stretch');
        t.strictSame(await store.ranges([{ after: 0, upTo: 4 }]), []);
        for (const seq of [1, 3, 4]) t.equal(await store.event(seq), null);
        t.match(await store.event(5), { stream: 'a' });
        const [base, later] = await store.history('a');
        t.match([base?.seq, base?.type, base?.data, base?.body], [3, 'object.base', { sum: 2 }, 'both']);
        t.equal(later?.seq, 5);
        t.strictSame(seqs(await store.history('b')), [6]);
        t.strictSame(await store.history('c'), []);
        t.strictSame(seqs(await store.correlated('of a')), [5], 'the kept one says that it has no correlation id');
        t.strictSame(await store.correlated('of c'), []);
      };
      await look(store);
      const second = await again();
      t.match(second.health(), { state: 'open', reason: null, damagedRows: { length: 0 } });
      await look(second);
      t.equal((await append(second)).first, 7, 'the sequence goes on');
      await trim(second, 7);
      const third = await again();
      t.equal(third.health().state, 'open', 'also when nothing is left behind the horizon');
      t.equal((await append(third)).first, 8);
      t.strictSame(seqs(await third.history('a')), [3]);
    },
  );

  promise('[CONTRACT-9] what an earlier trim kept is dropped when it is said so', async (t, store, again) => {
    for (let i = 0; i < 4; i += 1) await append(store, { events: [event({ stream: 'a', correlationId: 'c' })] });
    await trim(store, 1, { keeps: [kept(1, { stream: 'a', correlationId: 'c' })] });
    t.strictSame(seqs(await store.correlated('c')), [1, 2, 3, 4]);
    await trim(store, 3, { keeps: [kept(3, { stream: 'a' })], drops: await store.kept(['a']) });
    t.strictSame(seqs(await store.history('a')), [3, 4]);
    t.strictSame(seqs(await store.correlated('c')), [4]);
    const second = await again();
    t.equal(second.health().state, 'open');
    await trim(second, 4, { drops: await second.kept(['a']) });
    t.strictSame(await second.history('a'), []);
    t.equal((await again()).health().state, 'open');
  });

  promise(
    '[CONTRACT-9] what trims kept is read by stream, also when much was kept or dropped since',
    async (t, store, again) => {
      const names = ['a', 'ab', 'b', 'one', 'é'];
      for (let i = 0; i < 30; i += 1) {
        const stream = i === 7 ? 'one' : (names[i % 3] ?? '');
        await append(store, { events: [event({ stream, body: `${i}` })] });
      }
      const all = await store.read({ after: 0, limit: 30 });
      const keptOf = async (store: Store) => seqs(await store.kept(names)).sort((one, other) => one - other);
      t.strictSame(await keptOf(store), [], 'nothing was trimmed');
      // Of stream `a`, 1, 4, 7 …: more than one look of an engine brings.
      const stays = (seq: number) => all.slice(seq - 1, seq).map((each): Kept => ({ ...each, rows: [] }));
      await trim(store, 20, { keeps: [1, 4, 7, 10, 8, 3].flatMap(stays) });
      const look = async (store: Store): Promise<void> => {
        t.strictSame(await keptOf(store), [1, 3, 4, 7, 8, 10]);
        t.match(await store.kept(['one']), [{ seq: 8, stream: 'one', body: '7' }]);
        t.strictSame(await store.kept(['never', 'é']), []);
      };
      await look(store);
      const second = await again();
      await look(second);
      const drops = await second.kept(['a']);
      await trim(second, 25, { drops: drops.slice(1), keeps: stays(22) });
      t.strictSame(await keptOf(second), [1, 3, 8, 22]);
      const twice = trim(second, 26, { drops: drops.slice(1, 2) });
      await t.rejects(twice, RangeError, 'what was dropped cannot be dropped again');
      t.strictSame(await keptOf(await again()), [1, 3, 8, 22]);
    },
  );

  promise('[CONTRACT-9] of deliveries up to the horizon nothing is remembered any more', async (t, store, again) => {
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    for (let i = 0; i < 4; i += 1) await append(store, { events: [event({ to: ['A', 'B'] })] });
    const delivery = (dest: string, seq: number, state: DeliveryRow['state']): DeliveryRow => {
      return { dest, seq, state, data: null };
    };
    await store.settle(
      fence,
      [1, 2, 3].flatMap((seq) => [delivery('A', seq, 'DEAD'), delivery('B', seq, 'DELIVERED')]),
      [],
    );
    await trim(store, 2);
    await store.settle(fence, [delivery('A', 1, 'DEAD'), delivery('A', 4, 'DEAD')], []);
    const rows = async (store: Store, dest: string, of: 'open' | 'DELIVERED'): Promise<number[]> =>
      seqs(await store.deliveries({ dest, rows: of, limit: 10 }));
    const look = async (each: Store): Promise<void> => {
      t.strictSame(await rows(each, 'A', 'open'), [3, 4]);
      t.strictSame(await rows(each, 'B', 'DELIVERED'), [3]);
      t.equal(await each.delivery('A', 1), null);
    };
    await look(store);
    await look(await again());
  });

  promise('[CONTRACT-9] a row goes with its event, unless a later event wrote it', async (t, store, again) => {
    await append(store, { puts: [row('old'), row('new')] });
    await append(store, { puts: [row('other')] });
    const late = append(store, { puts: [row('new', { data: 'later' })] });
    const trimmed = trim(store, 2, { rows: [row('old'), row('new'), row('never')] });
    await Promise.all([late, trimmed]);
    const look = async (store: Store): Promise<void> => {
      t.strictSame(store.health().damagedRows, []);
      const { rows } = await store.list({ kind: 'sessions', shelves: ['NL-TNM'], offset: 0, limit: 10 });
      t.strictSame(rows.map(({ id }) => id).sort(), ['new', 'other']);
      t.equal(await store.get(row('old')), null);
      t.match(await store.get(row('new')), { data: 'later' });
    };
    await look(store);
    await look(await again());
  });

  promise('[CONTRACT-9] a trim that is refused changes nothing', async (t, store) => {
    for (const stream of ['a', 'b', 'a']) await append(store, { events: [event({ stream })] });
    const fence = store.held();
    if (fence === null) throw new Error('no fence');
    const refused = [
      [trim(store, 0), RangeError],
      [trim(store, 4), RangeError],
      [trim(store, 2, { keeps: [kept(2, { stream: 'a' })] }), RangeError],
      [trim(store, 2, { keeps: [kept(3, { stream: 'a' })] }), RangeError],
      [trim(store, 2, { drops: [kept(3, {})] }), RangeError],
      [trim(store, 2, { events: [] }), RangeError],
      [trim(store, 2, { rows: [row('\0')] }), TypeError],
      [trim(store, 2, { fence: { ...fence, token: fence.token - 1 } }), Fenced],
    ] as const;
    // All of them are asked at once, and any may be refused before its turn to be looked at.
    for (const [trimmed] of refused) trimmed.catch(() => {});
    for (const [trimmed, kind] of refused) await t.rejects(trimmed, kind);
    t.strictSame(await everything(store), [1, 2, 3]);
    t.equal(store.horizon(), 0);
    await trim(store, 2);
    await t.rejects(trim(store, 2), RangeError, 'twice to the same place is once too often');
    t.strictSame(await everything(store), [3]);
  });

  promise('[CONTRACT-9] who reads while the log is trimmed sees no hole', async (t, store) => {
    const total = 6 * partOf(400);
    await Promise.all(
      Array.from({ length: total }, (_, i) => append(store, { events: [event({ stream: `${i % 3}` })] })),
    );
    let done = false;
    let [reads, cut] = [0, 0];
    const read = async (): Promise<void> => {
      while (!done) {
        const events = await store.read({ after: 0, limit: total });
        const [first] = events;
        const dense = events.every(({ seq }, i) => seq === (first?.seq ?? 0) + i);
        const history = await store.history('1');
        if (!dense || history.length === 0) t.fail(`a hole behind ${first?.seq}`);
        reads += 1;
        if (first !== undefined && first.seq > 1) cut += 1;
        // A store in memory answers without a turn of the loop: nobody else would get one.
        await nextTurn();
      }
    };
    const readers = Promise.all([read(), read()]);
    let before: StoredEvent[] = [];
    for (let upTo = 6; upTo < total; upTo += 6) {
      const last = (await store.history('1', upTo - 6)).filter(({ seq }) => seq <= upTo).at(-1);
      if (last === undefined) throw new Error('no event of the stream');
      await trim(store, upTo, { keeps: [{ ...last, rows: [] }], drops: before });
      before = [last];
      const seen = reads;
      await until(() => reads > seen);
    }
    done = true;
    await readers;
    t.ok(reads > 5 && cut > 0, `${reads} reads, ${cut} of them of a log that was cut`);
  });
}

/** `ownDirectory`: the store lies in a directory of its own, where no backup may lie. */
export function backupSuite(
  t: Test,
  open: Opener,
  { ownDirectory = true, done }: { ownDirectory?: boolean; done?: Done } = {},
): void {
  const promise = promises(t, open, done);

  promise(
    '[CONTRACT-10] a backup is one moment of the store, taken while it is written',
    async (t, store, _again, origin) => {
      const names = Array.from({ length: 300 }, (_, i) => `${i}`);
      const each = (name: string) =>
        append(store, { events: [event({ to: ['A'] })], puts: [row(name)], due: [{ key: name, at: event().at }] });
      await Promise.all(names.map(each));
      const fence = store.held();
      if (fence === null) throw new Error('no fence');
      await store.settle(fence, [{ dest: 'A', seq: 9, state: 'DEAD', data: 1 }], [{ dest: 'A', seq: 9 }]);
      await trim(store, 5);
      let done = false;
      const writing = (async (): Promise<void> => {
        while (!done) await append(store, { puts: [row('busy')] });
      })();
      const steps = new Set<string>();
      const before = store.head();
      const manifest = await store.backup(`${origin}/one`, { progress: (step) => steps.add(step) });
      done = true;
      await writing;
      const { head } = manifest;
      t.ok(head >= before && store.head() > head, `the store went on from ${head} to ${store.head()}`);
      t.match(manifest, { format: 2, horizon: 5, events: head - 5, deliveries: 1, timers: 300 });
      t.ok(steps.has('copying'));
      const copy = await open(`${origin}/one`);
      t.teardown(() => copy.close());
      t.match(copy.health(), { state: 'open', damagedRows: { length: 0 } });
      t.equal(copy.head(), head);
      t.strictSame(
        await copy.read({ after: 0, limit: 1000 }),
        (await store.read({ after: 0, limit: 1000 })).filter(({ seq }) => seq <= head),
      );
      t.match(await copy.get(row('299')), { seq: 300 });
      t.equal((await copy.due()).length, 300);
      t.strictSame(await copy.floors(), [{ dest: 'A', seq: 9 }]);
      t.match(await copy.delivery('A', 9), { state: 'DEAD' });
    },
  );

  promise(
    '[CONTRACT-10] a backup that cannot be made says why, and leaves nothing',
    async (t, store, _again, origin) => {
      for (const name of ['full', 'empty']) mkdirSync(`${origin}/${name}`);
      for (const name of ['full/file', 'file']) writeFileSync(`${origin}/${name}`, '');
      await append(store);
      const refused = [
        ['backup', /not an absolute path/],
        [`${origin}/full`, /is not empty/],
        [`${origin}/file`, /is no directory/],
        ...(ownDirectory
          ? ([
              [`${origin}/data/store/one`, /inside the data directory/],
              [`${origin}/data`, /inside the data directory/],
            ] as const)
          : []),
        [`${origin}/missing/one`, /missing is no directory/],
      ] as const;
      for (const [directory, why] of refused) await t.rejects(store.backup(directory), { message: why });
      const stop = new AbortController();
      const stopped = store.backup(`${origin}/stopped`, { signal: stop.signal, progress: () => stop.abort() });
      await t.rejects(stopped, { name: 'AbortError' });
      t.strictSame(readdirSync(origin).sort(), ['data', 'empty', 'file', 'full']);
      t.match(await store.backup(`${origin}/empty`), { events: 1 }, 'an empty directory is taken');
      t.equal((await append(store)).first, 2);
    },
  );
}
