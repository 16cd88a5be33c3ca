/**
 * The OCPI objects of the simulated partners: plausible charging stations with the tariffs, drivers' tokens, sessions
 * and CDRs that go with them. All of it is invented.
 */
import { randomUUID } from 'node:crypto';
import type { PartyName } from './hub-line.ts';

export type Location = ReturnType<typeof newLocation>;
export type Tariff = ReturnType<typeof newTariff>;
export type Token = ReturnType<typeof newToken>;

export interface CdrToken extends PartyName {
  uid: string;
  type: string;
  contract_id: string;
}

export interface Session extends PartyName {
  id: string;
  start_date_time: string;
  end_date_time?: string;
  kwh: number;
  cdr_token: CdrToken;
  auth_method: string;
  authorization_reference?: string;
  location_id: string;
  evse_uid: string;
  connector_id: string;
  currency: string;
  charging_periods: { start_date_time: string; dimensions: { type: string; volume: number }[] }[];
  status: string;
  last_updated: string;
  [field: string]: unknown;
}

const name = ({ country_code, party_id }: PartyName): PartyName => ({ country_code, party_id });

/** A new random id; the prefix names the kind of object. */
const newId = (prefix: string) => `${prefix}-${randomUUID().slice(0, 13)}`;

const priceOfEnergy = 0.49;
const priceOfStart = 0.35;

export function newTariff(party: PartyName, at: string) {
  return {
    ...name(party),
    id: newId('TARIFF'),
    currency: 'EUR',
    type: 'REGULAR',
    tariff_alt_text: [{ language: 'en', text: 'Charging by the kilowatt-hour, with a small amount for the start' }],
    elements: [
      {
        price_components: [
          { type: 'ENERGY', price: priceOfEnergy, vat: 21, step_size: 1 },
          { type: 'FLAT', price: priceOfStart, vat: 21, step_size: 1 },
        ],
      },
    ],
    last_updated: at,
  };
}

/** A location with two EVSEs at the site `index`, modulo the number of sites. */
export function newLocation(party: PartyName, at: string, tariffId: string, index: number) {
  const id = newId('LOC');
  const site = sites[index % sites.length] as Site;
  const { plug, ...place } = site;
  const evse = (number: number) => ({
    uid: `${id}-${number}`,
    evse_id: `${party.country_code}*${party.party_id}*E${id.slice(-4).toUpperCase()}*${number}`,
    status: 'AVAILABLE',
    capabilities: ['REMOTE_START_STOP_CAPABLE', 'RFID_READER', 'RESERVABLE', 'UNLOCK_CAPABLE'],
    physical_reference: `${number}`,
    connectors: [{ id: '1', ...plug, tariff_ids: [tariffId], last_updated: at }],
    last_updated: at,
  });
  return {
    ...name(party),
    id,
    publish: true,
    ...place,
    operator: { name: `Charging of ${party.country_code}-${party.party_id}` },
    opening_times: { twentyfourseven: true },
    evses: [evse(1), evse(2)],
    last_updated: at,
  };
}

export function newToken({ country_code, party_id }: PartyName, at: string) {
  const uid = randomUUID().replaceAll('-', '').slice(0, 14).toUpperCase();
  return {
    country_code,
    party_id,
    uid,
    type: 'RFID',
    contract_id: `${country_code}-${party_id}-C${uid.slice(0, 8)}`,
    issuer: `Drivers of ${country_code}-${party_id}`,
    valid: true,
    whitelist: 'ALLOWED',
    language: 'en',
    last_updated: at,
  };
}

export function newSession(
  party: PartyName,
  at: string,
  token: CdrToken,
  location: Location,
  evseUid?: string,
): Session {
  const evse = location.evses.find(({ uid }) => uid === evseUid) ?? location.evses[0];
  const { country_code, party_id, uid, type, contract_id } = token;
  return {
    ...name(party),
    id: newId('SES'),
    start_date_time: at,
    kwh: 0,
    cdr_token: { country_code, party_id, uid, type, contract_id },
    auth_method: 'COMMAND',
    location_id: location.id,
    evse_uid: evse?.uid ?? '1',
    connector_id: evse?.connectors[0]?.id ?? '1',
    currency: 'EUR',
    charging_periods: [],
    status: 'PENDING',
    last_updated: at,
  };
}

const rounded = (amount: number) => Math.round(amount * 10_000) / 10_000;

/** The CDR of a completed session. Amounts in euro, `total_time` in hours. */
export function newCdr(session: Session, location: Location, tariff: Tariff, at: string) {
  const evse = location.evses.find(({ uid }) => uid === session.evse_uid);
  const connector = evse?.connectors.find(({ id }) => id === session.connector_id);
  const end = session.end_date_time ?? at;
  const hours = (Date.parse(end) - Date.parse(session.start_date_time)) / 3_600_000;
  const cost = rounded(session.kwh * priceOfEnergy + priceOfStart);
  return {
    ...name(session),
    id: newId('CDR'),
    start_date_time: session.start_date_time,
    end_date_time: end,
    session_id: session.id,
    cdr_token: session.cdr_token,
    auth_method: session.auth_method,
    ...(session.authorization_reference ? { authorization_reference: session.authorization_reference } : {}),
    cdr_location: {
      id: location.id,
      name: location.name,
      address: location.address,
      city: location.city,
      country: location.country,
      coordinates: location.coordinates,
      evse_uid: session.evse_uid,
      evse_id: evse?.evse_id ?? '#NA',
      connector_id: session.connector_id,
      connector_standard: connector?.standard ?? 'IEC_62196_T2',
      connector_format: connector?.format ?? 'SOCKET',
      connector_power_type: connector?.power_type ?? 'AC_3_PHASE',
    },
    currency: session.currency,
    tariffs: [tariff],
    charging_periods: session.charging_periods.length > 0 ? session.charging_periods : [wholePeriod(session)],
    total_cost: { excl_vat: cost, incl_vat: rounded(cost * 1.21) },
    total_energy: session.kwh,
    total_time: rounded(hours),
    last_updated: at,
  };
}

/** OCPI wants at least one period of a CDR. [mod_cdrs, CDR] */
const wholePeriod = ({ start_date_time, kwh }: Session) => ({
  start_date_time,
  dimensions: [{ type: 'ENERGY', volume: kwh }],
});

export type Cdr = ReturnType<typeof newCdr>;

// Sites of the simulated CPO's stations. Plausible and invented.

const alternating = {
  standard: 'IEC_62196_T2',
  format: 'SOCKET',
  power_type: 'AC_3_PHASE',
  max_voltage: 230,
  max_amperage: 32,
};
const direct = {
  standard: 'IEC_62196_T2_COMBO',
  format: 'CABLE',
  power_type: 'DC',
  max_voltage: 920,
  max_amperage: 300,
};

export const sites = [
  {
    name: 'Laadplein De Oude Werf',
    address: 'Werfkade 14',
    city: 'Utrecht',
    postal_code: '3526 KL',
    country: 'NLD',
    time_zone: 'Europe/Amsterdam',
    coordinates: { latitude: '52.081540', longitude: '5.102310' },
    parking_type: 'ON_STREET',
    plug: alternating,
  },
  {
    name: 'Ladepark Nordheide',
    address: 'An der Autobahn 3',
    city: 'Buchholz in der Nordheide',
    postal_code: '21244',
    country: 'DEU',
    time_zone: 'Europe/Berlin',
    coordinates: { latitude: '53.327810', longitude: '9.868220' },
    parking_type: 'ALONG_MOTORWAY',
    plug: direct,
  },
  {
    name: 'Parkeergarage Lindeplein',
    address: 'Lindeplein 2',
    city: 'Groningen',
    postal_code: '9711 LV',
    country: 'NLD',
    time_zone: 'Europe/Amsterdam',
    coordinates: { latitude: '53.219060', longitude: '6.566990' },
    parking_type: 'PARKING_GARAGE',
    plug: alternating,
  },
  {
    name: 'Marktgarage Süd',
    address: 'Färbergasse 9',
    city: 'Freiburg im Breisgau',
    postal_code: '79098',
    country: 'DEU',
    time_zone: 'Europe/Berlin',
    coordinates: { latitude: '47.994630', longitude: '7.849270' },
    parking_type: 'UNDERGROUND_GARAGE',
    plug: direct,
  },
  {
    name: 'Snellaadstation Kempen-Oost',
    address: 'Ringweg 201',
    city: 'Turnhout',
    postal_code: '2300',
    country: 'BEL',
    time_zone: 'Europe/Brussels',
    coordinates: { latitude: '51.321980', longitude: '4.948310' },
    parking_type: 'ON_DRIVEWAY',
    plug: direct,
  },
];

export type Site = (typeof sites)[number];
