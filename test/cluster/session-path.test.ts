/**
 * Two nodes as one hub: the whole session path with each request through the other node than the one before, what was written read at
 * once through any node, and what a node says of itself.
 */
import WebSocket from 'ws';
import { openPath, sessionPath } from '../../src/sandbox/session-path.ts';
import { sessionBody } from '../support/bodies.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { routedPair } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { atLength, someOf } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { adminToken, askAsNode, leaseS, longer, roleOf, shortLease, skip, startNodes } from './nodes.ts';

t.test('two nodes are one hub', { skip }, async (t) => {
  const server = await sharedPostgres();

  t.test('the session path, each request through the other node than the one before', async (t) => {
    const nodes = await startNodes(t, server, newSchema('path'), { here: 'others' });
    const context = await openPath({ hubUrl: nodes.url, adminToken, retryUntilAnswered: false });
    t.teardown(() => context.close());
    for (const step of sessionPath) await t.resolves(step.run(context), step.name);
    const { items } = await admin(nodes, 'GET', '/deliveries?limit=1000');
    const unfinished = (items as { state: string }[]).filter(({ state }) => state !== 'DELIVERED');
    t.same(unfinished, [], 'nothing is owed any more, nothing is dead');
    for (const { hub } of someOf(nodes.all)) t.equal(await hub.stop(), 0, 'SIGTERM ends it in good order');
  });

  t.test('a node that is not the owner', atLength, async (t) => {
    const nodes = await startNodes(t, server, newSchema('standby'), { here: true });
    const { cpo } = await routedPair(t, nodes);
    const owner = await nodes.owner();
    const [standby] = await nodes.standbys();
    if (standby === undefined) throw new Error('no standby');
    t.equal(await roleOf(standby), 'standby');
    const token = `Token ${Buffer.from(cpo.hubToken).toString('base64')}`;

    t.test('a write through one node is read at once through the other', async (t) => {
      for (let i = 0; i < 20; i += 1) {
        const [writer, reader] = i % 2 === 0 ? [owner, standby] : [standby, owner];
        const path = `/ocpi/2.2.1/sessions/NL/CPO/RYW${i}`;
        const headers = { authorization: token, 'content-type': 'application/json' };
        const put = await fetch(`${writer.url}${path}`, {
          ...{ method: 'PUT', headers },
          body: JSON.stringify(sessionBody(`RYW${i}`)),
        });
        t.equal(put.status, 200);
        const got = await fetch(`${reader.url}${path}`, { headers });
        t.match(await got.json(), { status_code: 1000, data: { id: `RYW${i}` } });
      }
    });

    t.test('a request that is too large to be buffered, or of unknown size, is streamed', async (t) => {
      const period = { start_date_time: '2026-01-02T03:00:00Z', dimensions: [{ type: 'ENERGY', volume: 1.25 }] };
      const body = JSON.stringify(sessionBody('LARGE', { charging_periods: Array(2000).fill(period) }));
      const headers = { authorization: token, 'content-type': 'application/json' };
      const put = (id: string, text: RequestInit) =>
        fetch(`${standby.url}/ocpi/2.2.1/sessions/NL/CPO/${id}`, { ...{ method: 'PUT', headers }, ...text });
      t.ok(body.length > 100_000);
      t.equal((await put('LARGE', { body })).status, 200);
      const got = await fetch(`${standby.url}/ocpi/2.2.1/sessions/NL/CPO/LARGE`, { headers });
      t.strictSame(((await got.json()) as { data: unknown }).data, JSON.parse(body));
      const chunks = new Blob([JSON.stringify(sessionBody('CHUNKED'))]).stream();
      t.equal((await put('CHUNKED', { body: chunks, duplex: 'half' })).status, 200);
    });

    t.test('status, headers and bytes are the same through both nodes', async (t) => {
      for (const path of [
        '/ocpi/2.2.1/nothing',
        '/ocpi/2.2.1/locations?limit=0x1',
        '/admin/v1/nothing',
        '/nothing',
        '/console/',
      ]) {
        const [direct, passed] = await Promise.all(
          [owner, standby].map(async ({ url }) => {
            const headers = { authorization: token, 'x-request-id': 'r1', 'x-correlation-id': 'c1' };
            const answer = await fetch(`${url}${path}`, { headers });
            const fields = Object.fromEntries(
              [...answer.headers].filter(([name]) => !['date', 'x-passed'].includes(name)),
            );
            const body = (await answer.text()).replace(/"timestamp":"[^"]*"/, '');
            return { status: answer.status, fields, body };
          }),
        );
        t.strictSame(passed, direct, path);
      }
    });

    t.test('it says so, and is ready because it can pass requests on', async (t) => {
      for (const { url } of nodes.all) {
        t.equal((await fetch(`${url}/healthz`)).status, 200);
        t.equal((await fetch(`${url}/readyz`)).status, 200);
        // A node hears of one that came after it when it renews its lease.
        const view = () => admin({ url, adminToken }, 'GET', '/cluster');
        await eventually('both are known', async () => ((await view()).nodes as object[]).length === 2);
        t.match(await view(), { store: 'postgres', lease_s: leaseS, nodes: [{ alive: true }, { alive: true }] });
      }
      const refused = await fetch(`${standby.url}/admin/v1/cluster`);
      t.equal(refused.status, 401, 'to whoever has a token');
      const view = await admin({ url: standby.url, adminToken }, 'GET', '/cluster');
      t.match(view, { role: 'standby' });
      const owners = (view.nodes as { url: string; owner: boolean }[]).filter((node) => node.owner);
      t.strictSame(
        owners.map(({ url }) => url),
        [owner.url],
      );
    });

    t.test('the inspector of the owner is visible through it', async (t) => {
      const seen: string[] = [];
      const socket = new WebSocket(`${standby.url.replace('http', 'ws')}/admin/v1/inspector`, {
        headers: { authorization: `Bearer ${adminToken}` },
      });
      t.teardown(() => socket.terminate());
      socket.on('message', (data) => seen.push(String(data)));
      await eventually('the actors are shown', () => seen.some((text) => text.includes('partner:NL-CPO')));
      const refused = new WebSocket(`${standby.url.replace('http', 'ws')}/admin/v1/inspector`);
      const error = await new Promise<Error>((resolve) => refused.once('error', resolve));
      t.match(error.message, '401', 'not to whoever has no token');
    });

    t.test(
      'a request that another node passed on goes no further, and without the secret there is no channel',
      async (t) => {
        const ask = (path: string) => askAsNode(standby.url, path, { headers: { authorization: token } });
        const ended = await ask('/ocpi/versions');
        t.equal(ended.status, 503);
        t.equal(ended.headers['retry-after'], '1');
        t.match(JSON.parse(ended.text), { status_code: 3000, timestamp: /./ });
        const problem = await ask('/admin/v1/status');
        t.equal(problem.status, 503);
        t.match(problem.headers['content-type'], 'application/problem+json');
        t.match(JSON.parse(problem.text), { status: 503, instance: '/admin/v1/status' });
        await t.rejects(askAsNode(standby.url, '/ocpi/versions', { secret: 'not-the-secret' }), /refused the channel/);
        const verb = await fetch(`${owner.url}/cluster/v1/leaving/x`, { method: 'POST' });
        t.equal(verb.status, 404, "what nodes say to each other is nobody else's");
        for (const path of ['/cluster/v1/leaving/x', '/cluster/v1/owns', '//hub/cluster/v1/look']) {
          const passed = await fetch(`${standby.url}${path}`, { method: 'POST', body: '{}' });
          t.ok([404, 503].includes(passed.status), 'nor does it come to the owner through another node');
        }
        t.equal(await roleOf(owner), 'owner');
      },
    );
  });
});

t.test('a hub that is the only node on a database', longer, async (t) => {
  const server = await sharedPostgres();
  const dataDir = directoryFor(t);
  const env = {
    ...{ HUB_STORE: server.url(newSchema('alone')), ...shortLease },
    ...{ HUB_ADMIN_TOKEN: adminToken, HUB_SECRET_KEY: 'the-key-of-this-hub' },
  };
  const start = async () => {
    const hub = await startChildHub({ dataDir, port: 0, env });
    t.teardown(() => hub.kill());
    return hub;
  };
  const hub = await start();
  const context = await openPath({ hubUrl: hub.url, adminToken: hub.adminToken, retryUntilAnswered: false });
  t.teardown(() => context.close());
  for (const step of sessionPath) await t.resolves(step.run(context), step.name);
  const { head: before } = await admin(hub, 'GET', '/cluster');
  await hub.kill();
  const again = await start();
  // Its door may answer before it is the owner.
  await eventually('it is the owner', async () => (await roleOf(again)) === 'owner');
  const { head: after, nodes } = await admin(again, 'GET', '/cluster');
  t.ok(Number(before) > 0 && Number(after) >= Number(before), 'it goes on with what is there');
  const alive = (nodes as { alive: boolean }[]).filter((node) => node.alive);
  t.match(alive, [{ owner: true, answering: true }]);
  t.equal(await again.stop(), 0);
});
