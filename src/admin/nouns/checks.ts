/** Routes `/parties/{id}/check` and `/checks`: try out a partner's endpoints before traffic flows. */
import * as z from 'zod';
import { check } from '../../api/checks.ts';
import { idParams, partnerId, partnerParams } from '../../api/fields.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

const asked = z.strictObject({
  write: z.boolean().default(false).describe('also send test objects and a test command'),
});

export function checks(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'POST',
      path: '/parties/{id}/check',
      summary: "Check a partner's endpoints against OCPI: what will break, where OCPI says so, what heals it",
      status: 202,
      params: partnerParams,
      body: asked.default({ write: false }),
      answer: z.object({ id: z.string() }),
      run: async ({ params: { id }, body: { write }, trace }) => ({ id: operations.startCheck(id, write, trace) }),
    }),
    route({
      method: 'GET',
      path: '/checks',
      summary: 'List the checks that are kept, of one partner or of all, newest first',
      query: z.strictObject({ party: partnerId.exactOptional() }),
      answer: z.object({ items: z.array(check) }),
      rows: 'items',
      run: async ({ query: { party = null } }) => ({ items: operations.checks(party) }),
    }),
    route({
      method: 'GET',
      path: '/checks/{id}',
      summary:
        'Show a check and what it has found; the hub keeps the last 100, of a partner the last 10, until it restarts',
      params: idParams,
      answer: check,
      run: async ({ params: { id } }) => operations.checkOf(id),
    }),
  ];
}
