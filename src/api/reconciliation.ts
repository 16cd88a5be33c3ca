/** Schema of the reconciliation of sessions with CDRs. */
import * as z from 'zod';
import { findingKinds } from '../domain/reconciliation.ts';
import type { View } from './common.ts';

const kind = z
  .enum(findingKinds)
  .describe(
    'no_cdr: a completed session that no CDR bills; no_session: the session of the CDR is not stored; no_session_id: the CDR names none; ' +
      'not_completed: its session is not COMPLETED; energy_differs, token_differs: from those of the session; duplicate: a further CDR of a session',
  );

const finding = z.object({
  kind,
  day: z.string().describe('UTC, of last_updated'),
  cpo: z.string(),
  emsp: z.string().nullable(),
  session: z.string().nullable().describe('{party}/{id}'),
  cdr: z.string().nullable().describe('{party}/{id}'),
  session_kwh: z.number().nullable(),
  cdr_kwh: z.number().nullable(),
});

const pair = z.object({
  day: z.string(),
  cpo: z.string(),
  emsp: z.string().nullable(),
  sessions: z.number().describe('COMPLETED'),
  cdrs: z.number().describe('without credits and what they take back'),
  session_kwh: z.number(),
  cdr_kwh: z.number(),
  findings: z.number(),
});

export const reconciliation = z.object({
  from: z.string(),
  to: z.string(),
  pairs: z.array(pair).describe('by day, CPO and eMSP'),
  findings: z.array(finding).describe('the first 1,000'),
  omitted: z.number().describe('findings beyond those'),
});

export type Reconciliation = View<typeof reconciliation>;
export type FindingView = Reconciliation['findings'][number];
