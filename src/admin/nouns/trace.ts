/**
 * Routes `/trace` (what happened to an object or correlation id, and why) and `/routes/explain` (what would happen).
 */
import { z } from 'zod';
import type { Operations } from '../../hub/ports/operator.ts';
import { anyId, delivery, partyId } from '../fields.ts';
import { type AdminRoute, route } from '../route.ts';

const story = z.object({
  key: z.string(),
  kind: z.enum(['object', 'correlation']),
  steps: z.array(
    z.object({
      seq: z.number(),
      at: z.string(),
      type: z.string(),
      party: z.string().nullable(),
      module: z.string().nullable(),
      object: z.string().nullable(),
      correlation_id: z.string().nullable(),
      summary: z.string(),
      not_forwarded: z.string().nullable().meta({ description: 'why nobody is owed it, in a sentence' }),
      warnings: z.array(z.string()),
      deliveries: z.array(delivery),
    }),
  ),
});

const explanation = z.object({
  from: z.string(),
  to: z.string(),
  module: z.string(),
  delivers: z.boolean(),
  conditions: z.array(z.object({ holds: z.boolean(), because: z.string() })),
});

export function trace(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/trace/{key}',
      role: 'viewer',
      summary: 'Tell the story of a correlation id, or of an object by its percent-encoded key',
      params: z.strictObject({ key: anyId }),
      answer: story,
      run: ({ params: { key } }) => operations.trace(key),
    }),
    route({
      method: 'GET',
      path: '/trace/{party}/{id}',
      role: 'viewer',
      summary: 'Tell the story of the objects {cc}-{pid}/{id}',
      params: z.strictObject({ party: partyId, id: anyId }),
      answer: story,
      run: ({ params: { party, id } }) => operations.trace(`${party}/${id}`),
    }),
    route({
      method: 'GET',
      path: '/routes/explain',
      role: 'viewer',
      summary: 'Say whether one party gets a module of another, and why or why not',
      query: z.strictObject({ from: partyId, to: partyId, module: anyId }),
      answer: explanation,
      run: ({ query: { from, to, module } }) => operations.explain(from, to, module),
    }),
  ];
}
