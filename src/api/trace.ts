/** Answers about the history of an object, a command, an orphan case or a correlation id. */
import * as z from 'zod';
import { moduleNames } from '../domain/modules.ts';
import type { View } from './common.ts';
import { delivery } from './deliveries.ts';

/** The steps of a history, oldest first. */
export const story = z.object({
  asked: z.string().describe('the key as it was asked for'),
  key: z.string().describe('the key that it was found to mean'),
  kind: z.enum(['object', 'correlation', 'candidates']),
  candidates: z
    .array(z.object({ module: z.enum(moduleNames), key: z.string() }))
    .describe('of kind candidates: objects that were found by the id alone; steps is empty then'),
  steps: z.array(
    z.object({
      seq: z.number(),
      at: z.string(),
      type: z.string(),
      about: z.string().describe('as in events: command:{id}, orphan:{id}, session:{key}'),
      party: z.string().nullable(),
      module: z.string().nullable(),
      object: z.string().nullable(),
      correlation_id: z.string().nullable(),
      summary: z.string(),
      not_forwarded: z.string().nullable().describe('why nobody is owed it, in a sentence'),
      warnings: z.array(z.string()),
      quirks: z
        .array(z.object({ quirk: z.string(), parties: z.array(z.string()), says: z.string() }))
        .describe('habits that the hub made up for; those of receivers are in the attempts of deliveries'),
      deliveries: z.array(delivery),
    }),
  ),
  has_older: z
    .boolean()
    .describe('it has older events than those shown, at most 10,000 with 10,000 deliveries: events lists them'),
  next_cursor: z
    .string()
    .nullable()
    .describe(
      'more of the log may hold commands, authorizations, CDRs or cases that belong here: ask with this cursor',
    ),
});

export type TraceView = View<typeof story>;
export type TraceStep = TraceView['steps'][number];
export type TraceCandidate = TraceView['candidates'][number];
