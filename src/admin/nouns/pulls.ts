/**
 * Routes `/parties/{id}/pull/…`, `/pulls` and `/quarantine`: pull a CPO's own lists at an operator's request, and show
 * the objects that were refused. [interface, Admin pulls; D51]
 */
import * as z from 'zod';
import { listOf } from '../../api/common.ts';
import { idParams, pageQuery, partnerParams } from '../../api/fields.ts';
import { pull, pulledModules, pullFilter, refusedObject } from '../../api/pulls.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

const asked = z.strictObject({
  full: z.boolean().default(false).describe('the whole list, not what changed since the last successful pull'),
  forward: z.boolean().default(false).describe('send what is new to the routed eMSPs'),
});

const summaries = {
  locations: 'Pull the locations that a CPO lists; deletes none',
  tariffs: 'Pull the tariffs that a CPO lists; with full, stored tariffs that the list lacks are deleted',
} as const;

export function pulls(operations: Operations): AdminRoute[] {
  return [
    ...pulledModules.map((module) =>
      route({
        method: 'POST',
        path: `/parties/{id}/pull/${module}`,
        summary: summaries[module],
        status: 202,
        params: partnerParams,
        body: asked.default({ full: false, forward: false }),
        answer: z.object({ id: z.string() }),
        run: ({ params: { id }, body, trace }) => operations.startPull(id, module, body, trace),
      }),
    ),
    route({
      method: 'GET',
      path: '/pulls',
      summary: 'List pulls, newest first',
      query: pullFilter.extend(pageQuery),
      answer: listOf(pull),
      run: ({ query: { limit, cursor, ...filter } }) => operations.pulls(filter, { limit, cursor }),
    }),
    route({
      method: 'GET',
      path: '/pulls/{id}',
      summary: 'Show how far a pull has come',
      params: idParams,
      answer: pull,
      run: ({ params: { id } }) => operations.pull(id),
    }),
    route({
      method: 'DELETE',
      path: '/pulls/{id}',
      summary: 'Cancel a running pull; what was stored stays stored',
      params: idParams,
      answer: pull,
      run: ({ params: { id }, trace }) => operations.cancelPull(id, trace),
    }),
    route({
      method: 'GET',
      path: '/quarantine',
      showsBodies: true,
      summary: 'List objects that pulls refused, newest first',
      query: z.strictObject(pageQuery),
      answer: listOf(refusedObject),
      run: ({ query }) => operations.quarantine(query),
    }),
  ];
}
