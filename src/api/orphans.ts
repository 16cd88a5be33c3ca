/** Answers about orphan cases: stopped sessions without COMPLETED, and completed sessions without their CDR. */
import * as z from 'zod';
import { triage, type View } from './common.ts';

export const orphanState = z.enum(['GRACE', 'OPEN', 'RESOLVED']);

export const orphan = z.object({
  id: z.string(),
  kind: z.string(),
  state: orphanState,
  session: z.string().describe('{cc}-{pid}/{id}'),
  cpo: z.string(),
  emsp: z.string(),
  opened_at: z.string().nullable(),
  pulled_at: z.string().nullable().describe('when the CPO was last queried'),
  resolved_at: z.string().nullable(),
  note: z.string().nullable(),
  triage: triage.nullable().describe('null until an operator takes care of the case'),
});

export type OrphanView = View<typeof orphan>;
