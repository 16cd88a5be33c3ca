/** Views that operators save: kept for all, through restarts and trims; and no address but the console's own. */
import { rebuiltRow } from '../../src/hub/maintain/row-rebuild.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { closed, hubFor, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const save = (hub: TestHub, name: string, path: unknown) =>
  callOnce('POST', `${hub.url}/admin/v1/views`, { name, path }, { Authorization: `Bearer ${hub.adminToken}` });
/** Saves a view that is taken, and resolves with it. */
const kept = (hub: TestHub, name: string, path: string) => admin(hub, 'POST', '/views', { name, path });
const listed = async (hub: TestHub) => (await itemsOf(hub, '/views')).map(({ name, path }) => `${name}: ${path}`);

t.test('a view is saved, replaced, listed by name and removed, and survives a restart', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:30:00Z');
  const dataDir = directoryFor(t);
  const env = { HUB_EVENTS_KEEP_DAYS: '1' };
  const hub = await hubFor(t, env, { clock }, dataDir);
  t.strictSame(await listed(hub), []);
  const first = await kept(hub, 'dead CDRs', '/deliveries?state=DEAD');
  const saved = await kept(hub, 'dead CDRs', '/deliveries?state=DEAD&module=cdrs');
  t.strictSame(saved, {
    ...{ id: first.id, name: 'dead CDRs', path: '/deliveries?state=DEAD&module=cdrs' },
    ...{ by: 'admin', at: '2026-01-02T03:30:00.000Z' },
  });
  await kept(hub, 'all', '/');
  const { id: gone } = await kept(hub, 'gone', '/events');
  for (let times = 0; times < 2; times++) await admin(hub, 'DELETE', `/views/${gone}`);
  for (let hour = 0; hour < 27; hour++) {
    clock.advance(3_600_000);
    await hub.settled();
  }
  t.ok(hub.created.context.store.horizon() > 0, 'the log was trimmed');
  await closed(hub, clock);
  const again = await hubFor(t, env, { clock }, dataDir);
  t.strictSame(await listed(again), ['all: /', 'dead CDRs: /deliveries?state=DEAD&module=cdrs']);
  const rebuilt = (id: string) => rebuiltRow({ kind: 'views', owner: '', id }, again.created.context);
  t.match(await rebuilt(String(saved.id)), { id: saved.id, data: saved }, 'its row can be made again from the log');
});

t.test('rows of views and webhooks are rebuilt from the log, and removed ones stay removed', async (t) => {
  const hub = await hubFor(t);
  const webhook = { url: 'http://127.0.0.1:9/', active: false };
  const views = [await kept(hub, 'kept', '/events'), await kept(hub, 'gone', '/trace')].map(({ id }) => String(id));
  for (const id of ['kept', 'gone']) await admin(hub, 'PUT', `/webhooks/${id}`, webhook);
  const { context } = hub.created;
  for (const [kind, [stays = '', goes = '']] of [
    ['views', views],
    ['webhooks', ['kept', 'gone']],
  ] as const) {
    await admin(hub, 'DELETE', `/${kind}/${goes}`);
    const stored = await context.store.get({ kind, owner: '', id: stays });
    t.match(await rebuiltRow({ kind, owner: '', id: stays }, context), { kind, data: stored?.data ?? null }, kind);
    t.strictSame(await rebuiltRow({ kind, owner: '', id: goes }, context), { kind, owner: '', id: goes, gone: true });
  }
});

t.test('only addresses of the console are saved, and a bounded number of them', async (t) => {
  const hub = await hubFor(t);
  for (const path of [
    ...['https://example.com/', '//example.com', '/\\example.com', 'javascript:alert(1)', 'deliveries', ''],
    ...['/deliveries#x', '/deliveries?a b', `/events?type=${'a'.repeat(1000)}`, '/../admin', 7, null],
  ])
    t.equal((await save(hub, 'x', path)).status, 422, String(path).slice(0, 40));
  for (const path of ['/', '/?show=silent', '/partners/NL-EMS', '/trace?key=NL-CPO%2F101', '/deliveries/12-NL-EMS'])
    t.equal((await save(hub, 'x', path)).status, 200, path);
  for (const name of ['a'.repeat(61), ' ', 'a\u0000b', 'a\nb'])
    t.equal((await save(hub, name, '/')).status, 422, JSON.stringify(name));
  await Promise.all(Array.from({ length: 199 }, (_, n) => save(hub, `view ${n}`, '/')));
  t.equal((await save(hub, 'one more', '/')).status, 409);
  t.equal((await save(hub, 'x', '/events')).status, 200, 'one that exists is replaced');
});
