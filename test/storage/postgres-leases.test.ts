/** Several nodes on one database: each shard has one owner, a dead one's shards go on elsewhere, and who was fenced writes nothing. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Fence, Fenced } from '../../storage/contract.ts';
import { openPostgresStore, type PostgresStore } from '../../storage/postgres-store.ts';
import { newSchema, type PostgresServer, postgresHere, sharedPostgres } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';
import { event, patient, until } from './support.ts';

const CHILD = join(import.meta.dirname, 'postgres-node', 'child.js');
const ttlMs = 1500;
const shards = Array.from({ length: 256 }, (_, shard) => shard);

/** A node in a process of its own, with all that it said. */
async function startNode(t: Test, url: string, name: string, ttl = ttlMs) {
  const words = [CHILD, url, name, `${ttl}`];
  const child = spawn(process.execPath, words, { stdio: ['pipe', 'pipe', 'inherit'] });
  const said: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => said.push(line));
  const end = new Promise((resolve) => child.once('close', resolve));
  t.teardown(async () => {
    child.kill('SIGKILL');
    await end;
  });
  await until(() => said.includes('ready') || child.exitCode !== null);
  const lines = (word: string) => said.filter((line) => line.startsWith(`${word} `)).map((line) => line.split(' '));
  return {
    ...{ child, said, lines, end },
    /** It renews and looks at once. */
    poke: () => void child.stdin.write('\n'),
    held: () => lines('gained').length - lines('lost').length,
    /** [shard, seq, stream] of what was acknowledged. */
    acknowledged: () =>
      lines('ack').map(([, shard, seq, ...stream]) => [Number(shard), Number(seq), stream.join(' ')] as const),
  };
}

type Node = Awaited<ReturnType<typeof startNode>>;

async function openNode(t: Test, url: string, node: string, ttl = ttlMs): Promise<PostgresStore & { gains: Fence[] }> {
  const gains: Fence[] = [];
  const gained = (fence: Fence) => gains.push(fence);
  const store = await openPostgresStore({ url, node, sole: false, ...patient, ttlMs: ttl, gained });
  t.teardown(() => store.close());
  return Object.assign(store, { gains });
}

const heldBy = (store: PostgresStore): number[] => shards.filter((shard) => store.held(shard) !== null);
const holdsAll = (store: PostgresStore) => until(() => heldBy(store).length === shards.length);

/** What any node was told is written stands where it was told; each shard is dense, and its tokens only grew. */
async function mustBeWhole(t: Test, store: PostgresStore, nodes: readonly Node[]): Promise<void> {
  const logs = await Promise.all(shards.map((shard) => store.read({ shard, after: 0, limit: 1_000_000 })));
  t.ok(
    logs.every((log) => log.every(({ seq }, i) => seq === i + 1)),
    'every shard is dense',
  );
  const streams = logs.flat().map(({ stream }) => stream);
  t.equal(new Set(streams).size, streams.length, 'nothing stands twice');
  const acknowledged = nodes.flatMap((node) => node.acknowledged());
  const lost = acknowledged.filter(([shard, seq, stream]) => logs[shard]?.[seq - 1]?.stream !== stream);
  t.strictSame(lost, [], `${acknowledged.length} were acknowledged, ${streams.length} are there`);
}

function suite(server: PostgresServer): void {
  t.test('a node that joins gets its share, one that leaves hands it over; each shard has one owner', async (t) => {
    const url = server.url(newSchema('joining'));
    const a = await openNode(t, url, 'a', 30_000);
    await holdsAll(a);
    const b = await openNode(t, url, 'b', 30_000);
    const beat = () => Promise.all([a.poke(), b.poke()]);
    await until(async () => {
      await beat();
      return heldBy(a).length + heldBy(b).length === shards.length && heldBy(b).length > 0;
    });
    const [ofA, ofB] = [heldBy(a), heldBy(b)];
    t.ok(ofA.length > 80 && ofB.length > 80, `${ofA.length} and ${ofB.length}`);
    t.ok(ofA.every((shard) => !ofB.includes(shard)));
    for (const shard of ofB) t.ok((b.held(shard)?.token ?? 0) === 2, 'the token grew');
    const [shard = 0] = ofB;
    await until(async () => {
      await beat();
      return a.owner(shard)?.name === 'b';
    });
    const fence = b.held(shard);
    if (fence === null) throw new Error('no fence');
    await b.append({ fence, idem: 'x', events: [event()] });
    await until(async () => {
      await beat();
      return a.head(shard) === 1;
    });
    t.equal((await a.read({ shard, after: 0, limit: 9 })).length, 1, 'any node reads what any node wrote');
    await b.close();
    await a.poke();
    await holdsAll(a);
    t.pass('nobody had to wait for a lease to run out');
  });

  t.test('[S4] a late append of a node whose shards were taken is Fenced and writes nothing', async (t) => {
    const schema = newSchema('late');
    const url = server.url(schema);
    const a = await openPostgresStore({ url, node: 'a', sole: false, ...patient, ttlMs: 600_000 });
    t.teardown(() => a.close());
    await holdsAll(a);
    const fence = a.held(3);
    if (fence === null) throw new Error('no fence');
    await a.append({ fence, idem: 'first', events: [event()] });
    // As if it had stood still for longer than its lease.
    await server.query(`update ${schema}.nodes set expires = now() - interval '1 second' where name = 'a'`);
    const b = await openNode(t, url, 'b');
    await holdsAll(b);
    const waiting = [1, 2, 3].map((n) => a.append({ fence, idem: `late ${n}`, events: [event()] }));
    for (const late of waiting) await t.rejects(late, Fenced);
    await t.rejects(a.settle(fence, [{ dest: 'A', shard: 3, seq: 1, state: 'DEAD', data: null }], []), Fenced);
    t.equal(await b.delivery('A', 3, 1), null);
    t.equal((await b.read({ shard: 3, after: 0, limit: 9 })).length, 1);
    await until(() => a.held(3) === null && b.held(3) !== null);
    t.ok((b.held(3)?.token ?? 0) > fence.token);
    const held = b.held(3);
    if (held === null) throw new Error('no fence');
    t.equal((await b.append({ fence: held, idem: 'next', events: [event()] })).first, 2);
  });

  t.test(
    'a node that is killed under load: another one gains its shards and all that it was told is there',
    async (t) => {
      const schema = newSchema('killed');
      const url = server.url(schema);
      const dying = await startNode(t, url, 'dying', 600_000);
      const store = await openNode(t, url, 'survivor');
      await until(() => {
        dying.poke();
        return heldBy(store).length > 80 && dying.acknowledged().length > 50;
      });
      const before = store.gains.length;
      dying.child.kill('SIGKILL');
      await dying.end;
      await server.query(`update ${schema}.nodes set expires = now() where name = 'dying'`);
      await holdsAll(store);
      const taken = store.gains.slice(before);
      t.ok(taken.length > 80 && taken.every(({ token }) => token > 1), `${taken.length} gained`);
      for (const { shard, token } of taken.slice(0, 20)) {
        await until(() => store.held(shard) !== null);
        const fence = store.held(shard);
        if (fence === null || fence.token < token) throw new Error('no fence, or an older one');
        await store.append({ fence, idem: 'on', events: [event({ stream: `on ${shard}` })] });
      }
      await mustBeWhole(t, store, [dying]);
    },
  );

  t.test(
    'a node that stood still acts no more when it wakes: it is refused, and takes its part again later',
    async (t) => {
      const url = server.url(newSchema('stopped'));
      const sleeper = await startNode(t, url, 'sleeper');
      const other = await startNode(t, url, 'other');
      await until(() => [sleeper, other].every((node) => node.held() > 80 && node.acknowledged().length > 50));
      sleeper.child.kill('SIGSTOP');
      const told = sleeper.said.length;
      await until(() => other.held() === shards.length);
      await until(() => new Set(other.acknowledged().map(([shard]) => shard)).size === 16);
      sleeper.child.kill('SIGCONT');
      await until(() => sleeper.said.slice(told).some((line) => line.startsWith('lost ')));
      const acks = sleeper.acknowledged().length;
      await until(() => sleeper.acknowledged().length > acks + 20);
      for (const node of [sleeper, other]) node.child.stdin.end();
      await Promise.all([sleeper.end, other.end]);
      const store = await openNode(t, url, 'reader');
      await mustBeWhole(t, store, [sleeper, other]);
    },
  );

  t.test(
    'a node that is to be the only one does not begin beside another, and waits for one that was killed',
    async (t) => {
      const url = server.url(newSchema('alone'));
      const first = await openPostgresStore({ url, node: 'first', nodeUrl: 'http://first', ttlMs: 60_000 });
      const second = openPostgresStore({ url, node: 'second', ttlMs: 300 });
      await t.rejects(second, {
        name: 'StoreUnavailable',
        message: /is in use by another hub: first at http:\/\/first/,
      });
      t.equal(heldBy(first).length, shards.length, 'the first one was not disturbed');
      await first.close();
      const killed = await startNode(t, url, 'killed');
      await until(() => killed.acknowledged().length > 0);
      killed.child.kill('SIGKILL');
      await killed.end;
      const third = await openPostgresStore({ url, node: 'third', ttlMs: 12_000 });
      t.teardown(() => third.close());
      t.equal(heldBy(third).length, shards.length);
      await mustBeWhole(t, third, [killed]);
    },
  );
}

if (postgresHere === null) t.plan(0, 'no PostgreSQL server is installed here');
else suite(await sharedPostgres());
