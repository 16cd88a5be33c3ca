/**
 * What becomes of the token that a rotation takes the place of, of a rotation whose answer was lost, and of a partner that is given an
 * initial token while it is registered. [D73]
 */
import { request } from 'node:http';
import { HubError } from '../../src/domain/errors.ts';
import type { RunningHub } from '../../src/main.ts';
import { sessionBody } from '../support/bodies.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, secretKey } from '../support/hub-in-process.ts';
import { ocpi, type Refused, refused } from '../support/ocpi-call.ts';
import { admin, type PlainPartner, type PlainPartnerOptions } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const credentials = '/2.2.1/credentials';
const invalidToken: Refused = [401, 2000, 'Invalid token'];
const notRegistered: Refused = [405, 2000, 'Not registered'];
const alreadyRegistered: Refused = [405, 2000, 'Already registered'];
const spentPost: Refused = [405, 2000, /^Already registered: .* ocpi-hub parties initial-token NL-CPO$/];
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Nobody is probed, so that nothing but the test records facts. */
const quiet = { HUB_PROBE_INTERVAL_S: '1000000' };

type Hub = Pick<RunningHub, 'url' | 'adminToken'>;

const cpoFor = (t: Test, hub: Hub, options: Partial<PlainPartnerOptions> = {}) =>
  partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO', ...options });

const bodyOf = ({ token, url }: PlainPartner) => ({
  ...{ token, url: `${url}/ocpi/versions` },
  roles: [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }],
});

/** PUT of the credentials; the token of its answer. */
async function rotated(hub: Hub, partner: PlainPartner, token: string): Promise<string> {
  const { json } = await ocpi(hub, 'PUT', credentials, { token, body: bodyOf(partner) });
  if (json.status_code !== 1000) throw new Error(JSON.stringify(json));
  return (json.data as { token: string }).token;
}

const statusWith = async (hub: Hub, token: string) => (await ocpi(hub, 'GET', credentials, { token })).status;

async function countOf(hub: Hub, type: string): Promise<number> {
  const { items } = (await admin(hub, 'GET', `/events?type=${type}`)) as { items: object[] };
  return items.length;
}

t.test('the former token of a rotation works in full until the new one is used [D73]', async (t) => {
  const hub = await hubFor(t, quiet);
  const cpo = await cpoFor(t, hub);
  const former = cpo.hubToken;
  const next = await rotated(hub, cpo, former);
  const path = '/2.2.1/sessions/NL/CPO/S1';
  const push = (token: string) => ocpi(hub, 'PUT', path, { token, body: sessionBody('S1') });
  t.equal((await push(former)).json.status_code, 1000, 'a push');
  for (const asked of ['/versions', '/2.2.1', '/2.2.1/hubclientinfo', credentials, path])
    t.equal((await ocpi(hub, 'GET', asked, { token: former })).status, 200, asked);
  refused(
    t,
    await ocpi(hub, 'POST', credentials, { token: former, body: bodyOf(cpo) }),
    alreadyRegistered,
    'POST, as with any hub token',
  );
  t.equal(await countOf(hub, 'partner.tokenConfirmed'), 0);
  t.equal((await ocpi(hub, 'GET', '/versions', { token: next })).status, 200, 'the new one is used');
  refused(t, await push(former), invalidToken, 'a push with the former one');
  for (const method of ['GET', 'PUT', 'DELETE'])
    refused(t, await ocpi(hub, method, credentials, { token: former, body: bodyOf(cpo) }), invalidToken, method);
  for (let n = 0; n < 5; n++) t.equal(await statusWith(hub, next), 200);
  await hub.settled();
  t.ok((await countOf(hub, 'partner.tokenConfirmed')) > 0, 'the first use is recorded');
  t.equal(await countOf(hub, 'partner.tokenConfirmed'), 1, 'once');
});

t.test('a former token expires after 24 h, even if the new one was never used [D73]', async (t) => {
  const clock = new SimulatedClock('2026-05-01T12:00:00Z');
  const hub = await hubFor(t, quiet, { clock });
  const cpo = await cpoFor(t, hub);
  const next = await rotated(hub, cpo, cpo.hubToken);
  clock.advance(dayMs - 1);
  t.equal(await statusWith(hub, cpo.hubToken), 200, 'one millisecond before');
  clock.advance(1);
  const late = await ocpi(hub, 'PUT', credentials, { token: cpo.hubToken, body: bodyOf(cpo) });
  refused(t, late, invalidToken, 'after a day');
  t.equal(await statusWith(hub, next), 200);
});

t.test('another rotation with the former token does not extend its 24 h [D73]', async (t) => {
  const clock = new SimulatedClock('2026-05-01T12:00:00Z');
  const hub = await hubFor(t, quiet, { clock });
  const cpo = await cpoFor(t, hub);
  await rotated(hub, cpo, cpo.hubToken);
  clock.advance(23 * hourMs);
  const next = await rotated(hub, cpo, cpo.hubToken);
  clock.advance(2 * hourMs);
  const late = await ocpi(hub, 'PUT', credentials, { token: cpo.hubToken, body: bodyOf(cpo) });
  refused(t, late, invalidToken, '25 h after the first rotation');
  t.equal(await statusWith(hub, next), 200, 'the token of the second answer');
});

t.test('a partner that lost the answer of its PUT repeats it with its former token [D73]', async (t) => {
  let cut: () => void = () => {};
  const hub = await hubFor(t, quiet);
  const cpo = await cpoFor(t, hub, {
    discovery: () => {
      cut();
      return undefined;
    },
  });
  const { hostname, port } = new URL(hub.url);
  const text = JSON.stringify(bodyOf(cpo));
  await new Promise<void>((resolve) => {
    const Authorization = `Token ${btoa(cpo.hubToken)}`;
    const headers = { Authorization, 'Content-Type': 'application/json', 'Content-Length': text.length };
    const call = request({ hostname, port, method: 'PUT', path: `/ocpi${credentials}`, headers });
    call.on('error', () => resolve());
    // The hub reads the versions of the partner, whose connection is gone.
    cut = () => call.destroy();
    call.end(text);
  });
  cut = () => {};
  await hub.settled();
  t.equal(await countOf(hub, 'partner.rotated'), 1, 'it is rotated all the same');
  const second = await rotated(hub, cpo, cpo.hubToken);
  const third = await rotated(hub, cpo, cpo.hubToken);
  t.equal(await statusWith(hub, second), 401, 'a token that another one took the place of before it was used');
  t.equal(await statusWith(hub, cpo.hubToken), 200, 'nothing was used yet');
  t.equal(await statusWith(hub, third), 200);
  t.equal(await statusWith(hub, cpo.hubToken), 401);
});

t.test('a former token and its end survive a restart and a kill [D73]', atLength, async (t) => {
  const dataDir = directoryFor(t);
  const first = await startChildHub({ dataDir, port: 0, env: { ...quiet, HUB_SECRET_KEY: secretKey } });
  const cpo = await cpoFor(t, first);
  const next = await rotated(first, cpo, cpo.hubToken);
  await first.kill();
  const second = await hubFor(t, quiet, {}, dataDir);
  t.equal(await statusWith(second, cpo.hubToken), 200, 'after a kill');
  t.equal(await statusWith(second, next), 200, 'the new one is used');
  await second.settled();
  t.equal(await countOf(second, 'partner.tokenConfirmed'), 1, 'that is recorded');
  await second.close();
  const third = await hubFor(t, quiet, {}, dataDir);
  t.equal(await statusWith(third, cpo.hubToken), 401, 'ended before the restart');
  t.equal(await statusWith(third, next), 200);
});

t.test('a first use that could not be recorded is recorded at the next use [D73]', async (t) => {
  const dataDir = directoryFor(t);
  const first = await hubFor(t, quiet, {}, dataDir);
  const cpo = await cpoFor(t, first);
  const next = await rotated(first, cpo, cpo.hubToken);
  const { recorder } = first.created.context;
  const record = recorder.record.bind(recorder);
  let refusals = 0;
  recorder.record = async (recording) => {
    if (recording.facts.every(({ event }) => event.type !== 'partner.tokenConfirmed')) return record(recording);
    refusals++;
    throw new HubError('unavailable', { retryAfterS: 1 });
  };
  t.equal(await statusWith(first, next), 200, 'the new one is used while the store refuses writes');
  t.equal(refusals, 1, 'which was to be recorded');
  t.equal(await statusWith(first, cpo.hubToken), 401, 'the former one has ended all the same');
  recorder.record = record;
  t.equal(await statusWith(first, next), 200, 'it is used again');
  await first.settled();
  t.equal(await countOf(first, 'partner.tokenConfirmed'), 1, 'that is recorded');
  await first.close();
  const second = await hubFor(t, quiet, {}, dataDir);
  t.equal(await statusWith(second, cpo.hubToken), 401, 'and the former one stays ended after a restart');
});

for (const [how, end] of [
  [
    'DELETE with the new token',
    (hub: Hub, _: string, next: string) => ocpi(hub, 'DELETE', credentials, { token: next }),
  ],
  ['DELETE with the former one', (hub: Hub, token: string) => ocpi(hub, 'DELETE', credentials, { token })],
  ['a suspend by an operator', (hub: Hub) => admin(hub, 'POST', '/parties/NL-CPO/suspend')],
] as const)
  t.test(`${how} ends the former token and the new one [D73] [D10]`, async (t) => {
    const hub = await hubFor(t, quiet);
    const cpo = await cpoFor(t, hub);
    const next = await rotated(hub, cpo, cpo.hubToken);
    t.equal(await statusWith(hub, cpo.hubToken), 200, 'the former one is good');
    await end(hub, cpo.hubToken, next);
    for (const token of [cpo.hubToken, next]) {
      t.equal(await statusWith(hub, token), 401);
      refused(t, await ocpi(hub, 'DELETE', credentials, { token }), notRegistered, 'it is remembered');
    }
  });

t.test('a registered partner goes on until it has registered again with an initial token [D73] [D9]', async (t) => {
  let isIll = false;
  const hub = await hubFor(t, quiet);
  const cpo = await cpoFor(t, hub, { discovery: () => (isIll ? { status: 500 } : undefined) });
  const former = await rotated(hub, cpo, cpo.hubToken);
  const initial = String((await admin(hub, 'POST', '/parties/NL-CPO/initial-token')).initial_token);
  t.match(await admin(hub, 'GET', '/parties/NL-CPO'), { status: 'CONNECTED' });
  for (const path of ['/versions', '/2.2.1'])
    t.equal((await ocpi(hub, 'GET', path, { token: initial })).status, 200, `${path} with the initial token`);
  const call = (method: string, token: string) => {
    const body = method.startsWith('P') ? { body: bodyOf(cpo) } : {};
    return ocpi(hub, method, credentials, { token, ...body });
  };
  refused(t, await call('GET', initial), invalidToken, 'GET with the initial token');
  refused(t, await call('PUT', initial), notRegistered, 'PUT with the initial token');
  isIll = true;
  refused(t, await call('POST', initial), [200, 3001, /./], 'a POST that fails');
  isIll = false;
  t.equal(await statusWith(hub, cpo.hubToken), 200, 'which ends nothing, not even the token of a rotation before');
  t.equal(await statusWith(hub, former), 200);
  const present = await rotated(hub, cpo, former);
  const answer = await call('POST', initial);
  t.equal(answer.json.status_code, 1000, 'the initial token is good through a rotation');
  const next = (answer.json.data as { token: string }).token;
  for (const token of [cpo.hubToken, former, present, initial])
    refused(t, await call('GET', token), invalidToken, 'earlier tokens end at once');
  refused(t, await call('POST', initial), spentPost, 'the initial token is spent');
  t.equal(await statusWith(hub, next), 200);
  t.match(await admin(hub, 'GET', '/parties/NL-CPO'), { status: 'CONNECTED' });
});

t.test('what operators see of a rotation has no digest [D73]', async (t) => {
  const hub = await hubFor(t, quiet);
  const cpo = await cpoFor(t, hub);
  await rotated(hub, cpo, cpo.hubToken);
  const { items } = (await admin(hub, 'GET', '/events?type=partner.rotated')) as { items: { data: object }[] };
  t.strictSame(
    items.map(({ data }) => Object.keys(data).sort()),
    [['discovered', 'formerUntil', 'roles', 'tokenEncoding', 'url']],
  );
  t.notMatch(JSON.stringify(await admin(hub, 'GET', '/parties/NL-CPO')), /digest/i);
});
