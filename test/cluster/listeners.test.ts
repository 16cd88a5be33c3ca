/** Operators on a listener of their own, at every node: their requests reach the owner, and nobody else's do. */
import { freePort } from '../../src/sandbox/free-port.ts';
import { callOnce } from '../support/caller.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { adminToken, skip, startNodes } from './nodes.ts';

t.test(
  'operators reach the owner through the operators’ listener of any node, and never through a partners’ listener',
  { skip },
  async (t) => {
    const server = await sharedPostgres();
    const ports: number[] = [];
    const nodes = await startNodes(t, server, newSchema('listeners'), {
      here: true,
      async of(_port, i) {
        ports[i] = await freePort();
        return { HUB_ADMIN_PORT: `${ports[i]}` };
      },
    });
    const operators = ports.map((port) => ({ url: `http://127.0.0.1:${port}`, adminToken }));
    const rolesSeen = async () => Promise.all(operators.map(async (at) => (await admin(at, 'GET', '/cluster')).role));
    await eventually('one node is the owner', async () => (await rolesSeen()).sort().join() === 'owner,standby');
    const authorization = `Bearer ${adminToken}`;
    for (const at of operators) {
      await eventually(
        `the owner answers at ${at.url}`,
        async () => (await admin(at, 'GET', '/status')).ready === true,
      );
      const { status } = await callOnce('GET', `${at.url}/metrics`, undefined, { authorization });
      t.equal(status, 200, 'metrics of the node');
    }
    for (const { url } of nodes.all) {
      for (const path of ['/admin/v1/status', '/admin/v1/cluster', '/metrics', '/console/']) {
        for (const forged of [{}, { 'x-ocpi-hub-entrance': 'operators' }]) {
          const { status } = await callOnce('GET', url + path, undefined, { authorization, ...forged });
          t.equal(status, 404, `${path} at ${url}`);
        }
      }
      t.equal((await callOnce('GET', `${url}/readyz`)).status, 200, 'health is asked for at either');
    }
  },
);
