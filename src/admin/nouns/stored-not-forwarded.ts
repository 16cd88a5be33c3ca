/**
 * Route `/stored-not-forwarded`: sessions and CDRs that were stored but not forwarded, with the reason. [D23]
 */
import { z } from 'zod';
import { listOf } from '../../api/common.ts';
import { unforwarded } from '../../api/deliveries.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { pageQuery } from '../fields.ts';
import { type AdminRoute, route } from '../route.ts';

export function storedNotForwarded(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/stored-not-forwarded',
      summary: 'List sessions and CDRs without a usable cdr_token',
      query: z.strictObject(pageQuery),
      answer: listOf(unforwarded),
      run: ({ query }) => operations.storedNotForwarded(query),
    }),
  ];
}
