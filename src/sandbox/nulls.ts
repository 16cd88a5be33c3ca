/** Writes null for every optional field that an object lacks, as serializers do that leave no field out. */

const optional: Readonly<Record<string, readonly string[]>> = {
  locations: [
    ...['publish_allowed_to', 'name', 'postal_code', 'state', 'related_locations', 'parking_type', 'directions'],
    ...[
      'operator',
      'suboperator',
      'owner',
      'facilities',
      'opening_times',
      'charging_when_closed',
      'images',
      'energy_mix',
    ],
  ],
  tariffs: [
    ...['type', 'tariff_alt_text', 'tariff_alt_url', 'min_price', 'max_price', 'start_date_time', 'end_date_time'],
    'energy_mix',
  ],
  sessions: ['end_date_time', 'authorization_reference', 'meter_id', 'charging_periods', 'total_cost'],
  cdrs: [
    ...['session_id', 'authorization_reference', 'meter_id', 'tariffs', 'signed_data', 'total_fixed_cost'],
    ...['total_energy_cost', 'total_time_cost', 'total_parking_time', 'total_parking_cost', 'total_reservation_cost'],
    ...['remark', 'invoice_reference_id', 'credit', 'credit_reference_id', 'home_charging_compensation'],
  ],
  tokens: ['visual_number', 'group_id', 'language', 'default_profile_type', 'energy_contract'],
};

/** The text of a whole object or of a list of them; other texts as they are. */
export function withNulls(text: string, module: string): string {
  const value: unknown = JSON.parse(text);
  return JSON.stringify(Array.isArray(value) ? value.map((one) => filled(one, module)) : filled(value, module));
}

function filled(value: unknown, module: string): unknown {
  if (typeof value !== 'object' || value === null || !isWhole(value)) return value;
  const nulls = (optional[module] ?? []).map((name) => [name, null]);
  return { ...Object.fromEntries(nulls), ...value };
}

const isWhole = (value: object) => 'country_code' in value && 'party_id' in value;
