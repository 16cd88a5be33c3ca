/**
 * A partner of its own beside the plain one, on purpose: it shares no code with the other tests.
 * What a partner has to offer to a hub: versions, and the interfaces of its role, as a real HTTP server. Written from the OCPI 2.2.1
 * specification alone. It answers properly and writes down every rule that a request of the hub breaks.
 *
 * TEST-SERVER-1  A request carries `Token ` and the base64 of the token that is valid now, else it is 401. [transport, Authorization header]
 * TEST-SERVER-2  A request has an X-Request-ID that no other had, and an X-Correlation-ID. [transport, Unique message IDs]
 * TEST-SERVER-3  Functional modules get routing headers: TO is this party, FROM its counterpart. Configuration modules get none.
 * TEST-SERVER-4  A body is `application/json` and a correct object; the path names the object's owner and ids.
 * TEST-SERVER-5  PATCH goes to objects that are held: a hub that sends one for another has not sent the whole before.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ClassName, fragmentProblems, problemsOf } from './model.ts';

export interface Party {
  readonly role: 'CPO' | 'EMSP';
  readonly country_code: string;
  readonly party_id: string;
}

type Json = Record<string, unknown>;

export interface Arrival {
  readonly method: string;
  /** Path with its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Reply {
  readonly http: number;
  readonly code: number;
  readonly data?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What only the partner's own business can answer. */
export interface Business {
  /** AuthorizationInfo for a token; null when it is unknown. */
  authorize?: (uid: string, type: string, references: unknown) => Json | null;
  /** CommandResponse. */
  command?: (command: string, body: Json) => Json;
}

export interface PartnerServer {
  readonly url: string;
  readonly versionsUrl: string;
  /** The token that the hub has to use. */
  token: string;
  /** Rules that the hub broke. */
  readonly violations: string[];
  /** Calls of functional modules and of response URLs, in order. */
  readonly arrivals: Arrival[];
  /** Objects held, by module and path below its address, e.g. `sessions /NL/TNM/101`. */
  readonly held: Map<string, Json>;
  /** An address for the CommandResult of one command. */
  responseUrl(): string;
  close(): Promise<void>;
}

const interfaces = {
  CPO: [
    ...[...(['locations', 'tariffs', 'sessions', 'cdrs'] as const)].map((module) => [module, 'SENDER'] as const),
    ...[...(['tokens', 'commands'] as const)].map((module) => [module, 'RECEIVER'] as const),
  ],
  EMSP: [
    ...[...(['locations', 'tariffs', 'sessions', 'cdrs'] as const)].map((module) => [module, 'RECEIVER'] as const),
    ...[...(['tokens', 'commands'] as const)].map((module) => [module, 'SENDER'] as const),
  ],
} as const;

/** Classes by depth below the owner. */
const received: Readonly<Record<string, readonly ClassName[]>> = {
  locations: ['Location', 'EVSE', 'Connector'],
  tariffs: ['Tariff'],
  sessions: ['Session'],
  tokens: ['Token'],
};

const commandBodies: Readonly<Record<string, ClassName>> = {
  START_SESSION: 'StartSession',
  STOP_SESSION: 'StopSession',
  RESERVE_NOW: 'ReserveNow',
  CANCEL_RESERVATION: 'CancelReservation',
  UNLOCK_CONNECTOR: 'UnlockConnector',
};

const ok = (data?: unknown): Reply => ({ http: 200, code: 1000, data });
const same = (a: unknown, b: unknown) => String(a).toLowerCase() === String(b).toLowerCase();

export async function partnerServer(party: Party, business: Business): Promise<PartnerServer> {
  const requestIds = new Set<string>();
  const server = createServer((request, response) => {
    serve(request).then(
      ({ http, code, data, headers = {} }) => {
        const echoed = pick(request.headers, ['x-request-id', 'x-correlation-id']);
        const envelope = {
          ...(data !== undefined && { data }),
          status_code: code,
          timestamp: new Date().toISOString(),
        };
        response.writeHead(http, { 'Content-Type': 'application/json', ...echoed, ...headers });
        response.end(JSON.stringify(envelope));
      },
      (error: unknown) => {
        self.violations.push(`the partner itself failed: ${error}`);
        response.writeHead(500).end();
      },
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/roaming`;

  const self: PartnerServer = {
    ...{ url, versionsUrl: `${url}/versions`, token: randomUUID(), violations: [], arrivals: [], held: new Map() },
    responseUrl: () => `${url}/results/${randomUUID()}`,
    async close() {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, 'close');
    },
  };

  async function serve(request: IncomingMessage): Promise<Reply> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const path = (request.url ?? '').slice('/roaming'.length);
    const arrival = {
      ...{ method: request.method ?? '', path, headers: request.headers, body: Buffer.concat(chunks).toString() },
    };
    const broken = (rule: string) => self.violations.push(`${arrival.method} ${path}: ${rule}`);
    if (request.headers.authorization !== `Token ${Buffer.from(self.token, 'utf8').toString('base64')}`) {
      broken('[TEST-SERVER-1] not authorized with the token of this partner');
      return { http: 401, code: 2000 };
    }
    checkIds(request.headers, requestIds, broken);
    const isConfiguration = path.startsWith('/versions') || path === '/v2.2.1';
    checkRouting(request.headers, isConfiguration ? null : party, broken);
    if (path === '/versions') return ok([{ version: '2.2.1', url: `${url}/v2.2.1` }]);
    if (path === '/v2.2.1') return ok({ version: '2.2.1', endpoints: endpointsOf(party.role, url) });
    self.arrivals.push(arrival);
    return functional(arrival, { party, business, held: self.held, url }, broken);
  }
  return self;
}

function pick(headers: IncomingHttpHeaders, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (headers[name] ? [[name, String(headers[name])]] : [])));
}

/** Each interface at an address of its own, so that only who reads version details finds it. */
function endpointsOf(role: Party['role'], url: string): Json[] {
  const credentials = { identifier: 'credentials', role: 'SENDER', url: `${url}/credentials` };
  const functional = interfaces[role].map(([identifier, side]) => {
    return { identifier, role: side, url: `${url}/${side.toLowerCase()}/${identifier}` };
  });
  return [credentials, ...functional];
}

type Broken = (rule: string) => void;

function checkIds(headers: IncomingHttpHeaders, seen: Set<string>, broken: Broken): void {
  const requestId = String(headers['x-request-id'] ?? '');
  if (requestId === '' || seen.has(requestId)) broken('[TEST-SERVER-2] X-Request-ID is missing or was used before');
  seen.add(requestId);
  if (!headers['x-correlation-id']) broken('[TEST-SERVER-2] X-Correlation-ID is missing');
}

function checkRouting(headers: IncomingHttpHeaders, party: Party | null, broken: Broken): void {
  const named = (side: string) => [headers[`ocpi-${side}-country-code`], headers[`ocpi-${side}-party-id`]];
  const [to, from] = [named('to'), named('from')];
  if (party === null) {
    if ([...to, ...from].some((value) => value !== undefined))
      broken('[TEST-SERVER-3] routing headers on a configuration module');
    return;
  }
  if (!same(to[0], party.country_code) || !same(to[1], party.party_id)) broken(`[TEST-SERVER-3] TO is ${to.join('-')}`);
  if (from.some((value) => value === undefined)) broken('[TEST-SERVER-3] FROM is missing');
}

interface Ground {
  readonly party: Party;
  readonly business: Business;
  readonly held: Map<string, Json>;
  readonly url: string;
}

function functional(arrival: Arrival, ground: Ground, broken: Broken): Reply {
  const { method, headers } = arrival;
  const hasBody = arrival.body !== '';
  if (hasBody && !String(headers['content-type']).startsWith('application/json'))
    broken('[TEST-SERVER-4] Content-Type');
  const body = hasBody ? (JSON.parse(arrival.body) as Json) : {};
  const address = new URL(arrival.path, 'http://partner');
  const [side = '', module = '', ...rest] = address.pathname.split('/').slice(1).map(decodeURIComponent);
  const check = (name: ClassName) => problemsOf(name, body).map((problem) => broken(`[TEST-SERVER-4] ${problem}`));
  if (side === 'results' && method === 'POST') {
    check('CommandResult');
    return ok();
  }
  if (module === 'commands' && method === 'POST') {
    const [command = ''] = rest;
    check(commandBodies[command] ?? 'StopSession');
    return ok(ground.business.command?.(command, body));
  }
  if (side === 'sender' && module === 'tokens' && method === 'POST') {
    if (hasBody) check('LocationReferences');
    const type = address.searchParams.get('type') ?? 'RFID';
    const info = ground.business.authorize?.(rest[0] ?? '', type, hasBody ? body : null) ?? null;
    return info === null ? { http: 404, code: 2004 } : ok(info);
  }
  if (side === 'receiver' && module === 'cdrs' && method === 'POST') return takeCdr(body, ground, broken);
  const classes = side === 'receiver' ? received[module] : undefined;
  if (!classes) {
    broken('no such address was given to the hub');
    return { http: 404, code: 2000 };
  }
  return takeObject({ method, module, names: rest, body, classes }, ground.held, broken);
}

function takeCdr(body: Json, { held, url }: Ground, broken: Broken): Reply {
  for (const problem of problemsOf('CDR', body)) broken(`[TEST-SERVER-4] ${problem}`);
  const path = `/${body.country_code}/${body.party_id}/${body.id}`;
  const isNew = !held.has(`cdrs ${path}`);
  held.set(`cdrs ${path}`, body);
  return { http: isNew ? 201 : 200, code: 1000, headers: { Location: `${url}/receiver/cdrs${path}` } };
}

interface Push {
  readonly method: string;
  readonly module: string;
  /** Path below the module's address, decoded. */
  readonly names: readonly string[];
  readonly body: Json;
  readonly classes: readonly ClassName[];
}

function takeObject({ method, module, names, body, classes }: Push, held: Map<string, Json>, broken: Broken): Reply {
  const [countryCode, partyId, id, ...within] = names;
  const key = `${module} /${countryCode}/${partyId}/${id}`;
  const before = held.get(key);
  const className = classes[within.length];
  if (!id || !className) {
    broken('[TEST-SERVER-4] the path is not that of an object');
    return { http: 404, code: 2000 };
  }
  if (method === 'DELETE') {
    held.delete(key);
    return before ? ok() : { http: 404, code: 2000 };
  }
  const problems = method === 'PATCH' ? fragmentProblems(className, body) : problemsOf(className, body);
  for (const problem of problems) broken(`[TEST-SERVER-4] ${problem}`);
  const isWhole = method === 'PUT' && within.length === 0;
  const named = isWhole ? [body.country_code, body.party_id, body.id ?? body.uid] : [countryCode, partyId, id];
  if (named.some((value, at) => !same(value, names[at])))
    broken('[TEST-SERVER-4] the path names another object than the body');
  if (isWhole) {
    held.set(key, body);
    return { http: before ? 200 : 201, code: 1000 };
  }
  if (!before) {
    broken('[TEST-SERVER-5] a part of an object that was never sent');
    return { http: 404, code: module === 'locations' ? 2003 : 2000 };
  }
  held.set(key, within.length === 0 ? merged(before, body, module) : withPart(before, method, within, body));
  return ok();
}

/** PATCH: fields are replaced; a session's charging periods are appended. [mod_sessions, PATCH] */
function merged(before: Json, fragment: Json, module: string): Json {
  const { charging_periods: periods } = fragment;
  if (module !== 'sessions' || !Array.isArray(periods)) return { ...before, ...fragment };
  return { ...before, ...fragment, charging_periods: [...((before.charging_periods as Json[]) ?? []), ...periods] };
}

/** An EVSE or connector, put or patched, moves `last_updated` of what it is in. [mod_locations, PUT] */
function withPart(before: Json, method: string, [id, ...deeper]: readonly string[], body: Json): Json {
  const [list, idField] = 'connectors' in before ? ['connectors', 'id'] : ['evses', 'uid'];
  const parts = (before[list] as Json[]) ?? [];
  const at = parts.findIndex((part) => same(part[idField], id));
  const old = parts[at] ?? {};
  const part =
    deeper.length > 0 ? withPart(old, method, deeper, body) : method === 'PATCH' ? { ...old, ...body } : body;
  const changed = at < 0 ? [...parts, part] : parts.with(at, part);
  return { ...before, [list]: changed, last_updated: body.last_updated };
}
