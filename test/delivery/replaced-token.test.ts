/** A delivery that a partner refuses because of a token that it replaces. [ATTEMPTS-3] */
import { sessionBody } from '../support/bodies.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { lines, quiet } from '../support/observed.ts';
import { type PlainPartner, plainPartner, type Reply } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';
import { within } from '../support/within.ts';
import { at, deliveriesOf, Holding } from './watched.ts';

const emsp = { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' } as const;

const path = '/2.2.1/sessions/NL/CPO/S1';
const says = (status: number, code: number): Reply => ({
  status,
  text: `{"status_code":${code},"timestamp":"2026-01-01T00:00:00Z"}`,
});
const refusals = { 'HTTP 401': { status: 401 }, 'OCPI 2000': says(200, 2000), 'HTTP 400': says(400, 2001) };

/** The eMSP with a delivery on its way, and `next`: its server with the token that it rotates to, which waits for `answers` before its versions. */
async function scene(t: Test, method: 'PUT' | 'PATCH' = 'PUT') {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '0.2' });
  const holding = new Holding();
  const { cpo, emsp: former } = await routedPair(t, hub, { emsp: holding.answer });
  let answer = () => {};
  const answers = new Promise<undefined>((resolve) => {
    answer = () => resolve(undefined);
  });
  const next = await plainPartner({ ...emsp, discovery: () => answers });
  t.teardown(() => next.close());
  await cpo.push('PUT', path, sessionBody('S1'));
  await former.gotCalls(1);
  if (method === 'PATCH') {
    holding.releaseOne();
    await hub.settled();
    await cpo.push('PATCH', path, { kwh: 2, last_updated: at(1) });
    await former.gotCalls(2);
  }
  const rotate = () => former.push('PUT', '/2.2.1/credentials', bodyOf(next));
  return { hub, holding, former, next, answer, rotate };
}

const bodyOf = ({ token, url }: PlainPartner) => ({
  ...{ token, url: `${url}/ocpi/versions` },
  roles: [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS' }],
});

for (const [what, refusal] of Object.entries(refusals)) {
  t.test(`goes with the new token, when ${what} comes after the rotation`, async (t) => {
    const { hub, holding, next, answer, rotate } = await scene(t);
    answer();
    await rotate();
    holding.releaseAll(refusal);
    await quiet(hub);
    t.same(lines(next.received), [`PUT /ocpi${path}`]);
    t.match(await deliveriesOf(hub), [
      { state: 'DELIVERED', attempts: [{ class: 'unavailable' }, { class: 'delivered' }] },
    ]);
  });

  t.test(`goes with the new token, when ${what} comes while the partner rotates`, async (t) => {
    const { hub, holding, former, next, answer, rotate } = await scene(t);
    const rotated = rotate();
    await within(30_000, next.holding > 0 ? Promise.resolve() : next.changed(), () => 'the hub asks for no versions');
    holding.releaseAll(refusal);
    await former.gotCalls(2);
    t.match(await deliveriesOf(hub), [{ state: 'PENDING' }]);
    answer();
    await rotated;
    await quiet(hub);
    t.same(lines(next.received), [`PUT /ocpi${path}`]);
    t.match(await deliveriesOf(hub), [{ state: 'DELIVERED' }]);
  });
}

t.test('a PATCH refused for a replaced token is not followed by a whole object [D59]', async (t) => {
  const { hub, holding, former, next, answer, rotate } = await scene(t, 'PATCH');
  const rotated = rotate();
  await within(30_000, next.holding > 0 ? Promise.resolve() : next.changed(), () => 'the hub asks for no versions');
  holding.releaseAll(says(200, 2000));
  await former.gotCalls(3);
  answer();
  await rotated;
  await quiet(hub);
  const methods = former.received.map(({ method }) => method);
  t.same(new Set(methods.slice(1)), new Set(['PATCH']), 'no PUT with the former token');
  t.same(lines(next.received), [`PATCH /ocpi${path}`]);
});

t.test('a delivery refused for a token that is in force, and stays it, is a dead letter', async (t) => {
  const { hub, holding } = await scene(t);
  holding.releaseAll({ status: 401 });
  await quiet(hub);
  t.match(await deliveriesOf(hub), [{ state: 'DEAD', attempts: [{ class: 'auth_error' }] }]);
});
