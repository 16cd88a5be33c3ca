/**
 * A CPO or an eMSP written from the OCPI 2.2.1 specification alone, strict about all that it says. Nothing of the hub is used, not
 * even the names of its paths: all addresses come from version details. What the hub breaks is written down in `violations`.
 *
 * Where the hub's interface differs from the specification on purpose, this client bears exactly that:
 *
 * TEST-CLIENT-1  A success may be HTTP 200 where the specification would rather have 201. [interface, Errors; D40]
 * TEST-CLIENT-2  `X-Limit` is the size of the page, not the most that the hub could return. [interface, Pagination]
 * TEST-CLIENT-3  `Link` may hold `rel="prev"` besides `rel="next"`. [interface, Pagination]
 * TEST-CLIENT-4  The url in the hub's credentials may be that of its version details. [interface, Credentials 7]
 * TEST-CLIENT-5  A refusal may carry HTTP 403, 404, 429, 502 or 504 with its OCPI code, and 429 a code of its own. [interface, Errors]
 * TEST-CLIENT-6  The hub's answers carry no routing headers: in the hub's interface these are headers of requests. [interface, Endpoints]
 * TEST-CLIENT-7  After DELETE the token's second use is 405 for DELETE and PUT, not 401. [interface, Credentials 5 and 6]
 */
import { randomUUID } from 'node:crypto';
import { isDateTime, problemsOf } from './model.ts';
import { type Business, type PartnerServer, type Party, partnerServer } from './server.ts';

type Json = Record<string, unknown>;
type Side = 'SENDER' | 'RECEIVER';
type Target = readonly [module: string, side: Side];

export interface Answer {
  readonly http: number;
  readonly code: number;
  readonly data: unknown;
  readonly headers: Headers;
}

export interface Sent {
  readonly method: string;
  readonly url: string;
  readonly body: string;
  readonly requestId: string;
  readonly correlationId: string;
}

export interface SendOptions {
  /** Behind the address of the module, e.g. `/NL/TNM/101`. */
  readonly path?: string;
  readonly body?: Json;
  /** Receiving party: a direct request. Absent: the hub finds it (open routing). */
  readonly to?: Omit<Party, 'role'>;
}

export interface SpecPartner {
  readonly party: Party;
  readonly server: PartnerServer;
  /** Rules that the hub broke, toward the client or toward its server. */
  readonly violations: string[];
  readonly sent: Sent[];
  /** The hub's own party, from its credentials. */
  readonly hub: () => Omit<Party, 'role'>;
  /** Walks versions, version details and POST credentials with the token that the operator handed over. */
  register(versionsUrl: string, initialToken: string): Promise<void>;
  /** PUT credentials with a new token of its own, which the hub has to use from then on. */
  rotate(): Promise<void>;
  unregister(): Promise<Answer>;
  /** A call with a token that is not the current one. */
  callWith(token: string, method: string, target: Target): Promise<Answer>;
  /** The token that the hub gave it. */
  readonly hubToken: () => string;
  send(method: string, target: Target, options?: SendOptions): Promise<Answer>;
  /** A call of an address that another party gave, such as a `response_url` or a `Location`. */
  sendTo(method: string, url: string, body?: Json, to?: Omit<Party, 'role'>): Promise<Answer>;
  /** All objects of a list: every page, by the link to the next until there is none. */
  pull(module: string, query?: Readonly<Record<string, string>>): Promise<Json[]>;
  close(): Promise<void>;
}

const configuration = new Set(['versions', 'credentials', 'hubclientinfo']);

export async function specPartner(party: Party & { name: string }, business: Business = {}): Promise<SpecPartner> {
  const server = await partnerServer(party, business);
  const sent: Sent[] = [];
  let hubToken = '';
  let hubParty = { country_code: '', party_id: '' };
  let versionsUrl = '';
  let endpoints = new Map<string, string>();
  const broken = (rule: string) => server.violations.push(rule);

  async function call(method: string, url: string, routing: Record<string, string>, body?: Json): Promise<Answer> {
    const ids = { requestId: randomUUID(), correlationId: randomUUID() };
    const text = body === undefined ? '' : JSON.stringify(body);
    sent.push({ method, url, body: text, ...ids });
    const response = await fetch(url, {
      method,
      redirect: 'error',
      headers: {
        Authorization: `Token ${Buffer.from(hubToken, 'utf8').toString('base64')}`,
        ...{ 'X-Request-ID': ids.requestId, 'X-Correlation-ID': ids.correlationId },
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...routing,
      },
      ...(body !== undefined && { body: text }),
    });
    return checkAnswer(response, await response.text(), ids, (rule) => broken(`${method} ${url}: ${rule}`));
  }

  /** FROM is always said; TO for a direct request, and the hub for a list of all. [transport, Message routing] */
  function routingOf(module: string, to?: Omit<Party, 'role'>): Record<string, string> {
    if (configuration.has(module)) return {};
    return {
      ...{ 'OCPI-from-country-code': party.country_code, 'OCPI-from-party-id': party.party_id },
      ...(to && { 'OCPI-to-country-code': to.country_code, 'OCPI-to-party-id': to.party_id }),
    };
  }

  function addressOf([module, side]: Target): string {
    const url = endpoints.get(`${module} ${side}`) ?? (module === 'credentials' ? endpoints.get(module) : undefined);
    if (!url) throw new Error(`the hub offers no ${module} as ${side}`);
    return url;
  }

  async function succeeded(answering: Promise<Answer>, what: string): Promise<unknown> {
    const { http, code, data } = await answering;
    // 201 is as good as 200. [TEST-CLIENT-1]
    if (code !== 1000 || (http !== 200 && http !== 201)) throw new Error(`${what}: HTTP ${http}, OCPI ${code}`);
    return data;
  }

  /** Reads versions and version details, with whatever token is valid now. */
  async function discover(url: string): Promise<void> {
    const found = await succeeded(call('GET', url, {}), 'versions');
    const list = found as Json[] | Json;
    const entry = Array.isArray(list) ? list.find(({ version }) => version === '2.2.1') : { url };
    for (const one of Array.isArray(list) ? list : []) problemsOf('Version', one).map(broken);
    if (!entry) throw new Error('the hub does not offer 2.2.1');
    // The address may already have been that of the details. [TEST-CLIENT-4]
    const details = Array.isArray(list) ? await succeeded(call('GET', String(entry.url), {}), 'version details') : list;
    problemsOf('VersionDetails', details).map(broken);
    endpoints = new Map();
    for (const { identifier, role, url: address } of (details as { endpoints: Record<string, string>[] }).endpoints) {
      endpoints.set(`${identifier} ${role}`, address ?? '');
      // For credentials the role says nothing. [versions, Endpoint]
      if (identifier === 'credentials') endpoints.set('credentials', address ?? '');
    }
  }

  async function exchange(method: 'POST' | 'PUT'): Promise<void> {
    const { role, country_code, party_id, name } = party;
    const logo = { url: 'https://cdn.example/logo.png', category: 'OPERATOR', type: 'png', width: 64, height: 64 };
    const business_details = { name, website: 'https://example.com', logo };
    const body = {
      token: server.token,
      url: server.versionsUrl,
      roles: [{ role, country_code, party_id, business_details }],
    };
    const credentials = await succeeded(
      call(method, addressOf(['credentials', 'SENDER']), {}, body),
      `${method} credentials`,
    );
    problemsOf('Credentials', credentials).map(broken);
    const { token, url, roles } = credentials as {
      token: string;
      url: string;
      roles: (typeof hubParty & { role: string })[];
    };
    if (token === hubToken) broken(`${method} credentials: the token is not a new one`);
    if (roles.length !== 1 || roles[0]?.role !== 'HUB') broken(`${method} credentials: a hub has the role HUB alone`);
    hubToken = token;
    hubParty = roles[0] ?? hubParty;
    versionsUrl = url;
    await discover(versionsUrl);
    const known = await succeeded(call('GET', addressOf(['credentials', 'SENDER']), {}), 'GET credentials');
    problemsOf('Credentials', known).map(broken);
  }

  const partner: SpecPartner = {
    ...{ party, server, violations: server.violations, sent, hub: () => hubParty, hubToken: () => hubToken },
    async register(url, initialToken) {
      hubToken = initialToken;
      await discover(url);
      await exchange('POST');
    },
    async rotate() {
      server.token = randomUUID();
      await exchange('PUT');
    },
    unregister: () => call('DELETE', addressOf(['credentials', 'SENDER']), {}),
    async callWith(token, method, target) {
      const current = hubToken;
      hubToken = token;
      try {
        return await call(method, addressOf(target), routingOf(target[0]));
      } finally {
        hubToken = current;
      }
    },
    send: (method, target, { path = '', body, to } = {}) =>
      call(method, addressOf(target) + path, routingOf(target[0], to), body),
    sendTo: (method, url, body, to) => call(method, url, routingOf('', to), body),
    async pull(module, query = {}) {
      const objects: Json[] = [];
      let total = 0;
      let next: string | null = `${addressOf([module, 'SENDER'])}?${new URLSearchParams(query)}`;
      while (next !== null) {
        const page: Answer = await call('GET', next, routingOf(module, hubParty));
        const data = (await succeeded(Promise.resolve(page), `GET ${module}`)) as Json[];
        objects.push(...data);
        total = checkPage(page, data.length, (rule) => broken(`GET ${module}: ${rule}`));
        next = nextLink(page.headers);
      }
      if (objects.length !== total) broken(`GET ${module}: ${objects.length} objects of ${total}`);
      return objects;
    },
    close: () => server.close(),
  };
  return partner;
}

type Broken = (rule: string) => void;

/** Every answer, refusals included, is an envelope with a timestamp, and echoes both ids. [transport, Response format] */
function checkAnswer(
  response: Response,
  text: string,
  ids: { requestId: string; correlationId: string },
  broken: Broken,
): Answer {
  const { status: http, headers } = response;
  if (!/^application\/json\s*(;|$)/.test(headers.get('content-type') ?? ''))
    broken('the answer is not application/json');
  if (headers.get('x-request-id') !== ids.requestId) broken('X-Request-ID is not echoed');
  if (headers.get('x-correlation-id') !== ids.correlationId) broken('X-Correlation-ID is not echoed');
  const { status_code: code, status_message: message, timestamp, data } = JSON.parse(text) as Json;
  if (!Number.isInteger(code) || !/^[1-4]\d{3}$/.test(String(code))) broken(`status_code is ${code}`);
  if (typeof timestamp !== 'string' || !isDateTime(timestamp)) broken(`timestamp is ${timestamp}`);
  if (message !== undefined && typeof message !== 'string') broken('status_message is no string');
  if (data === null || !['undefined', 'string', 'object'].includes(typeof data))
    broken('data is no array, object or string');
  // Success is 2xx with 1xxx; the rest is the statuses that the interface names for refusals. [TEST-CLIENT-1, TEST-CLIENT-5]
  const allowed = String(code).startsWith('1') ? [200, 201] : [200, 400, 401, 403, 404, 405, 429, 502, 504];
  if (!allowed.includes(http)) broken(`HTTP ${http} with OCPI ${code}`);
  return { http, code: Number(code), data, headers };
}

/** The total that a page tells; checks that the headers of paging are there. [transport, Paginated response] */
function checkPage({ headers }: Answer, count: number, broken: Broken): number {
  const [total, limit] = [headers.get('x-total-count') ?? '', headers.get('x-limit') ?? ''];
  if (!/^\d+$/.test(total)) broken(`X-Total-Count is ${total}`);
  // Page size or most that could be returned: never less than what came. [TEST-CLIENT-2]
  if (!/^\d+$/.test(limit) || Number(limit) < count) broken(`X-Limit is ${limit} for ${count} objects`);
  return Number(total);
}

/** The link to the next page, wherever it stands in the header. [TEST-CLIENT-3] */
function nextLink(headers: Headers): string | null {
  const links = (headers.get('link') ?? '').matchAll(/<([^>]+)>\s*;\s*rel="?(\w+)"?/g);
  return [...links].find(([, , rel]) => rel === 'next')?.[1] ?? null;
}
