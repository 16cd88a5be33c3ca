/** A hub that starts on a store of which only the end was verified, with damage in the rest. */
import { join } from 'node:path';
import { Level } from 'level';
import type { StoredEvent } from '../../storage/contract.ts';
import * as keys from '../../storage/keys.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { until } from '../storage/support.ts';
import { sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

const recent = 16;

/** A closed hub that has taken 40 sessions; its log begins with the registrations. */
async function filled(t: Test) {
  const dataDir = directoryFor(t);
  const hub = await hubFor(t, {}, { recent }, dataDir);
  const { cpo } = await routedPair(t, hub);
  for (let n = 0; n < 40; n += 1)
    await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/S${n}`, sessionBody(`S${n}`, { kwh: n }));
  await hub.close();
  const store = await openLevelStore({ directory: join(dataDir, 'store'), node: 'test', ballastBytes: 0 });
  const events = await store.read({ after: 0, limit: 1000 });
  await store.close();
  return { dataDir, cpo, events };
}

async function tamper(dataDir: string, change: (db: Level<string, string>) => Promise<unknown>): Promise<void> {
  const db = new Level<string, string>(join(dataDir, 'store', 'db'));
  await change(db);
  await db.close();
}

type StoreStatus = { store: { state: string; reason: string | null; verifying: object | null } };
const read = { path: '/2.2.1/sessions/NL/CPO/S3' };
const firstOf = (events: readonly StoredEvent[], type: string) => events.find((event) => event.type === type);

t.test(
  '[STARTING-3] a hub that finds damage while it restores starts as if the damage had been known',
  atLength,
  async (t) => {
    const { dataDir, cpo, events } = await filled(t);
    const { seq = 0 } = firstOf(events, 'partner.registered') ?? {};
    await tamper(dataDir, (db) => db.del(keys.eventKey(seq)));
    const hub = await hubFor(t, {}, { recent }, dataDir);
    const { store } = (await admin(hub, 'GET', '/status')) as StoreStatus;
    t.match(store, { state: 'quarantined', reason: `the log has lost event ${seq}` });
    t.equal((await ocpi(hub, 'GET', read.path, { token: cpo.hubToken })).status, 503);
  },
);

t.test(
  '[LIFECYCLE-7] damage that background verification finds: the hub serves until then, and refuses partners afterwards',
  atLength,
  async (t) => {
    const { dataDir, cpo, events } = await filled(t);
    const { seq = 0 } = firstOf(events, 'object.put') ?? {};
    await tamper(dataDir, (db) => db.del(keys.eventKey(seq)));
    const hub = await hubFor(t, {}, { recent }, dataDir);
    await until(async () => ((await admin(hub, 'GET', '/status')) as StoreStatus).store.state === 'quarantined');
    const { store } = (await admin(hub, 'GET', '/status')) as StoreStatus;
    t.match(store, { reason: `the log has lost event ${seq}`, verifying: null });
    t.equal((await ocpi(hub, 'GET', read.path, { token: cpo.hubToken })).status, 503);
  },
);

t.test('[LIFECYCLE-7] an index that lost an entry is rebuilt, and the hub goes on', atLength, async (t) => {
  const { dataDir, cpo, events } = await filled(t);
  const { seq = 0, stream = '' } = firstOf(events, 'partner.registered') ?? {};
  await tamper(dataDir, (db) => db.del(keys.streamKey(stream, seq)));
  const hub = await hubFor(t, {}, { recent }, dataDir);
  await until(async () => {
    const { store } = (await admin(hub, 'GET', '/status')) as StoreStatus;
    return store.state === 'open' && store.verifying === null;
  });
  t.equal((await ocpi(hub, 'GET', read.path, { token: cpo.hubToken })).status, 200);
});
