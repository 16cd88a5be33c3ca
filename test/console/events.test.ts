/**
 * The live end of the log in the console: it comes by itself, stands still when it is paused, and stays calm when much happens.
 */
import type { Page } from 'playwright-core';
import type { EventView } from '../../src/api/events.ts';
import { begun, grownBy, keptMax, nothing, resumed } from '../../src/console/page/data/tail.ts';
import { tariffBody } from '../support/bodies.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { are, browserTest, consoleFor, hurried, isOpenToAll } from './browser.ts';
import { type Traffic, traffic, unknownThere } from './traffic.ts';

const viewerToken = 'viewer-token-of-the-test';
const rowsOf = (page: Page) => page.locator('tbody tr[data-row]');
const about = (page: Page) => page.locator('td.about');

async function tariffs({ cpo }: Traffic, ids: readonly string[]): Promise<void> {
  for (const id of ids) await cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariffBody(id));
}
const numbered = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}${index}`);
/** Resolves when so many rows tell of tariffs whose id begins so. */
const areTold = (page: Page, many: number, prefix: string) =>
  are(many, about(page).filter({ hasText: `NL-CPO/${prefix}` }));

browserTest(
  'events appear by themselves, and a filter in the address narrows them for everyone',
  async (t, browser) => {
    const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
    const flow = await traffic(t, hub);
    flow.answers.set('sessions', unknownThere);
    const page = await consoleFor(t, browser, hub, { token: viewerToken, path: '/events' });
    await page.locator('.badge', { hasText: 'live' }).waitFor();
    await tariffs(flow, ['A1']);
    await hurried(page, () => about(page).getByText('PUT tariffs NL-CPO/A1').waitFor());
    await flow.push('DEAD');
    await hurried(page, () =>
      about(page)
        .getByText(/not_found/)
        .first()
        .waitFor(),
    );
    const sequences = await page.locator('button.seq').allTextContents();
    t.strictSame(
      sequences,
      [...sequences].sort((a, b) => Number(b) - Number(a)),
      'newest first',
    );

    await page.getByLabel('Type or group').fill('delivery.dead');
    await are(1, rowsOf(page));
    t.equal(new URL(page.url()).search, '?type=delivery.dead');
    const other = await consoleFor(t, browser, hub, {
      token: hub.adminToken,
      path: '/events?object=nl-cpo/a1&first=oldest',
    });
    await are(1, rowsOf(other));
    await tariffs(flow, ['B1', 'A1']);
    await hurried(other, () => are(2, rowsOf(other)));
    t.strictSame(await about(other).allTextContents(), ['PUT tariffs NL-CPO/A1', 'PUT tariffs NL-CPO/A1']);
    const [first = 0, last = 0] = (await other.locator('button.seq').allTextContents()).map(Number);
    t.ok(first < last, 'oldest first, as its address says');
    t.equal(await rowsOf(page).count(), 1, 'and the other filter still holds');
    await page.getByLabel('Type or group').fill('orphan');
    await page.getByText('No events match').waitFor();
  },
);

browserTest('a paused tail does not move, and counts what it missed', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const flow = await traffic(t, hub);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/events?type=object' });
  await tariffs(flow, ['A1']);
  await hurried(page, () => about(page).getByText('NL-CPO/A1').waitFor());
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.locator('.badge', { hasText: 'paused' }).waitFor();
  await tariffs(flow, ['B1', 'B2', 'B3']);
  await hurried(page, () => page.getByText('3 new', { exact: true }).waitFor());
  t.equal(await rowsOf(page).count(), 1, 'nothing moved');
  await page.getByRole('button', { name: 'Resume' }).click();
  await are(4, rowsOf(page));
  t.match(await about(page).first().textContent(), 'NL-CPO/B3');
  t.equal(
    await page
      .getByText('new', { exact: false })
      .getByText(/^\d+ new$/)
      .count(),
    0,
  );
  await tariffs(flow, ['C1']);
  await hurried(page, () => about(page).getByText('NL-CPO/C1').waitFor());
});

browserTest('an event is shown in full on demand, and links to its trace', async (t, browser) => {
  const hub = await hubFor(t);
  const flow = await traffic(t, hub);
  await tariffs(flow, ['A1']);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/events' });
  const row = page.getByRole('button', { name: /^Event \d+, object\.put$/ });
  await row.click();
  t.equal(await row.getAttribute('aria-expanded'), 'true');
  const told = JSON.parse((await page.locator('.event-detail pre').textContent()) ?? '') as EventView;
  t.match(told, { type: 'object.put', party: 'NL-CPO', object: 'NL-CPO/A1', data: { module: 'tariffs' } });
  const added = page.getByRole('row').filter({ hasText: 'partner.added' }).first();
  await added.getByRole('cell', { name: 'admin', exact: true }).waitFor();
  const partner = page.getByRole('button', { name: /, partner\.registered$/ }).first();
  if ((await partner.count()) > 0) await partner.click();
  t.notMatch(await page.content(), flow.emsp.token, 'no token in any event');
  await tariffs(flow, ['A2']);
  await hurried(page, () => about(page).getByText('NL-CPO/A2').waitFor());
  t.equal(await row.first().getAttribute('aria-expanded'), 'false', 'the new one is closed');
  t.equal(await row.last().getAttribute('aria-expanded'), 'true', 'what was opened stays open while others come');
  await about(page).getByRole('link', { name: 'NL-CPO/A1' }).click();
  await page.getByRole('heading', { name: 'tariffs NL-CPO/A1' }).waitFor();
});

browserTest(
  'when the log grows faster than a page can show, the page says so and shows the newest events',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    const flow = await traffic(t, hub);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/events' });
    await rowsOf(page).first().waitFor();
    await tariffs(flow, ['A1']);
    await hurried(page, () => about(page).getByText('NL-CPO/A1').waitFor());
    // The page's next question waits until more has happened than it asks for at once.
    let go = () => {};
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    let asked = () => {};
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    await page.route('**/admin/v1/events?*', async (route) => {
      asked();
      await held;
      await route.continue();
    });
    await hurried(page, () => isAsked);
    await tariffs(flow, numbered('F', 260));
    go();
    await page.getByText(/The log grows faster than anyone reads: \d+ events were passed over/).waitFor();
    const told = Number(/: (\d+) events/.exec((await page.locator('.finding').textContent()) ?? '')?.[1]);
    t.ok(told >= 60, `${told} of 260 and what they caused`);
    await about(page).getByText('NL-CPO/F259').waitFor();
    t.equal(
      await about(page).getByText('NL-CPO/F0', { exact: true }).count(),
      0,
      'the oldest of them were passed over',
    );
    t.ok((await rowsOf(page).count()) <= keptMax);
  },
);

browserTest('older events are searched for on demand', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const flow = await traffic(t, hub);
  await tariffs(flow, numbered('A', 105));
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/events?type=object' });
  await areTold(page, 100, 'A');
  await page.getByRole('button', { name: 'Search further back' }).click();
  await areTold(page, 105, 'A');
  await page.getByRole('button', { name: 'Search further back' }).waitFor({ state: 'detached' });
});

browserTest('events are accessible in light and dark, and fit a phone', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const flow = await traffic(t, hub);
  await tariffs(flow, ['A1', 'A2']);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/events' });
  await page.locator('button.seq').first().click();
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('button', { name: 'Resume' }).waitFor();
  await isOpenToAll(t, page, 'the events');
});

t.test('the number of events that the page keeps is bounded, live and paused', async (t) => {
  const page = (from: number, count: number, left: number | null) => ({
    items: Array.from({ length: count }, (_, index) => ({ seq: from + count - 1 - index }) as EventView),
    next_cursor: left === null ? null : String(left),
    last_seq: from + count - 1,
    kept_from: 1,
  });
  let tail = begun(nothing, page(1, 100, null));
  for (let round = 0; round < 20; round++) tail = grownBy(tail, page(101 + round * 200, 200, null), 100 + round * 200);
  t.equal(tail.events.length, keptMax);
  t.equal(tail.events[0]?.seq, 4100);
  t.equal(tail.passedOver, 0);
  let paused = { ...tail, isPaused: true };
  for (let round = 0; round < 20; round++) paused = grownBy(paused, page(5001 + round * 200, 200, 4100), 4100);
  t.equal(paused.events, tail.events, 'what is shown stands still');
  t.equal(paused.waiting.length, keptMax);
  const again = resumed(paused);
  t.equal(again.events.length, keptMax);
  t.equal(again.events[0]?.seq, 9000);
  t.strictSame([again.waiting, again.isPaused], [[], false]);
  const cut = grownBy(tail, page(6001, 200, 6000), 4100);
  t.equal(cut.passedOver, 1900, '4,101 to 6,000');
  t.equal(grownBy(tail, page(4101, 0, null), 4100), tail, 'nothing new changes nothing');
});
