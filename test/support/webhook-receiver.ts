/**
 * A receiver of webhooks: a real HTTP server that keeps what it got and judges each signature with the package of Standard Webhooks.
 */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import type { HubAddress } from './caller.ts';
import { admin } from './plain-partner.ts';
import type { Test } from './tap.ts';
import { Changes, within } from './within.ts';

export interface Notification {
  readonly type: string;
  readonly timestamp: string;
  readonly data: {
    readonly party: string | null;
    readonly what: string;
    readonly since: string;
    readonly link: string;
  };
}

interface Reply {
  readonly status?: number;
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface WebhookReceiver {
  readonly url: string;
  /** Answers from now on; 204 when absent. */
  answer: (body: Notification) => Reply;
  /** What it answered with success, in order of arrival. */
  readonly taken: {
    readonly id: string;
    readonly body: Notification;
    readonly text: string;
    readonly headers: IncomingHttpHeaders;
  }[];
  /** Number of requests. */
  readonly asked: number;
  /** Resolves when it has taken so many. */
  took(count: number): Promise<void>;
  /** Resolves when it was asked so often. */
  wasAsked(count: number): Promise<void>;
  /** Throws unless the secret signed it within 5 minutes of this time of day, epoch ms; absent: of now. */
  verify(secret: string, index: number, at?: number): void;
}

export async function webhookReceiver(t: Pick<Test, 'teardown'>): Promise<WebhookReceiver> {
  const changes = new Changes();
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const body = JSON.parse(text) as Notification;
    const { status = 204, text: answer, headers = {} } = receiver.answer(body);
    asked += 1;
    if (status < 300)
      receiver.taken.push({ id: String(request.headers['webhook-id']), body, text, headers: request.headers });
    response.writeHead(status, headers).end(answer);
    changes.tell();
  });
  let asked = 0;
  const until = async (what: string, holds: () => boolean) => {
    while (!holds()) {
      await within(
        60_000,
        changes.next(),
        () => `${what}, but ${asked} requests: ${receiver.taken.map(({ body }) => body.type)}`,
      );
    }
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const receiver: WebhookReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    answer: () => ({}),
    taken: [],
    get asked() {
      return asked;
    },
    took: (count) => until(`it never took ${count}`, () => receiver.taken.length >= count),
    wasAsked: (count) => until(`it was never asked ${count} times`, () => asked >= count),
    verify(secret, index, at) {
      const got = receiver.taken[index];
      if (!got) throw new Error(`there is no notification ${index}`);
      // The package knows no clock but this one.
      const { now } = Date;
      if (at !== undefined) Date.now = () => at;
      try {
        new Webhook(secret).verify(got.text, got.headers as Record<string, string>);
      } finally {
        Date.now = now;
      }
    },
  };
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return receiver;
}

/** Sets a webhook; resolves with what the hub answers. */
export const webhookSet = (hub: HubAddress, id: string, { url }: { url: string }, fields: object = {}) =>
  admin(hub, 'PUT', `/webhooks/${id}`, { url, ...fields });
