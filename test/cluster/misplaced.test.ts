/**
 * Nodes that other nodes cannot reach as they should: where the address of one leads nowhere, or to another node, and where one has another
 * secret. They say so, leave the log to others, and nothing fails through a node that says that it is ready.
 */
import { setTimeout } from 'node:timers/promises';
import { freePort } from '../../src/sandbox/free-port.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { runCommand } from '../support/resident-command.ts';
import { t } from '../support/tap.ts';
import { mustAddUp } from './load.ts';
import { adminToken, clusterSecret, longer, type Node, startNodes } from './nodes.ts';
import { chooser, startTraffic } from './traffic.ts';

/** Longer than busy cores make a node stand still. */
const env = { HUB_LEASE_S: '6', HUB_RATE_OTHER_PER_MIN: '1000000', HUB_RATE_COMMANDS_PER_MIN: '1000000' };
const cases = {
  nowhere: {
    of: async () => ({ HUB_NODE_URL: `http://127.0.0.1:${await freePort()}` }),
    warning: 'HUB_NODE_URL of this node does not lead to it: nobody answers there',
    reached: 'no',
    status: 200,
  },
  duplicate: {
    of: async (first: string) => ({ HUB_NODE_URL: first }),
    warning: 'HUB_NODE_URL of this node does not lead to it: another node answers there',
    reached: 'no: another node answers',
    status: 200,
  },
  secret: {
    of: async () => ({ HUB_CLUSTER_SECRET: `${clusterSecret}-of-its-own` }),
    warning: 'no other node takes the HUB_CLUSTER_SECRET of this one, or their clocks differ by more than five minutes',
    reached: 'no: another secret, or no node',
    // It can pass nothing on to the owner.
    status: 503,
  },
};

const readyOf = async ({ url }: Node) => {
  const answer = await fetch(`${url}/readyz`);
  return { status: answer.status, said: (await answer.json()) as { warning?: string } };
};

t.test('a node that the others cannot reach', longer, async (t) => {
  const server = await sharedPostgres();
  for (const [name, { of, warning, reached, status }] of Object.entries(cases)) {
    t.test(name, async (t) => {
      const schema = newSchema(name);
      let url = '';
      const nodes = await startNodes(t, server, schema, {
        ...{ count: 3, env },
        async of(port, i) {
          if (i === 0) url = `http://127.0.0.1:${port}`;
          return i === 2 ? of(url) : {};
        },
      });
      const [first, second, wrong] = nodes.all as [Node, Node, Node];
      t.equal(await nodes.owner(), first, 'the first node is the owner');
      await eventually('the wrong one says so', async () => (await readyOf(wrong)).said.warning === warning);
      t.equal((await readyOf(wrong)).status, status, 'and is a door, ready if it can pass requests on');
      await eventually('its log says so, too', () => wrong.hub.log().includes(warning));
      for (const node of [first, second]) t.notOk((await readyOf(node)).said.warning, 'the others are in good order');
      // Each node looks by its own clock, so another one may find out two seconds later.
      await eventually('others say it of it', async () => {
        const { out } = await runCommand(['cluster', '--url', first.url], { HUB_ADMIN_TOKEN: adminToken });
        const lines = out.split('\n').filter((line) => line.includes(`:${wrong.hub.pid} `));
        return lines.length === 1 && new RegExp(` yes +${reached} +no +no *$`).test(lines[0] ?? '');
      });

      const balancer = chooser(t, () => nodes.all.map((node) => node.url));
      const traffic = await startTraffic(t, nodes, balancer);
      const steady = async (what: string) => {
        await balancer.look();
        const since = performance.now();
        await traffic.goesOn(60);
        t.strictSame(traffic.failed(since), [], `nothing fails ${what}`);
        t.comment(`${name}, ${what}: ${traffic.summary(since)}`);
      };
      // A door whose address is wrong goes by new partners after a second.
      await traffic.goesOn(20);
      await steady('while it stands by');
      await first.hub.kill();
      t.equal(await nodes.owner(), second, 'one that is reached is the next owner');
      await traffic.goesOn(20);
      await steady('while it stands by again');
      await second.hub.kill();
      t.equal(await nodes.owner(), wrong, 'it is the owner when no other node is there');
      await first.start();
      await eventually('another one is not ready', async () => (await readyOf(first)).status === 503);
      await traffic.goesOn(20);
      await steady('while it is the owner');
      await traffic.stop();
      await mustAddUp(t, server, schema, [traffic.pushes], traffic.emsp);
    });
  }
});

t.test('the owner is killed and restarted within its lease: the other node stays ready', longer, async (t) => {
  const nodes = await startNodes(t, await sharedPostgres(), newSchema('again'), {
    ...{ here: 'others', env: { HUB_LEASE_S: '10' } },
  });
  const owner = await nodes.owner();
  const [other] = await nodes.standbys();
  if (!other) throw new Error('there is one node alone');
  await eventually('the other one is ready', async () => (await readyOf(other)).status === 200);
  const token = await nodes.token();
  await owner.hub.kill();
  const starting = owner.start();
  const answers: unknown[] = [];
  const look = async () => {
    const answer = await readyOf(other);
    if ((await nodes.token()) === token && answer.status !== 200) answers.push(answer);
  };
  await Promise.all([starting, look()]);
  for (const until = performance.now() + 4000; performance.now() < until; ) {
    await setTimeout(50);
    await look();
  }
  t.same(answers, []);
});
