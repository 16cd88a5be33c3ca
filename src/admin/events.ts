/**
 * `/events`: the event log, oldest first. As `application/x-ndjson` it is streamed to its present end, page by page, so that
 * no part of it but a page is ever in memory.
 */
import { z } from 'zod';
import type { EventFilter, EventView, Operations } from '../hub/operator.ts';
import { filter, listOf } from './fields.ts';
import { type AdminRoute, route } from './route.ts';

const event = z.object({
  seq: z.number(),
  at: z.string(),
  type: z.string(),
  party: z.string().nullable(),
  object: z.string().nullable(),
  correlation_id: z.string().nullable(),
  data: z.unknown(),
});

const sequence = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

const query = z.strictObject({
  after: sequence.default(0).meta({ description: 'sequence behind which to begin' }),
  type: filter,
  party: filter,
  object: filter,
  correlation_id: filter,
  limit: z.coerce.number().int().min(1).max(1000).exactOptional().meta({ description: 'a page has 100, a stream all' }),
  cursor: sequence.nullable().default(null).meta({ description: 'next_cursor of the page before' }),
});

const pageDefault = 100;
const streamPage = 500;

export function events(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/events',
      role: 'viewer',
      summary: 'Read the event log; application/x-ndjson streams it to its present end',
      query,
      answer: listOf(event),
      run: ({ query: { after, cursor, limit = pageDefault, ...wanted } }) =>
        operations.events(wanted, cursor ?? after, limit),
      lines: ({ query: { after, cursor, limit = Infinity, ...wanted } }) =>
        stream(operations, wanted, cursor ?? after, limit),
    }),
  ];
}

async function* stream(
  operations: Operations,
  wanted: EventFilter,
  after: number,
  limit: number,
): AsyncGenerator<EventView> {
  let from = after;
  for (let left = limit; left > 0; ) {
    const { items, next_cursor } = await operations.events(wanted, from, Math.min(left, streamPage));
    yield* items;
    if (next_cursor === null) return;
    from = Number(next_cursor);
    left -= items.length;
  }
}
