/** The hub begins the exchange of credentials, as the sender of `POST /credentials`. [D81] */
import type { HandshakeView, PartyView } from '../../src/api/parties.ts';
import type { ReportView } from '../../src/api/report.ts';
import type { CredentialsBody } from '../../src/domain/party.ts';
import { sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin, type PlainPartner, plainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';
import { within } from '../support/within.ts';

const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS', business_details: { name: 'Drivers & Co' } }];

/** An eMSP that was added at the hub, and that answers a POST of credentials as a hub would. */
async function invited(
  t: Test,
  hub: TestHub,
  answer: (partner: PlainPartner, body: CredentialsBody) => Reply | Promise<Reply>,
) {
  const partner: PlainPartner = await plainPartner({
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
    answer: async ({ method, path, body }: Received) =>
      method === 'POST' && path === '/ocpi/2.2.1/credentials'
        ? answer(partner, JSON.parse(body) as CredentialsBody)
        : {},
  });
  t.teardown(() => partner.close());
  hub.partners.push(partner);
  partner.moveTo(hub);
  await admin(hub, 'POST', '/parties', { roles: [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS' }] });
  const connect = (fields: object = {}) =>
    admin(hub, 'POST', '/parties/NL-EMS/connect', {
      ...{ versions_url: `${partner.url}/ocpi/versions`, token: partner.token },
      ...fields,
    });
  return { partner, connect };
}

const own = ({ url, token }: PlainPartner): CredentialsBody =>
  ({ url: `${url}/ocpi/versions`, token, roles }) as CredentialsBody;
const party = async (hub: TestHub) => (await admin(hub, 'GET', '/parties/NL-EMS')) as unknown as PartyView;

t.test(
  'the partner reads the versions of the hub before it answers, and both may call from then on [D81]',
  async (t) => {
    const hub = await hubFor(t);
    const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    await admin(hub, 'POST', '/parties', { roles: [{ role: 'EMSP', country_code: 'DE', party_id: 'XXX' }] });
    const { partner, connect } = await invited(t, hub, async (partner, body) => {
      t.match(body, { url: `${hub.url}/ocpi/versions`, roles: [{ role: 'HUB', country_code: 'XX', party_id: 'HUB' }] });
      partner.hubToken = body.token;
      for (const path of ['/versions', '/2.2.1']) t.equal((await partner.call('GET', path)).status, 200, path);
      t.equal((await partner.call('GET', '/2.2.1/locations')).status, 401, 'and nothing else yet [D9]');
      return { body: own(partner) };
    });
    t.match(await connect(), { status: 'CONNECTED', roles, initial_token_expires_at: null });
    t.equal((await partner.call('GET', '/2.2.1/credentials')).json.status_code, 1000, 'the same token is its token');
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
    await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
    await hub.settled();
    t.equal(partner.received.at(-1)?.path, '/ocpi/2.2.1/sessions/NL/CPO/S1');
    const { steps } = (await admin(hub, 'GET', '/parties/NL-EMS/handshake')) as unknown as HandshakeView;
    t.same(
      steps.map(({ step }) => step),
      ['begun', 'called', 'connected'],
    );
    const rotated = await partner.push('PUT', '/2.2.1/credentials', own(partner));
    const { token } = rotated.json.data as { token: string };
    t.equal((await ocpi(hub, 'GET', '/2.2.1/credentials', { token })).json.status_code, 1000, 'and it may rotate it');
  },
);

t.test('from its answer to the end of the exchange the partner gets 503 with Retry-After, not 401 [D81]', async (t) => {
  const hub = await hubFor(t);
  let release = () => {};
  const held = new Promise<undefined>((resolve) => {
    release = () => resolve(undefined);
  });
  const other = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'EMS', discovery: () => held });
  t.teardown(() => other.close());
  const { partner, connect } = await invited(t, hub, (partner, body) => {
    partner.hubToken = body.token;
    return { body: own(other) };
  });
  const connected = connect();
  await within(30_000, other.holding > 0 ? Promise.resolve() : other.changed(), () => 'the hub asks for no versions');
  for (const [method, path] of [
    ['GET', '/2.2.1/locations'],
    ['PUT', '/2.2.1/credentials'],
  ] as const) {
    const { status, headers } = await partner.call(method, path);
    t.same([status, headers.get('retry-after')], [503, '1'], `${method} ${path}`);
  }
  t.equal((await partner.call('GET', '/versions')).status, 200, 'what an initial token may do');
  release();
  t.match(await connected, { status: 'CONNECTED' });
  t.equal((await partner.call('GET', '/2.2.1/locations')).status, 200);
});

t.test('credentials in an array of one, and a plain token, are accepted and counted [D56] [D58]', async (t) => {
  const hub = await hubFor(t);
  const partner: PlainPartner = await plainPartner({
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS', token: 'a-plain-token!' },
    discovery: (received) => refused(received),
    answer: (received) => refused(received) ?? { body: [own(partner)] },
  });
  const refused = ({ headers }: Received): Reply | undefined =>
    headers.authorization === `Token ${partner.token}` ? undefined : { status: 401, text: '' };
  t.teardown(() => partner.close());
  await admin(hub, 'POST', '/parties', { roles: [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS' }] });
  const body = { versions_url: `${partner.url}/ocpi/versions`, token: partner.token };
  t.match(await admin(hub, 'POST', '/parties/NL-EMS/connect', body), { status: 'CONNECTED', token_sent_as: 'plain' });
  const { quirks } = (await admin(hub, 'GET', '/parties/NL-EMS/report')) as unknown as ReportView;
  t.same(quirks.map(({ module, quirk }) => `${module} ${quirk}`).sort(), [
    'credentials array-of-one',
    'credentials plain-token',
  ]);
});

t.test('a refusal or invalid answer of the partner is reported, and the relationship stays unchanged', async (t) => {
  const hub = await hubFor(t);
  let reply: (partner: PlainPartner) => Reply | Promise<Reply> = () => ({});
  const { connect } = await invited(t, hub, (partner) => reply(partner));
  const other = [{ role: 'CPO', country_code: 'NL', party_id: 'OTH' }];
  const table: [name: string, reply: typeof reply, reason: RegExp][] = [
    [
      'a refusal',
      () => ({ status: 405, text: '{"status_code":2000,"status_message":"Already registered"}' }),
      /502 .*Already registered/,
    ],
    ['no data', () => ({}), /502 .*the answer has no data/],
    ['no token', ({ url }) => ({ body: { url, roles } }), /502 .*token/],
    [
      'a role that was not assigned',
      (partner) => ({ body: { ...own(partner), roles: other } }),
      /422 .*was not assigned/,
    ],
    [
      'versions that are not there',
      (partner) => ({ body: { ...own(partner), url: `${partner.url}/gone` } }),
      /502 .*versions/,
    ],
    [
      'a suspension meanwhile',
      async (partner) => {
        await admin(hub, 'POST', '/parties/NL-EMS/suspend');
        return { body: own(partner) };
      },
      /409 .*suspended/,
    ],
  ];
  for (const [name, answer, reason] of table) {
    reply = answer;
    await t.rejects(connect(), reason, name);
    t.match(await party(hub), { url: null, endpoints: [] }, name);
  }
});

t.test('an address that the hub may not call, or unreadable versions, change nothing', async (t) => {
  const hub = await hubFor(t);
  const { partner, connect } = await invited(t, hub, () => ({}));
  const before = await party(hub);
  await t.rejects(connect({ versions_url: 'http://169.254.169.254/versions' }), /422 .*versions_url: /);
  await t.rejects(connect({ versions_url: 'ftp://partner.example/' }), /422/);
  await t.rejects(connect({ token: 'another' }), /502 .*HTTP 401/);
  t.equal(partner.received.length, 0);
  t.same(await party(hub), before);
});
