/** Notifications: what is told, to whom, and that nothing of it is lost. */

import type { WebhookDetail, WebhookView } from '../../src/api/webhooks.ts';
import { begun } from '../../src/domain/notification.ts';
import { conditions, isOver, type Seen } from '../../src/hub/notify/conditions.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { StoreUnavailable } from '../../storage/contract.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin } from '../support/plain-partner.ts';
import { runCommand } from '../support/resident-command.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';
import { type WebhookReceiver, webhookReceiver, webhookSet } from '../support/webhook-receiver.ts';

const otherSecret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const quiet = { HUB_PROBE_INTERVAL_S: '864000', HUB_SILENT_AFTER_H: '0', HUB_NOTIFY_DISK_PERCENT: '0' };

const standing = async (hub: TestHub, id: string) =>
  (await admin(hub, 'GET', `/webhooks/${id}`)) as unknown as WebhookDetail;
const told = ({ taken }: WebhookReceiver) => taken.map(({ body: { type, data } }) => `${type} ${data.party}`);

/** Lets the time pass in steps, in each of which the hub ends what it has under way. */
async function pass(hub: TestHub, clock: SimulatedClock, ms: number, stepMs = 1_000): Promise<void> {
  for (let passed = 0; passed < ms; passed += stepMs) {
    clock.advance(stepMs);
    await hub.settled();
  }
}

/** A hub with a CPO and eMSPs that refuse locations, so that each push makes a dead letter of each. */
async function refusing(t: Test, emsps: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const clock = new SimulatedClock(new Date().toISOString());
  const dataDir = directoryFor(t);
  const hub = await hubFor(t, { ...quiet, ...env }, { clock }, dataDir);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const refuses = { now: true };
  const add = async (partyId: string) => {
    const answer = () => (refuses.now ? { status: 400, text: '{}' } : {});
    await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId, answer });
    await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
  };
  for (const id of emsps) await add(id);
  const push = async (id: string) => {
    await cpo.push('PUT', `/2.2.1/locations/NL/CPO/${id}`, locationBody(id));
    await hub.settled();
  };
  return { clock, hub, dataDir, refuses, add, push };
}

t.test(
  'the first dead letter of a partner is notified once, signed by Standard Webhooks, and again when there were none in between',
  async (t) => {
    const { clock, hub, push, refuses } = await refusing(t, ['E01']);
    const receiver = await webhookReceiver(t);
    const { secret } = (await webhookSet(hub, 'on-call', receiver)) as { secret: string };
    await push('L1');
    await pass(hub, clock, 3_000);
    await receiver.took(1);
    receiver.verify(secret, 0);
    t.throws(() => receiver.verify(otherSecret, 0), 'another secret did not sign it');
    const [first] = receiver.taken;
    t.match(first?.body, {
      type: 'partner.dead_letter',
      data: {
        party: 'NL-E01',
        what: 'a delivery to NL-E01 is a dead letter',
        link: `${hub.url}/console/partners/NL-E01`,
      },
    });
    await push('L2');
    await pass(hub, clock, 2 * minuteMs, 10_000);
    t.strictSame(told(receiver), ['partner.dead_letter NL-E01'], 'a second one is not told');
    refuses.now = false;
    await admin(hub, 'POST', '/redrive', { filter: { receiver: 'NL-E01' } });
    await pass(hub, clock, 2 * minuteMs, 10_000);
    refuses.now = true;
    await push('L3');
    await pass(hub, clock, 5_000);
    t.strictSame(told(receiver), ['partner.dead_letter NL-E01', 'partner.dead_letter NL-E01']);
  },
);

t.test('operators are notified again of a partner with very many dead letters', async (t) => {
  const partner = { id: 'NL-E01', status: 'CONNECTED', settings: {}, roles: [{ country_code: 'NL', party_id: 'E01' }] };
  const clock = new SimulatedClock('2026-01-02T04:00:00Z');
  const context = {
    directory: { partners: () => [partner] },
    contacts: { silentSince: () => null },
    settings: { notifyBacklogS: 0 },
    ports: { clock },
  };
  const seen = (dead: number) => {
    const dispatcher = { backlog: () => ({ dead, oldestAt: null }) };
    const orphans = { openCases: () => [] };
    return { context, dispatcher, orphans, now: clock.now(), diskPercent: null } as unknown as Seen;
  };
  const found = (dead: number) =>
    [...conditions(seen(dead))].map((one) => `${begun(one, 'id').type} ${one.subject}: ${one.what}`);
  const first = 'partner.dead_letter NL-E01: a delivery to NL-E01 is a dead letter';
  t.strictSame([found(0), found(999)], [[], [first]]);
  const untold = ['null NL-E01: a delivery to NL-E01 is a dead letter'];
  const thousandth = 'NL-E01 1000: 1000 deliveries to NL-E01 are dead letters';
  t.strictSame(found(1_000), [...untold, `partner.dead_letter ${thousandth}`]);
  t.strictSame(
    found(10_001),
    [...untold, `null ${thousandth}`, 'partner.dead_letter NL-E01 10000: 10000 deliveries to NL-E01 are dead letters'],
    'of several that begin at once the highest is notified',
  );
  const [one, thousand] = [...conditions(seen(1_000))];
  const over = [999, 500, 499, 0].map((dead) => [one, thousand].map((before) => before && isOver(before, seen(dead))));
  const kept = [false, false];
  t.strictSame(over, [kept, kept, [false, true], [true, true]], 'a number about a thousand notifies once');
});

t.test('a partner that does not answer is notified, and so is its recovery', async (t) => {
  const clock = new SimulatedClock(new Date().toISOString());
  const hub = await hubFor(t, { ...quiet, HUB_PROBE_INTERVAL_S: '60', HUB_OFFLINE_AFTER_S: '60' }, { clock });
  let isDown = false;
  const discovery = () => (isDown ? { status: 500, text: '{}' } : undefined);
  await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS', discovery });
  const receiver = await webhookReceiver(t);
  await webhookSet(hub, 'on-call', receiver, { kinds: ['partner.offline'] });
  isDown = true;
  await pass(hub, clock, 4 * minuteMs, 10_000);
  await receiver.took(1);
  isDown = false;
  await pass(hub, clock, 3 * minuteMs, 10_000);
  await receiver.took(2);
  t.strictSame(told(receiver), ['partner.offline NL-EMS', 'partner.online NL-EMS']);
  t.equal(receiver.taken[1]?.body.data.what, 'NL-EMS answers again');
});

t.test('a suspension of an offline partner is not notified as its recovery', async (t) => {
  const clock = new SimulatedClock(new Date().toISOString());
  const hub = await hubFor(t, { ...quiet, HUB_PROBE_INTERVAL_S: '60', HUB_OFFLINE_AFTER_S: '60' }, { clock });
  let isDown = false;
  const discovery = () => (isDown ? { status: 500, text: '{}' } : undefined);
  for (const partyId of ['EM1', 'EM2']) {
    await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId, discovery });
  }
  const receiver = await webhookReceiver(t);
  await webhookSet(hub, 'on-call', receiver, { kinds: ['partner.offline'] });
  isDown = true;
  await pass(hub, clock, 4 * minuteMs, 10_000);
  await receiver.took(2);
  await admin(hub, 'POST', '/parties/NL-EM1/suspend');
  await pass(hub, clock, minuteMs, 10_000);
  const ends = await itemsOf(hub, '/events?type=notification.ended');
  t.match(ends, [{ data: { kind: 'partner.offline', subject: 'NL-EM1', type: null } }], 'it is over');
  isDown = false;
  await pass(hub, clock, 3 * minuteMs, 10_000);
  await receiver.took(3);
  t.strictSame(told(receiver).slice(2), ['partner.online NL-EM2']);
});

t.test('a pull-only partner that polls more rarely than others are probed causes no notification', async (t) => {
  const clock = new SimulatedClock(new Date().toISOString());
  const hub = await hubFor(t, { ...quiet, HUB_PROBE_INTERVAL_S: '60', HUB_OFFLINE_AFTER_S: '60' }, { clock });
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'PUL' }];
  const { hub_token } = await admin(hub, 'POST', '/parties', { roles, pull_only: true });
  const receiver = await webhookReceiver(t);
  await webhookSet(hub, 'on-call', receiver);
  for (let polls = 0; polls < 2; polls++) {
    await pass(hub, clock, 5 * minuteMs - 30_000, 30_000);
    await ocpi(hub, 'GET', '/versions', { token: String(hub_token) });
    await pass(hub, clock, 30_000, 30_000);
  }
  const changes = await itemsOf(hub, '/events?about=partner:NL-PUL');
  const types = changes.map(({ type }) => type);
  const poll = ['partner.offline', 'partner.online'];
  t.strictSame(types.slice(-4), [...poll, ...poll], 'its status follows its calls');
  t.strictSame(await itemsOf(hub, '/events?type=notification.raised'), []);
});

t.test('a silent CPO, an old backlog, a change of host, a case and a full disk are notified', async (t) => {
  const clock = new SimulatedClock(new Date().toISOString());
  const env = { HUB_SILENT_AFTER_H: '2', HUB_NOTIFY_BACKLOG_S: '1800', HUB_RETRY_SCHEDULE_S: '1200' };
  const hub = await hubFor(
    t,
    { ...quiet, ...env, HUB_NOTIFY_DISK_PERCENT: '100', HUB_ORPHAN_CDR_AFTER_S: '60' },
    { clock },
  );
  const receiver = await webhookReceiver(t);
  await webhookSet(hub, 'on-call', receiver);
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 503, text: '{}' }) });
  await pass(hub, clock, 3_000);
  await receiver.took(1);
  t.strictSame(told(receiver), ['disk.low null']);
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { status: 'COMPLETED' }));
  await pass(hub, clock, hourMs, 30_000);
  await receiver.took(3);
  t.strictSame(told(receiver).slice(1).sort(), ['orphan.opened NL-CPO', 'partner.backlog_old NL-EMS']);
  await cpo.call('PUT', '/2.2.1/credentials', {
    token: cpo.token,
    url: `${cpo.url.replace('127.0.0.1', 'localhost')}/ocpi/versions`,
    roles: [{ role: 'CPO', country_code: 'NL', party_id: 'CPO', business_details: { name: 'CPO' } }],
  });
  await pass(hub, clock, 3_000);
  await receiver.took(4);
  await pass(hub, clock, 2 * hourMs, minuteMs);
  await receiver.took(5);
  t.strictSame(told(receiver).slice(3), ['partner.host_change NL-CPO', 'partner.silent NL-CPO']);
});

t.test(
  'a disk that cannot be measured is not notified as free again, and a disabled limit notifies nothing',
  async (t) => {
    const clock = new SimulatedClock(new Date().toISOString());
    const disk: { free: number | null } = { free: 5 };
    const wrap = <P extends object>(port: P): P =>
      'disk' in port
        ? Object.assign(port, { disk: async () => (disk.free === null ? null : { free: disk.free, size: 100 }) })
        : port;
    const dataDir = directoryFor(t);
    const env = { ...quiet, HUB_NOTIFY_DISK_PERCENT: '10' };
    const hub = await hubFor(t, env, { clock, wrap }, dataDir);
    const receiver = await webhookReceiver(t);
    await webhookSet(hub, 'on-call', receiver);
    const low = ['disk.low null'];
    for (const [free, all] of [
      [5, low],
      [null, low],
      [5, low],
      [50, [...low, 'disk.ok null']],
      [5, [...low, 'disk.ok null', ...low]],
    ] as const) {
      disk.free = free;
      await pass(hub, clock, 60_000, 10_000);
      t.strictSame(told(receiver), all, `${free} % are free`);
    }
    await hub.close();
    const off = await hubFor(t, { ...env, HUB_NOTIFY_DISK_PERCENT: '0' }, { clock, wrap }, dataDir);
    await pass(off, clock, 60_000, 10_000);
    t.equal(told(receiver).length, 3);
    t.strictSame((await itemsOf(off, '/events?type=notification.ended')).length, 2, 'it is over');
  },
);

t.test(
  'a receiver that is down for ten minutes gets everything in order once it is back, restarts of the hub included',
  async (t) => {
    const { clock, hub, push, add, dataDir } = await refusing(t, []);
    const receiver = await webhookReceiver(t);
    receiver.answer = () => ({ status: 503, text: 'closed for now' });
    const { secret } = (await webhookSet(hub, 'on-call', receiver)) as { secret: string };
    const ids = ['E01', 'E02', 'E03', 'E04', 'E05'];
    for (const [n, id] of ids.entries()) {
      await add(id);
      await push(`L${n}`);
      await pass(hub, clock, 2 * minuteMs, 5_000);
    }
    t.ok(receiver.asked >= 6 && receiver.asked <= 12, `attempts with a growing back-off: ${receiver.asked}`);
    t.match(await standing(hub, 'on-call'), {
      owed: 5,
      dead: 0,
      last: { ok: false, http_status: 503, answer: 'closed for now' },
    });
    await hub.close();
    const again = await hubFor(t, quiet, { clock }, dataDir);
    t.match(await standing(again, 'on-call'), { owed: 5 });
    receiver.answer = () => ({});
    for (let n = 0; n < 140 && receiver.taken.length < ids.length; n++) await pass(again, clock, 5_000, 5_000);
    t.strictSame(
      told(receiver),
      ids.map((id) => `partner.dead_letter NL-${id}`),
    );
    for (const index of ids.keys()) receiver.verify(secret, index, clock.wall());
    t.match(await standing(again, 'on-call'), {
      owed: 0,
      dead: 0,
      last: { ok: true, http_status: 204 },
      retry_at: null,
    });
  },
);

t.test('a notification that fails for three days is a dead letter, which support sees and re-drives', async (t) => {
  const { clock, hub, push } = await refusing(t, ['E01', 'E02']);
  const receiver = await webhookReceiver(t);
  receiver.answer = () => ({ status: 500, text: 'broken' });
  await webhookSet(hub, 'on-call', receiver);
  await push('L1');
  await pass(hub, clock, 71 * hourMs, 30 * minuteMs);
  t.match(await standing(hub, 'on-call'), { owed: 2, dead: 0 });
  const untold = () => hub.created.hub.operations.overview().totals.untold;
  t.strictSame(untold(), ['on-call'], 'the overview names it');
  await pass(hub, clock, 2 * hourMs, 30 * minuteMs);
  const { dead_letters } = await standing(hub, 'on-call');
  t.match(await standing(hub, 'on-call'), { owed: 0, dead: 2 });
  t.match(dead_letters, [
    { type: 'partner.dead_letter', answer: 'broken' },
    { what: 'a delivery to NL-E02 is a dead letter' },
  ]);
  const flags = ['--url', hub.url, '--token', hub.adminToken];
  const shown = await runCommand(['webhooks', 'show', 'on-call', ...flags]);
  t.match(shown.out, /0 owed, 2 dead/);
  receiver.answer = () => ({});
  const { store } = hub.created.context;
  const history = store.history.bind(store);
  store.history = () => Promise.reject(new StoreUnavailable('it cannot be read'));
  await t.rejects(admin(hub, 'POST', '/webhooks/on-call/redrive'));
  store.history = history;
  t.match(await standing(hub, 'on-call'), { owed: 0, dead: 2 }, 'a re-drive that cannot be answered changes nothing');
  const redriven = await runCommand(['webhooks', 'redrive', 'on-call', ...flags]);
  t.match(redriven, {
    code: 0,
    out: /2 dead letters of on-call are owed again; 2 notifications wait: the hub sends them now/,
  });
  await hub.settled();
  await receiver.took(2);
  t.strictSame(told(receiver), ['partner.dead_letter NL-E01', 'partner.dead_letter NL-E02']);
  t.match(await standing(hub, 'on-call'), { owed: 0, dead: 0 });
  clock.advance(1000);
  t.strictSame(untold(), [], 'until it takes one');
  const nothing = await runCommand(['webhooks', 'redrive', 'on-call', ...flags]);
  t.equal(nothing.out, 'on-call has no dead letter, and nothing waits\n');
});

t.test('a re-drive without a dead letter says what waits, and sends it at once', async (t) => {
  const { clock, hub, push } = await refusing(t, ['E01', 'E02']);
  const receiver = await webhookReceiver(t);
  receiver.answer = () => ({ status: 503, text: 'closed for now' });
  await webhookSet(hub, 'on-call', receiver);
  await push('L1');
  await pass(hub, clock, hourMs, minuteMs);
  const { asked } = receiver;
  const redrive = () => runCommand(['webhooks', 'redrive', 'on-call', '--url', hub.url, '--token', hub.adminToken]);
  t.match(await redrive(), {
    code: 0,
    out: /^on-call has no dead letter; 2 notifications wait: the hub sends them now/,
  });
  await receiver.wasAsked(asked + 1);
  await webhookSet(hub, 'on-call', receiver, { active: false });
  t.match(await redrive(), { out: /2 notifications wait until ocpi-hub webhooks set makes it active/ });
});

t.test('a webhook gets the kinds and the party of its filters, and nothing while it is inactive', async (t) => {
  const { clock, hub, push } = await refusing(t, ['E01', 'E02']);
  const [party, kinds, off] = [await webhookReceiver(t), await webhookReceiver(t), await webhookReceiver(t)];
  await webhookSet(hub, 'party', party, { party: 'NL-E02' });
  await webhookSet(hub, 'kinds', kinds, { kinds: ['partner.offline'] });
  await webhookSet(hub, 'off', off, { active: false });
  await push('L1');
  await pass(hub, clock, 5_000);
  t.strictSame([told(party), told(kinds), off.asked], [['partner.dead_letter NL-E02'], [], 0]);
  t.match(await standing(hub, 'off'), { owed: 2 });
  await webhookSet(hub, 'off', off);
  await off.took(2);
  await hub.settled();
  t.match(await standing(hub, 'off'), { owed: 0 });
});

t.test('a removed webhook is owed nothing, also when another one gets its id', atLength, async (t) => {
  const { clock, hub, push } = await refusing(t, ['E01']);
  // While it stays, none that is set is the first one, which would be sent the present conditions.
  await webhookSet(hub, 'other', await webhookReceiver(t));
  const receiver = await webhookReceiver(t);
  receiver.answer = () => ({ status: 503 });
  const made = (await webhookSet(hub, 'on-call', receiver)) as { secret: string };
  await push('L1');
  await pass(hub, clock, 3_000);
  await receiver.wasAsked(1);
  await pass(hub, clock, 73 * hourMs, 10 * minuteMs);
  t.match(await standing(hub, 'on-call'), { dead: 1 });
  await admin(hub, 'DELETE', '/webhooks/on-call');
  await admin(hub, 'DELETE', '/webhooks/on-call');
  receiver.answer = () => ({});
  const again = (await webhookSet(hub, 'on-call', receiver)) as { secret: string };
  t.not(again.secret, made.secret);
  await pass(hub, clock, 15 * minuteMs, 30_000);
  t.match(await standing(hub, 'on-call'), { owed: 0, dead: 0 });
  t.strictSame(told(receiver), []);
});

t.test('after the last webhook is removed, the next first one gets the present conditions', async (t) => {
  const { clock, hub, push, dataDir } = await refusing(t, ['E01']);
  const [first, second, third] = [await webhookReceiver(t), await webhookReceiver(t), await webhookReceiver(t)];
  await webhookSet(hub, 'first', first);
  await push('L1');
  await pass(hub, clock, 3_000);
  await first.took(1);
  await admin(hub, 'DELETE', '/webhooks/first');
  await webhookSet(hub, 'second', second);
  await pass(hub, clock, 3_000);
  await second.took(1);
  await admin(hub, 'DELETE', '/webhooks/second');
  await hub.close();
  const again = await hubFor(t, quiet, { clock }, dataDir);
  await webhookSet(again, 'third', third);
  await pass(again, clock, 3_000);
  await third.took(1);
  for (const receiver of [first, second, third]) t.strictSame(told(receiver), ['partner.dead_letter NL-E01']);
});

t.test(
  'the secret is shown once; no list, event or file of the store has it, and it opens with a new key',
  async (t) => {
    const clock = new SimulatedClock(new Date().toISOString());
    const dataDir = directoryFor(t);
    const hub = await hubFor(t, { ...quiet, HUB_SECRET_KEY: 'the-first-key-of-this-hub' }, { clock }, dataDir);
    const receiver = await webhookReceiver(t);
    const { secret } = (await webhookSet(hub, 'made', receiver)) as { secret: string };
    t.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    t.notMatch(await webhookSet(hub, 'given', receiver, { secret: otherSecret }), { secret: String });
    t.notMatch(await webhookSet(hub, 'made', receiver), { secret: String }, 'it stays');
    const shown = JSON.stringify([
      await admin(hub, 'GET', '/webhooks'),
      await admin(hub, 'GET', '/webhooks/made'),
      await admin(hub, 'GET', '/events'),
      await admin(hub, 'GET', '/audit'),
    ]);
    for (const hidden of [secret, otherSecret, 'sealedSecret']) t.notOk(shown.includes(hidden), 'not shown');
    await hub.close();
    await t.rejects(
      hubFor(t, { ...quiet, HUB_SECRET_KEY: 'another-key-of-this-hub' }, { clock }, dataDir),
      /does not open the secrets of 2 webhooks, webhook:given first; expected/,
    );
    const keys = { HUB_SECRET_KEY: 'another-key-of-this-hub', HUB_SECRET_KEY_PREVIOUS: 'the-first-key-of-this-hub' };
    await (await hubFor(t, { ...quiet, ...keys }, { clock }, dataDir)).close();
    const renewed = await hubFor(t, { ...quiet, HUB_SECRET_KEY: keys.HUB_SECRET_KEY }, { clock }, dataDir);
    await admin(renewed, 'POST', '/webhooks/given/test');
    await admin(renewed, 'POST', '/webhooks/made/test');
    receiver.verify(otherSecret, 0);
    receiver.verify(secret, 1);
  },
);

t.test(
  'a test shows the receiver’s answer; addresses, redirects and answers are limited as those of partners are',
  async (t) => {
    const hub = await hubFor(t, quiet);
    const receiver = await webhookReceiver(t);
    await webhookSet(hub, 'on-call', receiver);
    const test = () => admin(hub, 'POST', '/webhooks/on-call/test');
    receiver.answer = ({ type }) => ({ status: 200, text: `got ${type}` });
    t.match(await test(), { ok: true, http_status: 200, answer: 'got webhook.test' });
    receiver.answer = () => ({ status: 307, headers: { Location: receiver.url } });
    t.match(await test(), { ok: false, http_status: 307 });
    t.equal(receiver.asked, 2, 'no redirect is followed');
    receiver.answer = () => ({ status: 200, text: 'x'.repeat(1_000_000) });
    t.match(await test(), { ok: false, answer: 'The answer is larger than 0.0625 MiB' });
    for (const [url, why] of [
      ['http://169.254.169.254/latest', /linkLocal/],
      ['file:///etc/passwd', /scheme/],
      ['http://user:secret@127.0.0.1/', /credentials/],
      [`${hub.url}/ocpi/versions`, /own address/],
    ] as const) {
      await t.rejects(webhookSet(hub, 'bad', { url }), why);
    }
    const flags = ['--url', hub.url, '--token', hub.adminToken];
    receiver.answer = () => ({ status: 500, text: 'out of order' });
    t.match(await runCommand(['webhooks', 'test', 'on-call', ...flags]), {
      code: 1,
      out: /did not take the test: HTTP 500 out of order/,
    });
    const set = await runCommand([
      'webhooks',
      'set',
      'cli',
      receiver.url,
      '--kind',
      'disk.low',
      '--party',
      'NL-XXX',
      ...flags,
    ]);
    t.match(set, { code: 2, err: /no partner has NL-XXX/ });
    t.match(await runCommand(['webhooks', 'set', 'cli', receiver.url, '--kind', 'disk.low', ...flags]), {
      code: 0,
      out: /whsec_/,
    });
    t.match((await runCommand(['webhooks', ...flags])).out, /cli .* disk\.low .*\n?on-call/);
    t.match(await runCommand(['webhooks', 'remove', 'cli', ...flags]), { code: 0 });
    const { items } = (await admin(hub, 'GET', '/webhooks')) as unknown as { items: WebhookView[] };
    t.strictSame(
      items.map(({ id }) => id),
      ['on-call'],
    );
  },
);

t.test('a kill of the hub loses no notification', atLength, async (t) => {
  const options = { dataDir: directoryFor(t), port: await freePort(), env: quiet };
  const receiver = await webhookReceiver(t);
  receiver.answer = () => ({ status: 503 });
  const hub = await startChildHub(options);
  const { secret } = (await webhookSet(hub, 'on-call', receiver)) as { secret: string };
  const answer = () => ({ status: 400, text: '{}' });
  const { cpo } = await routedPair(t, hub, { emsp: answer });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await receiver.wasAsked(1);
  await hub.kill();
  receiver.answer = () => ({});
  const again = await startChildHub(options);
  t.teardown(() => again.kill());
  await receiver.took(1);
  t.strictSame(told(receiver), ['partner.dead_letter NL-EMS']);
  receiver.verify(secret, 0);
});

t.test('a new webhook whose floor cannot be stored gets its notifications, and its secret is shown', async (t) => {
  let isFull = false;
  const refuse = () => {
    throw new StoreUnavailable('no room');
  };
  const wrap = wrapStore((store) => ({
    settle: async (...of) => (isFull ? refuse() : store.settle(...of)),
    history: async (...of) => (isFull ? refuse() : store.history(...of)),
  }));
  const clock = new SimulatedClock(new Date().toISOString());
  const hub = await hubFor(t, quiet, { clock, wrap });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  await partnerFor(t, hub, {
    role: 'EMSP',
    countryCode: 'NL',
    partyId: 'E01',
    answer: () => ({ status: 400, text: '{}' }),
  });
  await admin(hub, 'PUT', '/routes/NL-E01/NL-CPO', { active: true });
  const receiver = await webhookReceiver(t);
  isFull = true;
  const { secret } = (await webhookSet(hub, 'on-call', receiver)) as { secret: string };
  isFull = false;
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await hub.settled();
  await pass(hub, clock, 2 * minuteMs, 10_000);
  await receiver.took(1);
  receiver.verify(secret, 0);
  t.strictSame(told(receiver), ['partner.dead_letter NL-E01']);
});
