/**
 * Commands and their results, through a real hub between real partners: which CPO is meant, what it receives, what the eMSP is
 * told, and each row of the error table.
 */
import { loadConfig } from '../../src/config/config.ts';
import { locationBody, sessionBody, tokenBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { closeCircuit, failures, type Meaning, moody, setEndpoint, urlFor } from '../support/forward-failures.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { type OcpiAnswer, type OcpiCall, ocpi, type Refused, refused } from '../support/ocpi-call.ts';
import { admin, type PlainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const accepted: Reply = { body: { result: 'ACCEPTED', timeout: 25 } };

const clock = new SimulatedClock('2026-03-01T10:00:00Z');
const limitMs = 5_000;
const timesOut = () => clock.advance(limitMs);
const cpoMood = moody(() => accepted, timesOut);
const emspMood = moody(() => ({}), timesOut);
/** What the CPO does before it answers a command; nothing when null. */
let beforeAnswer: ((received: Received) => Promise<void>) | null = null;
let discovery: Reply | undefined;

let hub: TestHub;
/** Routed to both eMSPs. */
let cpo: PlainPartner;
/** Routed to NL-EMS. */
let other: PlainPartner;
let unrouted: PlainPartner;
let bare: PlainPartner;
let emsp: PlainPartner;
let secondEmsp: PlainPartner;
const everyone = () => [cpo, other, unrouted, bare, emsp, secondEmsp];

t.before(async () => {
  const env = {
    ...{ HUB_COMMAND_TIMEOUT_MS: String(limitMs), HUB_CALLBACK_TIMEOUT_MS: String(limitMs) },
    ...{ HUB_RATE_COMMANDS_PER_MIN: '100000', HUB_PROBE_INTERVAL_S: '3600' },
  };
  hub = await hubFor(t, env, { clock });
  const make = (role: 'CPO' | 'EMSP', partyId: string, rest: object = {}) =>
    partnerFor(t, hub, { role, countryCode: 'NL', partyId, modules: [['commands', 'RECEIVER']], ...rest });
  cpo = await make('CPO', 'CPO', {
    discovery: () => discovery,
    answer: async (received: Received) => {
      await beforeAnswer?.(received);
      return cpoMood.answer();
    },
  });
  other = await make('CPO', 'OTH', { answer: () => accepted });
  unrouted = await make('CPO', 'UNR', { answer: () => accepted });
  bare = await make('CPO', 'BAR', { modules: [] });
  emsp = await make('EMSP', 'EMS', { modules: [['tokens', 'SENDER']], answer: () => emspMood.answer() });
  secondEmsp = await make('EMSP', 'SEC', { modules: [] });
  for (const [of, to] of [
    ['EMS', 'CPO'],
    ['EMS', 'OTH'],
    ['EMS', 'BAR'],
    ['SEC', 'CPO'],
  ]) {
    await admin(hub, 'PUT', `/routes/NL-${of}/NL-${to}`, { active: true });
  }
  const locations: [PlainPartner, string[]][] = [
    [cpo, ['LOC1', 'SHARED', 'HALF']],
    [other, ['LOC2', 'SHARED']],
    [unrouted, ['LOCU', 'HALF']],
    [bare, ['LOCB']],
  ];
  for (const [owner, ids] of locations) for (const id of ids) await pushLocation(owner, id);
  await pushSession(cpo, 'S1', 'EMS');
  await pushSession(cpo, 'S2', 'SEC');
  await pushSession(cpo, 'SHARED', 'EMS', { uid: 'CARD9' });
  await pushSession(other, 'SHARED', 'EMS', { uid: 'CARD9' });
  await pushSession(cpo, 'MIXED', 'SEC');
  await pushSession(other, 'MIXED', 'EMS');
  await pushSession(unrouted, 'SU', 'EMS');
});

t.beforeEach(() => {
  for (const partner of everyone()) partner.received.length = 0;
  cpoMood.behaviour = null;
  emspMood.behaviour = null;
  beforeAnswer = null;
});

async function pushLocation(owner: PlainPartner, id: string): Promise<void> {
  const party_id = owner.id.slice(3);
  const { status } = await owner.call('PUT', `/2.2.1/locations/NL/${party_id}/${id}`, locationBody(id, { party_id }));
  if (status !== 200) throw new Error(`location ${id}`);
}

interface Pushed {
  readonly uid?: string;
  readonly status?: string;
}

async function pushSession(owner: PlainPartner, id: string, of: string, session: Pushed = {}): Promise<void> {
  const { uid = 'CARD1', status: state = 'ACTIVE' } = session;
  const party_id = owner.id.slice(3);
  const cdr_token = { country_code: 'NL', party_id: of, uid, type: 'RFID', contract_id: 'C1' };
  const body = sessionBody(id, { party_id, cdr_token, status: state });
  const { status } = await owner.call('PUT', `/2.2.1/sessions/NL/${party_id}/${id}`, body);
  if (status !== 200) throw new Error(`session ${id}`);
}

const toParty = (partyId: string, country = 'NL') => ({
  'OCPI-to-country-code': country,
  'OCPI-to-party-id': partyId,
});

const short = { uid: 'CARD1', type: 'RFID', contract_id: 'C1' };
const place = { location_id: 'LOC1', evse_uid: 'EVSE1', connector_id: '1' };
const reservation = { token: short, expiry_date: '2026-03-01T11:00:00Z', reservation_id: 'R1', location_id: 'LOC1' };

type Body = Readonly<Record<string, unknown>>;
const responseUrl = () => `${emsp.url}/results/of-the-emsp?secret=1`;

/** Each command with the least body that serves it. */
const bodies: Readonly<Record<string, Body>> = {
  START_SESSION: { token: short, ...place },
  STOP_SESSION: { session_id: 'S1' },
  RESERVE_NOW: reservation,
  CANCEL_RESERVATION: { reservation_id: 'R1' },
  UNLOCK_CONNECTOR: place,
};

/** Sends a command of NL-EMS, or of the one given. */
function send(command: string, body: Body | string, call: OcpiCall = {}, from = emsp): Promise<OcpiAnswer> {
  const sent = typeof body === 'string' ? body : { response_url: responseUrl(), ...body };
  return ocpi(hub, 'POST', `/2.2.1/commands/${command}`, { token: from.hubToken, body: sent, ...call });
}

const start = (fields: Body = {}, call: OcpiCall = {}, from = emsp) =>
  send('START_SESSION', { ...bodies.START_SESSION, ...fields }, call, from);

function callbackOf(partner = cpo): { url: string; id: string } {
  const [received] = partner.received;
  if (!received) throw new Error(`${partner.id} received nothing`);
  const { response_url: url } = JSON.parse(received.body) as { response_url: string };
  return { url, id: url.slice(url.lastIndexOf('/') + 1) };
}

const reply = (id: string, body: object | string, call: OcpiCall = {}) =>
  ocpi(hub, 'POST', `/2.2.1/commands/callback/${id}`, { token: cpo.hubToken, body, ...call });

const succeeded = (t: Test, { status, json }: OcpiAnswer, title: string) =>
  t.match([status, json.status_code], [200, 1000], title);

const record = (id: string) => admin(hub, 'GET', `/commands/${id}`);

/** A command that the CPO has accepted. */
async function begun(): Promise<string> {
  cpo.received.length = 0;
  await start();
  return callbackOf().id;
}

// Forwarding

t.test(
  'each command goes to the commands url of the CPO, and its answer comes back [interface, Commands 2, 3]',
  async (t) => {
    for (const [command, body] of Object.entries(bodies)) {
      cpo.received.length = 0;
      const answer = await send(command, body);
      succeeded(t, answer, command);
      t.strictSame(answer.json.data, { result: 'ACCEPTED', timeout: 25 }, `data of ${command}`);
      t.same(
        cpo.received.map(({ method, path }) => `${method} ${path}`),
        [`POST /ocpi/2.2.1/commands/${command}`],
      );
    }
  },
);

t.test('the CPO gets the body byte for byte, but for response_url [interface, Commands 2] [D17]', async (t) => {
  const text = (url: string) =>
    `{ "token":{"uid":"CARD1", "type":"RFID","contract_id":"C1","x-own":1.50},\n\t"response_url" : ${url},` +
    ` "location_id":"LOC\\u0031","evse_uid":"EVSE1","nested":{"response_url":"http://stays.example/"},"big":12345678901234567890.10 }`;
  succeeded(t, await send('START_SESSION', text(JSON.stringify(responseUrl()))), 'accepted');
  const { url } = callbackOf();
  t.equal(cpo.received[0]?.body, text(JSON.stringify(url)));
  t.notMatch(cpo.received[0]?.body, /of-the-emsp/);
});

t.test(
  'the callback is an address of the hub whose last segment is the command’s id [interface, Commands 2] [D33] [D54]',
  async (t) => {
    await start({}, { headers: { Host: 'elsewhere.example' } });
    const { url, id } = callbackOf();
    t.equal(url, `${hub.url}/ocpi/2.2.1/commands/callback/${id}`);
    t.match(await record(id), { id, command: 'START_SESSION', emsp: 'NL-EMS', cpo: 'NL-CPO', state: 'awaiting' });
  },
);

t.test('headers name eMSP and CPO, the correlation id stays and the request id is new [D14] [D15]', async (t) => {
  const headers = { 'X-Request-ID': 'request-1', 'X-Correlation-ID': 'correlation-1' };
  const answer = await start({}, { headers });
  t.match(answer.headers, { 'x-request-id': 'request-1', 'x-correlation-id': 'correlation-1' });
  t.match(cpo.received[0]?.headers, {
    authorization: `Token ${Buffer.from(cpo.token).toString('base64')}`,
    'content-type': /^application\/json/,
    'x-correlation-id': 'correlation-1',
    'ocpi-from-country-code': 'NL',
    'ocpi-from-party-id': 'EMS',
    'ocpi-to-country-code': 'NL',
    'ocpi-to-party-id': 'CPO',
  });
  t.match(cpo.received[0]?.headers['x-request-id'], /./);
  t.not(cpo.received[0]?.headers['x-request-id'], 'request-1');
});

t.test(
  'any answer of the CPO is passed on; its timeout counts, 30 s if absent [interface, Limits] [D28]',
  async (t) => {
    const message = [{ language: 'en', text: 'wait “here”' }];
    const rows: [given: object, expected: object][] = [
      [
        { result: 'ACCEPTED', timeout: 7 },
        { result: 'ACCEPTED', timeout: 7 },
      ],
      [{ result: 'ACCEPTED' }, { result: 'ACCEPTED', timeout: 30 }],
      [
        { result: 'REJECTED', timeout: 0 },
        { result: 'REJECTED', timeout: 0 },
      ],
      [
        { result: 'NOT_SUPPORTED', timeout: 0 },
        { result: 'NOT_SUPPORTED', timeout: 0 },
      ],
      [
        { result: 'ACCEPTED', timeout: 0 },
        { result: 'ACCEPTED', timeout: 30 },
      ],
      [
        { result: 'ACCEPTED', timeout: null },
        { result: 'ACCEPTED', timeout: 30 },
      ],
      [
        { result: 'ACCEPTED', timeout: '45' },
        { result: 'ACCEPTED', timeout: 45 },
      ],
      [
        { result: 'ACCEPTED', timeout: 'soon' },
        { result: 'ACCEPTED', timeout: 30 },
      ],
      [
        { result: 'REJECTED', timeout: 30 },
        { result: 'REJECTED', timeout: 30 },
      ],
      [
        { result: 'NOT_SUPPORTED', timeout: 1 },
        { result: 'NOT_SUPPORTED', timeout: 1 },
      ],
      [
        { result: 'UNKNOWN_SESSION', timeout: 60, message },
        { result: 'UNKNOWN_SESSION', timeout: 60, message },
      ],
    ];
    for (const [given, expected] of rows) {
      cpoMood.behaviour = { body: given };
      const answer = await start();
      succeeded(t, answer, JSON.stringify(given));
      t.strictSame(answer.json.data, expected);
    }
  },
);

t.test(
  'the limits are 20 seconds to the CPO and 30 for the result unless set otherwise [interface, Limits]',
  async (t) => {
    const config = loadConfig({ env: { HUB_DATA_DIR: directoryFor(t) }, flags: {} });
    t.match(config, { commandTimeoutMs: 20_000, commandResultWindowS: 30, rateCommandsPerMin: 50 });
  },
);

t.test('commands take the specification’s bodies and the short token [interface, Resources] [D26]', async (t) => {
  const whole = tokenBody('CARD1');
  const rows: [command: string, body: Body][] = [
    ['START_SESSION', { token: whole, location_id: 'LOC1' }],
    ['START_SESSION', { token: { uid: 'CARD1' }, location_id: 'LOC1' }],
    ['START_SESSION', { token: whole, ...place, authorization_reference: 'REF1' }],
    ['RESERVE_NOW', { ...reservation, token: whole, evse_uid: 'EVSE1', authorization_reference: 'REF2' }],
    ['RESERVE_NOW', { ...reservation, expiry_date: '2026-03-01T11:00:00.5' }],
  ];
  for (const [command, body] of rows) succeeded(t, await send(command, body), JSON.stringify(body));
});

t.test('a body that lacks what its command needs is refused by field, and not forwarded [D3] [D26]', async (t) => {
  const rows: [command: string, fields: Body, message: string | RegExp][] = [
    ...Object.keys(bodies).flatMap((command): [string, Body, string][] => [
      [command, { response_url: undefined }, 'response_url: expected string'],
      [command, { response_url: 'nowhere' }, 'response_url: expected http or https URL'],
      [command, { response_url: 'file:///etc/hosts' }, 'response_url: expected http or https URL'],
    ]),
    ['START_SESSION', { token: undefined }, 'token: expected object'],
    ['START_SESSION', { token: 'CARD1' }, 'token: expected object'],
    ['START_SESSION', { token: { type: 'RFID' } }, 'token.uid: expected string'],
    ['START_SESSION', { location_id: undefined }, 'location_id: expected string'],
    ['START_SESSION', { location_id: '' }, /^location_id: expected 1 to 36/],
    ['START_SESSION', { evse_uid: 7 }, 'evse_uid: expected string'],
    ['STOP_SESSION', { session_id: undefined }, 'session_id: expected string'],
    ['RESERVE_NOW', { token: undefined }, 'token: expected object'],
    ['RESERVE_NOW', { expiry_date: 'soon' }, 'expiry_date: expected RFC 3339 date-time'],
    ['RESERVE_NOW', { reservation_id: undefined }, 'reservation_id: expected string'],
    ['RESERVE_NOW', { location_id: undefined }, 'location_id: expected string'],
    ['CANCEL_RESERVATION', { reservation_id: undefined }, 'reservation_id: expected string'],
    ['UNLOCK_CONNECTOR', { location_id: undefined }, 'location_id: expected string'],
    ['UNLOCK_CONNECTOR', { evse_uid: undefined }, 'evse_uid: expected string'],
    ['UNLOCK_CONNECTOR', { connector_id: undefined }, 'connector_id: expected string'],
  ];
  for (const [command, fields, message] of rows) {
    refused(t, await send(command, { ...bodies[command], ...fields }), [200, 2001, message], `${command} ${message}`);
  }
  t.equal(cpo.received.length, 0);
});

t.test('an unknown command is 404, and the known ones are named [D45]', async (t) => {
  const unknownCommand =
    'Unknown command: expected one of START_SESSION, STOP_SESSION, RESERVE_NOW, CANCEL_RESERVATION, UNLOCK_CONNECTOR';
  for (const command of ['start_session', 'STOP', 'SET_CHARGING_PROFILE', 'callback']) {
    refused(t, await send(command, bodies.START_SESSION ?? {}), [404, 2000, unknownCommand], command);
  }
  t.equal(cpo.received.length, 0);
});

// Which CPO

const locationNotFound: Refused = [404, 2003, 'Location not found'];
const notRouted: Refused = [403, 2000, 'Not routed'];
const mismatch: Refused = [200, 2001, 'OCPI-to-country-code, OCPI-to-party-id: not the CPO of this object'];
const ambiguous: Refused = [200, 2001, 'ambiguous: 2 CPOs use this id'];

interface Target {
  readonly name: string;
  readonly command: string;
  readonly body: Body;
  readonly headers?: Record<string, string>;
  readonly from?: () => PlainPartner;
  /** Who gets it, or how it is refused. */
  readonly to: (() => PlainPartner) | Refused;
}

const toCpo = () => cpo;
const toOther = () => other;
const at = (location_id: string) => ({ ...bodies.START_SESSION, location_id });
const stop = (session_id: string) => ({ session_id });

const targets: readonly Target[] = [
  ...['START_SESSION', 'RESERVE_NOW', 'UNLOCK_CONNECTOR'].flatMap((command): Target[] => {
    const body = bodies[command] ?? {};
    return [
      { name: `${command} by its location`, command, body, to: toCpo },
      { name: `${command} in another case`, command, body: { ...body, location_id: 'loc1' }, to: toCpo },
      { name: `${command} at another CPO's`, command, body: { ...body, location_id: 'LOC2' }, to: toOther },
      { name: `${command} at an unknown one`, command, body: { ...body, location_id: 'NONE' }, to: locationNotFound },
      { name: `${command} at an unrouted CPO's`, command, body: { ...body, location_id: 'LOCU' }, to: notRouted },
    ];
  }),
  { name: 'stop by its session', command: 'STOP_SESSION', body: stop('S1'), to: toCpo },
  { name: 'stop in another case', command: 'STOP_SESSION', body: stop('s1'), to: toCpo },
  {
    name: 'fields of other commands are unknown ones',
    command: 'STOP_SESSION',
    body: { ...stop('S1'), location_id: 5, token: 'x' },
    to: toCpo,
  },
  ...['START_SESSION', 'UNLOCK_CONNECTOR'].flatMap((command): Target[] => {
    const body = { ...bodies[command], location_id: 'LOC2' };
    return [
      { name: `${command} with empty fields of others`, command, body: { ...body, session_id: '' }, to: toOther },
      { name: `${command} with a session`, command, body: { ...body, session_id: 'S1' }, to: toOther },
    ];
  }),
  ...[{ country_code: 'NL', party_id: 'SEC' }, { country_code: 49 }].map((party): Target => {
    const body = { ...stop('S1'), token: { ...short, ...party } };
    return { name: `stop with a token of ${JSON.stringify(party)}`, command: 'STOP_SESSION', body, to: toCpo };
  }),
  { name: 'stop of an unknown session', command: 'STOP_SESSION', body: stop('NONE'), to: locationNotFound },
  { name: 'stop of another eMSP’s session [D45]', command: 'STOP_SESSION', body: stop('S2'), to: locationNotFound },
  {
    ...{ name: 'stop of another eMSP’s session, CPO named [D45]', command: 'STOP_SESSION', body: stop('S2') },
    ...{ headers: toParty('CPO'), to: locationNotFound },
  },
  { name: 'stop of its own', command: 'STOP_SESSION', body: stop('S2'), from: () => secondEmsp, to: toCpo },
  { name: 'stop of an unrouted CPO’s session', command: 'STOP_SESSION', body: stop('SU'), to: locationNotFound },
  { name: 'OCPI-to naming the CPO', command: 'START_SESSION', body: at('LOC1'), headers: toParty('CPO'), to: toCpo },
  {
    ...{ name: 'OCPI-to in another case [D12]', command: 'START_SESSION', body: at('LOC1') },
    ...{ headers: toParty('cpo', 'nl'), to: toCpo },
  },
  {
    ...{ name: 'OCPI-to naming the hub', command: 'START_SESSION', body: at('LOC1') },
    ...{ headers: toParty('HUB', 'XX'), to: toCpo },
  },
  {
    ...{ name: 'OCPI-to naming the caller', command: 'START_SESSION', body: at('LOC1') },
    ...{ headers: toParty('EMS'), to: toCpo },
  },
  { name: 'OCPI-to another CPO', command: 'START_SESSION', body: at('LOC1'), headers: toParty('OTH'), to: mismatch },
  { name: 'OCPI-to nobody', command: 'START_SESSION', body: at('LOC1'), headers: toParty('ZZZ'), to: mismatch },
  {
    name: 'stop, OCPI-to another CPO',
    command: 'STOP_SESSION',
    body: stop('S1'),
    headers: toParty('OTH'),
    to: mismatch,
  },
  {
    ...{ name: 'half of OCPI-to', command: 'START_SESSION', body: at('LOC1') },
    ...{ headers: { 'OCPI-to-party-id': 'CPO' }, to: [200, 2001, 'OCPI-to-country-code: expected string'] as const },
  },
  {
    ...{ name: 'OCPI-from naming the caller', command: 'START_SESSION', body: at('LOC1') },
    ...{ headers: { 'OCPI-from-country-code': 'NL', 'OCPI-from-party-id': 'ems' }, to: toCpo },
  },
  {
    ...{ name: 'OCPI-from naming somebody else', command: 'START_SESSION', body: at('LOC1') },
    headers: { 'OCPI-from-country-code': 'NL', 'OCPI-from-party-id': 'SEC' },
    to: [200, 2001, 'OCPI-from-party-id: expected a party of the caller'],
  },
  { name: 'an id of two CPOs [D27]', command: 'START_SESSION', body: at('SHARED'), to: ambiguous },
  {
    ...{ name: 'an id of two CPOs, one named [D27]', command: 'START_SESSION', body: at('SHARED') },
    ...{ headers: toParty('OTH'), to: toOther },
  },
  { name: 'an id of two CPOs, one routed [D27]', command: 'START_SESSION', body: at('HALF'), to: toCpo },
  {
    ...{ name: 'an id of two CPOs, the unrouted one named [D27]', command: 'START_SESSION', body: at('HALF') },
    ...{ headers: toParty('UNR'), to: notRouted },
  },
  {
    ...{ name: 'an id of two CPOs, one routed to this eMSP [D27]', command: 'START_SESSION', body: at('SHARED') },
    ...{ from: () => secondEmsp, to: toCpo },
  },
  { name: 'a session id of two CPOs [D27]', command: 'STOP_SESSION', body: stop('SHARED'), to: ambiguous },
  {
    ...{ name: 'a session id of two CPOs, one named [D27]', command: 'STOP_SESSION', body: stop('SHARED') },
    ...{ headers: toParty('OTH'), to: toOther },
  },
  { name: 'a session id of two, one its own [D27]', command: 'STOP_SESSION', body: stop('MIXED'), to: toOther },
];

t.test(
  'the CPO is the owner of the location or session, and OCPI-to must agree [interface, Commands 1, 6] [D5] [D27] [D45]',
  async (t) => {
    for (const { name, command, body, headers = {}, from = () => emsp, to } of targets) {
      for (const partner of everyone()) partner.received.length = 0;
      const answer = await send(command, body, { headers }, from());
      if (typeof to !== 'function') refused(t, answer, to, name);
      else succeeded(t, answer, name);
      const got = everyone().filter(({ received }) => received.length > 0);
      t.same(
        got.map(({ id, received }) => `${id} ${received.length}`),
        typeof to === 'function' ? [`${to().id} 1`] : [],
        `${name}: who was called`,
      );
    }
  },
);

t.test(
  'without an active rule the command is refused, and the CPO is not called [interface, Errors] [interface, Commands 6]',
  async (t) => {
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: false });
    refused(t, await start(), notRouted, 'start');
    refused(t, await send('UNLOCK_CONNECTOR', place), notRouted, 'unlock');
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
    t.equal(cpo.received.length, 0);
    succeeded(t, await start(), 'active again');
  },
);

t.test('CANCEL_RESERVATION finds the CPO by the reservation that the same eMSP made [D26] [D5] [D94]', async (t) => {
  succeeded(t, await send('RESERVE_NOW', { ...reservation, reservation_id: 'Mine', location_id: 'LOC2' }), 'reserve');
  const cancel = (reservation_id: string, headers = {}, from = emsp) =>
    send('CANCEL_RESERVATION', { reservation_id }, { headers }, from);
  succeeded(t, await cancel('mine'), 'in another case');
  succeeded(t, await cancel('Mine', toParty('OTH')), 'named as well');
  t.equal(other.received.length, 3);
  refused(t, await cancel('Mine', toParty('CPO')), mismatch, 'another named');
  const unknown: Refused = [200, 2001, 'reservation_id: unknown reservation, and OCPI-to-* names no CPO'];
  refused(t, await cancel('Unheard'), unknown, 'an unknown one');
  refused(t, await cancel('Mine', {}, secondEmsp), locationNotFound, 'of another eMSP [D66]');
  refused(t, await cancel('Mine', toParty('OTH'), secondEmsp), locationNotFound, 'and that CPO named [D94]');
  refused(t, await cancel('Unheard', toParty('HUB', 'XX')), unknown, 'to the hub');
  t.equal(cpo.received.length, 0);
  succeeded(t, await cancel('Unheard', toParty('CPO')), 'an unknown one, CPO named');
  t.equal(cpo.received.length, 1);
  refused(t, await cancel('Unheard', toParty('UNR')), notRouted, 'at an unrouted CPO');
  refused(t, await cancel('Unheard', toParty('ZZZ')), notRouted, 'at nobody’s');
  t.equal(unrouted.received.length, 0);
  succeeded(t, await send('RESERVE_NOW', { ...reservation, reservation_id: 'Near' }), 'reserve at a CPO of both eMSPs');
  cpo.received.length = 0;
  const located = { reservation_id: 'Near', location_id: 'LOC1' };
  refused(t, await send('CANCEL_RESERVATION', located, {}, secondEmsp), locationNotFound, 'with its location [D66]');
  t.equal(cpo.received.length, 0);
});

t.test('STOP_SESSION means the session in progress, of several the one that START_SESSION began [D27]', async (t) => {
  const stopped = async (session_id: string) => {
    for (const partner of everyone()) partner.received.length = 0;
    const answer = await send('STOP_SESSION', { session_id });
    return { answer, got: everyone().flatMap(({ id, received }) => (received.length > 0 ? [id] : [])) };
  };

  await pushSession(cpo, 'Over', 'EMS', { uid: 'CARD9', status: 'COMPLETED' });
  await pushSession(other, 'Over', 'EMS', { uid: 'CARD9' });
  t.same((await stopped('over')).got, ['NL-OTH'], 'the other one has ended');

  succeeded(t, await start({ token: { ...short, uid: 'CARD7' }, location_id: 'LOC2' }), 'start');
  for (const owner of [cpo, other]) await pushSession(owner, 'Copied', 'EMS', { uid: 'CARD7' });
  t.same((await stopped('copied')).got, ['NL-OTH'], 'the other one copied its id');

  for (const owner of [cpo, other]) await pushSession(owner, 'Neither', 'EMS', { uid: 'CARD9' });
  const { answer, got } = await stopped('neither');
  refused(t, answer, ambiguous, 'none of them was started by a command');
  t.same(got, []);

  for (const owner of [cpo, other]) await pushSession(owner, 'Done', 'EMS', { uid: 'CARD7', status: 'COMPLETED' });
  refused(t, (await stopped('done')).answer, ambiguous, 'both have ended');
});

t.test('a reservation is the one of its eMSP at its CPO: others may have the same id [D26] [D27] [D66]', async (t) => {
  const reserve = (reservation_id: string, location_id: string, from = emsp, until = '2026-03-01T23:00:00') =>
    send('RESERVE_NOW', { ...reservation, reservation_id, location_id, expiry_date: until }, {}, from);
  const cancel = async (reservation_id: string, headers = {}, from = emsp) => {
    for (const partner of everyone()) partner.received.length = 0;
    const answer = await send('CANCEL_RESERVATION', { reservation_id }, { headers }, from);
    const got = everyone().filter(({ received }) => received.length > 0);
    return { answer, got: got.map(({ id }) => id) };
  };

  await reserve('Twice', 'LOC1');
  await reserve('TWICE', 'LOC2');
  const which = await cancel('twice');
  refused(t, which.answer, ambiguous, 'at two CPOs');
  t.same(which.got, []);
  t.same((await cancel('twice', toParty('CPO'))).got, ['NL-CPO']);
  t.same((await cancel('twice', toParty('OTH'))).got, ['NL-OTH']);
  refused(t, (await cancel('twice', toParty('UNR'))).answer, mismatch, 'at neither');

  await reserve('Both', 'LOC2');
  await reserve('Both', 'LOC1', secondEmsp);
  t.same((await cancel('both')).got, ['NL-OTH'], 'the other eMSP has not taken it over');
  t.same((await cancel('both', {}, secondEmsp)).got, ['NL-CPO']);

  for (const partner of everyone()) partner.received.length = 0;
  await reserve('Taken', 'LOC1');
  await reserve('Taken', 'LOC2');
  succeeded(t, await reply(callbackOf().id, { result: 'EVSE_OCCUPIED' }), 'the first CPO cannot hold it');
  t.same((await cancel('taken')).got, ['NL-OTH'], 'then the second one does');

  await reserve('Short', 'LOC1');
  const later = new Date(clock.wall() + 60_000).toISOString().slice(0, -1);
  await reserve('Short', 'LOC2', emsp, later);
  refused(t, (await cancel('short')).answer, ambiguous, 'while both run');
  clock.advance(60_000);
  t.same((await cancel('short')).got, ['NL-CPO'], 'once one has run out');

  await reserve('Undone', 'LOC1');
  await reserve('Undone', 'LOC2');
  t.same((await cancel('undone', toParty('CPO'))).got, ['NL-CPO']);
  const { id } = callbackOf();
  refused(t, (await cancel('undone')).answer, ambiguous, 'while its cancellation is under way');
  succeeded(t, await reply(id, { result: 'ACCEPTED' }), 'it is cancelled');
  t.same((await cancel('undone')).got, ['NL-OTH'], 'then the other one is meant');
  await reserve('Undone', 'LOC1');
  refused(t, (await cancel('undone')).answer, ambiguous, 'reserved anew');
});

t.test('a reservation that an earlier version stored is found by its eMSP alone [D26] [D66]', async (t) => {
  const { recorder } = hub.created.context;
  const old = { kind: 'reservations', owner: 'NL-EMS', id: 'old' };
  const event = { type: 'row.rebuilt', data: old } as const;
  await recorder.record({
    facts: [{ stream: 'repair:reservations', event, party: null }],
    puts: [{ ...old, shelf: null, upd: '', data: { cpo: 'NL-OTH' }, body: null }],
    ...{ trace: null, at: recorder.instant() },
  });
  const cancel = (headers = {}, from = emsp) =>
    send('CANCEL_RESERVATION', { reservation_id: 'Old' }, { headers }, from);
  succeeded(t, await cancel(), 'its own');
  t.equal(other.received.length, 1);
  refused(t, await cancel({}, secondEmsp), locationNotFound, 'of another eMSP');
  await send('RESERVE_NOW', { ...reservation, reservation_id: 'OLD', location_id: 'LOC2' });
  other.received.length = 0;
  succeeded(t, await cancel(), 'replaced, it is the same one');
  t.equal(other.received.length, 1);
});

// Failures

const words: Record<Meaning, string> = {
  timeout: 'CPO command forward timed out',
  unavailable: 'CPO command forward unavailable',
  unauthorized: 'CPO command forward unauthorized',
  notFound: 'CPO command forward not found',
  rejected: 'CPO command rejected',
  unusable: 'CPO command forward failed',
};

t.test(
  'failures of the forward have the messages of the error table, after one attempt [interface, Errors] [interface, Commands 5] [D44]',
  async (t) => {
    const url = `${cpo.url}/ocpi/2.2.1/commands`;
    for (const { name, behaviour, meaning } of failures) {
      // Commands are listed by their instant.
      clock.advance(1);
      cpo.received.length = 0;
      cpoMood.behaviour = behaviour;
      const elsewhere = urlFor(behaviour, url);
      if (elsewhere !== url) await setEndpoint(hub, cpo.id, ['commands', 'RECEIVER'], elsewhere);
      refused(t, await start(), [502, 2000, words[meaning]], name);
      t.equal(cpo.received.length, elsewhere === url ? 1 : 0, `${name}: requests`);
      if (elsewhere !== url) await setEndpoint(hub, cpo.id, ['commands', 'RECEIVER'], url);
      closeCircuit(hub, cpo.id);
      const { items } = (await admin(hub, 'GET', '/commands?limit=1')) as { items: { state: string }[] };
      t.match(items, [{ state: 'rejected' }], `${name}: the record is rejected, nothing is pending`);
    }
    cpoMood.behaviour = null;
    cpo.received.length = 0;
    clock.advance(120_000);
    succeeded(t, await start(), 'the next one passes');
    t.equal(cpo.received.length, 1, 'nothing was kept to be sent again');
    t.equal(emsp.received.length, 0, 'and no result was made up');
  },
);

t.test('a CPO without a commands endpoint, or suspended, is unavailable [D44]', async (t) => {
  refused(t, await start({ location_id: 'LOCB' }), [502, 2000, words.unavailable], 'no endpoint');
  const leaver = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'GON', modules: [['commands', 'RECEIVER']], answer: () => accepted },
  });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-GON', { active: true });
  await pushLocation(leaver, 'LOCG');
  succeeded(t, await start({ location_id: 'LOCG' }), 'while it is there');
  await leaver.call('DELETE', '/2.2.1/credentials');
  refused(t, await start({ location_id: 'LOCG' }), [502, 2000, words.unavailable], 'suspended');
  t.equal(leaver.received.length, 1);
});

t.test(
  'an open circuit answers at once, and lets a command through again later [interface, Errors] [interface, Commands 6]',
  async (t) => {
    closeCircuit(hub, cpo.id);
    cpoMood.behaviour = { status: 500, text: '' };
    for (let failed = 0; failed < 5; failed++) refused(t, await start(), [502, 2000, words.unavailable], 'it fails');
    t.equal(cpo.received.length, 5);
    cpoMood.behaviour = null;
    refused(t, await start(), [502, 2000, words.unavailable], 'while it is open');
    t.equal(cpo.received.length, 5, 'nothing was sent');
    clock.advance(5_000);
    succeeded(t, await start(), 'half-open');
    succeeded(t, await start(), 'and again');
    t.equal(cpo.received.length, 7);
  },
);

t.test('a command is sent to an OFFLINE partner [interface, Commands 6]', async (t) => {
  const { operations } = hub.created.hub;
  const statusIs = async (status: string) => {
    await hub.settled();
    t.equal((await admin(hub, 'GET', '/parties/NL-CPO')).status, status);
  };
  discovery = { status: 500 };
  await operations.probe(cpo.id);
  clock.advance(60_001);
  await operations.probe(cpo.id);
  await statusIs('OFFLINE');
  succeeded(t, await start(), 'forwarded all the same');
  t.equal(cpo.received.length, 1);
  discovery = undefined;
  await operations.probe(cpo.id);
  await statusIs('CONNECTED');
});

// Results

t.test(
  'the result goes to the eMSP’s response_url, byte for byte, with the hub’s credentials [interface, Commands 4] [D29] [D15]',
  async (t) => {
    const id = await begun();
    const text = '{ "result":"ACCEPTED",\n "message":[{"language":"en","text":"d\\u00e9j\\u00e0"}], "x-own": 1.50 }';
    const headers = { 'X-Request-ID': 'request-2', 'X-Correlation-ID': 'correlation-2' };
    const answer = await reply(id, text, { headers });
    succeeded(t, answer, 'callback');
    t.match(answer.headers, { 'x-request-id': 'request-2', 'x-correlation-id': 'correlation-2' });
    t.equal(emsp.received.length, 1);
    const [got] = emsp.received;
    t.match(got, { method: 'POST', path: '/results/of-the-emsp?secret=1', body: text });
    t.match(got?.headers, {
      authorization: `Token ${Buffer.from(emsp.token).toString('base64')}`,
      'x-correlation-id': 'correlation-2',
      'ocpi-from-party-id': 'CPO',
      'ocpi-to-party-id': 'EMS',
    });
    t.not(got?.headers['x-request-id'], 'request-2');
    t.match(await record(id), { state: 'relayed', result: 'ACCEPTED' });
  },
);

t.test('every CommandResult of OCPI is passed on unchanged [interface, Commands 4] [D29]', async (t) => {
  for (const result of [
    ...['ACCEPTED', 'CANCELED_RESERVATION', 'EVSE_OCCUPIED', 'EVSE_INOPERATIVE', 'FAILED', 'NOT_SUPPORTED'],
    ...['REJECTED', 'TIMEOUT', 'UNKNOWN_RESERVATION', 'SOMETHING_NEW'],
  ]) {
    emsp.received.length = 0;
    succeeded(t, await reply(await begun(), { result }), result);
    t.same(
      emsp.received.map(({ body }) => body),
      [JSON.stringify({ result })],
    );
  }
});

t.test('a result in an envelope is unwrapped, byte for byte [D29]', async (t) => {
  const inner = '{"result" : "FAILED", "message":[ ]}';
  const id = await begun();
  succeeded(
    t,
    await reply(id, `{"data": ${inner} ,"status_code":1000,"timestamp":"2026-01-02T03:04:05Z"}`),
    'callback',
  );
  t.same(
    emsp.received.map(({ body }) => body),
    [inner],
  );
});

t.test('a result that comes before the forward has returned is passed on, and so is the answer [D29]', async (t) => {
  let early: OcpiAnswer | null = null;
  let got = 0;
  beforeAnswer = async () => {
    early = await reply(callbackOf().id, { result: 'ACCEPTED' });
    got = emsp.received.length;
  };
  const answer = await start();
  if (early === null) throw new Error('the CPO was not called');
  succeeded(t, early, 'the callback');
  t.equal(got, 1, 'the eMSP had the result before the answer');
  succeeded(t, answer, 'the answer');
  t.strictSame(answer.json.data, { result: 'ACCEPTED', timeout: 25 });
  t.equal(emsp.received.length, 1, 'once');
  t.match(await record(callbackOf().id), { state: 'relayed', result: 'ACCEPTED' });
});

t.test('several results of one command are each passed on [D29]', async (t) => {
  const id = await begun();
  for (const result of ['ACCEPTED', 'CANCELED_RESERVATION', 'CANCELED_RESERVATION']) {
    succeeded(t, await reply(id, { result }), result);
  }
  t.same(
    emsp.received.map(({ body }) => (JSON.parse(body) as { result: string }).result),
    ['ACCEPTED', 'CANCELED_RESERVATION', 'CANCELED_RESERVATION'],
  );
  t.match(await record(id), { result: 'CANCELED_RESERVATION' });
});

t.test(
  'a missing result is reported to nobody, and a late one is passed on all the same [interface, Commands 5] [D29]',
  async (t) => {
    const id = await begun();
    clock.advance(25_000);
    await hub.settled();
    t.equal((await record(id)).state, 'silent', 'the wait is over');
    t.equal(emsp.received.length, 0, 'the hub makes no result of its own');
    t.equal(cpo.received.length, 1, 'and asks nobody again');
    succeeded(t, await reply(id, { result: 'ACCEPTED' }), 'late');
    t.equal(emsp.received.length, 1);
    t.match(await record(id), { state: 'relayed', result: 'ACCEPTED' });
  },
);

t.test('a result of a command that the CPO had rejected is passed on too [D29]', async (t) => {
  cpoMood.behaviour = { body: { result: 'REJECTED', timeout: 5 } };
  const id = await begun();
  t.match(await record(id), { state: 'rejected', result: 'REJECTED' });
  succeeded(t, await reply(id, { result: 'FAILED' }), 'callback');
  t.equal(emsp.received.length, 1);
});

t.test(
  'a callback without the token of the CPO that owns the command is 401, and nothing is passed on [interface, Authentication 7] [interface, Errors]',
  async (t) => {
    const id = await begun();
    const result = { result: 'ACCEPTED' };
    const invalidToken: Refused = [401, 2000, 'Invalid token'];
    const rows: [name: string, id: string, token: string | null][] = [
      ['no token', id, null],
      ['an unknown one', id, 'nobody'],
      ['the eMSP’s', id, emsp.hubToken],
      ['another CPO’s', id, other.hubToken],
      ['the CPO’s own of a command that is not there', 'no-such-command', cpo.hubToken],
      ['the token by which the hub calls the CPO', id, cpo.token],
    ];
    for (const [name, of, token] of rows) refused(t, await reply(of, result, { token }), invalidToken, name);
    t.equal(emsp.received.length, 0);
    t.match(await record(id), { state: 'awaiting', result: 'ACCEPTED' });
  },
);

t.test(
  'the token and the command decide whose result it is, not OCPI-from; a differing party is counted as a quirk [D5] [D29] [D70]',
  async (t) => {
    const lines: string[] = [];
    const logTo = { write: (line: string) => void lines.push(line) };
    const own = await hubFor(t, { HUB_LOG_LEVEL: 'info' }, { logTo });
    const platform = await partnerFor(t, own, {
      ...{ role: 'CPO', countryCode: 'NL', partyId: 'PLA', answer: () => accepted },
      others: [{ role: 'CPO', country_code: 'NL', party_id: 'PLB' }],
    });
    const provider = await partnerFor(t, own, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
    await admin(own, 'PUT', '/routes/NL-EMS/NL-PLB', { active: true });
    await platform.push('PUT', '/2.2.1/locations/NL/PLB/LOC1', locationBody('LOC1', { party_id: 'PLB' }));
    await own.settled();
    provider.received.length = 0;
    const asked = { ...bodies.START_SESSION, response_url: `${provider.url}/result` };
    await provider.push('POST', '/2.2.1/commands/START_SESSION', asked);
    const { id } = callbackOf(platform);
    const { country_code: country, party_id: hubId } = own.created.hub.party;
    const swapped = { 'OCPI-from-country-code': country, 'OCPI-from-party-id': hubId, ...toParty('PLB') };
    const second = { 'OCPI-from-country-code': 'nl', 'OCPI-from-party-id': 'plb' };
    for (const [headers, result] of [
      [swapped, 'FAILED'],
      [second, 'ACCEPTED'],
      [{}, 'CANCELED_RESERVATION'],
    ] as const)
      await platform.push('POST', `/2.2.1/commands/callback/${id}`, { result }, headers);
    t.match(
      provider.received.map(({ body, headers }) => [JSON.parse(body), headers['ocpi-from-party-id']]),
      ['FAILED', 'ACCEPTED', 'CANCELED_RESERVATION'].map((result) => [{ result }, 'PLB']),
      'each is relayed as from the CPO of the command',
    );
    const results = await itemsOf(own, '/events?type=command.resultReceived');
    t.same(
      results.map(({ party, data }) => [party, (data as { quirks?: object }).quirks]),
      [
        ['NL-PLB', { 'NL-PLB': ['foreign-sender'] }],
        ['NL-PLB', undefined],
        ['NL-PLB', undefined],
      ],
      'and recorded as of that CPO',
    );
    t.match(await admin(own, 'GET', '/parties/NL-PLA/report'), {
      quirks: [{ module: 'commands', quirk: 'foreign-sender', count: 1, source: 'learnt' }],
      refused: [],
    });
    const logged = lines.map((line) => JSON.parse(line) as { msg: string; route?: string; party: string });
    t.same(
      logged.filter(({ msg, route }) => msg === 'request' && route?.includes('callback')).map(({ party }) => party),
      ['NL-PLA', 'NL-PLB', 'NL-PLA'],
      'the line of the request names the CPO of OCPI-from, else the first of the partner',
    );
  },
);

t.test(
  'a command has at most 100 results, of 64 KiB each, and they count against the quota of the CPO [COMMANDS-7]',
  atLength,
  async (t) => {
    const id = await begun();
    const used = () => hub.created.hub.operations.vitals().quota['NL-CPO'] ?? 0;
    const before = used();
    const large = { result: 'FAILED', pad: 'x'.repeat(60_000) };
    for (let n = 0; n < 100; n++) succeeded(t, await reply(id, n === 99 ? large : { result: 'FAILED' }), `result ${n}`);
    t.ok(used() > before, 'they are counted');
    refused(t, await reply(id, { result: 'ACCEPTED' }), [200, 2001, 'this command has had 100 results'], 'the next');
    const larger = await reply(await begun(), { result: 'FAILED', pad: 'x'.repeat(65_536) });
    refused(t, larger, [413, 2000, 'Body is larger than 65536 bytes'], 'a large one');
  },
);

t.test('a callback body that is no CommandResult is refused by field [D3] [D29]', async (t) => {
  const id = await begun();
  const rows: [body: string, http: number, message: string | RegExp][] = [
    ['{}', 200, 'result: expected string'],
    ['{"result":7}', 200, 'result: expected string'],
    ['{"result":""}', 200, /^result: expected 1 to 255/],
    ['[]', 200, 'body: expected object'],
    ['{"status_code":1000}', 200, 'result: expected string'],
    ['{"status_code":1000,"data":null}', 200, 'body: expected object'],
    ['{"result":', 400, 'Body is not valid JSON'],
  ];
  for (const [body, http, message] of rows) refused(t, await reply(id, body), [http, 2001, message], body);
  t.equal(emsp.received.length, 0);
  succeeded(t, await reply(id, { result: 'ACCEPTED' }), 'the right one is taken afterwards');
});

t.test(
  'a result that cannot be delivered is 502, after one attempt [interface, Errors] [interface, Commands 4]',
  async (t) => {
    const failed: Refused = [502, 2000, 'Failed to forward command callback to eMSP'];
    const timedOut: Refused = [502, 2000, 'Failed to forward command callback to eMSP: timed out'];
    for (const { name, behaviour, meaning } of failures.filter((one) => one.meaning !== 'unusable')) {
      cpo.received.length = 0;
      emsp.received.length = 0;
      await start({ response_url: urlFor(behaviour, responseUrl()) });
      const { id } = callbackOf();
      emspMood.behaviour = behaviour;
      refused(t, await reply(id, { result: 'ACCEPTED' }), meaning === 'timeout' ? timedOut : failed, name);
      t.match(
        await record(id),
        { state: 'relayFailed', result: 'ACCEPTED', reason: /./ },
        `${name}: as operators see it`,
      );
      const arrives = behaviour !== 'nobody' && behaviour !== 'noTls';
      t.equal(emsp.received.length, arrives ? 1 : 0, `${name}: requests`);
      closeCircuit(hub, emsp.id, 'results');
    }
    emspMood.behaviour = null;
    emsp.received.length = 0;
    clock.advance(120_000);
    succeeded(t, await reply(await begun(), { result: 'ACCEPTED' }), 'the next one passes');
    t.equal(emsp.received.length, 1, 'nothing was kept to be sent again');
  },
);

t.test('a result for an eMSP that has left affects no circuit [interface, Errors]', async (t) => {
  const own = await hubFor(t);
  const left = await partnerFor(t, own, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  const station = await partnerFor(t, own, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO', modules: [['commands', 'RECEIVER']], answer: () => accepted },
  });
  await admin(own, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  await pushLocation(station, 'LOC1');
  const body = { location_id: 'LOC1', response_url: `${left.url}/r`, evse_uid: 'EVSE1', connector_id: '1' };
  t.match(await left.call('POST', '/2.2.1/commands/UNLOCK_CONNECTOR', body), {
    json: { data: { result: 'ACCEPTED' } },
  });
  await left.call('DELETE', '/2.2.1/credentials');
  const { id } = callbackOf(station);
  const answer = await station.call('POST', `/2.2.1/commands/callback/${id}`, { result: 'ACCEPTED' });
  t.match(answer, { status: 502, json: { status_message: 'Failed to forward command callback to eMSP' } });
  const found = await admin(own, 'GET', `/commands/${id}`);
  t.match(found, { state: 'relayFailed', reason: 'unavailable: the partner is not registered' });
});

t.test('an eMSP may answer a result without a body [D29]', async (t) => {
  const empty = [{ text: '' }, { status: 204, text: '' }, { status: 202, text: '' }, { text: 'OK' }, { text: 'null' }];
  for (const behaviour of empty) {
    emspMood.behaviour = behaviour;
    succeeded(t, await reply(await begun(), { result: 'ACCEPTED' }), JSON.stringify(behaviour));
  }
});

t.test('an answer of an eMSP to a result has at most 64 KiB [COMMANDS-8]', async (t) => {
  emspMood.behaviour = { body: 'x'.repeat(60_000) };
  succeeded(t, await reply(await begun(), { result: 'ACCEPTED' }), 'a long answer');
  emspMood.behaviour = { body: 'x'.repeat(70_000) };
  const id = await begun();
  const refusal: Refused = [502, 2000, 'Failed to forward command callback to eMSP'];
  refused(t, await reply(id, { result: 'ACCEPTED' }), refusal, 'a longer one');
  const reason = 'invalid_response: The answer is larger than 0.0625 MiB';
  t.match(await record(id), { state: 'relayFailed', result: 'ACCEPTED', reason });
});

t.test(
  'an open circuit to the eMSP fails a callback at once, and a CPO may call again [interface, Errors]',
  async (t) => {
    closeCircuit(hub, emsp.id, 'results');
    const id = await begun();
    emspMood.behaviour = { status: 500, text: '' };
    for (let failed = 0; failed < 5; failed++) await reply(id, { result: 'ACCEPTED' });
    t.equal(emsp.received.length, 5);
    emspMood.behaviour = null;
    const refusal: Refused = [502, 2000, 'Failed to forward command callback to eMSP'];
    refused(t, await reply(id, { result: 'ACCEPTED' }), refusal, 'while it is open');
    t.equal(emsp.received.length, 5);
    t.match(await record(id), { state: 'relayFailed', reason: /^circuit_open: / });
    closeCircuit(hub, emsp.id, 'results');
    succeeded(t, await reply(id, { result: 'ACCEPTED' }), 'afterwards');
    t.equal(emsp.received.length, 6);
    t.match(await record(id), { state: 'relayed', reason: null }, 'a later result that arrives is the end');
  },
);

t.test(
  'failed results hold back no authorization: results have a circuit of their own [interface, Errors]',
  async (t) => {
    closeCircuit(hub, emsp.id);
    closeCircuit(hub, emsp.id, 'results');
    const id = await begun();
    emspMood.behaviour = { status: 500, text: '' };
    for (let failed = 0; failed < 5; failed++) await reply(id, { result: 'ACCEPTED' });
    const { circuits } = await admin(hub, 'GET', '/parties/NL-EMS');
    t.match(circuits, [
      { circuit: 'sync', state: 'closed', failures: 0 },
      { circuit: 'async', state: 'closed' },
      { circuit: 'results', state: 'open', failures: 5 },
    ]);
    emspMood.behaviour = { body: { allowed: 'ALLOWED' } };
    const authorize = { token: cpo.hubToken, headers: toParty('EMS') };
    succeeded(t, await ocpi(hub, 'POST', '/2.2.1/tokens/CARD1/authorize', authorize), 'authorize');
    closeCircuit(hub, emsp.id, 'results');
  },
);
