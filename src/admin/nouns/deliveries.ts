/**
 * Routes `/deliveries` and `/dead-letters`: pending and ended deliveries with every attempt, and counts of dead
 * letters.
 */
import * as z from 'zod';
import { listOf, triage } from '../../api/common.ts';
import {
  deadGroup,
  delivery,
  deliveryDetail,
  deliveryFilter,
  unforwarded,
  unforwardedFilter,
} from '../../api/deliveries.ts';
import {
  assignee,
  idParams,
  orderQuery,
  orNull,
  pageQuery,
  partyId,
  triageBody,
  triageChange,
} from '../../api/fields.ts';
import { outcomeClasses } from '../../domain/errors.ts';
import { moduleNames } from '../../domain/modules.ts';
import type { DeliveryDetail, Operations } from '../../hub/ports/operator.ts';
import { readId, writeHeaders } from '../../transport/headers.ts';
import { type AdminRoute, route } from '../route.ts';

const query = deliveryFilter.extend({ order: orderQuery.default('newest'), ...pageQuery });

const hiddenToken = '***';

/** Adds the headers that an attempt sends, except the token. */
function shown({ request: { from, to, ...request }, ...view }: DeliveryDetail) {
  const requestId = readId(undefined);
  const correlationId = view.correlation_id ?? readId(undefined);
  const headers = writeHeaders({ token: hiddenToken, encoding: 'plain', from, to, requestId, correlationId });
  return { ...view, request: { ...request, headers } };
}

export function deliveries(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/deliveries',
      summary: 'List deliveries, newest first unless asked; from and to bound accepted_at',
      query,
      answer: listOf(delivery),
      run: ({ query: { limit, cursor, order, ...wanted } }) => operations.deliveries(wanted, { limit, cursor, order }),
    }),
    route({
      method: 'GET',
      path: '/dead-letters',
      summary: 'Count dead letters by receiver, module and class, most first',
      query: z.strictObject({ assignee: orNull(assignee) }),
      answer: z.object({ items: z.array(deadGroup) }),
      rows: 'items',
      run: async ({ query }) => ({ items: await operations.deadGroups(query.assignee) }),
    }),
    route({
      method: 'POST',
      path: '/dead-letters/{receiver}/{module}/{class}/triage',
      role: 'support',
      summary: 'Assign or snooze a group of dead letters, or remark on it; what is absent stays',
      params: z.strictObject({ receiver: partyId, module: z.enum(moduleNames), class: z.enum(outcomeClasses) }),
      body: triageBody,
      answer: triage,
      run: ({ params, body, trace }) => operations.triageDeadGroup(params, triageChange(body), trace),
    }),
    route({
      method: 'GET',
      path: '/deliveries/{id}',
      showsBodies: true,
      summary: 'Show a delivery, the request that carries it, its token hidden, and what it changes for its receiver',
      params: idParams,
      answer: deliveryDetail,
      run: async ({ params: { id } }) => shown(await operations.delivery(id)),
    }),
  ];
}

// Route `/stored-not-forwarded`: sessions and CDRs that have no owning eMSP, or one that was not registered, with the
// reason. [D23]

export function storedNotForwarded(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/stored-not-forwarded',
      summary:
        'List sessions and CDRs that are stored and not forwarded: without a usable cdr_token or routing rule, or kept for an eMSP that was not registered',
      query: unforwardedFilter.extend(pageQuery),
      answer: listOf(unforwarded),
      run: ({ query: { limit, cursor, ...filter } }) => operations.storedNotForwarded(filter, { limit, cursor }),
    }),
  ];
}
