/** The portal: what a partner may do by itself once a link of an operator has let it in, and for its own alone. */
import { portalRoutes } from '../../src/admin/portal.ts';
import { adminRoutes } from '../../src/admin/server.ts';
import type { Operations } from '../../src/hub/ports/operator.ts';
import { deliveriesOf } from '../delivery/watched.ts';
import { bent } from '../support/bent.ts';
import { sessionBody, tokenBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { fullAudit } from '../support/full-audit.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const hourMs = 3_600_000;
const env = { HUB_PROBE_INTERVAL_S: '1000000' };

async function linkOf(hub: TestHub, id: string, body?: object): Promise<string> {
  const { url } = await admin(hub, 'POST', `/parties/${id}/portal-link`, body);
  return String(url);
}

const open = (hub: TestHub, link: string) =>
  callOnce('POST', `${hub.url}/portal/v1/session`, { link: link.split('#')[1] });

/** Signs a partner in, and returns how it calls. */
async function signedIn(hub: TestHub, id: string) {
  const session = await open(hub, await linkOf(hub, id));
  const { token } = JSON.parse(session.text) as { token: string };
  return async (method: string, path: string, body?: object) => {
    const { status, text } = await callOnce(method, `${hub.url}/portal/v1${path}`, body, {
      Authorization: `Bearer ${token}`,
    });
    return { status, json: text === '' ? null : JSON.parse(text) };
  };
}

/** A CPO and two eMSPs that take nothing, with a dead letter each. */
async function scene(t: Test, clock = new SimulatedClock('2026-03-01T10:00:00Z')) {
  const hub = await hubFor(t, env, { clock });
  let isIll = true;
  const answer = () => (isIll ? { status: 404, text: 'no such page' } : {});
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const one = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'ONE', answer });
  const two = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'TWO', answer });
  for (const { id } of [one, two]) await admin(hub, 'PUT', `/routes/${id}/NL-CPO`, { active: true });
  for (const partyId of ['ONE', 'TWO']) await push(cpo, partyId);
  await hub.settled();
  const heal = () => {
    isIll = false;
  };
  return { hub, clock, cpo, one, two, heal };
}

const push = (cpo: PlainPartner, party_id: string) =>
  cpo.push('PUT', `/2.2.1/sessions/NL/CPO/S-${party_id}`, {
    ...sessionBody(`S-${party_id}`),
    cdr_token: { country_code: 'NL', party_id, uid: 'CARD1', type: 'RFID', contract_id: `NL-${party_id}-C1` },
  });

t.test('a partner sees its own state and dead letters, and re-drives its own', async (t) => {
  const { hub, one, two, heal } = await scene(t);
  const call = await signedIn(hub, 'nl-one');
  t.match((await call('GET', '/caller')).json, { name: 'NL-ONE', role: 'partner' });
  t.match((await call('GET', '/parties/NL-ONE')).json, { id: 'NL-ONE', queue: { dead: 1 } });
  const dead = (await call('GET', '/deliveries?state=DEAD')).json.items;
  t.match(dead, [{ receiver: 'NL-ONE', module: 'sessions' }]);
  const shown = (await call('GET', `/deliveries/${dead[0].id}`)).json;
  t.match(
    shown.request,
    { method: 'PUT', headers: { Authorization: 'Token ***' } },
    'what was sent, without the token',
  );
  t.match((await call('GET', '/parties/NL-ONE/report')).json.dead_letters, [{ receiver: 'NL-ONE' }]);
  heal();
  t.equal((await call('POST', `/deliveries/${dead[0].id}/redrive`)).status, 202);
  await hub.settled();
  t.equal(one.received.filter(({ method }) => method === 'PUT').length, 2, 'it came once more');
  t.equal(two.received.filter(({ method }) => method === 'PUT').length, 1, 'nobody else has it again');
  t.strictSame(
    (await deliveriesOf(hub, '?receiver=NL-ONE')).map(({ state }) => state),
    ['DELIVERED'],
  );
  t.equal((await call('GET', '/deliveries?state=DEAD')).json.items.length, 0);
});

t.test('nothing of another partner is visible', async (t) => {
  const { hub } = await scene(t);
  const call = await signedIn(hub, 'NL-ONE');
  const [others] = await deliveriesOf(hub, '?receiver=NL-TWO');
  const asked: [string, string, object?][] = [
    ['GET', '/parties/NL-TWO'],
    ['GET', '/parties/NL-TWO/report'],
    ['POST', '/parties/NL-TWO/initial-token'],
    ['POST', '/parties/NL-TWO/check'],
    ['GET', '/deliveries?receiver=NL-TWO'],
    ['GET', '/deliveries?receiver=NL-ONE&receiver=NL-TWO'],
    ['GET', '/deliveries?partner=NL-TWO'],
    ['GET', '/deliveries?partner=NL-NIL'],
    ['GET', `/deliveries/${others?.id}`],
    ['POST', `/deliveries/${others?.id}/redrive`],
    ['POST', `/deliveries/${others?.id}/redrive`, { force: false }],
  ];
  for (const [method, path, body] of asked) t.equal((await call(method, path, body)).status, 404, `${method} ${path}`);
  await admin(hub, 'POST', '/parties/NL-TWO/check');
  t.strictSame((await call('GET', '/checks?party=NL-TWO')).json, { items: [] });
  t.strictSame(
    (await deliveriesOf(hub, '?receiver=NL-TWO')).map(({ state }) => state),
    ['DEAD'],
  );
  // Whose report is asked for decides, not whom the dead letters hurt.
  const sender = await signedIn(hub, 'NL-CPO');
  t.strictSame((await sender('GET', '/parties/NL-CPO/report')).json.dead_letters, [], 'nor what others answer');
  const deadAt = async (id: string, of: typeof call) => {
    await of('POST', `/parties/${id}/check`);
    await hub.settled();
    const { findings } = (await of('GET', '/checks')).json.items[0] as { findings: { name: string }[] };
    return findings.filter(({ name }) => name === 'dead-letters').length;
  };
  t.strictSame([await deadAt('NL-CPO', sender), await deadAt('NL-ONE', call)], [0, 1], 'nor does a check');
  t.equal(
    (await call('POST', `/deliveries/${(await deliveriesOf(hub, '?receiver=NL-ONE'))[0]?.id}/redrive`, { force: true }))
      .status,
    403,
  );
  t.equal((await call('POST', '/parties/NL-ONE/check', { write: true })).status, 403, 'a check from here only reads');
  for (const [method, path] of [
    ['GET', '/parties'],
    ['GET', '/status'],
    ['PATCH', '/parties/NL-ONE'],
    ['POST', '/parties/NL-ONE/portal-link'],
    ['GET', '/nothing'],
  ] as const)
    t.equal(
      (await call(method, path, method === 'GET' ? undefined : {})).status,
      method === 'PATCH' ? 405 : 404,
      `${method} ${path}`,
    );
});

t.test('a partner rotates its token, and checks its endpoints', async (t) => {
  const { hub, one } = await scene(t);
  const call = await signedIn(hub, 'NL-ONE');
  const { json: issued, status } = await call('POST', '/parties/NL-ONE/initial-token');
  t.equal(status, 201);
  await one.registerAgain(issued.initial_token);
  t.match((await call('GET', '/parties/NL-ONE')).json, { status: 'CONNECTED' });
  const { json: begun } = await call('POST', '/parties/NL-ONE/check');
  t.match((await call('GET', '/checks')).json.items, [{ id: begun.id, write: false }]);
  await hub.settled();
});

t.test('a link and a session expire, and suspending the partner ends both', async (t) => {
  const { hub, clock, one } = await scene(t);
  const [day, hour] = [await linkOf(hub, 'NL-ONE'), await linkOf(hub, 'NL-ONE', { hours: 1 })];
  t.ok(day.startsWith(`${hub.url}/portal/#`), 'no server on the way sees the fragment');
  const call = await signedIn(hub, 'NL-ONE');
  clock.advance(hourMs - 1);
  t.equal((await open(hub, hour)).status, 201);
  clock.advance(1);
  t.equal((await open(hub, hour)).status, 401);
  t.equal((await open(hub, day)).status, 201);
  clock.advance(7 * hourMs - 1);
  t.equal((await call('GET', '/caller')).status, 200);
  clock.advance(1);
  t.equal((await call('GET', '/caller')).status, 401);
  const again = await signedIn(hub, 'NL-ONE');
  await admin(hub, 'POST', '/parties/NL-ONE/suspend');
  const ends = async (when: string) => {
    t.equal((await again('GET', '/caller')).status, 401, when);
    t.equal((await open(hub, day)).status, 401, when);
  };
  await ends('while it is suspended');
  const { status } = await callOnce('POST', `${hub.url}/admin/v1/parties/NL-ONE/portal-link`, undefined, {
    Authorization: `Bearer ${hub.adminToken}`,
  });
  t.equal(status, 409);
  await one.registerAgain(String((await admin(hub, 'POST', '/parties/NL-ONE/initial-token')).initial_token));
  await ends('nor once it is back');
  t.equal((await open(hub, await linkOf(hub, 'NL-ONE'))).status, 201);
  await hub.settled();
});

t.test('a link is not accepted as a session, nor a session as a link, nor other tokens as either', async (t) => {
  const { hub } = await scene(t);
  const link = (await linkOf(hub, 'NL-ONE')).split('#')[1] ?? '';
  const { token } = JSON.parse((await open(hub, `#${link}`)).text) as { token: string };
  const asks = (bearer: string, url: string) =>
    callOnce('GET', `${hub.url}${url}`, undefined, { Authorization: `Bearer ${bearer}` });
  t.equal((await asks(token, '/portal/v1/caller')).status, 200);
  t.equal((await asks(link, '/portal/v1/caller')).status, 401, 'a link is no session');
  t.equal((await open(hub, `#${token}`)).status, 401, 'nor a session a link');
  t.equal((await asks(token, '/admin/v1/caller')).status, 401, 'nor one of an operator');
  t.equal((await asks(hub.adminToken, '/portal/v1/caller')).status, 401, 'an operator has a console');
  for (const wrong of [bent(link), link.slice(1), '', 'x'])
    t.match((await open(hub, `#${wrong}`)).status, /^4(01|29)$/, wrong.slice(-5));
});

t.test('the audit log has the link, the sign-in and each act, with the role partner', async (t) => {
  const { hub } = await scene(t);
  const call = await signedIn(hub, 'NL-ONE');
  const [dead] = (await call('GET', '/deliveries?state=DEAD')).json.items;
  for (const path of [`/deliveries/${dead.id}`, '/parties/NL-ONE/report'])
    t.equal((await call('GET', path)).status, 200);
  await call('POST', `/deliveries/${dead.id}/redrive`);
  await call('POST', '/parties/NL-TWO/initial-token');
  await hub.settled();
  const entries = (await itemsOf(hub, '/audit')).map(({ operator, role, verb, about, status }) => [
    operator,
    role,
    verb,
    about,
    status,
  ]);
  t.strictSame(
    entries.filter(([operator, , verb]) => operator !== 'admin' || String(verb).endsWith('portal-link')).reverse(),
    [
      ['admin', 'admin', 'POST /parties/{id}/portal-link', '/parties/NL-ONE/portal-link', 201],
      ['NL-ONE', 'partner', 'POST /session', '/session', 201],
      ['NL-ONE', 'partner', 'POST /deliveries/{id}/redrive', `/deliveries/${dead.id}/redrive`, 202],
    ],
  );
});

t.test(
  'acts count against the quota of the partner, and refused acts only against their own limit [QUOTA-6]',
  async (t) => {
    const clock = new SimulatedClock('2026-03-01T10:00:00Z');
    const hub = await hubFor(t, { ...env, HUB_QUOTA_MB_PER_DAY: '1' }, { clock });
    const one = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'ONE' });
    const call = await signedIn(hub, 'NL-ONE');
    const ownEntries = async () => {
      const entries = await itemsOf(hub, '/audit');
      return entries.filter(({ operator }) => operator === 'NL-ONE').map(({ verb }) => verb);
    };
    const metrics = async () =>
      (await callOnce('GET', `${hub.url}/metrics`, undefined, { authorization: `Bearer ${hub.adminToken}` })).text;
    const quotaOf = async () =>
      Number(/^ocpi_hub_partner_load\{partner="NL-ONE",room="day"\} (\S+)/m.exec(await metrics())?.[1] ?? 0);
    const before = await quotaOf();
    const reason = 'x'.repeat(490);
    for (let n = 0; n < 5; n++)
      t.equal((await call('POST', `/deliveries/${n}-NL-ONE/redrive`, { reason })).status, 404);
    t.strictSame(await ownEntries(), ['POST /session'], 'a refused act is no entry');
    t.equal(await quotaOf(), before, 'nor is it counted as written');
    t.match(await metrics(), /ocpi_hub_refused_total\{partner="NL-ONE",module="portal",reason="notFound"\} 5/);

    t.equal((await call('POST', '/parties/NL-ONE/check', { reason })).status, 202);
    const act = Math.round(((await quotaOf()) - before) * 1_000_000);
    t.ok(act >= 1024 + reason.length, `the act takes ${act} characters`);
    for (let n = 0; n < 3; n++)
      await one.call(
        'PUT',
        `/2.2.1/tokens/NL/ONE/T${n}`,
        tokenBody(`T${n}`, { party_id: 'ONE', filler: 'x'.repeat(250_000) }),
      );
    t.ok((await quotaOf()) >= 1, 'the quota is used up');
    t.equal((await call('POST', '/parties/NL-ONE/check')).status, 429);
    t.equal((await open(hub, await linkOf(hub, 'NL-ONE'))).status, 201, 'it still signs in');
    t.equal((await call('GET', '/caller')).status, 200, 'and reads');
    t.strictSame(await ownEntries(), ['POST /parties/{id}/check', 'POST /session']);
  },
);

t.test('a partner can sign in while the audit log cannot be written; a log line records it', async (t) => {
  const { replaced, unwritten } = fullAudit();
  const hub = await hubFor(t, env, replaced);
  await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'ONE' });
  const call = await signedIn(hub, 'NL-ONE');
  t.equal((await call('GET', '/caller')).status, 200);
  t.match(unwritten().at(-1), /"operator":"NL-ONE","role":"partner","verb":"POST \/session"/);
});

t.test('where a change of host needs an admin, a new initial token needs one, too', async (t) => {
  const hub = await hubFor(t, { ...env, HUB_CONFIRM_HOST_CHANGE: 'true' });
  await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'ONE' });
  const call = await signedIn(hub, 'NL-ONE');
  t.match(await call('POST', '/parties/NL-ONE/initial-token'), {
    status: 403,
    json: { detail: /HUB_CONFIRM_HOST_CHANGE/ },
  });
});

t.test('a partner has a budget of portal requests, separate from that of its pushes', async (t) => {
  const hub = await hubFor(t, { ...env, HUB_RATE_OTHER_PER_MIN: '3' }, { clock: new SimulatedClock() });
  const one = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'ONE' });
  await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'TWO' });
  const call = await signedIn(hub, 'NL-ONE');
  for (const status of [200, 200, 429]) t.equal((await call('GET', '/caller')).status, status);
  t.match((await call('GET', '/caller')).json, { title: 'Too many requests' });
  for (const uid of ['C1', 'C2', 'C3'])
    await one.push('PUT', `/2.2.1/tokens/NL/ONE/${uid}`, { ...tokenBody(uid), party_id: 'ONE' });
  t.equal((await (await signedIn(hub, 'NL-TWO'))('GET', '/caller')).status, 200, 'each its own');
});

t.test('invalid links are logged at a bounded rate, and lock no operator out', async (t) => {
  const lines: string[] = [];
  const logTo = { write: (line: string) => void lines.push(line) };
  const hub = await hubFor(t, { ...env, HUB_RATE_FAILED_TOKENS_PER_S: '2' }, { clock: new SimulatedClock(), logTo });
  const statuses: number[] = [];
  for (let n = 0; n < 10; n++) statuses.push((await open(hub, '#x')).status);
  t.strictSame([...new Set(statuses)], [401, 429]);
  const { status } = await callOnce('GET', `${hub.url}/admin/v1/caller`, undefined, {
    Authorization: `Bearer ${hub.adminToken}`,
  });
  t.equal(status, 200);
  t.equal(lines.filter((line) => line.includes('a link of the portal was refused')).length, 1);
  t.equal((await open(hub, `#${'x'.repeat(10_000)}`)).status, 413);
});

t.test('checks that a partner starts do not remove those of others', atLength, async (t) => {
  const { hub } = await scene(t);
  const { id } = await admin(hub, 'POST', '/parties/NL-CPO/check');
  await hub.settled();
  const call = await signedIn(hub, 'NL-ONE');
  for (let n = 0; n < 101; n++) {
    await call('POST', '/parties/NL-ONE/check');
    await hub.settled();
  }
  t.equal((await call('GET', '/checks')).json.items.length, 10);
  t.match(await itemsOf(hub, '/checks?party=NL-CPO'), [{ id }]);
});

t.test('every portal route is a route of the admin API', async (t) => {
  const table = adminRoutes({} as Operations);
  const doors = portalRoutes({} as Operations, { table, isHostConfirmed: false }).map(
    ({ method, path }) => `${method} ${path}`,
  );
  t.strictSame(doors.sort(), [
    'GET /caller',
    'GET /checks',
    'GET /deliveries',
    'GET /deliveries/{id}',
    'GET /parties/{id}',
    'GET /parties/{id}/report',
    'POST /deliveries/{id}/redrive',
    'POST /parties/{id}/check',
    'POST /parties/{id}/initial-token',
  ]);
});
