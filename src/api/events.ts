/** Answers about the event log. */
import * as z from 'zod';
import { subjects } from '../domain/subject.ts';
import { listOf, type View } from './common.ts';
import { boundsQuery, filter, objectFilter } from './fields.ts';

export const event = z.object({
  seq: z.number(),
  at: z.string(),
  type: z.string(),
  about: z.string().describe('{noun}:{key} of what it is about, for example partner:NL-CPO or session:NL-CPO/101'),
  parties: z.array(z.string()).describe('all that it concerns'),
  party: z.string().nullable().describe('the partner that it was recorded for; `by` says who acted'),
  object: z.string().nullable().describe('{cc}-{pid}/{id}'),
  correlation_id: z.string().nullable(),
  by: z.enum(['operator', 'partner', 'hub']).describe('who acted'),
  who: z.string().nullable().describe('name of the operator who caused it'),
  data: z.unknown(),
});

export const eventPage = listOf(event).extend({
  last_seq: z.number().describe('the log was looked at up to here: what comes later is found after it'),
  kept_from: z.number().describe('the first sequence that is kept'),
});

const eventTypes = Object.keys(subjects);

const eventType = z
  .string()
  .refine(
    (type) => eventTypes.some((known) => known === type || known.startsWith(`${type}.`)),
    'no event has this type',
  )
  .describe('a type, or its beginning up to a dot');

export const eventFilter = z.strictObject({
  type: eventType.exactOptional(),
  about: filter.describe('exactly this about, for example partner:NL-CPO'),
  party: filter.describe('one of the parties that it concerns'),
  object: objectFilter,
  correlation_id: filter,
  ...boundsQuery,
});

export type EventFilter = View<typeof eventFilter>;
export type EventView = View<typeof event>;
export type EventPage = View<typeof eventPage>;
