/**
 * `/deliveries`: what is and was owed to receivers, with every attempt.
 */
import { z } from 'zod';
import type { Operations } from '../hub/operator.ts';
import { anyId, bound, delivery, deliveryState, filter, listOf, pageQuery, partyId } from './fields.ts';
import { type AdminRoute, route } from './route.ts';

const query = z.strictObject({
  state: deliveryState.exactOptional(),
  receiver: partyId.exactOptional(),
  module: filter,
  object: filter,
  from: bound.exactOptional(),
  to: bound.exactOptional(),
  ...pageQuery,
});

const deadGroup = z.object({
  receiver: z.string(),
  module: z.string(),
  class: z.string(),
  count: z.number(),
  oldest_at: z.string(),
  newest_at: z.string(),
  sample: z.string().meta({ description: 'id of one of them' }),
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
      path: '/dead-letters',
      role: 'viewer',
      summary: 'Count dead letters by receiver, module and class, most first',
      answer: z.object({ items: z.array(deadGroup) }),
      run: async () => ({ items: await operations.deadGroups() }),
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
