/** The log as lists walk it: either way, in pages of any size, and so many events for one request. */
import type { EventPage } from '../../src/api/events.ts';
import type { EventRange } from '../../src/hub/ports/operator.ts';
import { eventViews } from '../../src/hub/views/events.ts';
import { LogWalk } from '../../src/hub/views/log-walk.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { event } from '../storage/support.ts';
import { directoryFor } from '../support/directory.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

async function scene(t: Test) {
  const store = await openLevelStore({ directory: directoryFor(t), node: 'test', ballastBytes: 0 });
  t.teardown(() => store.close());
  const fence = store.held();
  if (fence === null) throw new Error('no fence');
  const views = eventViews(store, () => []);
  return {
    store,
    fence,
    list: (range: Partial<EventRange> = {}, type?: string): Promise<EventPage> =>
      views(type ? { type } : {}, { order: 'oldest', after: 0, cursor: null, limit: 1000, ...range }),
    /** So many events in one commit, of these types in turn. */
    record: (count: number, types = ['other']) => {
      const from = store.head();
      const events = Array.from({ length: count }, (_, i) =>
        event({ stream: 's', type: types[i % types.length] ?? '', data: {} }),
      );
      return store.append({ fence, idem: `from ${from}`, events });
    },
  };
}

type Scene = Awaited<ReturnType<typeof scene>>;

/** Page by page to the end, the number of each. */
async function all({ list }: Scene, range: Partial<EventRange>, type?: string): Promise<number[]> {
  const found: number[] = [];
  for (let cursor: number | null = null; ; ) {
    const page: EventPage = await list({ ...range, cursor }, type);
    found.push(...page.items.map(({ seq }) => seq));
    if (page.next_cursor === null) return found;
    cursor = Number(page.next_cursor);
  }
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1);

t.test('events are read in both directions, in pages of any size, filtered or not', async (t) => {
  const at = await scene(t);
  await at.record(60, ['fifth', 'other', 'other', 'other', 'other']);
  const fifths = upTo(60).filter((seq) => seq % 5 === 1);
  for (const limit of [1, 7, 1000]) {
    t.strictSame(await all(at, { limit }), upTo(60), `oldest first, ${limit} a page`);
    t.strictSame(await all(at, { order: 'newest', limit }), upTo(60).reverse(), `newest first, ${limit} a page`);
    t.strictSame(await all(at, { limit }, 'fifth'), fifths);
    t.strictSame(await all(at, { order: 'newest', limit, after: 20 }, 'fifth'), [56, 51, 46, 41, 36, 31, 26, 21]);
  }
});

t.test('a follower gets each event once', async (t) => {
  const at = await scene(t);
  await at.record(4);
  let { last_seq: after } = await at.list({ order: 'newest', limit: 2 });
  t.equal(after, 4);
  const seen: number[] = [];
  for (const limit of [1, 1000, 2]) {
    await at.record(3);
    const page = await at.list({ after, limit });
    seen.push(...page.items.map(({ seq }) => seq));
    after = page.last_seq;
  }
  const { items } = await at.list({ after });
  t.strictSame([...seen, ...items.map(({ seq }) => seq)], upTo(13).slice(4));
});

t.test('one request scans at most 20,000 events, and says where the next one continues', atLength, async (t) => {
  const at = await scene(t);
  await at.record(1, ['rare']);
  for (let n = 0; n < 41; n++) await at.record(500);
  const first = await at.list({ order: 'newest' }, 'rare');
  t.match(first, { items: [], next_cursor: '501', last_seq: 20_501 });
  const second = await at.list({ order: 'newest', cursor: 501 }, 'rare');
  t.match(second, { items: [{ seq: 1 }], next_cursor: null });
  const forwards = await at.list({ after: 1 }, 'rare');
  t.match(forwards, { items: [], next_cursor: '20001', last_seq: 20_001 });
});

t.test('ranges are read in the given order, without trimmed events', async (t) => {
  const { store, fence, record } = await scene(t);
  await record(10);
  const walked = async (order: 'oldest' | 'newest', ranges: [number, number][]) => {
    const stretches = ranges.map(([after, upTo]) => ({ after, upTo }));
    const walk = new LogWalk(store, stretches, order, () => true);
    const found: number[] = [];
    for (let event = await walk.next(); event !== null; event = await walk.next()) found.push(event.seq);
    t.equal(walk.rest, null);
    return found;
  };
  t.strictSame(
    await walked('newest', [
      [8, 9],
      [4, 7],
      [1, 2],
    ]),
    [9, 7, 6, 5, 2],
  );
  t.strictSame(
    await walked('oldest', [
      [1, 2],
      [4, 7],
    ]),
    [2, 5, 6, 7],
  );
  const events = await store.read({ after: 0, limit: 5 });
  await store.trim({ fence, upTo: 5, events, keeps: [], drops: [], rows: [] });
  t.strictSame(
    await walked('newest', [
      [8, 9],
      [4, 7],
      [1, 2],
    ]),
    [9, 7, 6],
  );
});

t.test('a position beyond the end of the log is refused, and not taken for its end', async (t) => {
  const at = await scene(t);
  await at.record(5);
  t.match(await at.list({ after: 5 }), { items: [], last_seq: 5 });
  const behind = { code: 'invalid', message: 'the log ends at 5' };
  await t.rejects(at.list({ after: 6 }), behind);
  await t.rejects(at.list({ cursor: 6 }), behind);
});
