/**
 * Routes `/trace` (what happened to an object or correlation id, and why) and `/routes/explain` (what would happen).
 */
import { z } from 'zod';
import { explanation } from '../../api/routes.ts';
import { story } from '../../api/trace.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { anyId, partyId } from '../fields.ts';
import { type AdminRoute, route } from '../route.ts';

export function trace(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/trace/{key}',
      summary: 'Tell the story of a correlation id, or of an object by its percent-encoded key',
      params: z.strictObject({ key: anyId }),
      answer: story,
      run: ({ params: { key } }) => operations.trace(key),
    }),
    route({
      method: 'GET',
      path: '/trace/{party}/{id}',
      summary: 'Tell the story of the objects {cc}-{pid}/{id}',
      params: z.strictObject({ party: partyId, id: anyId }),
      answer: story,
      run: ({ params: { party, id } }) => operations.trace(`${party}/${id}`),
    }),
    route({
      method: 'GET',
      path: '/routes/explain',
      summary: 'Say whether one party gets a module of another, and why or why not',
      query: z.strictObject({ from: partyId, to: partyId, module: anyId }),
      answer: explanation,
      run: ({ query: { from, to, module } }) => operations.explain(from, to, module),
    }),
  ];
}
