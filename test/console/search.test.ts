/** Ctrl-K: one field that leads to a partner, a delivery, a saved view, a page, or the trace of whatever else is typed; and the views themselves. */

import { hubFor } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { barriers, browserTest, consoleFor } from './browser.ts';
import { traffic } from './traffic.ts';

browserTest('Ctrl-K finds partners, pages, and everything with an id', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const { push } = await traffic(t, hub);
  await push('S1');
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken });
  const field = page.getByLabel(/^Partner, object/);
  const found = page.getByRole('list', { name: 'Found' }).getByRole('button');
  const isOpen = () => field.and(page.locator(':focus')).waitFor();
  const search = async (typed: string) => {
    await page.keyboard.press('Control+k');
    await isOpen();
    await page.keyboard.type(typed);
    await found.first().waitFor();
  };

  await search('ems');
  await found.filter({ hasText: 'NL-EMS' }).waitFor();
  t.match(await found.allTextContents(), [/^NL-EMS partner/, /^ems trace/]);
  for (const [key, at] of [
    ['ArrowDown', found.first()],
    ['ArrowDown', found.last()],
    ['ArrowDown', found.last()],
    ['ArrowUp', found.first()],
    ['ArrowUp', field],
    ['ArrowUp', field],
    ['ArrowDown', found.first()],
  ] as const) {
    await page.keyboard.press(key);
    await at.and(page.locator(':focus')).waitFor();
  }
  await page.keyboard.press('Enter');
  await page.waitForURL('**/console/partners/NL-EMS');

  await search('rout');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/console/routing');

  await search('S1');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'NL-CPO/S1' }).waitFor();
  t.equal(new URL(page.url()).searchParams.get('key'), 'S1');

  await page.getByRole('button', { name: 'Search' }).click();
  await isOpen();
  t.equal(await field.inputValue(), '', 'it begins anew');
  await page.keyboard.press('Escape');
  await field.waitFor({ state: 'detached' });
});

browserTest(
  'a view is saved under a name, and opened, also with Ctrl-K; a viewer finds it',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t, { HUB_VIEWER_TOKEN: 'viewer-token-of-the-test' });
    const path = '/deliveries?state=DEAD&module=cdrs';
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path });
    const dialog = page.getByRole('dialog', { name: 'Views' });
    await page.getByRole('button', { name: 'Views' }).click();
    await dialog.getByText('No view is saved yet.').waitFor();
    await dialog.getByText(`This view: ${path}`).waitFor();
    await dialog.getByLabel('Save it as').fill('dead CDRs');
    await dialog.getByRole('button', { name: 'Save this view' }).click();
    const link = dialog.getByRole('link', { name: 'dead CDRs' });
    await link.waitFor();
    t.strictSame(await barriers(page), [], 'axe');
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'Routing' }).click();
    await page.waitForURL('**/console/routing');
    await page.getByRole('button', { name: 'Views' }).click();
    await link.click();
    await page.waitForURL(`**/console${path}`);
    await dialog.waitFor({ state: 'detached' });

    const session = 'NL-CPO%2F3f2b8c1e-7a4d-4e0f-9b6a-2c5d8e7f9a1b';
    await admin(hub, 'POST', '/views', { name: 'a session', path: `/trace?key=${session}` });
    const viewer = await consoleFor(t, browser, hub, { token: 'viewer-token-of-the-test' });
    await viewer.keyboard.press('Control+k');
    await viewer.getByLabel(/^Partner, object/).fill('dead');
    await viewer.getByRole('button', { name: 'dead CDRs view' }).click();
    await viewer.waitForURL(`**/console${path}`);
    await viewer.getByRole('button', { name: 'Views' }).click();
    await viewer.getByRole('link', { name: 'dead CDRs' }).waitFor();
    t.equal(await viewer.getByRole('button', { name: /^(Remove|Save this)/ }).count(), 0);
    await viewer.getByText('a session (its address is hidden from viewers)').waitFor();
    t.equal(await viewer.getByRole('link', { name: 'a session' }).count(), 0, 'what is masked leads nowhere');
    await viewer.keyboard.press('Escape');
    await viewer.keyboard.press('Control+k');
    await viewer.getByLabel(/^Partner, object/).fill('a session');
    await viewer.getByRole('button', { name: 'a session trace' }).waitFor();
    t.equal(await viewer.getByRole('button', { name: 'a session view' }).count(), 0);

    await page.getByRole('button', { name: 'Views' }).click();
    await dialog.getByLabel('Reason, for the audit log').fill('a trial');
    await dialog.getByRole('button', { name: 'Remove dead CDRs' }).click();
    await link.waitFor({ state: 'detached' });
  },
);
