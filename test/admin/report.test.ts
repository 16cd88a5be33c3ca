/**
 * The report of a partner: a refused push, a warning and a dead letter are found with their reason where support looks.
 */
import type { ReportView } from '../../src/api/report.ts';
import type { TraceView } from '../../src/api/trace.ts';
import { append, event } from '../storage/support.ts';
import { cdrBody, locationBody, sessionBody, tariffBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { closed, hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { ended } from '../support/observed.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const reportOf = async (hub: TestHub, id: string) =>
  (await admin(hub, 'GET', `/parties/${id}/report`)) as unknown as ReportView;
const traceOf = async (hub: TestHub, key: string) =>
  (await admin(hub, 'GET', `/trace/${encodeURIComponent(key)}`)) as unknown as TraceView;
const eventsOf = async (hub: TestHub, type: string) =>
  (await admin(hub, 'GET', `/events?type=${type}`)).items as readonly object[];

const path = '/2.2.1/sessions/NL/CPO/S1';
const missing = 'last_updated: expected string';
const withoutDate = sessionBody('S1', { last_updated: undefined });

t.test('a refused push is in the report and in the traces of its object and request [D69]', async (t) => {
  const hub = await hubFor(t, {}, { clock: new SimulatedClock('2026-05-01T10:01:00.000Z') });
  const { cpo } = await routedPair(t, hub);
  for (const _ of [1, 2]) await cpo.call('PUT', path, withoutDate, { 'X-Correlation-ID': 'it-was-refused' });
  await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1', { last_updated: undefined }));
  const { refused } = await reportOf(hub, 'NL-CPO');
  t.match(refused, [
    { module: 'cdrs', method: 'POST', path: '/ocpi/2.2.1/cdrs', object: 'NL-CPO/C1', count: 1 },
    { module: 'sessions', method: 'PUT', path: `/ocpi${path}`, object: 'NL-CPO/S1', count: 2, code: 'invalid' },
  ]);
  t.match(refused[1], { reason: missing, first_at: '2026-05-01T10:01:00.000Z', body: JSON.stringify(withoutDate) });
  for (const key of ['NL-CPO/S1', 'it-was-refused']) {
    const { steps } = await traceOf(hub, key);
    t.match(steps, [{ type: 'push.refused', module: 'sessions', object: 'NL-CPO/S1' }], key);
    t.equal(steps[0]?.summary, `NL-CPO sent PUT /ocpi${path}: refused, 2 times so far: ${missing}`);
  }
  t.same((await reportOf(hub, 'NL-EMS')).refused, [], 'another partner has none of it');
});

t.test('a check leaves refused exchanges to the registration, and finds what no route takes', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  for (const version of ['2.2.1', '2.1.1']) await cpo.call('POST', `/${version}/credentials`, {});
  const { refused } = await reportOf(hub, 'NL-CPO');
  t.same(refused.map(({ code }) => code).sort(), ['alreadyRegistered', 'pathNotFound']);
  const { id } = await admin(hub, 'POST', '/parties/NL-CPO/check', {});
  const { findings } = await ended(hub, `/checks/${String(id)}`);
  const seen = (findings as { name: string; seen: string }[]).filter(({ name }) => name === 'push-refused');
  t.match(seen, [{ seen: /POST \/ocpi\/2\.1\.1\/credentials/ }]);
  t.equal(seen.length, 1);
});

t.test('the query of a response_url goes to its eMSP and is in no event and report', async (t) => {
  const hub = await hubFor(t);
  const answer = { result: 'ACCEPTED', timeout: 30 };
  const { cpo, emsp } = await routedPair(t, hub, { cpo: () => ({ body: answer }) });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  const token = { uid: 'CARD0001', type: 'RFID', contract_id: 'C1' };
  const body = { response_url: `${emsp.url}/result?key=SECRET`, token, location_id: 'LOC1' };
  const start = (sent: string | object) => emsp.call('POST', '/2.2.1/commands/START_SESSION', sent);
  await start(body);
  const sent = await cpo.got('the command', ({ path }) => path.endsWith('/START_SESSION'));
  const { response_url: callback } = JSON.parse(sent.body) as { response_url: string };
  await cpo.push('POST', new URL(callback).pathname.replace('/ocpi', ''), { result: 'ACCEPTED' });
  await emsp.got('the result', ({ path }) => path === '/result?key=SECRET');
  await start({ ...body, location_id: 'NOWHERE' });
  await start(JSON.stringify(body).slice(0, -1));
  const { refused } = await reportOf(hub, 'NL-EMS');
  t.same(
    refused.map((one) => one.body.includes(`"response_url":"${emsp.url}/result?…"`)),
    [true, true],
  );
  const events = await eventsOf(hub, 'command.requested');
  t.match(events, [{ data: { responseUrl: `${emsp.url}/result?…` } }]);
  t.notMatch(JSON.stringify([refused, events]), /SECRET/);
});

t.test(
  'a refused push is found by the id of its object alone, and where it named a party of nobody [D69, D78]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await routedPair(t, hub);
    await cpo.call('PUT', path, withoutDate);
    await cpo.call('PUT', '/2.2.1/sessions/BE/CPO/S2', sessionBody('S2', { country_code: 'BE' }));
    for (const [key, object] of [
      ['s1', 'NL-CPO/S1'],
      ['be-cpo/s2', 'BE-CPO/S2'],
      ['S2', 'BE-CPO/S2'],
    ] as const)
      t.match(await traceOf(hub, key), { kind: 'object', key: object, steps: [{ type: 'push.refused', object }] }, key);
    await cpo.call('PUT', '/2.2.1/tariffs/BE/CPO/S2', tariffBody('S2'));
    t.match(
      await traceOf(hub, 'S2'),
      { kind: 'candidates', candidates: { length: 2 } },
      'of several objects all are named',
    );
    await t.rejects(traceOf(hub, 'S3'), /404/);
  },
);

t.test(
  'a search among refused pushes reads 20,000 at most, and says so where it found nothing [TRACE-RELATED-2]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await routedPair(t, hub);
    await cpo.call('PUT', path, withoutDate);
    const { store } = hub.created.context;
    const put = (n: number) => ({
      ...{ kind: 'refused', owner: 'NL-CPO', id: `~${n}`, shelf: 'NL-CPO', upd: '2026', body: '' },
      data: { object: `NL-CPO/Z${n}`, module: 'sessions' },
    });
    const rowsOf = (from: number, count: number) => Array.from({ length: count }, (_, n) => put(from + n));
    t.match(await traceOf(hub, 'S1'), { kind: 'object', key: 'NL-CPO/S1' });
    for (let n = 10_000; n < 29_999; n += 1_000) {
      await append(store, { events: [event()], puts: rowsOf(n, Math.min(1_000, 29_999 - n)) });
    }
    const unknown = (key: string) => admin(hub, 'GET', `/trace/${key}`).catch(String);
    t.notMatch(await unknown('S3'), /not all/, '20,000 are read');
    await append(store, { events: [event()], puts: rowsOf(29_999, 1) });
    t.match(await unknown('S3'), /nothing is known of S3; not all refused pushes were searched for it/);
    t.match(await traceOf(hub, 'S1'), { kind: 'object', key: 'NL-CPO/S1' }, 'what was found is shown');
  },
);

t.test(
  'a command that the hub refuses is in the report and the trace; one that its CPO refuses is a command [D69]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub, { cpo: () => ({ status: 500 }) });
    await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
    const command = async (fields: object, id: string) => {
      const body = {
        response_url: `${emsp.url}/result`,
        token: { uid: 'CARD0001', type: 'RFID', contract_id: 'C1' },
        ...fields,
      };
      await emsp.call('POST', '/2.2.1/commands/START_SESSION', body, { 'X-Correlation-ID': id });
      return JSON.stringify(body);
    };
    const unknown = await command({ location_id: 'NOWHERE' }, 'started-nowhere');
    await command({}, 'started-without');
    await command({ location_id: 'LOC1' }, 'refused-by-its-cpo');
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: false });
    await command({ location_id: 'LOC1' }, 'not-routed');
    const { refused } = await reportOf(hub, 'NL-EMS');
    t.same(
      refused.map(({ method, path, reason, count }) => [method, path, reason, count]).sort(),
      ['Location not found', 'Not routed', 'location_id: expected string'].map((reason) => [
        ...['POST', '/ocpi/2.2.1/commands/START_SESSION', reason, 1],
      ]),
    );
    t.equal(refused.find(({ reason }) => reason === 'Location not found')?.body, unknown);
    t.match((await traceOf(hub, 'started-nowhere')).steps, [
      {
        type: 'push.refused',
        summary: 'NL-EMS sent POST /ocpi/2.2.1/commands/START_SESSION: refused: Location not found',
      },
    ]);
  },
);

t.test('a request on an unknown path is in the report, the trace, the log line and the metric [D69]', async (t) => {
  const lines: string[] = [];
  const clock = new SimulatedClock('2026-05-01T10:01:00.000Z');
  const logTo = { write: (line: string) => void lines.push(line) };
  const hub = await hubFor(t, { HUB_LOG_LEVEL: 'info' }, { clock, logTo });
  const { cpo } = await routedPair(t, hub);
  const rows: [method: string, path: string, object: string | null, reason: string][] = [
    ['PUT', 'locationsNL/CPO/L1', 'NL-CPO/L1', 'Not found: expected PUT /locations/{country_code}/{party_id}/{id}'],
    ['PUT', 'sessionsnl/cpo/S1', 'NL-CPO/S1', 'Not found: expected PUT /sessions/{country_code}/{party_id}/{id}'],
    ['PUT', 'cdrs/NL/CPO/C1', 'NL-CPO/C1', 'Method not allowed: expected POST /cdrs'],
    [
      'PATCH',
      'tariffs/NL/CPO/T1',
      'NL-CPO/T1',
      'Method not allowed: expected PUT /tariffs/{country_code}/{party_id}/{id}',
    ],
    ['POST', 'sessions', null, 'Method not allowed: expected PUT /sessions/{country_code}/{party_id}/{id}'],
    ['POST', 'tokens/NL/EMS/CARD1/authorize', null, 'Method not allowed: expected POST /tokens/{uid}/authorize'],
    ['GET', 'chargingprofiles/S1?limit=3', null, 'Not found'],
    ['PATCH', 'credentials', null, 'Method not allowed: expected PUT /credentials'],
  ];
  for (const [at, [method, path, , reason]] of rows.entries()) {
    const answer = await cpo.call(method, `/2.2.1/${path}`, method === 'GET' ? undefined : {}, {
      'X-Correlation-ID': `refused-${at}`,
    });
    t.equal(answer.json.status_message, reason, `${method} ${path}`);
  }
  await ocpi(hub, 'PUT', '/2.2.1/locationsNL/CPO/L2', { token: 'nobody', body: {} });
  const { refused } = await reportOf(hub, 'NL-CPO');
  for (const [method, path, object, reason] of rows) {
    const shown = `/ocpi/2.2.1/${path.replace('CARD1', ':uid').replace(/\?.*/, '')}`;
    const module = /^(locations|sessions|cdrs|tariffs|tokens)/.exec(path)?.[0] ?? null;
    const found = refused.filter((one) => one.path === shown);
    t.match(found, [{ module, method, object, reason, count: 1, body: '' }], `${method} ${path}`);
  }
  t.equal(refused.length, rows.length);
  for (const key of ['NL-CPO/L1', 'refused-0']) {
    const { steps } = await traceOf(hub, key);
    t.match(
      steps,
      [{ type: 'push.refused', summary: /PUT \/ocpi\/2.2.1\/locationsNL.CPO.L1: refused: Not found/ }],
      key,
    );
  }
  t.match((await traceOf(hub, 'refused-5')).steps, [{ type: 'push.refused', module: 'tokens' }]);
  const { text } = await callOnce('GET', `${hub.url}/metrics`, undefined, {
    authorization: `Bearer ${hub.adminToken}`,
  });
  t.match(text, '\nocpi_hub_refused_total{partner="NL-CPO",module="locations",reason="pathNotFound"} 1\n');
  t.match(text, '\nocpi_hub_refused_total{partner="NL-CPO",module="none",reason="pathNotFound"} 1\n');
  const logged = lines.map((line) => JSON.parse(line)).filter(({ msg, route }) => msg === 'request' && route === null);
  t.match(logged[0], { path: '/ocpi/2.2.1/locationsNL', party: 'NL-CPO', reason: rows[0]?.[3] });
  t.notMatch(JSON.stringify(logged), 'CARD1');
  t.notOk(logged.find(({ party }) => party === null)?.path);
});

t.test('refusals with the same method, path and reason are one entry, and metrics count each [D86]', async (t) => {
  const hub = await hubFor(t, {}, { clock: new SimulatedClock('2026-05-01T10:01:00.000Z') });
  const { cpo } = await routedPair(t, hub);
  const other = { ...withoutDate, last_updated: 'soon' };
  for (const body of [withoutDate, withoutDate, other]) await cpo.call('PUT', path, body);
  await cpo.call('PATCH', path, withoutDate);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S2', sessionBody('S2', { auth_method: 'command' }));
  const report = await reportOf(hub, 'NL-CPO');
  t.same(Object.keys(report).sort(), ['dead_letters', 'quirks', 'refused', 'warnings']);
  t.same(report.refused.map(({ method, count }) => `${method} ${count}`).sort(), ['PATCH 1', 'PUT 1', 'PUT 2']);
  const { text } = await callOnce('GET', `${hub.url}/metrics`, undefined, {
    authorization: `Bearer ${hub.adminToken}`,
  });
  const lines = text.split('\n').filter((line) => /^ocpi_hub_(refused|warnings|quirks)_total\{/.test(line));
  t.same(lines.sort(), [
    'ocpi_hub_quirks_total{partner="NL-CPO",module="sessions",quirk="lower-case"} 1',
    'ocpi_hub_refused_total{partner="NL-CPO",module="sessions",reason="invalid"} 4',
    'ocpi_hub_warnings_total{partner="NL-CPO",module="sessions"} 1',
  ]);
});

t.test('the first 65,536 characters of a refused body are kept [D69]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const body = { ...withoutDate, remark: 'x'.repeat(200_000) };
  await cpo.call('PUT', path, body);
  const { refused } = await reportOf(hub, 'NL-CPO');
  t.equal(refused[0]?.body, JSON.stringify(body).slice(0, 65_536));
});

t.test('repeated refusals of a partner cost one event a minute, and a restart keeps the count', async (t) => {
  const clock = new SimulatedClock('2026-05-01T10:01:00.000Z');
  const directory = directoryFor(t);
  const hub = await hubFor(t, {}, { clock }, directory);
  const { cpo } = await routedPair(t, hub);
  await cpo.call('PUT', path, withoutDate);
  clock.advance(1_000);
  await hub.settled();
  t.equal((await eventsOf(hub, 'push.refused')).length, 1, 'written after a second');
  for (let seconds = 0; seconds < 58; seconds++) {
    await cpo.call('PUT', path, withoutDate);
    clock.advance(1_000);
  }
  await hub.settled();
  t.equal((await eventsOf(hub, 'push.refused')).length, 1, 'and not again within the minute');
  clock.advance(2_000);
  await hub.settled();
  t.equal((await eventsOf(hub, 'push.refused')).length, 2);
  await cpo.call('PUT', path, withoutDate);
  await closed(hub, clock);
  const again = await hubFor(t, {}, { clock }, directory);
  t.match((await reportOf(again, 'NL-CPO')).refused, [{ count: 60, first_at: '2026-05-01T10:01:00.000Z' }]);
});

t.test('the last 200 refusals of a partner are kept', async (t) => {
  const clock = new SimulatedClock('2026-05-01T10:01:00.000Z');
  const hub = await hubFor(t, {}, { clock });
  const { cpo } = await routedPair(t, hub);
  for (let round = 0; round < 6; round++) {
    for (let one = 0; one < 45; one++) await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${round}-${one}`, withoutDate);
    clock.advance(60_000);
    await hub.settled();
  }
  const { refused } = await reportOf(hub, 'NL-CPO');
  t.equal(refused.length, 200);
  t.equal(refused[0]?.object?.startsWith('NL-CPO/5-'), true, 'newest first');
  t.equal(
    refused.some(({ object }) => object?.startsWith('NL-CPO/0-')),
    false,
    'the oldest are gone',
  );
});

t.test('a flood of refusals of one module displaces none of another, and no refused command [REPORTS-2]', async (t) => {
  const clock = new SimulatedClock('2026-05-01T10:01:00.000Z');
  const hub = await hubFor(t, {}, { clock });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  const start = { response_url: `${emsp.url}/result`, token: { uid: 'CARD0001', type: 'RFID', contract_id: 'C1' } };
  for (let round = 0; round < 6; round++) {
    if (round === 0) await emsp.call('POST', '/2.2.1/commands/START_SESSION', start);
    const flooded = round % 2 === 0 ? 'wallets' : 'tokens';
    for (let one = 0; one < 60; one++) await emsp.call('PUT', `/2.2.1/${flooded}/NL/EMS/${round}-${one}`, { uid: 'X' });
    clock.advance(60_000);
    await hub.settled();
  }
  const { refused } = await reportOf(hub, 'NL-EMS');
  t.equal(refused.length, 200);
  t.match(refused.at(-1), { path: '/ocpi/2.2.1/commands/START_SESSION', reason: 'location_id: expected string' });
  t.match(refused[0], { path: /tokens.NL.EMS.5-/ });
});

t.test('nor does a flood of refused exchanges of credentials displace a refused command [REPORTS-2]', async (t) => {
  const clock = new SimulatedClock('2026-05-01T10:01:00.000Z');
  const hub = await hubFor(t, {}, { clock });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  await emsp.call('POST', '/2.2.1/commands/START_SESSION', { response_url: `${emsp.url}/result` });
  for (let one = 0; one < 60; one++) {
    const roles = [{ role: 'EMSP', country_code: 'NL', party_id: `X${one}` }];
    await emsp.call('PUT', '/2.2.1/credentials', { token: emsp.token, url: `${emsp.url}/ocpi/versions`, roles });
  }
  const { refused } = await reportOf(hub, 'NL-EMS');
  const paths = refused.map(({ path }) => path);
  t.equal(paths.filter((path) => path.endsWith('/credentials')).length, 49);
  t.ok(paths.includes('/ocpi/2.2.1/commands/START_SESSION'));
});

t.test('warnings are counted by module and field [D70]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  for (const id of ['T1', 'T2']) {
    await cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, { ...tariffBody(id), currency: 'far too long' });
  }
  t.match((await reportOf(hub, 'NL-CPO')).warnings, [
    { module: 'tariffs', field: 'currency', count: 2, object: 'NL-CPO/T2', example: /^currency: expected/ },
  ]);
});

t.test('dead letters are in the reports of their receiver and of their sender', async (t) => {
  const hub = await hubFor(t);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
    answer: () => ({ status: 400, text: '{"status_code":2001}' }),
  });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  for (const id of ['T1', 'T2']) await cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariffBody(id));
  await hub.settled();
  for (const id of ['NL-CPO', 'NL-EMS']) {
    t.match((await reportOf(hub, id)).dead_letters, [
      { sender: 'NL-CPO', receiver: 'NL-EMS', module: 'tariffs', class: 'client_error', count: 2 },
    ]);
  }
});
