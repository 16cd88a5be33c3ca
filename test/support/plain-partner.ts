/**
 * The least a partner can be: versions, credentials, one recording receiver. Written from the specification alone, so that it cannot
 * share a mistake with the hub. A real HTTP server.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Caller, type HubAddress, type Said, Unanswered } from './caller.ts';
import { Changes, within } from './within.ts';

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
  /** Begins with a `100 Continue`. */
  readonly isContinued?: true;
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
  /** Requests of the hub that it has not answered yet. */
  readonly holding: number;
  /** What the hub has to send. */
  readonly token: string;
  /** With which it registered last. */
  initialToken: string;
  /** The hub's token for it, after `register`. */
  hubToken: string;
  register(hub: HubAddress, settings?: object): Promise<void>;
  /** The credentials exchange alone, with a new initial token; `hub` when it never registered there. */
  registerAgain(initialToken: string, hub?: { url: string }): Promise<void>;
  /** From now on it calls the hub there. */
  moveTo(hub: { url: string }): void;
  /** One OCPI call to the hub; throws `Unanswered` when the connection fails. */
  call(method: string, path: string, body?: string | object, headers?: Record<string, string>): Promise<Answer>;
  /** The same; throws unless the hub takes it. */
  push(...call: Parameters<PlainPartner['call']>): Promise<Answer>;
  /** Resolves with the first call of the hub to its modules, past or to come, for which this holds. */
  got(what: string, matches: (received: Received) => boolean): Promise<Received>;
  /** Resolves when it has got so many calls to its modules. */
  gotCalls(count: number): Promise<void>;
  /** Resolves when a request came, or was answered. */
  changed(): Promise<void>;
  close(): Promise<void>;
}

export interface Answer extends Said {
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
  let caller = new Caller();
  let holding = 0;
  const changes = new Changes();
  const server = createServer((request, response) => {
    let isHeld = true;
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      holding -= 1;
      changes.tell();
    };
    // The hub may have closed the connection before.
    response.once('close', release);
    const answered = serve(request).finally(release);
    answered.then(
      ({ status = 200, body, text, headers, isCut, isContinued }) => {
        const envelope = { data: body, status_code: 1000, timestamp: new Date().toISOString() };
        if (isCut) response.destroy();
        else {
          if (isContinued) response.writeContinue();
          response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
          response.end(text ?? JSON.stringify(envelope));
        }
      },
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });

  async function serve(request: IncomingMessage): Promise<Reply> {
    holding += 1;
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
      changes.tell();
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
    changes.tell();
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
    get holding() {
      return holding;
    },
    token: ownToken,
    initialToken: '',
    hubToken: '',
    async register(hub, settings = {}) {
      partner.moveTo(hub);
      const added = await admin(hub, 'POST', '/parties', { roles, ...settings });
      await partner.registerAgain(String(added.initial_token));
    },
    async registerAgain(initialToken, hub) {
      if (hub) partner.moveTo(hub);
      partner.initialToken = initialToken;
      partner.hubToken = initialToken;
      const body = { token: ownToken, url: `${url}/ocpi/versions`, roles };
      const exchange = () => partner.call('POST', '/2.2.1/credentials', body);
      let answer = await exchange();
      // A node that lost its lease meanwhile changed nothing, and another one has it now.
      for (let n = 0; n < nodesMax && wasCut(answer); n++) answer = await exchange();
      const { json } = accepted(answer);
      partner.hubToken = (json.data as { token: string }).token;
    },
    moveTo(hub) {
      hubUrl = hub.url;
      caller.close();
      caller = new Caller();
    },
    async call(method, path, body, headers = {}) {
      const answer = await caller.send(method, `${hubUrl}/ocpi${path}`, body, {
        Authorization: `Token ${Buffer.from(partner.hubToken).toString('base64')}`,
        ...headers,
      });
      // The answer to a HEAD has no body.
      return { ...answer, json: JSON.parse(answer.text || 'null') as Answer['json'] };
    },
    push: async (...call) => accepted(await partner.call(...call)),
    async got(what, matches) {
      for (;;) {
        const found = received.find(matches);
        if (found) return found;
        await soon(partner, what);
      }
    },
    async gotCalls(calls) {
      while (received.length < calls) await soon(partner, `${calls} calls`);
    },
    changed: () => changes.next(),
    async close() {
      caller.close();
      await closed(server);
    },
  };
  return partner;
}

/** The limit is only there so that a broken test ends. */
async function soon({ id, received, changed }: PlainPartner, what: string): Promise<void> {
  await within(60_000, changed(), () => {
    const came = received.map(({ method, path }) => `${method} ${path}`).join('\n');
    return `${id} never got ${what}, but ${received.length} calls:\n${came}`;
  });
}

async function closed(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  if (server.listening) await once(server, 'close');
}

/** Nodes that may be asked in turn. */
const nodesMax = 5;
const wasCut = ({ json }: Answer) => /hub is shutting down/.test(json.status_message ?? '');

/** The answer itself when the hub took what it was asked for; throws who was refused, and why, when it did not. */
function accepted(answer: Answer): Answer {
  const { asked, status, json } = answer;
  if (json.status_code === 1000) return answer;
  throw new Error(`${asked} was refused: HTTP ${status}, OCPI ${json.status_code} ${json.status_message ?? ''}`);
}

/** Of operators, by the hub that they call. */
const operators = new WeakMap<object, Caller>();

/** One call of the admin API; throws unless it succeeds. */
export async function admin(
  hub: HubAddress,
  method: string,
  path: string,
  body?: object,
): Promise<Record<string, unknown>> {
  const operator = operators.get(hub) ?? new Caller();
  operators.set(hub, operator);
  const headers = { Authorization: `Bearer ${hub.adminToken}` };
  const answer = await operator.send(method, `${hub.url}/admin/v1${path}`, body, headers).catch((error: Unanswered) => {
    throw new Unanswered(`${error.message}\n${hub.log?.().slice(-4000) ?? ''}`, { cause: error.cause });
  });
  const { asked, status, text } = answer;
  if (status >= 300) throw new Error(`${asked}: ${status} ${text}`);
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}

/** The hub is gone. */
export function endAdmin(hub: HubAddress): void {
  operators.get(hub)?.close();
}

/** Polls until it holds, for what tells of itself in no other way: browsers, processes, metrics. */
export async function eventually(
  what: string,
  holds: () => boolean | Promise<boolean>,
  limitMs = 60_000,
): Promise<void> {
  let isOver = false;
  const polling = async () => {
    while (!isOver && !(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  await within(limitMs, polling(), () => `it never came to: ${what}`).finally(() => {
    isOver = true;
  });
}
