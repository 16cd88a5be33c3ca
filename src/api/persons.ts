/** Answers about a person's data: what is stored, and its erasure. */
import * as z from 'zod';
import { instant, type View } from './common.ts';
import { event } from './events.ts';

export const erasure = z.object({
  id: z.string(),
  state: z.enum(['PLANNED', 'DONE']).describe('PLANNED for a dry run, which changes nothing'),
  at: instant,
  digests: z.array(z.string()).describe('what stands in place of uids, contract ids and visual numbers: keyed digests'),
  events: z.number().describe('events of the log that contain one of them'),
  rows: z.number().describe('stored objects, commands and index rows that contain one of them'),
  tokens: z.number().describe('tokens that are removed'),
  tokens_of: z
    .array(z.object({ emsp: z.string(), tokens: z.number() }))
    .describe('whose tokens these are: how many of each eMSP'),
  pending: z.number().describe('deliveries that are still owed: they would carry digests'),
  until_restart: z
    .array(z.string())
    .describe('files of the engine that name one of them until the hub is next started'),
});

export const subject = z.object({
  uids: z.array(z.string()).describe('of the eMSPs’ tokens, and the one asked for'),
  contracts: z.array(z.string()),
  rows: z
    .array(
      z.object({ kind: z.string(), owner: z.string(), id: z.string(), data: z.unknown(), body: z.string().nullable() }),
    )
    .describe('present state: tokens, sessions, CDRs, commands and what leads to them'),
  events: z.array(event.extend({ body: z.string().nullable() })).describe('the log, oldest first'),
});

export type ErasureView = View<typeof erasure>;
export type SubjectView = View<typeof subject>;
