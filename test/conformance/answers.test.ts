/**
 * Answers of partners to authorize and commands, and version details, as they really come: in an array of one, with fields and numbers
 * that only the caller knows. And whose token a command may name. [D56, D65, D72, D84]
 */
import type { RunningHub } from '../../src/main.ts';
import { locationBody } from '../support/bodies.ts';
import { closeCircuit, moody } from '../support/forward-failures.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { dataText, statusOf } from '../support/observed.ts';
import { type Answer, admin, type PlainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';

const cpoMood = moody(() => ({}));
const emspMood = moody(() => ({}));

let hub: RunningHub;
let cpo: PlainPartner;
let emsp: PlainPartner;

t.before(async () => {
  hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '3600', HUB_RATE_COMMANDS_PER_MIN: '1000' });
  const others = [{ role: 'EMSP', country_code: 'DE', party_id: 'Two' }] as const;
  cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO', answer: () => cpoMood.answer() });
  emsp = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS', others, answer: () => emspMood.answer() },
  });
  for (const of of ['NL-EMS', 'DE-TWO']) await admin(hub, 'PUT', `/routes/${of}/NL-CPO`, { active: true });
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
});

t.beforeEach(() => {
  for (const partner of [cpo, emsp]) partner.received.length = 0;
  for (const mood of [cpoMood, emspMood]) mood.behaviour = null;
  for (const partner of ['NL-CPO', 'NL-EMS']) closeCircuit(hub, partner);
});

const to = (partyId: string) => ({ 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': partyId });
const withData = (data: string): Reply => ({
  text: `{"status_code":1000, "timestamp":"2026-01-02T03:04:05Z",\n "data" : ${data} }`,
});

const atEmsp = (): Promise<Answer> => cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', {}, to('EMS'));
const atCpo = (): Promise<Answer> => emsp.call('PUT', '/2.2.1/tokens/NL/EMS/CARD1/authorize', {}, to('CPO'));
const start = (fields: object = {}, headers = {}, command = 'START_SESSION'): Promise<Answer> =>
  emsp.call(
    'POST',
    `/2.2.1/commands/${command}`,
    {
      ...{ response_url: `${emsp.url}/results/1`, location_id: 'LOC1', token: { uid: 'CARD1' } },
      ...(command === 'RESERVE_NOW' && { expiry_date: '2036-01-01T00:00:00Z', reservation_id: 'R1' }),
      ...fields,
    },
    headers,
  );
const authorizes: [name: string, ask: () => Promise<Answer>, mood: typeof cpoMood][] = [
  ['eMSP', atEmsp, emspMood],
  ['CPO', atCpo, cpoMood],
];

t.test(
  'AuthorizationInfo is passed on as received, numbers, order and unknown fields included [D72] [D84]',
  async (t) => {
    const texts = [
      '{"allowed":"ALLOWED","info":{"x":1.10,"big":12345678901234567890}}',
      '{ "x-own" : [1E2, -0.0,\t"d\\u00e9j\\u00e0"], "location":{"location_id":"LOC1","evse_uids":["E1"]},\r\n"allowed": "\\u0042LOCKED" }',
      '{"allowed":"NO_CREDIT","token":{"uid":"CARD1","uid":"CARD1"}}',
    ];
    for (const [side, ask, mood] of authorizes) {
      for (const text of texts) {
        mood.behaviour = withData(text);
        const answer = await ask();
        t.equal(statusOf(answer), '200/1000', side);
        t.equal(dataText(answer), text, `${side}: byte for byte`);
        mood.behaviour = withData(`[ ${text}\n]`);
        t.equal(dataText(await ask()), text, `${side}: out of an array of one [D56] [D84]`);
      }
    }
  },
);

t.test('CommandResponse is passed on as received; a missing timeout is added [D72] [D28] [D84]', async (t) => {
  const rows: [given: string, expected: string][] = [
    ['{"result":"ACCEPTED","timeout":30.0,"x":1.10}', '{"result":"ACCEPTED","timeout":30.0,"x":1.10}'],
    ['{ "big":12345678901234567890, "timeout":7 ,"result":"REJECTED" }', ''],
    ['{"timeout":100000,"result":"ACCEPTED"}', ''],
    ['{"result":"NOT_SUPPORTED","x":1.10}', '{"result":"NOT_SUPPORTED","x":1.10,"timeout":30}'],
    ['{"result":"ACCEPTED","timeout":null,"x":1.10}', '{"result":"ACCEPTED","timeout":30,"x":1.10}'],
    ['{"timeout": "60","result":"ACCEPTED"}', '{"timeout": 60,"result":"ACCEPTED"}'],
    ['{"timeout": "soon","result":"ACCEPTED"}', '{"timeout": 30,"result":"ACCEPTED"}'],
    ['{"timeout": 1e999,"result":"ACCEPTED"}', '{"timeout": 30,"result":"ACCEPTED"}'],
  ];
  for (const [given, expected] of rows) {
    for (const text of [given, `[${given}]`]) {
      cpoMood.behaviour = withData(text);
      const answer = await start();
      t.equal(statusOf(answer), '200/1000', text);
      t.equal(dataText(answer), expected || given, `${text} [D56] [D84]`);
    }
  }
  const { items } = (await admin(hub, 'GET', '/commands?limit=100')) as {
    items: { state: string; result: string }[];
  };
  t.equal(items.length, rows.length * 2, 'each has its record');
  t.same([...new Set(items.map(({ result }) => result))].sort(), ['ACCEPTED', 'NOT_SUPPORTED', 'REJECTED']);
});

t.test('an array of none, of two or of another type is no answer; nor is an ambiguous one [D56] [D44]', async (t) => {
  const texts = [
    ...['[]', '[null]', '["ALLOWED"]', '[[{"allowed":"ALLOWED","result":"ACCEPTED"}]]', 'null'],
    '[{"allowed":"ALLOWED","result":"ACCEPTED"},{"allowed":"ALLOWED","result":"ACCEPTED"}]',
    '{"allowed":"BLOCKED","allowed":"ALLOWED","result":"REJECTED","result":"ACCEPTED"}',
    '{"allowed":"ALLOWED","Allowed":"BLOCKED","result":"ACCEPTED","RESULT":"REJECTED"}',
  ];
  for (const text of texts) {
    for (const [side, ask, mood] of authorizes) {
      mood.behaviour = withData(text);
      const answer = await ask();
      t.equal(answer.json.status_message, `${side} authorize response incomplete`, `${side}: ${text}`);
      t.equal(statusOf(answer), '502/4003', `${side}: ${text}`);
    }
    const answer = await start();
    t.equal(answer.json.status_message, 'CPO command forward failed', text);
    t.equal(statusOf(answer), '502/2000', text);
  }
});

t.test('version details in an array of one are accepted everywhere [D56] [D13]', async (t) => {
  const details = ({ headers }: Received) => ({
    version: '2.2.1',
    endpoints: [['credentials', 'SENDER'] as const, ['commands', 'RECEIVER'] as const].map(([identifier, role]) => ({
      ...{ identifier, role, url: `http://${headers.host}/ocpi/2.2.1/${identifier}` },
    })),
  });
  const discoveries: [name: string, partyId: string, discovery: (received: Received) => Reply | undefined][] = [
    ['behind the list', 'AR1', (got) => (got.path === '/ocpi/2.2.1' ? { body: [details(got)] } : undefined)],
    ['at the url of the credentials', 'AR2', (got) => ({ body: [details(got)] })],
  ];
  for (const [name, partyId, discovery] of discoveries) {
    const partner = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId, discovery });
    const { status, endpoints } = await admin(hub, 'GET', `/parties/${partner.id}`);
    t.match([status, endpoints], ['CONNECTED', [{ identifier: 'credentials' }, { identifier: 'commands' }]], name);
  }
});

t.test('a token of another party is refused in START_SESSION and RESERVE_NOW, without effect [D65]', async (t) => {
  cpoMood.behaviour = withData('{"result":"ACCEPTED","timeout":20}');
  const foreign: [name: string, token: object][] = [
    ['another eMSP', { uid: 'C', country_code: 'NL', party_id: 'OTH' }],
    ['the same id in another country', { uid: 'C', country_code: 'BE', party_id: 'EMS' }],
    ['the CPO', { uid: 'C', country_code: 'NL', party_id: 'CPO' }],
    ['the hub', { uid: 'C', country_code: 'XX', party_id: 'HUB' }],
    ['halves of two of its parties', { uid: 'C', country_code: 'NL', party_id: 'TWO' }],
    ['another party id alone', { uid: 'C', party_id: 'OTH' }],
    ['another country alone', { uid: 'C', country_code: 'BE' }],
  ];
  const recorded = async () => (await admin(hub, 'GET', '/commands?limit=1000')).items as object[];
  const before = (await recorded()).length;
  for (const command of ['START_SESSION', 'RESERVE_NOW']) {
    for (const [name, token] of foreign) {
      const answer = await start({ token }, {}, command);
      t.equal(statusOf(answer), '200/2001', `${command}: ${name}`);
      t.equal(answer.json.status_message, 'token.party_id: expected a party of the caller', `${command}: ${name}`);
    }
    const reservation = '"expiry_date":"2036-01-01T00:00:00Z","reservation_id":"R1",';
    const twice = `{"response_url":"${emsp.url}/r",${reservation}"location_id":"LOC1","token":{"uid":"C","party_id":"OTH","party_id":"EMS"}}`;
    const answer = await emsp.call('POST', `/2.2.1/commands/${command}`, twice);
    t.equal(answer.json.status_message, 'token.party_id: expected once, in lower case', `${command}: named twice`);
  }
  t.equal((await recorded()).length, before, 'nothing was recorded');
  t.equal(cpo.received.length, 0, 'nothing was forwarded');
});

t.test(
  'a token of any of the caller’s own eMSPs passes, in any case, and so does one without a party [D65] [D26]',
  async (t) => {
    cpoMood.behaviour = withData('{"result":"ACCEPTED","timeout":20}');
    const own: [name: string, token: object, headers?: Record<string, string>][] = [
      ['no party', { uid: 'C' }],
      ['an empty party', { uid: 'C', country_code: null, party_id: null }],
      ['the caller', { uid: 'C', country_code: 'NL', party_id: 'EMS' }],
      ['the caller in another case', { uid: 'C', country_code: 'nl', party_id: 'eMs' }],
      ['its party id alone', { uid: 'C', party_id: 'ems' }],
      ['the other eMSP of its platform', { uid: 'C', country_code: 'DE', party_id: 'TWO' }],
      [
        'the party that calls',
        { uid: 'C', country_code: 'de', party_id: 'two' },
        { 'OCPI-from-country-code': 'DE', 'OCPI-from-party-id': 'TWO' },
      ],
    ];
    for (const command of ['START_SESSION', 'RESERVE_NOW']) {
      for (const [name, token, headers] of own) {
        t.equal(statusOf(await start({ token }, headers, command)), '200/1000', `${command}: ${name}`);
      }
    }
    t.equal(cpo.received.length, own.length * 2);
    await admin(hub, 'PUT', '/routes/DE-TWO/NL-CPO', { active: false });
    const ofSibling = { token: { uid: 'C', country_code: 'DE', party_id: 'TWO' } };
    for (const command of ['START_SESSION', 'RESERVE_NOW'])
      t.match(
        (await start(ofSibling, {}, command)).json,
        { status_message: 'Not routed' },
        'its session would reach nobody',
      );
    t.equal(statusOf(await start({ token: { uid: 'C' } })), '200/1000');
    await admin(hub, 'PUT', '/routes/DE-TWO/NL-CPO', { active: true });
  },
);
