/**
 * Routes `/orphans`: orphan cases (a stopped session without COMPLETED, a completed session without CDR) and sessions
 * still in their grace period. [D36]
 */
import * as z from 'zod';
import { listOf } from '../../api/common.ts';
import { assignee, idParams, orNull, pageQuery, triageBody, triageChange } from '../../api/fields.ts';
import { type OrphanView, orphan, orphanState } from '../../api/orphans.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, pageOf, route } from '../route.ts';

const note = z.string().trim().min(1).max(500).nullable().default(null);

/** Sorts by opening time; cases still in their grace period, which have none, come last. */
const keyOf = ({ opened_at, id }: OrphanView) => `${opened_at ?? '~'} ${id}`;

export function orphans(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/orphans',
      summary:
        'List orphan cases, oldest first; sessions still in their grace are no cases and are listed with state=GRACE',
      query: z.strictObject({
        state: orNull(orphanState).describe('OPEN and RESOLVED when absent'),
        assignee: orNull(assignee),
        ...pageQuery,
      }),
      answer: listOf(orphan),
      run: async ({ query: { state, assignee, ...page } }) =>
        pageOf(await operations.orphans(state, assignee), keyOf, page),
    }),
    route({
      method: 'POST',
      path: '/orphans/{id}/pull',
      role: 'support',
      summary: 'Query the CPO of an open case again; its note then has the result',
      status: 202,
      params: idParams,
      answer: orphan,
      run: ({ params: { id }, trace }) => operations.pullOrphan(id, trace),
    }),
    route({
      method: 'POST',
      path: '/orphans/{id}/triage',
      role: 'support',
      summary: 'Assign or snooze an open case, or remark on it; what is absent stays',
      params: idParams,
      body: triageBody,
      answer: orphan,
      run: ({ params: { id }, body, trace }) => operations.triageOrphan(id, triageChange(body), trace),
    }),
    route({
      method: 'POST',
      path: '/orphans/{id}/resolve',
      role: 'support',
      summary: 'Close an open case by hand',
      params: idParams,
      body: z.strictObject({ note }).default({ note: null }),
      answer: orphan,
      run: ({ params: { id }, body, trace }) => operations.resolveOrphan(id, body.note, trace),
    }),
  ];
}
