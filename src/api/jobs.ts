/** Answers about jobs (re-drives, resyncs, discards), and about the dry runs of re-drives and discards. */
import * as z from 'zod';
import { instant, type View } from './common.ts';
import { delivery, deliveryQuery } from './deliveries.ts';
import { bound } from './fields.ts';

const sequence = z.int().min(1);

export const discardFilter = z.strictObject({
  ...deliveryQuery,
  from: bound.exactOptional(),
  to: bound.exactOptional(),
  from_seq: sequence.exactOptional().describe('of an event, inclusive'),
  to_seq: sequence.exactOptional().describe('inclusive'),
});

export const redriveFilter = discardFilter.extend({
  state: z
    .enum(['DEAD', 'DELIVERED', 'DISCARDED', 'ANY'])
    .exactOptional()
    .describe('DEAD when absent; ANY = dead and delivered, a replay'),
});

export const redrivePlan = z.object({
  matched: z.number(),
  by_receiver: z.record(z.string(), z.number()),
  to_seq: z.number().describe('the last event that was counted; as `to_seq` of the filter it keeps later ones out'),
  /** Matched deliveries that would be skipped, because the receiver has a newer version of the object, or may no longer have it. */
  stale: z.number(),
  /** Matched deliveries that would be skipped, because the receiver is suspended or never registered. */
  unregistered: z.number(),
  sample: z.array(delivery),
});

export const discardPlan = redrivePlan.omit({ stale: true, unregistered: true });

export const job = z.object({
  id: z.string(),
  kind: z.enum(['redrive', 'resync', 'discard']),
  /** `INTERRUPTED`: the hub restarted. Queued deliveries stay queued; a new job handles the rest. */
  state: z.enum(['RUNNING', 'DONE', 'CANCELED', 'INTERRUPTED', 'FAILED']),
  matched: z.number(),
  queued: z.number().describe('put back into their lanes; of a discard: discarded'),
  skipped_stale: z.number(),
  skipped_pending: z.number(),
  /** Skipped, because the receiver is suspended or never registered. */
  skipped_unregistered: z.number(),
  started_at: instant,
  ended_at: instant.nullable(),
  error: z.string().nullable(),
});

export type DiscardFilter = View<typeof discardFilter>;
export type RedriveFilter = View<typeof redriveFilter>;
export type DiscardPlan = View<typeof discardPlan>;
export type RedrivePlan = View<typeof redrivePlan>;
export type JobView = View<typeof job>;
