/**
 * Four nodes behind a balancer that asks them once a second whether they are ready and tries nothing again: each is restarted in turn, a
 * fifth joins and leaves, and no partner is refused.
 */
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { mustAddUp } from './load.ts';
import { longer, startNodes, untilJoined } from './nodes.ts';
import { chooser, startTraffic } from './traffic.ts';

const env = { HUB_RATE_OTHER_PER_MIN: '1000000', HUB_RATE_COMMANDS_PER_MIN: '1000000' };

t.test('four nodes are restarted in turn, a fifth joins and leaves', longer, async (t) => {
  const server = await sharedPostgres();
  const schema = newSchema('four');
  const nodes = await startNodes(t, server, schema, { count: 5, env });
  await untilJoined(nodes.all);
  const [fifth] = (await nodes.standbys()).slice(-1);
  const four = nodes.all.filter((node) => node !== fifth);
  if (fifth === undefined) throw new Error('five nodes');
  t.equal(await fifth.hub.stop(), 0, 'there are four');
  const balancer = chooser(t, () => nodes.all.map(({ url }) => url));
  await balancer.look();
  const traffic = await startTraffic(t, nodes, balancer);
  await traffic.goesOn();
  const begun = performance.now();
  const restarted = [...four];
  const owner = await nodes.owner();
  // The owner twice as well: it is the last of the four otherwise.
  for (const node of [owner, ...restarted.filter((other) => other !== owner), owner]) {
    const since = performance.now();
    const wasOwner = (await nodes.holder()) === node;
    t.equal(await node.hub.stop(), 0, 'it ends in good order');
    await traffic.goesOn();
    await node.start();
    await untilJoined(four);
    await traffic.goesOn();
    t.comment(`restart of ${wasOwner ? 'the owner' : 'a standby'}: ${traffic.summary(since)}`);
  }
  const joins = performance.now();
  await fifth.start();
  await untilJoined(nodes.all);
  await balancer.look();
  await traffic.goesOn(20, fifth.url);
  t.equal(await fifth.hub.stop(), 0, 'it leaves');
  await traffic.goesOn();
  t.comment(`join and leave: ${traffic.summary(joins)}`);
  await traffic.stop();
  t.comment(`all: ${traffic.summary(begun)}`);
  t.strictSame(traffic.failed(begun), [], `none of ${traffic.asked.length} requests failed`);
  await mustAddUp(t, server, schema, [traffic.pushes], traffic.emsp);
});
