/**
 * Route `/stored-not-forwarded`: sessions and CDRs that were stored but not forwarded, with the reason. [D23]
 */
import { z } from 'zod';
import type { Operations } from '../../hub/ports/operator.ts';
import { listOf, pageQuery } from '../fields.ts';
import { type AdminRoute, route } from '../route.ts';

const stored = z.object({
  module: z.string(),
  object: z.string().meta({ description: '{cc}-{pid}/{id}' }),
  cpo: z.string(),
  reason: z.string(),
  at: z.string(),
});

export function storedNotForwarded(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/stored-not-forwarded',
      role: 'viewer',
      summary: 'List sessions and CDRs without a usable cdr_token',
      query: z.strictObject(pageQuery),
      answer: listOf(stored),
      run: ({ query }) => operations.storedNotForwarded(query),
    }),
  ];
}
