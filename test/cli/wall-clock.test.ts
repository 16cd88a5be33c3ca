/**
 * The wall clock of the command's own process is moved by a day while it runs, while it is down, and back. What the
 * hub waits for takes seconds: it comes, or the wait of the test is over long before a day is.
 */
import { join } from 'node:path';
import { sessionBody } from '../support/bodies.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { routedPair } from '../support/hub-in-process.ts';
import { movedClock } from '../support/moved-clock.ts';
import { itemsOf } from '../support/observed.ts';
import { eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

const dayS = 86_400;
const settings = {
  HUB_RETRY_SCHEDULE_S: '1',
  HUB_CIRCUIT_FAILURES: '1',
  HUB_CIRCUIT_OPEN_MS: '1000',
  HUB_PROBE_INTERVAL_S: '1',
};

for (const [how, aheadS] of [
  ['ahead', dayS],
  ['back', -dayS],
] as const) {
  // Each wait of a hub, on a simulated clock: hub/wall-clock.test.ts.
  t.test(`the wall clock of a running hub goes a day ${how}, also across restarts`, atLength, async (t) => {
    const directory = directoryFor(t);
    const moved = movedClock(directory);
    if (moved === null) return t.comment('no C compiler here: not run');
    const dataDir = join(directory, 'data');
    const start = async () => {
      const hub = await startChildHub({ dataDir, port: 0, env: { ...settings, ...moved.env } });
      t.teardown(() => hub.kill());
      return hub;
    };
    let hub = await start();
    let isIll = true;
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => (isIll ? { status: 500 } : {}) });
    const push = (id: string) => cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
    const states = async () => (await itemsOf(hub, '/deliveries')).map(({ state }) => state).join();
    const offMs = async () => {
      const last = (await itemsOf(hub, '/events')).at(-1);
      return Math.abs(Date.parse(String(last?.at)) - Date.now() - aheadS * 1000);
    };

    await push('S1');
    await emsp.got('the first attempt', () => true);
    emsp.received.splice(0);
    moved.move(aheadS);
    await emsp.got('the trial of the half-open circuit, after seconds', () => true);
    await eventually('the hub says that its clock was moved', async () =>
      /the wall clock of this machine was moved by -?86400 s/.test(await (await fetch(`${hub.url}/readyz`)).text()),
    );
    const probed = cpo.asked.length;
    await eventually('partners are probed', () => cpo.asked.length > probed);
    await push('S2');
    t.ok((await offMs()) < dayS * 500, 'what is recorded and shown is the time of day');
    t.equal(await states(), 'PENDING,PENDING', 'nothing has expired');

    await hub.kill();
    hub = await start();
    for (const partner of [cpo, emsp]) partner.moveTo(hub);
    t.equal(await states(), 'PENDING,PENDING', 'nor by a restart');
    await hub.stop();
    moved.move(0);
    hub = await start();
    for (const partner of [cpo, emsp]) partner.moveTo(hub);
    await eventually('the hub says so', () => /the wall clock was moved while no hub ran/.test(hub.log()));
    isIll = false;
    await push('S3');
    await eventually('all of it arrives', async () => (await states()) === 'DELIVERED,DELIVERED,DELIVERED');
    t.equal(await hub.stop(), 0);
  });
}
