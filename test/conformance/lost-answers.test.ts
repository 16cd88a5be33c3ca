/**
 * Partners that lose the answer to an exchange of credentials: what they are told when they try again, what operators see, and that a
 * re-drive sends what was refused meanwhile. [LOST-ANSWERS-1]
 */
import type { PartyView } from '../../src/api/parties.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin, eventually, type PlainPartner } from '../support/plain-partner.ts';
import { runCommand } from '../support/resident-command.ts';
import { t } from '../support/tap.ts';

const credentials = '/2.2.1/credentials';
const quiet = { HUB_PROBE_INTERVAL_S: '1000000' };
const refusing = { status: 401, text: '{"status_code":2000,"status_message":"Invalid token"}' };

const partyOf = async (hub: TestHub, id: string) => (await admin(hub, 'GET', `/parties/${id}`)) as unknown as PartyView;

const shownOf = async (hub: TestHub, id: string): Promise<string> =>
  (await runCommand(['parties', 'show', id, '--url', hub.url, '--token', hub.adminToken])).out;

const bodyOf = ({ token, url, id }: PlainPartner, role: 'CPO' | 'EMSP') => ({
  ...{ token, url: `${url}/ocpi/versions` },
  roles: [{ role, country_code: 'NL', party_id: id.slice(3) }],
});

async function deadLetter(hub: TestHub, object: string): Promise<void> {
  const isDead = async () =>
    ((await admin(hub, 'GET', `/deliveries?state=DEAD&object=${object}`)).items as []).length > 0;
  await eventually(`${object} is a dead letter`, isDead);
}

t.test('a POST again with the initial token is told how to go on, and so is the log [D6]', async (t) => {
  const lines: string[] = [];
  const hub = await hubFor(
    t,
    { ...quiet, HUB_LOG_LEVEL: 'info' },
    { logTo: { write: (line) => void lines.push(line) } },
  );
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const again = await ocpi(hub, 'POST', credentials, { token: cpo.initialToken, body: bodyOf(cpo, 'CPO') });
  const told =
    'Already registered: use the token that the hub answered, PUT with it replaces it; if that answer was lost, the hub operator issues a new initial token: ocpi-hub parties initial-token NL-CPO';
  t.strictSame([again.status, again.json.status_message], [405, told]);
  await hub.settled();
  const line = lines.find((one) => one.includes('"httpStatus":405')) ?? '{}';
  t.match(JSON.parse(line), { msg: 'request', party: 'NL-CPO', reason: told });
  const asked = { method: 'POST', path: '/ocpi/2.2.1/credentials', module: null, body: '' };
  const { refused } = await admin(hub, 'GET', '/parties/NL-CPO/report');
  t.match(refused, [{ ...asked, reason: told, count: 1 }], 'a line of the log may stand for several requests');
  const { initial_token } = await admin(hub, 'POST', '/parties/NL-CPO/initial-token');
  await cpo.registerAgain(String(initial_token));
  t.equal((await cpo.call('GET', '/2.2.1/hubclientinfo')).status, 200);
});

t.test(
  'a partner that lost the answer to its PUT is found by its 401, and a re-drive works once it is repaired',
  async (t) => {
    const lines: string[] = [];
    const logTo = { write: (line: string) => void lines.push(line) };
    const dataDir = directoryFor(t);
    const first = await hubFor(t, quiet, { logTo }, dataDir);
    let isRolledBack = false;
    const { cpo, emsp } = await routedPair(t, first, { emsp: () => (isRolledBack ? refusing : {}) });
    const push = (id: string) => cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));

    isRolledBack = true;
    await push('S0');
    await deadLetter(first, 'NL-CPO/S0');
    t.match((await partyOf(first, 'NL-EMS')).token_refused, { calls: 1, http_status: 401, unconfirmed: 'POST' });
    await emsp.call('GET', '/versions');
    t.match((await partyOf(first, 'NL-EMS')).token_refused, { unconfirmed: null }, 'it uses the hub token');

    // The answer does not arrive: the hub token of before stays in use.
    const former = emsp.hubToken;
    t.equal(
      (await ocpi(first, 'PUT', credentials, { token: former, body: bodyOf(emsp, 'EMSP') })).json.status_code,
      1000,
    );
    t.equal((await partyOf(first, 'NL-EMS')).token_refused, null, 'an exchange begins again');
    await push('S1');
    await deadLetter(first, 'NL-CPO/S1');
    t.match((await partyOf(first, 'NL-EMS')).token_refused, { calls: 1, http_status: 401, unconfirmed: 'PUT' });
    const warnings = lines.filter((line) => line.includes('probably lost the answer')).map((line) => JSON.parse(line));
    t.match(warnings, [
      { level: 'warn', partyId: 'NL-EMS', exchange: 'POST' },
      { level: 'warn', partyId: 'NL-EMS', exchange: 'PUT' },
    ]);
    t.equal(warnings.length, 2);
    t.match(
      await shownOf(first, 'NL-EMS'),
      /^token refused +1 call with HTTP 401 since .*: it probably lost the answer to its last PUT of credentials, and has to send PUT again with its former hub token, or ocpi-hub parties initial-token NL-EMS for a POST; then ocpi-hub redrive --partner NL-EMS --class auth_error$/m,
    );
    await first.settled();
    await first.close();

    const hub = await hubFor(t, quiet, {}, dataDir);
    for (const partner of [cpo, emsp]) partner.moveTo(hub);
    await push('S2');
    await deadLetter(hub, 'NL-CPO/S2');
    t.match((await partyOf(hub, 'NL-EMS')).token_refused, { unconfirmed: 'PUT' }, 'also after a restart');
    isRolledBack = false;
    const repeated = await emsp.push('PUT', credentials, bodyOf(emsp, 'EMSP'));
    emsp.hubToken = (repeated.json.data as { token: string }).token;
    t.equal((await partyOf(hub, 'NL-EMS')).token_refused, null);
    emsp.received.length = 0;
    await admin(hub, 'POST', '/redrive', { filter: { partner: 'NL-EMS', class: 'auth_error' } });
    for (const id of ['S0', 'S1', 'S2']) await emsp.got(id, ({ path }) => path.endsWith(`/sessions/NL/CPO/${id}`));
  },
);

t.test('a probe that any token passes hides no refusal, and a call that is taken ends it', async (t) => {
  const hub = await hubFor(t, quiet);
  let isRefusing = true;
  const { cpo } = await routedPair(t, hub, { emsp: () => (isRefusing ? refusing : {}) });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await deadLetter(hub, 'NL-CPO/L1');
  t.match(await admin(hub, 'POST', '/parties/NL-EMS/probe'), { status: 'reachable' });
  t.match((await partyOf(hub, 'NL-EMS')).token_refused, { calls: 1 });
  isRefusing = false;
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L2', locationBody('L2'));
  await hub.settled();
  t.equal((await partyOf(hub, 'NL-EMS')).token_refused, null);
});

t.test('a refused exchange is in the report of its partner, without its body', async (t) => {
  const hub = await hubFor(t, quiet);
  const discovery = () => (isDown ? { status: 503, text: 'down' } : undefined);
  let isDown = false;
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO', discovery });
  isDown = true;
  const answer = await cpo.call('PUT', credentials, bodyOf(cpo, 'CPO'));
  t.equal(answer.json.status_code, 3001);
  const { refused } = await admin(hub, 'GET', '/parties/NL-CPO/report');
  t.match(refused, [{ method: 'PUT', reason: answer.json.status_message, code: 'partnerUnusable', body: '' }]);
  t.notMatch(JSON.stringify(refused), cpo.token);
});

t.test('a partner that refuses one module and takes another is warned of once [LOST-ANSWERS-2]', async (t) => {
  const lines: string[] = [];
  const hub = await hubFor(t, quiet, { logTo: { write: (line) => void lines.push(line) } });
  const { cpo } = await routedPair(t, hub, { emsp: ({ path }) => (path.includes('/sessions/') ? refusing : {}) });
  for (const id of ['1', '2', '3']) {
    await cpo.push('PUT', `/2.2.1/locations/NL/CPO/L${id}`, locationBody(`L${id}`));
    await hub.settled();
    await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/S${id}`, sessionBody(`S${id}`));
    await deadLetter(hub, `NL-CPO/S${id}`);
  }
  t.equal(lines.filter((line) => line.includes('probably lost the answer')).length, 1);
});
