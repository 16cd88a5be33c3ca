/** When a node that is a door says that it is ready, by who answers where the owner should. [FRONT-4] */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import type { Reached } from '../../src/cluster/addresses.ts';
import { Front, type FrontParts } from '../../src/cluster/front.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import { isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

/** Its end alone is waited for: nothing has to happen before it. */
const leaseMs = 100;
/** For so long an owner that counts as alive may be silent. [FRONT-4] */
const silentMs = 2 * leaseMs;
/** Longer than a busy machine takes, and less than for ever. */
const checkMs = 10_000;

async function doorOf(t: Test, lease = leaseMs) {
  const found = { by: 'itself' as Reached, owner: 'first', answered: Promise.resolve() };
  const place = () => ({ kind: 'peer', target: { id: found.owner, url: 'http://127.0.0.1' } });
  const node = {
    ...{ role: 'standby', warning: null, serving: null, door: {}, place, onChanged() {} },
    neighbours: { hasOwner: () => found.answered.then(() => found.by === 'itself') },
  };
  const isReady = () => found.answered.then(() => ({ by: found.by, isReady: found.by === 'itself' }));
  const addresses = { isReady };
  const parts = {
    node,
    addresses,
    passing: { endUpgrades() {} },
    isHop: () => false,
    own: {},
    look: async () => {},
    leaseMs: lease,
  };
  const front = new Front(parts as unknown as FrontParts);
  const server = createServer(front.handle).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    front.close();
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/readyz`;
  const ready = async (by: Reached, owner = 'first', answered = Promise.resolve()) => {
    Object.assign(found, { by, owner, answered });
    return (await fetch(url, { signal: AbortSignal.timeout(checkMs) })).status;
  };
  return Object.assign(ready, { become: (role: string) => Object.assign(node, { role }) });
}

t.test('an owner that does not answer once, and much later again, is waited for each time', async (t) => {
  const ready = await doorOf(t);
  t.equal(await ready('nobody'), 200);
  t.equal(await ready('itself'), 200);
  await setTimeout(silentMs + 100);
  t.equal(await ready('nobody'), 200, 'the leases count from now on');
  await setTimeout(silentMs + 100);
  t.equal(await ready('nobody'), 503);
});

t.test('while a dead owner counts as alive, for at most a lease and a third, doors are ready [FRONT-4]', async (t) => {
  const lease = 600_000;
  const ready = await doorOf(t, lease);
  t.equal(await ready('nobody'), 200);
  const { monotonic } = systemClock;
  t.teardown(() => Object.assign(systemClock, { monotonic }));
  const after = (leases: number) => {
    Object.assign(systemClock, { monotonic: () => monotonic() + leases * lease });
    return ready('nobody');
  };
  t.equal(await after(1.4), 200);
  t.equal(await after(2), 503);
});

t.test('a node answers before it has waited for another one that does not answer [FRONT-6]', async (t) => {
  const ready = await doorOf(t);
  const never = new Promise<void>(() => {});
  let answer = () => {};
  const later = new Promise<void>((resolve) => {
    answer = resolve;
  });
  t.equal(await ready('nobody', 'first', later), 200, 'a door whose owner hangs');
  answer();
  await setTimeout(silentMs + 100);
  t.equal(await ready('nobody', 'first', never), 503, 'which has not answered at all');
  ready.become('isolated');
  t.equal(await ready('itself', 'first', never), 200, 'an isolated node beside one that hangs');
  t.equal(await ready('itself'), 503, 'or says that it is the owner');
});

t.test('another node at the address of the former owner is the owner restarted', async (t) => {
  const ready = await doorOf(t);
  t.equal(await ready('itself'), 200);
  t.equal(await ready('another'), 200, 'the log will be free when the lease is over');
  await setTimeout(silentMs + 100);
  t.equal(await ready('another'), 503);
  t.equal(await ready('another', 'second'), 503, 'an owner that never answered is not where its address leads');
  t.equal(await ready('stranger', 'third'), 503, 'nor is one that takes no channel, as an owner without channels');
});

const malformed = isAtLength ? 10_000 : 300;
t.test(`nothing that a peer sends ends the process: ${malformed} malformed messages are answered`, async (t) => {
  const node = {
    role: 'owner',
    serving: null,
    onChanged() {},
    follow() {},
    doorway: { followed: async () => {} },
    handsOver: async () => {},
  };
  const addresses = { isAskedFor: () => false, isThis: () => false };
  const parts = { node, addresses, passing: null, isHop: () => true, own: {}, look: async () => {}, leaseMs };
  const front = new Front(parts as unknown as FrontParts);
  const server = createServer(front.handle).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    front.close();
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const verbs = ['owns', 'is', 'self', 'ready', 'head', 'directory', 'leaving', '', '%', '%zz', '%ff'];
  const ofs = ['', '%', '%E0%A4', '%ff', '-1', '1e99', 'x/y', '..', '%00', '9'.repeat(40), '%2F%2', '__proto__'];
  const statuses = new Map<number, number>();
  const send = async (n: number) => {
    const path = `${verbs[n % verbs.length]}/${ofs[(n * 7) % ofs.length]}${n % 3 === 0 ? '%' : n}`;
    const { status } = await fetch(`http://127.0.0.1:${port}/cluster/v1/${path}`);
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  };
  for (let from = 0; from < malformed; from += 50)
    await Promise.all(Array.from({ length: 50 }, (_, n) => send(from + n)));
  t.equal(
    [...statuses.values()].reduce((sum, count) => sum + count, 0),
    malformed,
  );
  t.ok((statuses.get(400) ?? 0) > malformed * 0.3, JSON.stringify([...statuses]));
});
