/**
 * Sends notifications to webhooks, signed by Standard Webhooks (https://www.standardwebhooks.com). The addresses that may be
 * called, TLS, time-outs and the bound of an answer are those of calls to partners.
 *
 * WEBHOOK-CLIENT-1  A call never throws, and ends within its `timeoutMs`. No redirect is followed.
 * WEBHOOK-CLIENT-2  The secret appears nowhere but in the signature, an HMAC-SHA256 of id, timestamp and body.
 */
import { createHmac } from 'node:crypto';
import type { PostedNotification, Receipt } from '../hub/ports/ports.ts';
import type { Clock } from '../kit/clock.ts';
import { instanceHeader } from '../transport/headers.ts';
import { guardedConnector, type PartnerClientOptions, sentTo, settingsOf } from './client.ts';
import { noAnswerOf } from './outcome.ts';
import { fieldLines } from './wire/connection.ts';
import { Connections } from './wire/connections.ts';
import { Exchange, type Met } from './wire/exchange.ts';

/** Size limit of an answer, bytes: only its beginning is shown. */
const answerMax = 64 * 1024;
const shownMax = 200;
const prefix = 'whsec_';

export interface WebhookClient {
  post(notification: PostedNotification): Promise<Receipt>;
  close(): Promise<void>;
}

export type WebhookClientOptions = Omit<PartnerClientOptions, 'mayCall'> & { readonly clock: Clock };

/** `at`: time of day, epoch ms. */
function signedHeaders({ secret, id, body }: PostedNotification, at: number): Record<string, string> {
  const timestamp = String(Math.floor(at / 1000));
  const key = Buffer.from(secret.slice(prefix.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}

export function webhookClient(options: WebhookClientOptions): WebhookClient {
  const settings = settingsOf(options);
  const { clock, egress, userAgent, instance, keepAliveMs } = settings;
  const connections = new Connections({ connect: guardedConnector(settings), keepAliveMs, perOrigin: null });

  function exchange(notification: PostedNotification): Promise<Met> {
    const { url, body, timeoutMs } = notification;
    const target = sentTo(url, egress);
    if (target instanceof Error) return Promise.resolve({ kind: 'failed', status: null, error: target });
    const fields = fieldLines({
      ...signedHeaders(notification, clock.wall()),
      'User-Agent': userAgent,
      'Content-Type': 'application/json',
      'Accept-Encoding': 'identity',
      ...(instance !== null && { [instanceHeader]: instance }),
    });
    // A socket that is kept between two notifications would mostly be closed by the time of the next one.
    const sent = { ...target, method: 'POST' as const, fields, body, reset: true };
    const limits = { clock, timeoutMs, headMs: timeoutMs, answerMax };
    return new Promise((settle) => {
      connections.dispatch(sent, new Exchange(sent, limits, null, settle));
    });
  }

  return {
    async post(notification) {
      const met = await exchange(notification);
      if (met.kind !== 'answer') {
        const answer = noAnswerOf(met).replaceAll('partner', 'receiver');
        return { isTaken: false, httpStatus: met.status, answer };
      }
      const isTaken = met.status >= 200 && met.status < 300;
      const answer = met.text.slice(0, shownMax).replaceAll(notification.secret, '…');
      return { isTaken, httpStatus: met.status, answer };
    },
    async close() {
      connections.destroy();
    },
  };
}
