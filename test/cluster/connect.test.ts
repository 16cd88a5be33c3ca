/** An exchange of credentials that the hub begins on several nodes: the partner calls whichever node its request reaches. */
import type { CredentialsBody } from '../../src/domain/party.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin, type PlainPartner, plainPartner } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { within } from '../support/within.ts';
import { skip, startNodes, untilJoined } from './nodes.ts';

const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS', business_details: { name: 'Drivers & Co' } }];

t.test('no node refuses the token of an exchange that another one has not ended [D81]', { skip }, async (t) => {
  const server = await sharedPostgres();
  const env = { HUB_PROBE_INTERVAL_S: '1000000' };
  const nodes = await startNodes(t, server, newSchema('connect'), { here: true, env });
  await untilJoined(nodes.all);
  const [owner, [door]] = [await nodes.owner(), await nodes.standbys()];
  if (!door) throw new Error('no standby');
  const at = (token: string, path: string) =>
    Promise.all([owner, door].map(async (node) => (await ocpi(node, 'GET', path, { token })).status));
  let release = () => {};
  const held = new Promise<undefined>((resolve) => {
    release = () => resolve(undefined);
  });
  const moved = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'EMS', discovery: () => held });
  let token = '';
  const partner: PlainPartner = await plainPartner({
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
    answer: async ({ method, path, body }) => {
      if (method !== 'POST' || path !== '/ocpi/2.2.1/credentials') return {};
      ({ token } = JSON.parse(body) as CredentialsBody);
      t.strictSame(await at(token, '/versions'), [200, 200], 'before it answers');
      t.strictSame(await at(token, '/2.2.1/locations'), [401, 401], 'and nothing else yet');
      return { body: { url: `${moved.url}/ocpi/versions`, token: moved.token, roles } };
    },
  });
  t.teardown(() => Promise.all([moved.close(), partner.close()]));
  await admin(owner.hub, 'POST', '/parties', { roles: [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS' }] });
  const invitation = { versions_url: `${partner.url}/ocpi/versions`, token: partner.token };
  const connected = admin(owner.hub, 'POST', '/parties/NL-EMS/connect', invitation);
  const asked = moved.holding > 0 ? Promise.resolve() : moved.changed();
  await within(30_000, Promise.race([asked, connected]), () => 'the hub asks for no versions');
  t.strictSame(await at(token, '/2.2.1/locations'), [503, 503], 'from its answer to the end of the exchange');
  t.strictSame(await at('nobodys', '/2.2.1/locations'), [401, 401], 'another token');
  release();
  t.match(await connected, { status: 'CONNECTED' });
  t.strictSame(await at(token, '/2.2.1/locations'), [200, 200]);
});
