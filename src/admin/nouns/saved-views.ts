/**
 * Routes `/views`: addresses of the console that operators keep under a name.
 */
import { z } from 'zod';
import { listOf } from '../../api/common.ts';
import { savedView } from '../../api/saved-views.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { pageQuery } from '../fields.ts';
import { type AdminRoute, noAnswer, pageOf, route } from '../route.ts';

const params = z.strictObject({ name: z.string().trim().min(1).max(60) });

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
      run: async ({ query }) => pageOf(await operations.savedViews(), ({ name }) => name, query),
    }),
    route({
      method: 'PUT',
      path: '/views/{name}',
      role: 'support',
      summary: 'Save a view, or another one under this name',
      params,
      body: z.strictObject({ path }),
      answer: savedView,
      run: ({ params: { name }, body, trace }) => operations.saveView(name, body.path, trace),
    }),
    route({
      method: 'DELETE',
      path: '/views/{name}',
      role: 'support',
      summary: 'Remove a saved view; 204 also when there is none',
      status: 204,
      params,
      answer: noAnswer,
      run: ({ params: { name }, trace }) => operations.removeView(name, trace),
    }),
  ];
}
