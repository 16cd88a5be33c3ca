/**
 * The overview: what it is told, what it draws again, and what it leads to. [contract 5]
 */
import type { Page } from 'playwright-core';
import { brief } from '../../src/console/page/data/format.ts';
import type { RunningHub } from '../../src/main.ts';
import { sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { giveUp, hastyClock } from '../support/given-up.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { atLength, partOf } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';
import { barriers, browserTest, consoleFor, hurried, isOpenToAll, lead, signIn } from './browser.ts';

const viewerToken = 'viewer-token-of-the-test';
const trace = { requestId: 'overview', correlationId: 'overview' };

/** What is asked of the partners' table in the page: rows that something was changed in, by partner. */
const observe = `
  window.touched = new Set();
  new MutationObserver((changes) => {
    for (const { target, addedNodes, removedNodes } of changes) {
      const rows = [target, ...addedNodes, ...removedNodes].map((node) => (node.closest ? node : node.parentElement)?.closest('tr'));
      for (const row of rows) if (row?.matches('[data-row]')) window.touched.add(row.querySelector('.id').textContent);
    }
  }).observe(document.querySelector('.partners table'), { subtree: true, childList: true, characterData: true, attributes: true });
`;
const touched = (page: Page) => page.evaluate('[...window.touched].sort()');

/** `NL-AAA`, `NL-AAB` and on. */
function idAt(index: number): { country_code: string; party_id: string } {
  const letter = (at: number) => String.fromCharCode(65 + (Math.floor(index / 26 ** at) % 26));
  return { country_code: 'NL', party_id: letter(2) + letter(1) + letter(0) };
}

async function addMany(hub: RunningHub, many: number): Promise<void> {
  const { operations } = hub.created.hub;
  const add = (index: number) =>
    operations.addParty([{ role: index % 3 === 0 ? 'EMSP' : 'CPO', ...idAt(index) }], {}, trace);
  for (let from = 0; from < many; from += 50) {
    await Promise.all(Array.from({ length: Math.min(50, many - from) }, (_, index) => add(from + index)));
  }
}

const setCircuit = (hub: RunningHub, id: string, state: string, circuit = 'async') =>
  admin(hub, 'POST', `/parties/${id}/circuits/${circuit}`, { state });

const live = (page: Page) => page.locator('.badge', { hasText: /live$/ });

const shownIn = (page: Page, id: string) =>
  page.locator('tr[data-row]').filter({ has: page.getByRole('link', { name: id, exact: true }) });

t.test('the overview returns only the rows that changed since the reader’s revision', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:00:00Z');
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken }, { clock });
  await addMany(hub, 5);
  const ask = async (after: unknown) => {
    clock.advance(1_500);
    const reader = { url: hub.url, adminToken: viewerToken };
    return (await admin(reader, 'GET', `/overview${after ? `?after=${String(after)}` : ''}`)) as {
      readonly revision: string;
      readonly full: boolean;
      readonly rows: readonly { readonly id: string; readonly async: string; readonly results: string }[];
    };
  };
  const first = await ask(null);
  t.match(first, { full: true, rows: { length: 5 } });
  const second = await ask(first.revision);
  t.match(second, { full: false, rows: { length: 0 } }, 'time alone changes no row');
  await setCircuit(hub, 'NL-AAC', 'open');
  const third = await ask(second.revision);
  t.strictSame(
    third.rows.map(({ id, async, results }) => [id, async, results]),
    [['NL-AAC', 'open', 'closed']],
  );
  await setCircuit(hub, 'NL-AAB', 'open', 'results');
  t.match((await ask(third.revision)).rows, [{ id: 'NL-AAB', async: 'closed', results: 'open' }]);
  t.equal((await ask(third.revision)).rows.length, 1);
  t.equal((await ask(first.revision)).rows.length, 2, 'an older revision is good as well');
  t.match(await ask('another.1'), { full: true, rows: { length: 5 } }, 'a revision of another start');
});

t.test('the overview counts what waits, since when, what is overdue, dead and delivered', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:00:00Z');
  const hub = await hubFor(t, {}, { clock });
  let refuses = false;
  const { cpo } = await routedPair(t, hub, {
    emsp: () => (refuses ? { status: 404, text: '{"status_code":2003}' } : {}),
  });
  const emspRow = async () => {
    clock.advance(1_000);
    const { rows } = (await admin(hub, 'GET', '/overview')) as {
      rows: { id: string; delivered: number; dead: number }[];
    };
    return rows.find(({ id }) => id === 'NL-EMS');
  };
  const put = async (id: string) => cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
  await put('A');
  await eventually('it was delivered', async () => (await emspRow())?.delivered === 1);
  t.match(await emspRow(), { depth: 0, oldest_at: null, dead: 0, overdue: 0 });
  refuses = true;
  await put('B');
  await eventually('it ended as a dead letter', async () => (await emspRow())?.dead === 1);
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  const since = new Date(clock.now()).toISOString();
  await put('C');
  await put('D');
  t.match(await emspRow(), { paused: true, depth: 2, oldest_at: since, behind: false, delivered: 1 });
  clock.advance(120_000);
  t.match(await emspRow(), { overdue: 0, oldest_at: since }, 'what an operator holds back is not overdue');
});

browserTest('an attention entry stays within its panel, however long its text', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404, text: '{"status_code":2003}' }) });
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/A', sessionBody('A'));
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken });
  await page.locator('.matter li .quiet').first().waitFor();
  const outside = await page.evaluate(`
    document.querySelector('.matter li .quiet').textContent = 'https://'.repeat(100);
    Math.max(...['.overview aside', '.matter li'].map((each) => document.querySelector(each).getBoundingClientRect().right)) - innerWidth`);
  t.ok(Number(outside) <= 0, `${outside} px beyond the edge`);
});

/** In the page: a row as full as rows get, and which of its cells are cut off. */
const cutOff = `{
  const row = document.querySelector('tr[data-row]');
  const [backlog, dead] = row.querySelectorAll('.number:not(.age, .rate)');
  backlog.textContent = '99,999+';
  dead.innerHTML = '<a class="urgent">99,999</a>';
  const states = row.querySelector('.state > div');
  for (const mark of ['no pushes', 'paused']) {
    const badge = states.firstElementChild.cloneNode(true);
    badge.lastChild.textContent = mark;
    states.append(badge);
  }
  row.querySelector('.circuit').innerHTML = '<span class="badge wait"><span>◐</span> half-open</span>';
  window.cutOff = () => [...row.cells].filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.className);
}`;

browserTest('a row has room for its numbers, its state and its name at every width', atLength, async (t, browser) => {
  t.strictSame([0, 1_234, 99_999, 123_456, 1_234_567].map(brief), ['0', '1,234', '99,999', '123.5k', '1.2m']);
  const hub = await hubFor(t);
  await addMany(hub, 1);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken });
  await page.locator('tr[data-row]').first().waitFor();
  await page.evaluate(cutOff);
  for (const [width, rolesShown, plotShown] of [
    [1000, false, false],
    [1280, false, false],
    [1440, false, true],
    [1920, true, true],
  ] as const) {
    await page.setViewportSize({ width, height: 900 });
    t.strictSame(await page.evaluate('cutOff()'), [], `${width} px`);
    const name = Number(await page.evaluate('document.querySelector("th.name").getBoundingClientRect().width'));
    t.ok(name >= 170, `a name has ${name} px at ${width}`);
    t.equal(await page.getByRole('columnheader', { name: 'Roles' }).isVisible(), rolesShown, `roles at ${width} px`);
    t.equal(await page.getByRole('columnheader', { name: 'Last 2 min' }).isVisible(), plotShown, `plot at ${width} px`);
    const sticksOut = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
    t.ok(Number(sticksOut) <= 0, `${sticksOut} px beyond the edge at ${width}`);
  }
});

/** More than fit on a screen. */
const many = Math.max(300, partOf(2_000));
const inWords = (count: number) => count.toLocaleString('en');

browserTest(
  `of ${inWords(many)} partners those in sight are drawn, and a change of one draws one row again [V1]`,
  atLength,
  async (t, browser) => {
    const hub = await hubFor(t);
    await addMany(hub, many);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/?sort=partner' });
    await page.getByText(`${inWords(many)} partners`, { exact: true }).waitFor();
    await live(page).waitFor();
    const rows = page.locator('tr[data-row]');
    await rows.first().waitFor();
    t.ok((await rows.count()) < 100, `${await rows.count()} rows are in the document`);
    const inSight = await page.evaluate(
      '[...document.querySelectorAll("tr[data-row]")].filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length',
    );
    t.ok(Number(inSight) >= 30, `${inSight} rows are seen at 1440 × 900`);

    // Those further down change as well: nothing of them is in the document, so nothing of it may change for them.
    await shownIn(page, 'NL-AAD').waitFor();
    await page.evaluate(observe);
    // Partners that were just added are looked after for a moment, which their rows may show.
    await hurried(page, () =>
      eventually('nothing is drawn any more', async () => {
        await page.evaluate('window.touched.clear()');
        for (let answers = 0; answers < 2; answers++)
          await page.waitForResponse((answer) => answer.url().includes('/overview?'));
        return ((await touched(page)) as string[]).length === 0;
      }),
    );
    const trace = { requestId: 'r', correlationId: 'c' };
    for (let index = many - 200; index < many; index++) {
      const { country_code, party_id } = idAt(index);
      hub.created.hub.operations.setCircuit(`${country_code}-${party_id}`, 'async', 'open', trace);
    }
    await setCircuit(hub, 'NL-AAD', 'open');
    await hurried(page, async () => {
      await shownIn(page, 'NL-AAD').locator('.badge', { hasText: 'open' }).waitFor();
      await page.getByRole('link', { name: /^Open circuits 201/ }).waitFor();
    });
    t.strictSame(await touched(page), ['NL-AAD']);

    await page.mouse.move(500, 600);
    await page.mouse.wheel(0, 22 * (many / 2));
    const { country_code, party_id } = idAt(many / 2);
    await shownIn(page, `${country_code}-${party_id}`).waitFor();
    t.ok((await rows.count()) < 100, 'scrolling keeps it so');
    t.equal(await page.locator('.partners table').getAttribute('aria-rowcount'), `${many + 1}`);
    await page.setViewportSize({ width: 820, height: 900 });
    const nameWidth = await page.evaluate('document.querySelector("th.name").getBoundingClientRect().width');
    t.ok(Number(nameWidth) >= 150, `a name has ${nameWidth} px at 820`);
  },
);

browserTest('partners are found, filtered and sorted, and the address keeps it', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  await addMany(hub, 60);
  await setCircuit(hub, 'NL-AAX', 'open');
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken });
  const first = page.locator('tr[data-row] .id').first();
  await first.filter({ hasText: 'NL-AAX' }).waitFor();
  await page.locator('body').press('/');
  await page.keyboard.type('nl-ab');
  await page.getByText('26 of 60 partners').waitFor();
  await page.getByLabel('Role').selectOption('EMSP');
  await page.getByText(/^9 of 60 partners|^8 of 60 partners/).waitFor();
  t.match(page.url(), 'q=nl-ab');
  t.match(page.url(), 'role=EMSP');
  await setCircuit(hub, 'NL-AAE', 'open', 'results');
  await lead(page, '/?show=circuit');
  await page.getByText('2 of 60 partners').waitFor();
  await page.getByText('results of commands open').waitFor();
  await page.setViewportSize({ width: 1920, height: 900 });
  await page.getByRole('columnheader', { name: 'Results of commands' }).waitFor();
  t.match(await shownIn(page, 'NL-AAE').locator('.results').textContent(), /open/);
  await setCircuit(hub, 'NL-AAE', 'closed', 'results');
  await lead(page, '/?q=nothing');
  await page.getByText('No partner fits').waitFor();
  await lead(page, '/');
  await page.getByRole('button', { name: 'Partner', exact: true }).click();
  await first.filter({ hasText: 'NL-AAA' }).waitFor();
  t.equal(
    await page.getByRole('columnheader', { name: 'Partner', exact: true }).getAttribute('aria-sort'),
    'descending',
  );
  await page.locator('body').click({ position: { x: 5, y: 5 } });
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/partners/NL-AAB');
});

browserTest('attention entries appear by themselves and link to where the cause is repaired', async (t, browser) => {
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken }, { clock: hastyClock });
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 404, text: '{"status_code":2003}' }) });
  const page = await consoleFor(t, browser, hub, { token: viewerToken });
  const attention = page.getByRole('region', { name: 'Needs attention' });
  await admin(hub, 'PUT', '/webhooks/on-call', { url: 'http://127.0.0.1:9/' });
  await attention.getByText('all is well').waitFor();
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/A', sessionBody('A'));
  const dead = attention.getByRole('link', { name: '1 dead letter', exact: true });
  await hurried(page, () => dead.waitFor());
  t.match(await attention.getByRole('link', { name: 'NL-EMS' }).getAttribute('href'), 'partner=NL-EMS');
  await setCircuit(hub, 'NL-CPO', 'open');
  await hurried(page, () => attention.getByText('1 partner with an open circuit').waitFor());
  await giveUp(hub, 'partner:NL-CPO');
  await hurried(page, () => attention.getByText('1 actor stopped after repeated failures').waitFor());
  await attention.getByText('poisoned on purpose').waitFor();
  const untold = attention.getByRole('link', { name: 'Notifications are not taken' });
  await hurried(page, () => untold.waitFor());
  t.match(await attention.getByRole('link', { name: 'on-call' }).getAttribute('href'), '/notifications');
  await dead.click();
  await page.waitForURL('**/deliveries?state=DEAD');
});

browserTest(
  'the overview of an owner of the previous version, which names no receivers, is shown',
  async (t, browser) => {
    const hub = await hubFor(t);
    await routedPair(t, hub);
    const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path: '/routing' });
    await page.route('**/admin/v1/overview*', async (route) => {
      const response = await route.fetch();
      const { totals, ...rest } = (await response.json()) as { totals: Record<string, unknown> };
      const { untold, ...former } = totals;
      if (untold === undefined) throw new Error('there is nothing to leave out');
      await route.fulfill({ response, json: { ...rest, totals: former } });
    });
    await lead(page, '/');
    await page.getByRole('region', { name: 'Needs attention' }).getByText('all is well').waitFor();
  },
);

browserTest('rates are derived from counts: deliveries move the numbers and the plot', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken });
  await shownIn(page, 'NL-EMS').waitFor();
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await hurried(page, () => shownIn(page, 'NL-EMS').locator('.sparkline .over').waitFor({ state: 'attached' }));
  t.equal(await shownIn(page, 'NL-CPO').locator('.sparkline').count(), 0, 'the sender has none');
  t.equal(await page.locator('.numbers .sparkline .over').count(), 1);
});

browserTest('after a restart of the hub everything is live again by itself', atLength, async (t, browser) => {
  const dataDir = directoryFor(t);
  const before = await hubFor(t, {}, {}, dataDir);
  await addMany(before, 40);
  const page = await consoleFor(t, browser, before, {
    ...{ token: before.adminToken, path: '/?sort=partner' },
    mayComplain: /WebSocket|ERR_|50[0-9]/,
  });
  await live(page).waitFor();
  await shownIn(page, 'NL-AAB').waitFor();
  await before.close();
  await page.getByText('not live, connecting again').waitFor();
  await hurried(page, () => page.getByText(/Could not load the overview/).waitFor());
  const after = await hubFor(t, { HUB_PORT: new URL(before.url).port }, {}, dataDir);
  await hurried(page, async () => {
    await live(page).waitFor();
    await page.getByText(/Could not load the overview/).waitFor({ state: 'detached' });
  });
  await setCircuit(after, 'NL-AAB', 'open');
  await hurried(page, () => shownIn(page, 'NL-AAB').locator('.badge', { hasText: 'open' }).waitFor());
});

/** In the page: `cut()` closes the inspector's connections, and refuses those that come. */
const cuttable = `{
  const open = [];
  let isCut = false;
  window.WebSocket = class extends WebSocket {
    constructor(url, [protocol, bearer]) {
      super(url, [protocol, isCut ? 'bearer.none' : bearer]);
      open.push(this);
    }
  };
  window.cut = () => {
    isCut = true;
    for (const socket of open) socket.close();
  };
}`;

browserTest('while the connection is down the page shows the hub’s reason', atLength, async (t, browser) => {
  const hub = await hubFor(t);
  await routedPair(t, hub);
  const path = '/routing';
  const page = await consoleFor(t, browser, hub, { token: hub.adminToken, path, mayComplain: /WebSocket/ });
  await page.evaluate(cuttable);
  await lead(page, '/');
  await live(page).waitFor();
  await shownIn(page, 'NL-EMS').getByText('CONNECTED').waitFor();
  await page.evaluate('cut()');
  await page.getByText('not live, connecting again').waitFor();
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  await hurried(page, () => shownIn(page, 'NL-EMS').getByText('SUSPENDED').waitFor());
});

browserTest('it is accessible: light and dark, wide and narrow, empty and full', async (t, browser) => {
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
  const page = await consoleFor(t, browser, hub, { token: viewerToken });
  await page.getByText('No partner yet').waitFor();
  t.equal(await page.getByRole('link', { name: 'Add a partner' }).count(), 0, 'a viewer adds none');
  t.strictSame(await barriers(page), []);
  await addMany(hub, 12);
  await setCircuit(hub, 'NL-AAB', 'open');
  await signIn(page, hub, hub.adminToken, '/');
  await page.locator('tr[data-row]').first().waitFor();
  await isOpenToAll(t, page, 'the overview');
});
