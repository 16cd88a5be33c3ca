/** Answers about checks of a partner's endpoints. */
import * as z from 'zod';
import { settingNames } from '../domain/partner-settings.ts';
import type { View } from './common.ts';

export const finding = z.object({
  name: z.string().describe('as in quirks of the report where it is one'),
  severity: z
    .enum(['error', 'warning', 'note'])
    .describe('error = breaks something; warning = the hub makes up for it, or loses something; note = worth knowing'),
  module: z.string(),
  tried: z.string().describe('the call that it was found by, or where it was counted'),
  seen: z.string().describe('what the partner did'),
  expected: z.string(),
  source: z.string().describe('where OCPI says so'),
  heals: z.string().exactOptional().describe('the setting of the partner that heals it'),
  settings: z
    .partialRecord(z.enum(settingNames), z.unknown())
    .exactOptional()
    .describe('heals as the body of a PATCH of the partner'),
  healed: z.boolean().exactOptional().describe('that setting is in force'),
});

/** A part of a check. */
const step = z.object({
  name: z.string().describe('what is tried'),
  state: z.enum(['open', 'running', 'done']),
  calls: z.number().int(),
  findings: z.number().int().describe('that it added'),
});

export const check = z.object({
  id: z.string(),
  party: z.string(),
  state: z.enum(['RUNNING', 'DONE', 'FAILED']),
  write: z.boolean().describe('it also sent test objects and a test command'),
  calls: z.number().int(),
  steps: z.array(step).describe('in order; open = not tried yet, or not any more'),
  findings: z.array(finding).describe('worst first'),
  error: z.string().exactOptional(),
  started_at: z.string(),
  ended_at: z.string().nullable(),
});

export type CheckView = View<typeof check>;
export type FindingView = View<typeof finding>;
export type CheckStep = View<typeof step>;
