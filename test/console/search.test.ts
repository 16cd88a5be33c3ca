/** Ctrl-K: one field that leads to a partner, a delivery, a page, or the trace of whatever else is typed. */
import { hubFor } from '../support/hub-in-process.ts';
import { browserTest, consoleFor } from './browser.ts';
import { traffic } from './traffic.ts';

browserTest('Ctrl-K leads to a partner, a page, and what has an id', async (t, browser) => {
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
