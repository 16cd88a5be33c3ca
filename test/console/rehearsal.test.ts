/**
 * A rehearsal: two hundred partners, and among them one that answers 500, one that hangs, a CPO that fell silent, a session that did not
 * end, a change of host and one that takes nothing; then the disk is full. From the first page two clicks lead to the cause of each. With `REHEARSAL_PICTURES` it leaves
 * pictures of the pages in that directory, at four widths, light and dark.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { Holding } from '../delivery/watched.ts';
import { fill, mounted, unmount } from '../faults/full-disk.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { browserTest, consoleFor, hurried } from './browser.ts';

const many = 200;
const minuteMs = 60_000;
const pictures = process.env.REHEARSAL_PICTURES;
const looks = [
  [360, 'dark'],
  [820, 'light'],
  [1280, 'dark'],
  [1920, 'light'],
] as const;

browserTest(
  'two hundred partners, seven faults: two clicks lead from the first page to each cause',
  atLength,
  async (t, browser) => {
    const clock = new SimulatedClock('2026-03-01T10:00:00Z');
    const env = {
      ...{ HUB_SILENT_AFTER_H: '1', HUB_ORPHAN_GRACE_S: '60', HUB_ORPHAN_SWEEP_S: '60', HUB_RETRY_JITTER: '0' },
      ...{ HUB_CONFIRM_HOST_CHANGE: 'true', HUB_CIRCUIT_FAILURES: '2', HUB_OFFLINE_AFTER_S: '36000' },
      HUB_DELIVERY_TIMEOUT_MS: '10000',
    };
    const disk = mounted();
    if (disk === null) throw new Error('a small file system cannot be mounted here');
    t.teardown(() => unmount(disk));
    const hub = await hubFor(t, env, { clock }, join(disk, 'data'));
    const settled = () => hub.settled(hanging);
    const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO', answer: accepts });
    const emsp = (partyId: string, answer?: Parameters<typeof partnerFor>[2]['answer']) =>
      partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId, ...(answer && { answer }) });
    const well = await emsp('WEL');
    const broken = await emsp('BAD', () => ({ status: 500, text: 'java.lang.NullPointerException' }));
    const wrong = await emsp('DED', () => ({ status: 404, text: 'no such page' }));
    const hanging = await emsp('HNG', new Holding().answer);
    const silent = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'SIL' });
    const moving = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'MOV' });
    await addOthers(hub, many - 7);
    for (const { id } of [well, broken, wrong, hanging])
      await admin(hub, 'PUT', `/routes/${id}/NL-CPO`, { active: true });

    const session = (partyId: string, id: string) => ({
      ...sessionBody(id, { status: 'ACTIVE' }),
      cdr_token: { country_code: 'NL', party_id: partyId, uid: 'CARD1', type: 'RFID', contract_id: `NL-${partyId}-C` },
    });
    for (const partyId of ['WEL', 'BAD', 'DED', 'HNG'])
      for (const n of [1, 2, 3])
        await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${partyId}${n}`, session(partyId, `${partyId}${n}`));
    await silent.push('PUT', '/2.2.1/locations/NL/SIL/L1', { ...locationBody('L1'), party_id: 'SIL' });
    await settled();
    clock.advance(2_000);
    await settled();
    const stop = { response_url: `${well.url}/ocpi/result`, session_id: 'WEL1' };
    await well.call('POST', '/2.2.1/commands/STOP_SESSION', stop);
    const elsewhere = { token: moving.token, url: `http://localhost:${new URL(moving.url).port}/ocpi/versions` };
    const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'MOV' }];
    await moving.call('PUT', '/2.2.1/credentials', { ...elsewhere, roles });
    for (let minute = 0; minute < 90; minute += 10) {
      clock.advance(10 * minuteMs);
      await settled();
      await cpo.push('PUT', `/2.2.1/locations/NL/CPO/L${minute}`, locationBody(`L${minute}`));
    }

    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, mayComplain: /status of 503/ });
    const attention = page.getByRole('region', { name: 'Needs attention' });
    await attention.getByText('silent').first().waitFor();
    await pictured(page, 'overview');
    for (const [width] of looks) {
      await page.setViewportSize({ width, height: 900 });
      const clipped = await page
        .locator('td.state, .beside')
        .evaluateAll((all) => all.filter((of) => of.scrollWidth > of.clientWidth).map((of) => of.textContent));
      t.strictSame(clipped, [], `nothing is clipped at ${width} px`);
    }
    const steps: readonly [string, string | RegExp, (page: Page) => Promise<unknown>][] = [
      [
        'dead-letter',
        /dead letters/,
        (at) =>
          at
            .getByRole('link', { name: /NL-DED/ })
            .first()
            .click(),
      ],
      ['orphan', /^1 open case/, (at) => at.getByText('NL-CPO').first().waitFor()],
      ['host', 'NL-MOV', (at) => at.getByText(/A change of its host waits/).waitFor()],
      ['silent', 'NL-SIL', (at) => at.getByText(/no push since/).waitFor()],
      [
        'hanging',
        'NL-HNG',
        (at) =>
          at
            .getByText(/did not answer/)
            .first()
            .waitFor(),
      ],
      [
        'broken',
        'NL-BAD',
        (at) =>
          at
            .getByText(/HTTP 500.*NullPointerException/)
            .first()
            .waitFor(),
      ],
    ];
    for (const [name, link, cause] of steps) {
      await page.goto(`${hub.url}/console/`);
      await hurried(page, () => attention.getByRole('link', { name: link }).first().click());
      await cause(page);
      t.pass(`${name}: ${page.url().slice(hub.url.length)}`);
      await pictured(page, name);
    }

    const filler = join(disk, 'filler');
    // Before the hub closes, which takes room.
    t.teardown(() => rmSync(filler, { force: true }));
    fill(filler, disk, 0);
    const put = (id: string) => cpo.call('PUT', `/2.2.1/locations/NL/CPO/${id}`, locationBody(id));
    // What was begun when the disk is found to be full waits until the hub knows whether it was written.
    const begun = Promise.all(Array.from({ length: 40 }, (_, n) => put(`FULL${n}`)));
    await page.goto(`${hub.url}/console/`);
    const failing = attention.getByRole('heading', { name: 'The store cannot write' });
    const shows = async (what: string, isFailing: boolean) =>
      hurried(page, () =>
        eventually(what, async () => {
          clock.advance(1_000);
          return (await failing.count()) === (isFailing ? 1 : 0);
        }),
      );
    await shows('the first page says that the store cannot write', true);
    await attention.getByText(/No space left on device/).waitFor();
    t.equal((await put('LATE')).status, 503, 'nothing is acknowledged');
    await pictured(page, 'disk');
    rmSync(filler);
    await shows('the store is open again', false);
    const statuses = new Set((await begun).map(({ status }) => status));
    t.ok(
      [...statuses].every((status) => status === 200 || status === 503),
      [...statuses].join(),
    );
    t.match(await put('LATE'), { json: { status_code: 1000 } }, 'writes are taken again, without a restart');
  },
);

const accepts = ({ method }: { method: string }) =>
  method === 'POST' ? { body: { result: 'ACCEPTED', timeout: 30 } } : {};

/** Partners that are known, and have nothing to do. */
async function addOthers(hub: Parameters<typeof admin>[0], count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const party_id = `${String.fromCharCode(65 + (n % 26))}${String(Math.floor(n / 26)).padStart(2, '0')}`;
    await admin(hub, 'POST', '/parties', { roles: [{ role: n % 2 ? 'CPO' : 'EMSP', country_code: 'DE', party_id }] });
  }
}

async function pictured(page: Page, name: string): Promise<void> {
  if (pictures === undefined) return;
  for (const [width, colorScheme] of looks) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 900 });
    await page.screenshot({ path: join(pictures, `${name}-${width}.png`) });
  }
  await page.setViewportSize({ width: 1440, height: 900 });
}
