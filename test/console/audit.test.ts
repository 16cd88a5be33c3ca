/** The audit log in a real browser, and what each role sees of the buttons. */
import { join } from 'node:path';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { operatorsFile, tokenOf } from '../support/operators.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import type { Test } from '../support/tap.ts';
import { browserTest, consoleFor, isOpenToAll, lead, signIn } from './browser.ts';

async function staffed(t: Test) {
  const roles = ['support', 'operator', 'admin'] as const;
  const staff = roles.map((role) => ({ name: `a-${role}`, role }));
  const hub = await hubFor(t, { HUB_OPERATORS_FILE: operatorsFile(join(directoryFor(t), 'operators.json'), staff) });
  await routedPair(t, hub);
  return hub;
}

browserTest('a suspension requires a reason, and the audit page shows who suspended and why', async (t, browser) => {
  const hub = await staffed(t);
  const page = await consoleFor(t, browser, hub, { token: tokenOf('a-admin'), path: '/partners/NL-EMS' });
  await page.getByText('a-admin (admin)').waitFor();
  await page.getByRole('button', { name: 'Suspend', exact: true }).click();
  await page.getByRole('dialog').getByLabel('Reason, for the audit log').fill('contract ended');
  await page.getByRole('button', { name: 'Suspend NL-EMS' }).click();
  await page.getByText('NL-EMS is suspended.').waitFor();
  await t.rejects(admin(hub, 'POST', '/parties/NL-ZZZ/probe'), /404/);
  await page.getByRole('link', { name: 'Audit' }).click();
  const row = page.getByRole('row').filter({ hasText: '/parties/NL-EMS/suspend' });
  await row.getByText('contract ended').waitFor();
  await row.getByText('a-admin').waitFor();
  await page.getByRole('cell', { name: '404', exact: true }).waitFor();
  const colourOf = (cell: string) => page.evaluate(`getComputedStyle(document.querySelector('${cell}')).color`);
  t.not(await colourOf('td.urgent'), await colourOf('td.mono'), 'the status of a refused act has a colour of its own');
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText(/entries, none missing or changed/).waitFor();
  await page.getByLabel('Operator').fill('nobody');
  await page.getByText('No acts match').waitFor();
  await isOpenToAll(t, page, 'the audit page');
  const found = (await admin(hub, 'GET', '/audit?verb=suspend')) as { items: { operator: string; reason: string }[] };
  t.match(found.items, [{ operator: 'a-admin', reason: 'contract ended' }]);
});

browserTest(
  'where every act requires a reason, the page requests it and the act continues with it [D91]',
  atLength,
  async (t, browser) => {
    const dataDir = directoryFor(t);
    const before = await hubFor(t, {}, {}, dataDir);
    await routedPair(t, before);
    await before.close();
    const hub = await hubFor(t, { HUB_REQUIRE_REASON: 'true' }, {}, dataDir);
    const begun = ((await admin(hub, 'GET', '/audit')).items as object[]).length;
    const page = await consoleFor(t, browser, hub, {
      token: hub.adminToken,
      path: '/partners/NL-EMS',
      mayComplain: /422/,
    });
    const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Why?' });
    const because = async (reason: string) => {
      await dialog.getByLabel('Reason, for the audit log').fill(reason);
      await dialog.getByRole('button', { name: 'Go on' }).click();
      await dialog.waitFor({ state: 'detached' });
    };
    await press('Pause deliveries');
    await dialog.waitFor();
    await isOpenToAll(t, page, 'the question', 'dialog');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('reason: an act of an operator needs one here').waitFor();
    await press('Pause deliveries');
    await because('a');
    await press('Resume deliveries');
    await because('b');
    await press('Stop deliveries (open circuit)');
    await because('c');
    await press('Try again now (close circuit)');
    await because('d');

    await lead(page, '/routing');
    await page.getByLabel('Let eMSP').fill('NL-EMS');
    await page.getByLabel('receive from CPO').fill('NL-CPO');
    await press('Add rule');
    await because('e');
    await lead(page, '/deliveries?state=DELIVERED');
    await press('Send again what is listed …');
    await because('f');
    await page.getByText('There is nothing to re-drive.').waitFor();

    const { items } = (await admin(hub, 'GET', '/audit')) as {
      items: { status: number; reason: string; verb: string }[];
    };
    const acts = items.slice(0, items.length - begun).reverse();
    t.same(
      acts
        .filter(({ status, verb }) => status !== 422 && !verb.startsWith('GET'))
        .map(({ verb, reason }) => [reason, verb]),
      [
        ['a', 'PATCH /parties/{id}'],
        ['b', 'PATCH /parties/{id}'],
        ['c', 'POST /parties/{id}/circuits/{circuit}'],
        ['d', 'POST /parties/{id}/circuits/{circuit}'],
        ['e', 'PUT /routes/{emsp}/{cpo}'],
        ['f', 'POST /redrive'],
      ],
    );
  },
);

browserTest('a role sees only the buttons that it may use', atLength, async (t, browser) => {
  const hub = await staffed(t);
  const path = '/partners/NL-EMS';
  const page = await consoleFor(t, browser, hub, { token: tokenOf('a-support'), path });
  const seen = async (name: string) => {
    if (name !== 'a-support') await signIn(page, hub, tokenOf(name), path);
    await page.getByText(`${name} (`).waitFor();
    await page.getByRole('button', { name: 'Probe' }).waitFor();
    const names = ['Probe', 'Suspend', 'New initial token'];
    const shown = await Promise.all(names.map((one) => page.getByRole('button', { name: one, exact: true }).count()));
    return [...shown, await page.getByRole('link', { name: 'Audit' }).count()];
  };
  t.same(await seen('a-support'), [1, 0, 0, 0]);
  t.same(await seen('a-operator'), [1, 1, 0, 0]);
  t.same(await seen('a-admin'), [1, 1, 1, 1]);
});
