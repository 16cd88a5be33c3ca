/** How long an initial token can be used. [D74] [D88] */
import type { RunningHub } from '../../src/main.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { ocpi, type Refused, refused } from '../support/ocpi-call.ts';
import { admin, plainPartner } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const credentials = '/2.2.1/credentials';
const invalidToken: Refused = [401, 2000, 'Invalid token'];
const dayMs = 86_400_000;
const quiet = { HUB_PROBE_INTERVAL_S: '1000000' };
const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }];

const expiryOf = async (hub: RunningHub) => (await admin(hub, 'GET', '/parties/NL-CPO')).initial_token_expires_at;

async function bodyFor(t: Test) {
  const { token, url, close } = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  t.teardown(close);
  return { token, url: `${url}/ocpi/versions`, roles };
}

t.test(
  'an initial token expires 14 days after it was issued, whatever restarts happen; a new one works [D74] [D88]',
  async (t) => {
    const clock = new SimulatedClock('2026-05-01T12:00:00Z');
    const dataDir = directoryFor(t);
    const body = await bodyFor(t);
    const first = await hubFor(t, quiet, { clock }, dataDir);
    const added = await admin(first, 'POST', '/parties', { roles });
    t.equal(added.initial_token_expires_at, '2026-05-15T12:00:00.000Z', 'its end is shown');
    const token = String(added.initial_token);
    await first.close();
    const hub = await hubFor(t, quiet, { clock }, dataDir);
    clock.advance(14 * dayMs - 1);
    t.equal((await ocpi(hub, 'GET', '/versions', { token })).status, 200, 'one millisecond before');
    clock.advance(1);
    for (const path of ['/versions', '/2.2.1'])
      refused(t, await ocpi(hub, 'GET', path, { token }), invalidToken, `${path} at the end`);
    refused(t, await ocpi(hub, 'POST', credentials, { token, body }), invalidToken, 'POST at the end');
    const { initial_token } = await admin(hub, 'POST', '/parties/NL-CPO/initial-token');
    t.equal(await expiryOf(hub), '2026-05-29T12:00:00.000Z');
    const registered = await ocpi(hub, 'POST', credentials, { token: String(initial_token), body });
    t.equal(registered.json.status_code, 1000);
    t.equal(await expiryOf(hub), null, 'a used one has no end');
  },
);

t.test('a registered partner goes on when an unused initial token of it has expired [D73] [D88]', async (t) => {
  const clock = new SimulatedClock('2026-05-01T12:00:00Z');
  const hub = await hubFor(t, { ...quiet, HUB_INITIAL_TOKEN_DAYS: '0.5' }, { clock });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const token = String((await admin(hub, 'POST', '/parties/NL-CPO/initial-token')).initial_token);
  clock.advance(dayMs / 2);
  refused(t, await ocpi(hub, 'GET', '/versions', { token }), invalidToken, 'the initial token');
  t.equal((await ocpi(hub, 'GET', credentials, { token: cpo.hubToken })).status, 200);
});

t.test('with HUB_INITIAL_TOKEN_DAYS=0 an initial token does not expire', async (t) => {
  const clock = new SimulatedClock('2026-05-01T12:00:00Z');
  const hub = await hubFor(t, { ...quiet, HUB_INITIAL_TOKEN_DAYS: '0' }, { clock });
  const { initial_token } = await admin(hub, 'POST', '/parties', { roles });
  t.equal(await expiryOf(hub), null);
  clock.advance(5000 * dayMs);
  t.equal((await ocpi(hub, 'GET', '/versions', { token: String(initial_token) })).status, 200);
});
