/** Schemas of webhooks, which tell operators what needs them. */
import * as z from 'zod';
import { kindNames, notificationKinds } from '../domain/notification.ts';
import { instant, type View } from './common.ts';

export const notificationKind = z
  .enum(kindNames as [(typeof kindNames)[number], ...typeof kindNames])
  .describe(kindNames.map((kind) => `${kind}: ${notificationKinds[kind].means}`).join('; '));

const lastAttempt = z.object({
  at: instant,
  ok: z.boolean(),
  http_status: z.number().nullable().describe('null when no answer came, and for mail'),
  answer: z.string().describe('its beginning, or why there is none'),
});

export const webhook = z.object({
  id: z.string().describe('mail: the mail of HUB_MAIL_TO'),
  url: z.string(),
  kinds: z.array(notificationKind).nullable().describe('null: all'),
  party: z.string().nullable().describe('null: all parties, and the hub itself'),
  active: z.boolean(),
  created_at: instant.nullable().describe('null for mail'),
  owed: z.number().describe('notifications that wait, at most 1,000'),
  dead: z.number().describe('dead letters: not taken within 3 days'),
  last: lastAttempt.nullable().describe('the last attempt since the start of the hub'),
  retry_at: instant.nullable().describe('when the next attempt is due after a failed one'),
});

const deadLetter = z.object({
  seq: z.number(),
  at: instant,
  type: z.string(),
  what: z.string(),
  answer: z.string(),
});

export const webhookDetail = webhook.extend({ dead_letters: z.array(deadLetter) });

export const webhookSet = webhook.extend({
  secret: z.string().exactOptional().describe('only when the hub made it: it is not shown again'),
});

export const webhookTest = z.object({
  ok: z.boolean(),
  http_status: z.number().nullable(),
  answer: z.string(),
  duration_ms: z.number(),
});

export const webhookRedrive = z.object({
  queued: z.number().describe('dead letters that are owed again'),
  owed: z.number().describe('notifications that wait, these included, at most 1,000'),
  active: z.boolean().describe('true: they are sent now; what is not taken is tried again'),
});

export type WebhookView = View<typeof webhook>;
export type WebhookDetail = View<typeof webhookDetail>;
export type WebhookSet = View<typeof webhookSet>;
export type WebhookTest = View<typeof webhookTest>;
export type WebhookRedrive = View<typeof webhookRedrive>;
