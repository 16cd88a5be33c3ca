/**
 * A node whose HUB_SECRET_KEY does not open what another node sealed: it makes no call in the partner's name, passes requests on to the
 * owner, says what is wrong, and does not start anew. [DOORWAY-2]
 */
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { loadConfig } from '../../src/config/config.ts';
import { startServing } from '../../src/main.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { directoryFor } from '../support/directory.ts';
import { routedPair } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { runCommand } from '../support/resident-command.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { adminToken, settingsOf, skip, startNodes } from './nodes.ts';
import { startOneNode, Unfit } from './one-node.ts';

const ttlMs = 300_000;
const allowed = { status_code: 1000, timestamp: '2026-03-01T00:00:00Z', data: { allowed: 'ALLOWED' } };

t.test('nodes with different keys', { skip }, async (t) => {
  const server = await sharedPostgres();

  t.test('a start derives its keys beside the opening of either store, and none on the main thread', async (t) => {
    const { scryptSync } = crypto;
    const onMainThread: unknown[] = [];
    const counting: typeof scryptSync = (secret, ...rest) => {
      onMainThread.push(secret);
      return scryptSync(secret, ...rest);
    };
    const put = (used: typeof scryptSync) => {
      crypto.scryptSync = used;
      syncBuiltinESMExports();
    };
    put(counting);
    t.teardown(() => put(scryptSync));
    for (const store of ['level', server.url(newSchema('derived'))]) {
      const env = {
        ...{ HUB_STORE: store, HUB_PORT: '0', HUB_LOG_LEVEL: 'silent', HUB_DATA_DIR: directoryFor(t) },
        ...{ HUB_ADMIN_TOKEN: adminToken, HUB_SECRET_KEY: `a-key-that-only-this-start-has-${store.slice(0, 5)}` },
      };
      const { close } = await startServing(loadConfig({ env, flags: {} }));
      await close();
      t.strictSame(onMainThread, [], store.slice(0, 8));
    }
  });

  t.test('a token that the owner sealed with another key', atLength, async (t) => {
    const schema = newSchema('keys');
    const of = (_port: number, index: number) => ({ HUB_SECRET_KEY: `the-key-of-node-number-${index}` });
    // Beats of a short lease show at once what a node found.
    const nodes = await startNodes(t, server, schema, { here: true, of, env: { HUB_LEASE_S: '9' } });
    const owner = await nodes.owner();
    const [door] = await nodes.standbys();
    if (!door) throw new Error('no standby');
    // Nothing is sealed so far.
    const { cpo } = await routedPair(t, owner.hub, {
      emsp: ({ path }) => (path.includes('/authorize') ? { text: JSON.stringify(allowed) } : {}),
    });
    const authorization = `Token ${Buffer.from(cpo.hubToken).toString('base64')}`;
    const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
    const asked = await fetch(`${door.url}/ocpi/2.2.1/tokens/CARD1/authorize?type=RFID`, {
      ...{ method: 'POST', headers: { authorization, ...to } },
    });
    t.match(
      await asked.json(),
      { status_code: 1000, data: { allowed: 'ALLOWED' } },
      'an authorization at the door goes to the owner',
    );
    const why = /^HUB_SECRET_KEY .* does not open the tokens? of /;
    await eventually('the door says why', async () => {
      const { warning } = (await (await fetch(`${door.url}/readyz`)).json()) as { warning?: string };
      return warning?.split('; ').some((one) => why.test(one)) === true;
    });
    const ready = await fetch(`${door.url}/readyz`);
    t.equal(ready.status, 200, 'it passes on what it is asked');
    const { warning } = await admin({ url: door.url, adminToken }, 'GET', '/cluster');
    t.match(warning, /HUB_SECRET_KEY/);
    const { out } = await runCommand(['cluster', '--url', door.url], { HUB_ADMIN_TOKEN: adminToken });
    t.match(out, /^warning +.*HUB_SECRET_KEY/m);
    const port = await freePort();
    const env = settingsOf(nodes.url, port, server.url(schema), of(port, 2));
    const config = loadConfig({ env: { ...env, HUB_PORT: `${port}`, HUB_LOG_LEVEL: 'silent' }, flags: {} });
    await t.rejects(startServing(config), { name: 'ConfigError', message: why }, 'no node starts with a third key');
  });

  t.test('a door that has served gets no further requests, and finishes those in progress', async (t) => {
    const { node, doors } = await startOneNode(t, { url: server.url(newSchema('unfit')), node: 'first', ttlMs }, {});
    await eventually('the door is open', () => node.door !== null);
    node.doorway.unfit();
    t.equal(node.door, null);
    t.strictSame(doors[0]?.told, ['recover']);
    await node.close();
    t.strictSame(doors[0]?.told, ['recover', 'close'], 'until the node ends');
  });

  t.test('a takeover that fails is reported, too', async (t) => {
    const make = () => Promise.reject(new Unfit('another key'));
    const options = { url: server.url(newSchema('taken')), node: 'first', ttlMs };
    const { node } = await startOneNode(t, options, { make, door: () => new Promise(() => {}) });
    await node.settled(20_000);
    t.equal(node.doorway.fault, 'another key');
  });
});
