/**
 * Objects of our own making that, taken together, use every field and every enumeration value of the OCPI 2.2.1 objects that
 * cross the hub. `objects.test.ts` holds them against `model.ts`, so that nothing is left out.
 *
 * F1  All belong to the CPO NL-CPO or the eMSP NL-EMS.
 * F2  Each text is written in a manner of its own: compact, indented, with longer numbers, with escapes. A hub that writes JSON
 *     anew is found out by any of them.
 */
import { type ClassName, type EnumName, valuesOf } from './model.ts';

export interface Fixture {
  readonly title: string;
  readonly className: ClassName;
  /** Its id; of a token its uid. */
  readonly id: string;
  /** Exactly the bytes to send. */
  readonly text: string;
}

const cpo = { country_code: 'NL', party_id: 'CPO' };
const emsp = { country_code: 'NL', party_id: 'EMS' };

// Ways to write the same JSON [F2]

type Writer = (value: object) => string;

const writers: readonly Writer[] = [
  (value) => JSON.stringify(value),
  (value) => JSON.stringify(value, null, 2),
  // 2.5 as 2.50, 7 as 7: what a price list looks like.
  (value) => JSON.stringify(value, null, 1).replace(/: (-?\d+\.\d)(?=[,\n])/g, ': $10'),
  (value) =>
    JSON.stringify(value)
      .replace(/[\u0080-\uffff]/g, escaped)
      .replaceAll('/', '\\/'),
  (value) => `\t${JSON.stringify(value, null, '\t').replaceAll('\n', '\r\n')}\n`,
];
const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

function fixtures(className: ClassName, idField: 'id' | 'uid', values: Record<string, object>): Fixture[] {
  return Object.entries(values).map(([title, value], index) => {
    const write = writers[index % writers.length] ?? JSON.stringify;
    return { title, className, id: String((value as Record<string, unknown>)[idField]), text: write(value) };
  });
}

/** One object for each value of an enumeration. */
function each<T>(name: EnumName, make: (value: string, index: number) => T): T[] {
  return valuesOf(name).map(make);
}

// Parts

const at = '2026-03-01T06:30:00Z';
const somewhere = { latitude: '52.379189', longitude: '4.899431' };
const inDutch = (text: string) => ({ language: 'nl', text });

const logo = {
  ...{ url: 'https://cdn.voltveld.example/logo.svg', thumbnail: 'https://cdn.voltveld.example/logo-klein.png' },
  ...{ category: 'OPERATOR', type: 'svg', width: 640, height: 480 },
};

const everyImage = each('ImageCategory', (category, index) => ({
  url: `https://cdn.voltveld.example/beeld/${index}.jpeg`,
  category,
  type: 'jpeg',
}));

const greenMix = { is_green_energy: true };

const fullMix = {
  is_green_energy: false,
  energy_sources: each('EnergySourceCategory', (source) => ({ source, percentage: 12.5 })),
  environ_impact: [
    { category: 'NUCLEAR_WASTE', amount: 0.0004 },
    { category: 'CARBON_DIOXIDE', amount: 241 },
  ],
  supplier_name: 'Stroomhuis Coöperatie',
  energy_product_name: 'Mengstroom Basis',
};

const noMix = { is_green_energy: true, energy_sources: [], environ_impact: null, supplier_name: null };

// Locations

function connector(id: string, fields: object = {}): object {
  return {
    ...{ id, standard: 'IEC_62196_T2', format: 'CABLE', power_type: 'AC_3_PHASE' },
    ...{ max_voltage: 230, max_amperage: 32, last_updated: at, ...fields },
  };
}

function evse(uid: string, fields: object = {}): object {
  return { uid, status: 'AVAILABLE', connectors: [connector('1')], last_updated: at, ...fields };
}

function location(id: string, fields: object = {}): object {
  return {
    ...{ ...cpo, id, publish: true, address: 'Havenkade 12-B', city: 'Zaandam', country: 'NLD' },
    ...{ coordinates: somewhere, time_zone: 'Europe/Amsterdam', last_updated: at, ...fields },
  };
}

const powerTypes = valuesOf('PowerType');
const everyPlug = each('ConnectorType', (standard, index) =>
  connector(String(index + 1), {
    standard,
    format: index % 2 === 0 ? 'SOCKET' : 'CABLE',
    power_type: powerTypes[index % powerTypes.length],
  }),
);

const fullEvse = evse('3F-7', {
  evse_id: 'NL*CPO*E3F7*1',
  status: 'RESERVED',
  status_schedule: [
    { period_begin: '2026-04-01T05:00:00Z', period_end: '2026-04-01T15:00:00Z', status: 'INOPERATIVE' },
    { period_begin: '2026-12-31T23:00:00', period_end: null, status: 'REMOVED' },
  ],
  capabilities: valuesOf('Capability'),
  connectors: [
    connector('A', {
      max_electric_power: 22_000,
      tariff_ids: ['DAG', 'NACHT'],
      terms_and_conditions: 'https://voltveld.example/voorwaarden?taal=nl&v=3',
    }),
  ],
  floor_level: '-2',
  coordinates: { latitude: '-33.868820', longitude: '-151.209290' },
  physical_reference: 'Rij C, plek 7',
  directions: [inDutch('Bij de slagboom rechts')],
  parking_restrictions: valuesOf('ParkingRestriction'),
  images: everyImage,
});

const shopHours = {
  twentyfourseven: false,
  regular_hours: [1, 2, 3, 4, 5, 6, 7].map((weekday) => ({ weekday, period_begin: '06:45', period_end: '23:15' })),
  exceptional_openings: [{ period_begin: '2026-12-24T23:15:00Z', period_end: '2026-12-25T01:00:00Z' }],
  exceptional_closings: [{ period_begin: '2026-04-27T00:00:00Z', period_end: '2026-04-28T00:00:00Z' }],
};

export const locations: readonly Fixture[] = fixtures('Location', 'id', {
  'the least a location can be': location('LEAST'),
  'a location with every field': location('FULL', {
    publish_allowed_to: [],
    name: 'Parkeergarage "De Óostpunt" – laag ½',
    ...{ postal_code: '1506 AB', state: 'Noord-Holland', parking_type: 'UNDERGROUND_GARAGE' },
    related_locations: [{ ...somewhere, name: inDutch('Ingang voetgangers') }, { ...somewhere }],
    evses: [fullEvse],
    directions: [inDutch('Volg de gele borden'), { language: 'el', text: 'Ακολουθήστε τις κίτρινες πινακίδες ⚡' }],
    operator: { name: 'Voltveld', website: 'https://voltveld.example', logo },
    ...{ suboperator: { name: 'Voltveld Noord' }, owner: { name: 'Gemeente Zaanstad' } },
    facilities: valuesOf('Facility'),
    ...{ opening_times: shopHours, charging_when_closed: false, images: [logo], energy_mix: fullMix },
  }),
  'a location with every connector': location('PLUGS', { evses: [evse('ALL', { connectors: everyPlug })] }),
  'EVSEs of every status': location('STATES', { evses: each('Status', (status) => evse(`S-${status}`, { status })) }),
  'nulls wherever a field may be absent': location('NULLS', {
    ...{ publish_allowed_to: null, name: null, postal_code: null, state: null, related_locations: null },
    ...{ parking_type: null, directions: null, operator: null, suboperator: null, owner: null, facilities: null },
    ...{ opening_times: null, charging_when_closed: null, images: null, energy_mix: null },
    evses: [
      evse('N', {
        ...{ evse_id: null, status_schedule: null, capabilities: null, floor_level: null, coordinates: null },
        ...{ physical_reference: null, directions: null, parking_restrictions: null, images: null },
        connectors: [connector('N', { max_electric_power: null, tariff_ids: null, terms_and_conditions: null })],
      }),
    ],
  }),
  'empty lists wherever a list may be empty': location('EMPTY', {
    ...{ related_locations: [], directions: [], facilities: [], images: [] },
    evses: [
      evse('E', {
        ...{ status_schedule: [], capabilities: [], directions: [], parking_restrictions: [], images: [] },
        connectors: [connector('E', { tariff_ids: [] })],
      }),
    ],
    opening_times: { twentyfourseven: true, regular_hours: [], exceptional_openings: [], exceptional_closings: [] },
    energy_mix: noMix,
  }),
  'no EVSEs yet': location('BARE', { evses: [] }),
  'no EVSEs at all': location('NONE', { evses: null }),
  'always open, but for an exception': location('ALWAYS', {
    opening_times: { twentyfourseven: true, exceptional_closings: shopHours.exceptional_closings },
    energy_mix: greenMix,
  }),
  ...Object.fromEntries(
    each('ParkingType', (parking_type) => [
      `parking of type ${parking_type}`,
      location(`P-${parking_type}`, { parking_type }),
    ]),
  ),
  'ids of 36 characters': location('7d9f5d2e-4c1b-4d1a-9b7e-0a1b2c3d4e5f', {
    evses: [
      evse('c0ffee00-0000-4000-8000-000000000001', { connectors: [connector('c0ffee00-0000-4000-8000-00000000000a')] }),
    ],
  }),
  'an id that a path has to escape': location('Hal 4/oost? #2+50%'),
  'fields that OCPI does not know': location('MORE', {
    ...{ vendor_extension: { 'a b': [1, 2.5, { deep: null }] }, _version: 1e21, emoji: '🔌' },
    evses: [evse('X', { max_power_kw: 11.04 })],
  }),
});

/** Stored, and read back by their owner alone. [interface, Locations: publish] */
export const unpublishedLocations: readonly Fixture[] = fixtures('Location', 'id', {
  'not published': location('HOME', { publish: false, evses: [evse('HOME-1')] }),
  'published to some tokens': location('CLUB', {
    publish: false,
    publish_allowed_to: [
      { uid: '04A1B2C3D4E5', type: 'RFID', issuer: 'Laadpas Oost' },
      { visual_number: 'LP-0042-7', issuer: 'Laadpas Oost' },
      { group_id: 'VLOOT-9' },
    ],
  }),
});

export const evses: readonly Fixture[] = fixtures('EVSE', 'uid', {
  'an EVSE with every field': fullEvse,
  'the least an EVSE can be': evse('3F-8'),
});

export const connectors: readonly Fixture[] = fixtures('Connector', 'id', {
  'a connector of its own': connector('B', { standard: 'CHADEMO', power_type: 'DC', max_electric_power: 50_000 }),
  'the least a connector can be': connector('C'),
});

// Tariffs

function tariff(id: string, elements: object[], fields: object = {}): object {
  return { ...cpo, id, currency: 'EUR', elements, last_updated: at, ...fields };
}
const component = (type: string, price: number, step_size: number, fields: object = {}) => ({
  ...{ type, price, step_size, ...fields },
});

export const tariffs: readonly Fixture[] = fixtures('Tariff', 'id', {
  'the least a tariff can be': tariff('T-LEAST', [{ price_components: [component('ENERGY', 0.4, 1)] }]),
  'free of charge': tariff('T-FREE', [{ price_components: [component('FLAT', 0, 0)] }]),
  'every dimension at once': tariff('T-ALL', [
    { price_components: each('TariffDimensionType', (type, index) => component(type, 0.5 * index, 60, { vat: 21.0 })) },
  ]),
  'every restriction': tariff('T-WHEN', [
    {
      price_components: [component('TIME', 3.5, 900, { vat: 9.0 })],
      restrictions: {
        ...{ start_time: '22:30', end_time: '06:15', start_date: '2026-06-01', end_date: '2026-09-01' },
        ...{ min_kwh: 0.5, max_kwh: 60, min_current: 6.1, max_current: 32, min_power: 3.7, max_power: 22 },
        ...{ min_duration: 0, max_duration: 7200, day_of_week: valuesOf('DayOfWeek') },
      },
    },
    { price_components: [component('ENERGY', 0.25, 100)], restrictions: {} },
  ]),
  'reservations, used and expired': tariff('T-HOLD', [
    { price_components: [component('TIME', 4.8, 60)], restrictions: { reservation: 'RESERVATION' } },
    { price_components: [component('FLAT', 7.5, 1)], restrictions: { reservation: 'RESERVATION_EXPIRES' } },
    { price_components: [component('ENERGY', 0.31, 1)] },
  ]),
  'texts, bounds, validity and mix': tariff('T-RICH', [{ price_components: [component('ENERGY', 0.5, 1)] }], {
    tariff_alt_text: [inDutch('€ 0,50 per kWh, minimaal € 1'), { language: 'fr', text: '0,50 € par kWh' }],
    tariff_alt_url: 'https://voltveld.example/tarieven/rich',
    ...{ min_price: { excl_vat: 1.0 }, max_price: { excl_vat: 40.5, incl_vat: 49.005 } },
    ...{ start_date_time: '2026-01-01T00:00:00', end_date_time: '2026-12-31T22:59:59.5Z', energy_mix: fullMix },
  }),
  ...Object.fromEntries(
    each('TariffType', (type) => [
      `of type ${type}`,
      tariff(`T-${type}`, [{ price_components: [component('FLAT', 1.5, 1)] }], { type }),
    ]),
  ),
  'nulls wherever a field may be absent': tariff(
    'T-NULLS',
    [{ price_components: [component('FLAT', 1, 1, { vat: null })], restrictions: null }],
    {
      ...{ type: null, tariff_alt_text: null, tariff_alt_url: null, min_price: null, max_price: null },
      ...{ start_date_time: null, end_date_time: null, energy_mix: null },
    },
  ),
  'empty lists wherever a list may be empty': tariff(
    'T-EMPTY',
    [{ price_components: [component('FLAT', 1, 1)], restrictions: { day_of_week: [] } }],
    { tariff_alt_text: [], energy_mix: noMix },
  ),
});

// Tokens

function token(uid: string, fields: object = {}): object {
  return {
    ...{ ...emsp, uid, type: 'RFID', contract_id: 'NL-EMS-C00042-7', issuer: 'Rijstroom' },
    ...{ valid: true, whitelist: 'ALLOWED', last_updated: at, ...fields },
  };
}

export const tokens: readonly Fixture[] = fixtures('Token', 'uid', {
  'the least a token can be': token('04B6C7D8'),
  'a token with every field': token('04C1D2E3F4A5B6', {
    ...{ visual_number: 'RS 0001 2042 – A', group_id: 'VLOOT-9', language: 'nl', default_profile_type: 'GREEN' },
    energy_contract: { supplier_name: 'Stroomhuis Coöperatie', contract_id: 'SH/2026/88' },
  }),
  'an energy contract without its id': token('04C9', { energy_contract: { supplier_name: 'Stroomhuis' } }),
  'nulls wherever a field may be absent': token('04CA', {
    ...{ visual_number: null, group_id: null, language: null, default_profile_type: null, energy_contract: null },
  }),
  'no longer valid': token('04CB', { valid: false, whitelist: 'NEVER' }),
  'a uid of 36 characters': token('5b0c1d2e-3f40-4151-8263-748596a7b8c9', { type: 'APP_USER' }),
  ...Object.fromEntries(each('TokenType', (type) => [`of type ${type}`, token('04D0', { type })])),
  ...Object.fromEntries(
    each('WhitelistType', (whitelist) => [`whitelist ${whitelist}`, token(`W-${whitelist}`, { whitelist })]),
  ),
  ...Object.fromEntries(
    each('ProfileType', (profile) => [`profile ${profile}`, token(`D-${profile}`, { default_profile_type: profile })]),
  ),
});

// Sessions and CDRs

const cdrToken = { ...emsp, uid: '04C1D2E3F4A5B6', type: 'RFID', contract_id: 'NL-EMS-C00042-7' };

const everyDimension = each('CdrDimensionType', (type, index) => ({
  start_date_time: `2026-03-01T07:${String(10 + index)}:00Z`,
  dimensions: [{ type, volume: 0.25 * index }],
}));

function session(id: string, fields: object = {}): object {
  return {
    ...{ ...cpo, id, start_date_time: '2026-03-01T07:00:00Z', kwh: 0, cdr_token: cdrToken },
    ...{ auth_method: 'WHITELIST', location_id: 'FULL', evse_uid: '3F-7', connector_id: 'A', currency: 'EUR' },
    ...{ status: 'ACTIVE', last_updated: at, ...fields },
  };
}

export const sessions: readonly Fixture[] = fixtures('Session', 'id', {
  'the least a session can be': session('S-LEAST'),
  'a session with every field': session('S-FULL', {
    ...{ end_date_time: '2026-03-01T09:41:12.75Z', kwh: 31.4159, auth_method: 'AUTH_REQUEST' },
    ...{ authorization_reference: 'AUTH-2026-000017', meter_id: 'MID 88-A/3', status: 'COMPLETED' },
    charging_periods: everyDimension.map((period) => ({ ...period, tariff_id: 'T-ALL' })),
    total_cost: { excl_vat: 12.5, incl_vat: 15.125 },
  }),
  ...Object.fromEntries(each('SessionStatus', (status) => [`status ${status}`, session(`S-${status}`, { status })])),
  ...Object.fromEntries(
    each('AuthMethod', (auth_method) => [`authorized by ${auth_method}`, session(`A-${auth_method}`, { auth_method })]),
  ),
  'nulls wherever a field may be absent': session('S-NULLS', {
    ...{ end_date_time: null, authorization_reference: null, meter_id: null, charging_periods: null, total_cost: null },
  }),
  'no charging periods yet': session('S-EMPTY', { charging_periods: [], total_cost: { excl_vat: 0, incl_vat: null } }),
  'reserved, nowhere in particular': session('S-HOLD', {
    ...{ status: 'RESERVATION', evse_uid: '#NA', connector_id: '#NA', cdr_token: { ...cdrToken, type: 'APP_USER' } },
  }),
  'an id of 36 characters': session('0f1e2d3c-4b5a-4968-8776-655443322110'),
});

function cdr(id: string, fields: object = {}): object {
  return {
    ...{ ...cpo, id, start_date_time: '2026-03-01T07:00:00Z', end_date_time: '2026-03-01T09:41:12Z' },
    ...{ cdr_token: cdrToken, auth_method: 'COMMAND', cdr_location: cdrLocation(), currency: 'EUR' },
    charging_periods: [{ start_date_time: '2026-03-01T07:00:00Z', dimensions: [{ type: 'TIME', volume: 2.6867 }] }],
    ...{ total_cost: { excl_vat: 12.5 }, total_energy: 31.4159, total_time: 2.6867, last_updated: at, ...fields },
  };
}

function cdrLocation(fields: object = {}): object {
  return {
    ...{ id: 'FULL', address: 'Havenkade 12-B', city: 'Zaandam', country: 'NLD', coordinates: somewhere },
    ...{ evse_uid: '3F-7', evse_id: 'NL*CPO*E3F7*1', connector_id: 'A', connector_standard: 'IEC_62196_T2' },
    ...{ connector_format: 'CABLE', connector_power_type: 'AC_3_PHASE', ...fields },
  };
}

const money = (excl_vat: number) => ({ excl_vat, incl_vat: Number((excl_vat * 1.21).toFixed(4)) });
const id39 = 'CDR-2026-03-01-00000000000000000001-CRD';

export const cdrs: readonly Fixture[] = fixtures('CDR', 'id', {
  'the least a CDR can be': cdr('C-LEAST'),
  'a CDR with every field': cdr('C-FULL', {
    ...{ session_id: 'S-FULL', auth_method: 'AUTH_REQUEST', authorization_reference: 'AUTH-2026-000017' },
    cdr_location: cdrLocation({ name: 'De Óostpunt', postal_code: '1506 AB', state: 'Noord-Holland' }),
    ...{
      meter_id: 'MID 88-A/3',
      charging_periods: everyDimension.map((period) => ({ ...period, tariff_id: 'T-ALL' })),
    },
    tariffs: [
      tariff('T-ALL', [{ price_components: [component('ENERGY', 0.39, 1, { vat: 21 })] }]),
      tariff('T-HOLD', [
        { price_components: [component('TIME', 4.8, 60)], restrictions: { reservation: 'RESERVATION' } },
      ]),
    ],
    signed_data: {
      ...{ encoding_method: 'OCMF', encoding_method_version: 1, public_key: 'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE' },
      signed_values: ['Start', 'Intermediate', 'End'].map((nature) => {
        return { nature, plain_data: `{"FV":"1.0","RD":"${nature}"}`, signed_data: 'T0NNRnx7fXx7fQ=='.repeat(200) };
      }),
      url: 'https://controle.voltveld.example/C-FULL',
    },
    ...{ total_cost: money(12.5), total_fixed_cost: money(0.5), total_energy_cost: money(9.25) },
    ...{ total_time_cost: money(1.5), total_parking_time: 0.75, total_parking_cost: money(1) },
    ...{ total_reservation_cost: money(0.25), remark: 'Slagboom stond open; parkeren niet berekend.' },
    ...{ invoice_reference_id: 'F2026-000000000000000000000000000004711', credit: false },
    home_charging_compensation: false,
  }),
  'a credit CDR with an id of 39 characters': cdr(id39, {
    ...{ credit: true, credit_reference_id: 'C-FULL', total_cost: money(-12.5), total_energy: -31.4159 },
    ...{ total_time: -2.6867, total_energy_cost: money(-9.25), invoice_reference_id: null },
  }),
  'charging at home, compensated': cdr('C-HOME', { home_charging_compensation: true, total_cost: { excl_vat: 0 } }),
  'free of charge, with its free tariff': cdr('C-FREE', {
    ...{ tariffs: [tariff('T-FREE', [{ price_components: [component('FLAT', 0, 0)] }])], total_cost: money(0) },
  }),
  'a reservation that was never used': cdr('C-HOLD', {
    charging_periods: [
      { start_date_time: '2026-03-01T07:00:00Z', dimensions: [{ type: 'RESERVATION_TIME', volume: 0.5 }] },
    ],
    cdr_location: cdrLocation({ evse_uid: '#NA', evse_id: '#NA', connector_id: '#NA' }),
    ...{ total_energy: 0, total_time: 0, total_reservation_cost: money(2.4), session_id: null },
  }),
  'nulls wherever a field may be absent': cdr('C-NULLS', {
    ...{ session_id: null, authorization_reference: null, meter_id: null, tariffs: null, signed_data: null },
    ...{ total_fixed_cost: null, total_energy_cost: null, total_time_cost: null, total_parking_time: null },
    ...{ total_parking_cost: null, total_reservation_cost: null, remark: null, invoice_reference_id: null },
    ...{ credit: null, credit_reference_id: null, home_charging_compensation: null },
    cdr_location: cdrLocation({ name: null, postal_code: null, state: null }),
  }),
  'no tariffs': cdr('C-EMPTY', { tariffs: [] }),
});

// Dates

/** Every form in which the specification lets a date be written. */
export const dates = [
  '2026-03-02T10:00:00Z',
  '2026-03-02T10:00:00',
  '2026-03-02T10:00:00.5Z',
  '2026-03-02T10:00:00.5',
  '2026-03-02T10:00:00.123Z',
  '2026-03-02T10:00:00.1234',
  '2028-02-29T23:59:59.9999Z',
];

export const dated: readonly Fixture[] = fixtures(
  'Tariff',
  'id',
  Object.fromEntries(
    dates.map((date, index) => [
      `dated ${date}`,
      tariff(`DATE-${index}`, [{ price_components: [component('FLAT', 1, 1)] }], {
        ...{ start_date_time: date, end_date_time: date, last_updated: date },
      }),
    ]),
  ),
);

// Answers that pass through the hub

const spoken = [inDutch('Even geduld'), { language: 'en', text: 'One moment' }];
const fullToken = token('04C1D2E3F4A5B6');

export const authorizations: readonly object[] = each('AllowedType', (allowed, index) => ({
  ...{ allowed, token: fullToken },
  ...(index % 2 === 0 && {
    location: { location_id: 'FULL', evse_uids: ['3F-7'] },
    ...{ authorization_reference: `AUTH-${index}`, info: inDutch(`Antwoord ${allowed}`) },
  }),
}));

export const locationReferences: readonly object[] = [
  { location_id: 'FULL' },
  { location_id: 'FULL', evse_uids: [] },
  { location_id: 'FULL', evse_uids: ['3F-7', '3F-8'] },
];

/** CommandResponse of the CPO, by what it does with `message`. */
export const commandResponses: readonly object[] = each('CommandResponseType', (result, index) => ({
  ...{ result, timeout: 20 + index },
  ...[{ message: spoken }, {}, { message: [] }, { message: null }][index],
}));

export const commandResults: readonly object[] = each('CommandResultType', (result, index) => ({
  ...{ result },
  ...[{ message: spoken }, {}, { message: [] }][index % 3],
}));

export const commandBodies: readonly { command: string; className: ClassName; body: object }[] = [
  { command: 'START_SESSION', className: 'StartSession', body: { token: fullToken, location_id: 'FULL' } },
  {
    command: 'START_SESSION',
    className: 'StartSession',
    body: {
      ...{ token: fullToken, location_id: 'FULL', evse_uid: '3F-7', connector_id: 'A' },
      authorization_reference: 'AUTH-2026-000018',
    },
  },
  {
    command: 'RESERVE_NOW',
    className: 'ReserveNow',
    body: { token: fullToken, expiry_date: '2030-01-01T00:00:00.5', reservation_id: 'R-1', location_id: 'FULL' },
  },
  {
    command: 'RESERVE_NOW',
    className: 'ReserveNow',
    body: {
      ...{ token: fullToken, expiry_date: '2030-01-01T00:00:00Z', reservation_id: 'R-2', location_id: 'FULL' },
      ...{ evse_uid: '3F-7', authorization_reference: 'AUTH-2026-000019' },
    },
  },
  { command: 'CANCEL_RESERVATION', className: 'CancelReservation', body: { reservation_id: 'R-2' } },
  {
    command: 'UNLOCK_CONNECTOR',
    className: 'UnlockConnector',
    body: { location_id: 'FULL', evse_uid: '3F-7', connector_id: 'A' },
  },
  { command: 'STOP_SESSION', className: 'StopSession', body: { session_id: 'S-LEAST' } },
];

// Fragments

export interface Fragment {
  readonly title: string;
  readonly className: ClassName;
  readonly text: string;
}

export const evseFragments: readonly Fragment[] = [
  { title: 'a status', className: 'EVSE', text: '{"status":"CHARGING", "last_updated":"2026-03-03T08:00:00Z"}' },
  {
    title: 'removed for good',
    className: 'EVSE',
    text: '{ "last_updated": "2026-03-03T08:00:01", "status": "REMOVED", "status_schedule": [ ] }',
  },
];

export const connectorFragments: readonly Fragment[] = [
  {
    title: 'tariffs',
    className: 'Connector',
    text: '{"tariff_ids":["WEEKEND"],"last_updated":"2026-03-03T08:00:02Z"}',
  },
];

export const locationFragments: readonly Fragment[] = [
  {
    title: 'a name',
    className: 'Location',
    text: '{"name":"De \\u00d3ostpunt","last_updated":"2026-03-03T08:00:03.25Z"}',
  },
  {
    title: 'opening times taken back',
    className: 'Location',
    text: '{"opening_times" :null,"facilities":["WIFI"],\r\n"last_updated":"2026-03-03T08:00:04Z"}',
  },
];

export const sessionFragments: readonly Fragment[] = [
  {
    title: 'costs',
    className: 'Session',
    text: '{"total_cost":{"excl_vat":1.00},"kwh":2.50,"last_updated":"2026-03-03T08:00:05Z"}',
  },
  {
    title: 'a period to append',
    className: 'Session',
    text:
      '{"charging_periods":[{"start_date_time":"2026-03-03T08:00:00Z","dimensions":[{"type":"ENERGY","volume":1.10}]}],' +
      '"last_updated":"2026-03-03T08:00:06Z"}',
  },
];

export const tokenFragments: readonly Fragment[] = [
  { title: 'blocked', className: 'Token', text: '{"valid":false,"last_updated":"2026-03-03T08:00:07Z"}' },
];
