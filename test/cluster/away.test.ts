/** A node that starts while its database is away, and one that its database refuses. */
import { loadConfig } from '../../src/config/config.ts';
import { startServing } from '../../src/main.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { callOnce } from '../support/caller.ts';
import { secretKey } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { startPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { adminToken, longer } from './nodes.ts';

t.test(
  'a node starts by itself when its database becomes reachable, and exits when it is refused [STARTING-4]',
  longer,
  async (t) => {
    const server = await startPostgres(t);
    await server.stop();
    const port = await freePort();
    const shared = { HUB_ADMIN_TOKEN: adminToken, HUB_SECRET_KEY: secretKey, HUB_LOG_LEVEL: 'silent' };
    const start = (store: string, at: number) =>
      startServing(loadConfig({ env: { ...shared, HUB_STORE: store, HUB_PORT: String(at) }, flags: {} }));
    const node = start(server.url('away'), port);
    node.catch(() => {});
    const ready = () => callOnce('GET', `http://127.0.0.1:${port}/readyz`, undefined, {}).catch(() => null);
    const why = new RegExp(`waiting: no database server takes writes: 127\\.0\\.0\\.1:${server.port} `);
    await eventually('it says why', async () => why.test((await ready())?.text ?? ''));
    t.equal((await ready())?.status, 503);
    await server.start();
    const { close } = await node;
    t.teardown(close);
    t.equal((await ready())?.status, 200);

    const elsewhere = server.url('away').replace('/postgres', '/nowhere');
    const refused = { name: 'StoreUnavailable', message: /database "nowhere" does not exist/ };
    await t.rejects(start(elsewhere, 0), refused, 'no waiting makes that database');
  },
);
