/** The form in which a partner takes its token is found out by the exchange, kept, shown and used from then on. [D58] */
import type { PartyView } from '../../src/api/parties.ts';
import type { ReportView } from '../../src/api/report.ts';
import { sessionBody } from '../support/bodies.ts';
import { hubFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, type PlainPartner, plainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

type Form = 'base64' | 'plain';

const formOf = ({ headers }: Received, token: string): Form =>
  headers.authorization === `Token ${token}` ? 'plain' : 'base64';

const says = (status: number, code: number): Reply => ({
  status,
  text: `{"status_code":${code},"timestamp":"2026-01-01T00:00:00Z"}`,
});

/** An eMSP that takes its token in one form alone, which the test may change; null: in none. */
async function picky(t: Test, takes: { form: Form | null; refusal?: (form: Form) => Reply; hasNoDetails?: true }) {
  const isTaken = (received: Received) =>
    formOf(received, partner.token) === takes.form && !(takes.hasNoDetails && received.path === '/ocpi/2.2.1');
  const refused = (received: Received): Reply | undefined =>
    isTaken(received) ? undefined : (takes.refusal?.(formOf(received, partner.token)) ?? { status: 401, text: '' });
  const partner: PlainPartner = await plainPartner({
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'PKY', token: 'a-token-that-is-no-base64!' },
    discovery: refused,
    answer: (received) => refused(received) ?? {},
  });
  t.teardown(() => partner.close());
  return partner;
}

const shownBy = async (hub: TestHub) => {
  const { settings, token_sent_as } = (await admin(hub, 'GET', '/parties/NL-PKY')) as unknown as PartyView;
  return `${settings.token_encoding}: ${token_sent_as}`;
};

async function quirksOf(hub: TestHub): Promise<string[]> {
  const { quirks } = (await admin(hub, 'GET', '/parties/NL-PKY/report')) as unknown as ReportView;
  return quirks.map(({ module, quirk, count }) => `${module} ${quirk} ${count}`);
}

for (const [what, refusal] of [
  ['HTTP 403', { status: 403, text: '' }],
  ['OCPI 2000', says(200, 2000)],
  ['HTTP 400', says(400, 2001)],
  ['HTTP 400 without an envelope', { status: 400, text: 'Bad Request' }],
] as const)
  t.test(`a partner that takes its token only in plain is found out by the exchange: ${what} [D58]`, async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await routedPair(t, hub);
    const partner = await picky(t, { form: 'plain', refusal: () => refusal });
    hub.partners.push(partner);
    await partner.register(hub);
    const asked = partner.asked.map((call) => `${formOf(call, partner.token)} ${call.path}`);
    t.same(asked, ['base64 /ocpi/versions', 'plain /ocpi/versions', 'plain /ocpi/2.2.1']);
    t.equal(await shownBy(hub), 'auto: plain');
    t.same(await quirksOf(hub), ['versions plain-token 1']);
    t.match(await admin(hub, 'GET', '/parties/NL-PKY'), {
      quirks: [{ setting: 'token_encoding', value: 'plain', source: 'learnt' }],
    });
    await admin(hub, 'PUT', '/routes/NL-PKY/NL-CPO', { active: true });
    const cdr_token = { country_code: 'NL', party_id: 'PKY', uid: 'U', type: 'RFID', contract_id: 'C' };
    await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { cdr_token }));
    await hub.settled();
    t.same(
      partner.received.map((call) => formOf(call, partner.token)),
      ['plain'],
    );
    t.same(await itemsOf(hub, '/deliveries?state=DEAD'), []);
    t.match(await admin(hub, 'POST', '/parties/NL-PKY/probe'), { status: 'reachable' });
  });

t.test('an exchange begins with the token form that worked last, and changes it at most once', async (t) => {
  const hub = await hubFor(t);
  const takes: { form: Form } = { form: 'plain' };
  const partner = await picky(t, takes);
  await partner.register(hub);
  takes.form = 'base64';
  partner.asked.length = 0;
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'PKY' }];
  const body = { token: partner.token, url: `${partner.url}/ocpi/versions`, roles };
  await partner.push('PUT', '/2.2.1/credentials', body);
  t.same(
    partner.asked.map((call) => formOf(call, partner.token)),
    ['plain', 'base64', 'base64'],
  );
  t.equal(await shownBy(hub), 'auto: base64');
});

t.test('a partner that refuses both token forms is called twice, and nothing changes', async (t) => {
  const hub = await hubFor(t);
  const partner = await picky(t, { form: null });
  await t.rejects(partner.register(hub), /3001 Cannot fetch the versions: The partner answered HTTP 401/);
  t.equal(partner.asked.length, 2);
  t.equal(await shownBy(hub), 'auto: base64');
});

t.test('a partner that refuses both token forms is reported with its first answer', async (t) => {
  const hub = await hubFor(t);
  const refusal = (form: Form) => (form === 'base64' ? says(400, 2001) : says(200, 2000));
  const partner = await picky(t, { form: null, refusal });
  await t.rejects(partner.register(hub), /3001 Cannot fetch the versions: The partner answered HTTP 400, OCPI 2001/);
  t.equal(partner.asked.length, 2);
  t.equal(await shownBy(hub), 'auto: base64');
});

t.test('an exchange changes the token form once in all, also when its second request is refused [D58]', async (t) => {
  const hub = await hubFor(t);
  const partner = await picky(t, { form: 'plain', hasNoDetails: true });
  await t.rejects(partner.register(hub), /3001 Cannot fetch the version details of 2\.2\.1/);
  const asked = partner.asked.map((call) => `${formOf(call, partner.token)} ${call.path}`);
  t.same(asked, ['base64 /ocpi/versions', 'plain /ocpi/versions', 'plain /ocpi/2.2.1']);
});

t.test('a token form that an operator fixed is used alone, and counted; auto continues with it [D70]', async (t) => {
  const hub = await hubFor(t);
  const partner = await picky(t, { form: 'plain' });
  await t.rejects(partner.register(hub, { token_encoding: 'base64' }), /3001/);
  t.equal(partner.asked.length, 1);
  t.equal(await shownBy(hub), 'base64: base64');
  await admin(hub, 'PATCH', '/parties/NL-PKY', { token_encoding: 'plain' });
  await partner.registerAgain(partner.initialToken);
  t.equal(partner.asked.length, 3);
  t.equal(await shownBy(hub), 'plain: plain');
  t.same(await quirksOf(hub), ['versions plain-token 1'], 'an operator set it, and it is counted all the same [D70]');
  const { quirks } = (await admin(hub, 'GET', '/parties/NL-PKY/report')) as unknown as ReportView;
  t.equal(quirks[0]?.source, 'operator');
  await admin(hub, 'PATCH', '/parties/NL-PKY', { token_encoding: 'auto' });
  t.equal(await shownBy(hub), 'auto: plain');
});
