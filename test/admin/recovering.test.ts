/**
 * What a hub answers between listening and having back everything that is recorded: pages, health and metrics at once, the rest 503 in
 * the form of its door. The hub of these tests listens and begins to recover only on command.
 */
import { join } from 'node:path';
import { assemble } from '../../src/assembly.ts';
import { loadConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import { createLog } from '../../src/log.ts';
import { createMetrics } from '../../src/metrics/metrics.ts';
import type { Store } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { locationBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair, secretKey } from '../support/hub-in-process.ts';
import { storeWith } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';
import { welcome } from '../support/visitors.ts';

const adminToken = 'admin-token-of-a-hub-that-recovers';

async function listening(t: Test, dataDir = directoryFor(t), methods: (store: Store) => Partial<Store> = () => ({})) {
  const env = {
    HUB_DATA_DIR: dataDir,
    HUB_LOG_LEVEL: 'silent',
    HUB_ADMIN_TOKEN: adminToken,
    HUB_SECRET_KEY: secretKey,
  };
  const config = loadConfig({ env, flags: {} });
  const store = await openLevelStore({ directory: join(dataDir, 'store'), node: 'recovering' });
  t.teardown(() => store.close());
  const hub = await assemble(storeWith(store, methods(store)), config, {
    ...{ log: createLog(config.logLevel), random: Math.random, metrics: createMetrics('0'), port: 0 },
    ...{ clock: systemClock, visitors: welcome },
  });
  t.teardown(() => hub.close(0));
  const url: string = await hub.app.listen({ host: '127.0.0.1', port: 0 });
  const authorization = `Bearer ${adminToken}`;
  const ask = (path: string, method = 'GET', body?: string) => callOnce(method, url + path, body, { authorization });
  return { ask, recover: () => hub.recover() };
}

t.test('a recovering hub serves pages, health and metrics at once', async (t) => {
  const { ask } = await listening(t);
  for (const path of ['/console/', '/console/parties/NL-CPO', '/admin/docs']) {
    const page = await ask(path);
    t.equal(page.status, 200, path);
    t.match(page.headers.get('content-type'), /^text\/html/);
    t.match(page.text, /<html/);
  }
  const root = await ask('/');
  t.equal(root.status, 302);
  t.equal(root.headers.get('location'), '/console/', 'the address of the hub leads to the console');
  t.equal((await ask('/', 'HEAD')).status, 302);
  t.equal((await ask('/healthz')).status, 200);
  const metrics = await ask('/metrics');
  t.equal(metrics.status, 200);
  t.match(metrics.text, /^ocpi_hub_ready 0$/m);
});

t.test(
  'a recovering hub refuses what needs the log with 503 in the form of the door and with Retry-After',
  async (t) => {
    const { ask, recover } = await listening(t);
    const form = async (...asked: Parameters<typeof ask>) => {
      const [path] = asked;
      const answer = await ask(...asked);
      t.equal(answer.status, 503, path);
      t.match(answer.headers.get('retry-after'), /^[1-9]\d*$/, `${path} has Retry-After`);
      return { type: answer.headers.get('content-type'), body: JSON.parse(answer.text) as object };
    };
    for (const path of ['/admin/v1/status', '/admin/v1/openapi.json', '/admin/v1/nothing', '/admin/v1']) {
      const { type, body } = await form(path);
      t.match(type, /^application\/problem\+json/);
      t.match(body, { status: 503, title: 'Unavailable', detail: /recovering/, instance: path });
    }
    for (const path of ['/ocpi/versions', '/ocpi/nothing', '/ocpi/']) {
      const { type, body } = await form(path);
      t.match(type, /^application\/json/);
      t.match(body, { status_code: 3000, status_message: 'Temporarily unavailable', timestamp: /Z$/ });
    }
    await form('/ocpi/2.2.1/sessions/NL/CPO/S1', 'PUT', '{}');
    t.match((await form('/readyz')).body, { status: 'not ready', store: 'open', reason: 'recovering' });

    await recover();
    t.match(JSON.parse((await ask('/readyz')).text), { status: 'ready' });
    t.equal((await ask('/admin/v1/status')).status, 200);
    t.equal((await ask('/ocpi/versions')).status, 401, 'the door asks for the token of a partner');
  },
);

t.test(
  'a recovering hub has no gauges of partners: 0 dead letters would look like new ones later [METRICS-4]',
  async (t) => {
    const dataDir = directoryFor(t);
    const before = await hubFor(t, {}, {}, dataDir);
    const { cpo } = await routedPair(t, before, { emsp: () => ({ status: 400, text: '{}' }) });
    await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
    await before.settled();
    await before.close();
    let asksForFloors = (): void => {};
    let giveFloors = (): void => {};
    const asked = new Promise<void>((resolve) => {
      asksForFloors = resolve;
    });
    const given = new Promise<void>((resolve) => {
      giveFloors = resolve;
    });
    const { ask, recover } = await listening(t, dataDir, (store) => ({
      async floors() {
        asksForFloors();
        await given;
        return store.floors();
      },
    }));
    const recovered = recover();
    await asked;
    const early = (await ask('/metrics')).text;
    giveFloors();
    await recovered;
    t.match(early, /^ocpi_hub_ready 0$/m);
    t.notMatch(early, /partner="NL-EMS"/);
    t.match((await ask('/metrics')).text, /^ocpi_hub_dead_letters\{partner="NL-EMS"\} 1$/m);
  },
);

t.test('an unknown path is a problem, whether the hub recovers or not', async (t) => {
  const { ask, recover } = await listening(t);
  const look = async () => {
    for (const path of ['/nothing', '/admin', '/%zz']) {
      const answer = await ask(path);
      t.equal(answer.status, 404, path);
      t.match(answer.headers.get('content-type'), /^application\/problem\+json/);
      t.match(JSON.parse(answer.text), { status: 404, title: 'Not found', type: 'urn:ocpi-hub:problem:not-found' });
    }
  };
  await look();
  await recover();
  await look();
  t.equal((await ask('/')).headers.get('location'), '/console/');
});
