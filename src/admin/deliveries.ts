/**
 * `/deliveries`: what is and was owed to receivers, with every attempt.
 */
import { z } from 'zod';
import type { Operations } from '../hub/hub.ts';
import { anyId, bound, filter, listOf, pageQuery, partyId } from './fields.ts';
import { type AdminRoute, route } from './route.ts';

const state = z.enum(['PENDING', 'DELIVERED', 'DEAD']);

export const delivery = z.object({
  id: z.string(),
  state,
  receiver: z.string(),
  sender: z.string(),
  module: z.string(),
  object: z.string().meta({ description: '{cc}-{pid}/{id}' }),
  method: z.string(),
  seq: z.number(),
  correlation_id: z.string().nullable(),
  accepted_at: z.string(),
  due_at: z.string().nullable(),
  reason: z.string().nullable(),
  attempts: z.array(
    z.object({
      at: z.string(),
      duration_ms: z.number(),
      http_status: z.number().nullable(),
      ocpi_status: z.number().nullable(),
      class: z.string(),
      excerpt: z.string(),
    }),
  ),
});

const query = z.strictObject({
  state: state.exactOptional(),
  receiver: partyId.exactOptional(),
  module: filter,
  object: filter,
  from: bound.exactOptional(),
  to: bound.exactOptional(),
  ...pageQuery,
});

export function deliveries(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/deliveries',
      role: 'viewer',
      summary: 'List deliveries, newest first; from and to bound accepted_at',
      query,
      answer: listOf(delivery),
      run: ({ query: { limit, cursor, ...wanted } }) => operations.deliveries(wanted, { limit, cursor }),
    }),
    route({
      method: 'GET',
      path: '/deliveries/{id}',
      role: 'viewer',
      summary: 'Show a delivery',
      params: z.strictObject({ id: anyId }),
      answer: delivery,
      run: ({ params: { id } }) => operations.delivery(id),
    }),
  ];
}
