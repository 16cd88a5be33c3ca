/**
 * Three nodes that share the parties: a session path whose parties live on different nodes, and a node that dies under load while what is
 * owed crosses from each node to the next one.
 */
import { openPath, sessionPath } from '../../src/sandbox/session-path.ts';
import { partnerFor } from '../support/hub-in-process.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { newSchema, type PostgresServer, sharedPostgres } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';
import { goesOn, mustAddUp, startLoad } from './load.ts';
import { adminToken, longer, type Nodes, shortLease, startNodes } from './nodes.ts';
import { partiesOn, untilShared } from './shares.ts';

const env = { ...shortLease, HUB_RATE_OTHER_PER_MIN: '1000000' };
const kills = 6;
const schema = newSchema('three');

t.test('three nodes share the parties', longer, async (t) => {
  const server = await sharedPostgres();
  const nodes = await startNodes(t, server, schema, { count: 3, env });
  await untilShared(nodes);

  t.test('the session path of a CPO and an eMSP, each request through another node', async (t) => {
    const [, cpos, emsps] = await namesOn(nodes, server);
    // Neither lives on the node that answers what is of no party, and every third request comes there.
    const context = await openPath({
      ...{ hubUrl: nodes.url, adminToken, retryUntilAnswered: false },
      cpo: { party_id: cpos?.() ?? '' },
      emsp: { country_code: 'NL', party_id: emsps?.() ?? '' },
    });
    t.teardown(() => context.close());
    for (const step of sessionPath) await t.resolves(step.run(context), step.name);
    const { items } = await admin(nodes, 'GET', '/deliveries?limit=1000');
    const unfinished = (items as { state: string }[]).filter(({ state }) => state !== 'DELIVERED');
    t.same(unfinished, [], 'nothing is owed any more, nothing is dead');
  });

  t.test(`a node is killed under load, ${kills} times`, async (t) => {
    const pairs = await aroundTheNodes(t, nodes, server);
    const loads = pairs.map(({ cpo, emsp }, i) => startLoad(nodes.url, cpo, `T${i}`, emsp));
    const pauses: number[] = [];
    for (let i = 0; i < kills; i += 1) {
      for (const load of loads) await goesOn(load, 20);
      // At another moment of a write each time.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 50));
      const victim = nodes.all[i % nodes.all.length];
      const begun = performance.now();
      await victim?.hub.kill();
      await Promise.all(loads.map((load) => goesOn(load, 1)));
      pauses.push(Math.round(performance.now() - begun));
      if (i === kills - 1) break;
      await victim?.start();
      await untilShared(nodes);
    }
    for (const load of loads) await goesOn(load, 20);
    for (const load of loads) await load.stop();
    t.comment(`from each kill to the next acknowledged write of every party: ${pauses.join(', ')} ms`);
    for (const { emsp } of pairs) await mustAddUp(t, server, schema, loads, emsp);
  });
});

/** For each node, what gives the next party that lives there. */
const namesOn = (nodes: Nodes, server: PostgresServer) =>
  Promise.all(nodes.all.map((node) => partiesOn(server, schema, node)));

/** A CPO on each node, and its eMSP on the next one. */
async function aroundTheNodes(t: Test, nodes: Nodes, server: PostgresServer) {
  const names = await namesOn(nodes, server);
  const pairs: { cpo: PlainPartner; emsp: PlainPartner }[] = [];
  for (const [i, next] of names.entries()) {
    const nextOfAnother = names[(i + 1) % names.length] ?? next;
    const cpo = await partnerFor(t, nodes, { countryCode: 'NL', role: 'CPO', partyId: next() });
    const emsp = await partnerFor(t, nodes, { countryCode: 'NL', role: 'EMSP', partyId: nextOfAnother() });
    await admin(nodes, 'PUT', `/routes/${emsp.id}/${cpo.id}`, { active: true });
    pairs.push({ cpo, emsp });
  }
  return pairs;
}
