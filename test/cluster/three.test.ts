/**
 * Three nodes, of which one is the owner and two stand by: a session path through all of them, and nodes that die or are restarted under
 * load, whichever role they have.
 */
import { openPath, sessionPath } from '../../src/sandbox/session-path.ts';
import { routedPair } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { goesOn, mustAddUp, mustNotFail, restartInTurn, startLoad } from './load.ts';
import { adminToken, longer, shortLease, startNodes, untilJoined } from './nodes.ts';

const env = { HUB_RATE_OTHER_PER_MIN: '1000000' };
const kills = 6;

t.test('three nodes are one hub', longer, async (t) => {
  const server = await sharedPostgres();

  t.test('the session path, each request through another node', async (t) => {
    const nodes = await startNodes(t, server, newSchema('path'), { count: 3, env });
    await untilJoined(nodes.all);
    const context = await openPath({ hubUrl: nodes.url, adminToken, retryUntilAnswered: false });
    t.teardown(() => context.close());
    for (const step of sessionPath) await t.resolves(step.run(context), step.name);
    const { items } = await admin(nodes, 'GET', '/deliveries?limit=1000');
    const unfinished = (items as { state: string }[]).filter(({ state }) => state !== 'DELIVERED');
    t.same(unfinished, [], 'nothing is owed any more, nothing is dead');
  });

  t.test(`a node is killed under load, ${kills} times`, async (t) => {
    const schema = newSchema('killed');
    const nodes = await startNodes(t, server, schema, { count: 3, env: { ...env, ...shortLease } });
    await untilJoined(nodes.all);
    const { cpo, emsp } = await routedPair(t, nodes);
    const load = startLoad(nodes.url, cpo, 'T');
    const pauses: string[] = [];
    for (let i = 0; i < kills; i += 1) {
      await goesOn(load, 20);
      // At another moment of a write each time.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 50));
      const owner = await nodes.owner();
      // The owner, and then one that stands by.
      const victim = i % 2 === 0 ? owner : nodes.all.find((node) => node !== owner);
      const begun = performance.now();
      await victim?.hub.kill();
      await goesOn(load, 1);
      pauses.push(`${victim === owner ? 'owner' : 'standby'} ${Math.round(performance.now() - begun)}`);
      await victim?.start();
      await untilJoined(nodes.all);
    }
    await goesOn(load, 20);
    await load.stop();
    t.comment(`from each kill to the next acknowledged write, ms: ${pauses.join(', ')}`);
    await mustAddUp(t, server, schema, [load], emsp);
  });

  t.test('every node is restarted in turn, and no request fails', async (t) => {
    const schema = newSchema('rolling');
    const nodes = await startNodes(t, server, schema, { count: 3, env: { ...env, HUB_LOG_LEVEL: 'info' } });
    await untilJoined(nodes.all);
    const { cpo, emsp } = await routedPair(t, nodes);
    const load = startLoad(nodes.url, cpo, 'R');
    const logs: string[] = [];
    await restartInTurn(t, nodes.all, load, ({ hub }) => logs.push(hub.log()));
    const lines = logs.flatMap((log) => log.split('\n')).filter((line) => line.includes('leaving: another node'));
    const pauses = lines.map((line) => (JSON.parse(line) as { afterMs: number }).afterMs);
    t.comment(`another node answered after a node had begun to leave, ms: ${pauses.join(', ')}`);
    mustNotFail(t, load, 'requests failed');
    await mustAddUp(t, server, schema, [load], emsp);
  });
});
