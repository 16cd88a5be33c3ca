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
