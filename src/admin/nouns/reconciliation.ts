/** Route `/reconciliation`: sessions compared with the CDRs that bill them. */
import * as z from 'zod';
import { bound, pairQuery } from '../../api/fields.ts';
import { reconciliation as answer } from '../../api/reconciliation.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

export function reconciliation(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/reconciliation',
      summary: 'Compare the sessions of a period with the CDRs that bill them',
      query: z.strictObject({
        from: bound.describe('RFC 3339, inclusive, of last_updated'),
        to: bound.exactOptional().describe('RFC 3339, exclusive; absent: until now'),
        ...pairQuery,
        grace_h: z.coerce
          .number()
          .min(0)
          .max(8760)
          .default(24)
          .describe('hours that a CPO has to bill a completed session'),
        tolerance_kwh: z.coerce.number().min(0).max(1000).default(0.01).describe('difference of energies that is none'),
      }),
      answer,
      run: ({ query: { grace_h: graceH, tolerance_kwh: toleranceKwh, ...filter } }) =>
        operations.reconciliation({ ...filter, graceH, toleranceKwh }),
    }),
  ];
}
