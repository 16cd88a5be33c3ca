/**
 * Routes `/routes`: routing rules of eMSP–CPO pairs.
 */
import { z } from 'zod';
import type { Operations } from '../../hub/ports/operator.ts';
import { listOf, pageQuery, partyId } from '../fields.ts';
import { type AdminRoute, noAnswer, pageOf, route } from '../route.ts';

const rule = z.object({ emsp: z.string(), cpo: z.string(), active: z.boolean() });
const answered = rule.extend({
  released: z.number().meta({
    description:
      'sessions and CDRs that were kept for this pair and are owed to the eMSP now; they are on their way as whole objects',
  }),
});
const params = z.strictObject({ emsp: partyId, cpo: partyId });

export function routes(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/routes',
      role: 'viewer',
      summary: 'List routing rules',
      query: z.strictObject(pageQuery),
      answer: listOf(rule),
      run: ({ query }) => pageOf(operations.routes(), ({ emsp, cpo }) => `${emsp} ${cpo}`, query),
    }),
    route({
      method: 'PUT',
      path: '/routes/{emsp}/{cpo}',
      role: 'admin',
      summary: 'Set the routing rule of a pair; an active one releases the sessions and CDRs that were kept for it',
      params,
      body: z.strictObject({ active: z.boolean().default(true) }).default({ active: true }),
      answer: answered,
      run: ({ params: { emsp, cpo }, body, trace }) => operations.setRoute(emsp, cpo, body.active, trace),
    }),
    route({
      method: 'DELETE',
      path: '/routes/{emsp}/{cpo}',
      role: 'admin',
      summary: 'Remove the routing rule of a pair; 204 also when there is none',
      status: 204,
      params,
      answer: noAnswer,
      run: ({ params: { emsp, cpo }, trace }) => operations.removeRoute(emsp, cpo, trace),
    }),
  ];
}
