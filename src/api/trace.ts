/** Answer about the history of an object or a correlation id. */
import { z } from 'zod';
import type { View } from './common.ts';
import { delivery } from './deliveries.ts';

/** The steps of a history, oldest first. */
export const story = z.object({
  key: z.string(),
  kind: z.enum(['object', 'correlation']),
  steps: z.array(
    z.object({
      seq: z.number(),
      at: z.string(),
      type: z.string(),
      party: z.string().nullable(),
      module: z.string().nullable(),
      object: z.string().nullable(),
      correlation_id: z.string().nullable(),
      summary: z.string(),
      not_forwarded: z.string().nullable().meta({ description: 'why nobody is owed it, in a sentence' }),
      warnings: z.array(z.string()),
      deliveries: z.array(delivery),
    }),
  ),
});

export type TraceView = View<typeof story>;
export type TraceStep = TraceView['steps'][number];
