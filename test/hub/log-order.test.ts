/**
 * The logs of all shards as one: by time, each event once, whatever is recorded meanwhile and whatever clocks say; and in how many reads.
 */
import { eventViews } from '../../src/hub/event-views.ts';
import type { LogPosition } from '../../src/hub/log-order.ts';
import type { EventPage, EventRange } from '../../src/hub/operator.ts';
import type { NewEvent, Range, Shard, Store } from '../../storage/contract.ts';
import { openPostgresStore } from '../../storage/postgres-store.ts';
import { event, patient } from '../storage/support.ts';
import { newSchema, postgresHere, sharedPostgres } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';

interface Scene {
  readonly list: (range?: Partial<EventRange>, type?: string) => Promise<EventPage>;
  /** Appends one event to a shard, at so many seconds. */
  readonly record: (shard: Shard, second: number, fields?: Partial<NewEvent>) => Promise<string>;
  /** What the lists asked of the store since the last look. */
  readonly asked: () => { readonly reads: number; readonly events: number };
}

const server = postgresHere === null ? null : await sharedPostgres();
const skip = server === null && 'no PostgreSQL server is installed here';
const instant = (second: number) => new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString();

async function scene(t: Test): Promise<Scene> {
  const url = server?.url(newSchema('merged'), '&shards=256') ?? '';
  const store = await openPostgresStore({ url, node: 'test', ...patient });
  t.teardown(() => store.close());
  let [reads, events, commits] = [0, 0, 0];
  const counted = Object.create(store) as Store;
  counted.ranges = async (ranges: readonly Range[]) => {
    const found = await store.ranges(ranges);
    reads += 1;
    events += found.length;
    return found;
  };
  counted.read = () => t.fail('one shard alone was read') as never;
  counted.event = (...of) => store.event(...of);
  counted.health = () => store.health();
  counted.heads = () => store.heads();
  counted.horizon = (shard) => store.horizon(shard);
  const views = eventViews(counted, () => []);
  return {
    list: (range, type) => {
      return views(type ? { type } : {}, { order: 'oldest', after: 0, cursor: null, limit: 1000, ...range });
    },
    async record(shard, second, fields = {}) {
      const fence = store.held(shard);
      if (fence === null) throw new Error('no fence');
      commits += 1;
      const name = `${shard} ${commits}`;
      const recorded = event({ stream: name, at: instant(second), data: { name }, ...fields });
      await store.append({ fence, idem: name, events: [recorded], puts: [], due: [] });
      return name;
    },
    asked() {
      const said = { reads, events };
      [reads, events] = [0, 0];
      return said;
    },
  };
}

const namesOf = ({ items }: Pick<EventPage, 'items'>) => items.map(({ data }) => (data as { name: string }).name);

/** Page by page to the end. */
async function all({ list }: Scene, range: Partial<EventRange>, type?: string): Promise<string[]> {
  const found: string[] = [];
  for (let cursor: LogPosition | null = null; ; ) {
    const page: EventPage = await list({ ...range, cursor }, type);
    found.push(...namesOf(page));
    if (page.next_cursor === null || found.length > 1000) return found;
    cursor = page.next_cursor;
  }
}

t.test('events of all shards come by time, either way, in pages of any size', { skip }, async (t) => {
  const at = await scene(t);
  const names: string[] = [];
  // One shard has half of them, some have one alone.
  for (let i = 0; i < 60; i += 1) {
    names.push(await at.record(i % 2 === 0 ? 9 : (i * 7) % 256, i, { type: i % 5 === 0 ? 'fifth' : 'other' }));
  }
  for (const limit of [1, 7, 1000]) {
    t.strictSame(await all(at, { limit }), names, `oldest first, ${limit} a page`);
    t.strictSame(await all(at, { order: 'newest', limit }), [...names].reverse(), `newest first, ${limit} a page`);
  }
  const fifths = names.filter((_, i) => i % 5 === 0);
  t.strictSame(await all(at, { limit: 2 }, 'fifth'), fifths);
  t.strictSame(await all(at, { order: 'newest', limit: 2 }, 'fifth'), [...fifths].reverse());
  const { items } = await at.list();
  t.equal(new Set(items.map(({ seq }) => seq)).size, 60, 'each has a number of its own');
  const { last_seq } = await at.list({ limit: 30 });
  const later = await at.list({ order: 'newest', after: last_seq });
  t.strictSame(namesOf(later), names.slice(30).reverse(), 'back to where somebody had come to');
  for (const index of [0, 21, 58, 59]) {
    const seq = items[index]?.seq ?? 0;
    t.strictSame(namesOf(await at.list({ after: seq })), names.slice(index + 1), `behind event ${seq}`);
  }
  await t.rejects(at.list({ after: 4 }), { code: 'invalid', message: /no event 4/ }, 'behind one that is not there');
});

t.test('whoever follows sees each event once, though clocks differ and shards come into use', { skip }, async (t) => {
  const at = await scene(t);
  const [early, late] = [3, 200];
  for (let i = 0; i < 4; i += 1) for (const shard of [early, late]) await at.record(shard, i);
  const begun = await at.list({ order: 'newest', limit: 2 });
  let after = begun.last_seq;
  const seen: string[] = [];
  const recorded: string[] = [];
  for (let i = 0; i < 20; i += 1) {
    // The clock of one node is five seconds behind; what it records is older than what was seen already.
    recorded.push(await at.record(late, 10 + i), await at.record(early, 5 + i), await at.record(100 + i, 0));
    const page = await at.list({ after, limit: i % 3 === 0 ? 1 : 1000 });
    seen.push(...namesOf(page));
    after = page.last_seq;
  }
  seen.push(...namesOf(await at.list({ after })));
  t.strictSame([...seen].sort(), recorded.sort(), 'each of them, and none twice');
  const ofShard = (shard: number) => seen.filter((name) => name.startsWith(`${shard} `)).map((name) => +name.slice(4));
  t.strictSame(
    ofShard(late),
    ofShard(late).toSorted((a, b) => a - b),
    'within a shard in the order of its log',
  );
  t.strictSame((await at.list({ order: 'newest', after: (await at.list()).last_seq })).items, []);
});

t.test('a page asks seldom, and for little more than it shows', { skip }, async (t) => {
  const at = await scene(t);
  await Promise.all(Array.from({ length: 256 }, (_, shard) => manyIn(at, shard, 12)));
  const busy = 77;
  await manyIn(at, busy, 700, 100, { type: 'wanted' });
  at.asked();
  const page = await at.list({ order: 'newest', limit: 100 });
  t.equal(page.items.length, 100);
  const one = at.asked();
  t.ok(one.reads <= 4, `${one.reads} reads where one shard gives all`);
  t.ok(one.events <= 2000, `${one.events} events`);
  t.equal((await at.list({ order: 'newest', limit: 100 }, 'wanted')).items.length, 100);
  const rare = at.asked();
  t.ok(rare.events <= 2500, `${rare.events} events where one shard alone gives any: the others are older`);
  await at.list({ order: 'oldest', limit: 100 });
  const spread = at.asked();
  t.ok(spread.reads <= 6, `${spread.reads} reads where all give some`);
  t.ok(spread.events <= 2500, `${spread.events} events of 3,772`);
  await at.list({ after: page.last_seq });
  t.strictSame(at.asked(), { reads: 0, events: 0 }, 'nothing new is not looked for');
  t.ok(`${page.last_seq}`.length < 2000, `${`${page.last_seq}`.length} characters`);
});

/** At instants that are mixed with those of other shards. */
async function manyIn({ record }: Scene, shard: number, count: number, from = 0, fields = {}): Promise<void> {
  for (let i = 0; i < count; i += 1) await record(shard, from + i + ((shard * 37) % 256) / 256, fields);
}

t.test('a position that is none is refused', { skip }, async (t) => {
  const at = await scene(t);
  await at.record(5, 1);
  for (const text of ['s!', 'x', '-1', 's1.2', `s${'1-'.repeat(256)}`, 's1234567890']) {
    await t.rejects(at.list({ after: text }), { code: 'invalid' }, text);
    await t.rejects(at.list({ cursor: text }), { code: 'invalid' }, text);
  }
});
