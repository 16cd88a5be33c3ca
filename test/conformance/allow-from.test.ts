/** Networks from which a partner may call, and when and from where its tokens were used. */

import { request } from 'node:http';
import type { RunningHub } from '../../src/main.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { ocpi, refused } from '../support/ocpi-call.ts';
import { admin } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const quiet = { HUB_PROBE_INTERVAL_S: '1000000' };
const credentials = '/2.2.1/credentials';
const party = (hub: RunningHub) => admin(hub, 'GET', '/parties/NL-CPO');

/** The HTTP status of a GET of the credentials from this address of the machine. */
function statusFrom(hub: RunningHub, localAddress: string, token: string): Promise<number | undefined> {
  const { hostname, port } = new URL(hub.url);
  const headers = { Authorization: `Token ${btoa(token)}` };
  return new Promise((resolve, reject) => {
    request({ hostname, port, localAddress, path: `/ocpi${credentials}`, headers, agent: false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode));
    })
      .on('error', reject)
      .end();
  });
}

t.test('a token is accepted only from the networks of its partner', async (t) => {
  const hub = await hubFor(t, quiet);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  t.equal(await statusFrom(hub, '127.0.0.2', cpo.hubToken), 200, 'from everywhere by default');
  t.match(
    await admin(hub, 'PATCH', '/parties/NL-CPO', { allow_from: ['192.0.2.0/24', '127.0.0.2', '2001:db8::/32'] }),
    {
      settings: { allow_from: ['192.0.2.0/24', '127.0.0.2', '2001:db8::/32'] },
    },
  );
  t.equal(await statusFrom(hub, '127.0.0.2', cpo.hubToken), 200, 'an address of them');
  for (let n = 0; n < 2; n++)
    refused(t, await ocpi(hub, 'GET', credentials, { token: cpo.hubToken }), [401, 2000, 'Invalid token'], 'any other');
  t.equal(await statusFrom(hub, '127.0.0.1', emsp.hubToken), 200, 'other partners are not concerned');
  t.match(await party(hub), { refused_from: { count: 2, address: '127.0.0.1' } });
  const answer = await fetch(`${hub.url}/metrics`, { headers: { Authorization: `Bearer ${hub.adminToken}` } });
  t.match(await answer.text(), /foreign_requests_total\{partner="NL-CPO"\} 2/);
  await admin(hub, 'PATCH', '/parties/NL-CPO', { allow_from: [] });
  t.equal(await statusFrom(hub, '127.0.0.1', cpo.hubToken), 200, 'without a list from everywhere again');
});

t.test('a stolen token that is used from elsewhere does not end the former token [D73]', async (t) => {
  const hub = await hubFor(t, quiet);
  const { hubToken, token, url } = await partnerFor(
    t,
    hub,
    { role: 'CPO', countryCode: 'NL', partyId: 'CPO' },
    { allow_from: ['127.0.0.0/24'] },
  );
  const body = { token, url: `${url}/ocpi/versions`, roles: [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }] };
  const { json } = await ocpi(hub, 'PUT', credentials, { token: hubToken, body });
  const next = (json.data as { token: string }).token;
  t.equal(await statusFrom(hub, '127.0.1.1', next), 401);
  t.equal(await statusFrom(hub, '127.0.0.1', hubToken), 200, 'the former one is still good');
  t.equal(await statusFrom(hub, '127.0.0.1', next), 200);
  t.equal(await statusFrom(hub, '127.0.0.1', hubToken), 401);
});

t.test('a party shows when and from where each of its tokens was last used', async (t) => {
  const clock = new SimulatedClock('2026-05-01T12:00:00Z');
  const hub = await hubFor(t, quiet, { clock });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  t.strictSame((await party(hub)).tokens, [{ kind: 'hub', last_used: null, address: null }]);
  clock.advance(60_000);
  await statusFrom(hub, '127.0.0.2', cpo.hubToken);
  await admin(hub, 'POST', '/parties/NL-CPO/initial-token');
  t.strictSame((await party(hub)).tokens, [
    { kind: 'hub', last_used: '2026-05-01T12:01:00.000Z', address: '127.0.0.2' },
    { kind: 'initial', last_used: null, address: null },
  ]);
  await ocpi(hub, 'GET', credentials, { token: `${cpo.hubToken}x` });
  t.match(
    await party(hub),
    { tokens: [{ last_used: '2026-05-01T12:01:00.000Z' }, {}] },
    'a wrong token counts for nobody',
  );
});

t.test('an invalid network is refused', async (t) => {
  const hub = await hubFor(t, quiet);
  await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  for (const allow_from of [['10.0.0.0/33'], ['cpo.example'], [''], '10.0.0.0/8']) {
    const answer = await fetch(`${hub.url}/admin/v1/parties/NL-CPO`, {
      method: 'PATCH',
      headers: { Authorization: `Bearer ${hub.adminToken}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ allow_from }),
    });
    t.equal(answer.status, 422, JSON.stringify(allow_from));
  }
});
