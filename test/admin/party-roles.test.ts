/**
 * An operator adds roles to a registered partner and removes some. [D12, D16, D41, PARTY-ROLES-1, PARTY-ROLES-2, PARTY-ROLES-3]
 */
import { once } from 'node:events';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { PartyView } from '../../src/api/parties.ts';
import { StoreUnavailable } from '../../storage/contract.ts';
import { cdrBody, locationBody, sessionBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin, eventually, type PartnerParty, type PlainPartner } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';

const both = [
  ...(['locations', 'tariffs', 'sessions', 'cdrs'] as const).map((module) => [module, 'RECEIVER'] as const),
  ['tokens', 'RECEIVER'] as const,
  ['commands', 'RECEIVER'] as const,
];

const role = (role: 'CPO' | 'EMSP', party_id: string): PartnerParty => ({ role, country_code: 'NL', party_id });

async function setRoles(hub: TestHub, id: string, ...roles: PartnerParty[]): Promise<{ status: number; text: string }> {
  const authorization = `Bearer ${hub.adminToken}`;
  return callOnce('PUT', `${hub.url}/admin/v1/parties/${id}/roles`, { roles }, { authorization });
}

const partyOf = async (hub: TestHub, id: string) => (await admin(hub, 'GET', `/parties/${id}`)) as unknown as PartyView;

/** `{role} {party} {status}` of the parties that a partner reads of. */
async function seenBy(hub: TestHub, { hubToken }: PlainPartner): Promise<string[]> {
  const { json } = await ocpi(hub, 'GET', '/2.2.1/hubclientinfo', { token: hubToken });
  const parties = json.data as { role: string; party_id: string; status: string }[];
  return parties.map((one) => `${one.role} ${one.party_id} ${one.status}`).sort();
}

async function rotated(partner: PlainPartner, ...roles: PartnerParty[]): Promise<void> {
  const body = { token: partner.token, url: `${partner.url}/ocpi/versions`, roles };
  const { json } = await partner.push('PUT', '/2.2.1/credentials', body);
  partner.hubToken = (json.data as { token: string }).token;
}

t.test('a CPO becomes an eMSP too, and what was kept for it is released with its first rule [D12]', async (t) => {
  const dataDir = directoryFor(t);
  const hub = await hubFor(t, {}, {}, dataDir);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const dual = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'DUA', modules: both });
  const cdrToken = { country_code: 'NL', party_id: 'DUA', uid: 'C1', type: 'RFID', contract_id: 'NL-DUA-1' };
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { cdr_token: cdrToken }));

  t.equal((await setRoles(hub, 'NL-DUA', role('CPO', 'DUA'), role('EMSP', 'DUA'))).status, 200);
  const { roles } = await partyOf(hub, 'nl-dua');
  t.match(roles, [
    { role: 'CPO', party_id: 'DUA', business_details: { name: 'DUA' } },
    { role: 'EMSP', party_id: 'DUA', business_details: { name: 'DUA' }, left_out: true },
  ]);
  t.notOk('left_out' in (roles[0] ?? {}), 'its credentials name the first');
  t.strictSame(await seenBy(hub, cpo), ['CPO CPO CONNECTED', 'CPO DUA CONNECTED', 'EMSP DUA PLANNED']);

  await rotated(dual, role('CPO', 'DUA'), role('EMSP', 'DUA'));
  t.strictSame(await seenBy(hub, cpo), ['CPO CPO CONNECTED', 'CPO DUA CONNECTED', 'EMSP DUA CONNECTED']);
  t.equal((await admin(hub, 'PUT', '/routes/NL-DUA/NL-CPO', { active: true })).released, 1);
  await dual.got('the session', ({ method, path }) => method === 'PUT' && path.endsWith('/sessions/NL/CPO/S1'));
  const { items } = await admin(hub, 'GET', '/audit?verb=roles');
  t.match(items, [{ verb: 'PUT', about: '/parties/NL-DUA/roles', operator: 'admin' }]);

  await hub.settled(dual);
  await hub.close();
  const again = await hubFor(t, {}, {}, dataDir);
  t.strictSame(
    (await partyOf(again, 'NL-DUA')).roles.map(({ role }) => role),
    ['CPO', 'EMSP'],
    'a restart keeps it',
  );
});

t.test('a role stays while a rule, an object or a delivery needs it', async (t) => {
  const hub = await hubFor(t);
  const others = [role('EMSP', 'PLB'), role('CPO', 'PLB'), role('EMSP', 'PLC')];
  const platform = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'PLA', others, modules: both },
    answer: ({ path }) => (path.includes('/sessions/') ? { status: 404 } : {}),
  });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const all = [role('EMSP', 'PLA'), ...others];
  const without = (name: string) => all.filter((one) => `${one.role} ${one.party_id}` !== name);
  const refusal = async (name: string) => {
    const { status, text } = await setRoles(hub, 'NL-PLA', ...without(name));
    return `${status} ${(JSON.parse(text) as { detail?: string }).detail}`;
  };

  await platform.push('PUT', '/2.2.1/locations/NL/PLB/L1', { ...locationBody('L1'), party_id: 'PLB', publish: false });
  t.equal(await refusal('CPO PLB'), '409 CPO NL-PLB stays while there are locations of it', 'a hidden one, too');
  await admin(hub, 'PUT', '/routes/NL-PLC/NL-CPO', { active: true });
  t.equal(await refusal('EMSP PLC'), '409 EMSP NL-PLC stays while there are routing rules that name it (1)');
  const cdrToken = { country_code: 'NL', party_id: 'PLC', uid: 'C1', type: 'RFID', contract_id: 'NL-PLC-1' };
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { cdr_token: cdrToken }));
  await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C1', { cdr_token: cdrToken }));
  await hub.settled(platform);
  await admin(hub, 'DELETE', '/routes/NL-PLC/NL-CPO');
  t.equal(
    await refusal('EMSP PLC'),
    '409 EMSP NL-PLC stays while there are sessions of it, cdrs of it, deliveries to it that wait or are dead letters',
  );
  t.equal(await refusal('EMSP PLA'), '409 the partner is named after NL-PLA, which keeps a role');
  const { status } = await setRoles(hub, 'NL-PLA', ...without('EMSP PLB'));
  t.equal(status, 200, 'what nothing needs goes');
  t.strictSame(
    (await partyOf(hub, 'NL-PLA')).roles.map(({ role, party_id }) => `${role} ${party_id}`),
    ['EMSP PLA', 'CPO PLB', 'EMSP PLC'],
  );
  const body = { token: platform.token, url: `${platform.url}/ocpi/versions`, roles: all };
  const { json } = await platform.call('PUT', '/2.2.1/credentials', body);
  t.match(json, { status_code: 2001, status_message: /EMSP NL-PLB was not assigned/ });
});

t.test('a party is of one partner alone, and one that left goes to another', async (t) => {
  const hub = await hubFor(t);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const platform = { role: 'EMSP', countryCode: 'NL', modules: both } as const;
  const one = await partnerFor(t, hub, { ...platform, partyId: 'ONE', others: [role('EMSP', 'MOV')] });
  const two = await partnerFor(t, hub, { ...platform, partyId: 'TWO' });
  const taken = await setRoles(hub, 'NL-TWO', role('EMSP', 'TWO'), role('EMSP', 'MOV'));
  t.match(taken, { status: 409, text: /NL-MOV exists already/ });
  t.match(await setRoles(hub, 'NL-TWO', role('EMSP', 'TWO'), { role: 'CPO', country_code: 'XX', party_id: 'HUB' }), {
    status: 409,
    text: /XX-HUB exists already/,
  });
  t.equal((await setRoles(hub, 'NL-ONE', role('EMSP', 'ONE'))).status, 200);
  const now = [role('EMSP', 'MOV'), role('CPO', 'NEW'), role('EMSP', 'TWO')];
  t.equal((await setRoles(hub, 'NL-TWO', ...now)).status, 200);
  t.strictSame(
    (await partyOf(hub, 'NL-MOV')).roles.map(({ party_id }) => party_id),
    ['TWO', 'MOV', 'NEW'],
    'the party after which it is named comes first',
  );
  const hasFloor = async () => (await hub.created.context.store.floors()).some(({ dest }) => dest === 'NL-NEW');
  await eventually('a new party holds up no trim of the log', hasFloor, 5_000);
  await admin(hub, 'PUT', '/routes/NL-MOV/NL-CPO', { active: true });
  await admin(hub, 'PATCH', '/parties/NL-ONE', { paused: true });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await two.got('the location', ({ path }) => path.endsWith('/locations/NL/CPO/L1'));
  await hub.settled(one, two);
  t.equal(one.received.length, 0, 'the partner that held it gets nothing');
  t.equal((await partyOf(hub, 'NL-TWO')).queue.depth, 0);
});

t.test('a role is not removed while the store takes no delivery state, and the operator gets an answer', async (t) => {
  let isFull = false;
  let refused = 0;
  const wrap = wrapStore((store) => ({
    async settle(...of) {
      if (!isFull) return store.settle(...of);
      refused += 1;
      throw new StoreUnavailable('no room');
    },
  }));
  const clock = new SimulatedClock(new Date().toISOString());
  const hub = await hubFor(t, {}, { clock, wrap });
  const one = { role: 'EMSP', countryCode: 'NL', partyId: 'ONE', others: [role('EMSP', 'MOV')] } as const;
  await partnerFor(t, hub, one);
  const asked = async () => {
    let answer: { status: number; text: string } | null = null;
    void setRoles(hub, 'NL-ONE', role('EMSP', 'ONE')).then((answered) => {
      answer = answered;
    });
    await eventually('the operator is answered', () => {
      clock.advance(1_000);
      return answer !== null;
    });
    return answer;
  };
  isFull = true;
  t.match(await asked(), { status: 503, text: /the state of deliveries cannot be written now/ });
  t.ok(refused > 0);
  isFull = false;
  t.match(await asked(), { status: 200 });
});

t.test('a push that was on its way when its role was removed is refused', async (t) => {
  const hub = await hubFor(t);
  const partner = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'DUA', others: [role('CPO', 'DUA')] },
  });
  const body = JSON.stringify({ ...locationBody('L1'), party_id: 'DUA' });
  const late = request(`${hub.url}/ocpi/2.2.1/locations/NL/DUA/L1`, {
    method: 'PUT',
    headers: {
      authorization: `Token ${Buffer.from(partner.hubToken).toString('base64')}`,
      ...{ 'content-type': 'application/json', 'content-length': body.length, expect: '100-continue' },
    },
  });
  late.flushHeaders();
  await once(late, 'continue');
  t.equal((await setRoles(hub, 'NL-DUA', role('EMSP', 'DUA'))).status, 200);
  late.end(body);
  const [answer] = await once(late, 'response');
  t.match([answer.statusCode, await text(answer)], [403, /CPO-only endpoint/]);
});

/** Runs the work when the next commit that has an event of this type comes to the store, before it. */
function beforeCommitOf(hub: TestHub, type: string, work: () => Promise<unknown>): void {
  const { store } = hub.created.context;
  const append = store.append.bind(store);
  store.append = async (commit) => {
    if (commit.events.some((event) => event.type === type)) {
      store.append = append;
      await work();
    }
    return append(commit);
  };
}

t.test('a rule that is being set when its role is removed is refused', async (t) => {
  const hub = await hubFor(t);
  await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'DUA', others: [role('EMSP', 'DUA')] });
  let removed = 0;
  beforeCommitOf(hub, 'route.set', async () => {
    removed = (await setRoles(hub, 'NL-DUA', role('CPO', 'DUA'))).status;
  });
  const rule = [`${hub.url}/admin/v1/routes/NL-DUA/NL-CPO`, { active: true }] as const;
  const set = await callOnce('PUT', ...rule, { authorization: `Bearer ${hub.adminToken}` });
  t.match([removed, set.status, set.text], [200, 404, /no EMSP party NL-DUA/]);
  t.strictSame((await admin(hub, 'GET', '/routes')).items, []);
});

t.test('a push on its way is refused, too, when another partner got its party', async (t) => {
  const hub = await hubFor(t);
  const one = await partnerFor(t, hub, {
    role: 'CPO',
    countryCode: 'NL',
    partyId: 'ONE',
    others: [role('CPO', 'MOV')],
  });
  await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'TWO' });
  beforeCommitOf(hub, 'object.put', async () => {
    await setRoles(hub, 'NL-ONE', role('CPO', 'ONE'));
    await setRoles(hub, 'NL-TWO', role('CPO', 'TWO'), role('CPO', 'MOV'));
  });
  const body = { ...locationBody('L1'), party_id: 'MOV' };
  t.match(await one.call('PUT', '/2.2.1/locations/NL/MOV/L1', body), { status: 403, text: /CPO-only endpoint/ });
  t.match((await partyOf(hub, 'NL-TWO')).roles, [{ party_id: 'TWO' }, { party_id: 'MOV' }]);
});

t.test('a pull stores nothing of a role that is removed while it runs', async (t) => {
  const hub = await hubFor(t);
  await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'PLA', others: [role('CPO', 'PLB')] },
    modules: [['locations', 'SENDER']],
    answer: async () => {
      await setRoles(hub, 'NL-PLA', role('CPO', 'PLA'));
      return {
        body: [
          { ...locationBody('L1'), party_id: 'PLA' },
          { ...locationBody('L2'), party_id: 'PLB' },
        ],
      };
    },
  });
  const { id } = await admin(hub, 'POST', '/parties/NL-PLA/pull/locations');
  await hub.settled();
  const { state, stored, invalid } = await admin(hub, 'GET', `/pulls/${String(id)}`);
  t.strictSame({ state, stored, invalid }, { state: 'DONE', stored: 1, invalid: 1 });
});
