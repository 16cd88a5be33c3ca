/**
 * What the baselines check of a pushed session: the fields that the hub checks and to the same rules, as one plain zod schema, and that
 * path and body name the same session.
 */
import * as z from 'zod';

const ascii = (min: number, max: number) => z.string().regex(new RegExp(`^[\\x20-\\x7e]{${min},${max}}$`));
const dateTime = z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?$/);
const price = z.object({ excl_vat: z.number().nullish(), incl_vat: z.number().nullish() });
const period = z.object({
  start_date_time: dateTime.nullish(),
  dimensions: z.array(z.object({ type: z.string().nullish(), volume: z.number().nullish() })).nullish(),
  tariff_id: ascii(0, 36).nullish(),
});

const session = z.object({
  country_code: ascii(1, 2),
  party_id: ascii(1, 3),
  id: ascii(1, 36),
  start_date_time: dateTime.nullish(),
  end_date_time: dateTime.nullish(),
  kwh: z.number().nullish(),
  cdr_token: z.object({ country_code: ascii(1, 2), party_id: ascii(1, 3), uid: z.string() }),
  auth_method: z.string().min(1).nullish(),
  authorization_reference: ascii(0, 36).nullish(),
  location_id: ascii(0, 36).nullish(),
  evse_uid: ascii(0, 36).nullish(),
  connector_id: ascii(0, 36).nullish(),
  meter_id: z.string().nullish(),
  currency: z.string().nullish(),
  charging_periods: z.array(period).nullish(),
  total_cost: price.nullish(),
  status: z.string().min(1),
  last_updated: dateTime,
});

interface SessionPath {
  readonly country_code: string;
  readonly party_id: string;
  readonly id: string;
}

/** Whether `value` may be stored as the session that the path names. */
export function isSession(value: unknown, path: SessionPath): boolean {
  const { success, data } = session.safeParse(value);
  return success && data.id === path.id && data.party_id === path.party_id && data.country_code === path.country_code;
}
