/** Answers about what passed between the hub and partners: points of minutes and hours, and the report of a month. */
import * as z from 'zod';
import type { View } from './common.ts';
import { boundsQuery } from './fields.ts';

const count = z.number().int();
const latency = z.number().nullable();

/** What every sum has. */
const sums = {
  pushes: count.describe('objects that were pushed and taken'),
  deliveries: count.describe('deliveries that were taken'),
  errors: count.describe('attempts at deliveries that failed'),
  latency_p50_ms: latency.describe('of the last attempts of deliveries that were taken, to 10 %'),
  latency_p95_ms: latency,
};
const availability = z
  .number()
  .nullable()
  .describe('share, 0 to 1, of the time for which the hub watched that it was not OFFLINE or SUSPENDED');

const step = z.enum(['minute', 'hour']);
const at = z.string().describe('begin of the minute or hour');
const span = {
  step,
  from: z.string().describe('inclusive; what is asked, or what is kept'),
  to: z.string().describe('exclusive'),
};
const known = 'oldest first; a minute or an hour without a point: nothing passed, or the hub did not run';

const hubPoint = z.object({ at, ...sums });
const partnerPoint = hubPoint.extend({ availability });

export const history = z.object({ ...span, points: z.array(hubPoint).describe(known) });
export const partnerHistory = z.object({
  party: z.string(),
  ...span,
  points: z.array(partnerPoint).describe(known),
});

const hours = count.describe('hours of which anything is known');
const total = z.object({ ...sums, availability, hours });

export const monthlyReport = z.object({
  party: z.string(),
  names: z.array(z.string()),
  month: z.string(),
  from: z.string(),
  to: z.string(),
  total,
  days: z
    .array(z.object({ day: z.string().describe('UTC'), ...total.shape }))
    .describe('those of which anything is known'),
});

export const historyRange = z.strictObject({
  step: step
    .default('minute')
    .describe('minute: one point a minute of the last 24 h; hour: one an hour of the last 90 days'),
  ...boundsQuery,
});

export type HistoryRange = View<typeof historyRange>;
export type HistoryView = View<typeof history>;
export type PartnerHistory = View<typeof partnerHistory>;
export type HistoryPoint = HistoryView['points'][number];
export type PartnerPoint = PartnerHistory['points'][number];
export type MonthlyReport = View<typeof monthlyReport>;
