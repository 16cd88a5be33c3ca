/**
 * Every door and method of the hub with input that is wrong: each row says how it is refused, and after every door nothing may
 * have been recorded and no partner may have been called. A door without a row here fails the first test.
 */
import { routes } from '../../src/ocpi/server.ts';
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { changesOf, type OcpiCall, ocpi, type Refused, refused } from '../support/ocpi-call.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

type Fields = Readonly<Record<string, unknown>>;
type Caller = 'cpo' | 'emsp' | 'outsideCpo' | 'outsideEmsp';

interface Door {
  /** Below `/ocpi/2.2.1`, or from `/` of `/ocpi` where the door stands there. */
  readonly path: string;
  /** Who may call it. */
  readonly by: 'cpo' | 'emsp' | 'initial';
  /** What an initial token meets; null where it is welcome. */
  readonly initial?: Refused | null;
  /** What a token that was replaced meets. */
  readonly spent?: Refused;
  /** Who may not call it at all, and what such a caller meets. */
  readonly wrongRole?: readonly [caller: Caller, refusal: Refused];
  /** Addresses of parties that are not the caller's. */
  readonly foreign?: readonly (readonly [caller: Caller, path: string, refusal: Refused])[];
  /** Addresses that name nothing, or cannot name anything. */
  readonly paths?: readonly (readonly [path: string, refusal: Refused])[];
  /** A body that the door would take, what it may weigh, whether it may be left out. */
  readonly body?: Fields;
  readonly bytesMax?: number;
  readonly bodyIsOptional?: true;
  /** The body with some of its fields changed, and what is said. */
  readonly bodies?: readonly (readonly [fields: Fields, message: string | RegExp])[];
  readonly queries?: readonly (readonly [query: string, message: string | RegExp])[];
  readonly headers?: Readonly<Record<string, string>>;
  /** A party that is not the caller's may stand in OCPI-from. */
  readonly fromAnybody?: true;
}

const mebi = 1024 * 1024;
const invalidToken: Refused = [401, 2000, 'Invalid token'];
const notFound: Refused = [404, 2003, 'Not found'];
const unknownCommand =
  'Unknown command: expected one of START_SESSION, STOP_SESSION, RESERVE_NOW, CANCEL_RESERVATION, UNLOCK_CONNECTOR';
const cpoOnly: Refused = [403, 2000, 'CPO-only endpoint'];
const emspOnly: Refused = [403, 2000, 'eMSP-only endpoint'];
const notRegistered: Refused = [405, 2000, 'Not registered'];
const alreadyRegistered: Refused = [405, 2000, 'Already registered'];
const spentPost: Refused = [405, 2000, /^Already registered: .* ocpi-hub parties initial-token [A-Z]{2}-\w+$/];
const invalid = (message: string | RegExp): Refused => [200, 2001, message];

type BodyRow = readonly [fields: Fields, message: string | RegExp];

/** Fields that are strings and must be there, with what is refused in them. */
const strings = (...names: string[]): BodyRow[] =>
  names.flatMap((name) => [
    [{ [name]: undefined }, `${name}: expected string`] as const,
    [{ [name]: null }, `${name}: expected string`] as const,
    [{ [name]: 7 }, `${name}: expected string`] as const,
  ]);
/** Identifiers: no longer than `max`, and not empty. */
const ids = (max: number, ...names: string[]): BodyRow[] => [
  ...strings(...names),
  ...names.flatMap((name) => [
    [{ [name]: '' }, `${name}: expected 1 to ${max} printable ASCII characters`] as const,
    [{ [name]: 'x'.repeat(max + 1) }, `${name}: expected 1 to ${max} printable ASCII characters`] as const,
  ]),
];
/** Fields of another type than theirs. */
const types = (expected: string, ...names: string[]): BodyRow[] =>
  names.map((name) => [{ [name]: { not: 'this' } }, `${name}: expected ${expected}`] as const);
const instants = (...names: string[]): BodyRow[] =>
  names.flatMap((name) =>
    ['yesterday', '2026-02-30T00:00:00Z', '2026-01-02', ''].map(
      (value) => [{ [name]: value }, `${name}: expected RFC 3339 date-time`] as const,
    ),
  );
/** Ids that the path has, too. */
const inPath = (own: Readonly<Record<string, string>>): BodyRow[] =>
  Object.entries(own).map(([name, value]) => [
    { [name]: name === 'country_code' ? 'DE' : 'ZZZ' },
    name === 'uid' ? 'uid: expected that in the path' : `${name}: expected "${value}", as in the path`,
  ]);

const stamp = [...strings('last_updated'), ...instants('last_updated')];
const fragmentStamp = { last_updated: '2026-01-03T00:00:00Z' };

const pageQueries: Door['queries'] = [
  ['?limit=-1', 'limit: expected non-negative integer'],
  ['?limit=1.5', 'limit: expected non-negative integer'],
  ['?limit=ten', 'limit: expected non-negative integer'],
  ['?offset=-1', 'offset: expected non-negative integer'],
  ['?offset=1&offset=2', 'offset: expected one value'],
  ['?date_from=yesterday', 'date_from: expected RFC 3339 date-time'],
  ['?date_from=2026-13-01T00:00:00Z', 'date_from: expected RFC 3339 date-time'],
  ['?date_from=2026-01-01T00:00:00Z&date_to=2026-01-01', 'date_to: expected RFC 3339 date-time'],
  ['?date_from=2026-01-01T00:00:00Z&cursor=nonsense', 'cursor: expected a cursor taken from a Link header'],
];
const typeQueries: Door['queries'] = [
  ['?type=a%20b', 'type: expected a token type'],
  ['?type=RFID&type=OTHER', 'type: expected a token type'],
];

const badId = (name: string, max = 36) => invalid(`${name}: expected 1 to ${max} printable ASCII characters`);
const unusableIds = (name: string, pathOf: (id: string) => string, max = 36): [string, Refused][] =>
  ['x'.repeat(max + 1), '%2e%2e', '%2E', 'caf%C3%A9', '%00'].map((id) => [pathOf(id), badId(name, max)]);

// Doors by what they serve

const open = { by: 'cpo', initial: null } as const;

const partnerRole = { role: 'CPO', country_code: 'NL', party_id: 'NEW' };
const credentialsBody = { token: 'its-own-token', url: 'http://127.0.0.1:1/ocpi/versions', roles: [partnerRole] };
const credentialsBodies: BodyRow[] = [
  ...strings('token', 'url'),
  [{ token: 'with space' }, 'token: expected 1 to 64 printable ASCII characters without spaces'],
  [{ token: 'x'.repeat(65) }, 'token: expected 1 to 64 printable ASCII characters without spaces'],
  [{ url: 'nowhere' }, 'url: expected http or https URL'],
  [{ url: 'ftp://127.0.0.1/' }, 'url: expected http or https URL'],
  ...types('array', 'roles'),
  [{ roles: [] }, 'roles: expected at least one role'],
  [{ roles: ['CPO'] }, 'roles[0]: expected object'],
  [{ roles: [{ ...partnerRole, role: undefined }] }, 'roles[0].role: expected string'],
  [{ roles: [{ ...partnerRole, country_code: 'NLD' }] }, /^roles\[0\]\.country_code: expected 1 to 2/],
  [{ roles: [{ ...partnerRole, party_id: 'LONG' }] }, /^roles\[0\]\.party_id: expected 1 to 3/],
  [{ roles: [{ ...partnerRole, party_id: 'ZZZ' }] }, /was not assigned by the hub operator$/],
];

const credentials: Record<string, Door> = {
  'GET /2.2.1/credentials': { path: '/credentials', by: 'cpo' },
  'POST /2.2.1/credentials': {
    ...{ path: '/credentials', by: 'initial', initial: null, spent: spentPost },
    wrongRole: ['cpo', alreadyRegistered],
    ...{ body: credentialsBody, bodies: credentialsBodies },
  },
  'PUT /2.2.1/credentials': {
    ...{ path: '/credentials', by: 'cpo', initial: notRegistered },
    ...{ body: credentialsBody, bodies: credentialsBodies },
  },
  'DELETE /2.2.1/credentials': { path: '/credentials', by: 'cpo', initial: notRegistered },
};

const list = (name: string, by: 'cpo' | 'emsp', queries = pageQueries): Record<string, Door> => ({
  [`GET /2.2.1/${name}`]: {
    ...{ path: `/${name}`, by, queries },
    wrongRole: by === 'emsp' ? ['cpo', emspOnly] : ['emsp', cpoOnly],
  },
});

const evse = { uid: 'EVSE1', status: 'AVAILABLE', connectors: [], last_updated: '2026-01-03T00:00:00Z' };
const connector = {
  ...{ id: '1', standard: 'IEC_62196_T2', format: 'SOCKET', power_type: 'AC_3_PHASE' },
  ...{ max_voltage: 230, max_amperage: 32, last_updated: '2026-01-03T00:00:00Z' },
};
const own = { country_code: 'NL', party_id: 'CPO' };
const locationTypes: BodyRow[] = [
  ...types('boolean', 'publish', 'charging_when_closed'),
  ...types('string', 'name', 'address', 'city', 'country', 'time_zone'),
  [{ coordinates: '52,5' }, 'coordinates: expected object'],
  [{ coordinates: { latitude: 52.1, longitude: '5.1' } }, 'coordinates.latitude: expected string'],
  ...types('array', 'evses', 'facilities', 'images'),
  [{ evses: [{ ...evse, uid: undefined }] }, 'evses[0].uid: expected string'],
  [{ evses: [evse, { ...evse, status: 1 }] }, 'evses[1].status: expected string'],
  [{ evses: [{ ...evse, connectors: [{ ...connector, id: 1 }] }] }, 'evses[0].connectors[0].id: expected string'],
];
const evseTypes: BodyRow[] = [
  ...types('string', 'status', 'evse_id', 'floor_level'),
  ...types('array', 'connectors', 'capabilities'),
  [{ connectors: [{ ...connector, max_voltage: '230' }] }, 'connectors[0].max_voltage: expected integer'],
];
const connectorTypes: BodyRow[] = [
  ...types('string', 'standard', 'format', 'power_type'),
  ...types('integer', 'max_voltage', 'max_amperage', 'max_electric_power'),
  [{ max_amperage: 0.5 }, 'max_amperage: expected integer'],
];

/** The three doors of one level of a location. */
function locationLevel(
  route: string,
  below: string,
  whole: Fields,
  wholeRows: BodyRow[],
  rows: BodyRow[],
): Record<string, Door> {
  const path = `/locations/NL/CPO/LOC1${below}`;
  const push: Door = { ...cposObject(path, `/locations/NL/OUT/LOC1${below}`), bytesMax: 4 * mebi };
  const unusable = [
    ...unusableIds('id', (id) => `/locations/NL/CPO/${id}${below}`),
    ...(below === ''
      ? []
      : unusableIds(below === '/EVSE1' ? 'evse_uid' : 'connector_id', (id) => path.replace(/[^/]+$/, id))),
  ];
  const missing = `/locations/NL/CPO/NONE${below}`;
  return {
    [`GET /2.2.1/locations/${route}`]: {
      ...{ path, by: 'cpo' },
      foreign: [
        ['outsideCpo', path, notFound],
        ['outsideEmsp', path, notFound],
        ['cpo', `/locations/NL/OUT/LOC1${below}`, notFound],
      ],
      paths: [[missing, notFound]],
    },
    [`PUT /2.2.1/locations/${route}`]: {
      ...{ ...push, body: whole, bodies: [...wholeRows, ...stamp, ...rows] },
      paths: [...unusable, ...(below === '' ? [] : [[missing, notFound] as const])],
    },
    [`PATCH /2.2.1/locations/${route}`]: {
      ...{ ...push, body: fragmentStamp, bodies: [...stamp, ...rows], paths: [...unusable, [missing, notFound]] },
    },
  };
}

const locations: Record<string, Door> = {
  ...list('locations', 'emsp'),
  'GET /2.2.1/locations/:id': {
    ...{ path: '/locations/LOC1', by: 'emsp', wrongRole: ['cpo', emspOnly], paths: [['/locations/NONE', notFound]] },
    foreign: [['outsideEmsp', '/locations/LOC1', notFound]],
  },
  'GET /2.2.1/locations/:id/:evse_uid': {
    ...{ path: '/locations/LOC1/EVSE1', by: 'emsp', wrongRole: ['cpo', emspOnly] },
    paths: [['/locations/LOC1/NONE', notFound]],
    foreign: [['outsideEmsp', '/locations/LOC1/EVSE1', notFound]],
  },
  ...locationLevel(
    ':country_code/:party_id/:id',
    '',
    locationBody('LOC1'),
    [...ids(36, 'id'), ...strings('country_code', 'party_id'), [{ publish: undefined }, 'publish: expected boolean']],
    [...locationTypes, ...inPath({ ...own, id: 'LOC1' })],
  ),
  ...locationLevel(
    ':country_code/:party_id/:id/:evse_uid',
    '/EVSE1',
    evse,
    [],
    [...evseTypes, ...inPath({ uid: 'EVSE1' })],
  ),
  ...locationLevel(
    ':country_code/:party_id/:id/:evse_uid/:connector_id',
    '/EVSE1/1',
    connector,
    [],
    [...connectorTypes, ...inPath({ id: '1' })],
  ),
};

/** What reads and pushes of a CPO's object have in common. */
function cposObject(path: string, foreignPath: string): Door {
  const foreign = [
    ['outsideCpo', path, notFound],
    ['cpo', foreignPath, notFound],
  ] as const;
  return { path, by: 'cpo', wrongRole: ['emsp', cpoOnly], foreign };
}

const readOf = (path: string, missing: string): Door => ({
  ...{ path, by: 'cpo', paths: [[missing, notFound]] },
  foreign: [
    ['outsideCpo', path, notFound],
    ['outsideEmsp', path, notFound],
  ],
});

const tariff = cposObject('/tariffs/NL/CPO/T1', '/tariffs/NL/OUT/T1');
const tariffIds = unusableIds('id', (id) => `/tariffs/NL/CPO/${id}`);
const tariffs: Record<string, Door> = {
  ...list('tariffs', 'emsp'),
  'GET /2.2.1/tariffs/:country_code/:party_id/:id': readOf('/tariffs/NL/CPO/T1', '/tariffs/NL/CPO/NONE'),
  'PUT /2.2.1/tariffs/:country_code/:party_id/:id': {
    ...{ ...tariff, paths: tariffIds, body: tariffBody('T1') },
    bodies: [
      ...ids(36, 'id'),
      ...strings('country_code', 'party_id'),
      ...stamp,
      ...types('string', 'currency', 'type'),
      ...types('array', 'elements'),
      [{ elements: [{ price_components: [{ type: 'ENERGY', price: '0.3' }] }] }, /price: expected number$/],
      ...inPath({ ...own, id: 'T1' }),
    ],
  },
  'DELETE /2.2.1/tariffs/:country_code/:party_id/:id': {
    ...{ ...tariff, paths: [...tariffIds, ['/tariffs/NL/CPO/NONE', notFound]] },
  },
};

const tokenDoor: Door = {
  ...{ path: '/tokens/NL/EMS/CARD1', by: 'emsp', wrongRole: ['cpo', emspOnly] },
  foreign: [
    ['outsideEmsp', '/tokens/NL/EMS/CARD1', notFound],
    ['emsp', '/tokens/NL/OUE/CARD1', notFound],
  ],
};
const tokenRows: BodyRow[] = [
  ...types('string', 'type', 'contract_id', 'issuer'),
  ...types('boolean', 'valid'),
  ...inPath({ country_code: 'NL', party_id: 'EMS', uid: 'CARD1' }),
];
const tokenIds = unusableIds('uid', (id) => `/tokens/NL/EMS/${id}`);
const toCpo = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'CPO' };
const toEmsp = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
const references: BodyRow[] = [...types('string', 'location_id'), ...types('array', 'evse_uids')];
const tokens: Record<string, Door> = {
  ...list('tokens', 'cpo'),
  'GET /2.2.1/tokens/:country_code/:party_id/:uid': {
    ...{ path: '/tokens/NL/EMS/CARD1', by: 'emsp', paths: [['/tokens/NL/EMS/NONE', notFound]], queries: typeQueries },
    foreign: [
      ['outsideEmsp', '/tokens/NL/EMS/CARD1', notFound],
      ['outsideCpo', '/tokens/NL/EMS/CARD1', notFound],
      ['emsp', '/tokens/NL/EMS/CARD1?type=OTHER', notFound],
    ],
  },
  'PUT /2.2.1/tokens/:country_code/:party_id/:uid': {
    ...{ ...tokenDoor, paths: tokenIds, body: tokenBody('CARD1') },
    bodies: [...ids(36, 'uid'), ...strings('country_code', 'party_id'), ...stamp, ...tokenRows],
    queries: [...typeQueries, ['?type=APP_USER', 'type: expected "APP_USER", as in the query']],
  },
  'PATCH /2.2.1/tokens/:country_code/:party_id/:uid': {
    ...{ ...tokenDoor, paths: [...tokenIds, ['/tokens/NL/EMS/NONE', notFound]], body: fragmentStamp },
    ...{ bodies: [...stamp, ...tokenRows], queries: typeQueries },
  },
  'POST /2.2.1/tokens/:uid/authorize': {
    ...{ path: '/tokens/CARD1/authorize', by: 'cpo', wrongRole: ['emsp', cpoOnly], headers: toEmsp },
    ...{ body: { location_id: 'LOC1' }, bodyIsOptional: true, bodies: references, queries: typeQueries },
    paths: unusableIds('uid', (id) => `/tokens/${id}/authorize`),
  },
  'PUT /2.2.1/tokens/:country_code/:party_id/:uid/authorize': {
    ...{ ...tokenDoor, path: '/tokens/NL/EMS/CARD1/authorize', headers: toCpo, queries: typeQueries },
    ...{ body: {}, bodyIsOptional: true },
    foreign: [
      ['outsideEmsp', '/tokens/NL/EMS/CARD1/authorize', notFound],
      ['emsp', '/tokens/NL/OUE/CARD1/authorize', notFound],
    ],
    paths: unusableIds('uid', (id) => `/tokens/NL/EMS/${id}/authorize`),
  },
};

const session = cposObject('/sessions/NL/CPO/S1', '/sessions/NL/OUT/S1');
const sessionIds = unusableIds('id', (id) => `/sessions/NL/CPO/${id}`);
const sessionRows: BodyRow[] = [
  ...types('number', 'kwh'),
  [{ kwh: '1.5' }, 'kwh: expected number'],
  ...types('string', 'status', 'auth_method', 'currency', 'location_id'),
  ...instants('start_date_time'),
  [{ total_cost: 5 }, 'total_cost: expected object'],
  ...inPath({ ...own, id: 'S1' }),
];
const sessions: Record<string, Door> = {
  ...list('sessions', 'emsp', [
    ['', 'date_from: expected RFC 3339 date-time'],
    ['?date_to=2026-01-01T00:00:00Z', 'date_from: expected RFC 3339 date-time'],
    ...pageQueries.map(([query, message]) => {
      const both = query.includes('date_from') ? query : `${query}&date_from=2026-01-01T00:00:00Z`;
      return [both, message] as const;
    }),
  ]),
  'GET /2.2.1/sessions/:country_code/:party_id/:id': readOf('/sessions/NL/CPO/S1', '/sessions/NL/CPO/NONE'),
  'PUT /2.2.1/sessions/:country_code/:party_id/:id': {
    ...{ ...session, paths: sessionIds, body: sessionBody('S1') },
    bodies: [...ids(36, 'id'), ...strings('country_code', 'party_id', 'status'), ...stamp, ...sessionRows],
  },
  'PATCH /2.2.1/sessions/:country_code/:party_id/:id': {
    ...{ ...session, paths: [...sessionIds, ['/sessions/NL/CPO/NONE', notFound]], body: fragmentStamp },
    bodies: [...stamp, [{ status: null }, 'status: expected string'], ...sessionRows],
  },
};

const cdrs: Record<string, Door> = {
  ...list('cdrs', 'emsp'),
  'POST /2.2.1/cdrs': {
    ...{ path: '/cdrs', by: 'cpo', wrongRole: ['emsp', cpoOnly], body: cdrBody('C2') },
    bodies: [
      ...ids(39, 'id'),
      ...strings('country_code', 'party_id'),
      ...stamp,
      ...types('number', 'total_energy', 'total_time'),
      ...types('string', 'session_id', 'currency'),
      [{ total_cost: 5 }, 'total_cost: expected object'],
      [{ total_cost: { excl_vat: '2.5' } }, 'total_cost.excl_vat: expected number'],
      ...instants('start_date_time', 'end_date_time'),
      [{ party_id: 'OUT' }, 'party_id: expected a party of the caller'],
      [{ country_code: 'DE' }, 'party_id: expected a party of the caller'],
      [{ id: '..' }, /^id: /],
      [{ ...cdrBody('C1'), total_energy: 99 }, 'CDR already exists'],
    ],
  },
  'POST /2.2.1/cdrs/:country_code/:party_id': {
    ...{ ...cposObject('/cdrs/NL/CPO', '/cdrs/NL/OUT'), body: cdrBody('C2') },
    bodies: [
      ...[...ids(39, 'id'), ...stamp, ...inPath(own)],
      [{ ...cdrBody('C1'), total_energy: 99 }, 'CDR already exists'],
    ],
  },
  'POST /2.2.1/cdrs/:country_code/:party_id/:id': {
    ...{ ...cposObject('/cdrs/NL/CPO/C2', '/cdrs/NL/OUT/C2'), body: cdrBody('C2') },
    paths: unusableIds('id', (id) => `/cdrs/NL/CPO/${id}`, 39),
    bodies: [...ids(39, 'id'), ...stamp, ...inPath({ ...own, id: 'C2' })],
  },
  'GET /2.2.1/cdrs/:id': {
    ...{ path: '/cdrs/C1', by: 'cpo', paths: [['/cdrs/NONE', notFound]] },
    foreign: [
      ['outsideCpo', '/cdrs/C1', notFound],
      ['outsideEmsp', '/cdrs/C1', notFound],
    ],
  },
};

const startSession = {
  ...{ response_url: 'http://127.0.0.1:1/result', token: { uid: 'CARD1', type: 'RFID', contract_id: 'C1' } },
  ...{ location_id: 'LOC1', evse_uid: 'EVSE1', connector_id: '1' },
};
const commands: Record<string, Door> = {
  'POST /2.2.1/commands/:command': {
    ...{ path: '/commands/START_SESSION', by: 'emsp', wrongRole: ['cpo', emspOnly], body: startSession },
    foreign: [['outsideEmsp', '/commands/START_SESSION', [403, 2000, 'Not routed']]],
    paths: [
      ['/commands/START', [404, 2000, unknownCommand]],
      ['/commands/start_session', [404, 2000, unknownCommand]],
    ],
    bodies: [
      ...strings('response_url'),
      [{ response_url: 'nowhere' }, 'response_url: expected http or https URL'],
      ...ids(36, 'location_id'),
      ...types('string', 'evse_uid', 'connector_id', 'authorization_reference'),
      [{ token: undefined }, 'token: expected object'],
      [{ token: { type: 'RFID' } }, 'token.uid: expected string'],
    ],
  },
  'POST /2.2.1/commands/callback/:command_id': {
    ...{ path: '/commands/callback/{pending}', by: 'cpo', wrongRole: ['emsp', invalidToken] },
    foreign: [['outsideCpo', '/commands/callback/{pending}', invalidToken]],
    paths: [['/commands/callback/NONE', invalidToken]],
    ...{ body: { result: 'ACCEPTED' }, bodies: ids(255, 'result'), bytesMax: mebi / 16, fromAnybody: true },
  },
};

const doors: Readonly<Record<string, Door>> = {
  'GET /versions': { ...open, path: '/versions' },
  'GET /2.2.1': { ...open, path: '' },
  ...credentials,
  'GET /2.2.1/hubclientinfo': { path: '/hubclientinfo', by: 'emsp', queries: pageQueries },
  ...{ ...locations, ...tariffs, ...tokens, ...sessions, ...cdrs, ...commands },
};

// The stage

let hub: TestHub;
let callers: Record<Caller, PlainPartner>;
let initial = '';
/** A token of the CPO that a rotation has replaced. */
let spent = '';
let pending = '';

t.before(async () => {
  const rates = {
    // A probe in between would be counted as a call.
    HUB_PROBE_INTERVAL_S: '3600',
    HUB_RATE_COMMANDS_PER_MIN: '100000',
    HUB_RATE_LISTS_PER_MIN: '100000',
    HUB_RATE_OTHER_PER_MIN: '100000',
  };
  hub = await hubFor(t, rates);
  const make = (role: 'CPO' | 'EMSP', partyId: string) =>
    partnerFor(t, hub, {
      ...{ role, countryCode: 'NL', partyId },
      answer: ({ path }) => (path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 3600 } } : {}),
    });
  const [cpo, emsp] = [await make('CPO', 'CPO'), await make('EMSP', 'EMS')];
  callers = { cpo, emsp, outsideCpo: await make('CPO', 'OUT'), outsideEmsp: await make('EMSP', 'OUE') };
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  initial = String((await admin(hub, 'POST', '/parties', { roles: [partnerRole] })).initial_token);
  spent = cpo.hubToken;
  const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }];
  const rotation = { token: cpo.token, url: `${cpo.url}/ocpi/versions`, roles };
  const { json } = await cpo.call('PUT', '/2.2.1/credentials', rotation);
  cpo.hubToken = (json.data as { token: string }).token;
  await stage(cpo, emsp);
});

/** One object of each kind, delivered, and a command whose result is awaited. */
async function stage(cpo: PlainPartner, emsp: PlainPartner): Promise<void> {
  const pushes: [PlainPartner, string, string, object][] = [
    [cpo, 'PUT', '/locations/NL/CPO/LOC1', locationBody('LOC1')],
    [cpo, 'PUT', '/tariffs/NL/CPO/T1', tariffBody('T1')],
    [emsp, 'PUT', '/tokens/NL/EMS/CARD1', tokenBody('CARD1')],
    [cpo, 'PUT', '/sessions/NL/CPO/S1', sessionBody('S1')],
    [cpo, 'POST', '/cdrs', cdrBody('C1')],
    [emsp, 'POST', '/commands/START_SESSION', startSession],
  ];
  for (const [partner, method, path, body] of pushes) {
    const { json } = await partner.call(method, `/2.2.1${path}`, body);
    if (json.status_code !== 1000) throw new Error(`${method} ${path}: ${JSON.stringify(json)}`);
  }
  const command = cpo.received.find(({ path }) => path.endsWith('/START_SESSION'));
  const { response_url } = JSON.parse(command?.body ?? '{}') as { response_url: string };
  pending = response_url.slice(response_url.lastIndexOf('/') + 1);
  await hub.settled();
  t.strictSame([emsp.received.length, cpo.received.length], [4, 2], 'all of it is delivered');
}

/** Facts recorded and calls made, before and after. */
async function footprint(): Promise<object> {
  const calls = Object.values(callers).map(({ id, received, asked }) => [id, received.length, asked.length]);
  const { items } = await admin(hub, 'GET', '/deliveries?limit=1000');
  return { sequence: await changesOf(hub), calls, deliveries: (items as object[]).length };
}

// The rows

interface Wrong extends OcpiCall {
  readonly name: string;
  readonly path: string;
  readonly refusal: Refused;
}

const tokenOf = (by: Caller | 'initial') => (by === 'initial' ? initial : callers[by].hubToken);
const notJson: Refused = [400, 2001, 'Body is not valid JSON'];
const deep = (levels: number) => `{"deep":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;

function* wrongs(method: string, door: Door): Generator<Wrong> {
  const { path, by, body, headers = {} } = door;
  const good = { path, token: tokenOf(by), headers, ...(body && { body }) };
  yield* wrongCallers(door, good);
  const from = { 'OCPI-from-country-code': 'NL', 'OCPI-from-party-id': 'ZZZ' };
  const notOwn = invalid('OCPI-from-party-id: expected a party of the caller');
  const foreign = { ...good, name: 'a foreign OCPI-from [D5]', headers: { ...headers, ...from }, refusal: notOwn };
  if (!door.fromAnybody) yield foreign;
  const half = { 'OCPI-from-party-id': 'CPO' };
  const missing = invalid('OCPI-from-country-code: expected string');
  yield { ...good, name: 'half of OCPI-from [D5]', headers: { ...headers, ...half }, refusal: missing };
  for (const [at, refusal] of door.paths ?? []) yield { ...good, name: `${method} ${at}`, path: at, refusal };
  for (const [query, message] of door.queries ?? []) {
    yield { ...good, name: query || 'no query', path: `${path}${query}`, refusal: invalid(message) };
  }
  if (body) yield* wrongBodies(door, good);
}

function* wrongCallers(door: Door, good: Omit<Wrong, 'name' | 'refusal'>): Generator<Wrong> {
  yield { ...good, name: 'no token', token: null, refusal: invalidToken };
  yield { ...good, name: 'an unknown token', token: 'nobody', refusal: invalidToken };
  yield { ...good, name: 'no scheme', headers: { Authorization: callers.cpo.hubToken }, refusal: invalidToken };
  yield { ...good, name: 'a replaced token [D10]', token: spent, refusal: door.spent ?? invalidToken };
  const { initial: met = invalidToken } = door;
  if (met !== null) yield { ...good, name: 'an initial token [D9]', token: initial, refusal: met };
  if (door.wrongRole) {
    const [caller, refusal] = door.wrongRole;
    yield { ...good, name: `${caller}, who may not [D7]`, token: tokenOf(caller), refusal };
  }
  for (const [caller, at, refusal] of door.foreign ?? []) {
    yield { ...good, name: `${caller} at ${at} [D7]`, token: tokenOf(caller), path: at, refusal };
  }
}

function* wrongBodies(door: Door, good: Omit<Wrong, 'name' | 'refusal'>): Generator<Wrong> {
  const { bytesMax = mebi, body, bodies = [] } = door;
  const media = (name: string, extra: Record<string, string>, message: string | RegExp): Wrong => ({
    ...{ ...good, name: `${name} [D49]`, headers: { ...good.headers, ...extra }, refusal: [415, 2000, message] },
  });
  yield { ...good, name: 'a body that is not JSON', body: '{"id":', refusal: notJson };
  yield { ...good, name: 'a body with more behind it', body: `${JSON.stringify(body)} x`, refusal: notJson };
  if (!door.bodyIsOptional) {
    yield { ...good, name: 'an empty body', body: '', refusal: [400, 2001, 'Body is missing'] };
  }
  yield media('plain text', { 'Content-Type': 'text/plain' }, 'Content-Type must be application/json');
  yield media('no media type', { 'Content-Type': '' }, 'Content-Type must be application/json');
  yield media('a compressed body', { 'Content-Encoding': 'gzip' }, 'Content-Encoding is not supported');
  const tooDeep: Refused = [400, 2001, 'Body is nested more than 64 levels deep'];
  yield { ...good, name: 'a body that is too deep [D38] [D49]', body: deep(65), refusal: tooDeep };
  const tooLarge: Refused = [413, 2000, `Body is larger than ${bytesMax} bytes`];
  const large = `{"x":"${'x'.repeat(bytesMax)}"}`;
  yield { ...good, name: 'a body that is too large [D38] [D49]', body: large, refusal: tooLarge };
  // An authorize without a body may say so. [D71]
  for (const text of ['[{}]', '"text"', ...(door.bodyIsOptional ? [] : ['null', '[]']), '7']) {
    yield { ...good, name: `${text} as a body`, body: text, refusal: invalid('body: expected object') };
  }
  for (const [fields, message] of bodies) {
    const said = JSON.stringify(fields, (_, value: unknown) => (value === undefined ? 'missing' : value)).slice(0, 80);
    yield { ...good, name: `${said} [D3]`, body: { ...body, ...fields }, refusal: invalid(message) };
  }
}

t.test('every door and method has its rows, and no row has an unknown door', async (t) => {
  t.same(Object.keys(doors).sort(), routes.map(({ method, path }) => `${method} ${path}`).sort());
  for (const [name, { body }] of Object.entries(doors)) {
    t.equal(body !== undefined, /^(PUT|PATCH|POST) /.test(name), `${name} has a body, or takes none`);
  }
});

const full = (path: string) => (path === '/versions' ? path : `/2.2.1${path.replace('{pending}', pending)}`);

async function refuseAll(t: Test, name: string, door: Door): Promise<void> {
  const [method = ''] = name.split(' ');
  const before = await footprint();
  let count = 0;
  for (const { name: what, path, refusal, token = null, headers = {}, body } of wrongs(method, door)) {
    const trace = { 'X-Request-ID': `request-${++count}`, 'X-Correlation-ID': `correlation-${count}` };
    const sent = { token, headers: { ...trace, ...headers }, ...(body !== undefined && { body }) };
    const answer = await ocpi(hub, method, full(path), sent);
    refused(t, answer, refusal, what);
    t.same(
      [answer.headers['x-request-id'], answer.headers['x-correlation-id']],
      [`request-${count}`, `correlation-${count}`],
      `${what}: both ids are echoed [D14]`,
    );
    t.equal(answer.headers['content-type'], 'application/json', `${what}: JSON`);
  }
  t.ok(count >= 5, `${count} rows`);
  t.same(await footprint(), before, 'nothing was recorded and nobody was called');
}

for (const [name, door] of Object.entries(doors)) {
  t.test(`${name} refuses what is wrong and changes nothing [interface, Errors] [D2] [D3] [D7] [D14]`, (t) =>
    refuseAll(t, name, door),
  );
}

t.test('the initial objects are still there and the doors still answer [D3]', async (t) => {
  const { cpo, emsp } = callers;
  const reads: [PlainPartner, string, object][] = [
    [cpo, '/locations/NL/CPO/LOC1', locationBody('LOC1')],
    [cpo, '/tariffs/NL/CPO/T1', tariffBody('T1')],
    [emsp, '/tokens/NL/EMS/CARD1', tokenBody('CARD1')],
    [cpo, '/sessions/NL/CPO/S1', sessionBody('S1')],
    [cpo, '/cdrs/C1', cdrBody('C1')],
  ];
  for (const [partner, path, body] of reads) {
    t.strictSame((await partner.call('GET', `/2.2.1${path}`)).json.data, body, path);
  }
  const before = await changesOf(hub);
  const right = await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { kwh: 2 }));
  t.equal(right.json.status_code, 1000);
  t.ok((await changesOf(hub)) > before, 'a right push does move the sequence');
  await hub.settled();
  t.equal(emsp.received.length, 5, 'and is delivered');
});
