/** What an operator asks for that needs the state of deliveries on the disk is answered while the disk is full. */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { StoreUnavailable } from '../../storage/contract.ts';
import { putSession } from '../delivery/watched.ts';
import { smallDisk } from '../storage/support.ts';
import { sessionBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';
import { within } from '../support/within.ts';

const MIB = 1 << 20;

/** Takes all of a disk's room; what it returns gives it back. */
function fill(disk: string): () => void {
  const named = (n: number) => join(disk, `filler-${n}`);
  for (const bytes of [MIB, 4096]) {
    try {
      for (let n = 0; ; n++) if (!existsSync(named(n))) writeFileSync(named(n), Buffer.alloc(bytes));
    } catch {}
  }
  return () => {
    for (let n = 0; existsSync(named(n)); n++) rmSync(named(n));
  };
}

const ask = (hub: TestHub, path: string, body: object = {}) =>
  callOnce('POST', `${hub.url}/admin/v1${path}`, body, { Authorization: `Bearer ${hub.adminToken}` });

t.test('a full disk: what waits for delivery state is refused, and done once there is room', async (t) => {
  const disk = smallDisk(t, 96 * MIB);
  if (disk === null) return void t.plan(0, 'mounting a small file system is not allowed here');
  const hub = await hubFor(t, {}, {}, join(disk, 'data'));
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  const put = async (id: string) => (await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id))).status;
  t.equal(await put('S1'), 200);
  await hub.settled();
  const [dead] = await itemsOf(hub, '/deliveries?state=DEAD');
  const filter = { state: 'DEAD' };
  const person = { uid: 'CARD1' };
  const asked = async () => {
    const answers = await Promise.all([
      ask(hub, '/redrive', { filter, dry_run: true }),
      ask(hub, '/discard', { filter: {}, dry_run: true }),
      ask(hub, '/erase', { ...person, dry_run: true }),
      ask(hub, `/deliveries/${dead?.id}/discard`),
    ]);
    return answers.map(({ status }) => status);
  };
  const free = fill(disk);
  await eventually('no push is taken', async () => (await put('S2')) === 503);
  t.strictSame(await within(60_000, asked(), () => 'an operator has no answer'), [503, 503, 503, 503]);
  free();
  await eventually('the store takes writes', async () => (await put('S3')) === 200);
  t.strictSame(await asked(), [200, 200, 200, 200]);
});

t.test('a dead letter that is discarded while the store takes no delivery state is discarded later', async (t) => {
  let isFull = false;
  const wrap = wrapStore((store) => ({
    settle: (...of) => (isFull ? Promise.reject(new StoreUnavailable('no room')) : store.settle(...of)),
  }));
  const hub = await hubFor(t, {}, { wrap });
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404 }) });
  await putSession(cpo, 'S1');
  await hub.settled();
  const [dead] = await itemsOf(hub, '/deliveries?state=DEAD');
  const group = '/dead-letters/NL-EMS/sessions/not_found/triage';
  await admin(hub, 'POST', group, { assignee: 'ann' });
  isFull = true;
  const { status } = await within(60_000, ask(hub, `/deliveries/${dead?.id}/discard`), () => 'nobody answers');
  t.equal(status, 503);
  isFull = false;
  await eventually('the triage of its group has ended', async () => {
    const ended = await itemsOf(hub, '/events?type=triage.ended');
    const { state } = await admin(hub, 'GET', `/deliveries/${dead?.id}`);
    return ended.length === 1 && state === 'DISCARDED';
  });
});
