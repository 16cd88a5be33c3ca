import type { Session } from '../../src/sandbox/bodies.ts';
import { t } from '../support/tap.ts';
import { pair } from './pair.ts';

t.test('A pushed catalogue arrives byte for byte, and fragments are merged on three levels', async (t) => {
  const { cpo, emsp } = await pair(t);
  const tariff = await cpo.pushTariff();
  const location = await cpo.pushLocation();
  t.equal(emsp.copy('tariffs', cpo, tariff.id)?.text, JSON.stringify(tariff));
  t.equal(emsp.copy('locations', cpo, location.id)?.text, JSON.stringify(location));
  const [evse, other] = location.evses;
  const within = [evse?.uid ?? '', '1'];
  await cpo.patchLocation(location.id, { name: 'Renamed' });
  await cpo.patchLocation(location.id, { status: 'CHARGING' }, within.slice(0, 1));
  await cpo.patchLocation(location.id, { max_amperage: 16 }, within);
  await cpo.putWithin(location.id, [`${location.id}-3`], { ...evse, uid: `${location.id}-3` });
  const { state, arrivals } = emsp.copy('locations', cpo, location.id) ?? {};
  t.match(state, {
    name: 'Renamed',
    city: location.city,
    evses: [
      { status: 'CHARGING', connectors: [{ max_amperage: 16 }] },
      { uid: other?.uid },
      { uid: `${location.id}-3` },
    ],
  });
  t.same(
    arrivals?.map(({ method, within }) => [method, within.length]),
    [
      ['PUT', 0],
      ['PATCH', 0],
      ['PATCH', 1],
      ['PATCH', 2],
      ['PUT', 1],
    ],
  );
  await cpo.deleteTariff(tariff.id);
  t.equal(emsp.copy('tariffs', cpo, tariff.id)?.state, null);
});

t.test('A fragment of something unknown is refused and creates nothing', async (t) => {
  const { cpo, emsp } = await pair(t);
  await t.rejects(cpo.patchLocation('NOWHERE', { name: 'x' }), {
    name: 'Refused',
    answer: { httpStatus: 404, statusCode: 2003 },
  });
  const location = await cpo.pushLocation();
  await t.rejects(cpo.patchLocation(location.id, { status: 'CHARGING' }, ['NO-EVSE']), {
    name: 'Refused',
    answer: { httpStatus: 404 },
  });
  t.equal(emsp.copies.of('locations').length, 1);
  t.same(emsp.copy('locations', cpo, location.id)?.state, location);
});

t.test('A session from START_SESSION to its CDR, step by step', async (t) => {
  const { cpo, emsp } = await pair(t);
  const location = await cpo.pushLocation();
  const start = await emsp.command('START_SESSION', {
    token: emsp.driver,
    location_id: location.id,
    evse_uid: location.evses[1]?.uid,
  });
  t.equal(start.result, 'ACCEPTED');
  const command = await cpo.until('the command', () => cpo.commands[0]);
  t.same(command.from, { country_code: 'DE', party_id: 'EMS' });
  t.same(emsp.resultsOf(start.id), [], 'by hand: nothing happens by itself');
  await cpo.reportResult(command, 'EVSE_OCCUPIED');
  t.match(emsp.resultsOf(start.id), [{ result: 'EVSE_OCCUPIED' }]);

  const session = await cpo.openSession(command);
  const copy = () => emsp.copy('sessions', cpo, session.id);
  t.match(copy()?.state, {
    status: 'PENDING',
    evse_uid: location.evses[1]?.uid,
    cdr_token: { uid: emsp.driver.uid, party_id: 'EMS' },
  });
  await cpo.startCharging(session);
  await cpo.meter(session, 1.5);
  await cpo.meter(session, 2.75);
  await cpo.completeCharging(session);
  t.same(copy()?.state, session, 'the fragments add up to the state of the CPO');
  t.equal(session.charging_periods.length, 2);
  t.same(
    copy()?.arrivals.map(({ method }) => method),
    ['PUT', 'PUT', 'PATCH', 'PATCH', 'PATCH'],
  );

  const cdr = await cpo.bill(session);
  t.equal(emsp.copy('cdrs', cpo, cdr.id)?.text, JSON.stringify(cdr));
  t.equal(cdr.total_cost.excl_vat, 1.6975);
  const again = await cpo.pushCdr(cdr);
  t.equal(again.httpStatus, 200, 'the same CDR again is no new one');
  t.match(again.headers.location, /\/cdrs\/NL\/CPO\//);
  t.not(cdr.id, (await cpo.bill(session)).id, 'ids are unique');
});

t.test('A repeated PATCH changes nothing, and counts again after a PUT', async (t) => {
  const { cpo, emsp } = await pair(t);
  const push = (method: string, body: object) =>
    emsp.copies.apply({
      module: 'sessions',
      owner: cpo.id,
      id: 'S',
      method,
      body: JSON.stringify(body),
      at: emsp.stamp(),
    });
  const state = () => emsp.copy('sessions', cpo, 's')?.state;
  t.notOk(push('PATCH', { kwh: 1 }), 'a PATCH creates nothing');
  push('PUT', { id: 'S', charging_periods: [] });
  push('PATCH', { charging_periods: [1] });
  push('PATCH', { kwh: 2 });
  push('PATCH', { charging_periods: [1] });
  t.same(state(), { id: 'S', charging_periods: [1], kwh: 2 });
  push('PUT', { id: 'S', charging_periods: [] });
  push('PATCH', { charging_periods: [1] });
  t.same(state(), { id: 'S', charging_periods: [1] });
});

t.test('A CPO that acts by itself reports, charges, and bills after a stop', async (t) => {
  const { cpo, emsp } = await pair(t, { carriesOutCommands: 'itself', meterEveryMs: 20 });
  const location = await cpo.pushLocation();
  const start = await emsp.command('START_SESSION', { token: emsp.driver, location_id: location.id });
  await emsp.until('the result', () => emsp.resultsOf(start.id)[0]);
  const [copy] = await emsp.until('two meter readings', () => {
    const sessions = emsp.copies.of('sessions');
    return (sessions[0]?.state as Session | undefined)?.charging_periods.length === 2 ? sessions : null;
  });
  const stop = await emsp.command('STOP_SESSION', { session_id: copy?.id });
  t.equal(stop.result, 'ACCEPTED');
  const [cdr] = await emsp.until('the CDR', () => (emsp.copies.of('cdrs').length > 0 ? emsp.copies.of('cdrs') : null));
  t.equal(cdr?.state?.session_id, copy?.id);
  t.equal(emsp.copies.of('sessions')[0]?.state?.status, 'COMPLETED');
});

t.test('A CPO that acts by itself charges even when its result does not arrive', async (t) => {
  const { cpo, emsp } = await pair(t, { carriesOutCommands: 'itself' });
  const { id } = await cpo.pushLocation();
  const response_url = `${emsp.url}/nowhere`;
  await emsp.command('START_SESSION', { token: emsp.driver, location_id: id, response_url });
  t.ok(await emsp.until('its session', () => emsp.copies.of('sessions')[0]));
});

t.test('Commands that cannot be executed are refused with the results of OCPI', async (t) => {
  const { emsp } = await pair(t);
  t.equal((await emsp.command('STOP_SESSION', { session_id: 'NONE' })).result, 'UNKNOWN_SESSION');
  t.equal((await emsp.command('START_SESSION', { token: emsp.driver, location_id: 'NONE' })).result, 'REJECTED');
  await t.rejects(emsp.command('DANCE', {}), { name: 'Refused', answer: { httpStatus: 404, statusCode: 2000 } });
});

t.test('Authorization: known, blocked and unknown tokens, and whitelists', async (t) => {
  const { cpo, emsp } = await pair(t);
  const { uid } = emsp.driver;
  const asked = await cpo.authorize(uid, emsp, { locationId: 'LOC1' });
  t.match(asked.data, { allowed: 'ALLOWED', token: { uid }, location: { location_id: 'LOC1' } });
  emsp.blocked.add(uid);
  t.match((await cpo.authorize(uid, emsp)).data, { allowed: 'BLOCKED' });
  await t.rejects(cpo.authorize('STRANGER', emsp), { name: 'Refused', answer: { httpStatus: 404, statusCode: 2004 } });
  t.match((await emsp.authorizeAtCpo(uid)).data, { allowed: 'NOT_ALLOWED' });
  await emsp.pushToken(emsp.driver);
  t.match((await emsp.authorizeAtCpo(uid)).data, { allowed: 'ALLOWED' });
  await emsp.pushToken({ ...emsp.driver, valid: false });
  t.match((await emsp.authorizeAtCpo(uid)).data, { allowed: 'BLOCKED' });
});

t.test('A list is pulled page by page along rel="next", whatever other links there are', async (t) => {
  const { cpo, emsp } = await pair(t);
  for (let n = 0; n < 5; n++) await cpo.pushTariff();
  const pulled = await emsp.pull('tariffs', { limit: 2 });
  t.same(
    pulled.items.map((item) => (item as { id: string }).id),
    [...cpo.tariffs.keys()],
  );
  t.equal(pulled.pages.length, 3);
  t.equal(pulled.total, 5);
  const [, , third] = [...cpo.tariffs.values()];
  const later = await emsp.pull('tariffs', { date_from: third?.last_updated ?? '' });
  t.equal(later.items.length, 3);
  await t.rejects(emsp.pull('sessions'), { name: 'Refused', answer: { statusCode: 2001 } });
});

t.test('The transcript has every exchange of both sides, in order, with the answers', async (t) => {
  const { cpo, emsp } = await pair(t);
  const tariff = await cpo.pushTariff();
  const [sent] = cpo.transcript.sent('tariffs');
  const [received] = emsp.transcript.received('tariffs');
  t.match(sent, {
    method: 'PUT',
    path: `/ocpi/2.2.1/tariffs/NL/CPO/${tariff.id}`,
    body: JSON.stringify(tariff),
    answer: { status: 200 },
  });
  t.match(received, {
    seq: 1,
    direction: 'received',
    answer: { status: 200 },
    headers: { 'ocpi-from-party-id': 'CPO' },
  });
  t.equal(sent?.headers['x-request-id'], received?.headers['x-request-id']);
  await t.rejects(
    emsp.until('what never comes', () => null, 10),
    { message: /in vain for what never comes at DE-EMS/ },
  );
});
