/** Charts of what passed, in a real browser: they draw what the route answers, for a viewer too, and fit every screen. */
import type { PartnerHistory } from '../../src/api/history.ts';
import { locationBody } from '../support/bodies.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { shared } from '../support/tap.ts';
import { are, browserTest, consoleFor, isOpenToAll, lead } from './browser.ts';

const viewerToken = 'a-viewer-of-the-history-of-a-hub';

/** Two hours in which more is pushed again and again, and the eMSP refuses now and then. */
const living = shared(async (t) => {
  const clock = new SimulatedClock('2026-05-10T06:00:00.000Z');
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken, HUB_PROBE_INTERVAL_S: '2000000' }, { clock });
  const refuses = { now: false };
  const { cpo } = await routedPair(t, hub, { emsp: () => (refuses.now ? { status: 500, text: 'no' } : {}) });
  for (let n = 0; n < 14; n++) {
    refuses.now = n % 5 === 4;
    for (let nth = 0; nth <= n % 7; nth++)
      await cpo.push('PUT', `/2.2.1/locations/NL/CPO/L${n}-${nth}`, locationBody(`L${n}-${nth}`));
    await hub.settled();
    for (let passed = 0; passed < 10; passed++) {
      clock.advance(60_000);
      await hub.settled();
    }
  }
  return hub;
});

browserTest(
  'charts and figures show what the route answers, at every width, light and dark',
  atLength,
  async (t, browser) => {
    const hub = await living();
    const path = '/partners/NL-EMS';
    const page = await consoleFor(t, browser, hub, { token: viewerToken, path });
    const traffic = page.getByRole('region', { name: 'Traffic' });
    await traffic.locator('canvas').nth(2).waitFor();
    await traffic.getByText('Figures').click();
    const told = (await admin(hub, 'GET', '/parties/NL-EMS/history')) as unknown as PartnerHistory;
    const rows = traffic.getByRole('row');
    await are(told.points.length + 1, rows);
    const newest = [...told.points].reverse();
    const cells = await rows.locator('td:nth-child(2), td:nth-child(3), td:nth-child(4)').allTextContents();
    t.strictSame(
      cells,
      newest.flatMap(({ pushes, deliveries, errors }) => [pushes, deliveries, errors].map(String)),
    );
    await traffic.getByText('Figures').click();

    // The figures under the pointer are those of the minute that is drawn there.
    const plot = traffic.getByRole('figure', { name: 'Pushes, deliveries and errors by minute' });
    const most = newest.find(({ deliveries }) => deliveries === 7);
    t.ok(most);
    const area = plot.locator('.u-over');
    await area.scrollIntoViewIfNeeded();
    const box = await area.boundingBox();
    if (!most || !box) throw new Error('nothing is drawn');
    const [from, to] = [Date.parse(told.from), Date.parse(told.to)];
    const x = box.x + (box.width * (Date.parse(most.at) - from)) / (to - from);
    let isShown = false;
    for (let nth = -8; nth <= 8 && !isShown; nth++) {
      await page.mouse.move(x + nth / 2, box.y + box.height / 2);
      isShown = (await plot.getByText('Deliveries 7').count()) > 0;
    }
    t.ok(isShown, 'seven deliveries where seven were');

    for (const at of [path, '/', `${path}/report?month=2026-05`]) {
      await lead(page, at);
      await page
        .locator(at.includes('report') ? '[data-row]' : 'canvas')
        .first()
        .waitFor();
      await isOpenToAll(t, page, at, at.includes('report') ? '.month' : '.traffic');
    }
  },
);

browserTest('the report of a month is a page that prints without menu and buttons', async (t, browser) => {
  const hub = await living();
  const path = '/partners/NL-EMS/report?month=2026-05';
  const page = await consoleFor(t, browser, hub, { token: viewerToken, path });
  const row = page.getByRole('row').filter({ hasText: '2026-05-10' });
  t.match(await row.locator('td').allTextContents(), ['2026-05-10', '0']);
  const print = page.getByRole('button', { name: 'Print' });
  t.ok(await print.isVisible());
  await page.emulateMedia({ media: 'print' });
  t.notOk(await print.isVisible());
  t.notOk(await page.locator('.top').isVisible());
  t.ok(await row.isVisible());
  await page.emulateMedia({ media: 'screen' });
  await page.getByLabel('Month').fill('2026-01');
  await page.getByText('Nothing is recorded for that month').waitFor();
});
