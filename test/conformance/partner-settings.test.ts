/**
 * Settings of a partner that make up for its habits, each end to end: what the partner does, what the hub makes of it,
 * and where operators see it. [D43, D70]
 */
import type { PartyView } from '../../src/api/parties.ts';
import type { ReportView } from '../../src/api/report.ts';
import { choicesOf, defaultSettings } from '../../src/domain/partner-settings.ts';
import { locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const set = (hub: TestHub, id: string, settings: object) => admin(hub, 'PATCH', `/parties/${id}`, settings);

async function reported(hub: TestHub, id: string): Promise<ReportView['quirks']> {
  return ((await admin(hub, 'GET', `/parties/${id}/report`)) as unknown as ReportView).quirks;
}

async function sourcesOf(hub: TestHub, id: string): Promise<string[]> {
  return (await reported(hub, id)).map(({ quirk, source }) => `${quirk} ${source}`).sort();
}

async function quirksOf(hub: TestHub, id: string): Promise<string[]> {
  const quirks = await reported(hub, id);
  return quirks.map(({ module, quirk, count }) => `${module} ${quirk} ${count}`).sort();
}

t.test('a partner shows all settings, and as quirks those that make up for a habit', async (t) => {
  const hub = await hubFor(t);
  await routedPair(t, hub);
  const before = (await admin(hub, 'GET', '/parties/NL-CPO')) as unknown as PartyView;
  t.strictSame([before.settings, before.quirks], [choicesOf(defaultSettings), []]);
  const changed = (await set(hub, 'NL-CPO', {
    link_prev: false,
    hidden_modules: ['tariffs'],
    paused: true,
  })) as unknown;
  t.match((changed as PartyView).quirks, [
    { setting: 'hidden_modules', value: 'tariffs', heals: /modules/ },
    { setting: 'link_prev', value: 'false', heals: /link/ },
  ]);
  for (const refused of [{ hidden_modules: ['credentials'] }, { link_prev: 'no' }, { authorize_to_hub: 'ask' }]) {
    await t.rejects(set(hub, 'NL-CPO', refused), /422/, JSON.stringify(refused));
  }
});

const at = '2026-05-01T10:00:00.000Z';

t.test('patch_without_last_updated: accept stores a PATCH as of its arrival and forwards it as received', async (t) => {
  const hub = await hubFor(t, {}, { clock: new SimulatedClock(at) });
  const { cpo, emsp } = await routedPair(t, hub);
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await emsp.push('PUT', '/2.2.1/tokens/NL/EMS/CARD1', tokenBody('CARD1'));
  await hub.settled();
  const patches: [PlainPartner, PlainPartner, string, object][] = [
    [cpo, emsp, '/2.2.1/locations/NL/CPO/L1', { name: 'B' }],
    [cpo, emsp, '/2.2.1/locations/NL/CPO/L1/EVSE1', { status: 'CHARGING' }],
    [cpo, emsp, '/2.2.1/locations/NL/CPO/L1/EVSE1/1', { max_voltage: 400, last_updated: null }],
    [cpo, emsp, '/2.2.1/sessions/NL/CPO/S1', { kwh: 2 }],
    [emsp, cpo, '/2.2.1/tokens/NL/EMS/CARD1', { valid: false }],
  ];
  const send = async ([from, to, path, body]: (typeof patches)[number]) => {
    const { json } = await from.call('PATCH', path, body);
    await hub.settled();
    return [json.status_code, to.received.at(-1)?.body === JSON.stringify(body)];
  };
  for (const patch of patches) t.strictSame(await send(patch), [2001, false], `${patch[2]} is refused`);
  for (const id of ['NL-CPO', 'NL-EMS']) await set(hub, id, { patch_without_last_updated: 'accept' });
  for (const patch of patches) t.strictSame(await send(patch), [1000, true], `${patch[2]} is taken`);
  for (const [from, , path] of patches) {
    const { json } = await from.call('GET', path);
    t.match(json.data, { last_updated: at }, `${path} has the time of its arrival`);
  }
  t.equal((await cpo.call('PATCH', '/2.2.1/sessions/NL/CPO/S1', { kwh: 'two' })).json.status_code, 2001);
  const { json } = await emsp.call('GET', `/2.2.1/sessions?date_from=${at}`);
  t.match(json.data, [{ id: 'S1', kwh: 2, last_updated: at }]);
  t.strictSame(await quirksOf(hub, 'NL-CPO'), ['locations patch-without-date 3', 'sessions patch-without-date 1']);
});

t.test('hidden_modules are omitted from the version details of that partner alone', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await set(hub, 'NL-EMS', { hidden_modules: ['hubclientinfo', 'tariffs'] });
  const modulesOf = async (partner: PlainPartner) => {
    const { endpoints } = (await partner.call('GET', '/2.2.1')).json.data as { endpoints: { identifier: string }[] };
    return [...new Set(endpoints.map(({ identifier }) => identifier))].sort();
  };
  const all = ['cdrs', 'commands', 'credentials', 'hubclientinfo', 'locations', 'sessions', 'tariffs', 'tokens'];
  t.strictSame(await modulesOf(cpo), all);
  t.strictSame(await modulesOf(emsp), ['cdrs', 'commands', 'credentials', 'locations', 'sessions', 'tokens']);
  t.equal((await emsp.call('GET', '/2.2.1/tariffs')).json.status_code, 1000, 'what is hidden is still answered');
  t.strictSame(await quirksOf(hub, 'NL-EMS'), ['versions strict-modules 1'], 'once for the answer');
  t.strictSame(await sourcesOf(hub, 'NL-EMS'), ['strict-modules operator']);
  t.strictSame(await quirksOf(hub, 'NL-CPO'), []);
});

t.test('link_prev: false omits all links but the next one', async (t) => {
  const hub = await hubFor(t);
  const { emsp } = await routedPair(t, hub);
  await partnerFor(t, hub, { role: 'CPO', countryCode: 'BE', partyId: 'CPO' });
  const rels = async () => {
    const { headers } = await emsp.call('GET', '/2.2.1/hubclientinfo?limit=1&offset=1');
    return [...(headers.get('link') ?? '').matchAll(/rel="(\w+)"/g)].map(([, rel]) => rel);
  };
  t.strictSame(await rels(), ['next', 'prev']);
  t.strictSame(await quirksOf(hub, 'NL-EMS'), []);
  await set(hub, 'NL-EMS', { link_prev: false });
  t.strictSame(await rels(), ['next']);
  await emsp.call('GET', '/2.2.1/hubclientinfo?limit=1');
  t.strictSame(await quirksOf(hub, 'NL-EMS'), ['hubclientinfo first-link 1'], 'the first page has no page before it');
  t.strictSame(await sourcesOf(hub, 'NL-EMS'), ['first-link operator']);
  const { text } = await callOnce('GET', `${hub.url}/metrics`, undefined, {
    authorization: `Bearer ${hub.adminToken}`,
  });
  t.match(text, '\nocpi_hub_quirks_total{partner="NL-EMS",module="hubclientinfo",quirk="first-link"} 1\n');
});

t.test(
  'a reader that follows the link to the previous page as the next one is found, and the setting heals it',
  async (t) => {
    const clock = new SimulatedClock('2026-05-01T10:01:00.000Z');
    const hub = await hubFor(t, {}, { clock });
    const { cpo, emsp } = await routedPair(t, hub);
    for (const id of ['T1', 'T2', 'T3', 'T4']) await cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariffBody(id));
    /** Follows the first link, so many pages far or until there is none. */
    const read = async (query: string, pagesMax: number) => {
      let path: string | undefined = `/2.2.1/tariffs?${query}`;
      let pages = 0;
      for (; path !== undefined && pages < pagesMax; pages++) {
        const { headers } = await emsp.call('GET', path);
        path = /<[^>]*\/ocpi([^>]+)>/.exec(headers.get('link') ?? '')?.[1];
      }
      return pages;
    };
    await read('limit=2', 2);
    for (const _ of [1, 2]) {
      clock.advance(60_001);
      await read('limit=2&offset=0', 2);
    }
    for (const _ of [1, 2]) await read('limit=2', 3);
    await read('limit=2', 1);
    await read('limit=2&offset=2', 2);
    await read('limit=1&offset=3', 2);
    t.strictSame(await quirksOf(hub, 'NL-EMS'), [], 'once back, or anew, is no habit');
    t.equal(await read('limit=1', 9), 9, 'it never comes to an end');
    t.strictSame(await quirksOf(hub, 'NL-EMS'), ['tariffs first-link 2']);
    t.strictSame(await sourcesOf(hub, 'NL-EMS'), ['first-link learnt']);
    t.match(await reported(hub, 'NL-EMS'), [{ example: /link_prev: false/ }]);
    await set(hub, 'NL-EMS', { link_prev: false });
    t.equal(await read('limit=1', 9), 4);
  },
);

t.test(
  'authorize_to_hub: resolve queries the eMSP that pushed the token, else the only routed eMSP [D43]',
  async (t) => {
    const hub = await hubFor(t);
    const answer = () => ({ body: { allowed: 'ALLOWED' } });
    const { cpo, emsp } = await routedPair(t, hub, { emsp: answer });
    const other = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'SEC', answer });
    const unrouted = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'UNR', answer });
    const toHub = { 'OCPI-to-country-code': 'XX', 'OCPI-to-party-id': 'HUB' };
    const ask = async (uid: string, query = '', headers = {}) => {
      const before = [emsp, other, unrouted].map(({ received }) => received.length);
      const { json } = await cpo.call('POST', `/2.2.1/tokens/${uid}/authorize${query}`, {}, headers);
      const asked = [emsp, other, unrouted].filter(({ received }, i) => received.length > (before[i] ?? 0));
      return [json.status_code, ...asked.map(({ id }) => id)];
    };
    t.strictSame(await ask('CARD1'), [2001], 'refused by default');
    await set(hub, 'NL-CPO', { authorize_to_hub: 'resolve' });
    t.strictSame(await ask('CARD1'), [1000, 'NL-EMS'], 'the only routed one');
    t.strictSame(await ask('CARD1', '', toHub), [1000, 'NL-EMS'], 'to the hub');
    await admin(hub, 'PUT', '/routes/NL-SEC/NL-CPO', { active: true });
    t.strictSame(await ask('CARD1'), [2001], 'nobody pushed it, and two are routed');
    for (const [partner, party_id] of [
      [other, 'SEC'],
      [unrouted, 'UNR'],
    ] as const) {
      await partner.push('PUT', `/2.2.1/tokens/NL/${party_id}/CARD1`, tokenBody('CARD1', { party_id }));
    }
    await emsp.push('PUT', '/2.2.1/tokens/NL/EMS/CARD1?type=APP_USER', tokenBody('CARD1', { type: 'APP_USER' }));
    await hub.settled();
    t.strictSame(await ask('card1'), [1000, 'NL-SEC'], 'who pushed it');
    t.strictSame(await ask('CARD1', '?type=APP_USER', toHub), [1000, 'NL-EMS'], 'who pushed it in this type');
    await emsp.push('PUT', '/2.2.1/tokens/NL/EMS/CARD1', tokenBody('CARD1'));
    t.strictSame(await ask('CARD1'), [2001], 'two pushed it');
    t.strictSame(await quirksOf(hub, 'NL-CPO'), ['tokens authorize-to-hub 6']);
    await admin(hub, 'DELETE', '/routes/NL-SEC/NL-CPO');
    await admin(hub, 'DELETE', '/routes/NL-EMS/NL-CPO');
    const { json } = await cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', {});
    t.match(json, { status_code: 1000, data: { allowed: 'NOT_ALLOWED' } }, 'nobody is routed');
  },
);
