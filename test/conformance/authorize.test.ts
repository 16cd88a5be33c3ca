/**
 * Authorize in both directions, through a real hub to real partners: what is forwarded, what comes back, and each row of the
 * error table.
 */

import { tokenBody } from '../support/bodies.ts';
import {
  closeCircuit,
  type Failure,
  failures,
  type Meaning,
  moody,
  setEndpoint,
  urlFor,
} from '../support/forward-failures.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { type OcpiAnswer, ocpi, type Refused, refused } from '../support/ocpi-call.ts';
import { admin, type PlainPartner, type Reply } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const allowed = (value: string, rest: object = {}): Reply => ({ body: { allowed: value, ...rest } });

const clock = new SimulatedClock('2026-03-01T10:00:00Z');
const limitMs = 5_000;
const timesOut = () => clock.advance(limitMs);
const cpoMood = moody(() => allowed('ALLOWED'), timesOut);
const emspMood = moody(() => allowed('ALLOWED'), timesOut);
/** What probes of either partner meet. */
let discovery: Reply | undefined;

let hub: TestHub;
let cpo: PlainPartner;
let emsp: PlainPartner;
/** An eMSP with two routed CPOs, one that has none, and a CPO that offers no tokens endpoint. */
let second: PlainPartner;
let lonely: PlainPartner;
let bare: PlainPartner;

t.before(async () => {
  hub = await hubFor(t, { HUB_AUTHORIZE_TIMEOUT_MS: String(limitMs), HUB_PROBE_INTERVAL_S: '3600' }, { clock });
  const make = (role: 'CPO' | 'EMSP', partyId: string, rest: object = {}) =>
    partnerFor(t, hub, { role, countryCode: 'NL', partyId, ...rest });
  const probed = { discovery: () => discovery };
  cpo = await make('CPO', 'CPO', { ...probed, answer: () => cpoMood.answer() });
  emsp = await make('EMSP', 'EMS', { ...probed, answer: () => emspMood.answer() });
  second = await make('EMSP', 'SEC');
  lonely = await make('EMSP', 'LON');
  bare = await make('CPO', 'BAR', { modules: [] });
  for (const [one, other] of [
    ['EMS', 'CPO'],
    ['SEC', 'CPO'],
    ['SEC', 'BAR'],
  ]) {
    await admin(hub, 'PUT', `/routes/NL-${one}/NL-${other}`, { active: true });
  }
});

t.beforeEach(() => {
  for (const partner of [cpo, emsp, second, lonely, bare]) partner.received.length = 0;
  cpoMood.behaviour = null;
  emspMood.behaviour = null;
});

const toParty = (partyId: string, country = 'NL') => ({
  'OCPI-to-country-code': country,
  'OCPI-to-party-id': partyId,
});

interface Direction {
  readonly name: string;
  /** Who asks, and who is asked. */
  readonly from: () => PlainPartner;
  readonly to: () => PlainPartner;
  readonly mood: typeof cpoMood;
  readonly module: readonly ['tokens', 'SENDER' | 'RECEIVER'];
  readonly method: 'POST' | 'PUT';
  /** Below the hub's `/ocpi/2.2.1/tokens`. */
  readonly path: (uid: string) => string;
  /** Below the partner's tokens URL. */
  readonly forwarded: (uid: string) => string;
  /** The side that messages name. */
  readonly side: 'CPO' | 'eMSP';
}

const directions: readonly Direction[] = [
  {
    name: 'CPO to eMSP',
    from: () => cpo,
    to: () => emsp,
    mood: emspMood,
    module: ['tokens', 'SENDER'],
    method: 'POST',
    path: (uid) => `/${uid}/authorize`,
    forwarded: (uid) => `/${uid}/authorize`,
    side: 'eMSP',
  },
  {
    name: 'eMSP to CPO',
    from: () => emsp,
    to: () => cpo,
    mood: cpoMood,
    module: ['tokens', 'RECEIVER'],
    method: 'PUT',
    path: (uid) => `/NL/EMS/${uid}/authorize`,
    forwarded: (uid) => `/NL/EMS/${uid}/authorize`,
    side: 'CPO',
  },
];

interface Asked {
  readonly uid?: string;
  readonly query?: string;
  readonly body?: string | object;
  readonly headers?: Record<string, string>;
}

function ask({ from, to, method, path }: Direction, asked: Asked = {}): Promise<OcpiAnswer> {
  const { uid = 'CARD1', query = '', body, headers = toParty(to().id.slice(3)) } = asked;
  const sent = { token: from().hubToken, headers, ...(body !== undefined && { body }) };
  return ocpi(hub, method, `/2.2.1/tokens${path(uid)}${query}`, sent);
}

const unknown = { allowed: 'UNKNOWN' };
const dataOf = ({ json }: OcpiAnswer) => json.data;
const succeeded = (t: Test, answer: OcpiAnswer, data: unknown, title: string) =>
  t.match([answer.status, answer.json.status_code, dataOf(answer)], [200, 1000, data], title);

for (const direction of directions) {
  const { name, to, method, module, mood, side, forwarded, from } = direction;

  t.test(
    `${name}: the question goes to the tokens url of the receiver, with its type [interface, Token authorization]`,
    async (t) => {
      const rows: [query: string, type: string][] = [
        ['', 'RFID'],
        ['?type=RFID', 'RFID'],
        ['?type=APP_USER', 'APP_USER'],
        ['?type=app_user', 'APP_USER'],
        ['?type=OTHER&more=1', 'OTHER'],
      ];
      for (const [query, type] of rows) {
        to().received.length = 0;
        succeeded(t, await ask(direction, { query }), { allowed: 'ALLOWED' }, `answer of ${query}`);
        const [call] = to().received;
        const url = new URL(call?.path ?? '', to().url);
        t.equal(call?.method, method);
        t.equal(url.pathname, `/ocpi/2.2.1/tokens${forwarded('CARD1')}`);
        t.equal(url.searchParams.get('type'), type, `type of ${query || 'no query'}`);
      }
    },
  );

  t.test(`${name}: a uid keeps its characters on the way [interface, Token authorization] [D17]`, async (t) => {
    for (const uid of ['04a1B2', 'a%2Fb', 'a%20b', 'a%25b', "it's", 'a%3Fb%23c']) {
      to().received.length = 0;
      await ask(direction, { uid });
      const path = to().received[0]?.path.split('?')[0] ?? '';
      t.equal(decodeURIComponent(path.split('/').at(-2) ?? ''), decodeURIComponent(uid));
    }
  });

  t.test(`${name}: the uid of a token that its eMSP pushed goes on in the case of the eMSP [D12]`, async (t) => {
    const [own, others] = [`${method}A1b2`, `${method}Other`];
    await emsp.push('PUT', `/2.2.1/tokens/NL/EMS/${own}`, tokenBody(own));
    await second.push('PUT', `/2.2.1/tokens/NL/SEC/${others}`, tokenBody(others, { party_id: 'SEC' }));
    const uids = [own.toLowerCase(), own.toUpperCase(), others.toLowerCase(), `${method}none`];
    for (const uid of uids) await ask(direction, { uid });
    await ask(direction, { uid: own.toLowerCase(), query: '?type=APP_USER' });
    const asked = to().received.filter(({ path }) => path.includes('/authorize'));
    t.strictSame(
      asked.map(({ path }) => path.split('/').at(-2)),
      [own, own, ...uids.slice(2), own.toLowerCase()],
      'any other as it was given',
    );
  });

  t.test(`${name}: a uid that would climb out of the tokens url is refused [OCPI transport]`, async (t) => {
    for (const uid of ['%2e%2e', '%2e', '..', '%2E.']) {
      const answer = await ask(direction, { uid });
      t.match([answer.status, answer.json.status_code], [200, 2001], uid);
    }
    refused(t, await ask(direction, { uid: 'x'.repeat(37) }), [200, 2001, /^uid: expected 1 to 36/], 'nor a long one');
    t.equal(to().received.length, 0);
  });

  t.test(`${name}: the body passes byte for byte, or not at all [interface, Token authorization] [D17]`, async (t) => {
    const texts = [
      '{"location_id":"LOC1"}',
      '{ "location_id" : "LOC\\u0031", "evse_uids": [ "E1","E2" ],\n  "x-extra": 1.50 }',
      '{}',
    ];
    for (const text of texts) {
      to().received.length = 0;
      await ask(direction, { body: text });
      t.equal(to().received[0]?.body, text);
      t.match(to().received[0]?.headers['content-type'], /^application\/json/);
    }
    to().received.length = 0;
    await ask(direction);
    t.equal(to().received[0]?.body, '', 'none');
  });

  t.test(
    `${name}: headers name sender and receiver, the correlation id stays and the request id is new [D14] [D15]`,
    async (t) => {
      const headers = {
        ...toParty(to().id.slice(3)),
        'X-Request-ID': 'request-1',
        'X-Correlation-ID': 'correlation-1',
      };
      const answer = await ask(direction, { headers });
      t.match(answer.headers, { 'x-request-id': 'request-1', 'x-correlation-id': 'correlation-1' });
      const [call] = to().received;
      t.match(call?.headers, {
        authorization: `Token ${Buffer.from(to().token).toString('base64')}`,
        'x-correlation-id': 'correlation-1',
        'ocpi-from-country-code': 'NL',
        'ocpi-from-party-id': from().id.slice(3),
        'ocpi-to-country-code': 'NL',
        'ocpi-to-party-id': to().id.slice(3),
      });
      t.match(call?.headers['x-request-id'], /./);
      t.not(call?.headers['x-request-id'], 'request-1');
    },
  );

  t.test(
    `${name}: every answer of the receiver is passed on with 200 and 1000 [interface, Errors] [D25]`,
    async (t) => {
      const rest = {
        token: { uid: 'CARD1', contract_id: 'C1', issuer: 'ours', valid: true, 'x-own': [1, { deep: null }] },
        location: { location_id: 'LOC1', evse_uids: ['E1'] },
        authorization_reference: 'REF-1',
        info: { language: 'en', text: 'Hallo “Welt”' },
        unheard_of: { of: [0.1, 'x'] },
      };
      for (const value of ['ALLOWED', 'BLOCKED', 'NOT_ALLOWED', 'UNKNOWN', 'EXPIRED', 'NO_CREDIT']) {
        mood.behaviour = allowed(value, rest);
        const answer = await ask(direction);
        t.equal(answer.status, 200, value);
        t.equal(answer.json.status_code, 1000, value);
        t.strictSame(dataOf(answer), { allowed: value, ...rest }, `the whole AuthorizationInfo of ${value}`);
      }
      mood.behaviour = allowed('PERHAPS');
      const refusal: Refused = [502, 4003, `${side} authorize response incomplete`];
      refused(t, await ask(direction), refusal, 'a value that OCPI does not know');
    },
  );

  t.test(
    `${name}: what the forward met is said in the words of the error table, after one try [interface, Errors] [D25] [D44]`,
    async (t) => {
      const words: Record<Meaning, Refused> = {
        timeout: [504, 4002, `${side} authorize timeout`],
        unavailable: [502, 4003, `${side} authorize unavailable`],
        unauthorized: [502, 4003, `${side} authorize unauthorized`],
        notFound: [502, 4003, `${side} authorize not found`],
        rejected: [502, 4003, `${side} authorize rejected`],
        unusable: [502, 4003, `${side} authorize response incomplete`],
      };
      const url = `${to().url}/ocpi/2.2.1/tokens`;
      const tryOne = async ({ name: what, behaviour, meaning }: Failure) => {
        to().received.length = 0;
        mood.behaviour = behaviour;
        const other = urlFor(behaviour, url);
        if (other !== url) await setEndpoint(hub, to().id, module, other);
        const answer = await ask(direction);
        refused(t, answer, words[meaning], what);
        t.strictSame(dataOf(answer), unknown, `${what}: data`);
        t.equal(to().received.length, other === url ? 1 : 0, `${what}: requests`);
        if (other !== url) await setEndpoint(hub, to().id, module, url);
        closeCircuit(hub, to().id);
      };
      for (const failure of failures) await tryOne(failure);
      mood.behaviour = null;
      to().received.length = 0;
      succeeded(t, await ask(direction), { allowed: 'ALLOWED' }, 'the next one passes');
      t.equal(to().received.length, 1, 'and nothing was kept to be tried again');
    },
  );

  t.test(
    `${name}: without a routing rule, or to nobody known, the answer is NOT_ALLOWED [interface, Errors] [D5]`,
    async (t) => {
      const otherRole = direction.side === 'CPO' ? 'SEC' : 'BAR';
      for (const partyId of ['ZZZ', otherRole, direction.side === 'CPO' ? 'BAR' : 'LON']) {
        const answer = await ask(direction, { headers: toParty(partyId) });
        succeeded(t, answer, { allowed: 'NOT_ALLOWED' }, partyId);
        t.not(answer.json.status_message, 'Not routed');
      }
      await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: false });
      succeeded(t, await ask(direction), { allowed: 'NOT_ALLOWED' }, 'a rule that is not active');
      await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
      for (const partner of [cpo, emsp, second, lonely, bare]) t.equal(partner.received.length, 0, partner.id);
    },
  );

  t.test(`${name}: a known eMSP or CPO is found in any case of its ids [D12]`, async (t) => {
    const headers = toParty(to().id.slice(3).toLowerCase(), 'nl');
    succeeded(t, await ask(direction, { headers }), { allowed: 'ALLOWED' }, 'lower case');
    t.match(to().received[0]?.headers, { 'ocpi-to-country-code': 'NL', 'ocpi-to-party-id': to().id.slice(3) });
  });

  t.test(`${name}: half of OCPI-to and a foreign OCPI-from are refused [D5]`, async (t) => {
    const half = await ask(direction, { headers: { 'OCPI-to-party-id': 'EMS' } });
    refused(t, half, [200, 2001, 'OCPI-to-country-code: expected string'], 'half of it');
    const foreign = { ...toParty(to().id.slice(3)), 'OCPI-from-country-code': 'NL', 'OCPI-from-party-id': 'ZZZ' };
    refused(t, await ask(direction, { headers: foreign }), [200, 2001, /^OCPI-from-party-id: /], 'somebody else');
    t.equal(to().received.length, 0);
  });

  t.test(
    `${name}: a type that is none, or another in query and body, is refused; the body’s counts by itself [D48]`,
    async (t) => {
      refused(t, await ask(direction, { query: '?type=a%20b' }), [200, 2001, 'type: expected a token type'], 'a space');
      refused(t, await ask(direction, { query: '?type=A&type=B' }), [200, 2001, 'type: expected a token type'], 'two');
      const body = { type: 'APP_USER' };
      const differing = await ask(direction, { query: '?type=RFID', body });
      refused(t, differing, [200, 2001, 'type: expected "RFID", as in the query'], 'another than the body’s');
      t.equal(to().received.length, 0);
      await ask(direction, { body });
      t.match(to().received[0]?.path, /[?&]type=APP_USER$/);
      await ask(direction, { query: '?type=', body });
      t.match(to().received[1]?.path, /[?&]type=APP_USER$/, 'without a value it is read as absent [D71]');
    },
  );

  t.test(
    `${name}: an open circuit answers at once, and lets a call through again later [interface, Errors] [D44]`,
    async (t) => {
      closeCircuit(hub, to().id);
      mood.behaviour = { status: 500, text: '' };
      for (let failed = 0; failed < 5; failed++) await ask(direction);
      t.equal(to().received.length, 5);
      mood.behaviour = null;
      const answer = await ask(direction);
      refused(t, answer, [502, 4003, `${side} authorize unavailable`], 'while it is open');
      t.strictSame(dataOf(answer), unknown);
      t.equal(to().received.length, 5, 'nothing was sent');
      clock.advance(5_000);
      succeeded(t, await ask(direction), { allowed: 'ALLOWED' }, 'half-open');
      succeeded(t, await ask(direction), { allowed: 'ALLOWED' }, 'and again');
      t.equal(to().received.length, 7);
    },
  );

  t.test(`${name}: OFFLINE does not keep a call away [interface, Errors]`, async (t) => {
    const { operations } = hub.created.hub;
    discovery = { status: 500 };
    await operations.probe(to().id);
    clock.advance(60_001);
    await operations.probe(to().id);
    const statusIs = async (status: string) => {
      await hub.settled();
      t.equal((await admin(hub, 'GET', `/parties/${to().id}`)).status, status);
    };
    await statusIs('OFFLINE');
    succeeded(t, await ask(direction), { allowed: 'ALLOWED' }, 'it is asked all the same');
    t.equal(to().received.length, 1);
    discovery = undefined;
    await operations.probe(to().id);
    await statusIs('CONNECTED');
  });
}

t.test(
  'CPO to eMSP: OCPI-to is required, and naming the hub or the caller itself counts as missing [interface, Token authorization] [D5] [D43]',
  async (t) => {
    const [direction] = directions;
    if (!direction) throw new Error('no direction');
    const message = 'OCPI-to-party-id: expected the eMSP that owns the token';
    for (const headers of [{}, toParty('HUB', 'XX'), toParty('CPO')]) {
      refused(t, await ask(direction, { headers }), [200, 2001, message], JSON.stringify(headers));
    }
    t.equal(emsp.received.length, 0);
  },
);

t.test('eMSP to CPO: without OCPI-to the only routed CPO is used [D43] [D5]', async (t) => {
  const put = (partner: PlainPartner, headers = {}) =>
    ocpi(hub, 'PUT', `/2.2.1/tokens/NL/${partner.id.slice(3)}/CARD1/authorize`, { token: partner.hubToken, headers });
  for (const headers of [{}, toParty('HUB', 'XX'), toParty('EMS')]) {
    succeeded(t, await put(emsp, headers), { allowed: 'ALLOWED' }, JSON.stringify(headers));
  }
  t.equal(cpo.received.length, 3);
  refused(t, await put(second), [200, 2001, 'OCPI-to-country-code, OCPI-to-party-id: required'], 'of two');
  t.equal(cpo.received.length, 3);
  succeeded(t, await put(second, toParty('CPO')), { allowed: 'ALLOWED' }, 'of two, named');
  succeeded(t, await put(lonely), { allowed: 'NOT_ALLOWED' }, 'of none: there is no routing rule');
});

t.test('a receiver without a tokens endpoint is reported as having none [interface, Errors] [D44]', async (t) => {
  const answer = await ocpi(hub, 'PUT', '/2.2.1/tokens/NL/SEC/CARD1/authorize', {
    token: second.hubToken,
    headers: toParty('BAR'),
  });
  refused(t, answer, [502, 4003, 'CPO tokens endpoint not configured'], 'a CPO');
  t.strictSame(dataOf(answer), unknown);
  const bareEmsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'NOT', modules: [] });
  await admin(hub, 'PUT', '/routes/NL-NOT/NL-CPO', { active: true });
  const post = { token: cpo.hubToken, headers: toParty('NOT') };
  const toEmsp = await ocpi(hub, 'POST', '/2.2.1/tokens/CARD1/authorize', post);
  refused(t, toEmsp, [502, 4003, 'eMSP tokens endpoint not configured'], 'an eMSP');
  t.strictSame(dataOf(toEmsp), unknown);
  t.equal(bareEmsp.received.length, 0);
});

t.test('a suspended receiver is unavailable [D44]', async (t) => {
  const leaver = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'GON' });
  await admin(hub, 'PUT', '/routes/NL-GON/NL-CPO', { active: true });
  await leaver.call('DELETE', '/2.2.1/credentials');
  const post = { token: cpo.hubToken, headers: toParty('GON') };
  const answer = await ocpi(hub, 'POST', '/2.2.1/tokens/CARD1/authorize', post);
  refused(t, answer, [502, 4003, 'eMSP authorize unavailable'], 'it left');
  t.strictSame(dataOf(answer), unknown);
  t.equal(leaver.received.length, 0);
});

t.test(
  'each side has its own form: a CPO posts, an eMSP puts in its own name [interface, Token authorization] [D7]',
  async (t) => {
    const rows: [caller: PlainPartner, method: string, path: string, Refused][] = [
      [emsp, 'POST', '/CARD1/authorize', [403, 2000, 'CPO-only endpoint']],
      [cpo, 'PUT', '/NL/EMS/CARD1/authorize', [403, 2000, 'eMSP-only endpoint']],
      [emsp, 'PUT', '/NL/SEC/CARD1/authorize', [404, 2003, 'Not found']],
      [emsp, 'PUT', '/NL/CPO/CARD1/authorize', [404, 2003, 'Not found']],
    ];
    for (const [caller, method, path, refusal] of rows) {
      const call = { token: caller.hubToken, headers: toParty('CPO') };
      refused(t, await ocpi(hub, method, `/2.2.1/tokens${path}`, call), refusal, `${caller.id} ${method} ${path}`);
    }
    t.equal(cpo.received.length + emsp.received.length, 0);
  },
);

t.test('a platform’s CPO may ask the platform’s own eMSP: they are two parties [D5] [D16]', async (t) => {
  const others = [{ role: 'EMSP', country_code: 'NL', party_id: 'PLE' }] as const;
  const platform = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'PLC', others },
    modules: [['tokens', 'SENDER']],
    answer: () => allowed('BLOCKED'),
  });
  await admin(hub, 'PUT', '/routes/NL-PLE/NL-PLC', { active: true });
  const post = { token: platform.hubToken, headers: toParty('PLE') };
  const answer = await ocpi(hub, 'POST', '/2.2.1/tokens/CARD1/authorize', post);
  succeeded(t, answer, { allowed: 'BLOCKED' }, 'it is asked like any other');
  t.match(platform.received[0]?.headers, { 'ocpi-from-party-id': 'PLC', 'ocpi-to-party-id': 'PLE' });
});

t.test(
  'one party in both roles: as an eMSP it means its only CPO, whichever eMSPs its CPO is routed to [D16] [D43]',
  async (t) => {
    const others = [{ role: 'EMSP', country_code: 'NL', party_id: 'TWO' }] as const;
    const both = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'TWO', others });
    await admin(hub, 'PUT', '/routes/NL-TWO/NL-CPO', { active: true });
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-TWO', { active: true });
    const call = { token: both.hubToken };
    succeeded(
      t,
      await ocpi(hub, 'PUT', '/2.2.1/tokens/NL/TWO/CARD1/authorize', call),
      { allowed: 'ALLOWED' },
      'its CPO',
    );
    t.equal(cpo.received.length, 1);
  },
);
