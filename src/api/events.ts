/** Answers about the event log. */
import { z } from 'zod';
import { listOf, type View } from './common.ts';

export const event = z.object({
  seq: z.number(),
  at: z.string(),
  type: z.string(),
  about: z
    .string()
    .meta({ description: '{noun}:{key} of what it is about, for example partner:NL-CPO or session:NL-CPO/101' }),
  parties: z.array(z.string()).meta({ description: 'all that it concerns' }),
  party: z.string().nullable().meta({ description: 'the partner that it was recorded for; `by` says who acted' }),
  object: z.string().nullable().meta({ description: '{cc}-{pid}/{id}' }),
  correlation_id: z.string().nullable(),
  by: z.enum(['operator', 'partner', 'hub']).meta({ description: 'who acted' }),
  who: z.string().nullable().meta({ description: 'name of the operator who caused it' }),
  data: z.unknown(),
});

export const eventPage = listOf(event).extend({
  last_seq: z.number().meta({ description: 'the log was looked at up to here: what comes later is found after it' }),
  kept_from: z.number().meta({ description: 'the first sequence that is kept' }),
});

export type EventView = View<typeof event>;
export type EventPage = View<typeof eventPage>;
