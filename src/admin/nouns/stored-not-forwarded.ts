/**
 * Route `/stored-not-forwarded`: sessions and CDRs that have no owning eMSP, or one that was not registered, with the
 * reason. [D23]
 */
import { listOf } from '../../api/common.ts';
import { unforwarded, unforwardedFilter } from '../../api/deliveries.ts';
import { pageQuery } from '../../api/fields.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

export function storedNotForwarded(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/stored-not-forwarded',
      summary:
        'List sessions and CDRs that are stored and not forwarded: without a usable cdr_token or routing rule, or kept for an eMSP that was not registered',
      query: unforwardedFilter.extend(pageQuery),
      answer: listOf(unforwarded),
      run: ({ query: { limit, cursor, ...filter } }) => operations.storedNotForwarded(filter, { limit, cursor }),
    }),
  ];
}
