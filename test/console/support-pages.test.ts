/**
 * Commands, orphan cases and routing in a real browser, on a hub with partners in every state.
 */
import { cdrBody, sessionBody } from '../support/bodies.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { commandRow, written } from '../support/rows.ts';
import { atLength } from '../support/share.ts';
import { shared } from '../support/tap.ts';
import { webhookReceiver, webhookSet } from '../support/webhook-receiver.ts';
import { browserTest, consoleFor, hurried, isOpenToAll, lead } from './browser.ts';
import { scene } from './scene.ts';

const living = shared((file) => scene(file));

browserTest(
  'a command is shown while it waits for its result, and its end when the result arrives',
  async (t, browser) => {
    const { hub, cpo } = await living();
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken });
    await page
      .getByRole('region', { name: 'Running now' })
      .getByText(/^\d+ waiting for result/)
      .waitFor();
    await lead(page, '/commands');
    const row = page.getByRole('row').filter({ hasText: 'START_SESSION' });
    await row.getByText('waiting for result').waitFor();
    await row.getByText(/^in \d+ min/).waitFor();
    const sent = cpo.received.find(({ path }) => path.endsWith('/commands/START_SESSION'));
    const { response_url } = JSON.parse(sent?.body ?? '{}') as { response_url: string };
    await cpo.call('POST', response_url.slice(`${hub.url}/ocpi`.length), { result: 'EVSE_OCCUPIED' });
    await hurried(page, () => row.getByText('completed').waitFor());
    await row.getByText('EVSE_OCCUPIED').waitFor();

    await page.getByLabel('Party').fill('DE-FAH');
    await page.getByText('No command').waitFor();
    t.match(page.url(), 'party=DE-FAH', 'the filter is in the address');
    await page.getByLabel('Party').fill('');
    await row.getByRole('link').last().click();
    await page.waitForURL(/\/trace\?key=/);
  },
);

browserTest('a command whose result never reached its eMSP is shown so, and a filter finds it', async (t, browser) => {
  const hub = await hubFor(t);
  await written(hub, [commandRow(1, { reason: 'timeout: no answer in time' }), commandRow(2)]);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/commands' });
  const row = page.getByRole('row').filter({ hasText: 'c1' });
  const badge = row.getByText('result not returned');
  await badge.waitFor();
  t.match(await badge.getAttribute('class'), /\bbad\b/);
  await page.getByLabel('State').selectOption('relayFailed');
  await page.getByText('1 shown, all of them').waitFor();
  t.match(page.url(), 'state=relayFailed');
  await row.waitFor();
});

browserTest(
  'a command is found by its party behind hundreds of newer ones, and a list continues page by page',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    const rows = Array.from({ length: 5_300 }, (_, nth) => commandRow(nth, nth === 400 ? { emsp: 'DE-FAH' } : {}));
    await written(hub, rows);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/commands?party=de-fah' });
    await page.getByRole('link', { name: 'c400', exact: true }).waitFor();
    await page.getByText('1 shown', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Load more' }).click();
    await page.getByText('1 shown, all of them').waitFor();
    await page.getByLabel('Party').fill('');
    await page.getByText('50 shown', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Load more' }).click();
    await page.getByText('100 shown', { exact: true }).waitFor();
  },
);

browserTest('an orphan case is open, the CPO is queried again, and an operator resolves it', async (t, browser) => {
  const { hub, viewerToken, cpo } = await living();
  const viewing = await consoleFor(t, browser, hub, { token: viewerToken, path: '/orphans?state=OPEN' });
  await viewing.getByRole('row').filter({ hasText: 'NL-CPO/S-LOST' }).waitFor();
  t.strictSame(
    await viewing.locator('main button').allTextContents(),
    ['Save all as CSV'],
    'a viewer may change nothing',
  );

  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/orphans' });
  const row = page.getByRole('row').filter({ hasText: 'NL-CPO/S-LOST' });
  await hurried(page, () => row.getByText('OPEN').waitFor());
  const isLost = ({ session }: { session: string }) => session === 'NL-CPO/S-LOST';
  await eventually('the hub has asked the CPO by itself', async () => {
    const { items } = (await admin(hub, 'GET', '/orphans')) as {
      items: { session: string; pulled_at: string | null }[];
    };
    return Boolean(items.find(isLost)?.pulled_at);
  });
  const asked = cpo.received.length;
  await row.getByRole('button', { name: 'Query CPO about NL-CPO/S-LOST', exact: true }).click();
  await page.getByText('NL-CPO is being queried about NL-CPO/S-LOST').waitFor();
  await eventually('the CPO is asked for its sessions', () =>
    cpo.received.slice(asked).some(({ path }) => path.includes('/sessions')),
  );
  await row.getByRole('button', { name: 'Triage …' }).click();
  const dialog = page.getByRole('dialog');
  const [found] = ((await admin(hub, 'GET', '/orphans?state=OPEN')) as { items: { id: string; session: string }[] })
    .items;
  await admin(hub, 'POST', `/orphans/${found?.id}/triage`, { assignee: 'bob' });
  await hurried(page, () => row.getByText('bob').waitFor());
  await dialog.getByRole('textbox', { name: 'Remark' }).fill('who is at the CPO?');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await row.getByText('bob “who is at the CPO?”').waitFor();
  await row.getByRole('button', { name: 'Triage …' }).click();
  await dialog.getByLabel('Assigned to').fill('ann');
  await dialog.getByRole('textbox', { name: 'Remark' }).fill('waits for the CPO');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await row.getByText('ann “waits for the CPO”').waitFor();
  await page.getByLabel('Assigned to').fill('bob');
  await page.getByText('No case').waitFor();
  await page.getByLabel('Assigned to').fill('ann');
  await row.getByRole('button', { name: 'Resolve' }).click();
  await page.getByLabel('Note').fill('the driver called: all is well');
  await page.getByRole('button', { name: 'Resolve the case' }).click();
  await row.getByText('RESOLVED').waitFor();
  await row.getByText('the driver called: all is well').waitFor();
  const { items } = (await admin(hub, 'GET', '/orphans?state=RESOLVED')) as { items: { session: string }[] };
  t.match(items, [{ session: 'NL-CPO/S-LOST' }]);
});

browserTest('a session in its grace period is shown apart from the cases [D77]', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const accepted = { body: { result: 'ACCEPTED', timeout: 600 } };
  const { cpo, emsp } = await routedPair(t, hub, {
    cpo: ({ method }) => (method === 'POST' ? accepted : { body: [] }),
  });
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', { response_url: `${emsp.url}/result`, session_id: 'S1' });
  await eventually('it is watched', async () => {
    const { items } = await admin(hub, 'GET', '/orphans?state=GRACE');
    return (items as object[]).length === 1;
  });
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/orphans' });
  const row = page.getByRole('row').filter({ hasText: 'NL-CPO/S1' });
  await row.getByText('grace period').waitFor();
  await page.getByLabel('State').selectOption('OPEN');
  await page.getByText('No case').waitFor();
  t.equal(await row.count(), 0);
  await page.getByLabel('State').selectOption('GRACE');
  await row.getByText('grace period').waitFor();
});

browserTest('routing rules are added, switched, explained and removed', async (t, browser) => {
  const { hub, viewerToken } = await living();
  const routes = async () =>
    ((await admin(hub, 'GET', '/routes?limit=500')).items as { emsp: string; cpo: string; active: boolean }[]).filter(
      ({ emsp, cpo }) => emsp === 'NL-EMS' && cpo === 'NO-FJO',
    );
  const page = await consoleFor(t, browser, hub, {
    ...{ token: hub.adminToken, path: '/routing?party=NO-FJO' },
    mayComplain: /404/,
  });
  await page.getByText('No routing rule').waitFor();
  await page.getByLabel('Let eMSP').fill('nl-ems');
  await page.getByLabel('receive from CPO').fill('no-fjo');
  await page.getByRole('button', { name: 'Add rule' }).click();
  const row = page.getByRole('row').filter({ hasText: 'NO-FJO' });
  await row.getByText('active').waitFor();
  t.match(await routes(), [{ active: true }]);

  await row.getByRole('button', { name: 'Explain NL-EMS and NO-FJO', exact: true }).click();
  await page.getByText('NL-EMS gets the locations of NO-FJO.').waitFor();
  t.match(page.url(), /from=NO-FJO&to=NL-EMS/, 'the explanation can be shared');
  const warned = () =>
    page.getByRole('dialog').getByText('ends as dead letters with the reason “no routing rule”').waitFor();
  await row.getByRole('button', { name: 'Remove … NL-EMS and NO-FJO', exact: true }).click();
  await warned();
  await page.getByRole('button', { name: 'Close' }).click();
  await row.getByRole('button', { name: 'Switch off … NL-EMS and NO-FJO', exact: true }).click();
  await warned();
  t.match(await routes(), [{ active: true }], 'only the answer in the dialog switches it off');
  await page.getByRole('button', { name: 'Switch off the rule' }).click();
  await row.getByRole('button', { name: 'Switch on' }).waitFor();
  await hurried(page, () => page.getByText('NL-EMS does not get the locations of NO-FJO.').waitFor());
  await page.getByText('no active routing rule joins NL-EMS and NO-FJO').waitFor();
  t.match(await routes(), [{ active: false }]);

  await row.getByRole('button', { name: 'Remove … NL-EMS and NO-FJO', exact: true }).click();
  await page.getByRole('button', { name: 'Remove the rule' }).click();
  await page.getByText('No routing rule').waitFor();
  t.strictSame(await routes(), []);

  await page.getByLabel('Let eMSP').fill('XX-XXX');
  await page.getByLabel('receive from CPO').fill('NO-FJO');
  await page.getByRole('button', { name: 'Add rule' }).click();
  await page.getByText('no EMSP party XX-XXX').waitFor();
  await lead(page, '/routing?party=XX-XXX');
  await page.getByText('No routing rule of XX-XXX').waitFor();
  await page.getByText('either the hub knows no such party, or it has no rule').waitFor();

  const viewing = await consoleFor(t, browser, hub, { token: viewerToken, path: '/routing' });
  await viewing.getByRole('row').nth(1).waitFor();
  t.equal(await viewing.getByRole('button', { name: /Switch|Remove|Add/ }).count(), 0, 'a viewer sees no such button');
  t.not(await viewing.getByRole('button', { name: 'Explain' }).count(), 0, 'but may ask why');
});

browserTest('sessions and CDRs that disagree are shown, and link to their traces', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const ended = { status: 'COMPLETED', kwh: 12.5, last_updated: '2026-05-01T10:00:00Z' };
  for (const id of ['S1', 'S2']) await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, ended));
  await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C1', { ...ended, session_id: 'S1', total_energy: 13 }));
  const path = '/reconciliation?from=2026-05-01T00:00:00.000Z';
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path });
  const findings = page.getByRole('region', { name: 'What does not agree' });
  await findings
    .getByRole('row', { name: /energy differs 2026-05-01 NL-CPO NL-EMS NL-CPO\/S1 12.5 NL-CPO\/C1 13/ })
    .waitFor();
  await findings.getByRole('row', { name: /completed, no CDR 2026-05-01 NL-CPO NL-EMS NL-CPO\/S2/ }).waitFor();
  await page.getByRole('row', { name: '2026-05-01 NL-CPO NL-EMS 2 25 1 13 2' }).waitFor();
  const [above, below] = await Promise.all(
    [findings, page.getByRole('region', { name: 'By day, CPO and eMSP' })].map((part) => part.boundingBox()),
  );
  t.ok((below?.y ?? 0) - (above?.y ?? 0) - (above?.height ?? 0) > 8, 'the two tables stand apart');
  const aligned = (nth: number) =>
    page.evaluate(`getComputedStyle(document.querySelector('main .card:last-of-type th:nth-child(${nth})')).textAlign`);
  t.equal(await aligned(7), 'right', 'kWh of CDRs, above its numbers');
  t.not(await aligned(3), 'right', 'eMSP, above its words');
  await isOpenToAll(t, page, path);
  await findings.getByRole('link', { name: 'NL-CPO/C1' }).click();
  await page.waitForURL(/\/trace\?key=NL-CPO%2FC1/);
  await page.goBack();
  await page.getByLabel('eMSP').fill('DE-ABC');
  await page.getByText('Nothing to compare').waitFor();
  t.match(page.url(), 'emsp=DE-ABC');
});

browserTest(
  'receivers of notifications are shown with what they are owed, and a button sends a test',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t, { HUB_NOTIFY_DISK_PERCENT: '100' });
    const path = '/notifications';
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path });
    await page.getByText('Nobody is notified').waitFor();
    const receiver = await webhookReceiver(t);
    receiver.answer = () => ({ status: 503, text: 'closed for now' });
    await webhookSet(hub, 'on-call', receiver, { kinds: ['disk.low'] });
    const row = page.getByRole('row').filter({ hasText: 'on-call' });
    await hurried(page, () => row.getByText('HTTP 503 closed for now').waitFor());
    await page
      .getByRole('row', { name: /on-call not taken HTTP 503 closed for now 1 0 .* http\S+ disk\.low all / })
      .waitFor();
    const wide = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    const { x = 0, width = 0 } = (await row.getByText('HTTP 503 closed for now').boundingBox()) ?? {};
    t.ok(width > 100 && x + width <= 390, `a phone shows why it is not taken: ${x} to ${x + width}`);
    if (wide) await page.setViewportSize(wide);
    await isOpenToAll(t, page, path);
    await row.getByRole('button', { name: 'Test on-call', exact: true }).click();
    const failed = page.locator('.notice.failed');
    await failed.getByText('on-call did not take the test: HTTP 503 closed for now').waitFor();
    receiver.answer = () => ({ status: 200, text: 'fine' });
    await row.getByRole('button', { name: 'Test on-call', exact: true }).click();
    await page.getByText('on-call took the test: HTTP 200 fine').waitFor();
    // What it was owed may come again by itself at any moment.
    t.ok(receiver.taken.some(({ body }) => body.type === 'webhook.test'));
  },
);

browserTest(
  'the menu highlights the open page, also where it is wider than the screen',
  atLength,
  async (t, browser) => {
    const { hub } = await living();
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/audit' });
    const isSeen = async (name: string) => {
      const link = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name });
      await link.waitFor();
      const [menu, box] = await Promise.all([
        page.getByRole('navigation', { name: 'Pages' }).boundingBox(),
        link.boundingBox(),
      ]);
      if (!menu || !box) throw new Error('they are drawn');
      return box.x >= menu.x - 1 && box.x + box.width <= menu.x + menu.width + 1;
    };
    for (const width of [820, 360]) {
      await page.setViewportSize({ width, height: 800 });
      await page.reload();
      await page.getByRole('heading', { name: 'Audit' }).waitFor();
      await eventually('its entry is in view', () => isSeen('Audit'));
      await lead(page, '/');
      await page.getByRole('heading').first().waitFor();
      await eventually('and that of the first page', () => isSeen('Overview'));
      await lead(page, '/audit');
    }
  },
);

for (const path of ['/commands', '/orphans', '/routing?from=NL-CPO&to=SE-ELB&module=sessions']) {
  const tier = path === '/commands' ? {} : atLength;
  browserTest(`${path} has no barrier, in light and in dark, wide and narrow`, tier, async (t, browser) => {
    const { hub } = await living();
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path });
    await page.getByRole('row').nth(1).waitFor();
    await isOpenToAll(t, page, path);
  });
}
