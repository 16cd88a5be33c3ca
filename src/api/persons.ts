/** Answers about a person's data: what is stored, and its erasure. */
import * as z from 'zod';
import { instant, type View } from './common.ts';
import { event } from './events.ts';

export const erasure = z.object({
  id: z.string(),
  state: z.enum(['PLANNED', 'DONE']).meta({ description: 'PLANNED for a dry run, which changes nothing' }),
  at: instant,
  digests: z
    .array(z.string())
    .meta({ description: 'what stands in place of uids, contract ids and visual numbers: keyed digests' }),
  events: z.number().meta({ description: 'events of the log that contain one of them' }),
  rows: z.number().meta({ description: 'stored objects, commands and index rows that contain one of them' }),
  tokens: z.number().meta({ description: 'tokens that are removed' }),
  tokens_of: z
    .array(z.object({ emsp: z.string(), tokens: z.number() }))
    .meta({ description: 'whose tokens these are: how many of each eMSP' }),
  pending: z.number().meta({ description: 'deliveries that are still owed: they would carry digests' }),
  until_restart: z
    .array(z.string())
    .meta({ description: 'files of the engine that name one of them until the hub is next started' }),
});

export const subject = z.object({
  uids: z.array(z.string()).meta({ description: 'of the eMSPs’ tokens, and the one asked for' }),
  contracts: z.array(z.string()),
  rows: z
    .array(
      z.object({ kind: z.string(), owner: z.string(), id: z.string(), data: z.unknown(), body: z.string().nullable() }),
    )
    .meta({ description: 'present state: tokens, sessions, CDRs, commands and what leads to them' }),
  events: z.array(event.extend({ body: z.string().nullable() })).meta({ description: 'the log, oldest first' }),
});

export type ErasureView = View<typeof erasure>;
export type SubjectView = View<typeof subject>;
