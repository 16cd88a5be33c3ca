/**
 * Route `/overview`: one row per partner, for pages that poll. A poller sends the revision that it has and gets the
 * rows that have changed since.
 */
import { z } from 'zod';
import { overviewOfAll } from '../../api/overview.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

const after = z.string().min(1).max(64).exactOptional().meta({ description: 'revision of the answer before' });

export function overview(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/overview',
      summary:
        'Show every partner in a row, or the rows that have changed since a revision, and what runs and is wrong',
      query: z.strictObject({ after }),
      answer: overviewOfAll,
      run: ({ query: { after } }) => operations.overview(after),
    }),
  ];
}
