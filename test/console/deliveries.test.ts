/**
 * Deliveries in the console: filters that can be shared, every attempt and difference of one delivery, and putting back one or
 * many, with the sight of it beforehand.
 */
import { readFile } from 'node:fs/promises';
import type { Locator, Page } from 'playwright-core';
import type { DeliveryView } from '../../src/api/deliveries.ts';
import { grown, type Loaded, refreshed } from '../../src/console/page/data/loaded.ts';
import { curlOf, laidOut } from '../../src/console/page/data/request-text.ts';
import { cdrBody, sessionBody } from '../support/bodies.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { callsTo, quiet } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { are, barriers, browserTest, consoleFor, hurried, isOpenToAll, lead } from './browser.ts';
import { deliveryOf, traffic, unknownThere } from './traffic.ts';

const viewerToken = 'viewer-token-of-the-test';
const rowsOf = (page: Page): Locator => page.locator('tbody tr');
/** A state as the page shows it. */
const badge = (within: Page | Locator, state: string): Locator => within.locator('.badge', { hasText: state }).first();
const comes = (page: Page, rows: number) => are(rows, rowsOf(page));

browserTest(
  'a filter is part of the address, and everyone who opens the address sees the same',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
    const { cpo, answers, push } = await traffic(t, hub);
    answers.set('DEAD', unknownThere).set('cdrs', unknownThere);
    for (const id of ['OK1', 'OK2', 'DEAD1', 'DEAD2']) await push(id);
    await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'));
    await quiet(hub);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/deliveries' });
    await comes(page, 5);
    t.strictSame(await page.getByRole('columnheader').allTextContents(), [
      ...['State', 'Receiver', 'Module', 'Object', 'Method', 'Accepted', 'Due', 'Attempts', 'Reason'],
    ]);

    await page.getByRole('link', { name: '2 sessions to NL-EMS' }).click();
    await comes(page, 2);
    t.match(new URL(page.url()).search, /^\?state=DEAD&receiver=NL-EMS&module=sessions&class=not_found$/);
    t.match(await rowsOf(page).first().textContent(), /DEAD.*NL-EMS.*sessions.*NL-CPO\/DEAD2.*PUT.*not_found.*Unknown/);

    await page.getByLabel('Object').fill('NL-CPO/DEAD1');
    await comes(page, 1);
    t.equal(new URL(page.url()).searchParams.get('object'), 'NL-CPO/DEAD1');
    const other = await consoleFor(t, browser, hub, {
      token: viewerToken,
      path: page.url().slice(`${hub.url}/console`.length),
    });
    await comes(other, 1);
    t.equal(await other.getByLabel('Receiver').inputValue(), 'NL-EMS');
    t.match(await rowsOf(other).textContent(), 'NL-CPO/DEAD1');
    const saved = other.waitForEvent('download');
    await other.getByRole('button', { name: 'Save all as CSV' }).click();
    const file = await saved;
    t.equal(file.suggestedFilename(), 'deliveries.csv');
    const lines = (await readFile(await file.path(), 'utf8')).trimEnd().split('\n');
    t.strictSame(
      [lines.length, lines[0]?.split(',', 2), lines[1]?.includes('NL-CPO/DEAD1')],
      [2, ['id', 'state'], true],
    );

    await page.getByLabel('Receiver').fill('N');
    t.equal(await page.getByLabel('Receiver').getAttribute('aria-invalid'), 'true');
    await page.getByText('Country and party, for example NL-EMS').waitFor();
    await page.getByLabel('Receiver').fill('');
    await page.getByText('Country and party, for example NL-EMS').waitFor({ state: 'hidden' });
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route('**/admin/v1/deliveries?*none*', async (route) => {
      await released;
      return route.continue();
    });
    const asked = page.waitForRequest(/none/);
    await page.getByLabel('Object').fill('NL-CPO/none');
    await asked;
    const stale = page.locator('.table-scroll[aria-busy="true"]');
    await stale.waitFor();
    const opacity = await page.evaluate('getComputedStyle(document.querySelector(".table-scroll")).opacity');
    t.equal(opacity, '0.5', 'rows of another filter are dimmed');
    release();
    await page.getByText('No deliveries match').waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await comes(page, 5);
    t.equal(new URL(page.url()).search, '');

    await page.getByLabel('Accepted from').fill('2999-01-01T00:00:00');
    await page.getByText('No deliveries match').waitFor();
    t.match(new URL(page.url()).searchParams.get('from'), /^(2998-12-31|2999-01-01)T.*Z$/);
  },
);

browserTest('a long list grows on demand, and does not move while new items come', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const { cpo, pushAll } = await traffic(t, hub);
  await pushAll(Array.from({ length: 55 }, (_, index) => `S${index}`));
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/deliveries?module=sessions' });
  await comes(page, 50);
  await page.getByRole('button', { name: 'Load more' }).click();
  await comes(page, 55);
  await page.getByText('55 shown, all of them').waitFor();
  const last = rowsOf(page).last().getByRole('link');
  const name = await last.getAttribute('aria-label');
  await last.focus();
  await cpo.call('PATCH', '/2.2.1/sessions/NL/CPO/S1', { kwh: 2, last_updated: '2026-01-02T03:14:05Z' });
  await hurried(page, () => comes(page, 56));
  t.match(await rowsOf(page).first().textContent(), 'PATCH');
  t.equal(
    await page.evaluate('document.activeElement.getAttribute("aria-label")'),
    name,
    'the row in hand is still in hand',
  );
  await rowsOf(page).first().getByRole('link').click();
  await page.getByRole('heading', { name: /^sessions NL-CPO/ }).waitFor();
  await page.goBack();
  await comes(page, 55);
  await page.getByRole('link', { name: 'Routing' }).click();
  await page.getByRole('heading', { name: 'Routing' }).waitFor();
  await page.getByRole('link', { name: 'Deliveries', exact: true }).click();
  await comes(page, 50);
});

browserTest('a delivery shows every attempt, its request and what it changes', async (t, browser) => {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '0.1' });
  const { cpo, emsp, answers, push } = await traffic(t, hub);
  await push('S1');
  answers.set('S1', { status: 503, text: 'down for maintenance' });
  await cpo.call('PATCH', '/2.2.1/sessions/NL/CPO/S1', { kwh: 7.25, last_updated: '2026-01-02T03:14:05Z' });
  const id = await deliveryOf(hub, 'S1');
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: `/deliveries/${id}` });
  await page.getByRole('heading', { name: 'sessions NL-CPO/S1 to NL-EMS' }).waitFor();
  await badge(page, 'PENDING').waitFor();
  t.equal(await page.getByRole('button', { name: /Re-drive|Send again/ }).count(), 0, 'it is on its way by itself');
  const attempts = page.getByRole('region', { name: /attempts?$/ }).getByRole('listitem');
  await hurried(page, () => attempts.nth(1).waitFor());
  t.match(await attempts.first().textContent(), /unavailable.*HTTP 503.*OCPI –.*down for maintenance/);

  answers.clear();
  await hurried(page, () => badge(page, 'DELIVERED').waitFor());
  t.match(await attempts.last().textContent(), /delivered.*HTTP 200.*OCPI 1000/);
  const diff = page.getByRole('region', { name: 'Difference' });
  await diff.locator('del').first().waitFor();
  t.strictSame(await diff.locator('del').allTextContents(), [
    ...['  "kwh": 1.5,', '  "last_updated": "2026-01-02T03:04:05Z"'],
  ]);
  t.strictSame(await diff.locator('ins').allTextContents(), [
    ...['  "kwh": 7.25,', '  "last_updated": "2026-01-02T03:14:05Z"'],
  ]);

  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy as curl' }).click();
  await page.getByText('Copied.').waitFor();
  const curl = (await page.evaluate('navigator.clipboard.readText()')) as string;
  t.match(curl, `curl -X PATCH '${emsp.url}/ocpi/2.2.1/sessions/NL/CPO/S1'`);
  t.match(curl, `-H 'Authorization: Token ***'`);
  t.match(curl, `--data-raw '{"kwh":7.25,"last_updated":"2026-01-02T03:14:05Z"}'`);
  for (const secret of [emsp.token, Buffer.from(emsp.token).toString('base64')]) {
    t.notMatch(curl, secret);
    t.notMatch(await page.content(), secret);
  }
  await page.getByRole('link', { name: 'Trace the object' }).click();
  await page.getByRole('heading', { name: 'sessions NL-CPO/S1' }).waitFor();

  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S2', sessionBody('S2'));
  await admin(hub, 'POST', '/parties/NL-EMS/suspend', {});
  await quiet(hub);
  await lead(page, `/deliveries/${await deliveryOf(hub, 'S2')}`);
  await page.getByText('It was never sent.').waitFor();
  await lead(page, '/trace?key=NL-CPO/S2');
  t.match(await page.getByRole('list', { name: 'Deliveries' }).textContent(), /DEADnever sent: \S/);
});

browserTest(
  'a dead letter is re-driven at once; delivered and stale ones need a confirmation first',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    const { emsp, answers, push } = await traffic(t, hub);
    answers.set('S1', unknownThere);
    await push('S1', { kwh: 1 });
    const id = await deliveryOf(hub, 'S1');
    const page = await consoleFor(t, browser, hub, {
      token: hub.adminToken,
      path: `/deliveries/${id}`,
      mayComplain: /409/,
    });
    await badge(page, 'DEAD').waitFor();
    await page.getByText('not_found The partner answered HTTP 404').waitFor();
    answers.clear();
    await page.getByRole('button', { name: 'Re-drive' }).click();
    await hurried(page, () => badge(page, 'DELIVERED').waitFor());
    const sent = () => callsTo(emsp, 'sessions').length;
    t.equal(sent(), 2);

    await page.getByRole('button', { name: 'Send again …' }).click();
    const again = page.getByRole('dialog', { name: 'Send it again?' });
    await again.getByRole('button', { name: 'Cancel' }).click();
    await again.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Send again …' }).click();
    await again.getByRole('button', { name: 'Send it again' }).click();
    await page.getByText('Re-driven: it is sent to NL-EMS again.').first().waitFor();
    await again.waitFor({ state: 'detached' });
    await eventually('it went again', () => sent() === 3);
    await quiet(hub);

    await push('S1', { kwh: 2, last_updated: '2026-01-02T04:00:00Z' });
    t.equal(sent(), 4);
    await page.getByRole('button', { name: 'Send again …' }).click();
    await again.getByRole('button', { name: 'Send it again' }).click();
    const stale = page.getByRole('dialog', { name: /^NL-EMS has a newer version/ });
    await stale.waitFor();
    t.equal(sent(), 4, 'nothing was sent over the newer version');
    await stale.getByRole('button', { name: 'Send the older version' }).click();
    await eventually('it went all the same', () => sent() === 5);
    t.match(callsTo(emsp, 'sessions').at(-1)?.body, '"kwh":1,');
    await stale.waitFor({ state: 'detached' });
  },
);

browserTest(
  'many are re-driven after a dry run, with progress that survives a reload and can be cancelled',
  async (t, browser) => {
    const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
    const { emsp, answers, push, pushAll } = await traffic(t, hub);
    await push('OK');
    answers.set('sessions', unknownThere);
    await pushAll(Array.from({ length: 10 }, (_, index) => `D${index}`));
    answers.clear();
    await push('D0', { kwh: 9, last_updated: '2026-01-02T05:00:00Z' });
    const before = emsp.received.length;
    const path = '/deliveries?state=DEAD&receiver=NL-EMS';
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path });
    const open = page.getByRole('button', { name: 'Re-drive dead letters …' });
    await open.click();
    const dialog = page.getByRole('dialog', { name: 'Re-drive dead letters' });
    await dialog.getByText('10 deliveries').waitFor();
    const told = await dialog.textContent();
    for (const part of [
      'to NL-EMS. Nothing has been sent yet',
      'NL-EMS 10',
      '1: the receiver has a newer version, or may no longer have the object',
      'and 5 more',
    ]) {
      t.match(told, part);
    }
    t.equal(await dialog.getByRole('list', { name: 'Some of them' }).getByRole('link').count(), 5);
    t.strictSame(await barriers(page, 'dialog'), [], 'axe, the dry run');
    await dialog.getByRole('checkbox').check();
    await dialog.getByRole('button', { name: 'Re-drive 10 deliveries' }).waitFor();
    await dialog.getByRole('checkbox').uncheck();
    t.equal(emsp.received.length, before, 'looking sends nothing');

    await dialog.getByLabel('Rate (per second)').fill('0.15');
    await dialog.getByText('takes about 1 min').waitFor();
    await dialog.getByRole('button', { name: 'Re-drive 9 deliveries' }).click();
    await dialog.waitFor({ state: 'detached' });
    const panel = page.getByRole('region', { name: 'Re-drive' });
    await panel.getByText(/of 10 deliveries examined/).waitFor();
    await panel.getByRole('progressbar').waitFor();
    const job = new URL(page.url()).searchParams.get('job') ?? '';
    t.ok(job);
    t.equal(new URL(page.url()).searchParams.get('state'), 'DEAD', 'the filter stays');
    await page.reload();
    await badge(panel, 'RUNNING').waitFor();

    const viewer = await consoleFor(t, browser, hub, { token: viewerToken, path: `/deliveries?job=${job}` });
    await badge(viewer.getByRole('region', { name: 'Re-drive' }), 'RUNNING').waitFor();
    t.equal(await viewer.getByRole('button', { name: 'Cancel' }).count(), 0);

    await panel.getByRole('button', { name: 'Cancel' }).click();
    await panel.getByText(/^Cancelled after \d+ of 10 deliveries: \d+ re-driven; the others are unchanged/).waitFor();
    const { state } = await admin(hub, 'GET', `/redrives/${job}`);
    t.equal(state, 'CANCELED');
    await panel.getByRole('button', { name: 'Dismiss' }).click();
    await panel.waitFor({ state: 'detached' });
    t.equal(new URL(page.url()).search, '?state=DEAD&receiver=NL-EMS');
    await quiet(hub);

    await open.click();
    await dialog.getByLabel('Rate (per second)').fill('1000');
    const left = Number(
      /Re-drive (\d+)/.exec((await dialog.getByRole('button', { name: /^Re-drive/ }).textContent()) ?? '')?.[1],
    );
    await dialog.getByRole('button', { name: /^Re-drive/ }).click();
    await panel
      .getByText(
        `Done: ${left} deliveries re-driven. 1 left out, because the receiver has a newer version, or may no longer have the object.`,
      )
      .waitFor();
    await quiet(hub);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await hurried(page, () => comes(page, 1));
    t.strictSame(
      asked.filter((url) => url.includes('/redrives/')),
      [],
      'a job that has ended is not asked for again',
    );
    t.match(await rowsOf(page).textContent(), 'NL-CPO/D0');

    const sentBefore = emsp.received.length;
    await open.click();
    await dialog.getByText('1 delivery', { exact: true }).waitFor();
    answers.set('LATE', unknownThere);
    await push('LATE');
    t.ok(await dialog.getByRole('button', { name: 'Re-drive 0 deliveries' }).isDisabled());
    const reason = dialog.getByLabel('Reason, for the audit log');
    t.equal(await reason.count(), 0);
    await dialog.getByRole('checkbox').check();
    await reason.fill('it lost its newest');
    await dialog.getByRole('button', { name: 'Re-drive 1 delivery' }).click();
    await panel.getByText('Done: 1 delivery re-driven.').waitFor();
    const audited = (await admin(hub, 'GET', '/audit?verb=redrive')).items as { reason: string | null }[];
    t.equal(audited[0]?.reason, 'it lost its newest');
    await quiet(hub);
    t.equal(emsp.received.length, sentBefore + 2, 'what died after the count was not sent again');
    t.notMatch(emsp.received.at(-1)?.body, '"kwh":9', 'the older version, as was wished');
  },
);

browserTest('a viewer sees everything and no button that changes anything', atLength, async (t, browser) => {
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
  const { answers, push } = await traffic(t, hub);
  answers.set('S1', unknownThere);
  await push('S1');
  await push('S2');
  const [dead, arrived] = [await deliveryOf(hub, 'S1'), await deliveryOf(hub, 'S2')];
  const actions = /re-drive|send again|put back/i;
  const path = '/deliveries';
  const viewer = await consoleFor(t, browser, hub, { token: viewerToken, path });
  const admin = await consoleFor(t, browser, hub, { token: hub.adminToken, path });
  const seen = async (page: Page, path: string, state: string) => {
    await lead(page, path);
    await badge(page, state).waitFor();
    // Before the hub has said whose token it is, nobody sees a button.
    await page
      .getByRole('banner')
      .getByText(/^(admin|viewer)$/)
      .waitFor();
    // The button of the list rests on the dead letters, which are asked for apart from it.
    if (path === '/deliveries') await page.getByRole('heading', { name: '1 dead letter' }).waitFor();
    return page.getByRole('button', { name: actions }).count();
  };
  for (const [path, state] of [
    ['/deliveries', 'DEAD'],
    [`/deliveries/${dead}`, 'DEAD'],
    [`/deliveries/${arrived}`, 'DELIVERED'],
  ] as const) {
    t.equal(await seen(viewer, path, state), 0, `${path} as viewer`);
    t.equal(await seen(admin, path, state), 1, `${path} as admin`);
  }
});

browserTest('deliveries are accessible in light and dark, and fit a phone', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const { answers, push } = await traffic(t, hub);
  answers.set('S1', unknownThere);
  await push('S1');
  await push('S2');
  await push('S2', { kwh: 5, last_updated: '2026-01-02T05:00:00Z' });
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/deliveries' });
  await rowsOf(page).first().waitFor();
  await isOpenToAll(t, page, 'the list');
  for (const id of ['S1', 'S2']) {
    await page.goto(`${hub.url}/console/deliveries/${await deliveryOf(hub, id)}`);
    await page.locator('.diff').first().waitFor();
    await isOpenToAll(t, page, `the delivery of ${id}`);
  }
});

browserTest('an unknown delivery says what an id looks like', async (t, browser) => {
  const hub = await hubFor(t);
  const page = await consoleFor(t, browser, hub, {
    token: hub.adminToken,
    path: '/deliveries/99-NL-XXX',
    mayComplain: /404/,
  });
  await page.getByText('There is no delivery 99-NL-XXX').waitFor();
  await page.getByText('for example 120-NL-EMS').waitFor();
});

t.test('JSON is formatted without changing a value [D17]', async (t) => {
  const text = '{"b":1.50,"a":"x: {\\"y\\"} , [","e":[],"o":{},"l":[1E5,{"z":null}]}';
  const out = laidOut(text);
  t.equal(
    out,
    [
      ...['{', '  "b": 1.50,', '  "a": "x: {\\"y\\"} , [",', '  "e": [],', '  "o": {},', '  "l": ['],
      ...['    1E5,', '    {', '      "z": null', '    }', '  ]', '}'],
    ].join('\n'),
  );
  t.strictSame(JSON.parse(out), JSON.parse(text));
  t.equal(laidOut('no JSON'), 'noJSON');
});

t.test('a request as a curl command survives quotes in its values, and requires an address', async (t) => {
  const request = { method: 'PUT', url: 'http://x/y', headers: { A: "it's" }, body: '{"name":"l\'Haÿ"}' };
  t.equal(
    curlOf(request),
    [
      "curl -X PUT 'http://x/y'",
      "-H 'A: it'\\''s'",
      "-H 'Content-Type: application/json'",
      `--data-raw '{"name":"l'\\''Haÿ"}'`,
    ].join(' \\\n  '),
  );
  t.equal(curlOf({ ...request, url: null }), null);
  t.notMatch(curlOf({ ...request, body: null }) ?? '', 'Content-Type');
});

t.test('a refresh of a list keeps the rows loaded below it, and drops those that no longer belong to it', async (t) => {
  const row = (seq: number, receiver = 'NL-EMS') => ({ id: `${seq}-${receiver}`, seq, receiver }) as DeliveryView;
  const order = {
    idOf: ({ id }: DeliveryView) => id,
    placeOf: ({ seq }: DeliveryView) => String(seq).padStart(4, '0'),
    isDescending: true,
  };
  const ids = ({ items }: Loaded<DeliveryView>) => items.map(({ id }) => id).join(' ');
  const shallow: Loaded<DeliveryView> = { items: [row(9), row(8)], cursor: '7', isDeep: false };
  const deep = grown(shallow, { items: [row(8), row(7), row(5)], next_cursor: '4' }, order);
  t.equal(ids(deep), '9-NL-EMS 8-NL-EMS 7-NL-EMS 5-NL-EMS');
  const fresh = refreshed(deep, { items: [row(11), row(9), row(7)], next_cursor: '6' }, order);
  t.equal(ids(fresh), '11-NL-EMS 9-NL-EMS 7-NL-EMS 5-NL-EMS', '8 no longer fits, 5 is further down');
  t.equal(fresh.cursor, '4');
  const cut = refreshed(deep, { items: [row(8, 'NL-OTH')], next_cursor: '8.1' }, order);
  t.equal(
    ids(cut),
    '8-NL-OTH 8-NL-EMS 7-NL-EMS 5-NL-EMS',
    'an event that the page ends within keeps its other receivers',
  );
  t.equal(
    ids(refreshed(deep, { items: [row(3)], next_cursor: null }, order)),
    '3-NL-EMS',
    'a whole list counts for itself',
  );
  t.equal(ids(refreshed(shallow, { items: [row(20)], next_cursor: '19' }, order)), '20-NL-EMS');
  const apart = refreshed(deep, { items: [row(20), row(19)], next_cursor: '18' }, order);
  t.strictSame([ids(apart), apart.cursor], ['20-NL-EMS 19-NL-EMS', '18'], 'those between 19 and 9 come by more');
});

browserTest(
  'a dead letter, or a group of them, is discarded after a confirmation and stays listed',
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
    const { answers, emsp, push } = await traffic(t, hub);
    answers.set('DEAD', unknownThere);
    for (const id of ['DEAD1', 'DEAD2', 'DEAD3']) await push(id);
    await quiet(hub);
    const id = await deliveryOf(hub, 'DEAD1');
    const viewer = await consoleFor(t, browser, hub, { token: viewerToken, path: `/deliveries/${id}` });
    await badge(viewer, 'DEAD').waitFor();
    t.equal(await viewer.getByRole('button', { name: /Discard/ }).count(), 0);

    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: `/deliveries/${id}` });
    await page.getByRole('button', { name: 'Discard …' }).click();
    const dialog = page.getByRole('dialog');
    t.strictSame(await barriers(page), [], 'axe, the question');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await badge(page, 'DEAD').waitFor();
    await page.getByRole('button', { name: 'Discard …' }).click();
    await dialog.getByLabel('Reason, for the audit log').fill('a test site');
    await dialog.getByRole('button', { name: 'Discard', exact: true }).click();
    await badge(page, 'DISCARDED').waitFor();
    await page.getByRole('button', { name: 'Re-drive …' }).waitFor();

    await lead(page, '/deliveries?state=DISCARDED');
    await comes(page, 1);
    const groups = page.getByRole('region', { name: '2 dead letters' });
    await groups.getByRole('button', { name: 'Triage …' }).click();
    await dialog.getByRole('button', { name: 'Assign to me' }).click();
    await dialog.getByLabel('Snooze').selectOption('for 4 hours');
    await dialog.getByLabel('Remark').fill('the eMSP looks into it');
    t.strictSame(await barriers(page, 'dialog'), [], 'axe, the triage');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await groups.getByText(/^admin snoozed, wakes in \d.* “the eMSP looks into it”$/).waitFor();
    await lead(viewer, '/');
    const attention = viewer.getByRole('region', { name: 'Needs attention' });
    await attention.getByText('all is well').waitFor();
    await groups.getByRole('button', { name: 'Triage …' }).click();
    await dialog.getByRole('list', { name: 'Remarks' }).getByText('the eMSP looks into it').waitFor();
    await dialog.getByLabel('Snooze').selectOption('not snoozed');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await hurried(viewer, () => attention.getByRole('link', { name: '2 dead letters' }).waitFor());
    // A hub whose overview is asked for again and again is never quiet.
    await viewer.goto('about:blank');
    await groups.getByRole('button', { name: 'Discard …' }).click();
    await dialog.getByRole('heading', { name: 'Discard 2 dead letters?' }).waitFor();
    await dialog.getByRole('button', { name: 'Discard', exact: true }).click();
    const panel = page.getByRole('region', { name: 'Discard' });
    await panel.getByText('Done: 2 deliveries discarded.').waitFor();
    await hurried(page, () => comes(page, 3));
    await groups.waitFor({ state: 'detached' });
    t.strictSame(await barriers(page), [], 'axe, the result');

    answers.clear();
    await page.getByRole('button', { name: 'Send again what is listed …' }).click();
    await dialog.getByText('Discarded dead letters', { exact: false }).waitFor();
    await dialog.getByRole('button', { name: 'Re-drive 3 deliveries' }).click();
    await page.getByText('Done: 3 deliveries re-driven.').waitFor();
    await quiet(hub);
    t.equal(emsp.received.length, 6);
  },
);
