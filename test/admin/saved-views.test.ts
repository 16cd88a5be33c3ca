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
  callOnce(
    'PUT',
    `${hub.url}/admin/v1/views/${encodeURIComponent(name)}`,
    { path },
    { Authorization: `Bearer ${hub.adminToken}` },
  );
const listed = async (hub: TestHub) => (await itemsOf(hub, '/views')).map(({ name, path }) => `${name}: ${path}`);

t.test('a view is saved, replaced, listed by name and removed, and lasts', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:30:00Z');
  const dataDir = directoryFor(t);
  const env = { HUB_EVENTS_KEEP_DAYS: '1' };
  const hub = await hubFor(t, env, { clock }, dataDir);
  t.strictSame(await listed(hub), []);
  await admin(hub, 'PUT', '/views/dead%20CDRs', { path: '/deliveries?state=DEAD' });
  const saved = await admin(hub, 'PUT', '/views/dead%20CDRs', { path: '/deliveries?state=DEAD&module=cdrs' });
  t.strictSame(saved, {
    ...{ name: 'dead CDRs', path: '/deliveries?state=DEAD&module=cdrs', by: 'admin', at: '2026-01-02T03:30:00.000Z' },
  });
  await admin(hub, 'PUT', '/views/all', { path: '/' });
  await admin(hub, 'PUT', '/views/gone', { path: '/events' });
  for (let times = 0; times < 2; times++) await admin(hub, 'DELETE', '/views/gone');
  for (let hour = 0; hour < 27; hour++) {
    clock.advance(3_600_000);
    await hub.settled();
  }
  t.ok(hub.created.context.store.horizon() > 0, 'the log was trimmed');
  await closed(hub, clock);
  const again = await hubFor(t, env, { clock }, dataDir);
  t.strictSame(await listed(again), ['all: /', 'dead CDRs: /deliveries?state=DEAD&module=cdrs']);
  const rebuilt = (id: string) => rebuiltRow({ kind: 'views', owner: '', id }, again.created.context);
  t.match(await rebuilt('dead CDRs'), { id: 'dead CDRs', data: saved }, 'its row can be made again from the log');
});

t.test('rows of views and webhooks are made again from the log, and what was removed is not', async (t) => {
  const hub = await hubFor(t);
  const webhook = { url: 'http://127.0.0.1:9/', active: false };
  for (const id of ['kept', 'gone']) {
    await admin(hub, 'PUT', `/views/${id}`, { path: `/events?type=${id}` });
    await admin(hub, 'PUT', `/webhooks/${id}`, webhook);
  }
  for (const kind of ['views', 'webhooks']) await admin(hub, 'DELETE', `/${kind}/gone`);
  const { context } = hub.created;
  for (const kind of ['views', 'webhooks']) {
    const stored = await context.store.get({ kind, owner: '', id: 'kept' });
    t.match(await rebuiltRow({ kind, owner: '', id: 'kept' }, context), { kind, data: stored?.data ?? null }, kind);
    t.strictSame(await rebuiltRow({ kind, owner: '', id: 'gone' }, context), {
      kind,
      owner: '',
      id: 'gone',
      gone: true,
    });
  }
});

t.test('only addresses of the console are saved, and not without end', async (t) => {
  const hub = await hubFor(t);
  for (const path of [
    ...['https://example.com/', '//example.com', '/\\example.com', 'javascript:alert(1)', 'deliveries', ''],
    ...['/deliveries#x', '/deliveries?a b', `/events?type=${'a'.repeat(1000)}`, '/../admin', 7, null],
  ])
    t.equal((await save(hub, 'x', path)).status, 422, String(path).slice(0, 40));
  for (const path of ['/', '/?show=silent', '/partners/NL-EMS', '/trace?key=NL-CPO%2F101', '/deliveries/12-NL-EMS'])
    t.equal((await save(hub, 'x', path)).status, 200, path);
  t.equal((await save(hub, 'a'.repeat(61), '/')).status, 422);
  for (let n = 1; n < 200; n++) await save(hub, `view ${n}`, '/');
  t.equal((await save(hub, 'one more', '/')).status, 409);
  t.equal((await save(hub, 'x', '/events')).status, 200, 'one that exists is replaced');
});
