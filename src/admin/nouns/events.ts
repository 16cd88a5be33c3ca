/** Route `/events`: the event log. */
import * as z from 'zod';
import { eventFilter, eventPage } from '../../api/events.ts';
import { orderQuery, orNull, sequence } from '../../api/fields.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

const query = z.strictObject({
  after: sequence.default(0).describe('last_seq of a page, or sequence of an event, behind which to begin'),
  ...eventFilter.shape,
  order: orderQuery.default('oldest'),
  limit: z.coerce.number().int().min(1).max(1000).exactOptional().describe('a page has 100, a stream all'),
  cursor: orNull(sequence).describe('next_cursor of the page before'),
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
