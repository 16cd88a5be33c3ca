/** A hub that starts on a store that cannot write, as on a full disk. [RECOVERY-4] */
import { join } from 'node:path';
import { FoundDamaged, reopenable } from '../../src/starting.ts';
import { StoreUnavailable } from '../../storage/contract.ts';
import { HeldWrites } from '../delivery/held-writes.ts';
import { sessionBody } from '../support/bodies.ts';
import { copyDataDirectory, directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';

const modules = [
  ['commands', 'RECEIVER'],
  ['sessions', 'SENDER'],
  ['locations', 'SENDER'],
] as const;

t.test('commands, pulls and watches that a kill cut off are read, and their ends recorded later', async (t) => {
  const clock = new SimulatedClock('2026-05-01T10:01:00.000Z');
  const held = new HeldWrites();
  const dataDir = join(directoryFor(t), 'data');
  const hub = await hubFor(t, {}, { clock, wrap: held.wrap }, dataDir);
  let accepts = true;
  const cpo = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO', modules },
    answer: () => (accepts ? { body: { result: 'ACCEPTED', timeout: 30 } } : new Promise(() => {})),
  });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  for (const id of ['S1', 'S2']) await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
  const stop = (session_id: string) =>
    emsp.call('POST', '/2.2.1/commands/STOP_SESSION', { response_url: `${emsp.url}/ocpi/result`, session_id });
  const isArming = held.hold('orphan.armed');
  const stopped = stop('S1');
  await isArming;
  accepts = false;
  void stop('S2').catch(() => {});
  const { id } = await admin(hub, 'POST', '/parties/NL-CPO/pull/locations');
  await eventually('both are asked', () => cpo.holding === 2);
  const copy = join(dataDir, '..', 'copy');
  copyDataDirectory(dataDir, copy);
  const other = join(dataDir, '..', 'other');
  copyDataDirectory(dataDir, other);
  held.release('orphan.armed');
  await stopped;

  let isFull = true;
  const reason = 'the disk has less than 67108864 bytes of room';
  const full = async () => {
    throw new StoreUnavailable(reason);
  };
  const wrap = wrapStore((store) => ({
    append: (commit) => (isFull ? full() : store.append(commit)),
    settle: (...of) => (isFull ? full() : store.settle(...of)),
    health: () => (isFull ? { ...store.health(), state: 'failed', reason } : store.health()),
  }));
  const again = await hubFor(t, {}, { clock, wrap }, copy);
  const states = async () => (await itemsOf(again, '/commands')).map(({ state }) => state).sort();
  t.strictSame(await states(), ['awaiting', 'forwarding']);
  t.match(await admin(again, 'GET', `/pulls/${id}`), { state: 'RUNNING' });
  t.strictSame(await itemsOf(again, '/orphans?state=GRACE'), []);

  isFull = false;
  clock.advance(1_000);
  await again.settled();
  t.strictSame(await states(), ['awaiting', 'rejected']);
  t.match(await admin(again, 'GET', `/pulls/${id}`), { state: 'FAILED', error: 'the hub was restarted meanwhile' });
  const watched = (await itemsOf(again, '/orphans?state=GRACE')).map(({ session }) => session).sort();
  t.strictSame(watched, ['NL-CPO/S1', 'NL-CPO/S2']);

  const writable = await hubFor(t, {}, { clock }, other);
  await writable.settled();
  const armed = await itemsOf(writable, '/events?type=orphan.armed');
  const ids = new Map(armed.map(({ object, correlation_id }) => [object, correlation_id]));
  t.match(ids.get('NL-CPO/S1'), /./, 'of the command');
  t.equal(ids.get('NL-CPO/S2'), null, 'the hub ended the command, and no request');
});

t.test('a start that fails because its store was reopened says why', async (t) => {
  const health = {
    state: 'failed',
    reason: 'the disk has less than 67108864 bytes of room',
    head: 0,
    damagedRows: [],
  } as const;
  const store = { onHealth: () => {}, health: () => health };
  const started = reopenable(store, () => Promise.reject(new Error('the hub cannot record changes now')));
  const message = `the store was reopened during the start: ${health.reason}`;
  await t.rejects(started, new FoundDamaged(message));
});
