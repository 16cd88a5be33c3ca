/**
 * Catalogues on the wire: locations on three levels, tariffs, and who gets what of them.
 */
import { locationBody, tariffBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { arrivals, dataText, idsOf, itemsOf, lines, quiet, statusOf, warningsAbout } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';

const hub = await hubFor(t);
const { cpo, emsp } = await routedPair(t, hub);
const stranger = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'BE', partyId: 'STR' });
const otherCpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'DE', partyId: 'CPO' });

const base = '/2.2.1/locations/NL/CPO';
const wire = '/ocpi/2.2.1/locations/NL/CPO';
const notFound = '404/2003';
const done = '200/1000';

/** Odd on purpose: white space, escapes, numbers that a rewrite would change, fields that nobody knows. */
const odd = (fields: string) =>
  `{ "x_unknown" : {"a":[1.0,1e2,-0,0.10,12345678901234567890],"\\u0061b":"caf\\u00e9 \\/ \\ud83d\\udd0c"},\r\n\t${fields} }`;

const instant = (minute: number) => `2026-02-01T10:${String(minute).padStart(2, '0')}:00Z`;
const dataOf = (answer: { json: { data?: unknown } }) => answer.json.data as Record<string, unknown>;

const connectorText = odd(`"id":"1","standard":"IEC_62196_T2","max_voltage":230,"last_updated":"${instant(2)}"`);
const evseText = odd(`"uid":"E1","status":"AVAILABLE","connectors":[],"last_updated":"${instant(1)}"`);
const locationText = odd(
  `"country_code":"NL","party_id":"CPO","id":"ODD","publish":true,"evses":[],"last_updated":"${instant(0)}"`,
);

const pushes = [
  { what: 'PUT of a location', method: 'PUT', path: '/ODD', body: locationText },
  { what: 'PUT of an EVSE', method: 'PUT', path: '/ODD/E1', body: evseText },
  { what: 'PUT of a connector', method: 'PUT', path: '/ODD/E1/1', body: connectorText },
  { what: 'PATCH of a connector', method: 'PATCH', path: '/ODD/E1/1', body: odd(`"last_updated":"${instant(3)}"`) },
  { what: 'PATCH of an EVSE', method: 'PATCH', path: '/ODD/E1', body: odd(`"last_updated":"${instant(4)}"`) },
  { what: 'PATCH of a location', method: 'PATCH', path: '/ODD', body: odd(`"last_updated":"${instant(5)}"`) },
] as const;

t.test(
  'routed eMSPs get the same method, path and bytes on all three levels [interface, Locations; D15, D17]',
  async (t) => {
    const strangersBefore = stranger.received.length;
    for (const { what, method, path, body } of pushes) {
      const [came, ...more] = await arrivals(hub, emsp, async () => {
        t.equal(statusOf(await cpo.call(method, base + path, body)), done, what);
      });
      t.equal(`${came?.method} ${came?.path}`, `${method} ${wire}${path}`, `${what}: method and path`);
      t.equal(came?.body, body, `${what}: bytes`);
      t.same(more, [], `${what}: once`);
      const routing = ['from-country-code', 'from-party-id', 'to-country-code', 'to-party-id'];
      t.same(
        routing.map((name) => came?.headers[`ocpi-${name}`]),
        ['NL', 'CPO', 'NL', 'EMS'],
        `${what}: routing headers`,
      );
    }
    t.equal(stranger.received.length, strangersBefore, 'an eMSP without a routing rule gets nothing');
  },
);

t.test('an EVSE or connector update moves last_updated of its parents and touches nothing else [D18]', async (t) => {
  const sibling = { uid: 'E2', status: 'BLOCKED', connectors: [], last_updated: instant(0) };
  const connectors = ['1', '2'].map((id) => ({ id, standard: 'IEC_62196_T2', last_updated: instant(0) }));
  const evse = { uid: 'E1', status: 'AVAILABLE', connectors, last_updated: instant(0) };
  await cpo.call('PUT', `${base}/MOVES`, locationBody('MOVES', { evses: [evse, sibling], last_updated: instant(0) }));
  const cases = [
    { method: 'PATCH', path: '/E1', body: { status: 'CHARGING', last_updated: instant(1) }, moved: [1, 1, 0] },
    { method: 'PUT', path: '/E1/1', body: { ...connectors[0], last_updated: instant(2) }, moved: [2, 2, 2] },
    { method: 'PATCH', path: '/E1/1', body: { max_voltage: 400, last_updated: instant(3) }, moved: [3, 3, 3] },
    { method: 'PUT', path: '/E1', body: { ...evse, last_updated: instant(4) }, moved: [4, 4, 0] },
    // Dates of parts that came late do not take their parents back: who reads lists by date would miss them.
    { method: 'PATCH', path: '/E1', body: { status: 'AVAILABLE', last_updated: instant(2) }, moved: [4, 2, 0] },
    { method: 'PATCH', path: '/E1/1', body: { max_voltage: 230, last_updated: instant(1) }, moved: [4, 2, 1] },
  ] as const;
  for (const { method, path, body, moved } of cases) {
    t.equal(statusOf(await cpo.call(method, `${base}/MOVES${path}`, body)), done);
    const location = dataOf(await cpo.call('GET', `${base}/MOVES`));
    const evses = location.evses as { last_updated: string; connectors: { last_updated: string }[] }[];
    const found = [location.last_updated, evses[0]?.last_updated, evses[0]?.connectors[0]?.last_updated];
    t.same(found, moved.map(instant), `${method} ${path}: location, EVSE and connector`);
    t.same(evses[1], sibling, `${method} ${path}: the other EVSE stays`);
    t.equal(evses[0]?.connectors[1]?.last_updated, instant(0), `${method} ${path}: the other connector stays`);
  }
});

t.test('a late EVSE status does not move its location back in lists by date [D18]', async (t) => {
  const evse = { uid: 'E1', status: 'AVAILABLE', connectors: [], last_updated: instant(1) };
  await cpo.call('PUT', `${base}/LATE`, locationBody('LATE', { evses: [evse], last_updated: instant(20) }));
  const late = { status: 'CHARGING', last_updated: instant(5) };
  t.equal(statusOf(await cpo.call('PATCH', `${base}/LATE/E1`, late)), done);
  const listed = (await emsp.call('GET', `/2.2.1/locations?date_from=${instant(20)}&limit=1000`)).json.data;
  const found = (listed as Record<string, unknown>[]).find(({ id }) => id === 'LATE');
  t.match(found, { evses: [late], last_updated: instant(20) });
  t.same(await warningsAbout(hub, 'NL-CPO/LATE'), []);
});

t.test('null in a PATCH does not remove a field by which the hub decides [OBJECT-2]', async (t) => {
  const evse = { uid: 'E1', status: 'AVAILABLE', connectors: [], last_updated: instant(0) };
  const body = locationBody('NULLS', { evses: [evse] });
  await cpo.call('PUT', `${base}/NULLS`, body);
  const nulls = { evses: null, name: 'named', last_updated: instant(7) };
  await cpo.call('PATCH', `${base}/NULLS`, nulls);
  const { name, last_updated } = nulls;
  t.same(dataOf(await cpo.call('GET', `${base}/NULLS`)), { ...body, name, last_updated });
  const inEvse = { status: null, connectors: null, x_own: 1, last_updated: instant(8) };
  t.equal(statusOf(await cpo.call('PATCH', `${base}/NULLS/E1`, inEvse)), done);
  t.match(dataOf(await emsp.call('GET', '/2.2.1/locations/NULLS')), {
    evses: [{ ...evse, x_own: 1, last_updated: instant(8) }],
  });
});

t.test(
  'a fragment of an unknown location or EVSE is 404/2003, and is neither stored nor forwarded [D4, D46]',
  async (t) => {
    await cpo.call('PUT', `${base}/KNOWN`, locationBody('KNOWN', { evses: [] }));
    await quiet(hub);
    const change = { last_updated: instant(1) };
    const cases = [
      ['PUT', '/NOWHERE/E1'],
      ['PATCH', '/NOWHERE/E1'],
      ['PUT', '/NOWHERE/E1/1'],
      ['PATCH', '/NOWHERE/E1/1'],
      ['PATCH', '/NOWHERE'],
      ['PATCH', '/KNOWN/E9'],
      ['PUT', '/KNOWN/E9/1'],
      ['PATCH', '/KNOWN/E9/1'],
    ] as const;
    const came = await arrivals(hub, emsp, async () => {
      for (const [method, path] of cases) {
        const answer = await cpo.call(method, base + path, change);
        t.equal(statusOf(answer), notFound, `${method} ${path}`);
        t.equal(answer.json.status_message, 'Not found', `${method} ${path}: message`);
      }
    });
    t.same(came, [], 'nothing was forwarded');
    t.equal(statusOf(await cpo.call('GET', `${base}/NOWHERE`)), notFound);
    t.same(dataOf(await cpo.call('GET', `${base}/KNOWN`)).evses, []);
  },
);

t.test(
  'publish false is stored and not forwarded; each transition reaches those who have the location [interface, Locations; D21]',
  async (t) => {
    const path = `${wire}/PUB`;
    const whole = (publish: boolean, minute: number) => locationBody('PUB', { publish, last_updated: instant(minute) });
    /** In order, each on what the one before left behind. `forwarded`: the method under which eMSPs get it. */
    const steps = [
      { what: 'new and private', method: 'PUT', body: whole(false, 0), forwarded: null, isPublic: false },
      { what: 'private, replaced', method: 'PUT', body: whole(false, 1), forwarded: null, isPublic: false },
      { what: 'private, changed', method: 'PATCH', body: { name: 'x' }, forwarded: null, isPublic: false },
      { what: 'private, EVSE changed', method: 'PATCH', below: '/EVSE1', body: {}, forwarded: null, isPublic: false },
      { what: 'private, connector put', method: 'PUT', below: '/EVSE1/1', body: {}, forwarded: null, isPublic: false },
      { what: 'opened by PATCH', method: 'PATCH', body: { publish: true }, forwarded: 'whole', isPublic: true },
      { what: 'public, changed', method: 'PATCH', body: { name: 'y' }, forwarded: 'PATCH', isPublic: true },
      { what: 'public, EVSE changed', method: 'PATCH', below: '/EVSE1', body: {}, forwarded: 'PATCH', isPublic: true },
      { what: 'said public again', method: 'PATCH', body: { publish: true }, forwarded: 'PATCH', isPublic: true },
      { what: 'closed by PATCH', method: 'PATCH', body: { publish: false }, forwarded: 'PATCH', isPublic: false },
      { what: 'closed, changed', method: 'PATCH', body: { name: 'z' }, forwarded: null, isPublic: false },
      { what: 'opened by PUT', method: 'PUT', body: whole(true, 20), forwarded: 'PUT', isPublic: true },
      { what: 'closed by PUT', method: 'PUT', body: whole(false, 21), forwarded: 'PUT', isPublic: false },
      { what: 'closed, replaced', method: 'PUT', body: whole(false, 22), forwarded: null, isPublic: false },
    ] as const;
    for (const [minute, step] of steps.entries()) {
      const { what, method, forwarded, isPublic } = step;
      const below = 'below' in step ? step.below : '';
      const body = JSON.stringify({ last_updated: instant(30 + minute), ...step.body });
      const came = await arrivals(hub, emsp, async () => {
        t.equal(statusOf(await cpo.call(method, `${base}/PUB${below}`, body)), done, what);
      });
      const own = dataText(await cpo.call('GET', `${base}/PUB`));
      const expected = { null: [], whole: [`PUT ${path} ${own}`] }[String(forwarded)];
      t.same(
        came.map((call) => `${call.method} ${call.path} ${call.body}`),
        expected ?? [`${forwarded} ${path}${below} ${body}`],
        `${what}: what eMSPs get`,
      );
      const seen = isPublic ? done : notFound;
      t.equal(statusOf(await emsp.call('GET', '/2.2.1/locations/PUB')), seen, `${what}: sender GET`);
      t.equal(statusOf(await emsp.call('GET', `${base}/PUB`)), seen, `${what}: receiver GET`);
      t.equal(idsOf(await emsp.call('GET', '/2.2.1/locations')).includes('PUB'), isPublic, `${what}: list`);
      t.equal(statusOf(await cpo.call('GET', `${base}/PUB`)), done, `${what}: its owner always sees it`);
    }
  },
);

t.test('GET of one location, EVSE or connector [D20, D47]', async (t) => {
  const connector = { id: '1', standard: 'IEC_62196_T2', last_updated: instant(0) };
  const evse = { uid: 'E1', status: 'AVAILABLE', connectors: [connector], last_updated: instant(0) };
  const location = locationBody('GETS', { evses: [evse] });
  await cpo.call('PUT', `${base}/GETS`, location);
  const levels = [
    { at: '/GETS', is: location },
    { at: '/GETS/E1', is: evse },
    { at: '/GETS/E1/1', is: connector },
  ];
  const cases = [
    { who: cpo, name: 'its owner, by the receiver’s form', form: base, finds: true },
    { who: emsp, name: 'a routed eMSP, by the receiver’s form', form: base, finds: true },
    { who: emsp, name: 'a routed eMSP, by the sender’s form', form: '/2.2.1/locations', finds: true },
    { who: stranger, name: 'an eMSP without a rule, by the receiver’s form', form: base, finds: false },
    { who: stranger, name: 'an eMSP without a rule, by the sender’s form', form: '/2.2.1/locations', finds: false },
    { who: otherCpo, name: 'another CPO', form: base, finds: false },
  ];
  for (const { who, name, form, finds } of cases) {
    for (const { at, is } of levels) {
      const answer = await who.call('GET', form + at);
      t.equal(statusOf(answer), finds ? done : notFound, `${name}: ${at}`);
      if (finds) t.same(answer.json.data, is, `${name}: ${at}, as stored`);
    }
  }
  for (const below of ['/GETS/E9', '/GETS/E1/9', '/NOWHERE']) {
    t.equal(statusOf(await emsp.call('GET', `/2.2.1/locations${below}`)), notFound, `sender’s form ${below}`);
    t.equal(statusOf(await cpo.call('GET', base + below)), notFound, `receiver’s form ${below}`);
  }
  t.equal(statusOf(await cpo.call('GET', '/2.2.1/locations/GETS')), '403/2000', 'the sender’s form is for eMSPs [D7]');
});

t.test('GET of a location by its id alone reads that of its owner, and not of another routed CPO [D47]', async (t) => {
  const reads: string[] = [];
  const wrap = wrapStore((store) => ({
    get(key) {
      if (key.kind === 'locations') reads.push(key.owner);
      return store.get(key);
    },
  }));
  const counted = await hubFor(t, {}, { wrap });
  const reader = await partnerFor(t, counted, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  for (const partyId of ['C0', 'C1', 'C2', 'C3', 'C4']) {
    const owner = await partnerFor(t, counted, { role: 'CPO', countryCode: 'NL', partyId });
    const isRouted = partyId !== 'C4';
    if (isRouted) await admin(counted, 'PUT', `/routes/NL-EMS/NL-${partyId}`, { active: true });
    // A private one is in no list, so the store no longer knows by its lists which locations there are.
    for (const [id, publish] of [
      [`OF-${partyId}`, true],
      [`PRIVATE-${partyId}`, false],
    ] as const)
      await owner.push('PUT', `/2.2.1/locations/NL/${partyId}/${id}`, locationBody(id, { party_id: partyId, publish }));
  }
  const readAt = async (id: string) => {
    reads.length = 0;
    return [statusOf(await reader.call('GET', `/2.2.1/locations/${id}`)), ...reads];
  };
  t.same(await readAt('NONE'), [notFound]);
  t.same(await readAt('of-c2'), [done, 'NL-C2']);
  t.same(await readAt('PRIVATE-C2'), [notFound, 'NL-C2']);
  t.same(await readAt('OF-C4'), [notFound], 'one of a CPO without a rule is not read');
});

t.test(
  'a tariff is put, replaced and deleted, and forwarded unchanged [interface, Tariffs; D15, D17, D46]',
  async (t) => {
    const path = '/2.2.1/tariffs/NL/CPO/T1';
    const tariff = (minute: number) =>
      odd(`"country_code":"NL","party_id":"CPO","id":"T1","currency":"EUR","last_updated":"${instant(minute)}"`);
    const steps = [
      { method: 'PUT', body: tariff(0) },
      { method: 'PUT', body: tariff(1) },
      { method: 'DELETE', body: undefined },
      { method: 'PUT', body: tariff(2) },
    ];
    for (const { method, body } of steps) {
      const [came, ...more] = await arrivals(hub, emsp, async () => {
        t.equal(statusOf(await cpo.call(method, path, body)), done, method);
      });
      t.equal(`${came?.method} ${came?.path}`, `${method} /ocpi${path}`, `${method}: method and path`);
      t.equal(came?.body, body ?? '', `${method}: bytes`);
      t.same(more, [], `${method}: once`);
      for (const reader of [cpo, emsp]) {
        const read = await reader.call('GET', path);
        t.equal(statusOf(read), body ? done : notFound, `${method}: GET by ${reader.id} [D20]`);
        if (body) t.equal(dataText(read), body, `${method}: GET by ${reader.id}, byte for byte`);
      }
      t.equal(statusOf(await stranger.call('GET', path)), notFound, `${method}: GET by an eMSP without a rule`);
      t.equal(idsOf(await emsp.call('GET', '/2.2.1/tariffs')).includes('T1'), body !== undefined, `${method}: list`);
    }
  },
);

t.test('DELETE of an unknown tariff is 404/2003 and forwarded to nobody [D46]', async (t) => {
  const came = await arrivals(hub, emsp, async () => {
    t.equal(statusOf(await cpo.call('DELETE', '/2.2.1/tariffs/NL/CPO/NONE')), notFound);
  });
  t.same(came, []);
});

t.test('there is no PATCH for tariffs: 405 with Allow [interface, Tariffs; D2]', async (t) => {
  const answer = await cpo.call('PATCH', '/2.2.1/tariffs/NL/CPO/T1', { last_updated: instant(5) });
  t.equal(statusOf(answer), '405/2000');
  t.same((answer.headers.get('allow') ?? '').split(', ').sort(), ['DELETE', 'GET', 'HEAD', 'PUT']);
});

t.test(
  'catalogues are filtered by routing; without a rule they are empty and not forwarded [interface, What the service does 2]',
  async (t) => {
    const ofOther = { country_code: 'DE', party_id: 'CPO' };
    const push = async (id: string) => {
      const answers = [
        await otherCpo.call('PUT', `/2.2.1/locations/DE/CPO/${id}`, locationBody(id, ofOther)),
        await otherCpo.call('PUT', `/2.2.1/tariffs/DE/CPO/${id}`, tariffBody(id, ofOther)),
      ];
      t.same(answers.map(statusOf), [done, done], `${id} is accepted`);
    };
    const seen = async (partner: typeof emsp, id: string) =>
      Promise.all(
        ['locations', 'tariffs'].map(async (module) =>
          idsOf(await partner.call('GET', `/2.2.1/${module}`)).includes(id),
        ),
      );
    for (const module of ['locations', 'tariffs']) {
      const answer = await stranger.call('GET', `/2.2.1/${module}`);
      t.same([answer.json.data, answer.headers.get('x-total-count')], [[], '0'], `${module} of an eMSP without a rule`);
    }
    t.same(await arrivals(hub, emsp, () => push('R1')), [], 'no rule, no forward');
    t.same(await seen(emsp, 'R1'), [false, false], 'no rule, not listed');
    const events = await itemsOf(hub, '/events?type=object.put&object=DE-CPO/R1');
    t.same(
      events.map(({ data }) => (data as { reason: string }).reason),
      ['no routing rule', 'no routing rule'],
      'the log says why',
    );

    await admin(hub, 'PUT', '/routes/nl-ems/de-cpo', { active: true });
    await quiet(hub);
    t.same(await seen(emsp, 'R1'), [true, true], 'with the rule it is listed, and nothing was pushed by itself [D51]');
    const came = await arrivals(hub, emsp, () => push('R2'));
    t.same(lines(came).sort(), ['PUT /ocpi/2.2.1/locations/DE/CPO/R2', 'PUT /ocpi/2.2.1/tariffs/DE/CPO/R2']);

    await admin(hub, 'PUT', '/routes/NL-EMS/DE-CPO', { active: false });
    t.same(await arrivals(hub, emsp, () => push('R3')), [], 'a rule that is not active counts for nothing');
    t.same(await seen(emsp, 'R2'), [false, false]);
    t.equal(statusOf(await emsp.call('GET', '/2.2.1/locations/DE/CPO/R2')), notFound);
    t.ok((await seen(emsp, 'ODD'))[0], 'the other CPO’s stay');
  },
);

t.test('names and ids are compared without case and returned as first stored [D12]', async (t) => {
  await cpo.call('PUT', `${base}/CaseOne`, locationBody('CaseOne', { name: 'first' }));
  await quiet(hub);
  const body = locationBody('caseONE', { country_code: 'nl', party_id: 'cpo', name: 'second' });
  const came = await arrivals(hub, emsp, async () => {
    t.equal(statusOf(await cpo.call('PUT', '/2.2.1/locations/nl/cpo/CASEone', body)), done);
    t.equal(
      statusOf(await cpo.call('PATCH', '/2.2.1/locations/nl/Cpo/caseone/evse1', { last_updated: instant(1) })),
      done,
    );
    const connector = { standard: 'IEC_62196_T2', last_updated: instant(2) };
    for (const path of ['EvSe1/cOn', 'evse1/CON', 'Evse2'])
      t.equal(statusOf(await cpo.call('PUT', `${base}/CaseOne/${path}`, connector)), done, path);
    await cpo.push('PATCH', `${base}/CaseOne/Evse1/con`, { last_updated: instant(3) });
    const evse = { uid: 'eVSE2', evse_id: 'EVSE2', connectors: [], last_updated: instant(4) };
    await cpo.push('PUT', `${base}/CaseOne/eVSE2`, evse);
    await cpo.push('PATCH', `${base}/CaseOne/EVSE2`, { last_updated: instant(5) });
  });
  const [below, one] = ['CaseOne/EVSE1', `${wire}/CaseOne`];
  t.same(
    lines(came),
    [
      `PUT ${one}`,
      `PATCH ${wire}/${below}`,
      `PUT ${wire}/${below}/cOn`,
      `PUT ${wire}/${below}/CON`,
      `PUT ${one}/Evse2`,
      `PATCH ${wire}/${below}/CON`,
      `PUT ${one}/eVSE2`,
      `PATCH ${one}/eVSE2`,
    ],
    'the path is that of what is stored; what is replaced keeps its own',
  );
  t.equal(came[0]?.headers['ocpi-from-party-id'], 'CPO', 'as the operator assigned it');
  const listed = idsOf(await emsp.call('GET', '/2.2.1/locations')).filter((id) => id.toLowerCase() === 'caseone');
  t.equal(listed.length, 1, 'one object');
  for (const path of [`${base}/CASEONE`, '/2.2.1/locations/nl/cpo/caseone/EVSE1']) {
    t.equal(statusOf(await cpo.call('GET', path)), done, path);
  }
  const named = { 'OCPI-from-country-code': 'nl', 'OCPI-from-party-id': 'ems' };
  t.equal(statusOf(await emsp.call('GET', '/2.2.1/locations/caseONE', undefined, named)), done, 'headers too');
});

t.test('last_updated is required and never changed; ids of path and body agree [D3, D18]', async (t) => {
  await cpo.call('PUT', `${base}/REFUSE`, locationBody('REFUSE'));
  await quiet(hub);
  const before = dataText(await cpo.call('GET', `${base}/REFUSE`));
  const evse = { uid: 'EVSE1', connectors: [] };
  const at = { last_updated: instant(9) };
  const tariffPath = '/2.2.1/tariffs/NL/CPO/T9';
  const without = { last_updated: undefined };
  const cases = [
    ['PUT', `${base}/REFUSE`, locationBody('REFUSE', without), 'last_updated'],
    ['PATCH', `${base}/REFUSE`, { name: 'x' }, 'last_updated'],
    ['PUT', `${base}/REFUSE/EVSE1`, evse, 'last_updated'],
    ['PATCH', `${base}/REFUSE/EVSE1`, { status: 'BLOCKED' }, 'last_updated'],
    ['PUT', `${base}/REFUSE/EVSE1/1`, { id: '1' }, 'last_updated'],
    ['PATCH', `${base}/REFUSE/EVSE1/1`, { max_voltage: 1 }, 'last_updated'],
    ['PATCH', `${base}/REFUSE`, { last_updated: 'yesterday' }, 'last_updated'],
    ['PATCH', `${base}/REFUSE`, { last_updated: null }, 'last_updated'],
    ['PUT', tariffPath, tariffBody('T9', without), 'last_updated'],
    ['PUT', `${base}/REFUSE`, locationBody('OTHER'), 'id'],
    ['PUT', `${base}/REFUSE`, locationBody('REFUSE', { party_id: 'HUB' }), 'party_id'],
    ['PUT', `${base}/REFUSE`, locationBody('REFUSE', { country_code: 'BE' }), 'country_code'],
    ['PATCH', `${base}/REFUSE`, { id: 'OTHER', ...at }, 'id'],
    ['PUT', `${base}/REFUSE/EVSE1`, { ...evse, uid: 'E2', ...at }, 'uid'],
    ['PATCH', `${base}/REFUSE/EVSE1/1`, { id: '2', ...at }, 'id'],
    ['PUT', tariffPath, tariffBody('T8'), 'id'],
    ['PUT', `${base}/REFUSE`, locationBody('REFUSE', { publish: undefined }), 'publish'],
    ['PUT', `${base}/REFUSE`, locationBody('REFUSE', { publish: 'yes' }), 'publish'],
    ['PUT', `${base}/REFUSE`, locationBody('REFUSE', { evses: [{ uid: 7 }] }), 'evses[0].uid'],
  ] as const;
  const came = await arrivals(hub, emsp, async () => {
    for (const [method, path, body, field] of cases) {
      const answer = await cpo.call(method, path, body);
      t.equal(statusOf(answer), '200/2001', `${method} ${path} ${field}`);
      t.equal(answer.json.status_message?.split(':')[0], field, `${method} ${path}: names ${field}`);
    }
  });
  t.same(came, [], 'nothing was forwarded');
  t.equal(dataText(await cpo.call('GET', `${base}/REFUSE`)), before, 'nothing was stored');
  t.equal(statusOf(await cpo.call('GET', tariffPath)), notFound);
});

t.test('PATCH replaces the fields it carries, objects and arrays as a whole, and keeps the rest [D19]', async (t) => {
  const images = [{ url: 'https://example.test/1' }, { url: 'https://example.test/2' }];
  const energy_mix = { is_green_energy: true, supplier_name: 'Green' };
  const body = locationBody('MERGE', { images, energy_mix, x_own: { deep: [1.5] } });
  await cpo.call('PUT', `${base}/MERGE`, body);
  const change = { images: [images[1]], energy_mix: { is_green_energy: false }, city: null, last_updated: instant(7) };
  t.equal(statusOf(await cpo.call('PATCH', `${base}/MERGE`, change)), done);
  t.same(dataOf(await cpo.call('GET', `${base}/MERGE`)), { ...body, ...change });
  t.same(dataOf(await emsp.call('GET', '/2.2.1/locations/MERGE')), { ...body, ...change }, 'eMSPs read the same');
});

t.test('an older last_updated is stored and forwarded as received, with a warning in the trace [D46]', async (t) => {
  await cpo.call('PUT', `${base}/OLD`, locationBody('OLD', { last_updated: instant(30) }));
  await quiet(hub);
  const older = JSON.stringify(locationBody('OLD', { name: 'older', last_updated: instant(10) }));
  const [came] = await arrivals(hub, emsp, () => cpo.call('PUT', `${base}/OLD`, older));
  t.equal(came?.body, older);
  t.equal(dataText(await cpo.call('GET', `${base}/OLD`)), older, 'arrival decides');
  t.match((await warningsAbout(hub, 'NL-CPO/OLD')).join(), /last_updated .* is older/);
});
