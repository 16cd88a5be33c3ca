/**
 * Routes `/parties/{id}/pull/…`, `/pulls` and `/quarantine`: pull a CPO's own lists at an operator's request, and show
 * the objects that were refused. [interface, Admin pulls; D51]
 */
import { z } from 'zod';
import type { Operations } from '../../hub/ports/operator.ts';
import { anyId, listOf, pageQuery, partnerId } from '../fields.ts';
import { type AdminRoute, route } from '../route.ts';

const modules = ['locations', 'tariffs'] as const;

const count = z.number().int();

const pull = z.object({
  id: z.string(),
  party: z.string(),
  module: z.enum(modules),
  state: z.enum(['RUNNING', 'DONE', 'FAILED']),
  full: z.boolean().meta({ description: 'the whole list was asked for' }),
  forward: z.boolean(),
  date_from: z.string().nullable(),
  pages: count,
  received: count,
  stored: count,
  unchanged: count,
  invalid: count.meta({ description: 'refused; GET /quarantine has them' }),
  deleted: count.meta({ description: 'tariffs that the whole list does not have any more' }),
  error: z.string().exactOptional(),
  note: z.string().nullable(),
  started_at: z.string(),
  ended_at: z.string().nullable(),
});

const refused = z.object({
  party: z.string(),
  module: z.enum(modules),
  object: z.string().nullable().meta({ description: '{cc}-{pid}/{id}' }),
  reason: z.string(),
  pull: z.string(),
  at: z.string(),
  text: z.string().meta({ description: 'as it came' }),
});

const asked = z.strictObject({
  full: z
    .boolean()
    .default(false)
    .meta({ description: 'the whole list, not what changed since the last successful pull' }),
  forward: z.boolean().default(false).meta({ description: 'send what is new to the routed eMSPs' }),
});

export function pulls(operations: Operations): AdminRoute[] {
  return [
    ...modules.map((module) =>
      route({
        method: 'POST',
        path: `/parties/{id}/pull/${module}`,
        role: 'admin',
        summary: `Pull the ${module} that a CPO lists; a pull of the whole list replaces its tariffs`,
        status: 202,
        params: z.strictObject({ id: partnerId }),
        body: asked.default({ full: false, forward: false }),
        answer: z.object({ id: z.string() }),
        run: ({ params: { id }, body, trace }) => operations.startPull(id, module, body, trace),
      }),
    ),
    route({
      method: 'GET',
      path: '/pulls',
      role: 'viewer',
      summary: 'List pulls, newest first',
      query: z.strictObject(pageQuery),
      answer: listOf(pull),
      run: ({ query }) => operations.pulls(query),
    }),
    route({
      method: 'GET',
      path: '/pulls/{id}',
      role: 'viewer',
      summary: 'Show how far a pull has come',
      params: z.strictObject({ id: anyId }),
      answer: pull,
      run: ({ params: { id } }) => operations.pull(id),
    }),
    route({
      method: 'GET',
      path: '/quarantine',
      role: 'viewer',
      summary: 'List objects that pulls refused, newest first',
      query: z.strictObject(pageQuery),
      answer: listOf(refused),
      run: ({ query }) => operations.quarantine(query),
    }),
  ];
}
