/**
 * The documentation of the admin API in a real browser, which reports what its content security policy blocks.
 */
import { hubFor } from '../support/hub-in-process.ts';
import { atLength } from '../support/share.ts';
import { browserTest, consoleFor, isOpenToAll } from './browser.ts';

browserTest(
  '/admin/docs filters, expands and copies under its content security policy, and is accessible',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken });
    await page.goto(`${hub.url}/admin/docs#post-orphans-id-resolve`);
    const resolve = page.locator('#post-orphans-id-resolve');
    await resolve.getByRole('heading', { name: 'Try it' }).waitFor();

    const shown = page.locator('details.operation:visible');
    const all = await shown.count();
    await page.getByLabel('Filter').fill('POST orphans');
    t.ok(all > 30, `${all} operations`);
    t.strictSame(await shown.locator('summary code').allTextContents(), [
      '/orphans/{id}/pull',
      '/orphans/{id}/triage',
      '/orphans/{id}/resolve',
    ]);

    await resolve.getByRole('button', { name: 'Copy as curl' }).click();
    await resolve.getByRole('button', { name: 'Copied' }).waitFor();
    await isOpenToAll(t, page, 'the documentation');
  },
);
