/**
 * Sessions and CDRs on the wire: whose they are, who gets them, how what reached nobody is repaired, and what never changes.
 */
import type { ReportView } from '../../src/api/report.ts';
import { cdrBody, locationBody, sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { arrivals, dataText, idsOf, itemsOf, lines, quiet, statusOf, warningsAbout } from '../support/observed.ts';
import { admin, type PlainPartner, type Received } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const clock = new SimulatedClock('2026-03-01T12:00:00Z');
const hourMs = 3_600_000;
const hub = await hubFor(t, {}, { clock });
/** Accepts every command but that of card `REFUSED`. */
const answerCommands = ({ path, body }: Received) =>
  path.includes('/commands/')
    ? { body: { result: body.includes('"REFUSED"') ? 'REJECTED' : 'ACCEPTED', timeout: 30 } }
    : {};
const { cpo, emsp } = await routedPair(t, hub, { cpo: answerCommands });
const second = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EM2' });
const unrouted = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'UNR' });
/** A CPO that still has to learn whom to name; its period is set by each test. */
const migrating = await partnerFor(t, hub, {
  ...{ role: 'CPO', countryCode: 'NL', partyId: 'MIG' },
  answer: answerCommands,
});
for (const route of ['NL-EM2/NL-CPO', 'NL-EMS/NL-MIG', 'NL-EM2/NL-MIG']) {
  await admin(hub, 'PUT', `/routes/${route}`, { active: true });
}

const done = '200/1000';
const notFound = '404/2003';
const since = '2026-01-01T00:00:00Z';
const list = (module: string) => `/2.2.1/${module}?date_from=${since}&limit=1000`;
const names = (country_code: string, party_id: string, uid = 'CARD1') => ({
  cdr_token: { country_code, party_id, uid, type: 'RFID', contract_id: 'C1' },
});
const instant = (minute: number) => `2026-02-01T10:${String(minute).padStart(2, '0')}:00Z`;
const pathOf = (owner: PlainPartner, id: string) => `/2.2.1/sessions/${owner.id.replace('-', '/')}/${id}`;
const isListed = async (reader: PlainPartner, module: string, id: string) =>
  idsOf(await reader.call('GET', list(module))).includes(id);
const reasonOf = async (object: string, module = 'sessions') =>
  (await itemsOf(hub, '/stored-not-forwarded')).find((item) => item.object === object && item.module === module)
    ?.reason;

/** Ways in which a `cdr_token` names nobody, and what operators are told. [D23] */
const unusable = [
  { what: 'absent', fields: { cdr_token: undefined }, reason: 'cdr_token missing' },
  { what: 'null', fields: { cdr_token: null }, reason: 'cdr_token missing' },
  { what: 'a text', fields: { cdr_token: 'CARD1' }, reason: 'cdr_token missing' },
  {
    what: 'without party_id',
    fields: { cdr_token: { country_code: 'NL', uid: 'X' } },
    reason: 'cdr_token names no party',
  },
  { what: 'naming the hub', fields: names('XX', 'HUB'), reason: 'names the hub' },
  { what: 'naming an unknown party', fields: names('ZZ', 'ZZZ'), reason: 'unknown eMSP' },
  { what: 'naming a CPO', fields: names('NL', 'CPO'), reason: 'unknown eMSP' },
  { what: 'naming an eMSP without a rule', fields: names('NL', 'UNR'), reason: 'not routed' },
];

t.test(
  'a session goes to the eMSP of its cdr_token, same method and bytes, under the CPO’s path [interface, Sessions 1 and 6; D15, D17]',
  async (t) => {
    const whole = `{"x":[1.0,1e2, -0],${JSON.stringify(sessionBody('S/1 u')).slice(1)}`;
    const steps = [
      { method: 'PUT', body: whole },
      { method: 'PATCH', body: `{ "kwh" : 2.50, "last_updated":"${instant(1)}" }` },
      { method: 'PUT', body: whole },
    ];
    const seconds = second.received.length;
    for (const { method, body } of steps) {
      const [came, ...more] = await arrivals(hub, emsp, async () => {
        t.equal(statusOf(await cpo.call(method, '/2.2.1/sessions/NL/CPO/S%2F1%20u', body)), done, method);
      });
      t.equal(`${came?.method} ${came?.path}`, `${method} /ocpi/2.2.1/sessions/NL/CPO/S%2F1%20u`, method);
      t.equal(came?.body, body, `${method}: bytes`);
      t.same(
        ['from-country-code', 'from-party-id', 'to-country-code', 'to-party-id'].map((n) => came?.headers[`ocpi-${n}`]),
        ['NL', 'CPO', 'NL', 'EMS'],
        `${method}: routing headers`,
      );
      t.same(more, [], `${method}: once`);
    }
    t.equal(second.received.length, seconds, 'no other eMSP gets it');
  },
);

t.test(
  'a session without a usable cdr_token is 200/1000, stored with the reason and forwarded to nobody [interface, Sessions 2; D23]',
  async (t) => {
    const heard = [emsp, second, unrouted].map(({ received }) => received.length);
    for (const [index, { what, fields, reason }] of unusable.entries()) {
      const id = `NOBODY${index}`;
      const body = sessionBody(id, fields);
      t.equal(statusOf(await cpo.call('PUT', pathOf(cpo, id), body)), done, what);
      t.equal(await reasonOf(`NL-CPO/${id}`), reason, `${what}: operators see why`);
      t.same((await cpo.call('GET', pathOf(cpo, id))).json.data, JSON.parse(JSON.stringify(body)), `${what}: stored`);
      for (const reader of [emsp, unrouted]) {
        t.equal(statusOf(await reader.call('GET', pathOf(cpo, id))), notFound, `${what}: GET by ${reader.id}`);
        t.notOk(await isListed(reader, 'sessions', id), `${what}: list of ${reader.id}`);
      }
    }
    await quiet(hub);
    t.same(
      [emsp, second, unrouted].map(({ received }) => received.length),
      heard,
      'nothing was forwarded',
    );
  },
);

t.test(
  'a CDR without a usable cdr_token is 200/1000 with its Location, stored and forwarded to nobody [interface, CDRs; D23, D40]',
  async (t) => {
    const heard = [emsp, second, unrouted].map(({ received }) => received.length);
    for (const [index, { what, fields, reason }] of unusable.entries()) {
      const id = `NOBODY${index}`;
      const answer = await cpo.call('POST', '/2.2.1/cdrs', cdrBody(id, { ...fields, session_id: undefined }));
      t.equal(statusOf(answer), done, what);
      t.equal(answer.headers.get('location'), `${hub.url}/ocpi/2.2.1/cdrs/${id}`, `${what}: Location`);
      t.equal(await reasonOf(`NL-CPO/${id}`, 'cdrs'), reason, `${what}: operators see why`);
      t.equal(statusOf(await cpo.call('GET', `/2.2.1/cdrs/${id}`)), done, `${what}: its CPO reads it`);
      for (const reader of [emsp, unrouted]) {
        t.equal(statusOf(await reader.call('GET', `/2.2.1/cdrs/${id}`)), notFound, `${what}: GET by ${reader.id}`);
        t.notOk(await isListed(reader, 'cdrs', id), `${what}: list of ${reader.id}`);
      }
    }
    await quiet(hub);
    t.same(
      [emsp, second, unrouted].map(({ received }) => received.length),
      heard,
      'nothing was forwarded',
    );
  },
);

t.test('a PATCH of a session without an eMSP is stored and forwarded to nobody [interface, Sessions 2]', async (t) => {
  const came = await arrivals(hub, emsp, async () => {
    const answer = await cpo.call('PATCH', pathOf(cpo, 'NOBODY0'), { kwh: 9, last_updated: instant(2) });
    t.equal(statusOf(answer), done);
  });
  t.same(came, []);
  t.equal(((await cpo.call('GET', pathOf(cpo, 'NOBODY0'))).json.data as { kwh: number }).kwh, 9);
  t.equal(await reasonOf('NL-CPO/NOBODY0'), 'cdr_token missing', 'still listed for operators');
});

t.test('the CPO repairs it by a PUT or a PATCH with a correct cdr_token [interface, Sessions 5; D23]', async (t) => {
  const repairs = [
    { method: 'PUT', body: sessionBody('REPAIR0', { last_updated: instant(3) }) },
    { method: 'PATCH', body: { ...names('NL', 'EMS'), last_updated: instant(3) } },
  ];
  for (const [index, { method, body }] of repairs.entries()) {
    const id = `REPAIR${index}`;
    await cpo.call('PUT', pathOf(cpo, id), sessionBody(id, names('XX', 'HUB')));
    t.equal(await reasonOf(`NL-CPO/${id}`), 'names the hub', `${method}: not forwarded before`);
    const came = await arrivals(hub, emsp, async () => {
      t.equal(statusOf(await cpo.call(method, pathOf(cpo, id), body)), done, method);
    });
    const own = dataText(await cpo.call('GET', pathOf(cpo, id)));
    t.same(
      came.map((call) => `${call.method} ${call.path} ${call.body}`),
      [`PUT /ocpi${pathOf(cpo, id)} ${own}`],
      `${method}: the eMSP, which never had it, gets the whole session`,
    );
    t.equal(await reasonOf(`NL-CPO/${id}`), undefined, `${method}: no longer listed for operators`);
    t.ok(await isListed(emsp, 'sessions', id), `${method}: listed for the eMSP`);
  }
});

t.test(
  'a session whose cdr_token names another eMSP from now on belongs to that one [interface, Sessions 1]',
  async (t) => {
    await cpo.call('PUT', pathOf(cpo, 'HANDED'), sessionBody('HANDED'));
    await quiet(hub);
    const firsts = emsp.received.length;
    const body = { ...names('NL', 'EM2'), last_updated: instant(4) };
    const came = await arrivals(hub, second, () => cpo.call('PATCH', pathOf(cpo, 'HANDED'), body));
    t.same(lines(came), [`PUT /ocpi${pathOf(cpo, 'HANDED')}`], 'whole, since it never had it');
    t.equal(emsp.received.length, firsts, 'the first one hears nothing more');
    t.same([await isListed(emsp, 'sessions', 'HANDED'), await isListed(second, 'sessions', 'HANDED')], [false, true]);
  },
);

t.test(
  'an eMSP that was away when a session began gets the whole session with its next update [interface, Sessions 6; D50]',
  async (t) => {
    const back = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'BCK' });
    await admin(hub, 'PUT', '/routes/NL-BCK/NL-CPO', { active: true });
    await admin(hub, 'POST', '/parties/NL-BCK/suspend');
    await cpo.call('PUT', pathOf(cpo, 'AWAY'), sessionBody('AWAY', names('NL', 'BCK')));
    const { initial_token } = await admin(hub, 'POST', '/parties/NL-BCK/initial-token');
    await back.registerAgain(String(initial_token));
    const steps = [1, 2].map((kwh) => JSON.stringify({ kwh, last_updated: instant(kwh) }));
    const wholes: string[] = [];
    const came = await arrivals(hub, back, async () => {
      for (const body of steps) {
        await cpo.call('PATCH', pathOf(cpo, 'AWAY'), body);
        wholes.push(dataText(await back.call('GET', pathOf(cpo, 'AWAY'))));
      }
    });
    t.same(
      came.map(({ method, body }) => `${method} ${body}`),
      [`PUT ${wholes[0]}`, `PATCH ${steps[1]}`],
    );
  },
);

t.test(
  'an eMSP pulls only its own sessions and CDRs [interface, Sessions (eMSP pulls), CDRs, Authentication 9]',
  async (t) => {
    await cpo.call('PUT', pathOf(cpo, 'MINE'), sessionBody('MINE'));
    await cpo.call('POST', '/2.2.1/cdrs', cdrBody('MINE'));
    const readers = [
      { reader: emsp, owns: true },
      { reader: second, owns: false },
      { reader: unrouted, owns: false },
    ];
    for (const { reader, owns } of readers) {
      for (const [module, path] of [
        ['sessions', pathOf(cpo, 'MINE')],
        ['cdrs', '/2.2.1/cdrs/MINE'],
      ] as const) {
        const answer = await reader.call('GET', path);
        t.equal(statusOf(answer), owns ? done : notFound, `${reader.id}: GET of one of ${module}`);
        if (!owns) t.equal(answer.json.status_message, 'Not found', `${reader.id}: message`);
        t.equal(await isListed(reader, module, 'MINE'), owns, `${reader.id}: list of ${module}`);
      }
    }
    for (const module of ['sessions', 'cdrs']) {
      t.equal(statusOf(await cpo.call('GET', list(module))), '403/2000', `${module}: lists are for eMSPs [D7]`);
    }
    t.equal(statusOf(await cpo.call('GET', pathOf(cpo, 'MINE'))), done, 'the owner reads what is stored [D20]');
    t.equal(statusOf(await migrating.call('GET', pathOf(cpo, 'MINE'))), notFound, 'another CPO does not');
  },
);

t.test('the sessions list needs date_from: 200/2001 [interface, Sessions (eMSP pulls); D1]', async (t) => {
  for (const query of ['', '?date_to=2027-01-01T00:00:00Z', '?date_from=', '?limit=1']) {
    const answer = await emsp.call('GET', `/2.2.1/sessions${query}`);
    t.equal(statusOf(answer), '200/2001', query);
    t.match(answer.json.status_message, /^date_from: /, query);
  }
  t.equal(statusOf(await emsp.call('GET', '/2.2.1/cdrs')), done, 'the CDRs list does not');
});

t.test('a PATCH appends charging_periods, a PUT replaces them; PATCH never creates [D4, D19]', async (t) => {
  const period = (minute: number) => ({
    start_date_time: instant(minute),
    dimensions: [{ type: 'ENERGY', volume: 1.0 }],
  });
  const periods = async () =>
    ((await emsp.call('GET', pathOf(cpo, 'PERIODS'))).json.data as Record<string, unknown>).charging_periods;
  const steps = [
    { method: 'PUT', has: undefined, becomes: undefined },
    { method: 'PATCH', has: [period(1)], becomes: [period(1)] },
    { method: 'PATCH', has: [period(2), period(3)], becomes: [period(1), period(2), period(3)] },
    { method: 'PATCH', has: undefined, becomes: [period(1), period(2), period(3)] },
    { method: 'PATCH', has: [], becomes: [period(1), period(2), period(3)] },
    { method: 'PUT', has: [period(4)], becomes: [period(4)] },
  ];
  for (const { method, has, becomes } of steps) {
    const fields = { charging_periods: has, last_updated: instant(5) };
    const body = JSON.stringify(method === 'PUT' ? sessionBody('PERIODS', fields) : fields);
    const [came] = await arrivals(hub, emsp, () => cpo.call(method, pathOf(cpo, 'PERIODS'), body));
    t.equal(came?.body, body, `${method}: the fragment is forwarded as it came`);
    t.same(await periods(), becomes, `${method} of ${has?.length ?? 'no'} periods`);
  }
  t.equal(statusOf(await cpo.call('PATCH', pathOf(cpo, 'NEVER'), { last_updated: instant(1) })), notFound);
  t.equal(statusOf(await cpo.call('GET', pathOf(cpo, 'NEVER'))), notFound);
});

t.test(
  'an older last_updated of a session is stored and forwarded as received, with a warning in the trace [D46]',
  async (t) => {
    await cpo.call('PUT', pathOf(cpo, 'OLD'), sessionBody('OLD', { last_updated: instant(30) }));
    const older = JSON.stringify({ status: 'COMPLETED', last_updated: instant(10) });
    const came = await arrivals(hub, emsp, () => cpo.call('PATCH', pathOf(cpo, 'OLD'), older));
    t.equal(came.at(-1)?.body, older);
    const stored = (await emsp.call('GET', pathOf(cpo, 'OLD'))).json.data;
    t.match(stored, { status: 'COMPLETED', last_updated: instant(10) }, 'arrival decides');
    t.match((await warningsAbout(hub, 'NL-CPO/OLD')).join(), /last_updated .* is older/);
  },
);

t.test(
  'sessions and CDRs that lack a field on which the hub relies are 200/2001, and not stored [D3, D18]',
  async (t) => {
    const without = { last_updated: undefined };
    const cases = [
      ['PUT', pathOf(cpo, 'BAD'), sessionBody('BAD', without), 'last_updated'],
      ['PUT', pathOf(cpo, 'BAD'), sessionBody('BAD', { status: undefined }), 'status'],
      ['PUT', pathOf(cpo, 'BAD'), sessionBody('BAD', { kwh: '1' }), 'kwh'],
      ['PUT', pathOf(cpo, 'BAD'), sessionBody('OTHER'), 'id'],
      ['PUT', pathOf(cpo, 'BAD'), sessionBody('BAD', { party_id: 'MIG' }), 'party_id'],
      ['PATCH', pathOf(cpo, 'OLD'), { kwh: 3 }, 'last_updated'],
      ['PATCH', pathOf(cpo, 'OLD'), { status: null, last_updated: instant(1) }, 'status'],
      ['PATCH', pathOf(cpo, 'OLD'), { id: 'OTHER', last_updated: instant(1) }, 'id'],
      ['POST', '/2.2.1/cdrs', cdrBody('BAD', without), 'last_updated'],
      ['POST', '/2.2.1/cdrs', cdrBody('BAD', { id: undefined }), 'id'],
      ['POST', '/2.2.1/cdrs', cdrBody('BAD', { total_cost: 5 }), 'total_cost'],
      ['POST', '/2.2.1/cdrs', cdrBody('BAD', { party_id: 'MIG' }), 'party_id'],
    ] as const;
    const came = await arrivals(hub, emsp, async () => {
      for (const [method, path, body, field] of cases) {
        const answer = await cpo.call(method, path, body);
        t.equal(statusOf(answer), '200/2001', `${method} ${path} ${field}`);
        t.equal(answer.json.status_message?.split(':')[0], field, `${method} ${path}: names ${field}`);
      }
    });
    t.same(came, [], 'nothing was forwarded');
    for (const path of [pathOf(cpo, 'BAD'), '/2.2.1/cdrs/BAD'])
      t.equal(statusOf(await cpo.call('GET', path)), notFound);
  },
);

// COMPATIBILITY and COMPLIANT

const setPeriod = (identity_mode: string, compatibility_until: string | null) =>
  admin(hub, 'PATCH', '/parties/NL-MIG', { identity_mode, compatibility_until });
const fromNow = (ms: number) => new Date(clock.now() + ms).toISOString();

interface Start {
  readonly by?: PlainPartner;
  readonly uid: string;
  readonly reference?: string;
}

async function start({ by = emsp, uid, reference }: Start): Promise<void> {
  const answer = await by.call('POST', '/2.2.1/commands/START_SESSION', {
    response_url: `${by.url}/ocpi/2.2.1/commands/START_SESSION/1`,
    token: { uid, type: 'APP_USER', contract_id: 'C1' },
    location_id: 'MIGLOC',
    ...(reference && { authorization_reference: reference }),
  });
  if (statusOf(answer) !== done) throw new Error(answer.text);
}

const ofMigrating = { country_code: 'NL', party_id: 'MIG' };
/** A session as a CPO that names the hub pushes it. */
const wrong = (id: string, fields: object) =>
  sessionBody(id, { ...ofMigrating, ...names('XX', 'HUB', 'OTHER'), ...fields });

async function checkSession(
  t: Test,
  what: string,
  id: string,
  fields: object,
  goesTo: PlainPartner | null,
): Promise<void> {
  const readers = [emsp, second];
  const before = readers.map(({ received }) => received.length);
  const body = JSON.stringify(wrong(id, fields));
  t.equal(statusOf(await migrating.call('PUT', pathOf(migrating, id), body)), done, what);
  await quiet(hub);
  for (const [index, reader] of readers.entries()) {
    const came = reader.received.slice(before[index]).map((call) => `${call.method} ${call.path} ${call.body}`);
    const expected = reader === goesTo ? [`PUT /ocpi${pathOf(migrating, id)} ${body}`] : [];
    t.same(came, expected, `${what}: what ${reader.id} gets`);
    t.equal(await isListed(reader, 'sessions', id), reader === goesTo, `${what}: list of ${reader.id}`);
  }
  t.equal(dataText(await migrating.call('GET', pathOf(migrating, id))), body, `${what}: stored as it came`);
  t.equal(await reasonOf(`NL-MIG/${id}`), goesTo ? undefined : 'names the hub', `${what}: for operators`);
}

t.test(
  'during COMPATIBILITY a session goes back to the eMSP of its START_SESSION [interface, Sessions 3; D37]',
  async (t) => {
    await migrating.call('PUT', '/2.2.1/locations/NL/MIG/MIGLOC', locationBody('MIGLOC', ofMigrating));
    await quiet(hub);
    await setPeriod('COMPATIBILITY', fromNow(1000 * hourMs));
    await start({ uid: 'PHONE1', reference: 'REF1' });
    await start({ by: second, uid: 'PHONE2', reference: 'REF2' });
    await start({ uid: 'REFUSED', reference: 'REF3' });
    const cases = [
      { what: 'by authorization_reference', fields: { authorization_reference: 'REF1' }, to: emsp },
      { what: 'by a reference in other case', fields: { authorization_reference: 'ref2' }, to: second },
      { what: 'by the token’s uid', fields: names('XX', 'HUB', 'PHONE1'), to: emsp },
      {
        what: 'the reference before the uid',
        fields: { authorization_reference: 'REF2', ...names('XX', 'HUB', 'PHONE1') },
        to: second,
      },
      {
        what: 'the uid, when no command has the reference',
        fields: { authorization_reference: 'REF9', ...names('XX', 'HUB', 'PHONE1') },
        to: emsp,
      },
      { what: 'no matching command', fields: { authorization_reference: 'REF9' }, to: null },
      { what: 'a command that the CPO refused', fields: { authorization_reference: 'REF3' }, to: null },
      { what: 'a refused command’s uid', fields: names('XX', 'HUB', 'REFUSED'), to: null },
      { what: 'a usable cdr_token before any command', fields: { ...names('NL', 'EM2', 'PHONE1') }, to: second },
    ];
    for (const [index, { what, fields, to }] of cases.entries())
      await checkSession(t, what, `COMP${index}`, fields, to);
    const patch = JSON.stringify({ kwh: 7, last_updated: instant(6) });
    const came = await arrivals(hub, emsp, () => migrating.call('PATCH', pathOf(migrating, 'COMP0'), patch));
    t.same(
      came.map(({ method, body }) => `${method} ${body}`),
      [`PATCH ${patch}`],
      'its updates follow, as they came',
    );
    t.match((await emsp.call('GET', pathOf(migrating, 'COMP0'))).json.data, {
      cdr_token: { country_code: 'XX', party_id: 'HUB' },
      kwh: 7,
    });
  },
);

t.test(
  'during COMPATIBILITY a CDR inherits the eMSP of its session, or finds it by itself [interface, Sessions 3]',
  async (t) => {
    const cases = [
      { what: 'of its session', fields: { session_id: 'COMP0', ...names('XX', 'HUB', 'OTHER') }, to: emsp },
      { what: 'of its session, in other case', fields: { session_id: 'comp1', cdr_token: undefined }, to: second },
      {
        what: 'the session before the reference',
        fields: { session_id: 'COMP0', authorization_reference: 'REF2', cdr_token: undefined },
        to: emsp,
      },
      {
        what: 'by reference, without a session',
        fields: { session_id: undefined, authorization_reference: 'REF2', cdr_token: undefined },
        to: second,
      },
      { what: 'by neither', fields: { session_id: 'COMP5', ...names('XX', 'HUB', 'OTHER') }, to: null },
    ];
    for (const [index, { what, fields, to }] of cases.entries()) {
      const body = JSON.stringify(cdrBody(`INHERIT${index}`, { ...ofMigrating, ...fields }));
      const before = [emsp, second].map(({ received }) => received.length);
      t.equal(statusOf(await migrating.call('POST', '/2.2.1/cdrs', body)), to ? '201/1000' : done, what);
      await quiet(hub);
      for (const [at, reader] of [emsp, second].entries()) {
        const came = reader.received.slice(before[at]).map((call) => `${call.method} ${call.path} ${call.body}`);
        t.same(came, reader === to ? [`POST /ocpi/2.2.1/cdrs ${body}`] : [], `${what}: what ${reader.id} gets`);
        t.equal(await isListed(reader, 'cdrs', `INHERIT${index}`), reader === to, `${what}: list of ${reader.id}`);
      }
    }
  },
);

t.test('of two eMSPs with one uid the one whose START_SESSION was accepted last gets the session [D37]', async (t) => {
  const allowed = { allowed: 'ALLOWED', authorization_reference: 'CARDREF' };
  const card = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'CRD' },
    answer: ({ path }) => (path.includes('/authorize') ? { body: allowed } : {}),
  });
  await admin(hub, 'PUT', '/routes/NL-CRD/NL-MIG', { active: true });
  const authorize = async (uid: string) => {
    const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'CRD' };
    const { json } = await migrating.call('POST', `/2.2.1/tokens/${uid}/authorize`, undefined, to);
    t.match(json.data, allowed, `${uid} is a card of NL-CRD`);
  };
  await start({ uid: 'SHARED', reference: 'FIRST' });
  await start({ by: second, uid: 'shared', reference: 'LATER' });
  const hubsToken = names('XX', 'HUB', 'SHARED');
  await checkSession(t, 'the later command', 'UID0', hubsToken, second);
  const ofFirst = { authorization_reference: 'FIRST', ...hubsToken };
  await checkSession(t, 'the reference of the earlier one', 'UID1', ofFirst, emsp);
  await checkSession(t, 'a cdr_token that names the earlier one', 'UID2', names('NL', 'EMS', 'SHARED'), emsp);
  await start({ uid: 'SHARED' });
  await checkSession(t, 'a session that was attributed stays', 'UID0', { ...hubsToken, kwh: 3 }, second);
  await checkSession(t, 'the next one is of the now later command', 'UID3', hubsToken, emsp);
  await authorize('SHARED');
  await checkSession(t, 'an authorization starts nothing', 'UID4', hubsToken, emsp);
  await authorize('CARDONLY');
  const byCard = { authorization_reference: 'CARDREF', ...names('XX', 'HUB', 'CARDONLY') };
  await checkSession(t, 'a session by card alone is kept', 'UID5', byCard, null);
  const came = await arrivals(hub, card, () =>
    migrating.call('PUT', pathOf(migrating, 'UID5'), wrong('UID5', names('NL', 'CRD', 'CARDONLY'))),
  );
  t.match(came, [{ method: 'PUT' }], 'until its cdr_token names the eMSP');
});

t.test('a START_SESSION of more than 24 hours ago does not count [D37]', async (t) => {
  clock.advance(24 * hourMs);
  await checkSession(t, 'of 24 hours ago', 'DAY0', { authorization_reference: 'REF1' }, emsp);
  clock.advance(1);
  await checkSession(t, 'a millisecond more', 'DAY1', { authorization_reference: 'REF1' }, null);
});

t.test(
  'COMPLIANT, or COMPATIBILITY without a date or past it: neither forwarded nor listed [interface, Sessions 4; D37]',
  async (t) => {
    await start({ uid: 'PHONE7', reference: 'REF7' });
    const fields = { authorization_reference: 'REF7', ...names('XX', 'HUB', 'PHONE7') };
    await setPeriod('COMPLIANT', fromNow(hourMs));
    await checkSession(t, 'COMPLIANT, whatever the date says', 'MODE0', fields, null);
    await setPeriod('COMPATIBILITY', null);
    await checkSession(t, 'without an end', 'MODE1', fields, null);
    await setPeriod('COMPATIBILITY', fromNow(-1));
    await checkSession(t, 'past its end', 'MODE2', fields, null);
    await setPeriod('COMPATIBILITY', fromNow(60_000));
    await checkSession(t, 'before its end', 'MODE3', fields, emsp);
    clock.advance(60_000);
    await checkSession(t, 'at its end', 'MODE4', fields, null);
    const cdr = cdrBody('MODE', { ...ofMigrating, ...fields, session_id: 'MODE4' });
    const came = await arrivals(hub, emsp, async () => {
      t.equal(statusOf(await migrating.call('POST', '/2.2.1/cdrs', cdr)), done, 'a CDR after the end');
      const late = { kwh: 8, last_updated: instant(7) };
      t.equal(
        statusOf(await migrating.call('PATCH', pathOf(migrating, 'MODE3'), late)),
        done,
        'an update after the end',
      );
    });
    t.same(came, [], 'nothing is forwarded after the end');
    t.notOk(await isListed(emsp, 'cdrs', 'MODE'), 'the CDR is not listed');
    t.notOk(await isListed(emsp, 'sessions', 'MODE3'), 'the session that was updated is no longer listed');

    const repaired = JSON.stringify(wrong('MODE2', names('NL', 'EMS')));
    const [put] = await arrivals(hub, emsp, () => migrating.call('PUT', pathOf(migrating, 'MODE2'), repaired));
    t.equal(put?.body, repaired, 'a correct cdr_token repairs it [interface, Sessions 5]');
  },
);

// CDRs

t.test(
  'a CDR is 201 with its Location once, then 200 with the same, and goes to its eMSP once [interface, CDRs; D22, D33, D40]',
  async (t) => {
    const body = `{ "x_own": [1.0, 1e2],${JSON.stringify(cdrBody('C1')).slice(1)}`;
    const parsed = JSON.parse(body) as Record<string, unknown>;
    const reordered = JSON.stringify(Object.fromEntries(Object.entries(parsed).reverse()));
    const address = `${hub.url}/ocpi/2.2.1/cdrs/C1`;
    const came = await arrivals(hub, emsp, async () => {
      for (const [sent, status, what] of [
        [body, '201/1000', 'new'],
        [body, done, 'again'],
        [reordered, done, 'the same content in other order'],
      ] as const) {
        const answer = await cpo.call('POST', '/2.2.1/cdrs', sent, { Host: 'elsewhere.test' });
        t.equal(statusOf(answer), status, what);
        t.equal(answer.headers.get('location'), address, `${what}: Location`);
      }
    });
    t.same(
      came.map((call) => `${call.method} ${call.path} ${call.body}`),
      [`POST /ocpi/2.2.1/cdrs ${body}`],
    );
    for (const reader of [cpo, emsp]) {
      const read = await reader.call('GET', address.slice(`${hub.url}/ocpi`.length));
      t.equal(dataText(read), body, `${reader.id} reads it byte for byte [D17, D20]`);
    }
  },
);

t.test('a CDR at a path with its party is accepted like one without, and counted [interface, CDRs; D70]', async (t) => {
  const came = await arrivals(hub, emsp, async () => {
    for (const [id, path] of [
      ['PATH1', '/cdrs/NL/CPO'],
      ['PATH2', '/cdrs/nl/cpo/path2'],
    ] as const) {
      for (const created of ['201/1000', done]) {
        const answer = await cpo.call('POST', `/2.2.1${path}`, cdrBody(id));
        t.equal(statusOf(answer), created, path);
        t.equal(answer.headers.get('location'), `${hub.url}/ocpi/2.2.1/cdrs/${id}`, path);
      }
    }
  });
  t.same(
    came.map((call) => `${call.method} ${call.path} ${call.body}`),
    ['PATH1', 'PATH2'].map((id) => `POST /ocpi/2.2.1/cdrs ${JSON.stringify(cdrBody(id))}`),
  );
  const { quirks } = (await admin(hub, 'GET', '/parties/NL-CPO/report')) as unknown as ReportView;
  t.match(
    quirks.filter(({ quirk }) => quirk === 'cdr-path'),
    [{ module: 'cdrs', count: 4, object: 'NL-CPO/PATH2' }],
  );
});

t.test('a stored CDR never changes: other content is 2001, other methods 405 [interface, CDR; D22]', async (t) => {
  const original = JSON.stringify(cdrBody('FIXED'));
  await cpo.call('POST', '/2.2.1/cdrs', original);
  await quiet(hub);
  const others = [
    cdrBody('FIXED', { total_energy: 99 }),
    cdrBody('FIXED', names('NL', 'EM2')),
    cdrBody('FIXED', { last_updated: instant(50), total_energy: 8 }),
    cdrBody('FIXED', { remark: 'added' }),
  ];
  const heard = [emsp, second].map(({ received }) => received.length);
  for (const other of others) {
    const answer = await cpo.call('POST', '/2.2.1/cdrs', other);
    t.equal(statusOf(answer), '200/2001');
    t.equal(answer.json.status_message, 'CDR already exists');
  }
  for (const method of ['PUT', 'PATCH', 'DELETE']) {
    t.equal(statusOf(await cpo.call(method, '/2.2.1/cdrs/FIXED', cdrBody('FIXED'))), '405/2000', method);
  }
  await quiet(hub);
  t.same(
    [emsp, second].map(({ received }) => received.length),
    heard,
    'nothing was forwarded',
  );
  t.equal(dataText(await cpo.call('GET', '/2.2.1/cdrs/fixed')), original, 'the stored one stays');
});

t.test('a CDR that is posted again with the same values in another text is a duplicate [D12, D63]', async (t) => {
  const body = cdrBody('WORDS');
  await cpo.call('POST', '/2.2.1/cdrs', body);
  await quiet(hub);
  const end = String(body.end_date_time).replace(/(\.0+)?Z$/, '');
  const again = [
    { ...body, remark: null, credit: null },
    { ...body, country_code: 'nl', id: 'words' },
    { ...body, end_date_time: `${end}.000Z`, last_updated: instant(55) },
  ];
  const heard = emsp.received.length;
  for (const one of again) {
    const answer = await cpo.call('POST', '/2.2.1/cdrs', one);
    t.equal(statusOf(answer), done);
    t.equal(answer.headers.get('location'), `${hub.url}/ocpi/2.2.1/cdrs/WORDS`);
  }
  await quiet(hub);
  t.equal(emsp.received.length, heard, 'and goes to nobody');
});

t.test('a session keeps its eMSP when a PATCH sets its card to null [OBJECT-2]', async (t) => {
  const path = pathOf(cpo, 'KEPT');
  await cpo.call('PUT', path, sessionBody('KEPT'));
  await quiet(hub);
  const nulls = { kwh: 2, cdr_token: null, authorization_reference: null, last_updated: instant(40) };
  const came = await arrivals(hub, emsp, () => cpo.call('PATCH', path, nulls));
  t.equal(came.length, 1, 'its eMSP hears of the change');
  t.ok(await isListed(emsp, 'sessions', 'KEPT'));
  t.match(JSON.parse(dataText(await emsp.call('GET', path))), { kwh: 2, cdr_token: sessionBody('KEPT').cdr_token });
});

t.test(
  'a CDR that reached nobody is repaired by one that differs in its cdr_token alone, and never changes again [D22, D23]',
  async (t) => {
    await cpo.call('POST', '/2.2.1/cdrs', cdrBody('MEND', names('XX', 'HUB')));
    const changed = await cpo.call('POST', '/2.2.1/cdrs', cdrBody('MEND', { total_energy: 99 }));
    t.equal(statusOf(changed), '200/2001', 'not when other content changes with it');
    const body = JSON.stringify(cdrBody('MEND'));
    const came = await arrivals(hub, emsp, async () => {
      const answer = await cpo.call('POST', '/2.2.1/cdrs', body);
      t.equal(statusOf(answer), done, 'repaired');
      t.equal(answer.headers.get('location'), `${hub.url}/ocpi/2.2.1/cdrs/MEND`);
    });
    t.same(
      came.map((call) => `${call.method} ${call.body}`),
      [`POST ${body}`],
    );
    t.equal(await reasonOf('NL-CPO/MEND', 'cdrs'), undefined, 'no longer listed for operators');
    t.ok(await isListed(emsp, 'cdrs', 'MEND'));
    const again = await cpo.call('POST', '/2.2.1/cdrs', cdrBody('MEND', names('NL', 'EM2')));
    t.equal(statusOf(again), '200/2001', 'once forwarded it is fixed');
  },
);

t.test('GET /cdrs/{id} is read by the caller: a CPO’s own, an eMSP’s own [D22]', async (t) => {
  await cpo.call('POST', '/2.2.1/cdrs', cdrBody('TWICE'));
  const ofOther = cdrBody('TWICE', { ...ofMigrating, ...names('NL', 'EM2'), total_energy: 42 });
  t.equal(statusOf(await migrating.call('POST', '/2.2.1/cdrs', ofOther)), '201/1000', 'the key is CPO and id');
  const energyOf = async (reader: PlainPartner) =>
    ((await reader.call('GET', '/2.2.1/cdrs/twice')).json.data as { total_energy: number }).total_energy;
  t.same(await Promise.all([cpo, migrating, emsp, second].map(energyOf)), [7.25, 42, 7.25, 42]);
  t.equal(statusOf(await unrouted.call('GET', '/2.2.1/cdrs/TWICE')), notFound);
});

t.test('a partner reads the CDR of any of its parties at the Location that it was given [D16, D22]', async (t) => {
  const others = [
    { role: 'CPO', country_code: 'NL', party_id: 'PL2' },
    { role: 'EMSP', country_code: 'NL', party_id: 'PL3' },
  ] as const;
  const platform = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'PL1', others });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-PL2', { active: true });
  await admin(hub, 'PUT', '/routes/NL-PL3/NL-CPO', { active: true });
  const made = await platform.push(
    'POST',
    '/2.2.1/cdrs',
    cdrBody('SECOND', { ...names('NL', 'EMS'), party_id: 'PL2' }),
  );
  const path = new URL(made.headers.get('location') ?? '').pathname.replace('/ocpi', '');
  t.match((await platform.call('GET', path)).json.data, { id: 'SECOND', party_id: 'PL2' });
  const first = { 'OCPI-from-country-code': 'NL', 'OCPI-from-party-id': 'PL1' };
  t.equal(statusOf(await platform.call('GET', path, undefined, first)), notFound, 'that party has none');
  await cpo.push('POST', '/2.2.1/cdrs', cdrBody('THIRD', names('NL', 'PL3')));
  t.match((await platform.call('GET', '/2.2.1/cdrs/THIRD')).json.data, { id: 'THIRD', party_id: 'CPO' });
  await platform.push('POST', '/2.2.1/cdrs', cdrBody('SECOND', { ...names('NL', 'EMS'), party_id: 'PL1' }));
  const both = await platform.call('GET', path);
  const message = 'ambiguous: several CDRs have id SECOND; OCPI-from-* names the party';
  t.match(both.json, { status_code: 2001, status_message: message });
  t.match((await platform.call('GET', path, undefined, first)).json.data, { party_id: 'PL1' }, 'as OCPI-from says');
  await admin(hub, 'PUT', '/routes/NL-PL3/NL-PL1', { active: true });
  await platform.push('POST', '/2.2.1/cdrs', cdrBody('OWN', { ...names('NL', 'PL3'), party_id: 'PL1' }));
  t.match((await platform.call('GET', '/2.2.1/cdrs/OWN')).json.data, { id: 'OWN' }, 'one that two of them may see');
  await cpo.push('POST', '/2.2.1/cdrs', cdrBody('OWN', names('NL', 'PL3')));
  const own = await platform.call('GET', '/2.2.1/cdrs/OWN');
  t.match(own.json.data, { party_id: 'PL1' }, 'its own counts, whatever others post for it');
});
