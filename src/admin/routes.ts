/**
 * `/routes`: routing rules of eMSP–CPO pairs.
 */
import { z } from 'zod';
import type { Operations } from '../hub/operator.ts';
import { listOf, pageQuery, partyId } from './fields.ts';
import { type AdminRoute, noAnswer, pageOf, route } from './route.ts';

const rule = z.object({ emsp: z.string(), cpo: z.string(), active: z.boolean() });
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
      summary: 'Set the routing rule of a pair; pushes nothing by itself',
      params,
      body: z.strictObject({ active: z.boolean().default(true) }).default({ active: true }),
      answer: rule,
      run: ({ params: { emsp, cpo }, body, trace }) => operations.setRoute(emsp, cpo, body.active, trace),
    }),
    route({
      method: 'DELETE',
      path: '/routes/{emsp}/{cpo}',
      role: 'admin',
      summary: 'Remove the routing rule of a pair',
      status: 204,
      params,
      answer: noAnswer,
      run: ({ params: { emsp, cpo }, trace }) => operations.removeRoute(emsp, cpo, trace),
    }),
  ];
}
