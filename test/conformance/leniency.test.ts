/**
 * What partners of the field send and OCPI does not foresee: taken with a warning where nothing is lost by it, refused
 * where a receiver would read something else. [D60, D64, D66, D67, D71, D75]
 */
import type { ReportView } from '../../src/api/report.ts';
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { idsOf, itemsOf } from '../support/observed.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const warningsOf = async (hub: TestHub, partner: string) => {
  const { warnings } = (await admin(hub, 'GET', `/parties/${partner}/report`)) as unknown as ReportView;
  return warnings.map(({ module, example }) => `${module} ${example}`).sort();
};

const long = 'x'.repeat(200);

t.test(
  'a field that is too long, or wrong in a snapshot, is a warning and is forwarded byte for byte [D64] [D75]',
  async (t) => {
    const clock = new SimulatedClock('2026-05-01T10:01:00.000Z');
    const hub = await hubFor(t, {}, { clock });
    const { cpo, emsp } = await routedPair(t, hub);
    const pushes: [method: string, path: string, body: object, warning: string][] = [
      [
        'PUT',
        '/tariffs/NL/CPO/T1',
        { ...tariffBody('T1'), currency: long },
        'tariffs currency: expected at most 3 characters',
      ],
      [
        ...(['PUT', '/sessions/NL/CPO/S1', sessionBody('S1', { location_id: long })] as const),
        'sessions location_id: expected at most 36 characters',
      ],
      [
        ...(['PUT', '/sessions/NL/CPO/S2', sessionBody('S2', { charging_periods: { not: 'a list' } })] as const),
        'sessions charging_periods: expected array',
      ],
      [
        ...(['POST', '/cdrs', cdrBody('C1', { cdr_location: { address: 7 }, tariffs: 'none' })] as const),
        'cdrs cdr_location.address: expected string',
      ],
      ['POST', '/cdrs', cdrBody('C2', { charging_periods: [] }), 'cdrs charging_periods: expected at least one'],
      ['POST', '/cdrs', cdrBody('C3', { charging_periods: undefined }), 'cdrs charging_periods: missing'],
      [
        ...(['POST', '/cdrs', cdrBody('C4', { cdr_location: { ...place, country: 'NL' } })] as const),
        'cdrs cdr_location.country: expected three letters, ISO 3166-1 alpha-3',
      ],
      [
        ...([
          'PUT',
          '/locations/NL/CPO/L0',
          locationBody('L0', { evses: [{ ...evse, capabilities: ['WASH'] }] }),
        ] as const),
        'locations evses[0].capabilities[0]: value unknown to OCPI 2.2.1',
      ],
      [
        ...([
          'PUT',
          '/locations/NL/CPO/L1',
          locationBody('L1', { coordinates: { latitude: '52', longitude: '4.9' } }),
        ] as const),
        'locations coordinates.latitude: expected degrees with five to seven decimals',
      ],
      [
        ...(['PUT', '/locations/NL/CPO/L2', locationBody('L2', { last_updated: '2026-05-03T00:00:00Z' })] as const),
        'locations last_updated 2026-05-03T00:00:00Z is more than a day ahead',
      ],
      [
        ...(['PUT', '/locations/NL/CPO/L3', locationBody('L3', { last_updated: '2026-05-01 09:00:00Z' })] as const),
        'locations last_updated: expected T between date and time',
      ],
    ];
    for (const [method, path, body, warning] of pushes) {
      const answer = await cpo.call(method, `/2.2.1${path}`, body);
      t.equal(answer.json.status_code, 1000, warning);
      await hub.settled();
      t.equal(emsp.received.at(-1)?.body, JSON.stringify(body), `${warning}: it arrives as it came`);
      t.ok((await warningsOf(hub, 'NL-CPO')).includes(warning), warning);
    }
  },
);

const low = (body: object) =>
  JSON.stringify(body).replace(
    /"(RFID|ALLOWED|COMPLETED|COMMAND|AVAILABLE|AC_3_PHASE|IEC_62196_T2|SOCKET|HOTEL|EV_ONLY|RESERVABLE|ENERGY)"/g,
    (word) => word.toLowerCase(),
  );

const evse = {
  ...(locationBody('L1').evses as object[])[0],
  ...{ capabilities: ['RESERVABLE'], parking_restrictions: ['EV_ONLY'] },
};
const place = {
  ...(cdrBody('C1').cdr_location as object),
  ...{ connector_standard: 'IEC_62196_T2', connector_format: 'SOCKET', connector_power_type: 'AC_3_PHASE' },
};
const periods = [{ start_date_time: '2026-05-01T09:00:00Z', dimensions: [{ type: 'ENERGY', volume: 1 }] }];

t.test('enumeration values in lower case are accepted, counted, and forwarded byte for byte [D17] [D70]', async (t) => {
  const hub = await hubFor(t, {}, { clock: new SimulatedClock('2026-05-01T10:01:00.000Z') });
  const { cpo, emsp } = await routedPair(t, hub);
  const pushes: [from: PlainPartner, to: PlainPartner, method: string, path: string, body: object, fields: string[]][] =
    [
      [emsp, cpo, 'PUT', '/tokens/NL/EMS/CARD', tokenBody('CARD'), ['tokens type', 'tokens whitelist']],
      [
        cpo,
        emsp,
        'PUT',
        '/locations/NL/CPO/L1',
        locationBody('L1', { facilities: ['HOTEL'], evses: [evse] }),
        [
          ...['locations evses[].connectors[].power_type', 'locations evses[].status', 'locations facilities[]'],
          ...['locations evses[].connectors[].standard', 'locations evses[].connectors[].format'],
          ...['locations evses[].capabilities[]', 'locations evses[].parking_restrictions[]'],
        ],
      ],
      [
        cpo,
        emsp,
        'PUT',
        '/sessions/NL/CPO/S1',
        sessionBody('S1', { status: 'COMPLETED', charging_periods: periods }),
        [
          ...['sessions auth_method', 'sessions status', 'sessions cdr_token.type'],
          'sessions charging_periods[].dimensions[].type',
        ],
      ],
      [
        cpo,
        emsp,
        'POST',
        '/cdrs',
        cdrBody('C1', { cdr_location: place }),
        [
          ...['cdrs auth_method', 'cdrs charging_periods[].dimensions[].type', 'cdrs cdr_token.type'],
          ...['connector_standard', 'connector_format', 'connector_power_type'].map(
            (one) => `cdrs cdr_location.${one}`,
          ),
        ],
      ],
    ];
  for (const [from, to, method, path, body, fields] of pushes) {
    const text = low(body);
    const answer = await ocpi(hub, method, `/2.2.1${path}`, { token: from.hubToken, body: text });
    t.equal(answer.json.status_code, 1000, path);
    await hub.settled();
    t.equal(to.received.at(-1)?.body, text, `${path}: it arrives as it came`);
    const { warnings, quirks } = (await admin(hub, 'GET', `/parties/${from.id}/report`)) as unknown as ReportView;
    const warned = warnings.filter(({ example }) => example.endsWith('expected upper case'));
    for (const field of fields)
      t.ok(
        warned.some((one) => `${one.module} ${one.field}` === field),
        field,
      );
    const [module = ''] = fields[0]?.split(' ') ?? [];
    t.match(
      quirks.filter((one) => one.module === module),
      [{ quirk: 'lower-case', count: 1, source: 'learnt' }],
      module,
    );
  }
  t.match(await itemsOf(hub, '/events?type=object.put&object=NL-CPO/S1'), [
    { data: { facts: { status: 'COMPLETED' } } },
  ]);
  t.equal((await cpo.call('GET', '/2.2.1/tokens/NL/EMS/CARD?type=rfid')).json.status_code, 1000, 'found by its type');
});

t.test('an empty enumeration value is a warning where the hub does not need one [D17] [D70] [D71]', async (t) => {
  const hub = await hubFor(t, {}, { clock: new SimulatedClock('2026-05-01T10:01:00.000Z') });
  const { cpo, emsp } = await routedPair(t, hub, { cpo: () => ({ body: { result: 'ACCEPTED', timeout: 30 } }) });
  const [usual] = locationBody('LOC1').evses as { connectors: object[] }[];
  const connectors = usual?.connectors.map((connector) => ({ ...connector, power_type: '' }));
  const own = { ...usual, status: '', capabilities: [''], connectors };
  const element = { price_components: [{ type: '', price: 0.3, step_size: 1 }] };
  const pushes: [path: string, body: object, fields: string[]][] = [
    ['/sessions/NL/CPO/S1', sessionBody('S1', { auth_method: '' }), ['auth_method']],
    ['/cdrs', cdrBody('C1', { auth_method: '' }), ['auth_method']],
    ['/tariffs/NL/CPO/T1', tariffBody('T1', { type: '', elements: [element] }), ['type']],
    [
      ...(['/locations/NL/CPO/LOC1', locationBody('LOC1', { evses: [own] })] as const),
      ['evses[].status', 'evses[].capabilities[]', 'evses[].connectors[].power_type'],
    ],
    ['/tokens/NL/EMS/CARD1', tokenBody('CARD1', { type: '', whitelist: '' }), ['type', 'whitelist']],
  ];
  for (const [path, body, fields] of pushes) {
    const [from, to] = path.startsWith('/tokens') ? [emsp, cpo] : [cpo, emsp];
    const answer = await from.call(path === '/cdrs' ? 'POST' : 'PUT', `/2.2.1${path}`, body);
    t.equal(answer.json.status_code, 1000, path);
    await hub.settled();
    t.equal(to.received.at(-1)?.body, JSON.stringify(body), `${path}: it arrives as it came`);
    const { warnings } = (await admin(hub, 'GET', `/parties/${from.id}/report`)) as unknown as ReportView;
    const [, module = ''] = path.split('/');
    const unknown = warnings.filter((one) => one.module === module && /unknown to OCPI/.test(one.example));
    t.ok(
      fields.every((field) => unknown.some((one) => one.field === field)),
      `${path}: ${fields}`,
    );
  }
  t.equal(cpo.received.at(-1)?.path, '/ocpi/2.2.1/tokens/NL/EMS/CARD1?type=RFID', 'no type is RFID');
  const token = { uid: 'CARD1', type: '', contract_id: 'C1' };
  const start = { response_url: `${emsp.url}/result`, location_id: 'LOC1', token };
  await emsp.push('POST', '/2.2.1/commands/START_SESSION', start);
  const status = await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S2', sessionBody('S2', { status: '' }));
  t.match(status.json, { status_code: 2001, status_message: /^status: expected one of ACTIVE, / }, 'the hub needs it');
});

t.test(
  'dates in forms of ISO 8601 that RFC 3339 lacks are accepted with a warning, and forwarded as received [D17] [D70]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub);
    const forms = [
      '2026-01-02T03:04Z',
      '2026-01-02T03:04:05.678+0000',
      '2026-01-02T03:04:06+00',
      '2026-01-02T03:04:07,5Z',
    ];
    for (const date of forms) {
      const body = sessionBody('S1', { start_date_time: date, last_updated: date });
      const answer = await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', body);
      t.equal(answer.json.status_code, 1000, date);
      await hub.settled();
      t.equal(emsp.received.at(-1)?.body, JSON.stringify(body), date);
    }
    const { quirks, warnings } = (await admin(hub, 'GET', '/parties/NL-CPO/report')) as unknown as ReportView;
    t.match(quirks, [{ module: 'sessions', quirk: 'iso-date', count: 4 }]);
    t.match(
      warnings.map(({ field, count }) => [field, count]),
      [
        ['start_date_time', 4],
        ['last_updated', 4],
      ],
    );
    const list = (from: string) => emsp.call('GET', `/2.2.1/sessions?date_from=${from}`);
    t.same(idsOf(await list('2026-01-02T03:04:07.5Z')), ['S1'], 'the list is in order of the instants');
    t.same(idsOf(await list('2026-01-02T03:04:07.6Z')), []);
  },
);

t.test('deviations in credentials and commands are warnings, too [D70] [D71]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, { cpo: () => ({ body: { result: 'ACCEPTED', timeout: 30 } }) });
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  const token = { ...tokenBody('CARD'), whitelist: 'allowed', last_updated: '2026-05-01 09:00:00Z' };
  const command = JSON.stringify({ response_url: `${emsp.url}/ocpi/result`, location_id: 'LOC1', token });
  const started = await ocpi(hub, 'POST', '/2.2.1/commands/START_SESSION', {
    ...{ token: emsp.hubToken, body: `\uFEFF${command}` },
  });
  t.match(started.json, { status_code: 1000, data: { result: 'ACCEPTED' } });
  t.same(await warningsOf(hub, 'NL-EMS'), [
    'commands body: begins with a byte order mark',
    'commands token.last_updated: expected T between date and time',
    'commands token.whitelist: expected upper case',
  ]);
  const roles = [{ role: 'cpo', country_code: 'NL', party_id: 'CPO', business_details: { name: 'CPO' } }];
  const exchanged = await cpo.call('PUT', '/2.2.1/credentials', {
    ...{ token: cpo.token, url: `${cpo.url}/ocpi/versions`, roles },
  });
  t.equal(exchanged.json.status_code, 1000);
  t.same(await warningsOf(hub, 'NL-CPO'), ['credentials roles[0].role: expected upper case']);
  const { quirks } = (await admin(hub, 'GET', '/parties/NL-CPO/report')) as unknown as ReportView;
  t.match(quirks, [{ module: 'credentials', quirk: 'lower-case', count: 1 }]);
});

t.test('deviations in a logo, which the hub does not use, are warnings in credentials [D64] [D70]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const image = { url: 'https://cpo.example/logo.png', category: 'OPERATOR', type: 'png' };
  for (const [logo, warning] of [
    ['https://cpo.example/logo.png', 'logo: expected object'],
    [{ ...image, width: '512' }, 'logo.width: expected integer'],
  ] as const) {
    const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO', business_details: { name: 'CPO', logo } }];
    const body = { token: cpo.token, url: `${cpo.url}/ocpi/versions`, roles };
    const { json } = await cpo.call('PUT', '/2.2.1/credentials', body);
    t.match(json, { status_code: 1000, data: { token: String } }, warning);
    cpo.hubToken = (json.data as { token: string }).token;
    const warnings = await warningsOf(hub, 'NL-CPO');
    t.ok(warnings.includes(`credentials roles[0].business_details.${warning}`), warnings.join());
  }
});

t.test('a pushed object with many null fields is counted as the quirk `nulls`, without a check [D70]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1', { min_price: null, max_price: null }));
  const body = tariffBody('T2', { min_price: null, max_price: null, energy_mix: null });
  await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/T2', body);
  await hub.settled();
  t.equal(emsp.received.at(-1)?.body, JSON.stringify(body), 'they arrive as they came');
  const { quirks } = (await admin(hub, 'GET', '/parties/NL-CPO/report')) as unknown as ReportView;
  t.match(quirks, [{ module: 'tariffs', quirk: 'nulls', count: 1, example: /^NL-CPO\/T2|null/ }]);
});

t.test(
  'allowed and result in lower case decide as in upper case, and are forwarded as received [D17] [D72]',
  async (t) => {
    const hub = await hubFor(t, {}, { clock: new SimulatedClock('2026-05-01T10:01:00.000Z') });
    const { cpo, emsp } = await routedPair(t, hub, {
      cpo: () => ({ body: { result: 'accepted', timeout: 30 } }),
      emsp: ({ path }) => (path.includes('authorize') ? { body: { allowed: 'allowed' } } : {}),
    });
    const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
    const asked = await cpo.call('POST', '/2.2.1/tokens/CARD/authorize', {}, to);
    t.match(asked.json, { status_code: 1000, data: { allowed: 'allowed' } });
    await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { status: 'ACTIVE' }));
    const response_url = `${emsp.url}/ocpi/result`;
    const stop = await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', { response_url, session_id: 'S1' });
    t.match(stop.json, { status_code: 1000, data: { result: 'accepted' } });
    t.match(await itemsOf(hub, '/orphans?state=GRACE'), [{ session: 'NL-CPO/S1' }], 'the stop counts as accepted');
    const { response_url: callback } = JSON.parse(cpo.received.at(-1)?.body ?? '{}') as { response_url: string };
    await cpo.push('POST', new URL(callback).pathname.replace('/ocpi', ''), { result: 'accepted' });
    t.equal(emsp.received.at(-1)?.body, '{"result":"accepted"}');
    t.match(await itemsOf(hub, '/commands'), [{ result: 'ACCEPTED' }]);
    const quirksOf = async (id: string) =>
      ((await admin(hub, 'GET', `/parties/${id}/report`)) as unknown as ReportView).quirks.map(
        ({ module, quirk, count }) => `${module} ${quirk} ${count}`,
      );
    t.same(await quirksOf('NL-CPO'), ['commands lower-case 2']);
    t.same(await quirksOf('NL-EMS'), ['tokens lower-case 1']);
  },
);

t.test('a price of a later version is refused: its receiver would bill wrongly [D64]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  const cost = { before_taxes: 10, taxes: [] };
  const cdr = await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1', { total_cost: cost }));
  t.match(cdr.json, { status_code: 2001, status_message: /^total_cost\.before_taxes: expected excl_vat/ });
  const tariff = await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/T1', { ...tariffBody('T1'), tax_included: 'YES' });
  t.match(tariff.json, { status_code: 2001, status_message: /^tax_included: expected prices without VAT/ });
  const clear = await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/T1', { ...tariffBody('T1'), tax_included: 'NO' });
  t.equal(clear.json.status_code, 1000);
  await hub.settled();
  t.equal(emsp.received.length, 1);
});

t.test('a cdr_token without a party is distinguished from a missing one [D75]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { cdr_token: { uid: 'X' } }));
  t.match(await itemsOf(hub, '/stored-not-forwarded'), [{ object: 'NL-CPO/S1', reason: 'cdr_token names no party' }]);
});

t.test(
  'a byte order mark is not forwarded, and an authorize may have a Content-Type without a body [D71] [D84]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ body: { allowed: 'ALLOWED' } }) });
    const text = JSON.stringify(locationBody('L1'));
    const answer = await ocpi(hub, 'PUT', '/2.2.1/locations/NL/CPO/L1', { token: cpo.hubToken, body: `\uFEFF${text}` });
    t.equal(answer.json.status_code, 1000);
    await hub.settled();
    t.equal(emsp.received.at(-1)?.body, text);
    t.same(await warningsOf(hub, 'NL-CPO'), ['locations body: begins with a byte order mark']);
    for (const body of ['null', '""', '[]']) {
      const headers = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
      const asked = await ocpi(hub, 'POST', '/2.2.1/tokens/CARD/authorize?type=', {
        token: cpo.hubToken,
        body,
        headers,
      });
      t.match(asked.json, { status_code: 1000, data: { allowed: 'ALLOWED' } }, body);
      t.equal(emsp.received.at(-1)?.body, '', `${body} is sent as no body`);
    }
  },
);

t.test('HEAD is answered on every path of GET [D71]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await emsp.call('PUT', '/2.2.1/tokens/NL/EMS/CARD', tokenBody('CARD'));
  const heads: [PlainPartner, string][] = [
    [emsp, '/versions'],
    [emsp, '/2.2.1'],
    [emsp, '/2.2.1/credentials'],
    [emsp, '/2.2.1/locations'],
    [cpo, '/2.2.1/tokens'],
    [emsp, '/2.2.1/locations/L1'],
  ];
  for (const [partner, path] of heads) {
    const head = await partner.call('HEAD', path);
    const get = await partner.call('GET', path);
    t.equal(head.status, get.status, path);
    t.equal(head.text, '', `${path}: no body`);
  }
});

t.test('an eMSP without a receiver for locations is owed none, and its report counts them [D60]', async (t) => {
  const hub = await hubFor(t);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsp = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
    modules: [['sessions', 'RECEIVER']],
  });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  for (const id of ['L1', 'L2']) await cpo.call('PUT', `/2.2.1/locations/NL/CPO/${id}`, locationBody(id));
  await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'));
  await hub.settled();
  t.equal(emsp.received.length, 0);
  t.match(await itemsOf(hub, '/deliveries?receiver=NL-EMS'), [{ module: 'cdrs', state: 'DEAD' }], 'but CDRs are money');
  const { quirks } = (await admin(hub, 'GET', '/parties/NL-EMS/report')) as unknown as ReportView;
  t.match(quirks, [{ module: 'locations', quirk: 'not-subscribed', count: 2, object: 'NL-CPO/L2' }]);
  const { steps } = (await admin(hub, 'GET', '/trace/NL-CPO%2FL1')) as { steps: { warnings: string[] }[] };
  t.same(steps[0]?.warnings, ['not sent to NL-EMS: no locations receiver']);
  const listed = await emsp.call('GET', '/2.2.1/locations');
  t.equal((listed.json.data as object[]).length, 2, 'it reads the list');
});

t.test('a response_url that the hub would never call is refused at once [D67]', async (t) => {
  const hub = await hubFor(t, { HUB_EGRESS_ALLOW: '127.0.0.1' });
  const { cpo, emsp } = await routedPair(t, hub);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  const refusals: [url: string, reason: RegExp][] = [
    ['https://user:secret@emsp.example/r', /^response_url: a URL with credentials/],
    ['http://169.254.169.254/r', /^response_url: /],
    ['http://[fe80::1]/r', /^response_url: /],
    [`${hub.url}/ocpi/2.2.1/sessions`, /^response_url: the hub's own address/],
  ];
  for (const [response_url, status_message] of refusals) {
    const answer = await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', { response_url, session_id: 'S1' });
    t.match(answer.json, { status_code: 2001, status_message }, response_url);
  }
  t.equal(cpo.received.length, 0);
});

t.test('a command whose answer was lost counts as accepted once its result is ACCEPTED [D66]', async (t) => {
  const clock = new SimulatedClock('2026-05-01T10:01:00.000Z');
  const hub = await hubFor(t, {}, { clock });
  const { cpo, emsp } = await routedPair(t, hub, { cpo: () => ({ status: 500, text: 'lost' }) });
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { status: 'ACTIVE' }));
  const response_url = `${emsp.url}/ocpi/result`;
  const token = tokenBody('CARD');
  const reservation = { reservation_id: 'R1', expiry_date: '2026-05-02T00:00:00Z', location_id: 'L1', token };
  await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', { response_url, session_id: 'S1' });
  await emsp.call('POST', '/2.2.1/commands/RESERVE_NOW', { response_url, ...reservation });
  const callbacks = cpo.received.map(
    ({ body }) => new URL((JSON.parse(body) as { response_url: string }).response_url),
  );
  t.equal(callbacks.length, 2);
  for (const { pathname } of callbacks) await cpo.call('POST', pathname.replace('/ocpi', ''), { result: 'ACCEPTED' });
  await hub.settled();
  t.match(await itemsOf(hub, '/orphans?state=GRACE'), [{ session: 'NL-CPO/S1' }], 'the stop is watched');
  const cancel = await emsp.call('POST', '/2.2.1/commands/CANCEL_RESERVATION', { response_url, reservation_id: 'R1' });
  t.equal(cancel.status, 502, 'the reservation is found, and its CPO is asked');
  t.equal(cpo.received.length, 3);
});

for (const results of [['ACCEPTED'], ['FAILED', 'ACCEPTED']])
  t.test(`a command counts as accepted whose answer was lost behind ${results.join(', ')} [D29, D66]`, async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub, {
      async cpo({ body }) {
        const { response_url } = JSON.parse(body) as { response_url: string };
        const callback = new URL(response_url).pathname.replace('/ocpi', '');
        for (const result of results) await cpo.push('POST', callback, { result });
        return { status: 502, text: 'lost' };
      },
    });
    await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
    await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { status: 'ACTIVE' }));
    const response_url = `${emsp.url}/ocpi/result`;
    const reservation = { expiry_date: '2099-05-02T00:00:00Z', location_id: 'L1', token: tokenBody('CARD') };
    for (const [command, fields] of [
      ['STOP_SESSION', { session_id: 'S1' }],
      ['RESERVE_NOW', { reservation_id: 'R1', ...reservation }],
    ] as const) {
      t.equal((await emsp.call('POST', `/2.2.1/commands/${command}`, { response_url, ...fields })).status, 502);
    }
    await hub.settled();
    t.match(await itemsOf(hub, '/orphans?state=GRACE'), [{ session: 'NL-CPO/S1' }], 'the stop is watched');
    const cancel = await emsp.call('POST', '/2.2.1/commands/CANCEL_RESERVATION', {
      ...{ response_url, reservation_id: 'R1' },
    });
    t.equal(cancel.status, 502, 'the reservation is found, and its CPO is asked');
  });

t.test('a result ACCEPTED counts after another result of a command whose answer was lost [D66]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, { cpo: () => ({ status: 500, text: 'lost' }) });
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { status: 'ACTIVE' }));
  const stop = { response_url: `${emsp.url}/ocpi/result`, session_id: 'S1' };
  await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', stop);
  const [sent] = cpo.received.map(({ body }) => new URL((JSON.parse(body) as { response_url: string }).response_url));
  const callback = sent?.pathname.replace('/ocpi', '') ?? '';
  await cpo.call('POST', callback, { result: 'FAILED' });
  await hub.settled();
  t.strictSame(await itemsOf(hub, '/orphans?state=GRACE'), [], 'a stop that failed is not watched');
  await cpo.call('POST', callback, { result: 'ACCEPTED' });
  await hub.settled();
  t.match(await itemsOf(hub, '/orphans?state=GRACE'), [{ session: 'NL-CPO/S1' }]);
});
