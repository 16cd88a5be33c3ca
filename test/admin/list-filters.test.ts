/** Lists that are filtered by the hub: what fits is found wherever it is in the list, and a page examines a bounded part of it. */

import type { CommandView } from '../../src/api/commands.ts';
import type { Page } from '../../src/api/common.ts';
import type { PullView } from '../../src/api/pulls.ts';
import type { RoutingRule } from '../../src/api/routes.ts';
import { noCounts, type PullRecord } from '../../src/domain/pull.ts';
import type { Put } from '../../storage/contract.ts';
import { cdrBody, sessionBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { at, commandRow, written } from '../support/rows.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
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

t.test(
  'commands are found by party, state, token and session (with or without its party), behind any number of newer ones [D93]',
  async (t) => {
    const hub = await hubFor(t);
    const all = Array.from({ length: 6000 }, (_, nth) => {
      if ([7, 8].includes(nth % 2500))
        return commandRow(nth, { emsp: 'DE-FAH', state: nth === 7 ? 'silent' : 'awaiting' });
      if (nth === 3) return commandRow(nth, { reason: 'timeout: no answer in time' });
      if (nth === 4) return commandRow(nth, { command: 'UNLOCK_CONNECTOR' });
      if (nth === 6) return commandRow(nth, { tokenUid: '04A1B2C3' });
      if (nth === 5) return commandRow(nth, { sessionId: 'S5' });
      return commandRow(nth, nth === 5990 ? { cpo: 'FR-BOR' } : {});
    });
    await written(hub, all);
    for (const limit of isAtLength ? [1, 2, 1000] : [1, 1000]) {
      const { ids, pages } = await walked(hub, '/commands?party=de-f', limit);
      t.strictSame(ids, ['c5008', 'c5007', 'c2508', 'c2507', 'c8', 'c7'], `each once, newest first, ${limit} a page`);
      t.ok(pages >= 2, 'a page does not examine 6,000 commands');
    }
    t.strictSame((await walked(hub, '/commands?party=FR-BOR&state=relayed', 10)).ids, ['c5990']);
    t.strictSame((await walked(hub, '/commands?state=silent', 1000)).ids, ['c7']);
    t.strictSame((await walked(hub, '/commands?state=relayFailed', 1000)).ids, ['c3'], 'and not as relayed');
    t.notOk((await walked(hub, '/commands?state=relayed', 1000)).ids.includes('c3'));
    t.strictSame((await walked(hub, '/commands?party=DE-FAH&state=rejected', 1000)).ids, []);
    t.equal(
      (await walked(hub, '/commands?party=NL', 1000)).ids.length,
      6000,
      'and a part of an id finds all that have it',
    );
    for (const [query, ids] of [
      ['emsp=DE-FAH&state=awaiting', ['c5008', 'c5007', 'c2508', 'c2507', 'c8']],
      ['cpo=fr-bor', ['c5990']],
      ['emsp=DE-FA', []],
      ['command=UNLOCK_CONNECTOR', ['c4']],
      ['session=s5', ['c5']],
      ['uid=04a1b2c3', ['c6']],
      ['uid=04A1B2', []],
      ['session=nl-cpo/S5', ['c5']],
      ['session=NL-XXX/S5', []],
      [`from=${at(5998)}`, ['c5999', 'c5998']],
      [`from=${at(2)}&to=${at(4)}`, ['c3', 'c2']],
      [`emsp=DE-FAH&from=${at(8)}&to=${at(2508)}`, ['c2507', 'c8']],
    ] as const) {
      for (const limit of isAtLength ? [1, 1000] : [1000])
        t.strictSame((await walked(hub, `/commands?${query}`, limit)).ids, ids, query);
    }
  },
);

t.test('an unknown filter value is refused', async (t) => {
  const hub = await hubFor(t);
  const wrong = [
    ...['commands?state=lost', 'commands?command=START', 'commands?emsp=NL', 'commands?from=yesterday'],
    ...['routes?emsp=NLEMS', 'routes?cpo=', 'pulls?party=NL', 'pulls?partner=NL-CPO', 'orphans?state=LOST'],
    ...['events?type=delivery.ded', 'events?type=deliver', 'events?from=1', 'events?order=first'],
    ...['deliveries?module=session', 'deliveries?order=first', 'stored-not-forwarded?reason=lost'],
    ...['stored-not-forwarded?cpo=NL'],
  ];
  for (const path of wrong) {
    const { status } = await callOnce('GET', `${hub.url}/admin/v1/${path}`, undefined, {
      authorization: `Bearer ${hub.adminToken}`,
    });
    t.equal(status, 422, path);
  }
});

t.test('sessions and CDRs without an eMSP are found by CPO and by reason', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const other = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'TNM' });
  const token = (party_id: string) => ({
    cdr_token: { country_code: 'NL', party_id, uid: 'U', type: 'RFID', contract_id: 'C' },
  });
  const none = { cdr_token: undefined };
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', none));
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S2', sessionBody('S2', token('WHO')));
  await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1', none));
  const own = { party_id: 'TNM' };
  await other.call('PUT', '/2.2.1/sessions/NL/TNM/S3', sessionBody('S3', { ...own, ...none }));
  await other.call('PUT', '/2.2.1/sessions/NL/TNM/S4', sessionBody('S4', { ...own, ...token('EMS') }));
  const found = async (query: string) => {
    const objects: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const next: string = cursor === '' ? '' : `&cursor=${cursor}`;
      const page = (await admin(hub, 'GET', `/stored-not-forwarded?${query}&limit=1${next}`)) as unknown as Page<{
        object: string;
      }>;
      objects.push(...page.items.map(({ object }) => object));
      cursor = page.next_cursor;
    }
    return objects;
  };
  t.strictSame((await found('')).sort(), ['NL-CPO/C1', 'NL-CPO/S1', 'NL-CPO/S2', 'NL-TNM/S3', 'NL-TNM/S4']);
  t.strictSame((await found('cpo=nl-cpo')).sort(), ['NL-CPO/C1', 'NL-CPO/S1', 'NL-CPO/S2']);
  t.strictSame((await found('reason=cdr_token+missing')).sort(), ['NL-CPO/C1', 'NL-CPO/S1', 'NL-TNM/S3']);
  t.strictSame(await found('reason=not+routed'), ['NL-TNM/S4']);
  t.strictSame(await found('cpo=NL-TNM&reason=unknown+eMSP'), []);
  await other.call('POST', '/2.2.1/cdrs', cdrBody('C2', { ...own, ...token('WHO') }));
  const { items: first } = await admin(hub, 'GET', '/stored-not-forwarded?cpo=NL-TNM&reason=unknown+eMSP');
  t.match(first, [{ module: 'cdrs', object: 'NL-TNM/C2' }], 'without such a session the first page has the CDR');
});

t.test('events and deliveries are found by time, oldest or newest first', async (t) => {
  const clock = new SimulatedClock('2026-01-02T00:00:00Z');
  const hub = await hubFor(t, {}, { clock });
  const { cpo } = await routedPair(t, hub);
  const hour = 3_600_000;
  const starts: string[] = [];
  for (let nth = 0; nth < 4; nth++) {
    starts.push(new Date(clock.wall()).toISOString());
    await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/S${nth}`, sessionBody(`S${nth}`));
    await hub.settled();
    clock.advance(hour);
  }
  const objects = async (query: string) => {
    const { items } = (await admin(hub, 'GET', query)) as unknown as Page<{ object: string }>;
    return items.map(({ object }) => object.slice(-2));
  };
  const put = '/events?type=object.put';
  t.strictSame(await objects(`${put}&from=${starts[1]}&to=${starts[3]}`), ['S1', 'S2']);
  t.strictSame(await objects(`${put}&from=${starts[2]}&order=newest`), ['S3', 'S2']);
  t.strictSame(await objects(`${put}&to=${starts[1]}`), ['S0']);
  t.strictSame(await objects(`${put}&from=2027-01-01T00:00:00Z`), []);
  const list = '/deliveries?module=sessions';
  t.strictSame(await objects(`${list}&order=oldest`), ['S0', 'S1', 'S2', 'S3']);
  t.strictSame(await objects(`${list}&from=${starts[1]}&to=${starts[3]}&order=oldest`), ['S1', 'S2']);
  t.strictSame(await objects(`${list}&from=${starts[1]}&to=${starts[3]}`), ['S2', 'S1']);
});

t.test('a search by time reads only the part of the log of that time', atLength, async (t) => {
  const hub = await hubFor(t);
  const { store } = hub.created.context;
  const event = { stream: 's', type: 'route.set', party: null, correlationId: null, to: [], data: {}, body: null };
  const first = store.head();
  for (let from = 0; from < 45_000; from += 5_000) {
    const events = Array.from({ length: 5_000 }, (_, nth) => ({ ...event, at: at(from + nth) }));
    await store.append({ fence: store.held(), idem: `many ${from}`, events });
  }
  for (const [second, order] of [
    [10, 'newest'],
    [44_000, 'oldest'],
  ] as const) {
    const query = `/events?type=route.set&order=${order}&from=${at(second)}&to=${at(second + 2)}`;
    const { items, next_cursor } = (await admin(hub, 'GET', query)) as unknown as Page<{ seq: number }>;
    const found = items.map(({ seq }) => seq - first).sort((a, b) => a - b);
    t.strictSame(found, [second + 1, second + 2], `${order} first, with the first page`);
    t.equal(next_cursor, null);
  }
});

t.test('pulls are found by party', async (t) => {
  const hub = await hubFor(t);
  await written(
    hub,
    Array.from({ length: 300 }, (_, nth) => pullRow(nth, nth === 3 ? 'NL-C' : 'NL-CPO')),
  );
  const { items, next_cursor } = (await admin(hub, 'GET', '/pulls?party=nl-c&limit=6')) as unknown as Page<PullView>;
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
  t.strictSame(await found('emsp=nl-em2'), ['NL-EM2 NL-CP2', 'NL-EM2 NL-CPX']);
  t.strictSame(await found('cpo=NL-CP1'), ['NL-EM1 NL-CP1']);
  t.strictSame(await found('emsp=NL-EM1&cpo=NL-CP2'), []);
  t.strictSame(await found('emsp=NL-EM'), []);
});
