import { callOnce } from '../support/caller.ts';
import { t } from '../support/tap.ts';
import { pair } from './pair.ts';

const quick = { callTimeoutMs: 5_000 };

t.test('answer, fail and reset', async (t) => {
  const { cpo, emsp } = await pair(t);
  emsp.at('tariffs').answer(503, 'closed today', { headers: { 'retry-after': '3' } });
  await t.rejects(cpo.pushTariff(), {
    name: 'Refused',
    answer: { httpStatus: 503, text: 'closed today', headers: { 'retry-after': '3' } },
  });
  await cpo.pushLocation();
  t.pass('other modules are not touched');
  emsp.at('tariffs').reset();
  await cpo.pushTariff();
  emsp.at('tariffs').fail(2, 502);
  await t.rejects(cpo.pushTariff(), { name: 'Refused', answer: { httpStatus: 502 } });
  await t.rejects(cpo.pushTariff(), { name: 'Refused', answer: { httpStatus: 502 } });
  await cpo.pushTariff();
  t.equal(emsp.copies.of('tariffs').length, 2);
});

t.test('A knob may be limited to a method and path', async (t) => {
  const { cpo, emsp } = await pair(t);
  const location = await cpo.pushLocation();
  emsp.at(/^PATCH .*\/locations\//).answer(200, { status_code: 2001, timestamp: 'now' });
  await cpo.pushLocation(location);
  await t.rejects(cpo.patchLocation(location.id, {}), {
    name: 'Refused',
    answer: { httpStatus: 200, statusCode: 2001 },
  });
  emsp.behave();
  await cpo.patchLocation(location.id, {});
});

t.test('hang, garble and delay', async (t) => {
  const { cpo, emsp } = await pair(t, quick);
  emsp.at('tariffs').hang({ times: 1 });
  await t.rejects(cpo.pushTariff(), { message: /had no answer/ });
  t.equal(emsp.copies.of('tariffs').length, 0);
  emsp.at('tariffs').garble({ times: 1 });
  await t.rejects(cpo.pushTariff(), { message: /had no answer/ });
  emsp.at('tariffs').delay(30, { times: 1 });
  await cpo.pushTariff();
  t.equal(emsp.copies.of('tariffs').length, 1);
});

t.test('drop loses the request, or only its answer', async (t) => {
  const { cpo, emsp } = await pair(t);
  emsp.at('tariffs').drop({ times: 1 });
  await t.rejects(cpo.pushTariff(), { message: /had no answer/ });
  t.equal(emsp.copies.of('tariffs').length, 0);
  emsp.at('tariffs').drop({ times: 1, applied: true });
  await t.rejects(cpo.pushTariff(), { message: /had no answer/ });
  t.equal(emsp.copies.of('tariffs').length, 1);
});

t.test(
  'retryUntilAnswered repeats a push while the hub is away, fails or hangs up, and takes a refusal as an answer',
  async (t) => {
    const { cpo, emsp } = await pair(t, { retryUntilAnswered: true, ...quick });
    await emsp.hangUp();
    const push = cpo.pushTariff();
    await cpo.until('a refused try', () =>
      cpo.transcript.sent('tariffs').some(({ fault }) => fault === 'ECONNREFUSED'),
    );
    await emsp.listen();
    await push;
    emsp.at('tariffs').fail(1, 500);
    emsp.at('tariffs').drop({ times: 1 });
    await cpo.pushTariff();
    t.equal(emsp.copies.of('tariffs').length, 2);
    emsp.at('tariffs').answer(404, 'no');
    await t.rejects(cpo.pushTariff(), { name: 'Refused', answer: { httpStatus: 404 } });
  },
);

t.test('It stops repeating after its limit', async (t) => {
  const { cpo, emsp } = await pair(t, { retryUntilAnswered: true, retryForMs: 50 });
  await emsp.hangUp();
  await t.rejects(cpo.pushTariff(), { message: /had no answer/ });
});

t.test('A meter reading with an unknown outcome is sent as the whole session instead', async (t) => {
  const { cpo, emsp } = await pair(t, { retryUntilAnswered: true, ...quick });
  const location = await cpo.pushLocation();
  await emsp.command('START_SESSION', { token: emsp.driver, location_id: location.id });
  const command = await cpo.until('the command', () => cpo.commands[0]);
  const session = await cpo.openSession(command);
  emsp.at('sessions').drop({ times: 1, applied: true });
  await cpo.meter(session, 3);
  const copy = emsp.copy('sessions', cpo, session.id);
  t.same(
    copy?.arrivals.map(({ method }) => method),
    ['PUT', 'PATCH', 'PUT'],
  );
  t.same(copy?.state, session, 'with one charging period, not two');
});

t.test('A command is not sent twice: only one that cannot have arrived is repeated', async (t) => {
  const { cpo, emsp } = await pair(t, { retryUntilAnswered: true, ...quick });
  const location = await cpo.pushLocation();
  cpo.at('commands').drop({ times: 1, applied: true });
  await t.rejects(emsp.command('START_SESSION', { token: emsp.driver, location_id: location.id }), {
    message: /no answer/,
  });
  t.equal(cpo.commands.length, 1);
});

t.test('After a 503 it is unknown whether a command arrived, so it is not sent again; after a 429 it is', async (t) => {
  const { cpo, emsp } = await pair(t, { retryUntilAnswered: true, ...quick });
  const location = await cpo.pushLocation();
  const start = () => emsp.command('START_SESSION', { token: emsp.driver, location_id: location.id });
  cpo.at('commands').answer(503, '', { times: 1 });
  await t.rejects(start(), {
    name: 'Refused',
    isInDoubt: true,
    message: /HTTP 503.*; whether it took effect is unknown/,
  });
  t.equal(emsp.transcript.sent('commands').length, 1);
  cpo.at('commands').answer(429, '', { times: 1 });
  await start();
  t.equal(emsp.transcript.sent('commands').length, 3);
  t.equal(cpo.commands.length, 1);
  const session = await cpo.openSession(await cpo.until('the command', () => cpo.commands[0]));
  emsp.at('sessions').answer(503, '', { times: 1 });
  await cpo.meter(session, 3);
  t.same(emsp.copy('sessions', cpo, session.id)?.state, session, 'a reading in doubt is sent as the whole session');
  emsp.at('sessions').answer(404, '', { times: 1 });
  await t.rejects(cpo.meter(session, 4), { name: 'Refused', isInDoubt: false }, 'and one that was refused is not');
});

t.test('Only the hub’s token is accepted, plain or in base64', async (t) => {
  const { emsp } = await pair(t);
  const [token = ''] = emsp.ownTokens;
  const status = async (authorization: string) =>
    (await callOnce('GET', `${emsp.url}/ocpi/versions`, undefined, authorization ? { authorization } : {})).status;
  t.equal(await status(`Token ${token}`), 200);
  t.equal(await status(`Token ${Buffer.from(token).toString('base64')}`), 200);
  t.equal(await status(`Token ${Buffer.from(`${token}\n`).toString('base64')}`), 200);
  t.equal(await status(`Token ${token}x`), 401);
  t.equal(await status(`Bearer ${token}`), 401);
  t.equal(await status(''), 401);
});
