/** How often nodes ask each other whether each is at its address, and that a wrong one is found all the same. */
import { Addresses, isAnother } from '../../src/cluster/addresses.ts';
import type { SharedStore } from '../../src/cluster/node-parts.ts';
import type { Passing } from '../../src/cluster/passing.ts';
import { backupKeysIn } from '../support/backup-keys.ts';
import { directoryFor } from '../support/directory.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { adminToken, skip, startNodes, untilJoined } from './nodes.ts';

const everyMs = 2000;

function scene(t: Test, count: number) {
  const clock = new SimulatedClock();
  const nodes = Array.from({ length: count }, (_, i) => ({ id: `n${i}`, name: '', url: `http://n${i}`, alive: true }));
  /** Nodes at whose address another one answers. */
  const wrong = new Set<string>();
  const asked: string[] = [];
  const store = { id: 'n0', nodes: () => nodes } as unknown as SharedStore;
  const ask = async ({ id }: { id: string }) => {
    asked.push(id);
    return wrong.has(id) ? isAnother : 200;
  };
  const addresses = new Addresses('key', clock);
  t.teardown(() => addresses.close());
  return {
    ...{ addresses, nodes, wrong },
    start: () => addresses.start(store, { ask } as unknown as Passing),
    /** Which nodes were asked in the last look; the next one begins. */
    async looked(): Promise<string[]> {
      await new Promise((resolve) => setImmediate(resolve));
      const since = asked.splice(0).sort();
      clock.advance(everyMs);
      return since;
    },
  };
}

t.test('nodes that are at their addresses are asked in turn, one each time [ADDRESSES-4]', async (t) => {
  const { start, looked } = scene(t, 5);
  start();
  const all = ['n0', 'n1', 'n2', 'n3', 'n4'];
  t.strictSame([await looked(), await looked()], [all, all], 'each twice at first');
  const five = [await looked(), await looked(), await looked(), await looked(), await looked()];
  t.ok(
    five.every(({ length }) => length === 1),
    'then one each time',
  );
  t.strictSame(five.flat().sort(), all, 'each in its turn');
});

t.test('a node that is not at its address is asked each time, and found in its turn', async (t) => {
  const { start, looked, addresses, wrong, nodes } = scene(t, 3);
  start();
  for (let look = 0; look < 4; look++) await looked();
  wrong.add('n0');
  for (let look = 0; look < 5; look++) await looked();
  t.equal(addresses.reached('n0'), 'another');
  t.match(addresses.warnings(), ['HUB_NODE_URL of this node does not lead to it: another node answers there']);
  t.ok((await looked()).includes('n0') && (await looked()).includes('n0'), 'and asked each time from then on');
  addresses.isAskedFor('n0');
  t.strictSame(addresses.warnings(), [], 'another node reached it there');
  wrong.clear();
  for (let look = 0; look < 3; look++) await looked();
  t.equal(addresses.reached('n0'), 'itself');
  nodes.push({ id: 'late', name: '', url: 'http://late', alive: true });
  await looked();
  t.ok((await looked()).includes('late'), 'one that joins is asked at once');
});

t.test('a node for whose backups another key is set is named, until it has the same [ADDRESSES-5]', async (t) => {
  const { start, addresses, looked } = scene(t, 2);
  start();
  addresses.isAskedFor('n0');
  addresses.isAskedFor('n0', 'key');
  t.strictSame(addresses.notices(), [], 'one of an earlier version, and one with the same key');
  addresses.isAskedFor('n0', '');
  const differs =
    'HUB_BACKUP_PUBLIC_KEY differs between nodes: backups of this node are sealed for key, those of another are';
  t.strictSame(addresses.notices(), [`${differs} not sealed`]);
  addresses.isAskedFor('n0', 'other');
  t.strictSame(addresses.notices(), [`${differs} sealed for other`]);
  t.strictSame(addresses.warnings(), [], 'it is no reason to leave the log to another node');
  for (let look = 0; look < 6; look++) await looked();
  t.strictSame(addresses.notices(), []);
});

t.test('HUB_BACKUP_PUBLIC_KEY on one node of two: both say so, and are ready [ADDRESSES-5]', { skip }, async (t) => {
  const server = await sharedPostgres();
  const { publicPath, publicKey } = backupKeysIn(directoryFor(t));
  const of = (_port: number, index: number): Record<string, string> =>
    index === 0 ? { HUB_BACKUP_PUBLIC_KEY: publicPath } : {};
  const nodes = await startNodes(t, server, newSchema('sealing'), { here: true, of, env: { HUB_LEASE_S: '9' } });
  await untilJoined(nodes.all);
  const [here, there] = nodes.all.map(({ url }) => async () => {
    return String((await admin({ url, adminToken }, 'GET', '/cluster')).warning);
  });
  const sealed = `sealed for ${publicKey.fingerprint}`;
  const differs = 'HUB_BACKUP_PUBLIC_KEY differs between nodes: backups of this node are';
  const says = async (of: typeof here, what: string) => (await of?.())?.includes(`${differs} ${what}`) === true;
  await eventually('the one that seals', () => says(here, `${sealed}, those of another are not sealed`));
  await eventually('the one that does not', () => says(there, `not sealed, those of another are ${sealed}`));
  await untilJoined(nodes.all);
});
