/** Answers about deliveries, groups of dead letters, and stored sessions and CDRs that no receiver is owed; and what filters them. */
import * as z from 'zod';
import { keptReasons } from '../domain/ownership.ts';
import { triage, type View } from './common.ts';
import { boundsQuery, classFilter, moduleFilter, objectFilter, partnerFilter, partyId } from './fields.ts';

export const deliveryState = z
  .enum(['PENDING', 'DELIVERED', 'DEAD', 'DISCARDED'])
  .describe('DISCARDED: a dead letter that an operator has given up');

/** A delivery with every attempt. */
export const delivery = z.object({
  id: z.string(),
  state: deliveryState,
  receiver: z.string(),
  sender: z.string(),
  module: z.string(),
  object: z.string().describe('{cc}-{pid}/{id}'),
  method: z.string(),
  seq: z.number(),
  correlation_id: z.string().nullable(),
  accepted_at: z.string(),
  due_at: z.string().nullable(),
  class: z.string().nullable().describe('how it ended, or how its last attempt did'),
  reason: z.string().nullable(),
  attempts: z.array(
    z.object({
      at: z.string(),
      duration_ms: z.number(),
      http_status: z.number().nullable(),
      ocpi_status: z.number().nullable(),
      class: z.string(),
      excerpt: z.string(),
      quirks: z
        .array(z.string())
        .describe('names of habits of the receiver that the hub made up for; absent when there were none')
        .optional(),
      unsent: z
        .boolean()
        .describe('true: nothing of the request was sent, as when the connection was refused')
        .optional(),
    }),
  ),
});

/** The object as the receiver has it, before and after a delivery. */
const deliveryChange = z.object({
  before: z
    .object({ seq: z.number(), at: z.string(), body: z.string().nullable() })
    .nullable()
    .describe('the object as the receiver has it by the last delivery before that arrived'),
  after: z.string().nullable().describe('the object as the receiver has it after this delivery; null: deleted'),
});

/** A delivery with the request as it would be sent now, and what it changes. */
export const deliveryDetail = delivery.extend({
  request: z.object({
    method: z.string(),
    url: z.string().nullable().describe('null: the receiver has no endpoint for the module at present'),
    headers: z.record(z.string(), z.string()).describe('X-Request-ID is another one at every attempt'),
    body: z.string().nullable().describe('byte for byte as it is sent'),
  }),
  change: deliveryChange.nullable().describe('null when the log does not tell'),
});

/** Dead letters with the same receiver, module and outcome class. */
export const deadGroup = z.object({
  receiver: z.string(),
  module: z.string(),
  class: z.string(),
  count: z.number(),
  /** Oldest and newest time of acceptance or last re-drive. */
  oldest_at: z.string(),
  newest_at: z.string(),
  sample: z.string().describe('id of one of them'),
  triage: triage.nullable().describe('null until an operator takes care of the group'),
});

/** A stored session or CDR that no receiver is owed. */
export const unforwarded = z.object({
  module: z.string(),
  object: z.string().describe('{cc}-{pid}/{id}'),
  cpo: z.string(),
  emsp: z.string().nullable().describe('the eMSP that owns it; null when none is known'),
  names: z.string().nullable().describe('the party that its cdr_token names; null when it names none'),
  reason: z.string(),
  at: z.string(),
});

/** What deliveries are selected by; `class` is that of the end, or of the last attempt. */
export const deliveryQuery = {
  receiver: partyId.exactOptional(),
  partner: partnerFilter,
  sender: partyId.exactOptional(),
  module: moduleFilter,
  class: classFilter,
  object: objectFilter,
};

/** `from` and `to` bound `accepted_at`. */
export const deliveryFilter = z.strictObject({
  state: deliveryState.exactOptional(),
  ...deliveryQuery,
  ...boundsQuery,
});

export const unforwardedFilter = z.strictObject({
  cpo: partyId.exactOptional(),
  reason: z.enum(keptReasons).exactOptional(),
});

export type UnforwardedFilter = View<typeof unforwardedFilter>;
export type DeliveryFilter = View<typeof deliveryFilter>;
export type DeliveryView = View<typeof delivery>;
export type DeliveryDetailView = View<typeof deliveryDetail>;
export type DeliveryChange = View<typeof deliveryChange>;
export type Attempt = DeliveryView['attempts'][number];
export type DeadGroup = View<typeof deadGroup>;
export type Unforwarded = View<typeof unforwarded>;
