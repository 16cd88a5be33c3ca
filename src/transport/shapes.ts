/**
 * Schemas of OCPI objects that several modules use. Fields and lengths follow the specification (mod_*); the hub
 * chooses which fields are a `must`. [D17]
 */
import { tokenTypes } from '../domain/object.ts';
import {
  anyOf,
  ciString,
  dateTime,
  flag,
  foreign,
  identifier,
  integer,
  link,
  list,
  may,
  must,
  number,
  object,
  pattern,
  should,
  snapshot,
  text,
} from './types.ts';

export const displayText = object({ language: should(text(2)), text: should(text(512)) });

export const price = object({ excl_vat: should(number), incl_vat: may(number) });

const latitude = pattern(/^-?\d{1,2}\.\d{5,7}$/, 'expected degrees with five to seven decimals');
const longitude = pattern(/^-?\d{1,3}\.\d{5,7}$/, 'expected degrees with five to seven decimals');

export const geoLocation = object({ latitude: should(latitude), longitude: should(longitude) });

export const image = object({
  url: should(link),
  thumbnail: may(link),
  category: should(anyOf('CHARGER', 'ENTRANCE', 'LOCATION', 'NETWORK', 'OPERATOR', 'OTHER', 'OWNER')),
  type: should(text(4)),
  width: may(integer),
  height: may(integer),
});

export const businessDetails = object({ name: should(text(100)), website: may(link), logo: may(image) });

export const energyMix = object({
  is_green_energy: should(flag),
  energy_sources: may(
    list(
      object({
        source: should(anyOf('NUCLEAR', 'GENERAL_FOSSIL', 'COAL', 'GAS', 'GENERAL_GREEN', 'SOLAR', 'WIND', 'WATER')),
        percentage: should(number),
      }),
    ),
  ),
  environ_impact: may(
    list(object({ category: should(anyOf('NUCLEAR_WASTE', 'CARBON_DIOXIDE')), amount: should(number) })),
  ),
  supplier_name: may(text(64)),
  energy_product_name: may(text(64)),
});

/** Types of a connector, its format and its power, in a location and in the `cdr_location` of a CDR. */
export const connectorType = anyOf(
  ...['CHADEMO', 'CHAOJI', 'DOMESTIC_A', 'DOMESTIC_B', 'DOMESTIC_C', 'DOMESTIC_D', 'DOMESTIC_E', 'DOMESTIC_F'],
  ...['DOMESTIC_G', 'DOMESTIC_H', 'DOMESTIC_I', 'DOMESTIC_J', 'DOMESTIC_K', 'DOMESTIC_L', 'DOMESTIC_M', 'DOMESTIC_N'],
  ...['DOMESTIC_O', 'GBT_AC', 'GBT_DC', 'IEC_60309_2_single_16', 'IEC_60309_2_three_16', 'IEC_60309_2_three_32'],
  ...['IEC_60309_2_three_64', 'IEC_62196_T1', 'IEC_62196_T1_COMBO', 'IEC_62196_T2', 'IEC_62196_T2_COMBO'],
  ...['IEC_62196_T3A', 'IEC_62196_T3C', 'NEMA_5_20', 'NEMA_6_30', 'NEMA_6_50', 'NEMA_10_30', 'NEMA_10_50'],
  ...['NEMA_14_30', 'NEMA_14_50', 'PANTOGRAPH_BOTTOM_UP', 'PANTOGRAPH_TOP_DOWN', 'TESLA_R', 'TESLA_S'],
);
export const connectorFormat = ['CABLE', 'SOCKET'] as const;
export const powerType = ['AC_1_PHASE', 'AC_2_PHASE', 'AC_2_PHASE_SPLIT', 'AC_3_PHASE', 'DC'] as const;

const authMethod = anyOf('AUTH_REQUEST', 'COMMAND', 'WHITELIST');

export const tokenType = anyOf(...tokenTypes);

const whitelist = anyOf('ALLOWED', 'ALLOWED_OFFLINE', 'ALWAYS', 'NEVER');

const tokenFields = {
  visual_number: may(text(64)),
  group_id: may(ciString(36)),
  language: may(text(2)),
  default_profile_type: may(anyOf('CHEAP', 'FAST', 'GREEN', 'REGULAR')),
  energy_contract: may(object({ supplier_name: should(text(64)), contract_id: may(text(64)) })),
} as const;

/** A token as pushed by its eMSP. */
export const token = object({
  country_code: must(identifier(2)),
  party_id: must(identifier(3)),
  uid: must(identifier(36)),
  type: should(tokenType),
  contract_id: should(ciString(36)),
  issuer: should(text(64)),
  valid: should(flag),
  whitelist: should(whitelist),
  last_updated: must(dateTime),
  ...tokenFields,
});

/**
 * A token in a command: the specification's whole token, or `uid`, `type` and `contract_id` as in the interface. [D26]
 */
export const commandToken = object({
  uid: must(identifier(36)),
  type: should(tokenType),
  contract_id: should(ciString(36)),
  country_code: may(ciString(2)),
  party_id: may(ciString(3)),
  issuer: may(text(64)),
  valid: may(flag),
  whitelist: may(whitelist),
  last_updated: may(dateTime),
  ...tokenFields,
});

const cdrDimension = anyOf(
  ...['CURRENT', 'ENERGY', 'ENERGY_EXPORT', 'ENERGY_IMPORT', 'MAX_CURRENT', 'MIN_CURRENT', 'MAX_POWER', 'MIN_POWER'],
  ...['PARKING_TIME', 'POWER', 'RESERVATION_TIME', 'STATE_OF_CHARGE', 'TIME'],
);

export const chargingPeriod = object({
  start_date_time: should(dateTime),
  dimensions: should(list(object({ type: should(cdrDimension), volume: should(number) }))),
  tariff_id: may(ciString(36)),
});

const priceComponent = object({
  type: should(anyOf('ENERGY', 'FLAT', 'PARKING_TIME', 'TIME')),
  price: should(number),
  vat: may(number),
  step_size: should(integer),
});

const tariffRestrictions = object({
  start_time: may(text(5)),
  end_time: may(text(5)),
  start_date: may(text(10)),
  end_date: may(text(10)),
  min_kwh: may(number),
  max_kwh: may(number),
  min_current: may(number),
  max_current: may(number),
  min_power: may(number),
  max_power: may(number),
  min_duration: may(integer),
  max_duration: may(integer),
  day_of_week: may(list(anyOf('MONDAY', 'TUESDAY', 'WEDNESDAY', 'THURSDAY', 'FRIDAY', 'SATURDAY', 'SUNDAY'))),
  reservation: may(anyOf('RESERVATION', 'RESERVATION_EXPIRES')),
});

const tariffFields = {
  currency: should(text(3)),
  type: may(anyOf('AD_HOC_PAYMENT', 'PROFILE_CHEAP', 'PROFILE_FAST', 'PROFILE_GREEN', 'REGULAR')),
  tariff_alt_text: may(list(displayText)),
  tariff_alt_url: may(link),
  min_price: may(price),
  max_price: may(price),
  elements: should(
    list(object({ price_components: should(list(priceComponent)), restrictions: may(tariffRestrictions) })),
  ),
  start_date_time: may(dateTime),
  end_date_time: may(dateTime),
  energy_mix: may(energyMix),
} as const;

export const tariff = object({
  country_code: must(identifier(2)),
  party_id: must(identifier(3)),
  id: must(identifier(36)),
  ...tariffFields,
  tax_included: may(foreign((value) => value === 'YES', 'expected prices without VAT, as in OCPI 2.2.1')),
  last_updated: must(dateTime),
});

/** The tariff snapshot inside a CDR; the hub relies on none of its fields. */
export const tariffSnapshot = object({
  country_code: should(ciString(2)),
  party_id: should(ciString(3)),
  id: should(ciString(36)),
  ...tariffFields,
  last_updated: should(dateTime),
});

/**
 * Fields that sessions and CDRs share. A `cdr_token` of any shape is accepted: with a malformed one the object is
 * stored and not forwarded. [Sessions 2]
 */
export const chargeFields = {
  country_code: must(identifier(2)),
  party_id: must(identifier(3)),
  start_date_time: should(dateTime),
  cdr_token: should(snapshot(object({ type: may(tokenType) }))),
  auth_method: should(authMethod),
  authorization_reference: may(ciString(36)),
  meter_id: may(text(255)),
  currency: should(text(3)),
  charging_periods: may(snapshot(list(chargingPeriod))),
  last_updated: must(dateTime),
} as const;
