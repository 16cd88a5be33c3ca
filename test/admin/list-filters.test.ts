/** Lists that are filtered by the hub: what fits is found wherever it is in the list, and a page examines a bounded part of it. */

import type { CommandView } from '../../src/api/commands.ts';
import type { Page } from '../../src/api/common.ts';
import type { PullView } from '../../src/api/pulls.ts';
import type { RoutingRule } from '../../src/api/routes.ts';
import { noCounts, type PullRecord } from '../../src/domain/pull.ts';
import type { Put } from '../../storage/contract.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, type TestHub } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { at, commandRow, written } from '../support/rows.ts';
import { t } from '../support/tap.ts';

function pullRow(nth: number, party: string): Put {
  const record: PullRecord = {
    ...{ ...noCounts, id: `p${nth}`, party, module: 'tariffs', full: false, forward: false, dateFrom: null },
    ...{ state: 'DONE', error: null, note: null, startedAt: at(nth), endedAt: at(nth) },
  };
  return { kind: 'pulls', owner: '', id: record.id, shelf: 'pulls', upd: at(nth), data: record, body: null };
}

/** The ids of every page, and how many pages there were. */
async function walked(hub: TestHub, path: string, limit: number) {
  const ids: string[] = [];
  let pages = 0;
  for (let cursor: string | null = ''; cursor !== null; pages++) {
    const next: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const page = (await admin(hub, 'GET', `${path}&limit=${limit}${next}`)) as unknown as Page<CommandView>;
    t.ok(page.items.length <= limit);
    ids.push(...page.items.map(({ id }) => id));
    cursor = page.next_cursor;
  }
  return { ids, pages };
}

t.test('commands are found by party and by state, however many others are newer', async (t) => {
  const hub = await hubFor(t);
  const all = Array.from({ length: 6000 }, (_, nth) => {
    if ([7, 8].includes(nth % 2500))
      return commandRow(nth, { emsp: 'DE-FAH', state: nth === 7 ? 'silent' : 'awaiting' });
    return commandRow(nth, nth === 5990 ? { cpo: 'FR-BOR' } : {});
  });
  await written(hub, all);
  for (const limit of [1, 2, 1000]) {
    const { ids, pages } = await walked(hub, '/commands?party=de-f', limit);
    t.strictSame(ids, ['c5008', 'c5007', 'c2508', 'c2507', 'c8', 'c7'], `each once, newest first, ${limit} a page`);
    t.ok(pages >= 2, 'a page does not examine 6,000 commands');
  }
  t.strictSame((await walked(hub, '/commands?party=FR-BOR&state=relayed', 10)).ids, ['c5990']);
  t.strictSame((await walked(hub, '/commands?state=silent', 1000)).ids, ['c7']);
  t.strictSame((await walked(hub, '/commands?party=DE-FAH&state=rejected', 1000)).ids, []);
  t.equal(
    (await walked(hub, '/commands?party=NL', 1000)).ids.length,
    6000,
    'and a part of an id finds all that have it',
  );
  const wrong = await callOnce('GET', `${hub.url}/admin/v1/commands?state=lost`, undefined, {
    authorization: `Bearer ${hub.adminToken}`,
  });
  t.equal(wrong.status, 422);
});

t.test('pulls are found by partner', async (t) => {
  const hub = await hubFor(t);
  await written(
    hub,
    Array.from({ length: 300 }, (_, nth) => pullRow(nth, nth === 3 ? 'NL-C' : 'NL-CPO')),
  );
  const { items, next_cursor } = (await admin(hub, 'GET', '/pulls?partner=nl-c&limit=6')) as unknown as Page<PullView>;
  t.match({ items, next_cursor }, { items: [{ id: 'p3' }], next_cursor: null });
  t.equal(items.length, 1, 'and NL-CPO is another partner');
});

t.test('routing rules are found by a part of a party, and by a partner with all of its parties', async (t) => {
  const hub = await hubFor(t);
  const add = (role: string, ...ids: string[]) => {
    const roles = ids.map((id) => ({ role, country_code: 'NL', party_id: id, business_details: { name: id } }));
    return admin(hub, 'POST', '/parties', { roles });
  };
  await add('EMSP', 'EM1', 'EM2');
  for (const id of ['CP1', 'CP2', 'CPX']) await add('CPO', id);
  for (const pair of ['EM1/NL-CP1', 'EM2/NL-CP2', 'EM2/NL-CPX']) await admin(hub, 'PUT', `/routes/NL-${pair}`, {});
  const found = async (query: string) => {
    const { items } = (await admin(hub, 'GET', `/routes?${query}`)) as unknown as Page<RoutingRule>;
    return items.map(({ emsp, cpo }) => `${emsp} ${cpo}`);
  };
  t.strictSame(await found('party=nl-cp1'), ['NL-EM1 NL-CP1']);
  t.strictSame(await found('party=CPX'), ['NL-EM2 NL-CPX']);
  t.strictSame(await found('partner=NL-EM1'), ['NL-EM1 NL-CP1', 'NL-EM2 NL-CP2', 'NL-EM2 NL-CPX']);
  t.strictSame(await found('partner=nl-em1&party=NL-CPX'), ['NL-EM2 NL-CPX']);
  t.strictSame(await found('party=BE'), []);
});
