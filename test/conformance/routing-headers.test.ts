/**
 * What `OCPI-to` narrows: reads and lists to one counterpart, pushes of catalogues to one receiver; whom a command
 * means when its EVSE tells; and who an answer comes from. [D68]
 */
import type { ReportView } from '../../src/api/report.ts';
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';

const to = (id: string) => ({ 'OCPI-to-country-code': id.slice(0, 2), 'OCPI-to-party-id': id.slice(3) });

let hub: TestHub;
let cpo: PlainPartner;
let otherCpo: PlainPartner;
let emsp: PlainPartner;
let otherEmsp: PlainPartner;
let unrouted: PlainPartner;

t.before(async () => {
  hub = await hubFor(t, { HUB_RATE_LISTS_PER_MIN: '100000' });
  const answer = () => ({ body: { result: 'ACCEPTED', timeout: 30 } });
  const make = (role: 'CPO' | 'EMSP', partyId: string) =>
    partnerFor(t, hub, { role, countryCode: 'NL', partyId, answer });
  cpo = await make('CPO', 'CPO');
  otherCpo = await make('CPO', 'OTH');
  emsp = await make('EMSP', 'EMS');
  otherEmsp = await make('EMSP', 'SEC');
  unrouted = await make('EMSP', 'UNR');
  for (const pair of ['NL-EMS/NL-CPO', 'NL-EMS/NL-OTH', 'NL-SEC/NL-CPO']) {
    await admin(hub, 'PUT', `/routes/${pair}`, { active: true });
  }
  const ofOther = { party_id: 'OTH' };
  for (const [partner, name, fields] of [
    [cpo, 'CPO', {}],
    [otherCpo, 'OTH', ofOther],
  ] as const) {
    const evse = (uid: string) => ({ uid, connectors: [], last_updated: '2026-01-02T03:04:05Z' });
    await partner.push('PUT', `/2.2.1/tariffs/NL/${name}/SAME`, tariffBody('SAME', fields));
    await partner.push(
      'PUT',
      `/2.2.1/locations/NL/${name}/SAME`,
      locationBody('SAME', { ...fields, evses: [evse('BOTH'), evse(`OF-${name}`)] }),
    );
    await partner.push('PUT', `/2.2.1/sessions/NL/${name}/S-${name}`, sessionBody(`S-${name}`, fields));
    await partner.push('POST', '/2.2.1/cdrs', cdrBody('SAME', fields));
  }
  await emsp.push('PUT', '/2.2.1/tokens/NL/EMS/CARD1', tokenBody('CARD1'));
  await otherEmsp.push('PUT', '/2.2.1/tokens/NL/SEC/CARD2', tokenBody('CARD2', { party_id: 'SEC' }));
  await hub.settled();
});

const lists = ['locations', 'tariffs', 'sessions', 'cdrs'].map((module) => `${module}?date_from=2026-01-01T00:00:00Z`);

t.test('a list with OCPI-to has the objects of that counterpart alone, and counts only those [D68]', async (t) => {
  for (const list of lists) {
    const ask = async (headers = {}) => {
      const { json, headers: said } = await emsp.call('GET', `/2.2.1/${list}`, undefined, headers);
      const items = json.data as { party_id: string }[];
      return [items.map(({ party_id }) => party_id).sort(), said.get('x-total-count')];
    };
    t.strictSame(await ask(), [['CPO', 'OTH'], '2'], list);
    t.strictSame(await ask(to('NL-OTH')), [['OTH'], '1'], `${list} of one`);
    t.strictSame(await ask(to('nl-oth')), [['OTH'], '1'], `${list} of one, in another case`);
    t.strictSame(await ask(to('XX-HUB')), [['CPO', 'OTH'], '2'], `${list} of the hub`);
    t.strictSame(await ask(to('NL-SEC')), [[], '0'], `${list} of nobody routed`);
    t.strictSame(await ask(to('DE-XXX')), [[], '0'], `${list} of nobody known`);
  }
  const tokens = async (headers = {}) => {
    const { json } = await cpo.call('GET', '/2.2.1/tokens', undefined, headers);
    return (json.data as { uid: string }[]).map(({ uid }) => uid).sort();
  };
  t.strictSame(await tokens(), ['CARD1', 'CARD2']);
  t.strictSame(await tokens(to('NL-SEC')), ['CARD2']);
  t.strictSame(await tokens(to('NL-UNR')), []);
});

t.test('pages of one counterpart follow each other [D68]', async (t) => {
  for (const id of ['P1', 'P2', 'P3']) {
    await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
    await otherCpo.push('PUT', `/2.2.1/sessions/NL/OTH/${id}`, sessionBody(id, { party_id: 'OTH' }));
  }
  const seen: string[] = [];
  let path = '/2.2.1/sessions?date_from=2026-01-01T00:00:00Z&limit=1';
  for (let pages = 0; path !== '' && pages < 10; pages++) {
    const { json, headers } = await emsp.call('GET', path, undefined, to('NL-CPO'));
    seen.push(...(json.data as { party_id: string; id: string }[]).map(({ party_id, id }) => `${party_id} ${id}`));
    const next = /<([^>]*)>; rel="next"/.exec(headers.get('link') ?? '')?.[1];
    path = next ? new URL(next).pathname.replace('/ocpi', '') + new URL(next).search : '';
  }
  t.strictSame(seen, ['CPO P1', 'CPO P2', 'CPO P3', 'CPO S-CPO']);
});

t.test(
  'OCPI-to selects the counterpart whose object is read, also when two have the same id [D27] [D68]',
  async (t) => {
    const ask = async (partner: PlainPartner, path: string, headers = {}) => {
      const { status, json } = await partner.call('GET', `/2.2.1/${path}`, undefined, headers);
      const { party_id } = (json.data ?? {}) as { party_id?: string };
      return [status, json.status_code, party_id ?? json.status_message];
    };
    for (const path of ['locations/SAME', 'cdrs/SAME']) {
      t.match(await ask(emsp, path), [200, 2001, /^ambiguous: 2 owners/], path);
      t.strictSame(await ask(emsp, path, to('NL-OTH')), [200, 1000, 'OTH'], `${path} of the one that is named`);
      t.strictSame(await ask(emsp, path, to('XX-HUB')), await ask(emsp, path), `${path} of the hub`);
      t.strictSame(await ask(emsp, path, to('DE-XXX')), [404, 2003, 'Not found'], `${path} of an unknown party`);
    }
    t.equal((await ask(emsp, 'locations/SAME/OF-OTH'))[0], 200, 'an EVSE that one alone has needs no header');
    const fixed = ['tariffs/NL/CPO/SAME', 'sessions/NL/CPO/S-CPO', 'locations/NL/CPO/SAME'];
    for (const path of fixed) {
      t.strictSame(await ask(emsp, path, to('NL-CPO')), [200, 1000, 'CPO'], path);
      t.strictSame(await ask(emsp, path, to('NL-OTH')), [404, 2003, 'Not found'], `${path} of another party`);
      t.strictSame(await ask(cpo, path, to('NL-EMS')), [200, 1000, 'CPO'], `${path} by its owner`);
      t.strictSame(await ask(cpo, path, to('NL-UNR')), [404, 2003, 'Not found'], `${path} by its owner, unrouted`);
    }
    t.equal((await ask(cpo, 'tokens/NL/SEC/CARD2', to('NL-EMS')))[0], 404);
    t.equal((await ask(cpo, 'tokens/NL/SEC/CARD2', to('NL-SEC')))[0], 200);
  },
);

const pushes: readonly [method: string, path: string, body: object][] = [
  ['PUT', 'tariffs/NL/CPO/T1', tariffBody('T1')],
  ['PUT', 'locations/NL/CPO/L1', locationBody('L1')],
  ['PATCH', 'locations/NL/CPO/L1', { name: 'B', last_updated: '2026-01-03T00:00:00Z' }],
];

t.test('a push of a catalogue with OCPI-to goes to that party alone [D68]', async (t) => {
  for (const [method, path, body] of pushes) {
    const title = `${method} ${path}`;
    const counts = () => [emsp, otherEmsp, unrouted].map(({ received }) => received.length);
    const push = async (headers: Record<string, string>) => {
      const before = counts();
      await cpo.push(method, `/2.2.1/${path}`, body, headers);
      await hub.settled();
      return counts().map((count, i) => count - (before[i] ?? 0));
    };
    t.strictSame(await push(to('NL-EMS')), [1, 0, 0], `${title} to one`);
    t.strictSame(await push(to('NL-UNR')), [0, 0, 0], `${title} to one that is not routed`);
    t.strictSame(await push(to('DE-XXX')), [0, 0, 0], `${title} to nobody`);
    t.strictSame(await push(to('XX-HUB')), [1, 1, 0], `${title} to the hub`);
    t.strictSame(await push({ 'OCPI-to-party-id': 'EMS' }), [1, 1, 0], `${title} to half a party`);
  }
  const { steps } = (await admin(hub, 'GET', '/trace/NL-CPO/T1')) as { steps: { explanation?: string }[] };
  t.match(JSON.stringify(steps), /OCPI-to names a party that no active routing rule lets/);
  const before = otherEmsp.received.length;
  await cpo.push('PATCH', '/2.2.1/locations/NL/CPO/L1', { name: 'C', last_updated: '2026-01-04T00:00:00Z' });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L2', locationBody('L2'), to('NL-EMS'));
  await cpo.push('PATCH', '/2.2.1/locations/NL/CPO/L2', { name: 'D', last_updated: '2026-01-04T00:00:00Z' });
  await hub.settled();
  t.strictSame(
    otherEmsp.received.slice(before).map(({ method, path }) => `${method} ${path.slice(-2)}`),
    ['PATCH L1', 'PUT L2'],
    'who was left out gets the whole with the next part',
  );
});

t.test(
  'a change that ends or hides an object goes to all who have it: the hub keeps one copy [D21] [D68]',
  async (t) => {
    const before = otherEmsp.received.length;
    await cpo.push('DELETE', '/2.2.1/tariffs/NL/CPO/T1', undefined, to('NL-EMS'));
    await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1', { publish: false }), to('NL-EMS'));
    await hub.settled();
    t.strictSame(
      otherEmsp.received
        .slice(before)
        .map(({ method }) => method)
        .sort(),
      ['DELETE', 'PUT'],
    );
  },
);

t.test('a token push with OCPI-to goes to that CPO alone [D68]', async (t) => {
  const before = [cpo.received.length, otherCpo.received.length] as const;
  await emsp.push('PUT', '/2.2.1/tokens/NL/EMS/CARD9', tokenBody('CARD9'), to('NL-OTH'));
  await hub.settled();
  t.strictSame([cpo.received.length - before[0], otherCpo.received.length - before[1]], [0, 1]);
});

t.test('an OCPI-to that is not routed is a warning; cdr_token decides for sessions and CDRs [D68] [D70]', async (t) => {
  const before = emsp.received.length;
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/W1', sessionBody('W1'), to('NL-SEC'));
  await cpo.push('POST', '/2.2.1/cdrs', cdrBody('W1'), to('NL-EMS'));
  await hub.settled();
  t.equal(emsp.received.length - before, 2);
  const { warnings } = (await admin(hub, 'GET', '/parties/NL-CPO/report')) as unknown as ReportView;
  t.strictSame(
    warnings
      .filter(({ field }) => field.startsWith('OCPI'))
      .map(({ module, example }) => `${module} ${example}`)
      .sort(),
    [
      'locations OCPI-to-country-code: expected string',
      'locations OCPI-to-party-id: DE-XXX is not routed, so nobody gets it',
      'sessions OCPI-to-party-id: NL-SEC is not the eMSP of the cdr_token',
      'tariffs OCPI-to-country-code: expected string',
      'tariffs OCPI-to-party-id: DE-XXX is not routed, so nobody gets it',
    ],
  );
});

t.test('a command for a location id of two CPOs means the one that has its EVSE [D27] [D68]', async (t) => {
  const start = (evse_uid?: string) =>
    emsp.call('POST', '/2.2.1/commands/START_SESSION', {
      ...{ response_url: `${emsp.url}/result`, token: { uid: 'CARD1', type: 'RFID', contract_id: 'C' } },
      ...{ location_id: 'SAME', ...(evse_uid && { evse_uid }) },
    });
  const commandsOf = ({ received }: PlainPartner) => received.filter(({ path }) => path.includes('/commands/')).length;
  t.match((await start()).json, { status_code: 2001, status_message: 'ambiguous: 2 CPOs use this id' });
  t.match((await start('BOTH')).json, { status_code: 2001, status_message: 'ambiguous: 2 CPOs use this id' });
  t.match((await start('NONE')).json, { status_code: 2001, status_message: 'ambiguous: 2 CPOs use this id' });
  t.match((await start('of-oth')).json, { status_code: 1000, data: { result: 'ACCEPTED' } });
  t.strictSame([commandsOf(cpo), commandsOf(otherCpo)], [0, 1]);
});

t.test(
  'large locations are read for a command one at a time, in room that is freed before the CPO is called [ADMISSION-3]',
  async (t) => {
    for (const owner of [cpo, otherCpo]) {
      const party_id = owner.id.slice(3);
      const evses = [
        {
          uid: owner.id,
          status: 'AVAILABLE',
          connectors: [],
          last_updated: '2026-01-02T03:04:05Z',
        },
      ];
      await owner.push(
        'PUT',
        `/2.2.1/locations/NL/${party_id}/BIG`,
        locationBody('BIG', { party_id, evses, 'x-own': 'x'.repeat(70_000) }),
      );
    }
    const { hub: verbs } = hub.created;
    const credential = verbs.authenticate(emsp.hubToken, '127.0.0.1');
    const party = credential?.partner.roles[0];
    if (!credential || !party) throw new Error('unknown');
    const caller = { partner: credential.partner, party, id: emsp.id, trace: { requestId: 'r', correlationId: 'c' } };
    const request = {
      ...({ command: 'START_SESSION', to: null, responseUrl: `${emsp.url}/result`, locationId: 'BIG' } as const),
      ...{ within: ['nl-oth'], sessionId: null, reservationId: null, tokenUid: null, authorizationReference: null },
      bodyFor: (response_url: string) => JSON.stringify({ response_url }),
    };
    otherCpo.received.length = 0;
    const room: string[] = [];
    const answer = await verbs.command(caller, request, async (characters, read) => {
      room.push(characters >= 70_000 ? 'reserved' : 'too little');
      const found = await read();
      room.push(`free, calls: ${otherCpo.received.length}`);
      return found;
    });
    t.equal(answer.result, 'ACCEPTED');
    t.strictSame(room, ['reserved', 'free, calls: 0', 'reserved', 'free, calls: 0']);
    t.equal(otherCpo.received.length, 1);
  },
);

t.test('an answer comes from the party that was called, never from an unknown one [D68]', async (t) => {
  const from = async (headers: Record<string, string>) => {
    const { headers: said } = await emsp.call('GET', '/2.2.1/locations', undefined, headers);
    return `${said.get('ocpi-from-country-code')}-${said.get('ocpi-from-party-id')}`;
  };
  const own = 'XX-HUB';
  t.equal(await from({}), own);
  t.equal(await from(to('DE-XXX')), own);
  t.equal(await from(to('nl-cpo')), 'NL-CPO');
  t.equal(await from({ 'OCPI-to-party-id': 'CPO' }), own);
});
