/** Answers about pulls of a CPO's own lists. */
import * as z from 'zod';
import type { View } from './common.ts';
import { partyId } from './fields.ts';

export const pulledModules = ['locations', 'tariffs'] as const;

const count = z.number().int();

export const pull = z.object({
  id: z.string(),
  party: z.string(),
  module: z.enum(pulledModules),
  state: z.enum(['RUNNING', 'DONE', 'FAILED']),
  full: z.boolean().describe('the whole list was asked for'),
  forward: z.boolean(),
  date_from: z.string().nullable(),
  pages: count,
  received: count,
  stored: count,
  unchanged: count,
  invalid: count.describe('refused; GET /quarantine has them'),
  deleted: count.describe('tariffs that are no longer on the whole list'),
  error: z.string().exactOptional(),
  note: z.string().nullable(),
  started_at: z.string(),
  ended_at: z.string().nullable(),
});

export const refusedObject = z.object({
  party: z.string(),
  module: z.enum(pulledModules),
  object: z.string().nullable().describe('{cc}-{pid}/{id}'),
  reason: z.string(),
  pull: z.string(),
  at: z.string(),
  text: z.string().describe('as it came'),
});

/** Any party of the CPO's partner. */
export const pullFilter = z.strictObject({ party: partyId.exactOptional() });

export type PullFilter = View<typeof pullFilter>;
export type PullView = View<typeof pull>;
export type QuarantineView = View<typeof refusedObject>;
