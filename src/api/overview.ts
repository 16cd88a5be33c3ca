/** Answer about all partners at once. */
import * as z from 'zod';
import { role, type View } from './common.ts';
import { hostChange, lastError } from './parties.ts';

const circuit = z.enum(['closed', 'open', 'halfOpen']);

const row = z.object({
  id: z.string(),
  parties: z.array(z.string()),
  names: z.array(z.string()),
  roles: z.array(role),
  status: z.enum(['REGISTERED', 'CONNECTED', 'OFFLINE', 'SUSPENDED']),
  paused: z.boolean(),
  host_change: hostChange.nullable(),
  sync: circuit,
  results: circuit,
  async: circuit,
  depth: z.number().describe('deliveries that wait, in memory and in the log'),
  behind: z.boolean().describe('more wait: what a restart left in the log is still being counted'),
  oldest_at: z.string().nullable().describe('since when the oldest of them is owed or was re-driven'),
  dead: z.number(),
  dead_snoozed: z.number().describe('of these, in groups that an operator has snoozed'),
  overdue: z.number().describe('what should have gone out a minute ago or more, though nothing holds it back'),
  delivered: z.number().describe('since the hub started'),
  received: z.number().describe('pushes since the hub started'),
  silent_since: z.string().nullable().describe('of a connected CPO that pushes nothing'),
  last_error: lastError.nullable(),
});

const totals = z.object({
  partners: z.number(),
  commands: z.record(z.string(), z.number()).describe('under way, by state'),
  watches: z.number().describe('sessions that are watched for their end or their CDR'),
  open_cases: z.number(),
  snoozed_cases: z.number().describe('of these, snoozed by an operator'),
  quarantined: z.array(z.object({ actor: z.string(), error: z.string().nullable() })),
  store: z.object({ state: z.string(), reason: z.string().nullable() }),
  untold: z.array(z.string()).describe('webhooks, and mail, that did not take the last attempt of a notification'),
  log_held: z
    .object({
      since: z.string().describe('the oldest event that stays'),
      by: z.array(z.string()).describe('partners to whom it or what follows is still owed'),
    })
    .nullable()
    .describe('events older than HUB_EVENTS_KEEP_DAYS that stay because they are still owed'),
});

export const overviewOfAll = z.object({
  revision: z.string(),
  full: z.boolean().describe('all partners, not those alone that have changed'),
  at: z.string(),
  rows: z.array(row),
  totals,
});

export type OverviewRow = View<typeof row>;
export type OverviewTotals = View<typeof totals>;
export type OverviewView = View<typeof overviewOfAll>;
