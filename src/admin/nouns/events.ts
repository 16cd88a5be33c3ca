/** Route `/events`: the event log. */
import { z } from 'zod';
import { eventPage } from '../../api/events.ts';
import { subjects } from '../../domain/subject.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { boundsQuery, filter, orderQuery, orNull, sequence } from '../fields.ts';
import { type AdminRoute, route } from '../route.ts';

const eventTypes = Object.keys(subjects);

const eventType = z
  .string()
  .refine(
    (type) => eventTypes.some((known) => known === type || known.startsWith(`${type}.`)),
    'no event has this type',
  )
  .meta({ description: 'a type, or its beginning up to a dot' });

const query = z.strictObject({
  after: sequence
    .default(0)
    .meta({ description: 'last_seq of a page, or sequence of an event, behind which to begin' }),
  type: eventType.exactOptional(),
  about: filter.meta({ description: 'exactly this about, for example partner:NL-CPO' }),
  party: filter.meta({ description: 'one of the parties that it concerns' }),
  object: filter.meta({ description: '{cc}-{pid}/{id}' }),
  correlation_id: filter,
  ...boundsQuery,
  order: orderQuery.default('oldest'),
  limit: z.coerce.number().int().min(1).max(1000).exactOptional().meta({ description: 'a page has 100, a stream all' }),
  cursor: orNull(sequence).meta({ description: 'next_cursor of the page before' }),
});

const pageDefault = 100;

export function events(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/events',
      summary: 'Read the event log, oldest first unless asked',
      query,
      answer: eventPage,
      run: ({ query: { after, cursor, order, limit = pageDefault, ...wanted } }) =>
        operations.events(wanted, { after, cursor, order, limit }),
    }),
  ];
}
