/**
 * Routes `/trace` (what happened to an object or correlation id, and why) and `/routes/explain` (what would happen).
 */
import * as z from 'zod';
import { anyId, orNull, partyId, sequence } from '../../api/fields.ts';
import { explanation } from '../../api/routes.ts';
import { story } from '../../api/trace.ts';
import { moduleNames } from '../../domain/modules.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

const further = z.strictObject({
  cursor: orNull(sequence).describe('next_cursor of the answer before'),
});

export function trace(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/trace/{key}',
      summary:
        'Tell the story of a correlation id, a command, an orphan case, or an object by its percent-encoded key or id alone',
      params: z.strictObject({ key: anyId }),
      query: further,
      answer: story,
      run: ({ params: { key }, query: { cursor } }) => operations.trace(key, cursor),
    }),
    route({
      method: 'GET',
      path: '/trace/{party}/{id}',
      summary: 'Tell the story of the objects {cc}-{pid}/{id}',
      params: z.strictObject({ party: partyId, id: anyId }),
      query: further,
      answer: story,
      run: ({ params: { party, id }, query: { cursor } }) => operations.trace(`${party}/${id}`, cursor),
    }),
    route({
      method: 'GET',
      path: '/routes/explain',
      summary: 'Say whether one party gets a module of another, and why or why not',
      query: z.strictObject({ from: partyId, to: partyId, module: z.enum(moduleNames) }),
      answer: explanation,
      run: ({ query: { from, to, module } }) => operations.explain(from, to, module),
    }),
  ];
}
