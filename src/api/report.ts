/** Answer about the mistakes and habits of one partner. [D69, D70, D86] */
import * as z from 'zod';
import { moduleNames } from '../domain/modules.ts';
import { quirkSource, type View } from './common.ts';

const module = z.enum(moduleNames);
const count = z.number().int();

export const refusedPush = z.object({
  module: module.nullable().describe('null when the path names none'),
  method: z.string(),
  path: z.string(),
  object: z.string().nullable().describe('{cc}-{pid}/{id}; null when the request does not name it'),
  reason: z.string().describe('the message of the answer'),
  code: z.string().describe('the kind of refusal, as in ocpi_hub_refused_total'),
  count,
  first_at: z.string(),
  last_at: z.string(),
  body: z
    .string()
    .describe('of the last one, 65,536 characters at most, in the portal 1,024; empty when none was read'),
});

const tally = {
  module: z.string(),
  count,
  first_at: z.string(),
  last_at: z.string(),
  object: z.string().nullable().describe('of the last one'),
  example: z.string().describe('the last one'),
};

export const report = z.object({
  refused: z
    .array(refusedPush)
    .describe('the last 200, newest first; of more, the oldest of the module that has the most goes'),
  warnings: z.array(z.object({ ...tally, field: z.string() })).describe('most first'),
  quirks: z
    .array(z.object({ ...tally, quirk: z.string(), source: quirkSource }))
    .describe('what the hub makes up for, most first'),
  dead_letters: z
    .array(
      z.object({
        receiver: z.string(),
        sender: z.string(),
        module,
        class: z.string(),
        reason: z.string(),
        count,
        sample: z.string().describe('id of one of them'),
      }),
    )
    .describe('that the partner should have received, or that it sent; most first'),
});

export type ReportView = View<typeof report>;
export type RefusedView = View<typeof refusedPush>;
