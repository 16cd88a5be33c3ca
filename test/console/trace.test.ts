/**
 * Trace in the console: the story of an object or a request, in whatever form its key was found, and why something was not forwarded.
 */
import type { Page } from 'playwright-core';
import { traceKeyOf } from '../../src/console/page/data/trace-key.ts';
import { locationBody, sessionBody, tokenBody } from '../support/bodies.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { quiet } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { shared, t } from '../support/tap.ts';
import { are, browserTest, consoleFor, hurried, isOpenToAll, lead } from './browser.ts';
import { deliveryOf, traffic, unknownThere } from './traffic.ts';

const viewerToken = 'viewer-token-of-the-test';
/** Each test traces objects of its own. */
const living = shared(async (file) => {
  const hub = await hubFor(file, { HUB_VIEWER_TOKEN: viewerToken });
  return { hub, ...(await traffic(file, hub)) };
});

const stepsOf = (page: Page) => page.locator('.story > li');
const isTold = (page: Page, sentence: string) => page.locator('.trace > .finding', { hasText: sentence }).waitFor();

browserTest('the trace of an object spans partners, and its key stays in the address', async (t, browser) => {
  const { hub, cpo, answers, push } = await living();
  await push('S1');
  answers.set('S1', unknownThere);
  const change = { kwh: 3, last_updated: '2026-01-02T01:00:00Z' };
  await cpo.call('PATCH', '/2.2.1/sessions/NL/CPO/S1', change, { 'X-Correlation-ID': 'request-of-the-test' });
  await quiet(hub);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/trace' });
  await page.getByText('What happened to it?').waitFor();
  await page.locator('body').press('/');
  await page.keyboard.type(' sessions/NL/CPO/S1 ');
  await page.keyboard.press('Enter');
  await isTold(page, 'To NL-EMS: 1 delivered, 1 dead.');
  t.equal(new URL(page.url()).searchParams.get('key'), 'sessions/NL/CPO/S1');
  t.equal(await stepsOf(page).count(), 4);
  await page.getByText('4 steps, oldest first', { exact: true }).waitFor();
  t.match(
    await stepsOf(page).first().textContent(),
    /object\.put.*NL-CPO sent PUT sessions S1: stored, owed to NL-EMS.*DELIVERED/,
  );
  const patched = await stepsOf(page).nth(1).textContent();
  t.match(patched, /object\.patched.*Noted:.*is older than the stored/);
  t.match(patched, /NL-EMS.*DEAD.*not_found.*HTTP 404/);
  t.match(await stepsOf(page).nth(2).textContent(), /delivery\.dead.*is dead: not_found/);
  t.match(await stepsOf(page).last().textContent(), /object\.missed.*never reached NL-EMS/);

  await push('S1', { kwh: 4, last_updated: '2026-01-02T06:00:00Z' }).catch(() => {});
  await hurried(page, () => are(7, stepsOf(page)));

  await stepsOf(page).nth(1).getByRole('link', { name: 'its request' }).click();
  await page.getByRole('heading', { name: 'request-of-the-test' }).waitFor();
  await stepsOf(page).first().filter({ hasText: 'NL-CPO sent PATCH sessions S1' }).waitFor();
  await stepsOf(page)
    .first()
    .getByRole('link', { name: /NL-EMS, delivery/ })
    .click();
  await page.getByRole('heading', { name: 'sessions NL-CPO/S1 to NL-EMS' }).waitFor();
  t.match(page.url(), /\/console\/deliveries\/\d+-NL-EMS$/);

  await lead(page, '/trace');
  const recent = page.getByRole('navigation', { name: 'Traced before' }).getByRole('link');
  await recent.first().waitFor();
  t.strictSame(await recent.allTextContents(), ['request-of-the-test', 'sessions/NL/CPO/S1'], 'newest first');
  await recent.last().click();
  await are(7, stepsOf(page));
  t.notMatch(await page.evaluate('JSON.stringify(localStorage)'), 'S1', 'they are of this tab alone');
  await page.route('**/trace/**', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...((await response.json()) as object), has_older: true } });
  });
  await page.reload();
  await page.getByText('the newest 7 steps, oldest first', { exact: true }).waitFor();
});

browserTest('the trace says in a sentence why an object was not forwarded', async (t, browser) => {
  const { hub, cpo } = await living();
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/LOST', sessionBody('LOST', { cdr_token: undefined }));
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/FOREIGN', sessionBody('FOREIGN', { cdr_token: foreignToken }));
  const page = await consoleFor(t, browser, hub, { token: viewerToken, path: '/trace?key=NL-CPO/LOST' });
  await isTold(page, 'It was not forwarded: it has no usable cdr_token, so nobody is known to own it.');
  t.match(await stepsOf(page).textContent(), 'Not forwarded: it has no usable cdr_token');
  await lead(page, '/trace?key=nl-cpo/FOREIGN');
  await isTold(page, 'It was not forwarded: its cdr_token names a party that is not an eMSP of this hub.');
});

browserTest('a step names its quirks, and a delivery those of its receiver [D70]', async (t, browser) => {
  const { hub, cpo, answers } = await living();
  await admin(hub, 'PATCH', '/parties/NL-EMS', { empty_2xx_ok: true });
  answers.set('QUIRK', { status: 204, text: '' });
  const session = sessionBody('QUIRK', { start_date_time: '2026-01-02 01:00:00Z' });
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/QUIRK', session);
  await quiet(hub);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/trace?key=NL-CPO/QUIRK' });
  await stepsOf(page).getByText('Quirk of NL-CPO: blank-date, it writes a blank between date and time').waitFor();
  t.match(await stepsOf(page).textContent(), /NL-EMS.*DELIVERED.*delivered in .*; quirk: empty-2xx/);
  await page.getByRole('link', { name: /NL-EMS, delivery/ }).click();
  await page.getByText('The hub made up for: empty-2xx.').waitFor();
});

const foreignToken = { country_code: 'BE', party_id: 'OUT', uid: 'C1', type: 'RFID', contract_id: 'BE-OUT-C1' };

browserTest('an id alone finds its object, and several objects with one id are offered [D78]', async (t, browser) => {
  const { hub, cpo, push } = await living();
  await push('L0');
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/L0', locationBody('L0'));
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/trace?key=l1' });
  await page.getByRole('heading', { name: 'NL-CPO/L1' }).waitFor();
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/L2', locationBody('L2'));
  await lead(page, '/trace?key=EVSE1');
  await page.getByText('Several objects answer to EVSE1').waitFor();
  await page.getByRole('link', { name: 'NL-CPO/L2' }).click();
  await page.getByRole('heading', { name: 'locations NL-CPO/L2' }).waitFor();
});

browserTest('a viewer traces a token whose uid is masked', async (t, browser) => {
  const { hub, emsp } = await living();
  await emsp.call('PUT', '/2.2.1/tokens/NL/EMS/04A7B3C9D1E280', tokenBody('04A7B3C9D1E280'));
  const path = '/trace?key=NL-EMS/04A7B3C9D1E280';
  const page = await consoleFor(t, browser, hub, { token: viewerToken, path });
  await stepsOf(page).first().filter({ hasText: 'NL-EMS sent PUT tokens …E280' }).waitFor();
});

browserTest('an unknown key gets advice on what to try', atLength, async (t, browser) => {
  const { hub, push } = await living();
  await push('KNOWN');
  const id = await deliveryOf(hub, 'KNOWN');
  const options = { token: hub.adminToken, path: '/trace?key=NL-CPO/NONE', mayComplain: /404/ };
  const page = await consoleFor(t, browser, hub, options);
  await page.getByText('Nothing is known of NL-CPO/NONE').waitFor();
  await page.getByText(/The owner comes first/).waitFor();
  await page.getByLabel('Object, command or correlation id').fill(id);
  await page.getByRole('button', { name: 'Trace' }).click();
  await page.getByRole('link', { name: `open delivery ${id}` }).click();
  await page.getByRole('heading', { name: 'sessions NL-CPO/KNOWN to NL-EMS' }).waitFor();
  await lead(page, '/trace?key=tariffs/NL-CPO/KNOWN');
  await page.getByText('Nothing is known of tariffs NL-CPO/KNOWN').waitFor();
  await page.getByRole('link', { name: 'NL-CPO/KNOWN in every module' }).click();
  await are(1, stepsOf(page));

  // Of what a hub says whose log was trimmed nothing is left out.
  const detail = 'nothing is known of NL-CPO/OLD; events up to 7 are older than what is kept';
  await page.route('**/admin/v1/trace/*', (route) => route.fulfill({ status: 404, json: { detail } }));
  await lead(page, '/trace?key=NL-CPO/OLD');
  await page.getByText('Nothing is known of NL-CPO/OLD; events up to 7 are older than what is kept').waitFor();
});

browserTest('a trace is accessible in light and dark, and fits a phone', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const { cpo, push } = await traffic(t, hub);
  await push('S1');
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/LOST', sessionBody('LOST', { cdr_token: undefined }));
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/trace', mayComplain: /404/ });
  for (const path of ['/trace', '/trace?key=NL-CPO/S1', '/trace?key=NL-CPO/LOST', '/trace?key=nothing-known']) {
    await page.goto(`${hub.url}/console${path}`);
    await page.locator('.story, .empty').first().waitFor();
    await isOpenToAll(t, page, path);
  }
});

t.test('a key is recognised in every form in which it is found', async (t) => {
  const key = 'NL-CPO/101';
  for (const [pasted, module] of [
    ['NL-CPO/101', null],
    [' nl-cpo/101 ', null],
    ['NL/CPO/101', null],
    ['sessions/NL-CPO/101', 'sessions'],
    ['cdrs/nl-cpo/101', 'cdrs'],
    ['https://hub.example.com/ocpi/2.2.1/sessions/NL/CPO/101?x=1', 'sessions'],
    ['/ocpi/2.2.1/locations/NL/CPO/101/EVSE1/1', 'locations'],
  ] as const) {
    t.strictSame(traceKeyOf(pasted), { key, module }, pasted);
  }
  const plain = ['4f88de2a-43c4-4a7c-98ba-696c84a03b06', 'a/b', '12-NL-EMS'];
  for (const pasted of plain) t.strictSame(traceKeyOf(pasted), { key: pasted, module: null });
  t.strictSame(traceKeyOf('sessions/NL-CPO/a/b'), { key: 'NL-CPO/a/b', module: 'sessions' }, 'an id may have a slash');
});
