/**
 * The operators' door of a real hub: who may call what, onboarding, routing, and what a mistake is answered with.
 */
import { join } from 'node:path';
import { adminRoutes } from '../../src/admin/server.ts';
import type { Page } from '../../src/api/common.ts';
import type { EventView } from '../../src/api/events.ts';
import type { PartyView } from '../../src/api/parties.ts';
import { loadConfig } from '../../src/config/config.ts';
import type { Route } from '../../src/domain/routing.ts';
import { type RunningHub, startHub } from '../../src/main.ts';
import { callOnce } from '../support/caller.ts';
import { changesOf } from '../support/ocpi-call.ts';
import { type Test, t } from '../support/tap.ts';

const tokens = {
  admin: 'admin-token-of-the-tests',
  viewer: 'viewer-token-of-the-tests',
  wrong: 'admin-token-of-the-test',
  none: null,
};

interface Asked {
  readonly token?: string | null;
  readonly body?: unknown;
  /** Sent as it is. */
  readonly text?: string;
  readonly headers?: Record<string, string>;
}

interface Answer<T> {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Parsed when the answer is one JSON text, and then taken for a T. */
  readonly json: T;
}

type Fields = Record<string, unknown>;
type Added = PartyView & { readonly initial_token: string };
type Parties = Page<PartyView>;
type OpenApi = Fields & { readonly paths: Record<string, object> };

const idsOf = ({ items }: Parties) => items.map(({ id }) => id);

let hub: RunningHub;
const config = (dataDir: string) =>
  loadConfig({
    env: {
      HUB_PORT: '0',
      HUB_DATA_DIR: dataDir,
      HUB_ADMIN_TOKEN: tokens.admin,
      HUB_VIEWER_TOKEN: tokens.viewer,
      HUB_RATE_FAILED_TOKENS_PER_S: '1000000',
      HUB_LOG_LEVEL: 'silent',
    },
    flags: {},
  });

async function call<T = Fields>(
  method: string,
  path: string,
  { token = tokens.admin, body, text, headers }: Asked = {},
): Promise<Answer<T>> {
  const sent = text ?? (body === undefined ? undefined : JSON.stringify(body));
  const answer = await callOnce(method, hub.url + path, sent, {
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
    ...headers,
  });
  const type = answer.headers.get('content-type') ?? '';
  const isJson = type.includes('json') && !type.includes('ndjson');
  const json = (isJson && answer.text ? JSON.parse(answer.text) : null) as T;
  return { ...answer, json };
}

const admin = <T = Fields>(method: string, path: string, asked?: Asked) => call<T>(method, `/admin/v1${path}`, asked);

function refused(t: Test, answer: Answer<Fields>, status: number, detail: RegExp | string): void {
  t.equal(answer.status, status, `${status}: ${answer.text.slice(0, 200)}`);
  t.match(answer.headers.get('content-type'), /^application\/problem\+json/);
  t.match(answer.json, { type: /^urn:/, title: /./, status, detail, instance: /^\// });
}

const cpo = (partyId: string) => ({ role: 'CPO', country_code: 'NL', party_id: partyId });
const emsp = (partyId: string) => ({ role: 'EMSP', country_code: 'DE', party_id: partyId });

t.before(async () => {
  hub = await startHub(config(join(t.testdir({}), 'data')));
});

t.teardown(() => hub.close());

t.test('every route asks for a token first, and a viewer may only read', async (t) => {
  const table = adminRoutes(hub.created.hub.operations);
  t.ok(table.length >= 18, `${table.length} routes`);
  for (const { method, path, role } of table) {
    const filled = path.replace('{emsp}', 'DE-NIL').replace('{cpo}', 'NL-NIL').replace('{id}', 'NL-NIL');
    const statusFor = async (token: string | null) => (await admin(method, filled, { token })).status;
    t.equal(await statusFor(tokens.none), 401, `${method} ${path} without a token`);
    t.equal(await statusFor(tokens.wrong), 401, `${method} ${path} with a wrong token`);
    const viewer = await statusFor(tokens.viewer);
    if (role !== 'viewer') t.equal(viewer, 403, `${method} ${path} is refused to a viewer`);
    else t.notOk([401, 403].includes(viewer), `${method} ${path} is open to a viewer (${viewer})`);
    t.equal(
      role === 'viewer',
      method === 'GET' && !path.startsWith('/audit'),
      `${method} ${path} changes something, or reads`,
    );
    t.notOk([401, 403].includes(await statusFor(tokens.admin)), `${method} ${path} is open to an admin`);
  }
});

t.test('without a token nothing is shown, not even whether a path exists', async (t) => {
  for (const [method, path] of [
    ['GET', '/nothing'],
    ['DELETE', '/parties'],
    ['POST', '/nothing'],
  ] as const) {
    const answer = await admin(method, path, { token: null });
    refused(t, answer, 401, /Bearer/);
    t.match(answer.headers.get('www-authenticate'), /^Bearer/);
  }
  refused(t, await admin('POST', '/parties', { token: null, text: 'not json' }), 401, /Bearer/);
  for (const authorization of [
    '',
    'Bearer',
    'Bearer ',
    `Token ${tokens.admin}`,
    `Bearer ${tokens.admin} x`,
    tokens.admin,
  ]) {
    t.equal((await admin('GET', '/status', { token: null, headers: { authorization } })).status, 401, authorization);
  }
  t.equal(
    (await admin('GET', '/status', { token: null, headers: { authorization: `bearer ${tokens.viewer}` } })).status,
    200,
  );
});

t.test('a partner is added with its parties, and its token is never shown again', async (t) => {
  const roles = [cpo('AAA'), { ...cpo('AAB'), business_details: { name: 'Charge & Co' } }];
  const added = await admin<Added>('POST', '/parties', { body: { roles, token_encoding: 'plain' } });
  t.equal(added.status, 201);
  t.match(added.json, { id: 'NL-AAA', status: 'REGISTERED', roles, url: null, endpoints: { length: 0 } });
  t.match(added.json.initial_token, /^[A-Za-z0-9_-]{43}$/);
  t.equal(added.json.settings.token_encoding, 'plain');
  for (const path of ['/parties', '/parties/NL-AAA', '/parties/nl-aaa']) {
    const shown = await admin('GET', path, { token: tokens.viewer });
    t.equal(shown.status, 200, path);
    t.notMatch(shown.text, added.json.initial_token, `${path} shows no token`);
  }
  const { json } = await admin('GET', '/parties/NL-AAA');
  t.strictSame(
    Object.keys(json).sort(),
    Object.keys(added.json)
      .filter((key) => key !== 'initial_token')
      .sort(),
  );
  t.match(json, { queue: { depth: 0, oldest_age_s: null }, circuits: [{ circuit: 'sync' }, { circuit: 'async' }] });
});

t.test('a party belongs to one partner alone: 409 [D41]', async (t) => {
  await admin('POST', '/parties', { body: { roles: [cpo('BBB')] } });
  refused(t, await admin('POST', '/parties', { body: { roles: [cpo('BBB')] } }), 409, /NL-BBB/);
  const asEmsp = { role: 'EMSP', country_code: 'nl', party_id: 'bbb' };
  refused(t, await admin('POST', '/parties', { body: { roles: [asEmsp] } }), 409, /NL-BBB/);
  const hubItself = { role: 'CPO', country_code: 'XX', party_id: 'HUB' };
  refused(t, await admin('POST', '/parties', { body: { roles: [hubItself] } }), 409, /XX-HUB/);
});

t.test('a wrong field is named, with what was expected, and nothing changes', async (t) => {
  const before = (await admin('GET', '/parties')).text;
  const cases: [unknown, string, RegExp][] = [
    [undefined, 'body', /expected object/],
    [[], 'body', /expected object/],
    [{}, 'body.roles', /expected array/],
    [{ roles: [] }, 'body.roles', />=1/],
    [{ roles: [{ ...cpo('CCC'), role: 'NSP' }] }, 'body.roles[0].role', /CPO/],
    [{ roles: [{ ...cpo('CCC'), country_code: 'NLD' }] }, 'body.roles[0].country_code', /two letters/],
    [{ roles: [cpo('TOOL')] }, 'body.roles[0].party_id', /one to three/],
    [{ roles: [cpo('CCC'), cpo('ccc')] }, 'body.roles', /twice/],
    [{ roles: [cpo('CCC')], identity_mode: 'STRICT' }, 'body.identity_mode', /COMPLIANT/],
    [{ roles: [cpo('CCC')], compatibility_until: 'tomorrow' }, 'body.compatibility_until', /RFC 3339/],
    [{ roles: [cpo('CCC')], tokenEncoding: 'plain' }, 'body.tokenEncoding', /not a known field/],
    [{ roles: [{ ...cpo('CCC'), name: 'x' }] }, 'body.roles[0].name', /not a known field/],
  ];
  for (const [body, field, message] of cases) {
    const answer = await admin('POST', '/parties', { body });
    refused(t, answer, 422, field);
    t.match(answer.json.errors, [{ field, message }], JSON.stringify(body));
  }
  t.equal((await admin('GET', '/parties')).text, before);
});

t.test('a body that cannot be read at all is 400, 413 or 415', async (t) => {
  refused(t, await admin('POST', '/parties', { text: '{"roles":' }), 400, /not JSON/);
  refused(t, await admin('POST', '/parties', { text: JSON.stringify({ roles: 'x'.repeat(300_000) }) }), 413, /large/);
  const asText = { text: '{}', headers: { 'content-type': 'text/plain' } };
  refused(t, await admin('POST', '/parties', asText), 415, /./);
});

t.test('a method that a path does not have is 405 with Allow; a path that is not there is 404', async (t) => {
  const answer = await admin('DELETE', '/parties', { text: 'not json' });
  refused(t, answer, 405, /DELETE/);
  t.equal(answer.headers.get('allow'), 'POST, GET, HEAD');
  t.equal((await admin('PATCH', '/routes/DE-EEE/NL-CCC')).headers.get('allow'), 'PUT, DELETE');
  t.equal((await admin('DELETE', '/openapi.json')).headers.get('allow'), 'GET, HEAD');
  t.equal((await admin('POST', '/inspector')).headers.get('allow'), 'GET, HEAD');
  refused(t, await admin('GET', '/nothing'), 404, '/admin/v1/nothing');
  t.equal((await admin('HEAD', '/parties')).status, 200);
});

t.test('an unknown id is 404 in every noun', async (t) => {
  for (const path of ['/parties/NL-NIL', '/deliveries/1-NL-NIL', '/deliveries/nonsense', '/commands/nonsense']) {
    refused(t, await admin('GET', path), 404, /./);
  }
  for (const path of ['/parties/NL-NIL/suspend', '/parties/NL-NIL/initial-token']) {
    refused(t, await admin('POST', path), 404, /./);
  }
  refused(t, await admin('PATCH', '/parties/NL-NIL', { body: { paused: true } }), 404, /./);
  refused(t, await admin('PUT', '/parties/NL-NIL/endpoints', { body: { endpoints: [] } }), 404, /./);
  refused(t, await admin('PUT', '/routes/DE-NIL/NL-NIL', { body: { active: true } }), 404, /DE-NIL/);
  refused(t, await admin('PUT', '/routes/nonsense/NL-NIL', { body: { active: true } }), 422, /path.emsp/);
});

t.test('settings of a partner change one by one', async (t) => {
  await admin('POST', '/parties', { body: { roles: [cpo('DDD')] } });
  const until = '2030-01-01T00:00:00Z';
  const body = { identity_mode: 'COMPATIBILITY', compatibility_until: until, business_details: { name: 'New name' } };
  const changed = await admin('PATCH', '/parties/NL-DDD', { body });
  t.equal(changed.status, 200);
  t.match(changed.json.settings, {
    identity_mode: 'COMPATIBILITY',
    compatibility_until: until,
    token_encoding: 'auto',
  });
  t.match(changed.json.roles, [{ business_details: { name: 'New name' } }]);
  t.match((await admin('PATCH', '/parties/NL-DDD', { body: { paused: true } })).json.settings, {
    paused: true,
    identity_mode: 'COMPATIBILITY',
  });
  t.match((await admin('PATCH', '/parties/NL-DDD', { body: { compatibility_until: null } })).json.settings, {
    compatibility_until: null,
  });
  refused(t, await admin('PATCH', '/parties/NL-DDD', { body: { puased: true } }), 422, 'body.puased');
});

t.test('endpoints set by the operator are shown as such', async (t) => {
  await admin('POST', '/parties', { body: { roles: [emsp('DDE')] } });
  const endpoint = { identifier: 'sessions', role: 'RECEIVER', url: 'http://127.0.0.1:9/ocpi/2.2.1/sessions' };
  const set = await admin('PUT', '/parties/DE-DDE/endpoints', { body: { endpoints: [endpoint] } });
  t.equal(set.status, 200);
  t.strictSame(set.json.endpoints, [{ ...endpoint, source: 'operator' }]);
  const inCapitals = { endpoints: [{ ...endpoint, identifier: 'Sessions' }] };
  const again = await admin('PUT', '/parties/DE-DDE/endpoints', { body: inCapitals });
  t.strictSame(again.json.endpoints, set.json.endpoints, 'an identifier has no capitals');
  const wrong = async (change: object, field: string) =>
    refused(
      t,
      await admin('PUT', '/parties/DE-DDE/endpoints', { body: { endpoints: [{ ...endpoint, ...change }] } }),
      422,
      field,
    );
  await wrong({ url: 'ftp://127.0.0.1/' }, 'body.endpoints[0].url');
  await wrong({ url: 'http://user:pass@127.0.0.1/' }, 'body.endpoints[0].url');
  await wrong({ role: 'BOTH' }, 'body.endpoints[0].role');
  await wrong({ identifier: '' }, 'body.endpoints[0].identifier');
  const twice = await admin('PUT', '/parties/DE-DDE/endpoints', { body: { endpoints: [endpoint, endpoint] } });
  refused(t, twice, 422, /twice/);
  t.strictSame((await admin('PUT', '/parties/DE-DDE/endpoints', { body: { endpoints: [] } })).json.endpoints, []);
});

t.test('an initial token can be issued again, and a suspended partner is shown as suspended', async (t) => {
  const added = await admin('POST', '/parties', { body: { roles: [cpo('EEA')] } });
  const again = await admin('POST', '/parties/NL-EEA/initial-token');
  t.equal(again.status, 201);
  t.strictSame(Object.keys(again.json), ['initial_token']);
  t.not(again.json.initial_token, added.json.initial_token);
  const suspended = await admin('POST', '/parties/NL-EEA/suspend', { body: {} });
  t.match(suspended, { status: 200, json: { id: 'NL-EEA', status: 'SUSPENDED' } });
  refused(t, await admin('POST', '/parties/NL-EEA/suspend', { body: { why: 'x' } }), 422, 'body.why');
});

t.test('routing rules are set, changed and removed, and setting one twice changes nothing', async (t) => {
  await admin('POST', '/parties', { body: { roles: [cpo('FFC')] } });
  await admin('POST', '/parties', { body: { roles: [emsp('FFE')] } });
  const rule = { emsp: 'DE-FFE', cpo: 'NL-FFC', active: true };
  const ruleOf = async () =>
    (await admin<Page<Route>>('GET', '/routes')).json.items.find(
      (one) => one.emsp === rule.emsp && one.cpo === rule.cpo,
    );
  const sequence = () => changesOf(hub);
  t.match(await admin('PUT', '/routes/de-ffe/nl-ffc', { body: { active: true } }), { status: 200, json: rule });
  const seq = await sequence();
  t.match(await admin('PUT', '/routes/DE-FFE/NL-FFC', { body: { active: true } }), { status: 200, json: rule });
  t.equal(await sequence(), seq, 'nothing is recorded the second time');
  t.strictSame(await ruleOf(), rule);
  t.match(await admin('PUT', '/routes/DE-FFE/NL-FFC', { body: { active: false } }), { json: { active: false } });
  refused(t, await admin('PUT', '/routes/DE-FFE/NL-FFC', { body: { active: 'yes' } }), 422, 'body.active');
  refused(t, await admin('PUT', '/routes/NL-FFC/DE-FFE', { body: { active: true } }), 404, /EMSP/);
  t.match(await admin('DELETE', '/routes/DE-FFE/NL-FFC'), { status: 204, text: '' });
  t.equal(await ruleOf(), undefined);
});

t.test('a list is read page by page, each item once', async (t) => {
  for (const id of ['GGA', 'GGB', 'GGC']) await admin('POST', '/parties', { body: { roles: [cpo(id)] } });
  const whole = (await admin<Parties>('GET', '/parties')).json;
  t.equal(whole.next_cursor, null);
  const seen: string[] = [];
  let cursor: string | null = '';
  for (let pages = 0; cursor !== null && pages < 100; pages++) {
    const query: string = cursor === '' ? '?limit=2' : `?limit=2&cursor=${cursor}`;
    const page: Parties = (await admin<Parties>('GET', `/parties${query}`)).json;
    t.ok(page.items.length <= 2);
    seen.push(...idsOf(page));
    cursor = page.next_cursor;
  }
  t.strictSame(seen, idsOf(whole));
  t.ok(seen.length > 5);
  for (const limit of ['0', '1001', '-1', 'x', '1.5', '']) {
    refused(t, await admin('GET', `/parties?limit=${limit}`), 422, 'query.limit');
  }
  refused(t, await admin('GET', '/deliveries?reciever=NL-AAA'), 422, 'query.reciever');
  refused(t, await admin('GET', '/deliveries?state=LOST'), 422, 'query.state');
  refused(t, await admin('GET', '/orphans?state=LOST'), 422, 'query.state');
  refused(t, await admin('GET', '/deliveries?from=yesterday'), 422, 'query.from');
  const byIdAlone = /object: expected \{cc\}-\{pid\}\/\{id\}, for example NL-CPO\/101/;
  for (const list of ['deliveries', 'events']) {
    refused(t, await admin('GET', `/${list}?object=101`), 422, byIdAlone);
  }
  for (const act of ['redrive', 'discard']) {
    refused(t, await admin('POST', `/${act}`, { body: { filter: { object: '101' }, dry_run: true } }), 422, byIdAlone);
  }
});

t.test('every list answers items and next_cursor', async (t) => {
  const paths = ['/parties', '/routes', '/deliveries', '/events', '/commands', '/orphans', '/stored-not-forwarded'];
  for (const path of paths) {
    const { status, json } = await admin('GET', path, { token: tokens.viewer });
    t.equal(status, 200, path);
    t.ok('next_cursor' in json, path);
    t.ok(Array.isArray(json.items), path);
  }
});

t.test('a cursor that no list has issued is refused, and not read as an empty page', async (t) => {
  const lists = ['/parties', '/routes', '/deliveries', '/commands', '/orphans', '/pulls', '/quarantine'];
  for (const path of [...lists, '/stored-not-forwarded']) {
    for (const cursor of ['!', 'sessions:1', '1.2.3', '9.1']) {
      // A list of two parts has a cursor of two numbers.
      if (cursor === '9.1' && !['/stored-not-forwarded', '/parties', '/routes', '/orphans'].includes(path)) continue;
      const { status, text } = await admin('GET', `${path}?cursor=${cursor}`);
      t.equal(status, 422, `${path} ${cursor}`);
      t.match(text, 'cursor: not one of ours');
    }
  }
});

t.test('the event log shows who did what under which correlation id [D14]', async (t) => {
  const ids = { 'X-Request-ID': 'request-1', 'X-Correlation-ID': 'correlation-of-this-test' };
  const added = await admin<Added>('POST', '/parties', { body: { roles: [cpo('HHH')] }, headers: ids });
  t.equal(added.headers.get('x-request-id'), 'request-1');
  t.equal(added.headers.get('x-correlation-id'), 'correlation-of-this-test');
  const { json } = await admin<Page<EventView>>('GET', '/events?correlation_id=correlation-of-this-test');
  t.match(json.items, [{ type: 'partner.added', party: 'NL-HHH', correlation_id: 'correlation-of-this-test' }]);
  t.equal(json.items.length, 1);
  t.notMatch(JSON.stringify(json), added.json.initial_token, 'no token is in the log');
  const minted = await admin('GET', '/status');
  t.match(minted.headers.get('x-request-id'), /./);
  t.match(minted.headers.get('x-correlation-id'), /./);
});

t.test('the event log can be streamed as lines, in order and whole', async (t) => {
  const all = await admin('GET', '/events?limit=1000');
  const accept = { accept: 'application/x-ndjson' };
  const streamed = await admin('GET', '/events', { headers: accept });
  t.match(streamed.headers.get('content-type'), /^application\/x-ndjson/);
  const lines = streamed.text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.strictSame(lines, all.json.items);
  t.ok(lines.length > 10);
  const some = await admin('GET', '/events?after=2&limit=3', { headers: accept });
  t.strictSame(
    some.text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).seq),
    [3, 4, 5],
  );
});

t.test('status, health and readiness answer; only status needs a token', async (t) => {
  t.match((await admin('GET', '/status')).json, {
    version: /^\d+\.\d+\.\d+$/,
    ready: true,
    store: { state: 'open', reason: null },
    sequence: Number,
    clock_step: null,
    backlog: { depth: 0, oldest_age_s: null },
  });
  t.match(await call('GET', '/healthz', { token: null }), { status: 200, json: { status: 'alive' } });
  t.match(await call('GET', '/readyz', { token: null }), { status: 200, json: { status: 'ready' } });
});

t.test('openapi.json describes every route that is served, and needs no token', async (t) => {
  const { status, json } = await admin<OpenApi>('GET', '/openapi.json', { token: null });
  t.equal(status, 200);
  t.match(json, { openapi: '3.1.0', servers: [{ url: `${hub.url}/admin/v1` }] });
  const described = Object.entries(json.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const served = adminRoutes(hub.created.hub.operations).map(({ method, path }) => `${method} ${path}`);
  t.strictSame(described.sort(), served.sort());
  const limit = { name: 'limit', in: 'query', required: false, schema: { default: 100, minimum: 1, maximum: 1000 } };
  const shapeOf = (properties: object) => ({ content: { 'application/json': { schema: { properties } } } });
  t.match(json.paths, {
    '/parties': {
      get: { parameters: [limit] },
      post: {
        requestBody: shapeOf({ roles: { type: 'array', minItems: 1 } }),
        responses: { 201: shapeOf({ initial_token: { type: 'string' } }) },
      },
    },
    '/parties/{id}': { get: { parameters: [{ name: 'id', in: 'path', required: true }] } },
  });
});

t.test('what operators set survives a restart', async (t) => {
  const dataDir = join(t.testdir({}), 'data');
  const first = hub;
  t.teardown(() => {
    hub = first;
  });
  hub = await startHub(config(dataDir));
  await admin('POST', '/parties', { body: { roles: [cpo('RRC')] } });
  await admin('POST', '/parties', { body: { roles: [emsp('RRE')] } });
  await admin('PUT', '/routes/DE-RRE/NL-RRC', { body: { active: true } });
  const shown = async () => {
    const parties = (await admin<Parties>('GET', '/parties')).json.items;
    const routes = (await admin<Page<Route>>('GET', '/routes')).json.items;
    return { parties: parties.map(({ id, roles, settings, status }) => ({ id, roles, settings, status })), routes };
  };
  const before = await shown();
  t.equal(before.parties.length, 2);
  t.equal(before.routes.length, 1);
  await hub.close();
  hub = await startHub(config(dataDir));
  t.strictSame(await shown(), before);
  await hub.close();
});
