/**
 * Owners that die and owners that stand still, under load: nothing acknowledged is lost, nothing is there twice, order holds, and who
 * was the owner is not any more.
 */
import { routedPair } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { atLength, partOf } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { goesOn, mustAddUp, startLoad } from './load.ts';
import { shortLease, skip, startNodes } from './nodes.ts';

const kills = partOf(20);
const env = { ...shortLease, HUB_RATE_OTHER_PER_MIN: '1000000' };

t.test('the owner is killed', { skip }, async (t) => {
  const server = await sharedPostgres();

  t.test(`the owner is killed under load, ${kills} times`, async (t) => {
    const schema = newSchema('killed');
    const nodes = await startNodes(t, server, schema, { env, ...(kills === 1 && { here: 'others' as const }) });
    const { cpo, emsp } = await routedPair(t, nodes);
    const load = startLoad(nodes.url, cpo, 'K');
    const pauses: number[] = [];
    for (let i = 0; i < kills; i += 1) {
      await goesOn(load);
      // At another moment of a write each time.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 50));
      const owner = await nodes.owner();
      const begun = performance.now();
      await owner.hub.kill();
      await goesOn(load, 1);
      pauses.push(Math.round(performance.now() - begun));
      await owner.start();
    }
    await goesOn(load);
    await load.stop();
    t.comment(`from each kill to the next acknowledged write: ${pauses.join(', ')} ms`);
    await mustAddUp(t, server, schema, [load], emsp);
  });

  t.test('the owner freezes for longer than its lease', atLength, async (t) => {
    const schema = newSchema('paused');
    const nodes = await startNodes(t, server, schema, { env });
    const { cpo, emsp } = await routedPair(t, nodes);
    const owner = await nodes.owner();
    const [standby] = await nodes.standbys();
    if (standby === undefined) throw new Error('no standby');
    const before = await nodes.token();
    const late = startLoad(owner.url, cpo, 'P');
    await goesOn(late);
    process.kill(owner.hub.pid, 'SIGSTOP');
    const load = startLoad(standby.url, cpo, 'Q');
    await eventually('the other node is the owner', async () => (await nodes.holder()) === standby);
    await goesOn(load, 200);
    await load.stop();
    const isOwed = async () => {
      const [row] = await server.query<{ n: string }>(
        `select count(*) as n from ${schema}.events e where type = 'object.put' and cardinality(e."to") > 0`,
      );
      return (
        new Set(emsp.received.filter(({ method }) => method !== 'GET').map(({ body }) => body)).size < Number(row?.n)
      );
    };
    await eventually('nothing is owed any more', async () => !(await isOwed()));
    const arrived = emsp.received.length;
    const stopped = late.stop();
    process.kill(owner.hub.pid, 'SIGCONT');
    await stopped;
    await eventually('the former owner knows that it is not any more', async () => {
      return owner.hub.log().includes('is not the owner any more');
    });
    const known = new Set(emsp.received.slice(0, arrived).map(({ body }) => body));
    const stale = emsp.received.slice(arrived).filter(({ body }) => known.has(body));
    t.ok(stale.length <= 64, `${stale.length} deliveries that were in flight came again`);
    t.ok((await nodes.token()) > before, 'the log is under a later token');
    const through = startLoad(owner.url, cpo, 'R');
    await goesOn(through);
    await through.stop();
    await mustAddUp(t, server, schema, [late, load, through], emsp);
  });
});
