/**
 * Signing in to the console, and what a token that is not known, or a hub that is away, looks like.
 */
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { shared, t } from '../support/tap.ts';
import { browserTest, consoleFor, hurried, isOpenToAll } from './browser.ts';

const viewerToken = 'viewer-token-of-the-test';
const living = shared((file) => hubFor(file, { HUB_VIEWER_TOKEN: viewerToken }));

t.test('the files of the page need no token, carry a strict policy and no data [contract 3]', async (t) => {
  const hub = await living();
  const get = (path: string) => callOnce('GET', `${hub.url}${path}`);
  for (const path of ['/console/', '/console/deliveries?state=DEAD', '/console/partners/NL-CPO']) {
    const page = await get(path);
    t.equal(page.status, 200, path);
    t.match(page.headers.get('content-type'), /^text\/html/);
    t.match(page.headers.get('content-security-policy'), /default-src 'none'; script-src 'self'; style-src 'self'/);
    t.match(page.text, '<div id="console">');
  }
  t.equal((await get('/console')).headers.get('location'), '/console/');
  for (const name of ['nothing.js', 'index.html', 'portal.html']) t.equal((await get(`/console/${name}`)).status, 404);
  t.equal((await get('/console/../package.json')).status, 404);
  t.equal((await get('/console/%2e%2e/%2e%2e/package.json')).status, 404);
  t.equal((await callOnce('POST', `${hub.url}/console/`)).status, 404);
});

browserTest('an unknown token is refused in words, and the right one opens the page', async (t, browser) => {
  const hub = await living();
  const page = await consoleFor(t, browser, hub, { token: null, mayComplain: /401/ });
  await page.getByLabel('Token').fill('not-a-token');
  await page.getByRole('button', { name: 'Sign in' }).click();
  t.match(await page.getByRole('alert').textContent(), /does not know this token/);
  await page.getByLabel('Token').fill(hub.adminToken);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  await page.reload();
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  t.equal(await page.evaluate('JSON.stringify(localStorage)'), '{}', 'the token outlives no session');
  t.notMatch(page.url(), hub.adminToken);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  t.equal(await page.evaluate('sessionStorage.length'), 0);
});

browserTest('the role of a stored token is requested until the hub has answered', atLength, async (t, browser) => {
  const hub = await living();
  const page = await consoleFor(t, browser, hub, {
    token: hub.adminToken,
    path: '/onboarding',
    mayComplain: /ERR_FAILED/,
  });
  const lost = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/caller'));
  await page.route('**/admin/v1/caller', (route) => route.abort(), { times: 1 });
  await page.reload();
  await lost;
  await hurried(page, () => page.getByText('admin', { exact: true }).waitFor());
  await page.getByRole('button', { name: 'Add the partner' }).waitFor();
});

browserTest('a shared address opens after signing in', async (t, browser) => {
  const hub = await living();
  const page = await consoleFor(t, browser, hub, { token: null, path: '/orphans?state=OPEN' });
  await page.getByLabel('Token').fill(viewerToken);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('viewer', { exact: true }).waitFor();
  t.match(page.url(), '/console/orphans?state=OPEN');
});

browserTest('the keyboard opens every page, and help lists the keys', atLength, async (t, browser) => {
  const hub = await living();
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken });
  await page.locator('body').press('?');
  const dialog = page.getByRole('dialog', { name: 'Keyboard' });
  await dialog.waitFor();
  const rows = await dialog.locator('dt').allTextContents();
  const titles = await dialog.locator('dd').allTextContents();
  t.ok(rows.length > 8, `${rows.length} rows`);
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  for (const [index, keys] of rows.entries()) {
    if (!keys.startsWith('g ')) continue;
    const there = page.locator('nav [aria-current="page"]').filter({ hasText: titles[index] ?? '?' });
    // The second key counts for a moment only.
    await eventually(`${keys} leads there`, async () => {
      await page.keyboard.press('g');
      await page.keyboard.press(keys.slice(2));
      return (await there.count()) === 1;
    });
  }
});

browserTest('the sign-in is accessible, light and dark', atLength, async (t, browser) => {
  const hub = await living();
  const page = await consoleFor(t, browser, hub, { token: null });
  await isOpenToAll(t, page, 'the sign-in');
});

browserTest(
  'a token that the hub no longer accepts ends the session, and the page says so',
  atLength,
  async (t, browser) => {
    const dataDir = directoryFor(t);
    const first = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken }, {}, dataDir);
    const page = await consoleFor(t, browser, first, {
      token: viewerToken,
      mayComplain: /WebSocket|ERR_|401|503/,
    });
    await first.close();
    const changed = { HUB_VIEWER_TOKEN: `${viewerToken}-changed`, HUB_PORT: new URL(first.url).port };
    await hubFor(t, changed, {}, dataDir);
    await hurried(page, () => page.getByText('no longer accepts this token').waitFor());
  },
);
