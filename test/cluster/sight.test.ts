/** Clock skew and an open transaction, as /readyz, /metrics, /admin/v1/cluster and `ocpi-hub cluster` report them. */
import { loadConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import { startServing } from '../../src/main.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { callOnce } from '../support/caller.ts';
import { secretKey } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, openReader, sharedPostgres } from '../support/postgres.ts';
import { runCommand } from '../support/resident-command.ts';
import { t } from '../support/tap.ts';
import { adminToken, clusterSecret, hurried, longer } from './nodes.ts';

t.test('a node whose clock is half a minute ahead, and a transaction that stays open', longer, async (t) => {
  const server = await sharedPostgres();
  await openReader(t, server, 'a dump');
  const shared = {
    ...{ HUB_ADMIN_TOKEN: adminToken, HUB_SECRET_KEY: secretKey, HUB_CLUSTER_SECRET: clusterSecret },
    ...{ HUB_STORE: server.url(newSchema('sight')), HUB_LOG_LEVEL: 'warn', HUB_LEASE_S: '60' },
    HUB_PUBLIC_URL: 'http://127.0.0.1:9',
  };
  const start = async (aheadMs: number) => {
    const port = await freePort();
    const env = { ...shared, HUB_PORT: String(port), HUB_NODE_URL: `http://127.0.0.1:${port}` };
    const { clock, hurry } = hurried({ ...systemClock, wall: () => Date.now() + aheadMs });
    const node = await startServing(loadConfig({ env, flags: {} }), { clock, logTo: { write() {} } });
    t.teardown(() => {
      hurry();
      return node.close();
    });
    return node;
  };
  const authorization = `Bearer ${adminToken}`;
  const get = (path: string, { url } = node) => callOnce('GET', `${url}${path}`, undefined, { authorization });
  const node = await start(30_000);
  const said = "the database's clock is more than a second behind this node's";
  await eventually('it has looked', async () => (await get('/readyz')).text.includes('clock'));
  const { status, text } = await get('/readyz');
  t.equal(status, 200, 'it is ready');
  t.match(JSON.parse(text), { status: 'ready', warning: said });
  const standby = await start(-90_000);
  await eventually('it has looked, too', async () => (await get('/readyz', standby)).text.includes('clock'));
  t.strictSame(JSON.parse((await get('/readyz', standby)).text), {
    ...{ status: 'ready', role: 'standby' },
    warning: "the database's clock is more than a second ahead of this node's",
  });
  t.match(JSON.parse((await get('/admin/v1/status')).text), { store: { state: 'open', reason: said } });
  const { database } = JSON.parse((await get('/admin/v1/cluster')).text);
  // What the way there takes is taken off.
  const isSeen = (ms: number) => ms > -30_300 && ms < -15_000;
  t.ok(isSeen(database.clock_ahead_ms), `${database.clock_ahead_ms} ms`);
  t.match(database.oldest_transaction, { who: /^a dump of user hub, pid \d+$/ });
  const metrics = (await get('/metrics')).text;
  const measured = (name: string) => Number(new RegExp(`^ocpi_hub_database_${name} (\\S+)$`, 'm').exec(metrics)?.[1]);
  t.ok(isSeen(measured('clock_ahead_seconds') * 1000));
  t.ok(measured('oldest_transaction_seconds') > 0);
  const { out } = await runCommand(['cluster', '--url', node.url], { HUB_ADMIN_TOKEN: adminToken });
  t.match(out, /^database clock +\d\d s behind that of this node$/m);
  t.match(out, /^open transaction +a dump of user hub, pid \d+, since 20/m);
});
