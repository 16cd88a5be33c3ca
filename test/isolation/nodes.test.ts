/**
 * Two nodes on PostgreSQL with a listener of their own for each other: a tap between them sees no secret and no token, what it recorded opens
 * nothing, and what strangers send there ends no node. (I13)
 */
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { freePort } from '../../src/sandbox/free-port.ts';
import { adminToken, clusterSecret, longer, skip, startNodes } from '../cluster/nodes.ts';
import { callOnce } from '../support/caller.ts';
import { partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { sentTo, tapOn, type WireTap } from '../support/tap-on.ts';
import { malformedRequest } from './attacks.ts';

/** Two nodes for all attacks, one after the other: with a tap between them, and one before the database. */
async function tappedNodes(file: Test) {
  const taps: WireTap[] = [];
  const ports: number[] = [];
  const server = await sharedPostgres();
  const schema = newSchema('tapped');
  const link = await tapOn(file, server.port);
  const store = server.url(schema).replace(`:${server.port}`, `:${link.port}`);
  const nodes = await startNodes(file, server, schema, {
    env: { HUB_RATE_UNAUTHENTICATED_PER_S: '1000000', HUB_RATE_FAILED_TOKENS_PER_S: '1000000', HUB_STORE: store },
    async of(_port, i) {
      ports[i] = await freePort();
      const tap = await tapOn(file, ports[i]);
      taps[i] = tap;
      return { HUB_NODE_PORT: `${ports[i]}`, HUB_NODE_URL: tap.url };
    },
  });
  const owner = await nodes.owner();
  const [standby] = await nodes.standbys();
  if (standby === undefined) throw new Error('no standby');
  const at = nodes.all.indexOf(owner);
  const isReady = async () => (await fetch(`${standby.url}/readyz`)).status === 200;
  await eventually('the standby is ready', isReady);
  return { nodes, owner, standby, link, tap: taps[at] as WireTap, port: ports[at] ?? 0 };
}

const file = t;
let started: ReturnType<typeof tappedNodes> | undefined;
function scene(): ReturnType<typeof tappedNodes> {
  started ??= tappedNodes(file);
  return started;
}

t.test('a tap between two nodes sees no token, and its recording opens nothing (I13)', longer, async (t) => {
  const { standby, owner, tap, port } = await scene();
  const through = { url: standby.url, adminToken };
  // Registration and rotation by the standby: initial token, both partners' tokens, both hub tokens.
  const cpo = await partnerFor(t, through, { role: 'CPO', countryCode: 'NL', partyId: 'TAP' });
  const own = { token: cpo.token, url: `${cpo.url}/ocpi/versions` };
  const tokens = [cpo.initialToken, cpo.hubToken, cpo.token];
  const { json } = await cpo.push('PUT', '/2.2.1/credentials', {
    ...own,
    roles: [{ role: 'CPO', country_code: 'NL', party_id: 'TAP', business_details: { name: 'NL-TAP' } }],
  });
  tokens.push(String((json.data as { token: string }).token));
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'TEM' }];
  tokens.push(String((await admin(through, 'POST', '/parties', { roles })).initial_token));
  const watching = new WebSocket(`${standby.url.replace('http', 'ws')}/admin/v1/inspector`, [
    'ocpi-hub.inspector',
    `bearer.${adminToken}`,
  ]);
  t.teardown(() => watching.terminate());
  await once(watching, 'message');
  const figures = await callOnce('GET', `${standby.url}/metrics`, undefined, { authorization: `Bearer ${adminToken}` });
  t.match(figures.text, /^ocpi_hub_passed_on_total\{end="answered"\} [1-9]/m, 'the owner answered all of it');

  const seen = tap.seen();
  t.match(seen, '/cluster/v1/channel', 'the tap saw the nodes');
  const forms = (text: string) => [text, ...['base64', 'hex'].map((form) => Buffer.from(text).toString(form as 'hex'))];
  for (const token of [clusterSecret, adminToken, ...tokens]) {
    for (const form of forms(token)) t.notOk(seen.includes(form.replace(/=+$/, '')), 'no token and no secret');
  }
  for (const word of ['Authorization', 'parties', 'credentials', 'roles', 'NL-TAP', '@xstate']) {
    t.notOk(seen.toLowerCase().includes(word.toLowerCase()), `nor ${word}`);
  }

  for (const recorded of tap.toServer()) {
    if (recorded.length === 0) continue;
    const opening = recorded.subarray(0, recorded.indexOf('\r\n\r\n') + 4);
    for (const again of [recorded, opening]) t.match(await sentTo(port, again), /^HTTP\/1\.1 401 /, 'a replay');
  }
  for (const path of ['/cluster/v1/leaving/x', '/cluster/v1/owns', '/ocpi/versions', '/admin/v1/status', '/healthz']) {
    const headers = { authorization: `Bearer ${adminToken}`, 'x-ocpi-hub-client': '127.0.0.1' };
    const { status } = await callOnce('POST', `http://127.0.0.1:${port}${path}`, '{}', headers);
    t.equal(status, 401, `${path} at the listener of nodes`);
  }
  const channel = '/cluster/v1/channel';
  const upgrade = { host: 'x', connection: 'Upgrade', upgrade: 'ocpi-hub-node' };
  const fields = Object.entries(upgrade).map(([name, value]) => `${name}: ${value}\r\n`);
  const asked = await sentTo(owner.port, `GET ${channel} HTTP/1.1\r\n${fields.join('')}\r\n`);
  t.match(asked, /^HTTP\/1\.1 (503|404) /, 'nor is there a channel where partners are');
});

t.test('malformed requests to the listeners of a node, 10,000 at length, end no node (I13)', { skip }, async (t) => {
  const { standby, owner, port } = await scene();
  const send = (n: number) => sentTo(n % 2 === 0 ? port : owner.port, malformedRequest(n));
  const many = isAtLength ? 10_000 : 100;
  for (let from = 0; from < many; from += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, n) => send(from + n)));
  }
  for (const { url } of [owner, standby]) {
    const at = { url, adminToken };
    await eventually('the node answers', async () => (await fetch(`${url}/readyz`)).status === 200);
    t.equal((await admin(at, 'GET', '/status')).ready, true, 'and the owner is the same hub');
  }
});

t.test('a node does not query the database for a request without a valid token (I14)', longer, async (t) => {
  const { nodes, link } = await scene();
  const { cpo } = await routedPair(t, nodes);
  const paths = [
    ...['/sessions', '/locations', '/tariffs', '/cdrs', '/tokens', '/hubclientinfo', '/credentials'],
    ...['/sessions/NL/CPO/S1', '/locations/NL/CPO/L1', '/tokens/NL/EMS/CARD1', '/commands/START_SESSION'],
  ];
  const asks = [
    ...['GET', 'PUT', 'POST'].flatMap((method) => paths.map((path) => ({ method, path: `/ocpi/2.2.1${path}` }))),
    ...['/admin/v1/events', '/admin/v1/parties', '/admin/v1/trace/S1', '/metrics', '/readyz'].map((path) => ({
      ...{ method: 'GET', path },
    })),
  ];
  /** Statements that the nodes sent to the database meanwhile, those of their leases included. */
  const statements = () => link.seen().split('SELECT').length + link.seen().split('select').length;
  const during = async (count: number, authorization: string) => {
    const before = statements();
    const answers = Array.from({ length: count }, async (_, n) => {
      const { method, path } = asks[n % asks.length] as { method: string; path: string };
      const { url } = nodes.all[n % nodes.all.length] as { url: string };
      const body = method === 'GET' ? undefined : '{}';
      return (await callOnce(method, url + path, body, { authorization })).status;
    });
    const statuses = await Promise.all(answers);
    return { statuses: [...new Set(statuses)], statements: statements() - before };
  };
  const unasked = { statuses: new Set<number>(), statements: 0 };
  const rounds = isAtLength ? 20 : 4;
  for (let round = 0; round < rounds; round += 1) {
    const { statuses, statements } = await during(114, round % 2 === 0 ? 'Token unknown' : '');
    for (const status of statuses) unasked.statuses.add(status);
    unasked.statements += statements;
  }
  t.notOk(unasked.statuses.has(500));
  t.ok(unasked.statuses.has(401), [...unasked.statuses].join());
  const token = `Token ${Buffer.from(cpo.hubToken).toString('base64')}`;
  const asked = await during(114, token);
  t.comment(
    `${rounds * 114} requests without a token: ${unasked.statements} statements; 114 with one: ${asked.statements}`,
  );
  t.ok(asked.statements > 20, 'requests with a token ask it');
  t.ok(
    unasked.statements < (asked.statements * rounds) / 5,
    `${rounds} times as many without one do not, leases apart`,
  );
});
