/** What a node reads on of shards that others write: `follow`, `heads`, `ranges`, `openRows`. */
import type { FollowQuery } from '../../storage/contract.ts';
import { openPostgresStore, type PostgresStore } from '../../storage/postgres-store.ts';
import { newSchema, type PostgresServer, postgresHere, sharedPostgres } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';
import { event, patient } from './support.ts';

/** Two shards with events by turns: in each the third is owed to A, the fourth to B, the fifth is of a route. */
async function filled(store: PostgresStore, shards: readonly number[]): Promise<void> {
  for (const shard of shards) {
    const fence = store.held(shard);
    if (fence === null) throw new Error('no fence');
    const events = [
      event({ stream: `${shard}/1` }),
      event({ stream: `${shard}/2`, to: ['C'] }),
      event({ stream: `${shard}/3`, to: ['C', 'A'], body: 'x'.repeat(60) }),
      event({ stream: `${shard}/4`, to: ['B'], body: 'y'.repeat(60) }),
      event({ stream: `${shard}/5`, type: 'route.set' }),
      event({ stream: `${shard}/6`, type: 'route_set' }),
    ];
    await store.append({ fence, idem: `filled ${shard} behind ${store.head(shard)}`, events, puts: [], due: [] });
  }
}

function suite(server: PostgresServer): void {
  const [mine, theirs] = [3, 7];
  const query = (fields: Partial<FollowQuery>): FollowQuery => ({
    ranges: [mine, theirs].map((shard) => ({ shard, after: 0, upTo: 100 })),
    ...{ to: [], types: [], limit: 100, size: 1_000_000 },
    ...fields,
  });

  /** The only node of a schema with all shards. */
  const only = async (t: Test, schema: string) => {
    const store = await openPostgresStore({ url: server.url(schema, '&shards=256'), node: 'test', ...patient });
    t.teardown(() => store.close());
    return store;
  };

  t.test('the heads of all shards are those of the database, whoever wrote them', async (t) => {
    const schema = newSchema('heads');
    const writer = await only(t, schema);
    const reader = await openPostgresStore({
      ...{ url: server.url(schema, '&shards=256'), node: 'reader', nodeUrl: 'http://reader' },
      ...{ sole: false, sticky: true, ...patient },
    });
    t.teardown(() => reader.close());
    for (const store of [writer, reader]) t.equal((await store.heads()).get(mine), 0);
    await filled(writer, [mine, theirs]);
    for (const store of [writer, reader]) {
      const heads = await store.heads();
      t.equal(heads.size, 256);
      t.strictSame([heads.get(mine), heads.get(theirs), heads.get(0)], [6, 6, 0]);
    }
    await filled(writer, [theirs]);
    const heads = await reader.heads();
    t.strictSame([heads.get(mine), heads.get(theirs), heads.get(0)], [6, 12, 0], 'those that did not move too');
  });

  t.test('followed is what is owed to the receivers, or of a type that begins so, by shard and in order', async (t) => {
    const store = await only(t, newSchema('follow'));
    await filled(store, [mine, theirs]);
    const streams = async (fields: Partial<FollowQuery>) =>
      (await store.follow(query(fields))).map(({ stream }) => stream);
    t.strictSame(await streams({ to: ['A'] }), ['3/3', '7/3']);
    t.strictSame(await streams({ to: ['A', 'B'] }), ['3/3', '3/4', '7/3', '7/4']);
    t.strictSame(await streams({ types: ['route.'] }), ['3/5', '7/5'], 'a dot is a dot');
    t.strictSame(await streams({ types: ['route_'] }), ['3/6', '7/6'], 'and an underscore no other sign');
    t.strictSame(await streams({ to: ['B'], types: ['route.'] }), ['3/4', '3/5', '7/4', '7/5']);
    t.strictSame(await streams({}), [], 'nobody, and no type: nothing');
    const ranges = [
      { shard: mine, after: 3, upTo: 4 },
      { shard: theirs, after: 2, upTo: 3 },
    ];
    t.strictSame(await streams({ to: ['A', 'B', 'C'], ranges }), ['3/4', '7/3'], 'behind `after`, up to `upTo`');
    const [first] = await store.follow(query({ to: ['A'] }));
    t.match(first, { shard: mine, seq: 3, to: ['C', 'A'], body: 'x'.repeat(60), data: { method: 'PUT' } });
  });

  t.test('it is cut in each shard by number and by the characters of bodies; at least one comes', async (t) => {
    const store = await only(t, newSchema('cut'));
    await filled(store, [mine, theirs]);
    const to = ['A', 'B', 'C'];
    const counts = async (fields: Partial<FollowQuery>) => {
      const events = await store.follow(query({ to, ...fields }));
      return [mine, theirs].map((shard) => events.filter((one) => one.shard === shard).length);
    };
    t.strictSame(await counts({}), [3, 3]);
    t.strictSame(await counts({ limit: 2 }), [2, 2]);
    t.strictSame(await counts({ size: 60 }), [2, 2]);
    t.strictSame(await counts({ size: 61 }), [3, 3]);
    t.strictSame(await counts({ size: 1 }), [2, 2], 'the first has no body, the second goes over');
  });

  t.test('stretches of several shards come in one answer, and a hole in one is damage', async (t) => {
    const schema = newSchema('ranges');
    const store = await only(t, schema);
    await filled(store, [mine, theirs]);
    const ranges = [
      { shard: theirs, after: 4, upTo: 9 },
      { shard: mine, after: 1, upTo: 3 },
      { shard: theirs, after: 0, upTo: 1 },
    ];
    const places = (await store.ranges(ranges)).map(({ stream, body }) => `${stream} ${body}`);
    t.strictSame(places, ['3/2 null', '3/3 null', '7/1 null', '7/5 null', '7/6 null']);
    await server.query(`delete from ${schema}.events where shard = $1 and seq = 5`, [theirs]);
    t.equal((await store.ranges([{ shard: theirs, after: 0, upTo: 4 }])).length, 4);
    await t.rejects(store.ranges(ranges), { name: 'Damaged' });
    await server.query(`delete from ${schema}.events where shard = $1`, [theirs]);
    await t.rejects(store.ranges([{ shard: theirs, after: 0, upTo: 4 }]), { name: 'Damaged' }, 'also of all of it');
  });

  t.test('open rows of several receivers come from all shards; what was delivered does not', async (t) => {
    const store = await only(t, newSchema('rows'));
    await filled(store, [mine, theirs]);
    for (const shard of [mine, theirs]) {
      const fence = store.held(shard);
      if (fence === null) throw new Error('no fence');
      await store.settle(
        fence,
        [
          { dest: 'C', shard, seq: 2, state: 'DELIVERED', data: 2 },
          { dest: 'C', shard, seq: 3, state: 'PENDING', data: 3 },
          { dest: 'A', shard, seq: 3, state: 'DEAD', data: 'dead' },
          { dest: 'B', shard, seq: 4, state: 'PENDING', data: 4 },
        ],
        [],
      );
    }
    const rows = async (receivers: string[]) =>
      (await store.openRows(receivers)).map(({ dest, shard, seq, state }) => `${dest} ${shard}/${seq} ${state}`);
    t.strictSame(await rows(['A', 'C']), ['A 3/3 DEAD', 'A 7/3 DEAD', 'C 3/3 PENDING', 'C 7/3 PENDING']);
    t.strictSame(await rows(['nobody']), []);
    t.strictSame(await rows([]), []);
    t.match((await store.openRows(['A']))[0], { data: 'dead' });
  });
}

if (postgresHere === null) t.plan(0, 'no PostgreSQL server is installed here');
else suite(await sharedPostgres());
