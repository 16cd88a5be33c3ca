/**
 * Route `/overview`: one row per partner, for pages that poll. A poller sends the revision that it has and gets the
 * rows that have changed since.
 */
import { z } from 'zod';
import type { Operations } from '../../hub/ports/operator.ts';
import { role } from '../fields.ts';
import { type AdminRoute, route } from '../route.ts';

const circuit = z.enum(['closed', 'open', 'halfOpen']);

const row = z.object({
  id: z.string(),
  parties: z.array(z.string()),
  names: z.array(z.string()),
  roles: z.array(role),
  status: z.enum(['REGISTERED', 'CONNECTED', 'OFFLINE', 'SUSPENDED']),
  paused: z.boolean(),
  sync: circuit,
  async: circuit,
  depth: z.number().meta({ description: 'deliveries that wait in memory' }),
  behind: z.boolean().meta({ description: 'more wait in the log' }),
  oldest_at: z.string().nullable().meta({ description: 'since when the oldest of them is owed or was put back' }),
  dead: z.number(),
  overdue: z
    .number()
    .meta({ description: 'what should have gone out a minute ago or more, though nothing holds it back' }),
  delivered: z.number().meta({ description: 'since the hub started' }),
});

const totals = z.object({
  partners: z.number(),
  commands: z.record(z.string(), z.number()).meta({ description: 'under way, by state' }),
  watches: z.number().meta({ description: 'sessions that are watched for their end or their CDR' }),
  open_cases: z.number(),
  quarantined: z.array(z.object({ actor: z.string(), error: z.string().nullable() })),
  store: z.object({ state: z.string(), reason: z.string().nullable() }),
  log_held: z
    .object({
      since: z.string().meta({ description: 'the oldest event that stays' }),
      by: z.array(z.string()).meta({ description: 'partners to whom it or what follows is still owed' }),
    })
    .nullable()
    .meta({ description: 'events older than HUB_EVENTS_KEEP_DAYS that stay because they are still owed' }),
});

const after = z.string().min(1).max(64).exactOptional().meta({ description: 'revision of the answer before' });

export function overview(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/overview',
      role: 'viewer',
      summary:
        'Show every partner in a row, or the rows that have changed since a revision, and what runs and is wrong',
      query: z.strictObject({ after }),
      answer: z.object({
        revision: z.string(),
        full: z.boolean().meta({ description: 'all partners, not those alone that have changed' }),
        at: z.string(),
        rows: z.array(row),
        totals,
      }),
      run: ({ query: { after } }) => operations.overview(after),
    }),
  ];
}
