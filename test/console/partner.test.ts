/**
 * The page of one partner: its chart follows it, and every action does what it says. [contract 5]
 */
import type { Page } from 'playwright-core';
import type { CheckView } from '../../src/api/checks.ts';
import { findingParts } from '../../src/domain/findings.ts';
import { choicesOf, defaultSettings } from '../../src/domain/partner-settings.ts';
import type { RunningHub } from '../../src/main.ts';
import { type Cpo, startCpo } from '../../src/sandbox/cpo.ts';
import { type Emsp, startEmsp } from '../../src/sandbox/emsp.ts';
import { locationBody, tariffBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { giveUp, hastyClock } from '../support/given-up.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { lists } from '../support/lists.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import type { Test } from '../support/tap.ts';
import { are, browserTest, consoleFor, hurried, isOpenToAll, lead } from './browser.ts';

const viewerToken = 'viewer-token-of-the-test';

interface Party {
  readonly status: string;
  readonly settings: Record<string, unknown>;
  readonly host_change: unknown;
  readonly endpoints: readonly { identifier: string; url: string; source: string }[];
  readonly circuits: readonly { circuit: string; state: string }[];
}

const partyOf = async (hub: RunningHub, id: string) => (await admin(hub, 'GET', `/parties/${id}`)) as unknown as Party;

async function initialToken(hub: RunningHub, role: 'CPO' | 'EMSP', party_id: string): Promise<string> {
  const roles = [{ role, country_code: 'NL', party_id, business_details: { name: `Company ${party_id}` } }];
  return String((await admin(hub, 'POST', '/parties', { roles })).initial_token);
}

async function emspFor(t: Test, hub: RunningHub, habits: readonly string[] = []): Promise<Emsp> {
  const emsp = await startEmsp({ hubUrl: hub.url, country_code: 'NL', party_id: 'EMS', habits });
  t.teardown(() => emsp.close());
  await emsp.register(await initialToken(hub, 'EMSP', 'EMS'));
  return emsp;
}

async function cpoFor(t: Test, hub: RunningHub): Promise<Cpo> {
  const cpo = await startCpo({ hubUrl: hub.url, country_code: 'NL', party_id: 'CPO' });
  t.teardown(() => cpo.close());
  await cpo.register(await initialToken(hub, 'CPO', 'CPO'));
  return cpo;
}

/** The summary of the state charts says where they stand; they are drawn while they are unfolded. */
const unfold = (page: Page) => page.getByText(/^State charts Partner: connection: /).click();
/** States that the chart shows as the present ones. */
const lit = (page: Page, path: string) => page.locator(`[data-state="${path}"][aria-current="true"]`);

browserTest('the state chart of a partner follows it offline and back', atLength, async (t, browser) => {
  const hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '0.2', HUB_OFFLINE_AFTER_S: '0.2' });
  const emsp = await emspFor(t, hub);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/NL-EMS' });
  await unfold(page);
  await lit(page, 'connection.connected').waitFor();
  await lit(page, 'door.flowing').waitFor();
  const boxes = () =>
    page.locator('[data-region="connection"] [data-state] rect').evaluateAll((all) => all.map((one) => one.outerHTML));
  const placed = await boxes();
  t.equal(placed.length, 4, 'registered, connected, offline, suspended');

  await emsp.hangUp();
  await lit(page, 'connection.offline').waitFor();
  t.equal(await lit(page, 'connection.connected').count(), 0, 'one state of a region at a time');
  t.match(
    await page.getByRole('region', { name: 'State chart: Partner' }).getByRole('status').textContent(),
    'connection: offline',
  );
  await page.getByRole('cell', { name: 'partner.offline' }).first().waitFor();
  await page.getByText('connection connected → connection offline').waitFor();
  t.strictSame(await boxes(), placed, 'no box has moved [S1]');

  await emsp.listen();
  await lit(page, 'connection.connected').waitFor();
  await page.getByText('connection offline → connection connected').waitFor();
  t.equal((await partyOf(hub, 'NL-EMS')).status, 'CONNECTED');
});

browserTest('the state chart survives a restart of the hub', atLength, async (t, browser) => {
  const env = { HUB_CIRCUIT_OPEN_MS: '600000' };
  const dataDir = directoryFor(t);
  const before = await hubFor(t, env, {}, dataDir);
  await emspFor(t, before);
  const page = await consoleFor(t, browser, before, {
    ...{ token: before.adminToken, path: '/partners/NL-EMS' },
    mayComplain: /WebSocket|ERR_|50[0-9]/,
  });
  await unfold(page);
  await lit(page, 'connection.connected').waitFor();
  await before.close();
  await page.getByText('not live, connecting again').waitFor();
  const after = await hubFor(t, { ...env, HUB_PORT: new URL(before.url).port }, {}, dataDir);
  await hurried(page, () => page.getByText(/Could not load/).waitFor({ state: 'detached' }));
  await admin(after, 'POST', '/parties/NL-EMS/circuits/sessions', { state: 'open' });
  await hurried(page, () => lit(page, 'open').waitFor());
});

browserTest('an operator probes, pauses, and opens and closes circuits by hand', async (t, browser) => {
  const hub = await hubFor(t, { HUB_CIRCUIT_OPEN_MS: '600000' });
  const emsp = await emspFor(t, hub);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/nl-ems' });
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  await press('Probe');
  await page.getByText(/NL-EMS answered in/).waitFor();
  const sizeOf = (heading: string) =>
    page.evaluate(`parseFloat(getComputedStyle(document.querySelector('${heading}')).fontSize)`);
  t.ok(
    Number(await sizeOf('h1')) > Number(await sizeOf('h2')),
    'the name of the page is larger than the headings below it',
  );
  await emsp.hangUp();
  await press('Probe');
  await page.locator('.notice.failed', { hasText: /NL-EMS cannot be reached .*: unavailable/ }).waitFor();

  await press('Pause deliveries');
  await unfold(page);
  await lit(page, 'hold.paused').waitFor();
  t.equal((await partyOf(hub, 'NL-EMS')).settings.paused, true);
  await press('Resume deliveries');
  await lit(page, 'hold.none').waitFor();
  t.equal((await partyOf(hub, 'NL-EMS')).settings.paused, false);

  await press('Stop commands & authorize (open circuit)');
  await lit(page, 'open').waitFor();
  t.match((await partyOf(hub, 'NL-EMS')).circuits, [{ circuit: 'sync', state: 'open' }, { state: 'closed' }]);
  await press('Try commands & authorize now (close circuit)');
  await lit(page, 'closed').waitFor();
  // What the log has of it stands among the last transitions when the page is opened anew. [D80]
  await eventually('it is recorded', async () => (await itemsOf(hub, '/events?type=circuit.closed')).length === 1);
  await page.reload();
  const transitions = page.getByRole('region', { name: 'Last transitions' });
  const rowOf = (event: string) => transitions.getByRole('row').filter({ hasText: event });
  await rowOf('circuit.opened').getByText('sync: opened by an operator').waitFor();
  await rowOf('circuit.closed').getByText('sync: closed by an operator').waitFor();
  for (const event of ['circuit.opened', 'partner.changed']) {
    await rowOf(event).first().getByRole('cell', { name: 'admin', exact: true }).waitFor();
  }
});

browserTest(
  'the last transitions are those of its state, however many other events the partner has',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    const ids = Array.from({ length: 31 }, (_, n) => `L${n}`);
    await Promise.all(ids.map((id) => cpo.call('PUT', `/2.2.1/locations/NL/CPO/${id}`, { id: 1 })));
    await eventually('all is noted', async () => (await itemsOf(hub, '/events?type=push.refused')).length === 31);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/NL-CPO' });
    const transitions = page.getByRole('region', { name: 'Last transitions' });
    const row = transitions.getByRole('row').filter({ hasText: 'partner.registered' });
    await row.getByRole('cell', { name: 'partner', exact: true }).waitFor();
    t.equal(await transitions.getByText(/push\.refused|report\.noted/).count(), 0);
  },
);

browserTest('a reload that is requested during a load happens once, afterwards', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  await emspFor(t, hub);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/NL-EMS' });
  const button = page.getByRole('button', { name: 'Pause deliveries' });
  await button.waitFor();
  let [asked, open, most] = [0, 0, 0];
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route('**/admin/v1/parties/NL-EMS', async (route) => {
    if (route.request().method() !== 'GET') return route.continue();
    asked++;
    most = Math.max(most, ++open);
    await released;
    open--;
    return route.continue();
  });
  for (const times of [1, 2]) {
    await button.click();
    await page
      .getByText('Deliveries to NL-EMS wait until you resume.')
      .nth(times - 1)
      .waitFor();
  }
  release();
  await page.getByRole('button', { name: 'Resume deliveries' }).waitFor();
  await eventually('it was asked for twice', () => asked >= 2);
  t.equal(most, 1, 'one after the other');
});

browserTest(
  'suspending needs a confirmation; a new initial token is shown once and brings the partner back',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    const emsp = await emspFor(t, hub);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/NL-EMS' });
    const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
    await press('Suspend');
    await press('Cancel');
    t.equal((await partyOf(hub, 'NL-EMS')).status, 'CONNECTED');
    await press('Suspend');
    await press('Suspend NL-EMS');
    await unfold(page);
    await lit(page, 'connection.suspended').waitFor();
    await lit(page, 'door.suspended').waitFor();
    t.equal((await partyOf(hub, 'NL-EMS')).status, 'SUSPENDED');

    await press('New initial token');
    await page.getByText('is shown once').waitFor();
    await press('Issue a new token');
    const token = (await page.getByRole('dialog').locator('code').textContent()) ?? '';
    await page.getByRole('button', { name: 'Copy initial token' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByText(token).waitFor({ state: 'detached' });
    t.equal(await page.getByText(token).count(), 0, 'it is shown no more');
    await emsp.register(token);
    await lit(page, 'connection.connected').waitFor();
  },
);

browserTest(
  'a registered partner gets an initial token, and goes on until it has used it [D73]',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    const emsp = await emspFor(t, hub);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/NL-EMS' });
    const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
    await press('New initial token');
    await page.getByText('goes on as it is until it has registered with it').waitFor();
    await press('Issue a new token');
    await page.getByRole('button', { name: 'Copy initial token' }).waitFor();
    const token = (await page.getByRole('dialog').locator('code').textContent()) ?? '';
    t.equal((await partyOf(hub, 'NL-EMS')).status, 'CONNECTED');
    await emsp.register(token);
    t.equal((await partyOf(hub, 'NL-EMS')).status, 'CONNECTED');
  },
);

browserTest('settings and endpoints are changed in a dialog and take effect', async (t, browser) => {
  const hub = await hubFor(t);
  await emspFor(t, hub);
  const page = await consoleFor(t, browser, hub, {
    token: hub.adminToken,
    path: '/partners/NL-EMS',
    mayComplain: /422/,
  });
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  await press('Change settings');
  await page.getByLabel('Name').fill('Another name');
  await page.getByLabel('Identity mode').selectOption('COMPATIBILITY');
  await page.getByLabel('Compatibility until').fill('2031-05-06T07:08');
  await page.getByLabel('Silent after, hours').fill('12.5');
  await page.getByLabel('An empty 2xx').check();
  await page.getByLabel('Networks that may call').fill('192.0.2.0/24\n127.0.0.1');
  await page.getByLabel('PATCH without last_updated').selectOption('accept');
  await page.getByRole('group', { name: 'Modules that it is not offered' }).getByLabel('tariffs').check();
  await page.getByLabel('Link to the previous page').uncheck();
  await press('Save settings');
  await page.getByText('Another name').first().waitFor();
  const until = await page.evaluate('new Date("2031-05-06T07:08").toISOString()');
  const { settings } = await partyOf(hub, 'NL-EMS');
  t.strictSame(settings, {
    ...choicesOf(defaultSettings),
    ...{ identity_mode: 'COMPATIBILITY', empty_2xx_ok: true, compatibility_until: until, link_prev: false },
    silent_after_h: 12.5,
    ...{ allow_from: ['192.0.2.0/24', '127.0.0.1'], patch_without_last_updated: 'accept', hidden_modules: ['tariffs'] },
  });
  const card = page.getByRole('region', { name: 'Settings' });
  await card.getByText('192.0.2.0/24, 127.0.0.1').waitFor();
  t.equal(await card.locator('.badge', { hasText: 'set here' }).count(), 8, 'what differs from its default');
  await press('Change settings');
  await page.getByLabel('Networks that may call').fill('not-a-cidr');
  await press('Save settings');
  // All outside a dialog is inert: the refusal is read in it.
  await page.getByRole('dialog').getByRole('status').getByText('expected a network').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await press('Change settings');
  await press('Save settings');
  await page.getByText('Nothing was changed.').waitFor();
  t.equal(
    await page.evaluate('document.activeElement.textContent'),
    'Change settings',
    'the opener has the focus again',
  );
  t.strictSame((await partyOf(hub, 'NL-EMS')).settings, settings, 'what nobody touched stays');

  await press('Set endpoints');
  const another = { identifier: 'tariffs', role: 'RECEIVER', url: 'https://elsewhere.example/tariffs' };
  await admin(hub, 'PUT', '/parties/NL-EMS/endpoints', { endpoints: [another] });
  await press('Add an endpoint');
  await page.getByLabel('Module', { exact: true }).fill('cdrs');
  await page.getByLabel('URL').fill('https://elsewhere.example/cdrs');
  await press('Save');
  const endpoints = page.getByRole('region', { name: 'Endpoints' }).first();
  await endpoints.getByRole('row', { name: 'cdrs receiver set here' }).waitFor();
  const set = async () => (await partyOf(hub, 'NL-EMS')).endpoints.filter(({ source }) => source === 'operator');
  t.match(
    await set(),
    [another, { identifier: 'cdrs', url: 'https://elsewhere.example/cdrs' }],
    'what another operator set meanwhile stays',
  );
  await press('Set endpoints');
  await press('Remove cdrs');
  await press('Save');
  await endpoints.getByRole('row', { name: 'cdrs receiver set here' }).waitFor({ state: 'detached' });
  t.match(await set(), [another]);
});

browserTest(
  'a check is started, followed as it runs, and its findings are healed [operators, check]',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    const emsp = await emspFor(t, hub, ['empty-2xx']);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/NL-EMS' });
    const check = page.getByRole('region', { name: 'Check' });
    await check.getByText('Not checked yet').waitFor();
    // It hangs until the page has shown that the check runs.
    emsp.at(/^POST .*authorize/).hang({ times: 1 });
    await check.getByRole('button', { name: 'Check its endpoints' }).click();
    await hurried(page, () => check.locator('.tried .running', { hasText: 'authorization' }).waitFor());
    await check.locator('header').getByText('RUNNING').waitFor();
    t.equal(await check.getByRole('button', { name: 'Checking …' }).isDisabled(), true);
    await emsp.hangUp();
    await emsp.listen();
    await hurried(page, () => check.locator('header').getByText('DONE').waitFor());

    await check.getByLabel('also send test objects').check();
    await check.getByRole('button', { name: 'Check its endpoints' }).click();
    const finding = check.locator('.findings li').filter({ hasText: 'empty-2xx' }).first();
    await hurried(page, () => finding.getByText('empty_2xx_ok: true', { exact: true }).waitFor());
    await hurried(page, () => check.locator('header').getByText('DONE').waitFor());
    const [{ id, steps, findings }] = (await admin(hub, 'GET', '/checks?party=nl-ems')).items as [CheckView];
    const found = findings.find(({ name }) => name === 'empty-2xx');
    if (!found) throw new Error(`${id} did not find the habit`);
    for (const [label, text] of findingParts(found)) {
      const part = finding.locator('.part').filter({ has: page.getByText(label, { exact: true }) });
      t.equal(await part.locator('dd').textContent(), text, label);
    }
    t.strictSame(
      await check.locator('.tried li').allTextContents(),
      steps.map(({ name, calls, findings: added }) => {
        const mark = added > 0 ? '▲' : '✓';
        const counts = [
          calls === 1 ? '1 call' : `${calls} calls`,
          added === 1 ? '1 finding' : added > 0 && `${added} findings`,
        ];
        return `${mark}done: ${name} ${counts.filter(Boolean).join(', ')}`;
      }),
    );
    await isOpenToAll(t, page, 'the check', '.check');

    await finding.getByRole('button', { name: 'Set empty_2xx_ok: true' }).click();
    await page.getByRole('button', { name: 'Set it', exact: true }).click();
    await finding.getByText('empty_2xx_ok: true, which is set').waitFor();
    t.equal((await partyOf(hub, 'NL-EMS')).settings.empty_2xx_ok, true);
    t.equal(await finding.getByRole('button').count(), 0, 'it is not offered twice');
  },
);

browserTest('a pending change of host is shown, and confirmed [D87]', atLength, async (t, browser) => {
  const hub = await hubFor(t, { HUB_CONFIRM_HOST_CHANGE: 'true' });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  const elsewhere = emsp.url.replace('127.0.0.1', 'localhost');
  const move = () => {
    const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS', business_details: { name: 'EMS' } }];
    return emsp.call('PUT', '/2.2.1/credentials', { token: emsp.token, url: `${elsewhere}/ocpi/versions`, roles });
  };
  t.equal((await move()).json.status_code, 3001);
  const { host } = new URL(elsewhere);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/?show=attention' });
  const attention = page.getByRole('region', { name: 'Needs attention' });
  await attention.getByText(`${new URL(emsp.url).host} → ${host} · waiting`).waitFor();
  await page.getByRole('row').filter({ hasText: 'NL-EMS' }).waitFor();
  await lead(page, '/?show=healthy');
  await page.getByText('No partner fits').waitFor();
  await lead(page, '/?show=host');
  await page.getByRole('row').filter({ hasText: 'NL-EMS' }).waitFor();
  await attention.getByRole('link', { name: 'NL-EMS' }).click();
  await page
    .getByText(`A change of its host waits for an operator: from ${new URL(emsp.url).host} to ${host}`)
    .waitFor();
  await page.getByRole('button', { name: 'Confirm host' }).click();
  t.equal(await page.getByLabel('Host and port').inputValue(), host);
  await page.getByRole('dialog').getByLabel('Reason').fill('they called us');
  await page.getByRole('button', { name: 'It was the partner: confirm' }).click();
  await page.getByText('Its next PUT of credentials may change its host').waitFor();
  t.match((await partyOf(hub, 'NL-EMS')).host_change, { state: 'confirmed', to: host });
  t.match(await itemsOf(hub, '/audit?operator=admin'), [{ reason: 'they called us' }]);
});

browserTest('pulls and resyncs show their progress and their end', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const served = lists();
  served.texts.locations = ['LOC1', 'LOC2', 'LOC3'].map((id) => JSON.stringify(locationBody(id)));
  await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO', answer: served.answer });
  await emspFor(t, hub);
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/NL-CPO' });
  const pulls = page.getByRole('region', { name: 'Pulls', exact: true }).first();
  await pulls.getByText('Nothing was pulled').waitFor();
  let serve = () => {};
  const held = new Promise<void>((resolve) => {
    serve = resolve;
  });
  served.instead = (received) => {
    served.instead = () => undefined;
    return held.then(() => served.answer(received));
  };
  await page.getByLabel('the whole list').check();
  await page.getByRole('button', { name: 'Pull locations' }).click();
  await pulls.getByText('RUNNING').waitFor();
  serve();
  await hurried(page, () => pulls.getByText('DONE').waitFor());
  const [pull] = (await admin(hub, 'GET', '/pulls')).items as { stored: number; full: boolean; module: string }[];
  t.match(pull, { module: 'locations', full: true });
  t.equal(pull?.stored, 3);
  await pulls.getByText(`${pull?.stored} stored`).waitFor();

  await lead(page, '/partners/NL-EMS');
  await page.getByRole('button', { name: 'Resync' }).click();
  const resync = page.getByRole('region', { name: 'Progress of the resync' });
  await hurried(page, () => resync.getByText(`Done: ${pull?.stored} deliveries put in line.`).waitFor());
  t.equal(await page.getByRole('region', { name: 'Pulls' }).count(), 0, 'an eMSP has nothing to pull');
  await page.getByRole('region', { name: 'Routes' }).getByRole('link', { name: 'NL-CPO' }).waitFor();
});

browserTest('a running pull can be canceled once, and the stored objects stay', atLength, async (t, browser) => {
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
  await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO' },
    answer: ({ path }) =>
      /offset=[1-9]/.test(path)
        ? new Promise(() => {})
        : { body: [locationBody('LOC1')], headers: { 'X-Total-Count': '2' } },
  });
  await admin(hub, 'POST', '/parties/NL-CPO/pull/locations', { full: true });
  const viewer = await consoleFor(t, browser, hub, { token: viewerToken, path: '/partners/NL-CPO' });
  const seen = viewer.getByRole('region', { name: 'Pulls', exact: true }).first();
  await hurried(viewer, () => seen.getByText('1 stored').waitFor());
  t.equal(await seen.getByRole('button', { name: 'Cancel' }).count(), 0, 'a viewer cancels nothing');
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/NL-CPO' });
  const pulls = page.getByRole('region', { name: 'Pulls', exact: true }).first();
  await pulls.getByRole('button', { name: 'Cancel' }).click();
  await hurried(page, () => pulls.getByText('FAILED').waitFor());
  await pulls.getByText('1 stored').waitFor();
  t.equal(await pulls.getByRole('button', { name: 'Cancel' }).count(), 0);
  t.match(await itemsOf(hub, '/pulls'), [{ state: 'FAILED', stored: 1 }]);
});

browserTest('counts of a partner with two parties link to the deliveries of both', atLength, async (t, browser) => {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '3600' });
  const { cpo } = await routedPair(t, hub);
  await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'AAA' },
    answer: ({ path }) => ({ status: path.includes('/tariffs/') ? 404 : 503, text: '{"status_code":2003}' }),
    others: [{ role: 'EMSP', country_code: 'NL', party_id: 'BBB' }],
  });
  await admin(hub, 'PUT', '/routes/NL-BBB/NL-CPO', { active: true });
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1'));
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  await hub.settled();
  await admin(hub, 'PATCH', '/parties/NL-AAA', { paused: true });

  const page = await consoleFor(t, browser, hub, { token: hub.adminToken });
  const found = page.getByRole('region', { name: 'Deliveries found' }).locator('tbody tr');
  await page.getByRole('link', { name: '1 dead letter of NL-AAA' }).click();
  await are(1, found);
  t.match(await found.textContent(), /DEAD.*NL-BBB.*tariffs/);
  await page.getByRole('button', { name: 'Re-drive dead letters …' }).click();
  await page.getByRole('dialog').getByText('to partner NL-AAA').waitFor();
  await page.getByRole('button', { name: 'Re-drive 1 delivery' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Only to partner NL-AAA' }).click();
  await page.getByRole('button', { name: 'Only to partner NL-AAA' }).waitFor({ state: 'detached' });

  await lead(page, '/partners/NL-AAA');
  await page.getByRole('region', { name: 'Queue' }).getByRole('link', { name: '1' }).first().click();
  await found.getByRole('link', { name: 'NL-CPO/LOC1 to NL-BBB' }).click();
  await page.getByText('an operator has paused deliveries to NL-BBB').waitFor();
  await page.getByRole('link', { name: '1 waits for NL-AAA' }).waitFor();

  await lead(page, '/partners/NL-CPO');
  await page.getByRole('region', { name: 'Routes' }).getByRole('link', { name: 'NL-BBB' }).click();
  await page.getByRole('heading', { name: 'NL-AAA' }).waitFor();
  t.match(page.url(), /\/partners\/NL-AAA$/);
});

browserTest(
  'a refused push is on the page of its partner with its reason, and links to its trace [D69]',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/NL-CPO' });
    const quality = page.getByRole('region', { name: 'Data quality' });
    await quality.getByText('Nothing to report').waitFor();
    const location = locationBody('LOC1', { last_updated: 'soon' });
    await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', location);
    const row = quality.getByRole('row', { name: /PUT NL-CPO\/LOC1/ });
    await hurried(page, () => row.getByText('last_updated: expected RFC 3339 date-time').waitFor());
    await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', location);
    await hurried(page, () => row.getByRole('cell', { name: '2', exact: true }).waitFor());
    for (let n = 0; n < 8; n++) await cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/T${n}`, {});
    const all = quality.getByRole('button', { name: 'Show all 9 rows' });
    await hurried(page, () => all.waitFor());
    t.equal(await row.count(), 0, 'the newest eight are shown');
    await all.click();
    await row.getByRole('link', { name: 'PUT NL-CPO/LOC1' }).click();
    await page.getByText(/refused, 2 times so far: last_updated: expected RFC 3339 date-time/).waitFor();
  },
);

browserTest('a viewer sees everything and no button that changes anything', atLength, async (t, browser) => {
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
  await cpoFor(t, hub);
  const page = await consoleFor(t, browser, hub, { token: viewerToken, path: '/partners/NL-CPO' });
  await unfold(page);
  await lit(page, 'connection.connected').waitFor();
  await page.getByRole('region', { name: 'Endpoints' }).first().getByText('tokens receiver').waitFor();
  t.strictSame(await page.locator('main button').allTextContents(), []);
});

browserTest(
  'an unknown partner is reported as unknown, and a quarantined actor as quarantined',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t, {}, { clock: hastyClock });
    const page = await consoleFor(t, browser, hub, {
      ...{ token: hub.adminToken, path: '/partners/NL-XXX' },
      mayComplain: /404/,
    });
    await page.getByText(/Could not load partner NL-XXX/).waitFor();
    await emspFor(t, hub);
    await lead(page, '/partners/NL-EMS');
    await unfold(page);
    await lit(page, 'connection.connected').waitFor();
    await giveUp(hub, 'partner:NL-EMS');
    t.match(await page.getByRole('alert').textContent(), /stopped after repeated failures: .*poisoned on purpose/s);
  },
);

browserTest('it is accessible: light and dark, wide and narrow, dialogs too', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  await cpoFor(t, hub);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/partners/NL-CPO' });
  await unfold(page);
  await lit(page, 'connection.connected').waitFor();
  await page.getByText('Nothing was pulled').waitFor();
  await isOpenToAll(t, page, 'the partner');
  for (const name of ['Suspend', 'Change settings', 'Set endpoints']) {
    await page.getByRole('button', { name, exact: true }).click();
    await isOpenToAll(t, page, name, 'dialog');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }
});

browserTest('an admin adds a role to a partner and removes it', async (t, browser) => {
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
  await routedPair(t, hub);
  const page = await consoleFor(t, browser, hub, {
    ...{ token: hub.adminToken, path: '/partners/NL-CPO' },
    mayComplain: /409/,
  });
  const parties = page.getByRole('region', { name: 'Parties', exact: true });
  const dialog = page.getByRole('dialog');
  const change = async (fill: () => Promise<unknown>) => {
    await parties.getByRole('button', { name: 'Change roles' }).click();
    await fill();
    await dialog.getByLabel('Reason').fill('contract 12');
    await dialog.getByRole('button', { name: 'Save roles' }).click();
  };
  const rolesOf = async () =>
    ((await partyOf(hub, 'NL-CPO')) as unknown as { roles: { role: string }[] }).roles.map(({ role }) => role);
  await change(() => dialog.locator('select').selectOption('EMSP'));
  await parties.getByText('not in its credentials').waitFor();
  t.strictSame(await rolesOf(), ['CPO', 'EMSP']);
  t.match(await itemsOf(hub, '/audit?operator=admin'), [{ reason: 'contract 12', about: '/parties/NL-CPO/roles' }]);
  await change(() => dialog.getByLabel('CPO NL-CPO').uncheck());
  await page.getByText('CPO NL-CPO stays while there are routing rules that name it (1)').waitFor();
  await dialog.getByLabel('CPO NL-CPO').check();
  await dialog.getByLabel('eMSP NL-CPO').uncheck();
  await dialog.getByRole('button', { name: 'Save roles' }).click();
  await parties.getByText('not in its credentials').waitFor({ state: 'detached' });
  t.strictSame(await rolesOf(), ['CPO']);
  const viewer = await consoleFor(t, browser, hub, { token: viewerToken, path: '/partners/NL-CPO' });
  await viewer.getByRole('region', { name: 'Parties', exact: true }).getByText('NL-CPO').waitFor();
  t.equal(await viewer.getByRole('button', { name: 'Change roles' }).count(), 0, 'a viewer changes nothing');
});
