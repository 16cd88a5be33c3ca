/**
 * One node's link to the database becomes slow, stands still, or is cut, the owner's and a door's: partners of the others notice nothing,
 * and what the node itself cannot do others do. An owner whose link is slow hands over.
 */
import { Link } from '../support/link.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { mustAddUp } from './load.ts';
import { longer, type Node, roleOf, startNodes, untilJoined } from './nodes.ts';
import { chooser, startTraffic } from './traffic.ts';

/** Longer than busy cores make a node stand still. */
const env = { HUB_LEASE_S: '6', HUB_RATE_OTHER_PER_MIN: '1000000', HUB_RATE_COMMANDS_PER_MIN: '1000000' };

t.test('a slow link between one node and the database', longer, async (t) => {
  const server = await sharedPostgres();

  async function scene(t: Parameters<typeof startNodes>[0], name: string) {
    const schema = newSchema(name);
    const links = new Map<number, Link>();
    const nodes = await startNodes(t, server, schema, {
      ...{ count: 3, env },
      async of(port) {
        const link = await Link.to(t, server.port);
        links.set(port, link);
        return { HUB_STORE: server.url(schema).replace(`:${server.port}`, `:${link.port}`) };
      },
    });
    await untilJoined(nodes.all);
    const owner = await nodes.owner();
    const [door] = (await nodes.standbys()) as [Node];
    return { nodes, schema, owner, door, linkOf: ({ port }: Node) => links.get(port) as Link };
  }

  for (const which of ['door', 'owner'] as const) {
    t.test(`of the ${which} becomes slow`, async (t) => {
      const { nodes, schema, linkOf, ...of } = await scene(t, `slow_${which}`);
      const urls = nodes.all.map(({ url }) => url);
      let turn = 0;
      const traffic = await startTraffic(t, nodes, { choose: () => urls[turn++ % urls.length] ?? '' });
      await traffic.goesOn();
      for (const ms of [0, 150, 300]) {
        linkOf(of[which]).slow(ms / 2);
        const since = performance.now();
        if (which === 'owner' && ms > 0) await eventually('it hands over', async () => (await nodes.token()) > 1);
        await traffic.goesOn();
        await traffic.goesOn(60);
        t.strictSame(traffic.failed(since), [], `nothing fails with ${ms} ms more`);
        t.equal(await nodes.token(), which === 'owner' && ms > 0 ? 2 : 1, 'an owner hands over, once; a door does not');
        for (const { url, port } of nodes.all) {
          const name = url === of[which].url ? `the ${which}` : port === of.owner.port ? 'the owner' : 'a door';
          t.comment(`the ${which} +${ms} ms, through ${name}: ${traffic.summary(since, url)}`);
        }
      }
      await traffic.stop();
      await mustAddUp(t, server, schema, [traffic.pushes], traffic.emsp);
    });

    for (const how of ['frozen', 'cut'] as const) {
      t.test(`of the ${which} is ${how}`, async (t) => {
        const { nodes, schema, linkOf, ...of } = await scene(t, `${how}_${which}`);
        const node = of[which];
        const others = nodes.all.filter((other) => other !== node).map(({ url }) => url);
        const { choose } = chooser(t, () => nodes.all.map(({ url }) => url));
        const traffic = await startTraffic(t, nodes, { choose });
        await traffic.goesOn();
        const link = linkOf(node);
        const since = performance.now();
        how === 'cut' ? link.sever() : link.pause();
        if (which === 'owner') {
          await eventually('another one is the owner', async () => (await nodes.owner()) !== node);
        }
        for (const url of others) await traffic.goesOn(20, url);
        const readyz = await fetch(`${node.url}/readyz`);
        t.comment(`${which} ${how}: role ${await roleOf(node)}, /readyz ${readyz.status} ${await readyz.text()}`);
        t.comment(`${which} ${how}, through it: ${traffic.summary(since, node.url)}`);
        for (const url of others) t.comment(`${which} ${how}, through another: ${traffic.summary(since, url)}`);
        const between = performance.now();
        how === 'cut' ? link.mend() : link.deliver();
        await untilJoined(nodes.all);
        await traffic.goesOn(20, node.url);
        await traffic.stop();
        const bad = traffic.failed(since).filter(({ url }) => url !== node.url);
        const owned = ({ kind }: { kind: string }) => kind === 'command' || kind === 'callback';
        const refused = which === 'owner' ? bad.filter((one) => !owned(one)) : bad;
        t.strictSame(refused, [], 'nothing fails through other nodes');
        t.comment(`${which} ${how}, after it: ${traffic.failed(between).length} failed`);
        t.equal((await nodes.token()) > 1, which === 'owner', 'the lease moves when it is the owner, and only then');
        await mustAddUp(t, server, schema, [traffic.pushes], traffic.emsp);
      });
    }
  }
});
