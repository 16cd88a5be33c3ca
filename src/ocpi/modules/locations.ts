/**
 * The Locations module, with three levels: location, EVSEs, connectors. CPOs push, eMSPs pull. [interface, Locations]
 *
 * Two forms of GET share one path. One or two segments are the sender's form (`location[/evse]`), for eMSPs only. From
 * three segments on, the caller's role distinguishes the sender's form from the receiver's
 * (`country_code/party_id/location[/evse[/connector]]`). [D20, D47]
 */
import { HubError } from '../../domain/errors.ts';
import { modules } from '../../domain/modules.ts';
import { keyOf, type PartyId } from '../../domain/party.ts';
import type { Hub } from '../../hub/ports/hub.ts';
import {
  businessDetails,
  connectorFormat,
  connectorType,
  displayText,
  energyMix,
  geoLocation,
  image,
  powerType,
  tokenType,
} from '../../transport/shapes.ts';
import {
  anyOf,
  type Checked,
  ciString,
  dateTime,
  flag,
  fragment,
  identifier,
  integer,
  link,
  list,
  may,
  must,
  object,
  should,
  text,
} from '../../transport/types.ts';
import { emsp, owningCpo, owningCpoOrEmsp, pathParty } from '../caller.ts';
import {
  accept,
  answerObject,
  checkedBody,
  checkedPatch,
  listRoute,
  pathId,
  sameIds,
  wholeObject,
} from '../objects.ts';
import { type Answer, done, type Exchange, type OcpiModule, type OcpiRoute, version } from '../route.ts';

const connectorFields = {
  standard: should(connectorType),
  format: should(anyOf(...connectorFormat)),
  power_type: should(anyOf(...powerType)),
  max_voltage: should(integer),
  max_amperage: should(integer),
  max_electric_power: may(integer),
  tariff_ids: may(list(ciString(36))),
  terms_and_conditions: may(link),
} as const;

const status = anyOf(
  'AVAILABLE',
  'BLOCKED',
  'CHARGING',
  'INOPERATIVE',
  'OUTOFORDER',
  'PLANNED',
  'REMOVED',
  'RESERVED',
  'UNKNOWN',
);

const capability = anyOf(
  'CHARGING_PREFERENCES_CAPABLE',
  'CHARGING_PROFILE_CAPABLE',
  'CHIP_CARD_SUPPORT',
  'CONTACTLESS_CARD_SUPPORT',
  'CREDIT_CARD_PAYABLE',
  'DEBIT_CARD_PAYABLE',
  'PED_TERMINAL',
  'REMOTE_START_STOP_CAPABLE',
  'RESERVABLE',
  'RFID_READER',
  'START_SESSION_CONNECTOR_REQUIRED',
  'TOKEN_GROUP_CAPABLE',
  'UNLOCK_CAPABLE',
);

const evseFields = {
  evse_id: may(ciString(48)),
  status: should(status),
  status_schedule: may(
    list(object({ period_begin: should(dateTime), period_end: may(dateTime), status: should(status) })),
  ),
  capabilities: may(list(capability)),
  connectors: should(list(object({ id: must(identifier(36)), ...connectorFields, last_updated: should(dateTime) }))),
  floor_level: may(text(4)),
  coordinates: may(geoLocation),
  physical_reference: may(text(16)),
  directions: may(list(displayText)),
  parking_restrictions: may(list(anyOf('CUSTOMERS', 'DISABLED', 'EV_ONLY', 'MOTORCYCLES', 'PLUGGED'))),
  images: may(list(image)),
} as const;

const facility = anyOf(
  ...['AIRPORT', 'BIKE_SHARING', 'BUS_STOP', 'CAFE', 'CARPOOL_PARKING', 'FUEL_STATION', 'HOTEL', 'MALL'],
  ...['METRO_STATION', 'MUSEUM', 'NATURE', 'PARKING_LOT', 'RECREATION_AREA', 'RESTAURANT', 'SPORT', 'SUPERMARKET'],
  ...['TAXI_STAND', 'TRAIN_STATION', 'TRAM_STOP', 'WIFI'],
);

const period = object({ period_begin: should(dateTime), period_end: should(dateTime) });

const hours = object({
  twentyfourseven: should(flag),
  regular_hours: may(
    list(object({ weekday: should(integer), period_begin: should(text(5)), period_end: should(text(5)) })),
  ),
  exceptional_openings: may(list(period)),
  exceptional_closings: may(list(period)),
});

const location = object({
  country_code: must(identifier(2)),
  party_id: must(identifier(3)),
  id: must(identifier(36)),
  publish: must(flag),
  publish_allowed_to: may(
    list(
      object({
        uid: may(ciString(36)),
        type: may(tokenType),
        visual_number: may(text(64)),
        issuer: may(text(64)),
        group_id: may(ciString(36)),
      }),
    ),
  ),
  name: may(text(255)),
  address: should(text(255)),
  city: should(text(45)),
  postal_code: may(text(10)),
  state: may(text(45)),
  country: should(text(3)),
  coordinates: should(geoLocation),
  related_locations: may(list(object({ ...geoLocation.shape, name: may(displayText) }))),
  parking_type: may(
    anyOf('ALONG_MOTORWAY', 'ON_DRIVEWAY', 'ON_STREET', 'PARKING_GARAGE', 'PARKING_LOT', 'UNDERGROUND_GARAGE'),
  ),
  evses: may(list(object({ uid: must(identifier(36)), ...evseFields, last_updated: should(dateTime) }))),
  directions: may(list(displayText)),
  operator: may(businessDetails),
  suboperator: may(businessDetails),
  owner: may(businessDetails),
  facilities: may(list(facility)),
  time_zone: should(text(255)),
  opening_times: may(hours),
  charging_when_closed: may(flag),
  images: may(list(image)),
  energy_mix: may(energyMix),
  last_updated: must(dateTime),
});

// An EVSE or connector that is pushed on its own has its id in the path, so an id missing in the body is only noted.
const evse = object({ uid: should(identifier(36)), ...evseFields, last_updated: must(dateTime) });
const connector = object({ id: should(identifier(36)), ...connectorFields, last_updated: must(dateTime) });

type Pushed = Checked<{ last_updated: string; publish?: boolean | null | undefined }>;

interface Level {
  readonly path: string;
  readonly whole: Pushed;
  readonly fragment: Pushed;
  /** Path parameters below the location. */
  readonly within: readonly string[];
  /** The id field of the body, and the path parameter that it must equal. */
  readonly id: readonly [field: string, inPath: string];
}

const all = `/${version}/locations`;
const one = `${all}/:country_code/:party_id/:id`;

const levels: readonly Level[] = [
  { path: one, whole: location, fragment: fragment(location), within: [], id: ['id', 'id'] },
  { path: `${one}/:evse_uid`, whole: evse, fragment: fragment(evse), within: ['evse_uid'], id: ['uid', 'evse_uid'] },
  {
    path: `${one}/:evse_uid/:connector_id`,
    whole: connector,
    fragment: fragment(connector),
    within: ['evse_uid', 'connector_id'],
    id: ['id', 'connector_id'],
  },
];

function routesOf(level: Level): OcpiRoute[] {
  const base = { path: level.path, budget: 'other', bodyMax: modules.locations.bytesMax } as const;
  return [
    { ...base, method: 'GET', by: owningCpoOrEmsp, handle: readByRole },
    { ...base, method: 'PUT', by: owningCpo, handle: push('PUT', level) },
    { ...base, method: 'PATCH', by: owningCpo, handle: push('PATCH', level) },
  ];
}

const sendersForm = { method: 'GET', by: emsp, budget: 'other' } as const;

export const locations: OcpiModule = {
  identifier: 'locations',
  roles: ['SENDER', 'RECEIVER'],
  readWhole: wholeObject(location, ({ publish }) => ({ publish })),
  routes: [
    listRoute('locations', emsp),
    {
      ...sendersForm,
      path: `${all}/:id`,
      handle: (hub, exchange) => read(hub, exchange, null, [exchange.params.id]),
    },
    {
      ...sendersForm,
      path: `${all}/:id/:evse_uid`,
      handle: (hub, exchange) => read(hub, exchange, null, [exchange.params.id, exchange.params.evse_uid]),
    },
    ...levels.flatMap(routesOf),
  ],
};

function push(method: 'PUT' | 'PATCH', level: Level) {
  const type = method === 'PUT' ? level.whole : level.fragment;
  const [field, inPath] = level.id;
  return async (hub: Hub, exchange: Exchange): Promise<Answer> => {
    const id = pathId(exchange.params, 'id');
    const within = level.within.map((name) => pathId(exchange.params, name));
    const checked = method === 'PATCH' ? checkedPatch(exchange, type) : checkedBody(exchange, type);
    const isLocation = within.length === 0;
    sameIds({ ...(isLocation && pathParty(exchange.params)), [field]: exchange.params[inPath] }, checked.value);
    const { publish } = checked.body;
    const facts = isLocation && typeof publish === 'boolean' ? { publish } : {};
    await accept(hub, exchange, { module: 'locations', method, id, within, facts }, checked);
    return done();
  };
}

async function readByRole(hub: Hub, exchange: Exchange): Promise<Answer> {
  const {
    country_code: countryCode,
    party_id: partyId,
    id,
    evse_uid: evseUid,
    connector_id: connectorId,
  } = exchange.params;
  const receiversForm = () => read(hub, exchange, keyOf(pathParty(exchange.params)), [id, evseUid, connectorId]);
  if (exchange.caller.party.role === 'CPO' || evseUid !== undefined) return receiversForm();
  try {
    return await read(hub, exchange, null, [countryCode, partyId, id]);
  } catch (error) {
    // Routed eMSPs may use the receiver's form, too. [D20]
    if (error instanceof HubError && error.code === 'notFound') return receiversForm();
    throw error;
  }
}

async function read(
  hub: Hub,
  exchange: Exchange,
  owner: PartyId | null,
  segments: readonly (string | undefined)[],
): Promise<Answer> {
  const [id = '', ...within] = segments.filter((segment) => segment !== undefined);
  return answerObject(hub, exchange, { module: 'locations', owner, id, within });
}
