/** Answers about the hub itself: its state, and backups of its store. */
import { z } from 'zod';
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
      .meta({ description: 'while the log is verified in the background; nothing is trimmed meanwhile' }),
  }),
  clock_step: z
    .object({ seconds: z.number(), ago_s: z.number() })
    .nullable()
    .meta({ description: 'how far the wall clock was moved the last time since the start' }),
  sequence: z.number(),
  actors: z.record(z.string(), z.record(z.string(), z.number())).meta({ description: 'kind, state, count' }),
  backlog: z.object({ depth: z.number(), oldest_age_s: z.number().nullable() }),
});

export type HubStatus = View<typeof hubStatus>;

export const backup = z.object({
  id: z.string(),
  directory: z.string(),
  state: z.enum(['RUNNING', 'DONE', 'FAILED', 'INTERRUPTED']),
  step: z.enum(['copying', 'verifying']).nullable(),
  records: z.number().meta({ description: 'copied, then verified' }),
  bytes: z.number().nullable(),
  sequence: z.number().nullable().meta({ description: 'last event that it holds' }),
  sealed_for: z
    .string()
    .nullable()
    .meta({ description: 'fingerprint of the public key for which it is sealed; null until then, or when it is not' }),
  started_at: instant,
  ended_at: instant.nullable(),
  error: z.string().nullable(),
});

export type BackupView = View<typeof backup>;
