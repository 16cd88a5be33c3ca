/** Answers about the hub itself: its state, and backups of its store. */
import * as z from 'zod';
import { instant, type View } from './common.ts';

export const hubStatus = z.object({
  version: z.string(),
  uptime_s: z.number(),
  ready: z.boolean(),
  store: z.object({
    state: z.string(),
    reason: z.string().nullable(),
    verifying: z
      .object({ verified: z.number(), events: z.number() })
      .nullable()
      .describe('while the log is verified in the background; nothing is trimmed meanwhile'),
  }),
  clock_step: z
    .object({ seconds: z.number(), ago_s: z.number() })
    .nullable()
    .describe('how far the wall clock was moved the last time since the start'),
  sequence: z.number(),
  actors: z.record(z.string(), z.record(z.string(), z.number())).describe('kind, state, count'),
  backlog: z.object({ depth: z.number(), oldest_age_s: z.number().nullable() }),
});

export type HubStatus = View<typeof hubStatus>;

export const backup = z.object({
  id: z.string(),
  directory: z.string(),
  state: z.enum(['RUNNING', 'DONE', 'FAILED', 'INTERRUPTED']),
  step: z.enum(['copying', 'verifying']).nullable(),
  records: z.number().describe('copied, then verified'),
  bytes: z.number().nullable(),
  sequence: z.number().nullable().describe('last event that it holds'),
  sealed_for: z
    .string()
    .nullable()
    .describe('fingerprint of the public key for which it is sealed; null until then, or when it is not'),
  started_at: instant,
  ended_at: instant.nullable(),
  error: z.string().nullable(),
});

export type BackupView = View<typeof backup>;

// Answers about the nodes of a hub.

export const node = z.object({
  name: z.string(),
  url: z.string().nullable().describe('how other nodes reach it'),
  alive: z.boolean().describe('its lease stands'),
  reached: z
    .enum(['itself', 'another', 'stranger', 'nobody'])
    .nullable()
    .describe(
      'who answers at its URL, as the node that answers last found: the node itself, another node, somebody who does not take its secret',
    ),
  owner: z.boolean().describe('it runs the hub; the others pass on to it what they are asked'),
  answering: z.boolean().describe('it is the node that gave this answer'),
});

export const clusterView = z.object({
  store: z.enum(['level', 'postgres']),
  role: z.enum(['owner', 'gaining', 'standby', 'isolated', 'leaving']).describe('of the node that answers'),
  warning: z.string().nullable().describe('what an operator should mend at the node that answers; null: nothing'),
  lease_s: z.number().nullable(),
  head: z.number().describe('events in the log since its beginning'),
  database: z
    .object({
      clock_ahead_ms: z.number().describe('its clock less that of the node that answers'),
      oldest_transaction: z.object({ since: z.string(), who: z.string() }).nullable(),
    })
    .nullable()
    .describe('as the node that answers last saw it; null with the embedded store'),
  nodes: z.array(node),
});

export type ClusterView = View<typeof clusterView>;
export type ClusterNode = View<typeof node>;
