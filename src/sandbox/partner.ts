/**
 * Base of the simulated CPO and eMSP: a server, a client of the hub, credentials on both sides, and pulls.
 * It implements OCPI without the hub's OCPI code, so that its reading can contradict the hub's.
 */
import { randomBytes } from 'node:crypto';
import { type Behaviour, behaviours, faults, type OfferedEndpoint } from './habits.ts';
import { type HubAnswer, type HubCall, HubLine, type PartyName, type Repeat } from './hub-line.ts';
import { type Knob, Knobs } from './knobs.ts';
import { ok, type Reply } from './reply.ts';
import { PartnerServer, type Route } from './server.ts';
import { Transcript } from './transcript.ts';

export interface PartnerOptions extends PartyName {
  /** Base address of the hub, without `/ocpi`. */
  readonly hubUrl: string;
  /** May be passed to `register` instead. */
  readonly initialToken?: string;
  readonly name?: string;
  readonly host?: string;
  /** 0 (default) takes any free port. */
  readonly port?: number;
  /** Address at which the hub reaches this partner when it differs from the listening address. */
  readonly publicUrl?: string;
  /** How it encodes the hub's token in `Authorization`. */
  readonly tokenEncoding?: 'base64' | 'plain';
  /** What the `url` of its credentials points at: the versions list or the version details. */
  readonly credentialsUrl?: 'versions' | 'details';
  /** Habits and faults by name, as in `habits.ts`. */
  readonly habits?: readonly string[];
  /** Repeats a request while the hub is unreachable, does not answer, or answers 429 or 5xx. */
  readonly retryUntilAnswered?: boolean;
  /** How long it repeats a request, milliseconds. */
  readonly retryForMs?: number;
  /** Time-out of one request, milliseconds. */
  readonly callTimeoutMs?: number;
}

/** A list as pulled: the items, and the text of each page. */
export interface Pulled {
  readonly items: readonly unknown[];
  readonly pages: readonly string[];
  readonly total: number | null;
}

const pagesMax = 10_000;

export abstract class Partner {
  abstract readonly role: 'CPO' | 'EMSP';
  /** Modules it offers, each with its interface role. */
  protected abstract readonly offers: Readonly<Record<string, 'SENDER' | 'RECEIVER'>>;
  protected abstract routes(): Route[];

  readonly country_code: string;
  readonly party_id: string;
  readonly transcript = new Transcript();
  readonly line: HubLine;
  /** The hub's endpoints from its version details, by `module/ROLE`. */
  readonly hubEndpoints = new Map<string, string>();
  /** Tokens that the hub may use here, newest first; older ones stay valid until a rotation is answered. */
  readonly ownTokens: string[] = [newToken()];
  /** Modules that its version details leave out. */
  readonly hidden = new Set<string>();
  /** The hub's own party, from its credentials. */
  hub: PartyName = { country_code: 'XX', party_id: 'HUB' };
  protected readonly options: PartnerOptions;
  readonly #behaviours: readonly Behaviour[];
  readonly #knownModules = new Set('credentials locations tariffs sessions cdrs tokens commands'.split(' '));
  readonly #knobs = new Knobs();
  #server: PartnerServer | null = null;
  #port = 0;
  #lastStamp = 0;

  constructor(options: PartnerOptions) {
    this.options = options;
    this.country_code = options.country_code;
    this.party_id = options.party_id;
    this.#behaviours = Object.entries(behaviours)
      .filter(([name]) => this.has(name))
      .map(([, one]) => one);
    this.line = new HubLine({
      party: options,
      changed: (call) => this.#behaviours.reduce((now, one) => one.call?.(now, this.hub) ?? now, call),
      transcript: this.transcript,
      tokenEncoding: this.has('plain-token') ? 'plain' : (options.tokenEncoding ?? 'base64'),
      repeat: options.retryUntilAnswered ? 'untilAnswered' : 'no',
      repeatForMs: options.retryForMs ?? 60_000,
      timeoutMs: options.callTimeoutMs ?? 30_000,
    });
  }

  /** `NL-TNM`. */
  get id(): string {
    return `${this.country_code}-${this.party_id}`;
  }

  /** Whether it has a habit or a fault. */
  has(habit: string): boolean {
    return this.options.habits?.includes(habit) ?? false;
  }

  /** The text of an object as this partner writes it. */
  written(text: string, module: string): string {
    return this.#behaviours.reduce((now, { object }) => object?.(now, module) ?? now, text);
  }

  get url(): string {
    const { publicUrl, host = '127.0.0.1' } = this.options;
    return publicUrl?.replace(/\/+$/, '') ?? `http://${host}:${this.#port}`;
  }

  /** Starts to listen; after `hangUp`, again on the same port. */
  async listen(): Promise<void> {
    const { host = '127.0.0.1', port = 0 } = this.options;
    const knows = (token: string) => this.ownTokens.includes(token);
    const routes = [...this.#commonRoutes(), ...this.routes()];
    const server = new PartnerServer({
      routes,
      transcript: this.transcript,
      knobs: this.#knobs,
      knows,
      behaviours: this.#behaviours,
    });
    this.#port = await server.listen(host, this.#port || port);
    this.#server = server;
  }

  /** Takes the partner off the network: stops listening and closes every connection. `listen` brings it back. */
  async hangUp(): Promise<void> {
    await this.#server?.close();
    this.#server = null;
  }

  async close(): Promise<void> {
    await Promise.all([this.hangUp(), this.line.close()]);
  }

  /** The knob of a module, or of requests whose `METHOD /path` matches. */
  at(target: string | RegExp): Knob {
    return this.#knobs.at(target);
  }

  /** Removes all faults. */
  behave(): void {
    this.#knobs.resetAll();
  }

  /** Fetches the hub's versions and endpoints, then exchanges credentials with the initial token. */
  async register(initialToken = this.options.initialToken ?? ''): Promise<void> {
    await this.#discover(initialToken);
    const answer = await this.#credentials('POST', initialToken, this.ownTokens[0] ?? '');
    this.line.token = readToken(answer);
    this.hub = (answer.data as { roles?: PartyName[] }).roles?.[0] ?? this.hub;
    for (const name of this.options.habits ?? []) faults[name]?.(this.at(/./));
  }

  /** Exchanges the tokens of both sides for new ones. */
  async rotate(): Promise<void> {
    await this.#discover(this.line.token);
    const token = newToken();
    this.ownTokens.unshift(token);
    const answer = await this.#credentials('PUT', this.line.token, token);
    this.line.token = readToken(answer);
    this.ownTokens.length = 1;
  }

  async unregister(): Promise<void> {
    await this.line.ask({ method: 'DELETE', url: this.hubUrl('credentials'), unrouted: true });
  }

  /** URL of a hub module from its version details, else the usual one below `/ocpi/2.2.1`. */
  hubUrl(module: string, role?: 'SENDER' | 'RECEIVER'): string {
    const roles = role ? [role] : ['SENDER', 'RECEIVER'];
    const found = roles.map((one) => this.hubEndpoints.get(`${module}/${one}`)).find((url) => url !== undefined);
    return found ?? `${this.options.hubUrl}/ocpi/2.2.1/${module}`;
  }

  /** Pulls a whole list, following `rel="next"` from page to page. */
  async pull(module: string, query: Readonly<Record<string, string | number>> = {}): Promise<Pulled> {
    const items: unknown[] = [];
    const pages: string[] = [];
    let total: number | null = null;
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) parameters.set(name, String(value));
    const search = parameters.size > 0 ? `?${parameters}` : '';
    let next: string | null = `${this.hubUrl(module, 'SENDER')}${search}`;
    while (next !== null) {
      if (pages.length >= pagesMax) throw new Error(`the list of ${module} has more than ${pagesMax} pages`);
      const answer: HubAnswer = await this.line.ask({ method: 'GET', url: next, unrouted: module === 'hubclientinfo' });
      if (!Array.isArray(answer.data)) throw new Error(`the data of the list of ${module} is not an array`);
      items.push(...(answer.data as unknown[]));
      pages.push(answer.text);
      total ??= 'x-total-count' in answer.headers ? Number(answer.headers['x-total-count']) : null;
      next = nextLink(answer.headers.link, this.has('first-link'));
    }
    return { items, pages, total };
  }

  /** Sends a request below one of the hub's modules. */
  say(
    call: Omit<HubCall, 'url'> & { module: string; role?: 'SENDER' | 'RECEIVER'; path?: string },
  ): Promise<HubAnswer> {
    const { module, role, path = '', body, ...rest } = call;
    const sent = body === undefined ? {} : { body: this.#sent(body, module) };
    return this.line.ask({ ...rest, ...sent, url: this.hubUrl(module, role) + path });
  }

  /** The present instant, at least 1 ms after the one before, so that `last_updated` always grows. */
  stamp(): string {
    this.#lastStamp = Math.max(Date.now(), this.#lastStamp + 1);
    return new Date(this.#lastStamp).toISOString();
  }

  until<T>(what: string, look: () => T | null | undefined | false, limitMs?: number): Promise<T> {
    return this.transcript.until(`${what} at ${this.id}`, look, limitMs);
  }

  /** The answer to a request for a list, with its objects as this partner writes them. */
  protected listed(module: string, reply: Reply): Reply {
    const { data, ...envelope } = JSON.parse(reply.body) as { data?: unknown };
    if (!Array.isArray(data)) return reply;
    const items: unknown = JSON.parse(this.written(JSON.stringify(data), module));
    return { ...reply, body: JSON.stringify({ ...envelope, data: items }) };
  }

  #sent(body: unknown, module: string): unknown {
    const isChanged = this.#behaviours.some(({ object }) => object);
    return isChanged ? this.written(typeof body === 'string' ? body : JSON.stringify(body), module) : body;
  }

  /** `repeat` for requests that must not take effect twice. */
  protected get once(): Repeat {
    return this.options.retryUntilAnswered ? 'refused' : 'no';
  }

  #endpoints(): readonly Partial<OfferedEndpoint>[] {
    const offers = Object.entries({ credentials: 'SENDER' as const, ...this.offers });
    const all = offers
      .filter(([identifier]) => !this.hidden.has(identifier))
      .map(([identifier, role]) => ({ identifier, role, url: `${this.url}/ocpi/2.2.1/${identifier}` }));
    return this.#behaviours.reduce<readonly Partial<OfferedEndpoint>[]>(
      (now, { endpoints }) => endpoints?.(now as OfferedEndpoint[]) ?? now,
      all,
    );
  }

  #commonRoutes(): Route[] {
    const versions = () => ok([{ version: '2.2.1', url: `${this.url}/ocpi/2.2.1` }]);
    const details = () => ok({ version: '2.2.1', endpoints: this.#endpoints() });
    return [
      { method: 'GET', path: '/versions', handle: versions },
      { method: 'GET', path: '/2.2.1', handle: details },
      { method: 'GET', path: '/2.2.1/credentials', handle: () => ok(this.#ownCredentials(this.ownTokens[0] ?? '')) },
    ];
  }

  #ownCredentials(token: string) {
    const { country_code, party_id, role } = this;
    const business_details = { name: this.options.name ?? `${role} ${this.id}` };
    const path =
      this.options.credentialsUrl === 'details' || this.has('details-url') ? '/ocpi/2.2.1' : '/ocpi/versions';
    return { token, url: this.url + path, roles: [{ role, country_code, party_id, business_details }] };
  }

  async #discover(token: string): Promise<void> {
    const ask = (url: string) => this.line.ask({ method: 'GET', url, token, unrouted: true });
    const { data: versions } = await ask(`${this.options.hubUrl}/ocpi/versions`);
    const listed = Array.isArray(versions) ? (versions as { version?: unknown; url?: unknown }[]) : [];
    const ours = listed.find(({ version }) => version === '2.2.1');
    if (typeof ours?.url !== 'string') throw new Error('the hub does not offer OCPI 2.2.1');
    const { data: details } = await ask(ours.url);
    const { endpoints } = details as { endpoints: OfferedEndpoint[] };
    const unknown = endpoints.find(({ identifier }) => !this.#knownModules.has(identifier));
    if (this.has('strict-modules') && unknown) throw new Error(`the module ${unknown.identifier} is unknown`);
    this.hubEndpoints.clear();
    for (const { identifier, role, url } of endpoints) this.hubEndpoints.set(`${identifier}/${role}`, url);
  }

  #credentials(method: 'POST' | 'PUT', token: string, own: string): Promise<HubAnswer> {
    const url = this.hubUrl('credentials');
    return this.line.ask({ method, url, token, unrouted: true, body: this.#ownCredentials(own), repeat: this.once });
  }
}

const newToken = () => randomBytes(24).toString('base64url');

function readToken(answer: HubAnswer): string {
  const token = (answer.data as { token?: unknown } | undefined)?.token;
  if (typeof token !== 'string') throw new Error('the credentials of the hub have no token');
  return token;
}

function nextLink(header: string | string[] | undefined, takesFirst: boolean): string | null {
  const text = Array.isArray(header) ? header.join(', ') : (header ?? '');
  if (takesFirst) return /<([^>]+)>/.exec(text)?.[1] ?? null;
  return /<([^>]+)>\s*;[^,]*\brel="?next"?/.exec(text)?.[1] ?? null;
}
