/** Routes `/views`: addresses of the console that operators keep under a name. */
import * as z from 'zod';
import { listOf } from '../../api/common.ts';
import { idParams, pageQuery } from '../../api/fields.ts';
import { savedView } from '../../api/operators.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, noAnswer, pageOf, route } from '../route.ts';

/** In the body and not in the path: the audit log keeps paths, and an erasure does not look there. */
const name = z
  .string()
  .trim()
  .min(1)
  .max(60)
  .regex(/^\P{Cc}*$/u, 'expected text without control characters');

/** An address of this console alone: a link that an operator saves must not lead others elsewhere. */
const path = z
  .string()
  .max(1000)
  .regex(
    /^\/(?:[A-Za-z0-9_-]+(?:\/[A-Za-z0-9._~%-]+)*)?(?:\?[^#\s\\]*)?$/,
    'expected an address such as /deliveries?state=DEAD',
  );

export function savedViews(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/views',
      summary: 'List saved views, by name',
      query: z.strictObject(pageQuery),
      answer: listOf(savedView),
      run: async ({ query }) => pageOf(await operations.savedViews(), ({ name, id }) => `${name} ${id}`, query),
    }),
    route({
      method: 'POST',
      path: '/views',
      role: 'support',
      summary: 'Save a view; one of the same name is replaced',
      body: z.strictObject({ name, path }),
      answer: savedView,
      run: ({ body: { name, path }, trace }) => operations.saveView(name, path, trace),
    }),
    route({
      method: 'DELETE',
      path: '/views/{id}',
      role: 'support',
      summary: 'Remove a saved view; 204 also when there is none',
      status: 204,
      params: idParams,
      answer: noAnswer,
      run: ({ params: { id }, trace }) => operations.removeView(id, trace),
    }),
  ];
}
