/**
 * The whole session path between a CPO and an eMSP that know OCPI 2.2.1 and nothing of the hub: from the credentials handshake to
 * the CDR, and out again. At the end neither may have seen the hub break a rule.
 */
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { admin } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';
import { type Answer, type SpecPartner, specPartner } from './client.ts';
import { problemsOf } from './model.ts';

type Json = Record<string, unknown>;

const cpoParty = { role: 'CPO', country_code: 'NL', party_id: 'LDN', name: 'Laaddienst Noord' } as const;
const emspParty = { role: 'EMSP', country_code: 'DE', party_id: 'FST', name: 'Fahrstrom' } as const;
const own = { country_code: 'NL', party_id: 'LDN' };
const at = (minute: number) => new Date(Date.UTC(2026, 4, 4, 8, minute)).toISOString();

const token = {
  ...{ country_code: 'DE', party_id: 'FST', uid: '04AABBCCDD', type: 'RFID', contract_id: 'DE-FST-C00017-4' },
  ...{ issuer: 'Fahrstrom', valid: true, whitelist: 'ALLOWED', last_updated: at(0) },
};
const cdrToken = {
  ...{ country_code: 'DE', party_id: 'FST', uid: '04AABBCCDD', type: 'RFID', contract_id: 'DE-FST-C00017-4' },
};

function tariff(id: string): Json {
  const elements = [{ price_components: [{ type: 'ENERGY', price: 0.42, vat: 21, step_size: 1 }] }];
  return { ...own, id, currency: 'EUR', elements, last_updated: at(1) };
}

function location(id: string): Json {
  const connector = {
    ...{ id: '1', standard: 'IEC_62196_T2', format: 'SOCKET', power_type: 'AC_3_PHASE', max_voltage: 230 },
    ...{ max_amperage: 16, tariff_ids: ['BASE-1'], last_updated: at(2) },
  };
  return {
    ...{ ...own, id, publish: true, address: 'Sluisweg 3', city: 'Delfzijl', country: 'NLD' },
    coordinates: { latitude: '53.332610', longitude: '6.924140' },
    evses: [{ uid: `${id}-A`, status: 'AVAILABLE', connectors: [connector], last_updated: at(2) }],
    ...{ time_zone: 'Europe/Amsterdam', last_updated: at(2) },
  };
}

function session(fields: Json): Json {
  return {
    ...{ ...own, id: 'RIT-1', start_date_time: at(10), kwh: 0, cdr_token: cdrToken, auth_method: 'COMMAND' },
    ...{ authorization_reference: 'FST-REF-1', location_id: 'SITE-1', evse_uid: 'SITE-1-A', connector_id: '1' },
    ...{ currency: 'EUR', status: 'PENDING', last_updated: at(10), ...fields },
  };
}

const cdr = {
  ...{ ...own, id: 'CDR-RIT-1', start_date_time: at(11), end_date_time: at(40), session_id: 'RIT-1' },
  ...{ cdr_token: cdrToken, auth_method: 'COMMAND', authorization_reference: 'FST-REF-1' },
  cdr_location: {
    ...{ id: 'SITE-1', address: 'Sluisweg 3', city: 'Delfzijl', country: 'NLD', evse_uid: 'SITE-1-A' },
    ...{ coordinates: { latitude: '53.332610', longitude: '6.924140' }, evse_id: 'NL*LDN*E1', connector_id: '1' },
    ...{ connector_standard: 'IEC_62196_T2', connector_format: 'SOCKET', connector_power_type: 'AC_3_PHASE' },
  },
  ...{ currency: 'EUR', tariffs: [tariff('BASE-1')] },
  charging_periods: [{ start_date_time: at(11), dimensions: [{ type: 'ENERGY', volume: 5.31 }], tariff_id: 'BASE-1' }],
  ...{ total_cost: { excl_vat: 2.23, incl_vat: 2.7 }, total_energy: 5.31, total_time: 0.4833, last_updated: at(41) },
};

/** Polls; the limit is only there so that a broken test ends. */
async function until(what: string, holds: () => boolean): Promise<void> {
  for (const end = Date.now() + 60_000; !holds(); ) {
    if (Date.now() > end) throw new Error(`it never came to: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const succeeded = ({ http, code }: Answer) => code === 1000 && (http === 200 || http === 201);

t.test('a CPO and an eMSP that know only the specification walk the whole session path', async (t) => {
  // Small pages, so that every list has more than one.
  const env = { HUB_PAGE_DEFAULT: '2', HUB_PAGE_MAX: '3' };
  const hub = await startChildHub({ dataDir: directoryFor(t), port: 0, env });
  t.teardown(() => hub.kill());
  const commands: { command: string; body: Json }[] = [];
  const cpo = await specPartner(cpoParty, {
    command: (command, body) => {
      commands.push({ command, body });
      return { result: 'ACCEPTED', timeout: 30 };
    },
  });
  const emsp = await specPartner(emspParty, {
    authorize: (uid) =>
      uid === token.uid ? { allowed: 'ALLOWED', token, authorization_reference: 'FST-REF-1' } : null,
  });
  t.teardown(() => Promise.all([cpo.close(), emsp.close()]));
  const emspHolds = (key: string) => emsp.server.held.get(key);

  const push = async (t: Test, method: string, module: string, path: string, body?: Json) => {
    const answer = await cpo.send(method, [module, 'RECEIVER'], { path: `/NL/LDN${path}`, ...(body && { body }) });
    t.ok(succeeded(answer), `${method} ${module}${path}: HTTP ${answer.http}, OCPI ${answer.code}`);
  };

  await t.test('credentials: both register, the hub is HUB alone', async (t) => {
    for (const partner of [cpo, emsp]) {
      const { role, country_code, party_id } = partner.party;
      const added = await admin(hub, 'POST', '/parties', { roles: [{ role, country_code, party_id }] });
      const initialToken = String(added.initial_token);
      await partner.register(`${hub.url}/ocpi/versions`, initialToken);
      t.not(partner.hubToken(), initialToken, 'the initial token was replaced');
      const again = await partner.callWith(initialToken, 'GET', ['hubclientinfo', 'SENDER']);
      t.equal(again.http, 401, 'and is good for nothing any more');
    }
    await admin(hub, 'PUT', '/routes/DE-FST/NL-LDN', { active: true });
  });

  await t.test('hub client info: each finds the other connected', async (t) => {
    for (const partner of [cpo, emsp]) {
      const all = await partner.pull('hubclientinfo');
      t.same(
        all.flatMap((info) => problemsOf('ClientInfo', info)),
        [],
        'correct ClientInfo objects',
      );
      for (const { country_code, party_id, role } of [cpoParty, emspParty]) {
        t.match(all, [{}, {}], 'both are listed');
        const found = all.find((info) => info.country_code === country_code && info.party_id === party_id);
        t.match(found, { role, status: 'CONNECTED' }, `${party_id} is connected`);
      }
    }
  });

  await t.test('tariffs and locations: pushed, received, pulled page by page', async (t) => {
    for (const id of ['BASE-1', 'BASE-2', 'BASE-3', 'BASE-4', 'GONE'])
      await push(t, 'PUT', 'tariffs', `/${id}`, tariff(id));
    await push(t, 'DELETE', 'tariffs', '/GONE');
    const sites = ['SITE-1', 'SITE-2', 'SITE-3', 'SITE-4', 'SITE-5'];
    for (const id of sites) await push(t, 'PUT', 'locations', `/${id}`, location(id));
    await push(t, 'PATCH', 'locations', '/SITE-2', { name: 'Sluis Zuid', last_updated: at(3) });
    await push(t, 'PATCH', 'locations', '/SITE-1/SITE-1-A', { status: 'CHARGING', last_updated: at(4) });
    await push(t, 'PATCH', 'locations', '/SITE-1/SITE-1-A/1', { tariff_ids: ['BASE-2'], last_updated: at(5) });
    const [evse] = location('SITE-3').evses as Json[];
    await push(t, 'PUT', 'locations', '/SITE-3/SITE-3-B', { ...evse, uid: 'SITE-3-B', last_updated: at(6) });
    await until('all of it arrives', () => emsp.server.arrivals.length >= 15);
    for (const module of ['tariffs', 'locations']) {
      const held = new Map([...emsp.server.held].filter(([key]) => key.startsWith(module)));
      const pulled = (await emsp.pull(module)).map((object) => [`${module} /NL/LDN/${object.id}`, object] as const);
      t.ok(pulled.length > 3, `${module}: more than one page`);
      t.same(new Map(pulled), held, `${module}: what is pulled is what was received`);
      const since = await emsp.pull(module, { date_from: at(3) });
      const expected = [...held.values()].filter(({ last_updated }) => String(last_updated) >= at(3)).length;
      t.equal(since.length, expected, `${module}: date_from filters`);
    }
    t.match(emspHolds('locations /NL/LDN/SITE-1'), { last_updated: at(5), evses: [{ status: 'CHARGING' }] });
    t.notOk(emspHolds('tariffs /NL/LDN/GONE'), 'the deleted tariff is gone');
    const verified = await cpo.send('GET', ['locations', 'RECEIVER'], { path: '/NL/LDN/SITE-1' });
    t.same(verified.data, emspHolds('locations /NL/LDN/SITE-1'), 'the CPO can verify what the hub holds');
  });

  await t.test('tokens: pushed to the CPO, pulled by it, authorized in real time', async (t) => {
    const path = '/DE/FST/04AABBCCDD';
    t.ok(succeeded(await emsp.send('PUT', ['tokens', 'RECEIVER'], { path: `${path}?type=RFID`, body: token })), 'PUT');
    const change = { group_id: 'VLOTTE', last_updated: at(7) };
    t.ok(succeeded(await emsp.send('PATCH', ['tokens', 'RECEIVER'], { path, body: change })), 'PATCH');
    await until('the token arrives', () => cpo.server.held.get(`tokens ${path}`)?.group_id === 'VLOTTE');
    t.same(await cpo.pull('tokens'), [{ ...token, ...change }], 'the CPO pulls it');

    const references = { location_id: 'SITE-1', evse_uids: ['SITE-1-A'] };
    const ask = (uid: string) =>
      cpo.send('POST', ['tokens', 'SENDER'], { path: `/${uid}/authorize?type=RFID`, body: references, to: emspParty });
    const allowed = await ask(token.uid);
    t.ok(succeeded(allowed), 'authorize is answered');
    t.same(problemsOf('AuthorizationInfo', allowed.data), [], 'with a correct AuthorizationInfo');
    t.match(allowed.data, { allowed: 'ALLOWED', authorization_reference: 'FST-REF-1' });
    // The specification's 404 with 2004 is 502 with 4003 in the hub's interface. [interface, Errors; D25]
    t.match(await ask('NOBODY'), { http: 502, code: 4003 }, 'an unknown token is not allowed');
  });

  /** Sends a command, lets the CPO carry it out, and gives the eMSP's result. */
  async function commanded(t: Test, command: string, body: Json): Promise<void> {
    const response_url = emsp.server.responseUrl();
    const options = { path: `/${command}`, body: { response_url, ...body }, to: cpoParty };
    const answer = await emsp.send('POST', ['commands', 'RECEIVER'], options);
    t.ok(succeeded(answer), `${command} is answered`);
    t.same(problemsOf('CommandResponse', answer.data), [], 'with a correct CommandResponse');
    t.match(answer.data, { result: 'ACCEPTED', timeout: 30 });
    const received = commands.at(-1);
    t.equal(received?.command, command, 'the CPO got it');
    t.match(received?.body, body, 'whole');
    const callback = String(received?.body.response_url);
    t.not(callback, response_url, 'the result goes by way of the hub');
    const result = { result: 'ACCEPTED', message: [{ language: 'en', text: 'Done' }] };
    t.ok(succeeded(await cpo.sendTo('POST', callback, result, emspParty)), 'the result is taken');
    const arrival = emsp.server.arrivals.find(({ path }) => response_url.endsWith(path));
    t.same(arrival && JSON.parse(arrival.body), result, 'and has reached the response_url');
  }

  await t.test('START_SESSION, with its result', async (t) => {
    await commanded(t, 'START_SESSION', {
      ...{
        token,
        location_id: 'SITE-1',
        evse_uid: 'SITE-1-A',
        connector_id: '1',
        authorization_reference: 'FST-REF-1',
      },
    });
  });

  await t.test('the session: PENDING, ACTIVE, its periods', async (t) => {
    await push(t, 'PUT', 'sessions', '/RIT-1', session({}));
    await push(t, 'PATCH', 'sessions', '/RIT-1', { status: 'ACTIVE', start_date_time: at(11), last_updated: at(11) });
    for (const minute of [20, 30]) {
      const dimensions = [{ type: 'ENERGY', volume: 2.5 }];
      const charging_periods = [{ start_date_time: at(minute), dimensions }];
      await push(t, 'PATCH', 'sessions', '/RIT-1', { kwh: minute / 10, charging_periods, last_updated: at(minute) });
    }
    await until('all of it arrives', () => emspHolds('sessions /NL/LDN/RIT-1')?.last_updated === at(30));
    t.match(emspHolds('sessions /NL/LDN/RIT-1'), { status: 'ACTIVE', kwh: 3, charging_periods: [{}, {}] });
  });

  await t.test('STOP_SESSION, with its result; COMPLETED', async (t) => {
    await commanded(t, 'STOP_SESSION', { session_id: 'RIT-1' });
    const { charging_periods } = emspHolds('sessions /NL/LDN/RIT-1') ?? {};
    const end = { start_date_time: at(11), end_date_time: at(40), kwh: 5.31, status: 'COMPLETED', charging_periods };
    await push(
      t,
      'PUT',
      'sessions',
      '/RIT-1',
      session({ ...end, total_cost: { excl_vat: 2.23 }, last_updated: at(40) }),
    );
    await until('COMPLETED arrives', () => emspHolds('sessions /NL/LDN/RIT-1')?.status === 'COMPLETED');
  });

  await t.test('the CDR: created, found at its Location, received, pulled', async (t) => {
    const created = await cpo.send('POST', ['cdrs', 'RECEIVER'], { body: cdr });
    t.match(created, { http: 201, code: 1000 });
    const found = await cpo.sendTo('GET', new URL(created.headers.get('location') ?? '').href);
    t.same(found.data, cdr, 'GET at its Location answers it');
    await until('the CDR arrives', () => emspHolds('cdrs /NL/LDN/CDR-RIT-1') !== undefined);
    t.same(emspHolds('cdrs /NL/LDN/CDR-RIT-1'), cdr, 'the eMSP has it');
    t.same(await emsp.pull('cdrs'), [cdr], 'and can pull it');
    const sessions = await emsp.pull('sessions', { date_from: '2026-01-01T00:00:00Z' });
    t.same(sessions, [emspHolds('sessions /NL/LDN/RIT-1')], 'the session that is pulled is the one received');
    // A list of sessions needs date_from. [mod_sessions, GET]
    t.match(await emsp.send('GET', ['sessions', 'SENDER']), { http: 200, code: 2001 });
  });

  await t.test('ids: a forward keeps the correlation id and has a request id of its own', async (t) => {
    const forwarded = emsp.server.arrivals.filter(({ headers }) => headers['ocpi-from-party-id'] === 'LDN');
    t.ok(forwarded.length > 20, `${forwarded.length} forwards`);
    const sent = new Map(cpo.sent.map((request) => [request.correlationId, request]));
    for (const { method, path, headers, body } of forwarded) {
      const cause = sent.get(String(headers['x-correlation-id']));
      t.ok(cause?.body === body && cause.requestId !== headers['x-request-id'], `${method} ${path}`);
    }
  });

  await t.test('an unknown, forbidden or non-JSON request is refused as the specification says', async (t) => {
    const missing = await cpo.send('GET', ['locations', 'RECEIVER'], { path: '/NL/LDN/NOWHERE' });
    t.equal(missing.http, 404, 'GET of a missing object');
    const never = await cpo.send('PATCH', ['locations', 'RECEIVER'], {
      ...{ path: '/NL/LDN/NOWHERE', body: { name: 'x', last_updated: at(50) } },
    });
    t.not(never.code, 1000, 'PATCH never creates');
    const { last_updated: _, ...undated } = location('SITE-9');
    const incomplete = await cpo.send('PUT', ['locations', 'RECEIVER'], { path: '/NL/LDN/SITE-9', body: undated });
    t.match(incomplete, { http: 200, code: 2001 }, 'an object without last_updated');
    const foreign = { ...location('SITE-9'), party_id: 'XYZ' };
    const stranger = await cpo.send('PUT', ['locations', 'RECEIVER'], { path: '/NL/XYZ/SITE-9', body: foreign });
    t.equal(stranger.http, 404, 'an object of another party');
    t.equal((await cpo.callWith('no-such-token', 'GET', ['hubclientinfo', 'SENDER'])).http, 401, 'an unknown token');
  });

  await t.test('credentials: both rotate, the former tokens are void, traffic goes on', async (t) => {
    for (const partner of [cpo, emsp]) {
      const former = partner.hubToken();
      await partner.rotate();
      t.not(partner.hubToken(), former, 'a new token');
      const used = await partner.callWith(partner.hubToken(), 'GET', ['hubclientinfo', 'SENDER']);
      t.equal(used.http, 200, 'the new one is used');
      t.equal((await partner.callWith(former, 'GET', ['hubclientinfo', 'SENDER'])).http, 401, 'the former one is void');
    }
    await push(t, 'PUT', 'tariffs', '/AFTER', tariff('AFTER'));
    await until('a push arrives with the new token', () => emspHolds('tariffs /NL/LDN/AFTER') !== undefined);
  });

  await t.test('credentials: both unregister', async (t) => {
    await left(t, emsp);
    const all = await cpo.pull('hubclientinfo');
    t.match(
      all.find(({ party_id }) => party_id === 'FST'),
      { status: 'SUSPENDED' },
      'the other one sees it',
    );
    await left(t, cpo);
  });

  t.same(cpo.violations, [], 'the hub broke no rule toward the CPO');
  t.same(emsp.violations, [], 'the hub broke no rule toward the eMSP');
  t.equal(await hub.stop(), 0);
});

async function left(t: Test, partner: SpecPartner): Promise<void> {
  t.ok(succeeded(await partner.unregister()), 'DELETE credentials');
  const after = await partner.callWith(partner.hubToken(), 'GET', ['hubclientinfo', 'SENDER']);
  t.equal(after.http, 401, 'its token is void');
  // Not 401: the hub's interface says so. [TEST-CLIENT-7]
  t.equal((await partner.unregister()).http, 405, 'who is not registered cannot unregister');
}
