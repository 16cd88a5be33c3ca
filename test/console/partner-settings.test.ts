/** Who may change the settings of a partner on its page, and what the page says when the hub refuses a change. */
import { join } from 'node:path';
import type { PartyView } from '../../src/api/parties.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { operatorsFile, tokenOf } from '../support/operators.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import type { Test } from '../support/tap.ts';
import { browserTest, consoleFor, signIn } from './browser.ts';

const path = '/partners/NL-EMS';

async function staffed(t: Test): Promise<TestHub> {
  const roles = ['viewer', 'support', 'operator', 'admin'] as const;
  const staff = roles.map((role) => ({ name: `a-${role}`, role }));
  const hub = await hubFor(t, { HUB_OPERATORS_FILE: operatorsFile(join(directoryFor(t), 'operators.json'), staff) });
  await routedPair(t, hub);
  return hub;
}

const partyOf = async (hub: TestHub) => (await admin(hub, 'GET', '/parties/NL-EMS')) as unknown as PartyView;

browserTest(
  'pull_only of a registered partner is refused with the reason; a suspended one gets a hub token [D89]',
  atLength,
  async (t, browser) => {
    const hub = await staffed(t);
    const page = await consoleFor(t, browser, hub, { token: tokenOf('a-admin'), path, mayComplain: /409/ });
    const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
    await press('Change settings');
    await page.getByLabel('Pull only').check();
    await press('Save settings');
    await page.getByText('NL-EMS is registered: suspend it before pull_only changes').first().waitFor();
    t.equal(await page.getByRole('dialog').getByLabel('Pull only').isChecked(), true, 'what was chosen stays');
    t.equal((await partyOf(hub)).settings.pull_only, false);
    await page.keyboard.press('Escape');

    await admin(hub, 'POST', '/parties/NL-EMS/suspend', {});
    await page.reload();
    await press('Change settings');
    await page.getByLabel('Pull only').check();
    await press('Save settings');
    const issued = page.getByRole('dialog', { name: 'Hub token of NL-EMS' });
    const token = (await issued.locator('code').textContent()) ?? '';
    t.equal((await ocpi(hub, 'GET', '/2.2.1/locations', { token })).json.status_code, 1000, 'it reads with it');
    t.equal((await partyOf(hub)).settings.pull_only, true);
    const acts = (await itemsOf(hub, '/audit?operator=a-admin')) as { about: string; status: number }[];
    const changes = acts.filter(({ about }) => about.endsWith('/parties/NL-EMS'));
    t.same(changes.map(({ status }) => status).sort(), [200, 409], 'the refused act stands in the audit log, too');
  },
);

browserTest(
  'an operator changes settings, an admin alone changes pull_only [operators]',
  atLength,
  async (t, browser) => {
    const hub = await staffed(t);
    const page = await consoleFor(t, browser, hub, { token: tokenOf('a-viewer'), path });
    const seen = async (name: string) => {
      if (name !== 'a-viewer') await signIn(page, hub, tokenOf(name), path);
      await page.getByText(`${name} (`).waitFor();
      await page.getByRole('region', { name: 'Settings' }).getByText('Token encoding').waitFor();
      const button = page.getByRole('button', { name: 'Change settings' });
      if ((await button.count()) === 0) return 'nothing';
      await button.click();
      await page.getByLabel('An empty 2xx').waitFor();
      return (await page.getByRole('dialog').getByLabel('Pull only').count()) === 0 ? 'all but pull_only' : 'all';
    };
    t.equal(await seen('a-viewer'), 'nothing');
    t.equal(await seen('a-support'), 'nothing');
    t.equal(await seen('a-operator'), 'all but pull_only');
    t.equal(await seen('a-admin'), 'all');

    const patch = async (name: string, change: object) => {
      const headers = { authorization: `Bearer ${tokenOf(name)}`, 'content-type': 'application/json' };
      const url = `${hub.url}/admin/v1/parties/NL-EMS`;
      return (await fetch(url, { method: 'PATCH', headers, body: JSON.stringify(change) })).status;
    };
    const link = { link_prev: false };
    t.same(
      [await patch('a-viewer', link), await patch('a-support', link), await patch('a-operator', { pull_only: true })],
      [403, 403, 403],
      'the hub refuses what the page does not offer',
    );
    t.match((await partyOf(hub)).settings, { link_prev: true, pull_only: false });
    t.equal(await patch('a-operator', link), 200);
  },
);
