/**
 * Discovery and the credentials exchange of a real hub: who gets in with which token, what a refusal leaves behind, and
 * what is still remembered after a rotation, a farewell and a restart.
 */
import { loadConfig } from '../../src/config/config.ts';
import { type RunningHub, startHub } from '../../src/main.ts';
import { sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { changesOf, type OcpiAnswer, ocpi, type Refused, refused } from '../support/ocpi-call.ts';
import {
  admin,
  type PartnerParty,
  type PlainPartner,
  type PlainPartnerOptions,
  plainPartner,
  type Reply,
} from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

const credentials = '/2.2.1/credentials';
const invalidToken: Refused = [401, 2000, 'Invalid token'];
const notRegistered: Refused = [405, 2000, 'Not registered'];
const alreadyRegistered: Refused = [405, 2000, 'Already registered'];
const spentPost: Refused = [
  405,
  2000,
  /^Already registered: use the token that the hub answered, .* ocpi-hub parties initial-token [A-Z]{2}-\w+$/,
];

let hub: RunningHub;
let names = 0;

t.before(async () => {
  // Partners that have gone are not found out while events are counted.
  hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '3600' });
});

interface Newcomer {
  readonly partner: PlainPartner;
  readonly id: string;
  readonly initial: string;
  readonly roles: PartnerParty[];
  /** Its credentials, as it sends them. */
  readonly body: { token: string; url: string; roles: object[] };
}

/** A partner that the operator has added and that has not called yet; every one under a name of its own. */
async function newcomer(
  t: Test,
  options: Partial<PlainPartnerOptions> = {},
  settings: object = {},
  at: RunningHub = hub,
): Promise<Newcomer> {
  names++;
  const partyId = `N${String(names).padStart(2, '0')}`;
  const { role = 'CPO', others = [] } = options;
  const partner = await plainPartner({ ...options, role, countryCode: 'NL', partyId });
  t.teardown(() => partner.close());
  const roles = [{ role, country_code: 'NL', party_id: partyId }, ...others];
  const added = await admin(at, 'POST', '/parties', { roles, ...settings });
  const named = roles.map((one) => ({ ...one, business_details: { name: `${one.party_id} Ltd` } }));
  const body = { token: partner.token, url: `${partner.url}/ocpi/versions`, roles: named };
  return { partner, id: `NL-${partyId}`, initial: String(added.initial_token), roles, body };
}

const tokenOf = ({ json }: OcpiAnswer) => (json.data as { token: string }).token;

function granted(t: Test, answer: OcpiAnswer, title: string): string {
  t.match([answer.status, answer.json.status_code, answer.json.status_message], [200, 1000, 'Success'], title);
  return tokenOf(answer);
}

/** A newcomer after its POST, with the token that it got. */
async function registered(t: Test, options: Partial<PlainPartnerOptions> = {}, settings: object = {}) {
  const one = await newcomer(t, options, settings);
  const answer = await ocpi(hub, 'POST', credentials, { token: one.initial, body: one.body });
  return { ...one, hubToken: granted(t, answer, `POST of ${one.id}`) };
}

const party = (id: string) => admin(hub, 'GET', `/parties/${id}`);

// Discovery

t.test('versions list 2.2.1 alone, details list each module by role [interface, Versioning 1–3]', async (t) => {
  const { hubToken } = await registered(t);
  const list = await ocpi(hub, 'GET', '/versions', { token: hubToken });
  t.same(list.json.data, [{ version: '2.2.1', url: `${hub.url}/ocpi/2.2.1` }]);
  const details = (await ocpi(hub, 'GET', '/2.2.1', { token: hubToken })).json.data as {
    version: string;
    endpoints: { identifier: string; role: string; url: string }[];
  };
  t.equal(details.version, '2.2.1');
  const both = ['locations', 'tariffs', 'tokens', 'sessions', 'cdrs'].flatMap((name) => [
    `${name} SENDER`,
    `${name} RECEIVER`,
  ]);
  t.same(
    details.endpoints.map(({ identifier, role }) => `${identifier} ${role}`).sort(),
    ['credentials SENDER', 'credentials RECEIVER', 'hubclientinfo SENDER', 'commands RECEIVER', ...both].sort(),
  );
  for (const { identifier, url } of details.endpoints) t.equal(url, `${hub.url}/ocpi/2.2.1/${identifier}`);
});

t.test('any other version is not found [interface, Versioning 1]', async (t) => {
  const { hubToken } = await registered(t);
  for (const version of ['2.1.1', '2.2', '2.0', '2.3.0']) {
    refused(t, await ocpi(hub, 'GET', `/${version}`, { token: hubToken }), [404, 2000, 'Not found'], version);
  }
});

t.test('an envelope has a timestamp, JSON as its type and both ids [OCPI transport] [D2] [D14]', async (t) => {
  const { hubToken } = await registered(t);
  const headers = { 'X-Request-ID': 'request-1', 'X-Correlation-ID': 'correlation-1' };
  const answer = await ocpi(hub, 'GET', '/versions', { token: hubToken, headers });
  t.match(answer.json, { status_code: 1000, timestamp: /^\d{4}-\d\d-\d\dT.*Z$/ });
  t.match(answer.headers, {
    'content-type': /^application\/json/,
    'x-request-id': 'request-1',
    'x-correlation-id': 'correlation-1',
  });
});

t.test('discovery needs a token, the list of versions too [interface, Authentication 1]', async (t) => {
  for (const path of ['/versions', '/2.2.1', credentials]) {
    refused(t, await ocpi(hub, 'GET', path), invalidToken, `${path} without a token`);
    refused(t, await ocpi(hub, 'GET', path, { token: 'nobody' }), invalidToken, `${path} with one of nobody`);
  }
});

// Tokens

t.test('a hub token is taken plain and in base64, with white space behind it too [D8]', async (t) => {
  const { hubToken } = await registered(t);
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const rows: [authorization: string, taken: boolean][] = [
    [`Token ${hubToken}`, true],
    [`Token ${base64(hubToken)}`, true],
    [`Token ${base64(`${hubToken}\n`)}`, true],
    [`Token ${base64(` ${hubToken} `)}`, true],
    [`token ${hubToken}`, true],
    [`Bearer ${hubToken}`, false],
    [hubToken, false],
    [`Token ${hubToken}x`, false],
    [`Token ${base64(base64(hubToken))}`, false],
    ['Token ', false],
  ];
  for (const [Authorization, taken] of rows) {
    const answer = await ocpi(hub, 'GET', credentials, { headers: { Authorization } });
    t.equal(answer.status, taken ? 200 : 401, Authorization.replace(hubToken, '…'));
    if (taken) t.equal(tokenOf(answer), hubToken, 'GET answers the token itself, decoded [D11] [D42]');
  }
});

t.test('a hub token has 256 random bits in base64url, different each time [D8]', async (t) => {
  const { hubToken, body } = await registered(t);
  t.match(hubToken, /^[A-Za-z0-9_-]{43}$/);
  const next = granted(t, await ocpi(hub, 'PUT', credentials, { token: hubToken, body }), 'PUT');
  t.match(next, /^[A-Za-z0-9_-]{43}$/);
  t.not(next, hubToken);
});

t.test('the partner is called with its token in the configured encoding [D8]', async (t) => {
  for (const [encoding, sentAs] of [
    [undefined, (token: string) => Buffer.from(token).toString('base64')],
    ['base64', (token: string) => Buffer.from(token).toString('base64')],
    ['plain', (token: string) => token],
  ] as const) {
    const { partner } = await registered(t, {}, encoding ? { token_encoding: encoding } : {});
    t.equal(partner.asked.length, 2, 'versions and their details');
    for (const { headers } of partner.asked) {
      t.equal(headers.authorization, `Token ${sentAs(partner.token)}`, encoding ?? 'by default');
      t.ok(headers['x-request-id'] && headers['x-correlation-id'], 'both ids [D14]');
      t.notOk(headers['ocpi-to-party-id'] ?? headers['ocpi-from-party-id'], 'no routing headers [OCPI transport]');
    }
  }
});

t.test('an initial token opens discovery and POST credentials alone [D9]', async (t) => {
  const { initial, body, id } = await newcomer(t);
  const pushed = `/2.2.1/sessions/NL/${id.slice(3)}/S1`;
  const rows: [method: string, path: string, Refused | null][] = [
    ['GET', '/versions', null],
    ['GET', '/2.2.1', null],
    ['GET', credentials, invalidToken],
    ['PUT', credentials, notRegistered],
    ['DELETE', credentials, notRegistered],
    ['GET', '/2.2.1/hubclientinfo', invalidToken],
    ['PUT', pushed, invalidToken],
    ['GET', '/2.2.1/nothing', invalidToken],
  ];
  for (const [method, path, refusal] of rows) {
    const answer = await ocpi(hub, method, path, { token: initial, ...(method === 'PUT' && { body }) });
    if (refusal) refused(t, answer, refusal, `${method} ${path}`);
    else t.equal(answer.status, 200, `${method} ${path}`);
  }
  granted(t, await ocpi(hub, 'POST', credentials, { token: initial, body }), 'POST');
});

t.test('after a successful POST the initial token is used up [D9] [D6]', async (t) => {
  const { initial, body } = await registered(t);
  refused(t, await ocpi(hub, 'POST', credentials, { token: initial, body }), spentPost, 'POST again');
  for (const [method, path] of [
    ['GET', '/versions'],
    ['GET', credentials],
    ['PUT', credentials],
    ['DELETE', credentials],
  ] as const) {
    const answer = await ocpi(hub, method, path, { token: initial, ...(method === 'PUT' && { body }) });
    refused(t, answer, invalidToken, `${method} ${path}`);
  }
});

// POST, GET, PUT

t.test('POST answers a token, the hub’s url and its HUB role [interface, Credentials 1, 3, 7]', async (t) => {
  const { initial, body, id } = await newcomer(t);
  const answer = await ocpi(hub, 'POST', credentials, { token: initial, body });
  granted(t, answer, 'POST');
  const given = answer.json.data as { token: string; url: string; roles: unknown };
  t.equal(given.url, `${hub.url}/ocpi/versions`);
  t.same(given.roles, [{ role: 'HUB', country_code: 'XX', party_id: 'HUB', business_details: { name: 'OCPI hub' } }]);
  const versions = await ocpi(hub, 'GET', given.url.slice(`${hub.url}/ocpi`.length), { token: given.token });
  t.equal(versions.json.status_code, 1000, 'the token opens the url');
  t.match(await party(id), {
    status: 'CONNECTED',
    url: body.url,
    roles: [{ role: 'CPO', business_details: { name: `${id.slice(3)} Ltd` } }],
  });
});

t.test('GET answers what the hub gave this partner [interface, Credentials] [D11]', async (t) => {
  const { hubToken } = await registered(t);
  const { json } = await ocpi(hub, 'GET', credentials, { token: hubToken });
  t.same(json.data, {
    token: hubToken,
    url: `${hub.url}/ocpi/versions`,
    roles: [{ role: 'HUB', country_code: 'XX', party_id: 'HUB', business_details: { name: 'OCPI hub' } }],
  });
});

t.test('versions are fetched before the answer, with the token of the body [interface, Credentials 2]', async (t) => {
  const { partner, hubToken, body, id } = await registered(t);
  t.same(
    partner.asked.map(({ method, path }) => `${method} ${path}`),
    ['GET /ocpi/versions', 'GET /ocpi/2.2.1'],
  );
  const { endpoints } = (await party(id)) as { endpoints: object[] };
  t.match(endpoints, [
    { identifier: 'credentials', source: 'discovered' },
    { identifier: 'tokens', role: 'RECEIVER', url: `${partner.url}/ocpi/2.2.1/tokens`, source: 'discovered' },
  ]);
  partner.asked.length = 0;
  granted(t, await ocpi(hub, 'PUT', credentials, { token: hubToken, body }), 'PUT');
  t.equal(partner.asked.length, 2, 'PUT fetches them again [interface, Credentials 4]');
});

t.test(
  'the POST token works until the token of a PUT is used, then no more [interface, Credentials 4] [D9] [D73]',
  async (t) => {
    const { hubToken, body } = await registered(t);
    t.equal((await ocpi(hub, 'GET', credentials, { token: hubToken })).status, 200, 'the POST token, without any PUT');
    const second = granted(t, await ocpi(hub, 'PUT', credentials, { token: hubToken, body }), 'PUT');
    const third = granted(t, await ocpi(hub, 'PUT', credentials, { token: second, body }), 'PUT again');
    t.equal((await ocpi(hub, 'GET', credentials, { token: third })).status, 200, 'the last one is used');
    for (const token of [hubToken, second]) {
      refused(t, await ocpi(hub, 'GET', credentials, { token }), invalidToken, 'GET with a replaced token');
      refused(t, await ocpi(hub, 'PUT', credentials, { token, body }), invalidToken, 'PUT with a replaced token');
      refused(t, await ocpi(hub, 'DELETE', credentials, { token }), invalidToken, 'DELETE with a replaced token');
      refused(t, await ocpi(hub, 'POST', credentials, { token, body }), spentPost, 'POST with a replaced token');
    }
  },
);

t.test('PUT puts the partner’s new token and url to use [interface, Credentials 4] [D42]', async (t) => {
  const { hubToken, body, id, roles } = await registered(t);
  const moved = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: id.slice(3) });
  t.teardown(() => moved.close());
  const next = { ...body, token: moved.token, url: `${moved.url}/ocpi/2.2.1`, roles };
  granted(t, await ocpi(hub, 'PUT', credentials, { token: hubToken, body: next }), 'PUT');
  t.match(await party(id), {
    url: next.url,
    endpoints: [{ url: `${moved.url}/ocpi/2.2.1/credentials` }],
  });
  moved.asked.length = 0;
  t.match(await hub.created.hub.operations.probe(id), { status: 'reachable' });
  t.same(
    moved.asked.map(({ path }) => path),
    ['/ocpi/2.2.1'],
    'a probe calls the url of the credentials',
  );
});

t.test('a registered partner’s POST is refused with 405 and Allow [D6] [D10]', async (t) => {
  const { hubToken, body } = await registered(t);
  const answer = await ocpi(hub, 'POST', credentials, { token: hubToken, body });
  refused(t, answer, alreadyRegistered, 'POST with the hub token');
  t.equal(answer.headers.allow, 'GET, PUT, DELETE');
});

t.test('of two POSTs at once one wins and the other is refused [D9]', async (t) => {
  const { initial, body } = await newcomer(t);
  const answers = await Promise.all([1, 2].map(() => ocpi(hub, 'POST', credentials, { token: initial, body })));
  const [won, lost] = answers.sort((a, b) => a.status - b.status);
  if (!won || !lost) throw new Error('two answers were expected');
  const token = granted(t, won, 'one of them');
  refused(t, lost, spentPost, 'the other');
  t.equal((await ocpi(hub, 'GET', credentials, { token })).status, 200, 'the token of the one that won is good');
});

t.test('two PUTs at once run one after the other, and the token of the second one counts [D10] [D73]', async (t) => {
  const { hubToken, body } = await registered(t);
  const answers = await Promise.all([1, 2].map(() => ocpi(hub, 'PUT', credentials, { token: hubToken, body })));
  const tokens = answers.map((answer) => granted(t, answer, 'a PUT'));
  const statuses = [];
  for (const token of [...tokens, hubToken]) statuses.push((await ocpi(hub, 'GET', credentials, { token })).status);
  t.same(statuses.sort(), [200, 401, 401], 'one of them is good, and with it the former one ends');
});

// What the partner's versions may be

const detailsOf = (endpoints: unknown[], version = '2.2.1'): Reply => ({ body: { version, endpoints } });

type Failure = PlainPartnerOptions['discovery'] | 'closed' | 'token';
const failures: [name: string, ocpiStatus: number, discovery: Failure, message?: RegExp][] = [
  ['nobody listens', 3001, 'closed'],
  ['the token of the body is refused', 3001, 'token'],
  ['HTTP 500', 3001, () => ({ status: 500, text: 'oops' })],
  ['HTTP 404', 3001, () => ({ status: 404, text: '{}' })],
  ['a redirect', 3001, () => ({ status: 302, text: '', headers: { Location: 'http://127.0.0.1:1/' } })],
  ['the connection is cut', 3001, () => ({ isCut: true })],
  ['not JSON', 3001, () => ({ text: '<html>' })],
  ['no envelope', 3001, () => ({ text: '[]' })],
  ['an OCPI error', 3001, () => ({ text: '{"status_code":2000,"data":[]}' })],
  ['neither a list nor details', 3001, () => ({ body: { something: 'else' } })],
  [
    'a version without a usable url',
    3001,
    () => ({ body: [{ version: '2.2.1', url: '/ocpi/2.2.1' }] }),
    /the url of version 2\.2\.1: expected an absolute http or https URL/,
  ],
  ['details cannot be fetched', 3001, ({ path }) => (path === '/ocpi/2.2.1' ? { status: 500 } : undefined)],
  ['2.2.1 is not among the versions', 3002, () => ({ body: [{ version: '2.1.1', url: 'http://127.0.0.1:1/' }] })],
  ['no version at all', 3002, () => ({ body: [] })],
  ['the details are those of another version', 3002, () => detailsOf([], '2.1.1')],
  [
    'no credentials module in the details',
    3003,
    ({ path }) =>
      path === '/ocpi/2.2.1'
        ? detailsOf([{ identifier: 'commands', role: 'RECEIVER', url: 'http://127.0.0.1:1/commands' }])
        : undefined,
  ],
  [
    'details with a relative url',
    3003,
    ({ path }) =>
      path === '/ocpi/2.2.1'
        ? detailsOf([{ identifier: 'credentials', role: 'SENDER', url: '/ocpi/2.2.1/credentials' }])
        : undefined,
    /: 1 of 1 endpoints lack a usable identifier, role or url \(an absolute http or https URL/,
  ],
  [
    'details without endpoints',
    3003,
    ({ path }) => (path === '/ocpi/2.2.1' ? detailsOf([]) : undefined),
    /lack the credentials module$/,
  ],
];

t.test(
  'POST with versions that cannot be used is 3001, 3002 or 3003, and changes nothing [interface, Credentials 2] [D1] [D13]',
  async (t) => {
    let behaviour: PlainPartnerOptions['discovery'];
    const one = await newcomer(t, { discovery: (received) => behaviour?.(received) });
    for (const [name, ocpiStatus, discovery, message = /./] of failures) {
      behaviour = typeof discovery === 'string' ? undefined : discovery;
      const body = {
        ...one.body,
        ...(discovery === 'closed' && { url: 'http://127.0.0.1:1/ocpi/versions' }),
        ...(discovery === 'token' && { token: 'not-its-own' }),
      };
      const before = await changesOf(hub);
      const answer = await ocpi(hub, 'POST', credentials, { token: one.initial, body });
      refused(t, answer, [200, ocpiStatus, message], name);
      t.equal(await changesOf(hub), before, `${name}: nothing is recorded`);
    }
    behaviour = undefined;
    t.match(await party(one.id), { status: 'REGISTERED', url: null, endpoints: { length: 0 } });
    granted(t, await ocpi(hub, 'POST', credentials, { token: one.initial, body: one.body }), 'the token is still good');
  },
);

t.test(
  'PUT with versions that cannot be used leaves the old token in force [interface, Credentials 2] [D13]',
  async (t) => {
    let behaviour: PlainPartnerOptions['discovery'];
    const one = await registered(t, { discovery: (received) => behaviour?.(received) });
    const before = await changesOf(hub);
    for (const [name, ocpiStatus, discovery] of failures) {
      if (typeof discovery === 'string') continue;
      behaviour = discovery;
      const answer = await ocpi(hub, 'PUT', credentials, { token: one.hubToken, body: one.body });
      refused(t, answer, [200, ocpiStatus, /./], name);
    }
    t.equal(await changesOf(hub), before);
    t.equal((await ocpi(hub, 'GET', credentials, { token: one.hubToken })).status, 200);
  },
);

t.test('the url may be the versions list or the version details [interface, Credentials 1] [D13]', async (t) => {
  const { initial, body, partner, id } = await newcomer(t);
  const direct = { ...body, url: `${partner.url}/ocpi/2.2.1` };
  granted(t, await ocpi(hub, 'POST', credentials, { token: initial, body: direct }), 'POST');
  t.same(
    partner.asked.map(({ path }) => path),
    ['/ocpi/2.2.1'],
    'details are recognised by their shape and asked for once',
  );
  t.match(await party(id), { url: direct.url, endpoints: [{ identifier: 'credentials' }] });
});

t.test('a credentials endpoint without a role is enough, and malformed entries are skipped [D13] [D74]', async (t) => {
  const { id } = await registered(t, {
    discovery: ({ path }) =>
      path === '/ocpi/2.2.1'
        ? detailsOf([
            { identifier: 'credentials', url: 'http://127.0.0.1:1/credentials' },
            { identifier: 'sessions', url: 'http://127.0.0.1:1/sessions' },
            { identifier: 'cdrs', role: 'RECEIVER', url: 'nowhere' },
            null,
            { identifier: 'tariffs', role: 'RECEIVER', url: 'http://127.0.0.1:1/tariffs' },
          ])
        : undefined,
  });
  const { endpoints } = (await party(id)) as { endpoints: { identifier: string }[] };
  t.same(
    endpoints.map(({ identifier }) => identifier),
    ['credentials', 'tariffs', 'sessions'],
  );
});

t.test('an endpoint set by the operator wins and survives a rotation [interface, Credentials 8] [D13]', async (t) => {
  const cpo = await registered(t);
  const emsp = await registered(t, { role: 'EMSP' });
  await admin(hub, 'PUT', `/routes/${emsp.id}/${cpo.id}`, { active: true });
  const url = `${emsp.partner.url}/elsewhere/sessions`;
  const set = { endpoints: [{ identifier: 'sessions', role: 'RECEIVER', url }] };
  await admin(hub, 'PUT', `/parties/${emsp.id}/endpoints`, set);
  const cdr_token = { country_code: 'NL', party_id: emsp.id.slice(3), uid: 'U', type: 'RFID', contract_id: 'C' };
  const push = async (id: string) => {
    const fields = { party_id: cpo.id.slice(3), cdr_token };
    const path = `/2.2.1/sessions/NL/${cpo.id.slice(3)}/${id}`;
    t.equal((await ocpi(hub, 'PUT', path, { token: cpo.hubToken, body: sessionBody(id, fields) })).status, 200);
    await emsp.partner.got(id, ({ path }) => path.endsWith(`/${id}`));
  };
  await push('S1');
  const rotation = { token: emsp.hubToken, body: emsp.body };
  granted(t, await ocpi(hub, 'PUT', credentials, rotation), 'PUT');
  await push('S2');
  const elsewhere = (id: string) => `/elsewhere/sessions/NL/${cpo.id.slice(3)}/${id}`;
  t.same(
    emsp.partner.received.map(({ path }) => path),
    [elsewhere('S1'), elsewhere('S2')],
  );
  const { endpoints } = (await party(emsp.id)) as { endpoints: { url: string; source: string }[] };
  t.match(
    endpoints.filter((endpoint) => endpoint.url === url),
    [{ source: 'operator' }],
  );
  await admin(hub, 'PUT', `/parties/${emsp.id}/endpoints`, { endpoints: [] });
  await push('S3');
  const discovered = `/ocpi/2.2.1/sessions/NL/${cpo.id.slice(3)}/S3`;
  t.equal(emsp.partner.received.at(-1)?.path, discovered, 'taken away, the discovered one counts again');
});

// Roles

t.test('a role that the operator did not assign is refused, and the partner is not called [D12]', async (t) => {
  const { initial, body, partner, id } = await newcomer(t);
  const own = { role: 'CPO', country_code: 'NL', party_id: id.slice(3) };
  const rows: [name: string, roles: object[]][] = [
    ['another party', [{ ...own, party_id: 'ZZZ' }]],
    ['another country', [{ ...own, country_code: 'DE' }]],
    ['another role', [{ ...own, role: 'EMSP' }]],
    ['one too many', [own, { ...own, party_id: 'ZZZ' }]],
    ['the hub’s', [{ role: 'HUB', country_code: 'XX', party_id: 'HUB' }]],
  ];
  const before = await changesOf(hub);
  for (const [name, roles] of rows) {
    const answer = await ocpi(hub, 'POST', credentials, { token: initial, body: { ...body, roles } });
    refused(t, answer, [200, 2001, /^roles: .* was not assigned by the hub operator$/], `POST with ${name}`);
  }
  t.equal(partner.asked.length, 0, 'its versions were not asked for');
  t.equal(await changesOf(hub), before);
  const hubToken = granted(t, await ocpi(hub, 'POST', credentials, { token: initial, body }), 'POST');
  for (const [name, roles] of rows) {
    const answer = await ocpi(hub, 'PUT', credentials, { token: hubToken, body: { ...body, roles } });
    refused(t, answer, [200, 2001, /^roles: /], `PUT with ${name}`);
  }
  t.equal((await ocpi(hub, 'GET', credentials, { token: hubToken })).status, 200);
});

t.test('ids compare in any case and keep the case in which the operator stored them [D12]', async (t) => {
  const { initial, body, id } = await newcomer(t);
  const roles = [{ role: 'CPO', country_code: 'nl', party_id: id.slice(3).toLowerCase() }];
  const hubToken = granted(
    t,
    await ocpi(hub, 'POST', credentials, { token: initial, body: { ...body, roles } }),
    'POST',
  );
  const { json } = await ocpi(hub, 'GET', '/2.2.1/hubclientinfo?limit=1000', { token: hubToken });
  const own = (json.data as { party_id: string; country_code: string }[]).filter(
    ({ party_id }) => party_id.toUpperCase() === id.slice(3),
  );
  t.match(own, [{ country_code: 'NL', party_id: id.slice(3) }]);
  const path = `/2.2.1/sessions/nl/${id.slice(3).toLowerCase()}/S1`;
  const pushed = await ocpi(hub, 'PUT', path, { token: hubToken, body: sessionBody('S1', { party_id: id.slice(3) }) });
  t.equal(pushed.json.status_code, 1000, 'its own path in another case');
});

t.test('a partner may hold several parties in one relationship [D16]', async (t) => {
  const others: PartnerParty[] = [
    { role: 'EMSP', country_code: 'DE', party_id: 'PLA' },
    { role: 'CPO', country_code: 'BE', party_id: 'PLB' },
  ];
  const one = await registered(t, { others });
  const { json } = await ocpi(hub, 'GET', '/2.2.1/hubclientinfo?limit=1000', { token: one.hubToken });
  const own = new Set([one.id, 'DE-PLA', 'BE-PLB']);
  const listed = (json.data as (PartnerParty & { status: string })[])
    .filter(({ country_code, party_id }) => own.has(`${country_code}-${party_id}`))
    .map(({ role, country_code, party_id, status }) => `${role} ${country_code}-${party_id} ${status}`);
  t.same(listed.sort(), ['CPO BE-PLB CONNECTED', `CPO ${one.id} CONNECTED`, 'EMSP DE-PLA CONNECTED']);
  for (const [country, id] of [
    ['NL', one.id.slice(3)],
    ['BE', 'PLB'],
  ] as const) {
    const body = sessionBody('S1', { country_code: country, party_id: id });
    const answer = await ocpi(hub, 'PUT', `/2.2.1/sessions/${country}/${id}/S1`, { token: one.hubToken, body });
    t.equal(answer.json.status_code, 1000, `it pushes as ${country}-${id}`);
  }
  const asEmsp = await ocpi(hub, 'GET', '/2.2.1/locations', { token: one.hubToken });
  t.equal(asEmsp.json.status_code, 1000, 'and pulls as DE-PLA');
});

t.test('a country_code and party_id belong to one partner alone, whatever the role [D41]', async (t) => {
  const { id } = await newcomer(t);
  for (const role of ['CPO', 'EMSP']) {
    const roles = [{ role, country_code: 'nl', party_id: id.slice(3).toLowerCase() }];
    await t.rejects(admin(hub, 'POST', '/parties', { roles }), { message: /: 409 / }, role);
  }
  const hubs = [{ role: 'CPO', country_code: 'XX', party_id: 'HUB' }];
  await t.rejects(admin(hub, 'POST', '/parties', { roles: hubs }), { message: /: 409 / }, 'nor is the hub’s free');
});

t.test('credentials that do not fit their type are refused by field [D3] [D8]', async (t) => {
  const { initial, body, partner } = await newcomer(t);
  const [role = {}] = body.roles;
  const rows: [body: object, message: string | RegExp][] = [
    [{ ...body, token: undefined }, 'token: expected string'],
    [{ ...body, token: '' }, /^token: expected 1 to 64/],
    [{ ...body, token: 'x'.repeat(65) }, /^token: expected 1 to 64/],
    [{ ...body, token: 'with space' }, /^token: expected 1 to 64/],
    [{ ...body, token: 'ümlaut' }, /^token: expected 1 to 64/],
    [{ ...body, url: undefined }, 'url: expected string'],
    [{ ...body, url: 'nowhere' }, 'url: expected http or https URL'],
    [{ ...body, url: 'ftp://127.0.0.1/' }, 'url: expected http or https URL'],
    [{ ...body, roles: undefined }, 'roles: expected array'],
    [{ ...body, roles: [] }, 'roles: expected at least one role'],
    [{ ...body, roles: [{ ...role, role: undefined }] }, 'roles[0].role: expected string'],
    [{ ...body, roles: [{ ...role, country_code: 'NLD' }] }, /^roles\[0\]\.country_code: expected 1 to 2/],
    [{ ...body, roles: [{ ...role, party_id: 7 }] }, 'roles[0].party_id: expected string'],
  ];
  for (const [bad, message] of rows) {
    const answer = await ocpi(hub, 'POST', credentials, { token: initial, body: bad });
    refused(t, answer, [200, 2001, message], String(message));
  }
  t.equal(partner.asked.length, 0);
  const longest = { ...body, token: partner.token.padEnd(64, 'x') };
  const answer = await ocpi(hub, 'POST', credentials, { token: initial, body: longest });
  t.equal(answer.json.status_code, 3001, '64 characters are taken, and used');
});

// Farewell

t.test('DELETE invalidates the tokens and suspends the party [interface, Credentials 5, 6] [D6] [D10]', async (t) => {
  const { hubToken, initial, body, id } = await registered(t);
  const second = granted(t, await ocpi(hub, 'PUT', credentials, { token: hubToken, body }), 'PUT');
  const answer = await ocpi(hub, 'DELETE', credentials, { token: second });
  t.match([answer.status, answer.json.status_code], [200, 1000]);
  t.match(await party(id), { status: 'SUSPENDED' });
  for (const token of [second, hubToken, initial]) {
    refused(t, await ocpi(hub, 'DELETE', credentials, { token }), notRegistered, 'a second DELETE');
    refused(t, await ocpi(hub, 'PUT', credentials, { token, body }), notRegistered, 'PUT');
    refused(t, await ocpi(hub, 'GET', credentials, { token }), invalidToken, 'GET');
    refused(t, await ocpi(hub, 'POST', credentials, { token, body }), invalidToken, 'POST');
    refused(t, await ocpi(hub, 'GET', '/versions', { token }), invalidToken, 'versions');
  }
  const again = await ocpi(hub, 'DELETE', credentials, { token: second });
  t.equal(again.headers.allow, 'POST', 'a 405 says what is left');
});

t.test('a new initial token brings an unregistered partner back [interface, Authentication 3] [D10]', async (t) => {
  const { hubToken, initial, body, id } = await registered(t);
  await ocpi(hub, 'DELETE', credentials, { token: hubToken });
  const issue = async () => String((await admin(hub, 'POST', `/parties/${id}/initial-token`)).initial_token);
  const unused = await issue();
  const fresh = await issue();
  refused(t, await ocpi(hub, 'POST', credentials, { token: unused, body }), invalidToken, 'a replaced initial token');
  t.equal((await ocpi(hub, 'GET', '/versions', { token: fresh })).status, 200);
  const next = granted(t, await ocpi(hub, 'POST', credentials, { token: fresh, body }), 'POST');
  t.match(await party(id), { status: 'CONNECTED' });
  t.equal((await ocpi(hub, 'GET', credentials, { token: next })).status, 200);
  for (const token of [hubToken, initial, unused, fresh]) {
    refused(t, await ocpi(hub, 'DELETE', credentials, { token }), invalidToken, 'no earlier token ends the new life');
  }
});

t.test('an operator’s suspension has the effect of DELETE [interface, States] [D10]', async (t) => {
  const { hubToken, body, id } = await registered(t);
  await admin(hub, 'POST', `/parties/${id}/suspend`);
  t.match(await party(id), { status: 'SUSPENDED' });
  refused(t, await ocpi(hub, 'GET', '/versions', { token: hubToken }), invalidToken, 'versions');
  refused(t, await ocpi(hub, 'PUT', credentials, { token: hubToken, body }), notRegistered, 'PUT');
});

t.test('tokens in force, used up and revoked survive a restart [D9] [D10]', async (t) => {
  const dataDir = directoryFor(t);
  const config = () => {
    const env = { HUB_PORT: '0', HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent' };
    return loadConfig({ env, flags: {} });
  };
  const first = await startHub(config());
  const stays = await newcomer(t, {}, {}, first);
  const leaves = await newcomer(t, {}, {}, first);
  const waits = await newcomer(t, {}, {}, first);
  const post = async ({ initial, body }: Newcomer) =>
    tokenOf(await ocpi(first, 'POST', credentials, { token: initial, body }));
  const replaced = await post(stays);
  const inForce = tokenOf(await ocpi(first, 'PUT', credentials, { token: replaced, body: stays.body }));
  const revoked = await post(leaves);
  await ocpi(first, 'DELETE', credentials, { token: revoked });
  await first.close();
  const second = await startHub(config());
  t.teardown(() => second.close());
  const ask = (method: string, token: string) => {
    const { body } = stays;
    return ocpi(second, method, credentials, { token, ...(method.startsWith('P') && { body }) });
  };
  t.equal(tokenOf(await ask('GET', inForce)), inForce, 'in force');
  refused(t, await ask('GET', replaced), invalidToken, 'replaced');
  refused(t, await ask('POST', replaced), spentPost, 'replaced, POST');
  refused(t, await ask('POST', stays.initial), spentPost, 'spent, POST');
  refused(t, await ask('DELETE', stays.initial), invalidToken, 'spent, DELETE');
  refused(t, await ask('DELETE', revoked), notRegistered, 'revoked, DELETE');
  refused(t, await ask('PUT', revoked), notRegistered, 'revoked, PUT');
  refused(t, await ask('GET', revoked), invalidToken, 'revoked, GET');
  const { initial, body } = waits;
  granted(t, await ocpi(second, 'POST', credentials, { token: initial, body }), 'an initial token that waited');
});
