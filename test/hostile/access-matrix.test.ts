/**
 * The access matrix: every door of the module table and of the admin API, with every kind of caller. A door that stands in a table
 * and not among the samples fails.
 */
import { request } from 'node:http';
import { join } from 'node:path';
import { portalRoutes } from '../../src/admin/portal.ts';
import { adminRoutes } from '../../src/admin/server.ts';
import type { Operations } from '../../src/hub/ports/operator.ts';
import type { RunningHub } from '../../src/main.ts';
import { routes } from '../../src/ocpi/server.ts';
import { directoryFor } from '../support/directory.ts';
import { figures } from '../support/figures.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { changesOf } from '../support/ocpi-call.ts';
import { operatorsFile, tokenOf } from '../support/operators.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import {
  type AdminCaller,
  adminVerdictOf,
  type InspectorCaller,
  inspectorVerdicts,
  type OcpiCaller,
  type PortalCaller,
  portalVerdictOf,
  verdictOf,
} from './access-rules.ts';
import { adminSamples, ocpiSamples, otherSamples, portalSamples, type Sample } from './doors.ts';

const viewerToken = 'viewer-token-of-the-matrix';
const env = { HUB_VIEWER_TOKEN: viewerToken, HUB_RATE_LISTS_PER_MIN: '100000', HUB_RATE_COMMANDS_PER_MIN: '100000' };

interface Called {
  readonly status: number;
  readonly text: string;
}

/** Header fields may come more than once. */
function call(
  hub: RunningHub,
  method: string,
  path: string,
  headers: Record<string, string | string[]>,
  body?: string,
): Promise<Called> {
  return new Promise((resolve, reject) => {
    const content =
      body === undefined
        ? {}
        : { 'Content-Type': 'application/json', 'Content-Length': String(Buffer.byteLength(body)) };
    const sent = request(`${hub.url}${path}`, { method, headers: { ...content, ...headers } }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

type Headers = Record<string, string | string[]>;

/** A way to call: its name, what kind of caller it is, and the header fields, or a change to the path, that make it one. */
interface Caller<Kind> {
  readonly name: string;
  readonly kind: Kind;
  readonly headers: Headers;
  readonly query?: string;
}

/** Who knocks at the n-th door: at length everybody, else one of each kind, by turns. */
function knockingAt<Kind>(door: number, callers: readonly Caller<Kind>[]): readonly Caller<Kind>[] {
  if (isAtLength) return callers;
  const kinds = [...new Set(callers.map(({ kind }) => kind))];
  return kinds.map((kind) => {
    const alike = callers.filter((caller) => caller.kind === kind);
    return alike[door % alike.length] as Caller<Kind>;
  });
}

/** Asserts on cells of the matrix and counts them: what was allowed and should not have been, and the other way round. */
function matrix(t: Test) {
  const counts = { asked: 0, 'wrongly allowed': 0, 'wrongly refused': 0, 'in other words': 0 };
  // What a caller meets who is let in depends on what it sent; who is not let in meets one of these.
  const isOut = (verdict: string) => /^(401|403|404\/2003|405)\b/.test(verdict);
  return {
    meet(cell: string, met: string, expected: readonly string[]): void {
      counts.asked += 1;
      t.ok(expected.includes(met), `${cell}: ${met}`, { expected });
      if (expected.includes(met)) return;
      if (!isOut(met) && expected.every(isOut)) counts['wrongly allowed'] += 1;
      else if (isOut(met) && !expected.some(isOut)) counts['wrongly refused'] += 1;
      else counts['in other words'] += 1;
    },
    end(): void {
      t.comment(`${counts.asked} cells`);
      figures('access', counts);
    },
  };
}

const token = (value: string) => ({ Authorization: `Token ${btoa(value)}` });
const otherParty = { 'OCPI-from-country-code': 'DE', 'OCPI-from-party-id': 'XXX' };

async function initialToken(hub: RunningHub, role: 'CPO' | 'EMSP', partyId: string): Promise<string> {
  const roles = [{ role, country_code: 'NL', party_id: partyId }];
  return String((await admin(hub, 'POST', '/parties', { roles })).initial_token);
}

/** Registers by hand what `partnerFor` registers, to know the initial token. */
async function spentInitial(t: Test, hub: RunningHub): Promise<{ initial: string; partner: PlainPartner }> {
  const partner = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'SPT' });
  await partner.call('DELETE', '/2.2.1/credentials');
  const issued = await admin(hub, 'POST', `/parties/${partner.id}/initial-token`);
  const initial = String(issued.initial_token);
  await partner.registerAgain(initial);
  return { initial, partner };
}

const credentialsOf = (partner: PlainPartner, partyId: string) => ({
  ...{ token: partner.token, url: `${partner.url}/ocpi/versions` },
  roles: [{ role: 'CPO', country_code: 'NL', party_id: partyId }],
});

async function ocpiCallers(t: Test, hub: RunningHub): Promise<Caller<OcpiCaller>[]> {
  const allowed = { answer: () => ({ body: { allowed: 'ALLOWED' } }) };
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO', ...allowed });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  const [foreignCpo, foreignEmsp, left, suspended] = [
    await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'FCP' }),
    await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'FEM' }),
    await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'LFT' }),
    await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'SUS' }),
  ];
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  await fill(cpo, emsp);
  const { initial, partner: spent } = await spentInitial(t, hub);
  const replaced = spent.hubToken;
  const { json } = await spent.call('PUT', '/2.2.1/credentials', credentialsOf(spent, 'SPT'));
  spent.hubToken = (json.data as { token: string }).token;
  // With the first use of the new token the former one ends.
  await spent.call('GET', '/2.2.1/credentials');
  await left.call('DELETE', '/2.2.1/credentials');
  await admin(hub, 'POST', '/parties/NL-SUS/suspend');
  const own = token(cpo.hubToken);
  const [unknown, admins] = ['no-such-token', hub.adminToken];
  return [
    stranger('no token', {}),
    stranger('an unknown token', token(unknown)),
    stranger('an empty token', { Authorization: 'Token ' }),
    stranger('the viewer token', token(viewerToken)),
    stranger('the admin token', token(admins)),
    stranger('the admin token as bearer', { Authorization: `Bearer ${admins}` }),
    stranger('a hub token as bearer', { Authorization: `Bearer ${cpo.hubToken}` }),
    stranger('a hub token as basic', { Authorization: `Basic ${btoa(`${cpo.hubToken}:`)}` }),
    stranger('a hub token without a scheme', { Authorization: cpo.hubToken }),
    stranger('a hub token in the query', {}, `token=${cpo.hubToken}&authorization=Token%20${cpo.hubToken}`),
    stranger('a hub token in other headers', { 'X-Authorization': own.Authorization, Cookie: `token=${cpo.hubToken}` }),
    stranger('a hub token behind an unknown one', { Authorization: [token(unknown).Authorization, own.Authorization] }),
    stranger('a hub token in another case', token(cpo.hubToken.toLowerCase())),
    stranger('the token that the partner gave', token(cpo.token)),
    { name: 'an initial token', kind: 'initial', headers: token(await initialToken(hub, 'CPO', 'INI')) },
    { name: 'a spent initial token', kind: 'spent', headers: token(initial) },
    { name: 'a replaced hub token', kind: 'spent', headers: token(replaced) },
    { name: 'a token of a partner that left', kind: 'revoked', headers: token(left.hubToken) },
    { name: 'a token of a suspended partner', kind: 'revoked', headers: token(suspended.hubToken) },
    { name: 'a CPO as another party', kind: 'cpoAsOther', headers: { ...own, ...otherParty } },
    { name: 'an eMSP as another party', kind: 'emspAsOther', headers: { ...token(emsp.hubToken), ...otherParty } },
    { name: 'another CPO', kind: 'foreignCpo', headers: token(foreignCpo.hubToken) },
    { name: 'another eMSP', kind: 'foreignEmsp', headers: token(foreignEmsp.hubToken) },
    { name: 'the eMSP', kind: 'emsp', headers: token(emsp.hubToken) },
    { name: 'the CPO', kind: 'cpo', headers: own },
  ];
}

/** One object of every module, at the paths of the samples. */
async function fill(cpo: PlainPartner, emsp: PlainPartner): Promise<void> {
  for (const [door, { as, path, body }] of Object.entries(ocpiSamples)) {
    const [method = ''] = door.split(' ');
    if (isWhole.test(door)) await (as === 'cpo' ? cpo : emsp).push(method, path.replace(/^\/ocpi/, ''), body?.(1));
  }
}

const isWhole = /^(PUT \/2\.2\.1\/\w+\/:country_code\/:party_id\/:\w+|POST \/2\.2\.1\/cdrs)$/;

/** What takes something away comes last, leaving for good last of all. */
const byHarm = ([one]: [string, Sample], [other]: [string, Sample]) => harmOf(one) - harmOf(other);
const harmOf = (door: string) => (door.startsWith('DELETE') ? 1 : 0) + (door === 'DELETE /2.2.1/credentials' ? 1 : 0);

const withQuery = (path: string, query = '') =>
  query === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${query}`;

t.test('every OCPI door answers every caller as the requirement says [D2, D5, D7, D9, D10]', async (t) => {
  const hub = await hubFor(t, env);
  const callers = await ocpiCallers(t, hub);
  const doors = Object.entries(ocpiSamples).sort(byHarm);
  t.strictSame(
    doors.map(([door]) => door).sort(),
    routes.map(({ method, path }) => `${method} ${path}`).sort(),
    'every door has a row',
  );
  const before = await changesOf(hub);
  const cells = matrix(t);
  let changes = 0;
  for (const [n, [door, { path, body }]] of doors.entries()) {
    const [method = ''] = door.split(' ');
    for (const { name, kind, headers, query } of knockingAt(n, callers)) {
      const { status, text } = await call(hub, method, withQuery(path, query), headers, body && '{}');
      const { status_code: code } = JSON.parse(text) as { status_code: number };
      cells.meet(`${door} with ${name}`, `${status}/${code}`, [verdictOf(door, kind)]);
      if (method === 'DELETE' && code === 1000) changes++;
    }
  }
  cells.end();
  const objects = doors.filter(([door]) => /^DELETE .*\/:party_id\//.test(door));
  t.equal(changes, objects.length + 4, 'one object of each module was deleted that has it, four partners left');
  t.equal(await changesOf(hub), before + changes + authorized, 'and nothing else was recorded');
});

/** The eMSP's own authorize is forwarded and recorded. */
const authorized = 1;

/** Whoever the hub does not know, at any door. */
function stranger(name: string, headers: Headers, query = ''): Caller<'stranger'> {
  return { name, kind: 'stranger', headers, query };
}

/** Signs a partner in to its portal: its link, and the token of its session. */
async function portalOf(hub: RunningHub, id: string): Promise<{ link: string; session: string }> {
  const { url } = await admin(hub, 'POST', `/parties/${id}/portal-link`);
  const link = String(url).split('#')[1] ?? '';
  const headers = { 'Content-Type': 'application/json' };
  const { text } = await call(hub, 'POST', '/portal/v1/session', headers, JSON.stringify({ link }));
  return { link, session: String((JSON.parse(text) as { token: string }).token) };
}

function adminCallers(
  hub: RunningHub,
  hubToken: string,
  portal: { link: string; session: string },
): Caller<AdminCaller>[] {
  const bearer = (value: string) => ({ Authorization: `Bearer ${value}` });
  const { adminToken } = hub;
  return [
    stranger('no token', {}),
    stranger('an unknown token', bearer('no-such-token')),
    stranger('an empty token', bearer('')),
    stranger('a hub token as bearer', bearer(hubToken)),
    stranger('a hub token', token(hubToken)),
    stranger('the admin token as an OCPI token', token(adminToken)),
    stranger('the admin token as basic', { Authorization: `Basic ${btoa(`admin:${adminToken}`)}` }),
    stranger('the admin token in base64', bearer(btoa(adminToken))),
    stranger('the admin token without a scheme', { Authorization: adminToken }),
    stranger('the admin token in the query', {}, `token=${adminToken}&access_token=${adminToken}`),
    stranger('the admin token in other headers', {
      'X-Authorization': `Bearer ${adminToken}`,
      Cookie: `token=${adminToken}`,
    }),
    stranger('the admin token behind an unknown one', { Authorization: ['Bearer x', `Bearer ${adminToken}`] }),
    stranger('two tokens in one header', { Authorization: `Bearer x, Bearer ${adminToken}` }),
    stranger('the link of a portal', bearer(portal.link)),
    stranger('a session of a portal', bearer(portal.session)),
    { name: 'the viewer token', kind: 'viewer', headers: bearer(viewerToken) },
    { name: 'the viewer token in lower case', kind: 'viewer', headers: { Authorization: `bearer ${viewerToken}` } },
    {
      name: 'the viewer token before the admin token',
      kind: 'viewer',
      headers: { Authorization: [`Bearer ${viewerToken}`, `Bearer ${adminToken}`] },
    },
    ...(['support', 'operator'] as const).map((kind) => ({ name: kind, kind, headers: bearer(tokenOf(kind)) })),
    { name: 'an admin with a name', kind: 'admin', headers: bearer(tokenOf('boss')) },
    { name: 'the admin token', kind: 'admin', headers: bearer(adminToken) },
    { name: 'the admin token in lower case', kind: 'admin', headers: { Authorization: `bearer ${adminToken}` } },
  ];
}

t.test('every operators’ door answers every caller according to its role', async (t) => {
  const staff = [
    { name: 'support', role: 'support' },
    { name: 'operator', role: 'operator' },
    { name: 'boss', role: 'admin' },
  ];
  const file = operatorsFile(join(directoryFor(t), 'operators.json'), staff);
  const hub = await hubFor(t, { ...env, HUB_OPERATORS_FILE: file });
  const partner = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'LVR' });
  const callers = adminCallers(hub, partner.hubToken, await portalOf(hub, partner.id));
  const inTable = adminRoutes({} as Operations).map(({ method, path }) => `${method} ${path}`);
  t.strictSame(Object.keys(adminSamples).sort(), inTable.sort(), 'every door has a row');
  const doors = Object.entries({ ...adminSamples, ...otherSamples });
  const before = await changesOf(hub);
  const cells = matrix(t);
  for (const [n, [door, { path }]] of doors.entries()) {
    const [method = ''] = door.split(' ');
    for (const { name, kind, headers, query } of knockingAt(n, callers)) {
      // A strict schema takes no query that it does not know: only who has no token may put one there.
      const { status } = await call(
        hub,
        method,
        withQuery(path, query),
        headers,
        method === 'GET' ? undefined : '"text"',
      );
      cells.meet(`${door} with ${name}`, `${status}`, adminVerdictOf(door, kind).map(String));
    }
  }
  cells.end();
  t.equal(await changesOf(hub), before, 'and nothing was recorded');
});

t.test('every door of the portal answers its partner, another partner, and anybody else as it should', async (t) => {
  const hub = await hubFor(t, env);
  const own = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'LVR' });
  const other = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'OTH' });
  const [mine, theirs] = [await portalOf(hub, own.id), await portalOf(hub, other.id)];
  const bearer = (value: string) => ({ Authorization: `Bearer ${value}` });
  const callers: Caller<PortalCaller>[] = [
    stranger('no token', {}),
    stranger('the admin token', bearer(hub.adminToken)),
    stranger('the viewer token', bearer(viewerToken)),
    stranger('its hub token', token(own.hubToken)),
    stranger('its hub token as bearer', bearer(own.hubToken)),
    stranger('its link', bearer(mine.link)),
    stranger('its session as an OCPI token', token(mine.session)),
    { name: 'its session', kind: 'partner', headers: bearer(mine.session) },
    { name: 'the session of another', kind: 'foreignPartner', headers: bearer(theirs.session) },
  ];
  const table = adminRoutes({} as Operations);
  const inTable = portalRoutes({} as Operations, { table, isHostConfirmed: false }).map(
    ({ method, path }) => `${method} ${path}`,
  );
  t.strictSame(Object.keys(portalSamples).sort(), inTable.sort(), 'every door has a row');
  const before = await changesOf(hub);
  const cells = matrix(t);
  for (const [door, { path }] of Object.entries(portalSamples)) {
    const [method = ''] = door.split(' ');
    for (const { name, kind, headers } of callers) {
      const { status } = await call(hub, method, path, headers, method === 'GET' ? undefined : '"text"');
      cells.meet(`${door} with ${name}`, `${status}`, portalVerdictOf(door, kind).map(String));
    }
  }
  cells.end();
  t.equal(await changesOf(hub), before, 'and nothing was recorded');
});

/** Status of the answer to an offered WebSocket. */
function offered(hub: RunningHub, path: string, headers: Headers): Promise<number> {
  const offer = {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Key': btoa('sixteen bytes...'),
    'Sec-WebSocket-Version': '13',
  };
  return new Promise((resolve, reject) => {
    const sent = request(`${hub.url}${path}`, { headers: { ...offer, ...headers } }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on('upgrade', (response, socket) => {
      socket.destroy();
      resolve(response.statusCode ?? 0);
    });
    sent.on('error', reject);
    sent.end();
  });
}

function inspectorCallers(hub: RunningHub, hubToken: string): Caller<InspectorCaller>[] {
  const bearer = (value: string): Headers => ({ Authorization: `Bearer ${value}` });
  const protocols = (value: string): Headers => ({ 'Sec-WebSocket-Protocol': `ocpi-hub.inspector, bearer.${value}` });
  const { adminToken, url } = hub;
  const stranger = (name: string, headers: Headers, query = ''): Caller<InspectorCaller> => ({
    name,
    kind: 'stranger',
    headers,
    query,
  });
  const foreign = (name: string, headers: Headers): Caller<InspectorCaller> => ({ name, kind: 'foreignPage', headers });
  return [
    stranger('no token', {}),
    stranger('an unknown token', bearer('no-such-token')),
    stranger('an unknown token in a sub-protocol', protocols('no-such-token')),
    stranger('a hub token', token(hubToken)),
    stranger('a hub token as bearer', bearer(hubToken)),
    stranger('a hub token in a sub-protocol', protocols(hubToken)),
    stranger('the admin token in the query', {}, `token=${adminToken}&access_token=${adminToken}`),
    stranger('the admin token in a cookie', { Cookie: `token=${adminToken}; bearer=${adminToken}` }),
    stranger('the admin token as a sub-protocol of its own', {
      'Sec-WebSocket-Protocol': `ocpi-hub.inspector, ${adminToken}`,
    }),
    stranger('an unknown token in the header, the admin token in a sub-protocol', {
      ...bearer('x'),
      ...protocols(adminToken),
    }),
    stranger('a page of another origin without a token', { Origin: 'https://evil.example' }),
    foreign('the admin token from another origin', { ...bearer(adminToken), Origin: 'https://evil.example' }),
    foreign('the admin token in a sub-protocol from another origin', {
      ...protocols(adminToken),
      Origin: 'https://evil.example',
    }),
    foreign('the viewer token from another port', { ...protocols(viewerToken), Origin: url.replace(/\d+$/, '1') }),
    foreign('the admin token from a page without an origin', { ...protocols(adminToken), Origin: 'null' }),
    { name: 'the viewer token', kind: 'viewer', headers: bearer(viewerToken) },
    { name: 'the viewer token in a sub-protocol', kind: 'viewer', headers: protocols(viewerToken) },
    {
      name: 'the viewer token from its own origin',
      kind: 'viewer',
      headers: { ...protocols(viewerToken), Origin: url },
    },
    { name: 'the admin token', kind: 'admin', headers: bearer(adminToken) },
    { name: 'the admin token in lower case', kind: 'admin', headers: { Authorization: `bearer ${adminToken}` } },
    { name: 'the admin token in a sub-protocol', kind: 'admin', headers: protocols(adminToken) },
    { name: 'the admin token from its own origin', kind: 'admin', headers: { ...protocols(adminToken), Origin: url } },
  ];
}

t.test(
  'the inspector admits every role that may read, from a page of the hub or without an origin [contract, 4]',
  async (t) => {
    const hub = await hubFor(t, env);
    const partner = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'LVR' });
    const callers = inspectorCallers(hub, partner.hubToken);
    const cells = matrix(t);
    for (const { name, kind, headers, query } of callers) {
      const status = await offered(hub, withQuery('/admin/v1/inspector', query), headers);
      cells.meet(name, `${status}`, [`${inspectorVerdicts[kind]}`]);
    }
    cells.end();
    for (const path of ['/ocpi/versions', '/admin/v1/status', '/', '/admin/v1/inspector/x', '/console/']) {
      const status = await offered(hub, path, { Authorization: `Bearer ${hub.adminToken}` });
      t.not(status, 101, `no WebSocket at ${path}: ${status}`);
    }
  },
);
