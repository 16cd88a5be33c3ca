/** Answers about routing rules. */
import * as z from 'zod';
import type { View } from './common.ts';

export const routingRule = z.object({ emsp: z.string(), cpo: z.string(), active: z.boolean() });

export const ruleSet = routingRule.extend({
  released: z
    .number()
    .describe(
      'sessions and CDRs that were kept for this pair and are owed to the eMSP now; they are on their way as whole objects',
    ),
});

export const explanation = z.object({
  from: z.string(),
  to: z.string(),
  module: z.string(),
  delivers: z.boolean(),
  conditions: z.array(z.object({ holds: z.boolean(), because: z.string() })),
});

export type RoutingRule = View<typeof routingRule>;
export type RuleSet = View<typeof ruleSet>;
export type RouteExplanation = View<typeof explanation>;
