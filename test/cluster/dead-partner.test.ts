/**
 * A partner that is dead while a thousand updates queue for it: others are served meanwhile, nothing but its own is kept aside, and it
 * catches up in order, from another owner than the one that took them.
 */
import { partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { goesOn, mustAddUp, startLoad } from './load.ts';
import { longer, shortLease, startNodes } from './nodes.ts';

const env = { ...shortLease, HUB_RATE_OTHER_PER_MIN: '1000000', HUB_CIRCUIT_OPEN_MS: '500', HUB_PROBE_INTERVAL_S: '1' };
/** Two busy cores write slowly. */
const patienceMs = 120_000;

t.test('a dead partner', longer, async (t) => {
  const server = await sharedPostgres();
  const schema = newSchema('dead');
  const nodes = await startNodes(t, server, schema, { env });
  const { cpo, emsp } = await routedPair(t, nodes);
  let isDead = true;
  const dead = await partnerFor(t, nodes, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'DED' },
    answer: () => (isDead ? { isCut: true } : {}),
  });
  await admin(nodes, 'PUT', '/routes/NL-DED/NL-CPO', { active: true });
  const queued = startLoad(nodes.url, cpo, 'D', dead);
  await goesOn(queued, 500, patienceMs);
  const others = startLoad(nodes.url, cpo, 'O');
  await goesOn(queued, 500, patienceMs);
  await Promise.all([queued.stop(), others.stop()]);
  await mustAddUp(t, server, schema, [others], emsp);
  t.pass('the others have everything while it is dead');
  const aside = await server.query<{ dest: string }>(
    `select distinct dest from ${schema}.deliveries where state <> 'DELIVERED'`,
  );
  t.strictSame(aside, [{ dest: 'NL-DED' }], 'rows are kept for it alone');
  const owner = await nodes.owner();
  await owner.hub.kill();
  await nodes.owner();
  dead.received.splice(0);
  isDead = false;
  await mustAddUp(t, server, schema, [queued], dead);
  const inState = async (state: string) => (await admin(nodes, 'GET', `/deliveries?state=${state}`)).items;
  t.strictSame(await inState('DEAD'), [], 'nothing ended as a dead letter');
  await eventually('nothing is owed any more', async () => ((await inState('PENDING')) as unknown[]).length === 0);
});
