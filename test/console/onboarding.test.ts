/**
 * Onboarding: a partner is added, told what it needs, and seen to connect, or why it could not. [contract 5]
 */
import type { Page } from 'playwright-core';
import type { RunningHub } from '../../src/main.ts';
import { type Cpo, startCpo } from '../../src/sandbox/cpo.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import type { Test } from '../support/tap.ts';
import { browserTest, consoleFor, hurried, isOpenToAll } from './browser.ts';

const viewerToken = 'viewer-token-of-the-test';
const steps = [
  'It asked for the versions with its initial token',
  'It sent its credentials',
  'The hub read its versions and endpoints',
  'Connected',
];

const stepStates = (page: Page) =>
  page.locator('.steps li').evaluateAll((all) => all.map((one) => one.getAttribute('class')));

const reach = (page: Page, step: number, state: string) =>
  hurried(page, () =>
    page
      .locator(`.steps li.${state}`)
      .filter({ hasText: steps[step] ?? '' })
      .waitFor(),
  );

async function cpoFor(t: Test, hub: RunningHub): Promise<Cpo> {
  const cpo = await startCpo({ hubUrl: hub.url, country_code: 'NL', party_id: 'CPO', name: 'Charge Co' });
  t.teardown(() => cpo.close());
  return cpo;
}

/** Adds NL-CPO by the form; gives its token as the page shows it. */
async function add(page: Page): Promise<string> {
  await page.getByLabel('CPO: has charge points').check();
  await page.getByLabel('Country').fill('nl');
  await page.getByLabel('Party id').fill('cpo');
  await page.getByLabel('Name').fill('Charge Co');
  await page.getByRole('button', { name: 'Add the partner' }).click();
  await page.getByText('shown only once').waitFor();
  const text = await page.locator('.copied').filter({ hasText: 'initial token' }).locator('code').textContent();
  return text ?? '';
}

browserTest('a partner is added, and its handshake is shown step by step as it happens', async (t, browser) => {
  const hub = await hubFor(t);
  const cpo = await cpoFor(t, hub);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/onboarding' });
  await page.getByText('No partners waiting').waitFor();
  const token = await add(page);
  t.match(page.url(), 'partner=NL-CPO');
  const header = `Authorization: Token ${Buffer.from(token).toString('base64')}`;
  await page.getByText(header, { exact: true }).waitFor();
  const versionsUrl = await page.locator('.copied').filter({ hasText: 'versions URL' }).locator('code').textContent();
  t.equal(versionsUrl, `${hub.url}/ocpi/versions`);
  await reach(page, 0, 'now');
  t.strictSame(await stepStates(page), ['now', 'open', 'open', 'open']);

  const versions = await fetch(versionsUrl ?? '', {
    headers: { Authorization: header.slice('Authorization: '.length) },
  });
  t.equal(versions.status, 200, 'what the page tells works');
  await reach(page, 0, 'done');
  t.strictSame(await stepStates(page), ['done', 'now', 'open', 'open']);

  // It hangs until it has gone, so that this step is seen however late the page looks.
  cpo.at('versions').hang({ times: 1 });
  const failed = t.rejects(cpo.register(token));
  await reach(page, 1, 'done');
  t.strictSame(await stepStates(page), ['done', 'done', 'now', 'open']);
  await cpo.hangUp();
  await failed;
  await cpo.listen();
  await cpo.register(token);
  await reach(page, 3, 'done');
  t.strictSame(await stepStates(page), ['done', 'done', 'done', 'done']);
  await hurried(page, () => page.getByText('NL-CPO is connected.').waitFor());
  await page
    .locator('.steps')
    .getByText(/tokens, /)
    .waitFor();
  const check = page.getByRole('region', { name: 'Check' });
  await check.getByRole('button', { name: 'Check its endpoints' }).click();
  await hurried(page, () => check.getByText('NL-CPO answers as OCPI 2.2.1 says').waitFor());
  await page.getByRole('link', { name: 'Next: routing' }).click();
  await page.waitForURL('**/routing?party=NL-CPO');
});

browserTest(
  'a failed handshake gives the reason in words, and the next one may succeed',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    const cpo = await cpoFor(t, hub);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/onboarding' });
    const token = await add(page);
    const failure = page.locator('.outcome .failure');

    cpo.at('versions').answer(404, 'not here', { times: 1 });
    await t.rejects(cpo.register(token));
    await hurried(page, () => failure.getByText(/Cannot fetch the versions/).waitFor());
    t.match(await failure.textContent(), 'must be reachable from the hub');
    t.strictSame(await stepStates(page), ['done', 'done', 'failed', 'open']);

    cpo.hidden.add('credentials');
    await t.rejects(cpo.register(token));
    await hurried(page, () => failure.getByText(/lack the credentials module/).waitFor());
    cpo.hidden.clear();

    const post = (body: object) =>
      fetch(`${hub.url}/ocpi/2.2.1/credentials`, {
        method: 'POST',
        headers: {
          Authorization: `Token ${Buffer.from(token).toString('base64')}`,
          'Content-Type': 'application/json',
        },
        body: JSON.stringify(body),
      });
    await post({ token: 'x', roles: [] });
    await hurried(page, () => failure.getByText(/url/).waitFor());
    const role = { role: 'EMSP', country_code: 'NL', party_id: 'OTH', business_details: { name: 'x' } };
    await post({ token: 'x', url: `${cpo.url}/ocpi/versions`, roles: [role] });
    await hurried(page, () => failure.getByText(/EMSP NL-OTH was not assigned/).waitFor());
    t.match(await failure.textContent(), 'must be those that were set here');

    await cpo.register(token);
    await hurried(page, () => page.getByText('NL-CPO is connected.').waitFor());
    t.equal(await failure.count(), 0);
    const { steps: told } = (await admin(hub, 'GET', '/parties/NL-CPO/handshake')) as { steps: { step: string }[] };
    t.strictSame(
      told.map(({ step }) => step).filter((step) => step !== 'called'),
      [...Array(4).fill(['received', 'failed']).flat(), 'received', 'connected'],
    );
  },
);

browserTest(
  'a partner is added with settings of its own; a pull-only one gets a hub token at once [D89]',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/onboarding' });
    await page.getByText('Options').click();
    await page.getByLabel('Pull only').check();
    await page.getByLabel('Networks that may call').fill('127.0.0.0/8');
    await page.getByLabel('CPO: has charge points').check();
    await page.getByLabel('Country').fill('nl');
    await page.getByLabel('Party id').fill('cpo');
    await page.getByLabel('Name').fill('Charge Co');
    await page.getByRole('button', { name: 'Add the partner' }).click();
    const token = await page.locator('.copied').filter({ hasText: 'hub token' }).locator('code').textContent();
    const versions = await fetch(`${hub.url}/ocpi/versions`, {
      headers: { Authorization: `Token ${Buffer.from(token ?? '').toString('base64')}` },
    });
    t.equal(versions.status, 200);
    t.equal(await page.getByRole('region', { name: 'Handshake' }).count(), 0, 'it exchanges nothing');
    const { settings } = (await admin(hub, 'GET', '/parties/NL-CPO')) as { settings: object };
    t.match(settings, { pull_only: true, allow_from: ['127.0.0.0/8'], token_encoding: 'auto', link_prev: true });
  },
);

browserTest('an invalid field has its message beside it, and nothing is sent', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  await admin(hub, 'POST', '/parties', { roles: [{ role: 'CPO', country_code: 'DE', party_id: 'ABC' }] });
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/onboarding' });
  const submit = () => page.getByRole('button', { name: 'Add the partner' }).click();
  await page.getByLabel('Country').waitFor();
  t.equal(await page.locator('.mistake').count(), 0, 'nothing is wrong before it was tried');
  await submit();
  await page.getByText('Choose at least one role.').waitFor();
  t.equal(await page.locator('.mistake').count(), 4);
  await page.getByLabel('Country').fill('D1');
  await page.getByText('Two letters, for example NL.').waitFor();
  await page.getByLabel('Country').fill('de');
  await page.getByLabel('Party id').fill('abc');
  await page.getByText('DE-ABC exists already.').waitFor();
  await page.getByLabel('eMSP: has drivers').check();
  await page.getByLabel('Name').fill('Drivers');
  await submit();
  t.equal((await admin(hub, 'GET', '/overview').then(({ rows }) => rows as object[])).length, 1, 'nothing was sent');
  await page.getByLabel('Party id').fill('abd');
  await page.getByRole('button', { name: 'Add another party' }).click();
  const second = page.getByRole('group', { name: 'Party 2' });
  await second.getByLabel('CPO: has charge points').check();
  await second.getByLabel('Country').fill('DE');
  await second.getByLabel('Party id').fill('ABD');
  await second.getByText('DE-ABD is listed twice.').waitFor();
  await second.getByLabel('Party id').fill('ABE');
  await second.getByLabel('Name').fill('Chargers');
  await submit();
  await page.waitForURL('**partner=DE-ABD');
  const { roles } = await admin(hub, 'GET', '/parties/DE-ABD');
  t.match(roles, [
    { role: 'EMSP', country_code: 'DE', party_id: 'ABD' },
    { role: 'CPO', country_code: 'DE', party_id: 'ABE', business_details: { name: 'Chargers' } },
  ]);
});

browserTest('the token is shown once; after a reload an admin can issue another one', atLength, async (t, browser) => {
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
  const cpo = await cpoFor(t, hub);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/onboarding' });
  const token = await add(page);
  await page.reload();
  await page.getByText('cannot be shown again').waitFor();
  t.notMatch(await page.content(), token);
  t.notMatch(await page.evaluate('JSON.stringify([location.href, { ...localStorage }, history.state])'), token);

  const viewer = await consoleFor(t, browser, hub, { token: viewerToken, path: '/onboarding' });
  await viewer.getByText('Adding a partner needs the role admin').waitFor();
  await hurried(viewer, () => viewer.getByRole('link', { name: 'NL-CPO' }).click());
  await viewer.getByText('cannot be shown again').waitFor();
  t.equal(await viewer.getByRole('button', { name: 'Issue a new one' }).count(), 0);

  await page.getByLabel('Reason, for the audit log').fill('the first mail was lost');
  await page.getByRole('button', { name: 'Issue a new one' }).click();
  const issued = page.locator('.copied').filter({ hasText: 'initial token' }).locator('code');
  await issued.waitFor();
  const audited = (await admin(hub, 'GET', '/audit?verb=initial-token')).items as { reason: string | null }[];
  t.equal(audited[0]?.reason, 'the first mail was lost');
  await cpo.register((await issued.textContent()) ?? '');
  for (const one of [page, viewer]) await hurried(one, () => one.getByText('NL-CPO is connected.').waitFor());
});

browserTest('it is accessible: light and dark, wide and narrow', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  await admin(hub, 'POST', '/parties', { roles: [{ role: 'CPO', country_code: 'NL', party_id: 'ABC' }] });
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/onboarding' });
  await page.getByRole('button', { name: 'Add the partner' }).click();
  await page.getByText('Choose at least one role.').waitFor();
  await isOpenToAll(t, page, 'with mistakes');
  await hurried(page, () => page.getByRole('link', { name: 'NL-ABC' }).click());
  await page.getByRole('button', { name: 'Issue a new one' }).click();
  await page.getByText('header to use').waitFor();
  await isOpenToAll(t, page, 'waiting');
});
