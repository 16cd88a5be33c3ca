/**
 * A simulated eMSP: receives pushes of CPOs, authorizes its drivers' tokens, sends commands and receives their results.
 */
import { randomUUID } from 'node:crypto';
import { newToken, type Token } from './bodies.ts';
import { Copies, type Copy } from './copies.ts';
import type { HubAnswer, PartyName } from './hub-line.ts';
import { Partner, type PartnerOptions } from './partner.ts';
import { ok, page, type Reply, refuse } from './reply.ts';
import type { Request, Route } from './server.ts';

export interface SentCommand {
  /** Last segment of its `response_url`. */
  readonly id: string;
  readonly answer: HubAnswer;
  /** `data.result` of the answer. */
  readonly result: string;
}

export interface CommandResult {
  readonly result: string;
  readonly [field: string]: unknown;
}

export class Emsp extends Partner {
  readonly role = 'EMSP';
  protected readonly offers = {
    locations: 'RECEIVER',
    tariffs: 'RECEIVER',
    sessions: 'RECEIVER',
    cdrs: 'RECEIVER',
    tokens: 'SENDER',
    commands: 'SENDER',
  } as const;

  /** Copies of the CPOs' objects as they arrived. */
  readonly copies = new Copies();
  /** Its drivers' tokens, by uid. */
  readonly tokens = new Map<string, Token>();
  /** Uids whose authorization it answers with BLOCKED. */
  readonly blocked = new Set<string>();
  readonly #results = new Map<string, CommandResult[]>();

  constructor(options: PartnerOptions) {
    super(options);
    this.addToken(newToken(this, this.stamp()));
  }

  /** The token of its first driver. */
  get driver(): Token {
    const [first] = this.tokens.values();
    if (!first) throw new Error(`${this.id} has no driver`);
    return first;
  }

  addToken(token: Token): Token {
    this.tokens.set(token.uid, token);
    return token;
  }

  copy(module: string, owner: PartyName, id: string): Copy | undefined {
    return this.copies.get(module, `${owner.country_code}-${owner.party_id}`, id);
  }

  /** Sends a command with a `response_url` of this eMSP; rejects when the hub refuses it. */
  async command(name: string, fields: Readonly<Record<string, unknown>>, to?: PartyName): Promise<SentCommand> {
    const id = randomUUID();
    const response_url = `${this.url}/ocpi/2.2.1/commands/results/${id}`;
    const body = { response_url, ...fields };
    // Repeated only while the request cannot have arrived: a second START_SESSION would start a second session.
    const answer = await this.say({
      method: 'POST',
      module: 'commands',
      path: `/${name}`,
      body,
      to,
      repeat: this.once,
    });
    const { result } = answer.data as { result?: unknown };
    return { id, answer, result: String(result) };
  }

  /** Results that arrived for a command, in order. */
  resultsOf(id: string): readonly CommandResult[] {
    return this.#results.get(id) ?? [];
  }

  /** PUTs a token for the CPOs' whitelists. */
  pushToken(token: Token): Promise<HubAnswer> {
    this.addToken(token);
    const path = `/${this.country_code}/${this.party_id}/${encodeURIComponent(token.uid)}?type=${token.type}`;
    return this.say({ method: 'PUT', module: 'tokens', role: 'RECEIVER', path, body: token });
  }

  /** Asks a CPO to authorize one of this eMSP's tokens; `data` is an AuthorizationInfo. */
  authorizeAtCpo(uid: string, to?: PartyName): Promise<HubAnswer> {
    const path = `/${this.country_code}/${this.party_id}/${encodeURIComponent(uid)}/authorize`;
    return this.say({ method: 'PUT', module: 'tokens', role: 'RECEIVER', path, to });
  }

  protected routes(): Route[] {
    const push = (method: string, path: string): Route => ({
      method,
      path: `/2.2.1/${path}`,
      handle: (request) => this.#receive(request),
    });
    const location = 'locations/:cc/:pid/:id';
    return [
      ...['PUT', 'PATCH'].flatMap((method) => [
        push(method, location),
        push(method, `${location}/:evse`),
        push(method, `${location}/:evse/:connector`),
        push(method, 'sessions/:cc/:pid/:id'),
      ]),
      push('PUT', 'tariffs/:cc/:pid/:id'),
      push('DELETE', 'tariffs/:cc/:pid/:id'),
      ...['locations', 'tariffs', 'sessions'].map(
        (module): Route => ({
          method: 'GET',
          path: `/2.2.1/${module}/:cc/:pid/:id`,
          handle: (request) => this.#read(request),
        }),
      ),
      { method: 'POST', path: '/2.2.1/cdrs', handle: (request) => this.#receiveCdr(request) },
      { method: 'GET', path: '/2.2.1/cdrs/:cc/:pid/:id', handle: (request) => this.#read(request) },
      { method: 'GET', path: '/2.2.1/tokens', handle: (request) => this.#listTokens(request) },
      { method: 'POST', path: '/2.2.1/tokens/:uid/authorize', handle: (request) => this.#authorize(request) },
      { method: 'POST', path: '/2.2.1/commands/results/:id', handle: (request) => this.#receiveResult(request) },
    ];
  }

  #receive({ method, path, params, body }: Request): Reply {
    const { cc = '', pid = '', id = '', evse, connector } = params;
    const within = [evse, connector].filter((one) => one !== undefined);
    const module = path.split('/')[3] ?? '';
    const applied = this.copies.apply({ module, owner: `${cc}-${pid}`, id, within, method, body, at: this.stamp() });
    return applied ? ok() : refuse(404, 2003, 'Not found');
  }

  #read({ path, params }: Request): Reply {
    const { cc = '', pid = '', id = '' } = params;
    const copy = this.copies.get(path.split('/')[3] ?? '', `${cc}-${pid}`, id);
    return copy?.state ? ok(copy.state) : refuse(404, 2003, 'Not found');
  }

  #receiveCdr({ body }: Request): Reply {
    const { country_code, party_id, id } = JSON.parse(body) as PartyName & { id: string };
    const isNew = this.copies.get('cdrs', `${country_code}-${party_id}`, id) === undefined;
    const owner = `${country_code}-${party_id}`;
    this.copies.apply({ module: 'cdrs', owner, id, method: 'POST', body, at: this.stamp() });
    const location = `${this.url}/ocpi/2.2.1/cdrs/${country_code}/${party_id}/${encodeURIComponent(id)}`;
    return { ...ok(undefined, { location }), status: isNew ? 201 : 200 };
  }

  #listTokens(request: Request): Reply {
    return this.listed('tokens', page(request, `${this.url}/ocpi/2.2.1/tokens`, [...this.tokens.values()]));
  }

  #authorize({ params, body }: Request): Reply {
    const token = this.tokens.get(params.uid ?? '');
    if (!token) return refuse(404, 2004, 'Unknown token');
    const location: unknown = body === '' ? undefined : JSON.parse(body);
    const allowed = this.blocked.has(token.uid) || !token.valid ? 'BLOCKED' : 'ALLOWED';
    const reference = allowed === 'ALLOWED' ? { authorization_reference: randomUUID() } : {};
    return ok({ allowed, token, location, ...reference });
  }

  #receiveResult({ params, body }: Request): Reply {
    const { id = '' } = params;
    this.#results.set(id, [...this.resultsOf(id), JSON.parse(body) as CommandResult]);
    return ok();
  }
}

/** Starts an eMSP that listens and is not registered yet. */
export async function startEmsp(options: PartnerOptions): Promise<Emsp> {
  const emsp = new Emsp(options);
  await emsp.listen();
  return emsp;
}
