/**
 * A simulated CPO: pushes locations, tariffs, sessions and CDRs, requests authorizations, and answers commands, on its
 * own or step by step under the control of a test.
 */
import { randomUUID } from 'node:crypto';
import { every } from '../kit/clock.ts';
import { nextTurn, systemClock } from '../kit/system-clock.ts';
import {
  type Cdr,
  type CdrToken,
  type Location,
  newCdr,
  newLocation,
  newSession,
  newTariff,
  type Session,
  type Tariff,
  type Token,
} from './bodies.ts';
import { type HubAnswer, type PartyName, Refused } from './hub-line.ts';
import { Partner, type PartnerOptions } from './partner.ts';
import { ok, page, type Reply, refuse } from './reply.ts';
import type { Request, Route } from './server.ts';

export interface CpoOptions extends PartnerOptions {
  /**
   * `itself`: after ACCEPTED it reports the result, charges, and sends the CDR of the session that it stopped. `byHand`
   * (default): it does nothing on its own.
   */
  readonly carriesOutCommands?: 'itself' | 'byHand';
  /** Interval of the meter readings in mode `itself`, milliseconds. */
  readonly meterEveryMs?: number;
}

export class Cpo extends Partner {
  readonly role = 'CPO';
  protected readonly offers = {
    locations: 'SENDER',
    tariffs: 'SENDER',
    sessions: 'SENDER',
    cdrs: 'SENDER',
    tokens: 'RECEIVER',
    commands: 'RECEIVER',
  } as const;

  readonly locations = new Map<string, Location>();
  readonly tariffs = new Map<string, Tariff>();
  /** The true state of each session, whether or not it was pushed. */
  readonly sessions = new Map<string, Session>();
  readonly cdrs = new Map<string, Cdr>();
  /** Tokens that eMSPs pushed, by uid. */
  readonly tokens = new Map<string, Token>();
  readonly commands: ReceivedCommand[] = [];
  /** Text of the last PUT or POST of each object, by `module/id`. */
  readonly pushed = new Map<string, string>();
  readonly #cpo: CpoOptions;
  readonly #meters = new Map<string, () => void>();

  constructor(options: CpoOptions) {
    super(options);
    this.#cpo = options;
  }

  override async close(): Promise<void> {
    for (const stop of this.#meters.values()) stop();
    this.#meters.clear();
    await super.close();
  }

  /** PUTs a whole object at `{module}/{cc}/{pid}/{id}`; sends `text`, when given, byte for byte. */
  async push(
    module: 'locations' | 'tariffs' | 'sessions',
    body: PartyName & { id: string },
    text = JSON.stringify(body),
  ): Promise<HubAnswer> {
    const written = this.written(text, module);
    this.pushed.set(`${module}/${body.id}`, written);
    return this.say({ method: 'PUT', module, role: 'RECEIVER', path: this.#path(body.id), body: written });
  }

  async pushTariff(): Promise<Tariff> {
    const tariff = newTariff(this, this.stamp());
    this.tariffs.set(tariff.id, tariff);
    await this.push('tariffs', tariff);
    return tariff;
  }

  async deleteTariff(id: string): Promise<void> {
    this.tariffs.delete(id);
    await this.say({ method: 'DELETE', module: 'tariffs', role: 'RECEIVER', path: this.#path(id) });
  }

  async pushLocation(location = this.nextLocation(), text?: string): Promise<Location> {
    this.locations.set(location.id, location);
    await this.push('locations', location, text);
    return location;
  }

  /** A location that was not pushed yet, with the tariff pushed last. */
  nextLocation(): Location {
    return newLocation(this, this.stamp(), [...this.tariffs.keys()].at(-1) ?? 'NONE', this.locations.size);
  }

  /** PATCHes a location, or the EVSE or connector of it that `within` names by id. */
  patchLocation(
    id: string,
    fragment: Readonly<Record<string, unknown>>,
    within: readonly string[] = [],
  ): Promise<HubAnswer> {
    const body = { ...fragment, last_updated: this.stamp() };
    return this.say({ method: 'PATCH', module: 'locations', role: 'RECEIVER', path: this.#path(id, ...within), body });
  }

  /** PUTs an EVSE or a connector of a location. */
  putWithin(id: string, within: readonly string[], body: Readonly<Record<string, unknown>>): Promise<HubAnswer> {
    return this.say({ method: 'PUT', module: 'locations', role: 'RECEIVER', path: this.#path(id, ...within), body });
  }

  /** Asks the eMSP, through the hub, whether this token may charge; `data` is an AuthorizationInfo. */
  authorize(uid: string, to: PartyName, asked: { type?: string; locationId?: string } = {}): Promise<HubAnswer> {
    const body = asked.locationId === undefined ? {} : { body: { location_id: asked.locationId, evse_uids: [] } };
    const path = `/${encodeURIComponent(uid)}/authorize?type=${asked.type ?? 'RFID'}`;
    return this.say({ method: 'POST', module: 'tokens', role: 'SENDER', path, to, ...body });
  }

  /** POSTs the asynchronous result of a command to its `response_url`. */
  reportResult(command: ReceivedCommand, result = 'ACCEPTED'): Promise<HubAnswer> {
    const message = [{ language: 'en', text: `The station said ${result}` }];
    return this.line.ask({ method: 'POST', url: command.responseUrl, body: { result, message }, to: command.from });
  }

  /** Creates the session that a START_SESSION requests, in state PENDING, and pushes it. */
  async openSession(command: ReceivedCommand): Promise<Session> {
    const { body, from } = command;
    const token = { ...from, ...(body.token as CdrToken) };
    const location = this.locations.get(String(body.location_id));
    if (!location) throw new Error(`there is no location ${String(body.location_id)}`);
    const session = newSession(this, this.stamp(), token, location, body.evse_uid as string | undefined);
    if (typeof body.authorization_reference === 'string')
      session.authorization_reference = body.authorization_reference;
    await this.pushSession(session);
    return session;
  }

  async pushSession(session: Session): Promise<void> {
    this.sessions.set(session.id, session);
    await this.push('sessions', session);
  }

  /** PUTs the session as ACTIVE: energy flows. */
  async startCharging(session: Session): Promise<void> {
    session.status = 'ACTIVE';
    session.last_updated = this.stamp();
    await this.pushSession(session);
  }

  /** PATCHes a meter reading; each adds one charging period. */
  async meter(session: Session, kwh: number): Promise<void> {
    const at = this.stamp();
    const period = {
      start_date_time: at,
      dimensions: [{ type: 'ENERGY', volume: Math.round((kwh - session.kwh) * 1000) / 1000 }],
    };
    session.charging_periods.push(period);
    await this.#patchSession(session, { kwh, last_updated: at }, [period]);
  }

  /** PATCHes the session to COMPLETED. */
  async completeCharging(session: Session): Promise<void> {
    const at = this.stamp();
    await this.#patchSession(session, { status: 'COMPLETED', end_date_time: at, last_updated: at });
  }

  /** POSTs the session's CDR. */
  async bill(session: Session): Promise<Cdr> {
    const location = this.locations.get(session.location_id) ?? this.nextLocation();
    const tariff = [...this.tariffs.values()].at(-1) ?? newTariff(this, this.stamp());
    const cdr = newCdr(session, location, tariff, this.stamp());
    await this.pushCdr(cdr);
    if (this.has('cdr-again')) {
      const again = { ...cdr, last_updated: this.stamp() };
      await this.say({ method: 'POST', module: 'cdrs', role: 'RECEIVER', body: again });
    }
    return cdr;
  }

  async pushCdr(cdr: Cdr): Promise<HubAnswer> {
    const text = this.written(JSON.stringify(cdr), 'cdrs');
    this.cdrs.set(cdr.id, cdr);
    this.pushed.set(`cdrs/${cdr.id}`, text);
    return this.say({ method: 'POST', module: 'cdrs', role: 'RECEIVER', body: text });
  }

  async #patchSession(
    session: Session,
    changes: Partial<Session>,
    periods?: Session['charging_periods'],
  ): Promise<void> {
    Object.assign(session, changes);
    const body = periods ? { ...changes, charging_periods: periods } : changes;
    const path = this.#path(session.id);
    try {
      await this.say({ method: 'PATCH', module: 'sessions', role: 'RECEIVER', path, body, repeat: this.once });
    } catch (error) {
      const isRefused = error instanceof Refused && !error.isInDoubt;
      if (isRefused || !this.options.retryUntilAnswered) throw error;
      // The PATCH may have arrived, and sending it again could append the period twice: PUT the whole session instead.
      await this.pushSession(session);
    }
  }

  #path(...ids: string[]): string {
    return `/${[this.country_code, this.party_id, ...ids].map(encodeURIComponent).join('/')}`;
  }

  protected routes(): Route[] {
    const list = (module: string, items: () => Iterable<{ last_updated: string }>): Route => ({
      method: 'GET',
      path: `/2.2.1/${module}`,
      handle: (request) =>
        this.listed(module, page(request, `${this.url}/ocpi/2.2.1/${module}`, [...items()], module === 'sessions')),
    });
    return [
      list('locations', () => this.locations.values()),
      list('tariffs', () => this.tariffs.values()),
      list('sessions', () => this.sessions.values()),
      list('cdrs', () => this.cdrs.values()),
      { method: 'PUT', path: '/2.2.1/tokens/:cc/:pid/:uid', handle: (request) => this.#keepToken(request) },
      { method: 'PATCH', path: '/2.2.1/tokens/:cc/:pid/:uid', handle: (request) => this.#keepToken(request) },
      { method: 'GET', path: '/2.2.1/tokens/:cc/:pid/:uid', handle: (request) => this.#readToken(request) },
      {
        method: 'PUT',
        path: '/2.2.1/tokens/:cc/:pid/:uid/authorize',
        handle: (request) => this.#authorizeLocally(request),
      },
      { method: 'POST', path: '/2.2.1/tokens/:uid/authorize', handle: (request) => this.#authorizeLocally(request) },
      { method: 'POST', path: '/2.2.1/commands/:command', handle: (request) => this.#receiveCommand(request) },
    ];
  }

  /** Takes a token into its whitelist. */
  keepToken(token: CdrToken): void {
    this.tokens.set(token.uid, token as Token);
  }

  #keepToken({ method, params, body }: Request): Reply {
    const { uid = '' } = params;
    const before = this.tokens.get(uid);
    if (method === 'PATCH' && !before) return refuse(404, 2003, 'Not found');
    const sent = JSON.parse(body) as Token;
    this.tokens.set(uid, method === 'PATCH' ? { ...before, ...sent } : sent);
    return ok();
  }

  #readToken({ params }: Request): Reply {
    const token = this.tokens.get(params.uid ?? '');
    return token ? ok(token) : refuse(404, 2003, 'Not found');
  }

  #authorizeLocally({ params }: Request): Reply {
    const token = this.tokens.get(params.uid ?? '');
    const allowed = token ? (token.valid ? 'ALLOWED' : 'BLOCKED') : 'NOT_ALLOWED';
    return ok({ allowed, ...(token ? { token } : {}) });
  }

  #receiveCommand(request: Request): Reply {
    const received = readCommand(request, this);
    if (received === null) return refuse(404, 2000, 'Unknown command');
    this.commands.push(received);
    if (received.result === 'ACCEPTED' && this.#cpo.carriesOutCommands === 'itself') {
      void nextTurn().then(() => this.#carryOut(received).catch(() => {}));
    }
    return ok({ result: received.result, timeout: 30 });
  }

  /** Carries out an accepted command; failures show in the transcript only. */
  async #carryOut(command: ReceivedCommand): Promise<void> {
    await this.reportResult(command).catch(() => {});
    if (command.command === 'START_SESSION') {
      const session = await this.openSession(command);
      await this.startCharging(session);
      this.#runMeter(session);
    }
    const session = this.sessions.get(String(command.body.session_id));
    if (command.command === 'STOP_SESSION' && session) {
      this.#meters.get(session.id)?.();
      await this.completeCharging(session);
      await this.bill(session);
    }
  }

  #runMeter(session: Session): void {
    const read = () => void this.meter(session, Math.round((session.kwh + 0.75) * 1000) / 1000).catch(() => {});
    this.#meters.set(session.id, every(systemClock, this.#cpo.meterEveryMs ?? 5_000, read));
  }
}

/** Starts a CPO that listens and is not registered yet. */
export async function startCpo(options: CpoOptions): Promise<Cpo> {
  const cpo = new Cpo(options);
  await cpo.listen();
  return cpo;
}

export interface ReceivedCommand {
  readonly id: string;
  readonly command: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly responseUrl: string;
  /** The eMSP, from `OCPI-from-*`. */
  readonly from: PartyName;
  /** Result in the immediate answer. */
  readonly result: string;
}

/** The CPO's objects, by id. */
interface Known {
  readonly locations: ReadonlyMap<string, unknown>;
  readonly sessions: ReadonlyMap<string, unknown>;
}

type Fields = Readonly<Record<string, unknown>>;

const atKnownLocation = (body: Fields, known: Known) =>
  known.locations.has(String(body.location_id)) ? 'ACCEPTED' : 'REJECTED';

const answers: Readonly<Record<string, (body: Fields, known: Known) => string>> = {
  START_SESSION: atKnownLocation,
  STOP_SESSION: (body, known) => (known.sessions.has(String(body.session_id)) ? 'ACCEPTED' : 'UNKNOWN_SESSION'),
  RESERVE_NOW: atKnownLocation,
  CANCEL_RESERVATION: () => 'ACCEPTED',
  UNLOCK_CONNECTOR: atKnownLocation,
};

/** Parses a command; null when OCPI does not define it. */
function readCommand({ params, body, headers }: Request, known: Known): ReceivedCommand | null {
  const fields = JSON.parse(body) as Fields;
  const { command = '' } = params;
  const result = answers[command]?.(fields, known);
  if (result === undefined) return null;
  const header = (name: string) => String(headers[name] ?? '');
  const from = { country_code: header('ocpi-from-country-code'), party_id: header('ocpi-from-party-id') };
  return { id: randomUUID(), command, body: fields, responseUrl: String(fields.response_url), from, result };
}
