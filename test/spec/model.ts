/**
 * The data model of OCPI 2.2.1, transcribed from the specification's tables: which fields an object has, of which type, how
 * often, and which values an enumeration knows. Stricter than the hub itself, and knows nothing of it: it judges what
 * partners get, and says whether the fixtures leave anything out.
 *
 * Cardinality: `1` required, `?` optional, `*` a list that may be empty or missing, `+` a list of at least one. Null counts as missing.
 */

const enumerations = {
  AllowedType: 'ALLOWED BLOCKED EXPIRED NO_CREDIT NOT_ALLOWED',
  AuthMethod: 'AUTH_REQUEST COMMAND WHITELIST',
  Capability:
    'CHARGING_PROFILE_CAPABLE CHARGING_PREFERENCES_CAPABLE CHIP_CARD_SUPPORT CONTACTLESS_CARD_SUPPORT CREDIT_CARD_PAYABLE ' +
    'DEBIT_CARD_PAYABLE PED_TERMINAL REMOTE_START_STOP_CAPABLE RESERVABLE RFID_READER START_SESSION_CONNECTOR_REQUIRED ' +
    'TOKEN_GROUP_CAPABLE UNLOCK_CAPABLE',
  CdrDimensionType:
    'CURRENT ENERGY ENERGY_EXPORT ENERGY_IMPORT MAX_CURRENT MIN_CURRENT MAX_POWER MIN_POWER PARKING_TIME POWER ' +
    'RESERVATION_TIME STATE_OF_CHARGE TIME',
  CommandResponseType: 'ACCEPTED NOT_SUPPORTED REJECTED UNKNOWN_SESSION',
  CommandResultType:
    'ACCEPTED CANCELED_RESERVATION EVSE_OCCUPIED EVSE_INOPERATIVE FAILED NOT_SUPPORTED REJECTED TIMEOUT UNKNOWN_RESERVATION',
  ConnectionStatus: 'CONNECTED OFFLINE PLANNED SUSPENDED',
  ConnectorFormat: 'SOCKET CABLE',
  ConnectorType:
    'CHADEMO CHAOJI DOMESTIC_A DOMESTIC_B DOMESTIC_C DOMESTIC_D DOMESTIC_E DOMESTIC_F DOMESTIC_G DOMESTIC_H DOMESTIC_I ' +
    'DOMESTIC_J DOMESTIC_K DOMESTIC_L DOMESTIC_M DOMESTIC_N DOMESTIC_O GBT_AC GBT_DC IEC_60309_2_single_16 ' +
    'IEC_60309_2_three_16 IEC_60309_2_three_32 IEC_60309_2_three_64 IEC_62196_T1 IEC_62196_T1_COMBO IEC_62196_T2 ' +
    'IEC_62196_T2_COMBO IEC_62196_T3A IEC_62196_T3C NEMA_5_20 NEMA_6_30 NEMA_6_50 NEMA_10_30 NEMA_10_50 NEMA_14_30 ' +
    'NEMA_14_50 PANTOGRAPH_BOTTOM_UP PANTOGRAPH_TOP_DOWN TESLA_R TESLA_S',
  DayOfWeek: 'MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY',
  EnergySourceCategory: 'NUCLEAR GENERAL_FOSSIL COAL GAS GENERAL_GREEN SOLAR WIND WATER',
  EnvironmentalImpactCategory: 'NUCLEAR_WASTE CARBON_DIOXIDE',
  Facility:
    'HOTEL RESTAURANT CAFE MALL SUPERMARKET SPORT RECREATION_AREA NATURE MUSEUM BIKE_SHARING BUS_STOP TAXI_STAND TRAM_STOP ' +
    'METRO_STATION TRAIN_STATION AIRPORT PARKING_LOT CARPOOL_PARKING FUEL_STATION WIFI',
  ImageCategory: 'CHARGER ENTRANCE LOCATION NETWORK OPERATOR OTHER OWNER',
  InterfaceRole: 'SENDER RECEIVER',
  ParkingRestriction: 'EV_ONLY PLUGGED DISABLED CUSTOMERS MOTORCYCLES',
  ParkingType: 'ALONG_MOTORWAY PARKING_GARAGE PARKING_LOT ON_DRIVEWAY ON_STREET UNDERGROUND_GARAGE',
  PowerType: 'AC_1_PHASE AC_2_PHASE AC_2_PHASE_SPLIT AC_3_PHASE DC',
  ProfileType: 'CHEAP FAST GREEN REGULAR',
  ReservationRestrictionType: 'RESERVATION RESERVATION_EXPIRES',
  Role: 'CPO EMSP HUB NAP NSP OTHER SCSP',
  SessionStatus: 'ACTIVE COMPLETED INVALID PENDING RESERVATION',
  Status: 'AVAILABLE BLOCKED CHARGING INOPERATIVE OUTOFORDER PLANNED REMOVED RESERVED UNKNOWN',
  TariffDimensionType: 'ENERGY FLAT PARKING_TIME TIME',
  TariffType: 'AD_HOC_PAYMENT PROFILE_CHEAP PROFILE_FAST PROFILE_GREEN REGULAR',
  TokenType: 'AD_HOC_USER APP_USER OTHER RFID',
  WhitelistType: 'ALWAYS ALLOWED ALLOWED_OFFLINE NEVER',
} as const;

export type EnumName = keyof typeof enumerations;

/** The values of an enumeration. */
export const valuesOf = (name: EnumName): string[] => enumerations[name].split(' ');

const owned = 'country_code CiString(2) 1, party_id CiString(3) 1';
const id36 = 'CiString(36)';

const tables = {
  // Shared types
  DisplayText: 'language string(2) 1, text string(512) 1',
  Price: 'excl_vat number 1, incl_vat number ?',
  BusinessDetails: 'name string(100) 1, website URL ?, logo Image ?',
  GeoLocation: 'latitude string(10) 1, longitude string(11) 1',
  Image: 'url URL 1, thumbnail URL ?, category ImageCategory 1, type CiString(4) 1, width int ?, height int ?',
  EnergyMix:
    'is_green_energy boolean 1, energy_sources EnergySource *, environ_impact EnvironmentalImpact *, ' +
    'supplier_name string(64) ?, energy_product_name string(64) ?',
  EnergySource: 'source EnergySourceCategory 1, percentage number 1',
  EnvironmentalImpact: 'category EnvironmentalImpactCategory 1, amount number 1',

  // Locations
  Location:
    `${owned}, id ${id36} 1, publish boolean 1, publish_allowed_to PublishTokenType *, name string(255) ?, ` +
    'address string(255) 1, city string(45) 1, postal_code string(10) ?, state string(45) ?, country string(3) 1, ' +
    'coordinates GeoLocation 1, related_locations AdditionalGeoLocation *, parking_type ParkingType ?, evses EVSE *, ' +
    'directions DisplayText *, operator BusinessDetails ?, suboperator BusinessDetails ?, owner BusinessDetails ?, ' +
    'facilities Facility *, time_zone string(255) 1, opening_times Hours ?, charging_when_closed boolean ?, ' +
    'images Image *, energy_mix EnergyMix ?, last_updated DateTime 1',
  PublishTokenType: `uid ${id36} ?, type TokenType ?, visual_number string(64) ?, issuer string(64) ?, group_id ${id36} ?`,
  AdditionalGeoLocation: 'latitude string(10) 1, longitude string(11) 1, name DisplayText ?',
  EVSE:
    `uid ${id36} 1, evse_id CiString(48) ?, status Status 1, status_schedule StatusSchedule *, capabilities Capability *, ` +
    'connectors Connector +, floor_level string(4) ?, coordinates GeoLocation ?, physical_reference string(16) ?, ' +
    'directions DisplayText *, parking_restrictions ParkingRestriction *, images Image *, last_updated DateTime 1',
  StatusSchedule: 'period_begin DateTime 1, period_end DateTime ?, status Status 1',
  Connector:
    `id ${id36} 1, standard ConnectorType 1, format ConnectorFormat 1, power_type PowerType 1, max_voltage int 1, ` +
    `max_amperage int 1, max_electric_power int ?, tariff_ids ${id36} *, terms_and_conditions URL ?, last_updated DateTime 1`,
  Hours:
    'twentyfourseven boolean 1, regular_hours RegularHours *, exceptional_openings ExceptionalPeriod *, ' +
    'exceptional_closings ExceptionalPeriod *',
  RegularHours: 'weekday int 1, period_begin string(5) 1, period_end string(5) 1',
  ExceptionalPeriod: 'period_begin DateTime 1, period_end DateTime 1',

  // Tariffs
  Tariff:
    `${owned}, id ${id36} 1, currency string(3) 1, type TariffType ?, tariff_alt_text DisplayText *, tariff_alt_url URL ?, ` +
    'min_price Price ?, max_price Price ?, elements TariffElement +, start_date_time DateTime ?, end_date_time DateTime ?, ' +
    'energy_mix EnergyMix ?, last_updated DateTime 1',
  TariffElement: 'price_components PriceComponent +, restrictions TariffRestrictions ?',
  PriceComponent: 'type TariffDimensionType 1, price number 1, vat number ?, step_size int 1',
  TariffRestrictions:
    'start_time string(5) ?, end_time string(5) ?, start_date string(10) ?, end_date string(10) ?, min_kwh number ?, ' +
    'max_kwh number ?, min_current number ?, max_current number ?, min_power number ?, max_power number ?, ' +
    'min_duration int ?, max_duration int ?, day_of_week DayOfWeek *, reservation ReservationRestrictionType ?',

  // Tokens
  Token:
    `${owned}, uid ${id36} 1, type TokenType 1, contract_id ${id36} 1, visual_number string(64) ?, issuer string(64) 1, ` +
    `group_id ${id36} ?, valid boolean 1, whitelist WhitelistType 1, language string(2) ?, ` +
    'default_profile_type ProfileType ?, energy_contract EnergyContract ?, last_updated DateTime 1',
  EnergyContract: 'supplier_name string(64) 1, contract_id string(64) ?',
  LocationReferences: `location_id ${id36} 1, evse_uids ${id36} *`,
  AuthorizationInfo:
    `allowed AllowedType 1, token Token 1, location LocationReferences ?, authorization_reference ${id36} ?, ` +
    'info DisplayText ?',

  // Sessions and CDRs
  Session:
    `${owned}, id ${id36} 1, start_date_time DateTime 1, end_date_time DateTime ?, kwh number 1, cdr_token CdrToken 1, ` +
    `auth_method AuthMethod 1, authorization_reference ${id36} ?, location_id ${id36} 1, evse_uid ${id36} 1, ` +
    `connector_id ${id36} 1, meter_id string(255) ?, currency string(3) 1, charging_periods ChargingPeriod *, ` +
    'total_cost Price ?, status SessionStatus 1, last_updated DateTime 1',
  CdrToken: `${owned}, uid ${id36} 1, type TokenType 1, contract_id ${id36} 1`,
  ChargingPeriod: `start_date_time DateTime 1, dimensions CdrDimension +, tariff_id ${id36} ?`,
  CdrDimension: 'type CdrDimensionType 1, volume number 1',
  CDR:
    `${owned}, id CiString(39) 1, start_date_time DateTime 1, end_date_time DateTime 1, session_id ${id36} ?, ` +
    `cdr_token CdrToken 1, auth_method AuthMethod 1, authorization_reference ${id36} ?, cdr_location CdrLocation 1, ` +
    'meter_id string(255) ?, currency string(3) 1, tariffs Tariff *, charging_periods ChargingPeriod +, ' +
    'signed_data SignedData ?, total_cost Price 1, total_fixed_cost Price ?, total_energy number 1, ' +
    'total_energy_cost Price ?, total_time number 1, total_time_cost Price ?, total_parking_time number ?, ' +
    'total_parking_cost Price ?, total_reservation_cost Price ?, remark string(255) ?, ' +
    'invoice_reference_id CiString(39) ?, credit boolean ?, credit_reference_id CiString(39) ?, ' +
    'home_charging_compensation boolean ?, last_updated DateTime 1',
  CdrLocation:
    `id ${id36} 1, name string(255) ?, address string(45) 1, city string(45) 1, postal_code string(10) ?, ` +
    `state string(20) ?, country string(3) 1, coordinates GeoLocation 1, evse_uid ${id36} 1, evse_id CiString(48) 1, ` +
    `connector_id ${id36} 1, connector_standard ConnectorType 1, connector_format ConnectorFormat 1, ` +
    'connector_power_type PowerType 1',
  SignedData:
    'encoding_method CiString(36) 1, encoding_method_version int ?, public_key string(512) ?, signed_values SignedValue +, ' +
    'url string(512) ?',
  SignedValue: 'nature CiString(32) 1, plain_data string(5000) 1, signed_data string(5000) 1',

  // Commands
  StartSession:
    `response_url URL 1, token Token 1, location_id ${id36} 1, evse_uid ${id36} ?, connector_id ${id36} ?, ` +
    `authorization_reference ${id36} ?`,
  StopSession: `response_url URL 1, session_id ${id36} 1`,
  ReserveNow:
    `response_url URL 1, token Token 1, expiry_date DateTime 1, reservation_id ${id36} 1, location_id ${id36} 1, ` +
    `evse_uid ${id36} ?, authorization_reference ${id36} ?`,
  CancelReservation: `response_url URL 1, reservation_id ${id36} 1`,
  UnlockConnector: `response_url URL 1, location_id ${id36} 1, evse_uid ${id36} 1, connector_id ${id36} 1`,
  CommandResponse: 'result CommandResponseType 1, timeout int 1, message DisplayText *',
  CommandResult: 'result CommandResultType 1, message DisplayText *',

  // Configuration modules
  Version: 'version string(10) 1, url URL 1',
  VersionDetails: 'version string(10) 1, endpoints Endpoint +',
  Endpoint: 'identifier string(36) 1, role InterfaceRole 1, url URL 1',
  Credentials: 'token string(64) 1, url URL 1, roles CredentialsRole +',
  CredentialsRole: `role Role 1, business_details BusinessDetails 1, ${owned}`,
  ClientInfo: `${owned}, role Role 1, status ConnectionStatus 1, last_updated DateTime 1`,
} as const;

export type ClassName = keyof typeof tables;

interface Field {
  readonly name: string;
  readonly type: string;
  readonly card: string;
}

/** The fields of a class, in the order of its table. */
export function fieldsOf(name: ClassName): Field[] {
  return tables[name].split(', ').map((row) => {
    const [field = '', type = '', card = ''] = row.split(' ');
    return { name: field, type, card };
  });
}

const isClass = (type: string): type is ClassName => Object.hasOwn(tables, type);
const isEnum = (type: string): type is EnumName => Object.hasOwn(enumerations, type);

const printableAscii = /^[\x20-\x7e]*$/;
/** At most 25 characters, in UTC, with a `Z` or nothing behind it. */
export const isDateTime = (text: string): boolean =>
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?$/.test(text) && text.length <= 25;

function scalarProblem(type: string, value: unknown): string | null {
  const [, kind = type, max = ''] = /^(\w+)\((\d+)\)$/.exec(type) ?? [];
  const fits = {
    CiString: () => typeof value === 'string' && printableAscii.test(value) && value.length <= Number(max),
    string: () => typeof value === 'string' && value.length <= Number(max),
    URL: () => typeof value === 'string' && URL.canParse(value) && value.length <= 255,
    DateTime: () => typeof value === 'string' && isDateTime(value),
    number: () => typeof value === 'number',
    int: () => Number.isInteger(value),
    boolean: () => typeof value === 'boolean',
  }[kind];
  if (!fits) return `has the unknown type ${type}`;
  return fits() ? null : `is no ${type}: ${JSON.stringify(value)}`;
}

/** What is wrong with a value that should be an object of a class; empty when nothing is. Unknown fields are allowed. */
export function problemsOf(name: ClassName, value: unknown, path: string = name): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [`${path} is no object`];
  const object = value as Record<string, unknown>;
  return fieldsOf(name).flatMap((field) => fieldProblems(field, object[field.name], `${path}.${field.name}`));
}

/** The same of the body of a PATCH: any fields, and `last_updated`. */
export function fragmentProblems(name: ClassName, value: unknown): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return ['fragment is no object'];
  const object = value as Record<string, unknown>;
  const wanted = fieldsOf(name).filter((field) => field.name in object || field.name === 'last_updated');
  return wanted.flatMap((field) => fieldProblems(field, object[field.name], `${name}.${field.name}`));
}

function fieldProblems({ type, card }: Field, value: unknown, path: string): string[] {
  const isMissing = value === undefined || value === null;
  if (isMissing) return card === '?' || card === '*' ? [] : [`${path} is missing`];
  if (card === '1' || card === '?') return valueProblems(type, value, path);
  if (!Array.isArray(value)) return [`${path} is no list`];
  if (card === '+' && value.length === 0) return [`${path} is empty`];
  return value.flatMap((item, index) => valueProblems(type, item, `${path}[${index}]`));
}

function valueProblems(type: string, value: unknown, path: string): string[] {
  if (isClass(type)) return problemsOf(type, value, path);
  if (isEnum(type)) {
    return valuesOf(type).includes(value as string) ? [] : [`${path} is no ${type}: ${JSON.stringify(value)}`];
  }
  const problem = scalarProblem(type, value);
  return problem === null ? [] : [`${path} ${problem}`];
}

/** Adds `Class.field` and `Enum=VALUE` of everything that an object holds. */
export function collectCovered(name: ClassName, value: unknown, covered: Set<string>): void {
  const object = value as Record<string, unknown>;
  for (const field of fieldsOf(name)) {
    const own = object[field.name];
    if (own === undefined) continue;
    if (own === null) covered.add(`${name}.${field.name}=null`);
    else if (Array.isArray(own) && own.length === 0) covered.add(`${name}.${field.name}=[]`);
    else covered.add(`${name}.${field.name}`);
    for (const item of Array.isArray(own) ? own : [own]) {
      if (item === null) continue;
      if (isClass(field.type)) collectCovered(field.type, item, covered);
      else if (isEnum(field.type)) covered.add(`${field.type}=${item}`);
    }
  }
}

/** Everything that `collectCovered` could find from these classes on downwards. */
export function everythingBelow(roots: readonly ClassName[]): Set<string> {
  const all = new Set<string>();
  const done = new Set<ClassName>();
  const visit = (name: ClassName): void => {
    if (done.has(name)) return;
    done.add(name);
    for (const field of fieldsOf(name)) {
      all.add(`${name}.${field.name}`);
      if (isClass(field.type)) visit(field.type);
      else if (isEnum(field.type)) for (const value of valuesOf(field.type)) all.add(`${field.type}=${value}`);
    }
  };
  for (const root of roots) visit(root);
  return all;
}
