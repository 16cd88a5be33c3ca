/**
 * Routes `/webhooks`: who is notified of what needs operators. The mail of HUB_MAIL_TO is one of them, with the id `mail`.
 */
import * as z from 'zod';
import { listOf } from '../../api/common.ts';
import { pageQuery, partyId } from '../../api/fields.ts';
import {
  notificationKind,
  webhook,
  webhookDetail,
  webhookRedrive,
  webhookSet,
  webhookTest,
} from '../../api/webhooks.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, noAnswer, pageOf, route } from '../route.ts';

/** Length of a key that Standard Webhooks allows, bytes. */
const [keyMin, keyMax] = [24, 64];

const id = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,39}$/, 'expected 1 to 40 lower-case letters, digits and hyphens')
  .describe('chosen by the operator, for example on-call');

const params = z.strictObject({ id });

const secret = z
  .string()
  .refine((text) => {
    const [, encoded = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? [];
    const { length } = Buffer.from(encoded, 'base64');
    return length >= keyMin && length <= keyMax;
  }, `expected whsec_ and base64 of ${keyMin} to ${keyMax} bytes`)
  .describe('whsec_ and base64; absent: it stays, or the hub makes one and shows it once');

const body = z.strictObject({
  url: z.string().min(1).max(2048).describe('http or https; the same addresses are refused as for partners'),
  secret: secret.exactOptional(),
  kinds: z.array(notificationKind).min(1).nullable().default(null).describe('null: all'),
  party: partyId.nullable().default(null).describe('only what concerns this party; null: all'),
  active: z.boolean().default(true).describe('false: what it is owed waits'),
});

export function webhooks(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/webhooks',
      summary: 'List webhooks and the mail, with what each is owed',
      query: z.strictObject(pageQuery),
      answer: listOf(webhook),
      run: async ({ query }) => pageOf(await operations.webhooks(), (one) => one.id, query),
    }),
    route({
      method: 'GET',
      path: '/webhooks/{id}',
      summary: 'Show a webhook with its dead letters',
      params,
      answer: webhookDetail,
      run: ({ params }) => operations.webhook(params.id),
    }),
    route({
      method: 'PUT',
      path: '/webhooks/{id}',
      summary: 'Set a webhook',
      params,
      body,
      answer: webhookSet,
      run: ({ params, body, trace }) => operations.setWebhook(params.id, body, trace),
    }),
    route({
      method: 'DELETE',
      path: '/webhooks/{id}',
      summary: 'Remove a webhook and what it is owed; 204 also when there is none',
      status: 204,
      params,
      answer: noAnswer,
      run: ({ params, trace }) => operations.removeWebhook(params.id, trace),
    }),
    route({
      method: 'POST',
      path: '/webhooks/{id}/test',
      summary: 'Send a test notification now, and say what the receiver answered',
      params,
      answer: webhookTest,
      run: ({ params }) => operations.testWebhook(params.id),
    }),
    route({
      method: 'POST',
      path: '/webhooks/{id}/redrive',
      summary: 'Owe the dead letters of a webhook again, and send all that waits for it now',
      role: 'support',
      params,
      answer: webhookRedrive,
      run: ({ params }) => operations.redriveWebhook(params.id),
    }),
  ];
}
