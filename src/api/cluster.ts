/** Answers about the nodes of a hub. */
import { z } from 'zod';
import type { View } from './common.ts';

export const node = z.object({
  name: z.string(),
  url: z.string().nullable().meta({ description: 'how other nodes reach it' }),
  alive: z.boolean().meta({ description: 'its lease stands' }),
  reached: z.enum(['itself', 'another', 'stranger', 'nobody']).nullable().meta({
    description:
      'who answers at its URL, as the node that answers last found: the node itself, another node, somebody who does not take its secret',
  }),
  owner: z.boolean().meta({ description: 'it runs the hub; the others pass on to it what they are asked' }),
  answering: z.boolean().meta({ description: 'it is the node that gave this answer' }),
});

export const clusterView = z.object({
  store: z.enum(['level', 'postgres']),
  role: z
    .enum(['owner', 'gaining', 'standby', 'isolated', 'leaving'])
    .meta({ description: 'of the node that answers' }),
  warning: z
    .string()
    .nullable()
    .meta({ description: 'what an operator should mend at the node that answers; null: nothing' }),
  lease_s: z.number().nullable(),
  head: z.number().meta({ description: 'events in the log since its beginning' }),
  database: z
    .object({
      clock_ahead_ms: z.number().meta({ description: 'its clock less that of the node that answers' }),
      oldest_transaction: z.object({ since: z.string(), who: z.string() }).nullable(),
    })
    .nullable()
    .meta({ description: 'as the node that answers last saw it; null with the embedded store' }),
  nodes: z.array(node),
});

export type ClusterView = View<typeof clusterView>;
export type ClusterNode = View<typeof node>;
