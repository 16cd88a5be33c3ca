/** Answers about who takes care of a case or of a group of dead letters. */
import { z } from 'zod';
import { instant, type View } from './common.ts';

export const triage = z.object({
  assignee: z.string().nullable(),
  snoozed_until: instant.nullable().meta({ description: 'until then it needs no attention; it may have passed' }),
  remarks: z
    .array(z.object({ at: instant, by: z.string(), text: z.string() }))
    .meta({ description: 'the last 20, oldest first' }),
});

export type TriageView = View<typeof triage>;
