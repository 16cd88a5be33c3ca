/** Routes `/routes`: routing rules of eMSP–CPO pairs. */
import * as z from 'zod';
import { listOf } from '../../api/common.ts';
import { pageQuery, pairFilter, pairQuery, partnerFilter, partyId } from '../../api/fields.ts';
import { routingRule, ruleSet } from '../../api/routes.ts';
import { isOfPair, keyOf, namesEither } from '../../domain/party.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, noAnswer, pageOf, route } from '../route.ts';

const params = z.strictObject({ emsp: partyId, cpo: partyId });

export function routes(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/routes',
      summary: 'List routing rules',
      query: z.strictObject({
        ...pairQuery,
        party: pairFilter,
        partner: partnerFilter,
        ...pageQuery,
      }),
      answer: listOf(routingRule),
      run: ({ query: { emsp, cpo, party, partner, ...page } }) => {
        const own = partner === undefined ? null : new Set(operations.party(partner).roles.map(keyOf));
        const found = operations
          .routes()
          .filter((rule) => isOfPair(rule, { emsp, cpo }) && namesEither(rule, party))
          .filter((rule) => own === null || own.has(rule.emsp) || own.has(rule.cpo));
        return pageOf(found, ({ emsp, cpo }) => `${emsp} ${cpo}`, page);
      },
    }),
    route({
      method: 'PUT',
      path: '/routes/{emsp}/{cpo}',
      summary: 'Set the routing rule of a pair; an active one releases the sessions and CDRs that were kept for it',
      params,
      body: z.strictObject({ active: z.boolean().default(true) }).default({ active: true }),
      answer: ruleSet,
      run: ({ params: { emsp, cpo }, body, trace }) => operations.setRoute(emsp, cpo, body.active, trace),
    }),
    route({
      method: 'DELETE',
      path: '/routes/{emsp}/{cpo}',
      summary: 'Remove the routing rule of a pair; 204 also when there is none',
      status: 204,
      params,
      answer: noAnswer,
      run: ({ params: { emsp, cpo }, trace }) => operations.removeRoute(emsp, cpo, trace),
    }),
  ];
}
