/**
 * The least a partner can be: versions, credentials, one recording receiver. Written from the specification alone, so that it cannot
 * share a mistake with the hub. A real HTTP server.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface Reply {
  readonly status?: number;
  readonly body?: unknown;
  /** Sent as it is, instead of an envelope around `body`. */
  readonly text?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  /** No answer: the connection is cut. */
  readonly isCut?: true;
}

export interface PartnerParty {
  readonly role: 'CPO' | 'EMSP';
  readonly country_code: string;
  readonly party_id: string;
}

export interface PlainPartnerOptions {
  readonly role: 'CPO' | 'EMSP';
  readonly countryCode: string;
  readonly partyId: string;
  /** Answers module calls; success when absent. */
  readonly answer?: (received: Received) => Reply | Promise<Reply>;
  /** Interface role and identifier of the modules it offers. */
  readonly modules?: readonly (readonly [identifier: string, role: 'SENDER' | 'RECEIVER'])[];
  /** What the hub has to send; something random when absent. */
  readonly token?: string;
  /** Parties that it holds besides the first. [D16] */
  readonly others?: readonly PartnerParty[];
  /** Answers requests for versions and version details in its own way; as usual when it gives nothing. */
  readonly discovery?: (received: Received) => Reply | undefined | Promise<Reply | undefined>;
}

export interface PlainPartner {
  readonly id: string;
  readonly url: string;
  /** Calls of the hub to its modules, in order of arrival. */
  readonly received: Received[];
  /** The hub's requests for its versions and version details. */
  readonly asked: Received[];
  /** What the hub has to send. */
  readonly token: string;
  /** With which it registered last. */
  initialToken: string;
  /** The hub's token for it, after `register`. */
  hubToken: string;
  register(hub: { url: string; adminToken: string }, settings?: object): Promise<void>;
  /** The credentials exchange alone, with a new initial token; `hub` when it never registered there. */
  registerAgain(initialToken: string, hub?: { url: string }): Promise<void>;
  /** One OCPI call to the hub; throws when the connection fails. */
  call(method: string, path: string, body?: string | object, headers?: Record<string, string>): Promise<Answer>;
  close(): Promise<void>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: { status_code: number; status_message?: string; timestamp: string; data?: unknown };
}

const defaultModules = {
  CPO: [
    ['tokens', 'RECEIVER'],
    ['commands', 'RECEIVER'],
    ['sessions', 'SENDER'],
    ['locations', 'SENDER'],
  ],
  EMSP: [
    ...(['locations', 'tariffs', 'sessions', 'cdrs'] as const).map((module) => [module, 'RECEIVER'] as const),
    ['tokens', 'SENDER'],
  ],
} as const;

export async function plainPartner(options: PlainPartnerOptions): Promise<PlainPartner> {
  const { role, countryCode, partyId, answer = () => ({}) } = options;
  const modules = options.modules ?? defaultModules[role];
  const ownToken = options.token ?? randomBytes(16).toString('hex');
  const received: Received[] = [];
  const asked: Received[] = [];
  let url = '';
  let hubUrl = '';
  const server = createServer((request, response) => {
    serve(request).then(
      ({ status = 200, body, text, headers, isCut }) => {
        const envelope = { data: body, status_code: 1000, timestamp: new Date().toISOString() };
        if (isCut) response.destroy();
        else {
          response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
          response.end(text ?? JSON.stringify(envelope));
        }
      },
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });

  async function serve(request: IncomingMessage): Promise<Reply> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const sent = request.headers.authorization?.replace(/^Token /, '') ?? '';
    const isOwn = sent === ownToken || Buffer.from(sent, 'base64').toString() === ownToken;
    if (!isOwn) return { status: 401, text: '{"status_code":2000}' };
    const path = request.url ?? '';
    const call = {
      ...{ method: request.method ?? '', path, headers: request.headers },
      body: Buffer.concat(chunks).toString(),
    };
    if (path === '/ocpi/versions' || path === '/ocpi/2.2.1') {
      asked.push(call);
      const told = await options.discovery?.(call);
      if (told) return told;
    }
    if (path === '/ocpi/versions') return { body: [{ version: '2.2.1', url: `${url}/ocpi/2.2.1` }] };
    if (path === '/ocpi/2.2.1') {
      const endpoints = [['credentials', 'SENDER'] as const, ...modules].map(([identifier, interfaceRole]) => {
        return { identifier, role: interfaceRole, url: `${url}/ocpi/2.2.1/${identifier}` };
      });
      return { body: { version: '2.2.1', endpoints } };
    }
    received.push(call);
    return answer(call);
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const first = { role, country_code: countryCode, party_id: partyId, business_details: { name: partyId } };
  const roles = [first, ...(options.others ?? [])];
  const partner: PlainPartner = {
    id: `${countryCode}-${partyId}`,
    url,
    received,
    asked,
    token: ownToken,
    initialToken: '',
    hubToken: '',
    async register(hub, settings = {}) {
      hubUrl = hub.url;
      const added = await admin(hub, 'POST', '/parties', { roles, ...settings });
      await partner.registerAgain(String(added.initial_token));
    },
    async registerAgain(initialToken, hub) {
      if (hub) hubUrl = hub.url;
      partner.initialToken = initialToken;
      partner.hubToken = initialToken;
      const body = { token: ownToken, url: `${url}/ocpi/versions`, roles };
      const { json } = await partner.call('POST', '/2.2.1/credentials', body);
      if (json.status_code !== 1000) throw new Error(`registering ${partner.id}: ${JSON.stringify(json)}`);
      partner.hubToken = (json.data as { token: string }).token;
    },
    async call(method, path, body, headers = {}) {
      const response = await fetch(`${hubUrl}/ocpi${path}`, {
        method,
        headers: {
          Authorization: `Token ${Buffer.from(partner.hubToken).toString('base64')}`,
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, text, json: JSON.parse(text) as Answer['json'] };
    },
    close: () => closed(server),
  };
  return partner;
}

async function closed(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  if (server.listening) await once(server, 'close');
}

/** One call of the admin API; throws unless it succeeds. */
export async function admin(
  hub: { url: string; adminToken: string },
  method: string,
  path: string,
  body?: object,
): Promise<Record<string, unknown>> {
  const response = await fetch(`${hub.url}/admin/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${hub.adminToken}`, ...(body && { 'Content-Type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}

/** Polls until it holds; the limit is only there so that a broken test ends. */
export async function eventually(
  what: string,
  holds: () => boolean | Promise<boolean>,
  limitMs = 60_000,
): Promise<void> {
  const end = Date.now() + limitMs;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`it never came to: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
