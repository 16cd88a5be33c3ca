/** The portal of a partner in a browser: from the link that an operator makes to its own dead letter, sent again. */

import { sessionBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';
import { browserTest, consoleFor, isOpenToAll } from './browser.ts';

browserTest('a partner signs in with its link, and re-drives its dead letter', async (t, browser) => {
  const hub = await hubFor(t);
  let isIll = true;
  const answer = () => (isIll ? { status: 404, text: 'no such page' } : {});
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS', answer });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await hub.settled();

  const operator = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/NL-EMS' });
  await operator.getByRole('button', { name: 'Portal link' }).click();
  await operator.getByRole('button', { name: 'Make a link' }).click();
  const link = (await operator.locator('.copied code').textContent()) ?? '';
  t.ok(link.startsWith(`${hub.url}/portal/#`));

  const context = await browser.newContext({ reducedMotion: 'reduce' });
  t.teardown(() => context.close());
  const page = await context.newPage();
  const wrong: string[] = [];
  page.on('pageerror', (error) => wrong.push(error.message));
  page.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
  await page.goto(link);
  await page.getByRole('heading', { name: 'NL-EMS' }).waitFor();
  t.equal(page.url(), `${hub.url}/portal/`, 'the address keeps nothing of the link');
  await page.getByRole('row', { name: /NL-CPO\/S1/ }).waitFor();
  await page.getByRole('region', { name: 'Dead letters by reason' }).waitFor();
  t.equal(await page.getByRole('link').count(), 0, 'it leads to no page of operators');
  await isOpenToAll(t, page, 'the portal');

  isIll = false;
  const redrive = page.getByRole('button', { name: /^Re-drive/ });
  t.match(await redrive.getAttribute('aria-label'), /^Re-drive PUT NL-CPO.S1, delivery \d+-NL-EMS$/);
  await redrive.click();
  await emsp.got('the session once more', ({ method }) => method === 'PUT');
  await page.getByText('No dead letters').waitFor();

  await page.getByRole('button', { name: 'Check your endpoints' }).click();
  await page
    .getByText(/calls so far|The check|finding|nothing/i)
    .first()
    .waitFor();
  await page.getByRole('button', { name: 'New initial token' }).click();
  await page.getByRole('button', { name: 'Issue a new token' }).click();
  const token = (await page.locator('.copied code').textContent()) ?? '';
  t.match(token, /^[\w-]{43}$/);
  await page.keyboard.press('Escape');

  await page.reload();
  await page.getByRole('heading', { name: 'NL-EMS' }).waitFor();
  const { url: another } = await admin(hub, 'POST', '/parties/NL-CPO/portal-link');
  await page.goto(String(another));
  await page.getByRole('heading', { name: 'NL-CPO' }).waitFor();
  t.equal(page.url(), `${hub.url}/portal/`, 'a link that is opened in the same tab is taken, too');
  await page.goto(link);
  await page.getByRole('heading', { name: 'NL-EMS' }).waitFor();
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  await page.getByRole('alert').filter({ hasText: 'Your session has ended.' }).waitFor();
  await page.goto('about:blank');
  await page.goto(link);
  await page
    .getByRole('alert')
    .filter({ hasText: /expired/ })
    .waitFor();
  t.equal(await page.evaluate('sessionStorage.length'), 0);
  t.strictSame(
    wrong.filter((text) => !/status of 401/.test(text)),
    [],
  );
});

t.test('partners and operators have separate pages with separate files', async (t) => {
  const hub = await hubFor(t);
  const get = (path: string) => callOnce('GET', `${hub.url}${path}`);
  const page = await get('/portal/');
  t.match(page.text, '<div id="portal">');
  t.match(page.headers.get('content-security-policy'), /default-src 'none'; script-src 'self'/);
  for (const [, path = ''] of page.text.matchAll(/(?:href|src)="([^"]+)"/g))
    t.equal((await get(path)).status, 200, path);
  t.equal((await get('/portal')).headers.get('location'), '/portal/');
});
