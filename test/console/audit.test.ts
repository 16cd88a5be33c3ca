/** The audit log in a real browser, and what each role sees of the buttons. */
import { join } from 'node:path';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { operatorsFile, tokenOf } from '../support/operators.ts';
import { admin } from '../support/plain-partner.ts';
import type { Test } from '../support/tap.ts';
import { browserTest, consoleFor, isOpenToAll } from './browser.ts';

async function staffed(t: Test) {
  const roles = ['support', 'operator', 'admin'] as const;
  const staff = roles.map((role) => ({ name: `a-${role}`, role }));
  const hub = await hubFor(t, { HUB_OPERATORS_FILE: operatorsFile(join(directoryFor(t), 'operators.json'), staff) });
  await routedPair(t, hub);
  return hub;
}

browserTest('a suspension asks for its reason, and the audit page shows who suspended and why', async (t, browser) => {
  const hub = await staffed(t);
  const page = await consoleFor(t, browser, hub, { token: tokenOf('a-admin'), path: '/partners/NL-EMS' });
  await page.getByText('a-admin (admin)').waitFor();
  await page.getByRole('button', { name: 'Suspend', exact: true }).click();
  await page.getByRole('dialog').getByLabel('Reason, for the audit log').fill('contract ended');
  await page.getByRole('button', { name: 'Suspend NL-EMS' }).click();
  await page.getByText('NL-EMS is suspended.').waitFor();
  await page.getByRole('link', { name: 'Audit' }).click();
  const row = page.getByRole('row').filter({ hasText: '/parties/NL-EMS/suspend' });
  await row.getByText('contract ended').waitFor();
  await row.getByText('a-admin').waitFor();
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText(/entries, none missing or changed/).waitFor();
  await page.getByLabel('Operator').fill('nobody');
  await page.getByText('No acts match').waitFor();
  await isOpenToAll(t, page, 'the audit page');
  const found = (await admin(hub, 'GET', '/audit?verb=suspend')) as { items: { operator: string; reason: string }[] };
  t.match(found.items, [{ operator: 'a-admin', reason: 'contract ended' }]);
});

browserTest('a role sees the buttons that it may press, and no others', async (t, browser) => {
  const hub = await staffed(t);
  const seen = async (name: string) => {
    const page = await consoleFor(t, browser, hub, { token: tokenOf(name), path: '/partners/NL-EMS' });
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
