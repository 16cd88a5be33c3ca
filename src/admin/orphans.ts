/**
 * `/orphans`: stopped sessions without COMPLETED, and their timers.
 */
import { z } from 'zod';
import type { Operations, OrphanView } from '../hub/hub.ts';
import { listOf, pageQuery } from './fields.ts';
import { type AdminRoute, pageOf, route } from './route.ts';

const state = z.enum(['GRACE', 'OPEN', 'RESOLVED']);

const orphan = z.object({
  id: z.string(),
  kind: z.string(),
  state,
  session: z.string().meta({ description: '{cc}-{pid}/{id}' }),
  cpo: z.string(),
  emsp: z.string(),
  opened_at: z.string().nullable(),
  resolved_at: z.string().nullable(),
  note: z.string().nullable(),
});

/** By opening, those still in their grace last. */
const keyOf = ({ opened_at, id }: OrphanView) => `${opened_at ?? '~'} ${id}`;

export function orphans(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/orphans',
      role: 'viewer',
      summary: 'List orphan cases, oldest first',
      query: z.strictObject({ state: state.nullable().default(null), ...pageQuery }),
      answer: listOf(orphan),
      run: async ({ query: { state, ...page } }) => pageOf(await operations.orphans(state), keyOf, page),
    }),
  ];
}
