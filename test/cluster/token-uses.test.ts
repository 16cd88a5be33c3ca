/** Operators see the uses of a partner's tokens, and the requests from outside its `allow_from`, that a door met. [TOKEN-USES-1] */
import type { PartyView } from '../../src/api/parties.ts';
import { partnerFor } from '../support/hub-in-process.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { longer, startNodes, untilJoined } from './nodes.ts';

t.test('the owner shows the token uses that a door saw', longer, async (t) => {
  const server = await sharedPostgres();
  const nodes = await startNodes(t, server, newSchema('uses'), { env: { HUB_PROBE_INTERVAL_S: '1000000' } });
  await untilJoined(nodes.all);
  const { hubToken: token } = await partnerFor(t, nodes, { countryCode: 'NL', role: 'CPO', partyId: 'CPO' });
  const owner = await nodes.owner();
  const door = nodes.all.find((node) => node !== owner) ?? owner;
  const party = async () => (await admin(nodes, 'GET', '/parties/NL-CPO')) as unknown as PartyView;
  const ask = async () => (await ocpi(door, 'GET', '/2.2.1/hubclientinfo', { token })).status;
  t.match(await party(), { tokens: [{ kind: 'hub', last_used: null }], refused_from: null });
  t.equal(await ask(), 200);
  await eventually('the use is shown', async () => (await party()).tokens[0]?.last_used !== null);
  t.match(await party(), { tokens: [{ kind: 'hub', address: '127.0.0.1' }], refused_from: null });
  await admin(nodes, 'PATCH', '/parties/NL-CPO', { allow_from: ['192.0.2.0/24'] });
  for (let n = 0; n < 3; n++) t.equal(await ask(), 401);
  await eventually('all refusals are shown', async () => (await party()).refused_from?.count === 3);
  t.match(await party(), { refused_from: { address: '127.0.0.1' } });
});
