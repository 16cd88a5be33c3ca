/** Small valid bodies, of our own making. */

const at = '2026-01-02T03:04:05Z';

export function sessionBody(id: string, fields: object = {}): Record<string, unknown> {
  return {
    ...{ country_code: 'NL', party_id: 'CPO', id, start_date_time: '2026-01-02T03:00:00Z', kwh: 1.5 },
    cdr_token: { country_code: 'NL', party_id: 'EMS', uid: 'CARD1', type: 'RFID', contract_id: 'NL-EMS-C1' },
    ...{ auth_method: 'COMMAND', location_id: 'LOC1', evse_uid: 'EVSE1', connector_id: '1', currency: 'EUR' },
    ...{ status: 'ACTIVE', last_updated: at, ...fields },
  };
}

export function locationBody(id: string, fields: object = {}): Record<string, unknown> {
  const connector = {
    ...{ id: '1', standard: 'IEC_62196_T2', format: 'SOCKET', power_type: 'AC_3_PHASE' },
    ...{ max_voltage: 230, max_amperage: 32, last_updated: at },
  };
  return {
    ...{ country_code: 'NL', party_id: 'CPO', id, publish: true, name: 'Stationsplein' },
    ...{ address: 'Stationsplein 1', city: 'Utrecht', country: 'NLD', time_zone: 'Europe/Amsterdam' },
    coordinates: { latitude: '52.089400', longitude: '5.110050' },
    evses: [{ uid: 'EVSE1', evse_id: 'NL*CPO*E1', status: 'AVAILABLE', connectors: [connector], last_updated: at }],
    ...{ last_updated: at, ...fields },
  };
}

export function tariffBody(id: string, fields: object = {}): Record<string, unknown> {
  return {
    ...{ country_code: 'NL', party_id: 'CPO', id, currency: 'EUR' },
    elements: [{ price_components: [{ type: 'ENERGY', price: 0.35, step_size: 1 }] }],
    ...{ last_updated: at, ...fields },
  };
}

export function cdrBody(id: string, fields: object = {}): Record<string, unknown> {
  return {
    ...{ country_code: 'NL', party_id: 'CPO', id, session_id: 'S1', currency: 'EUR', auth_method: 'COMMAND' },
    ...{ start_date_time: '2026-01-02T03:00:00Z', end_date_time: '2026-01-02T04:00:00Z' },
    cdr_token: { country_code: 'NL', party_id: 'EMS', uid: 'CARD1', type: 'RFID', contract_id: 'NL-EMS-C1' },
    cdr_location: { id: 'LOC1', address: 'Stationsplein 1', city: 'Utrecht', country: 'NLD', evse_uid: 'EVSE1' },
    charging_periods: [{ start_date_time: '2026-01-02T03:00:00Z', dimensions: [{ type: 'ENERGY', volume: 7.25 }] }],
    ...{
      total_cost: { excl_vat: 2.5, incl_vat: 3.03 },
      total_energy: 7.25,
      total_time: 1,
      last_updated: at,
      ...fields,
    },
  };
}

export function tokenBody(uid: string, fields: object = {}): Record<string, unknown> {
  return {
    ...{ country_code: 'NL', party_id: 'EMS', uid, type: 'RFID', contract_id: 'NL-EMS-C1', issuer: 'EMS' },
    ...{ valid: true, whitelist: 'ALLOWED', last_updated: at, ...fields },
  };
}
