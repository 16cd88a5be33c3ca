/** A rotation on several nodes: both tokens count at every node, and so does the end of the former one, also when the owner dies meanwhile. */
import { partnerFor } from '../support/hub-in-process.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { eventually, type PlainPartner } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { longer, type Node, shortLease, startNodes, untilJoined } from './nodes.ts';

const credentials = '/2.2.1/credentials';

t.test('both tokens of a rotation work at every node until the new one is used [D73]', longer, async (t) => {
  const server = await sharedPostgres();
  const schema = newSchema('former');
  const nodes = await startNodes(t, server, schema, { env: { ...shortLease, HUB_PROBE_INTERVAL_S: '1000000' } });
  await untilJoined(nodes.all);
  const rotated = async (partyId: string) => {
    const partner = await partnerFor(t, nodes, { countryCode: 'NL', role: 'CPO', partyId });
    const { json } = await ocpi(nodes, 'PUT', credentials, {
      token: partner.hubToken,
      body: {
        ...{ token: partner.token, url: `${partner.url}/ocpi/versions` },
        roles: [{ role: 'CPO', country_code: 'NL', party_id: partner.id.slice(3) }],
      },
    });
    return { partner, token: (json.data as { token: string }).token };
  };
  const statuses = (token: string, at: readonly Node[] = nodes.all) =>
    Promise.all(at.map(async (node) => (await ocpi(node, 'GET', credentials, { token })).status));
  const formerOf = ({ partner }: { partner: PlainPartner }) => partner.hubToken;

  const [used, unused] = [await rotated('USE'), await rotated('NOT')];
  t.strictSame(await statuses(formerOf(used)), [200, 200], 'the former one, at either node');
  t.strictSame(await statuses(used.token), [200, 200], 'the new one');
  t.strictSame(await statuses(formerOf(used)), [401, 401], 'the former one, after the new one was used');
  await eventually('the first use is recorded', async () => {
    const found = await server.query(`select 1 from ${schema}.events where type = 'partner.tokenConfirmed'`);
    return found.length > 0;
  });
  const owner = await nodes.owner();
  await owner.hub.kill();
  const left = nodes.all.filter((node) => node !== owner);
  await eventually('the other node is the owner', async () => (await statuses(used.token, left))[0] === 200);
  t.strictSame(await statuses(formerOf(used), left), [401], 'what ended has ended');
  t.strictSame(await statuses(formerOf(unused), left), [200], 'what was not used goes on');
  t.strictSame(await statuses(unused.token, left), [200]);
  t.strictSame(await statuses(formerOf(unused), left), [401]);
});
