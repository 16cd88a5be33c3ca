/**
 * The OCPI door of the HTTP server. One table of modules registers the routes, fills the version details and determines
 * the methods of a path.
 *
 * OCPI-SERVER-1  Every answer below `/ocpi` is an envelope and echoes request and correlation id, refusals included.
 *     [D2, D14]
 * OCPI-SERVER-2  Token, path, caller, admission and rate limit are checked, in this order, before a byte of the body is
 *     read.
 * OCPI-SERVER-3  A body is read up to its limit and no further, and parsed once; its text is kept. [D17, D38]
 * OCPI-SERVER-4  Each admitted request writes one wide log line, which never contains a token or a body; of the others,
 *     and of those of a party that exceed its rate or have no room, a sample is logged, with a count. [VISITORS-3]
 * OCPI-SERVER-5  Answers of functional modules carry the routing headers as soon as the caller is known, refusals
 *     included.
 * OCPI-SERVER-6  A stale request, whose caller no longer waits, is refused before its work begins. [stale.ts]
 * OCPI-SERVER-7  A request of a partner whose path, method or caller is refused counts against the partner's rate of other
 *     requests, and beyond it is answered 429. One for which there is no room counts against none.
 */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { type ErrorCode, HubError } from '../domain/errors.ts';
import type { WholeObject } from '../domain/object.ts';
import type { Credential, Hub } from '../hub/ports/hub.ts';
import type { Clock } from '../kit/clock.ts';
import { processPauses } from '../kit/stale.ts';
import { type JsonBody, readingJson, readJson, receiveBody } from '../transport/body.ts';
import { isAdmitted, markAdmitted } from '../transport/client-connection.ts';
import { answerRouting, authorizationTokens, instanceHeader } from '../transport/headers.ts';
import { otherMethods, servedMethods, withHead } from '../transport/methods.ts';
import type { PageLimits } from '../transport/pagination.ts';
import { refusal } from '../transport/status-codes.ts';
import type { Visitors } from '../transport/visitors.ts';
import type { Admission } from './admission.ts';
import { admit, authenticate, callerOf, namesHub, namesOther, partiesNamed, receiverNamed } from './caller.ts';
import { hasDoubledSlash } from './http-server.ts';
import type { RateLimiter } from './limits.ts';
import { ListReads } from './list-reads.ts';
import { cdrs } from './modules/cdrs.ts';
import { commands } from './modules/commands.ts';
import { credentials } from './modules/credentials.ts';
import { hubclientinfo } from './modules/hubclientinfo.ts';
import { locations } from './modules/locations.ts';
import { sessions } from './modules/sessions.ts';
import { tariffs } from './modules/tariffs.ts';
import { tokens } from './modules/tokens.ts';
import { versions } from './modules/versions.ts';
import type { Urgency } from './overload.ts';
import { paceKeeper } from './pace.ts';
import { isBeyondLimits, type Pass, passageOf, send } from './passage.ts';
import { answerErrors, type RequestLog } from './refusals.ts';
import { type Answer, bodyMax, type Exchange, type OcpiModule, type OcpiRoute, version } from './route.ts';
import { expectedForms, pathOf } from './unknown-path.ts';

export interface OcpiServerOptions {
  readonly log: RequestLog;
  readonly pages: PageLimits;
  readonly limiter: RateLimiter;
  readonly admission: Admission;
  readonly clock: Clock;
  /** Counts refused tokens by address. */
  readonly visitors: Visitors;
  /** No other node answers requests of this hub. */
  readonly isAlone: boolean;
  /** Whether a request came in where partners are served; absent: always. */
  readonly isHere?: (request: IncomingMessage) => boolean;
  /** The hub's id in `X-Hub-Instance`. */
  readonly instance?: string;
  /** While the door refuses every request: the `Retry-After` of the refusal, seconds. Null: the door is open. */
  readonly shutForS?: () => number | null;
}

const modules: readonly OcpiModule[] = [
  credentials,
  hubclientinfo,
  locations,
  tariffs,
  tokens,
  sessions,
  cdrs,
  commands,
];

/** Every route, `path` below `/ocpi`. */
export const routes: readonly OcpiRoute[] = [...versions(modules), ...modules.flatMap((module) => module.routes)];

/**
 * Whether any node of a cluster may answer a request of this URL: of every module but `credentials`, because one
 * process alone registers partners.
 */
export function isAtEveryNode(url: string): boolean {
  const [path = ''] = url.split('?', 1);
  const [, door, release, module = ''] = path.split('/', 4);
  return door === 'ocpi' && release === version && sharedModules.has(module);
}

const sharedModules = new Set(modules.filter((module) => module !== credentials).map(({ identifier }) => identifier));

/** The module of each route; those of `versions` have none. */
const moduleOf: ReadonlyMap<OcpiRoute, string> = new Map(
  modules.flatMap(({ identifier, routes }) => routes.map((route) => [route, identifier])),
);

/** Configuration modules have no routing headers. */
const routed: ReadonlySet<OcpiRoute> = new Set(
  modules.filter((module) => module !== credentials && module !== hubclientinfo).flatMap((module) => module.routes),
);

/**
 * Reads an object of a partner's list by the module's schema of a push; `text` must be JSON. Refuses with `invalid` or `tooLarge`.
 */
export function readWhole(module: string, text: string): WholeObject {
  const found = modules.find(({ identifier }) => identifier === module);
  if (!found?.readWhole) throw new HubError('invalid', { message: `${module} are not pulled` });
  const { value } = readJson(Buffer.from(text));
  return found.readWhole(value, text);
}

/** The OCPI door as a plugin; register it without a prefix on an app of `createHttpServer`. */
export function ocpiServer(hub: Hub, options: OcpiServerOptions): FastifyPluginAsync {
  const door: FastifyPluginAsync = async (app) => {
    app.decorateRequest('ocpi', null);
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', (request: FastifyRequest, payload: IncomingMessage, done) => {
      const limit = request.routeOptions.config.ocpi?.bodyMax ?? bodyMax;
      receiveBody(payload, { limit, hold: request.ocpi?.pass?.hold }, (body) => done(null, body));
    });
    admitRequests(app, hub, options);
    answerErrors(app, hub, options.log);
    const reads = new ListReads({ clock: options.clock, isAlone: options.isAlone });
    for (const route of routes) addRoute(app, hub, route, { pages: options.pages, clock: options.clock, reads });
  };
  return async (app) => {
    await app.register(door, { prefix: '/ocpi' });
  };
}

/** Whether a request was refused for a token that another node may have issued. [CALLER-4] */
const mayBeKnown = (error: unknown, { headers }: FastifyRequest): boolean =>
  error instanceof HubError &&
  error.code === 'invalidToken' &&
  authorizationTokens(headers.authorization ?? '').length > 0;

/** Refusals that count against no rate: that of a rate, and for want of room. [OCPI-SERVER-7] */
const uncounted: ReadonlySet<ErrorCode> = new Set(['rateLimited', 'unavailable']);

type Done = (error?: Error) => void;

/** Adds what admits a request before its body is read, and the log line of each request. [OCPI-SERVER-2, OCPI-SERVER-4] */
function admitRequests(app: FastifyInstance, hub: Hub, options: OcpiServerOptions): void {
  const { log, limiter, clock, visitors, admission, isHere = () => true, shutForS = () => null } = options;
  const pace = paceKeeper((partner) => hub.suspendedAt(partner), clock);
  const pauses = processPauses(clock);
  app.addHook('onClose', async () => {
    pace.close();
    pauses.close();
  });

  const admitted = (request: FastifyRequest, reply: FastifyReply): Pass => {
    const passage = passageOf(request, reply);
    if (!isHere(request.raw)) throw new HubError('pathNotFound');
    const retryAfterS = shutForS();
    if (retryAfterS !== null) throw new HubError('unavailable', { retryAfterS });
    const instance = request.headers[instanceHeader.toLowerCase()];
    if (instance !== undefined && instance === options.instance) throw new HubError('loop');
    const route = request.routeOptions.config.ocpi;
    const credential = authenticate(hub, request.headers.authorization, visitors.exact(request.raw));
    passage.credential = credential;
    admit(credential, route?.onboarding);
    markAdmitted(request.raw, credential.partner.id);
    if (!route) throw noSuchRoute(request, reply);
    const params = request.params as Record<string, string>;
    const isStale = pauses.arrived(request.raw.socket);
    const { headers } = request;
    passage.caller = callerOf(credential, route.by, { headers, params, trace: passage.trace, isStale });
    if (hasDoubledSlash(request.originalUrl)) {
      hub.used({ partner: credential.partner.id, module: moduleOf.get(route) ?? 'versions', object: null }, [
        'double-slash',
      ]);
    }
    if (routed.has(route)) reply.headers(answerRouting(request.headers, hub, passage.caller.party));
    const pass = admission.take(credential.partner.id, urgencyOf(route));
    passage.pass = pass;
    reply.raw.on('close', pass.closed);
    pace.watch(reply.raw, credential.partner.id);
    // A credentials exchange counts for the partner, whichever of its parties calls.
    const spender = route.budget === 'exchanges' ? credential.partner.id : passage.caller.id;
    passage.touch = limiter.spend(spender, route.budget);
    return pass;
  };

  /** What the request is answered: the refusal, or that of the rate. [OCPI-SERVER-7] */
  const counted = (refused: unknown, { raw, ocpi }: FastifyRequest): Error => {
    const isCounted = refused instanceof HubError && isAdmitted(raw) && !uncounted.has(refused.code);
    if (!isCounted || !ocpi?.credential) return refused as Error;
    try {
      limiter.spend(ocpi.credential.partner.id, 'other');
      return refused;
    } catch (beyond) {
      return beyond as Error;
    }
  };

  /** `before`: what the token was when the request was refused before; absent the first time. */
  const beforeBody = (request: FastifyRequest, reply: FastifyReply, done: Done, before?: Credential | null): void => {
    try {
      const { pauseMs } = admitted(request, reply);
      if (pauseMs > 0) clock.setTimeout(done, pauseMs);
      else done();
    } catch (error) {
      const credential = request.ocpi?.credential ?? null;
      const isAgain = before !== undefined && before?.kind === credential?.kind;
      if (isAgain || !mayBeKnown(error, request)) return done(counted(error, request));
      hub.caughtUp(credential).then((isChanged) => {
        // What has closed meanwhile would never give back its place.
        if (isChanged && !reply.raw.closed) beforeBody(request, reply, done, credential);
        else done(counted(error, request));
      }, done);
    }
  };
  app.addHook('onRequest', (request, reply, done) => beforeBody(request, reply, done));

  app.addHook('onResponse', (request, reply, done) => {
    const { trace, credential, caller, ocpiStatus, reason } = request.ocpi ?? {};
    const visit = visitOf(visitors, request, reply.statusCode);
    if (visit === null) return done();
    const line = {
      method: request.method,
      route: request.routeOptions.url ?? null,
      ...(!request.routeOptions.url && credential && { path: pathOf(request).split('/', 4).join('/').slice(0, 64) }),
      party: caller?.id ?? credential?.partner.id ?? null,
      httpStatus: reply.statusCode,
      ocpiStatus: ocpiStatus ?? null,
      durationMs: Math.round(reply.elapsedTime * 1000) / 1000,
      ...(reason != null && { reason }),
      ...trace,
      ...visit,
    };
    log.info(line, 'request');
    done();
  });
}

/**
 * What a line says of the requests that it stands for: count and address of those that were not admitted, the count of those of a
 * party that exceeded its limits. Null: no line is due.
 */
function visitOf(
  visitors: Visitors,
  request: FastifyRequest,
  status: number,
): { readonly address?: string; readonly count?: number } | null {
  const { raw, ocpi } = request;
  const isKnown = isAdmitted(raw);
  if (isKnown && !isBeyondLimits(request, status)) return {};
  const address = visitors.of(raw);
  const party = ocpi?.caller?.id ?? ocpi?.credential?.partner.id ?? '';
  const count = isKnown ? visitors.partyRefused(party) : visitors.refused(address);
  return count === 0 ? null : { ...(!isKnown && { address }), count };
}

function urgencyOf({ isAwaited, budget }: OcpiRoute): Urgency {
  if (isAwaited) return 'driver';
  return budget.startsWith('list:') ? 'list' : 'push';
}

const served = withHead(routes);
const expectedForm = expectedForms(routes);

/** 405 with `Allow` for a path that has other methods, else 404. [D2] */
function noSuchRoute(request: FastifyRequest, reply: FastifyReply): HubError {
  const path = pathOf(request);
  const allowed = otherMethods(served, path.replace(/^\/ocpi/, ''), request.method);
  const code = allowed.length === 0 ? 'pathNotFound' : 'methodNotAllowed';
  if (allowed.length > 0) reply.header('Allow', allowed.join(', '));
  const expected = expectedForm(request.method, path);
  if (expected === null) return new HubError(code);
  return new HubError(code, { message: `${refusal({ code, detail: {} }).message}: expected ${expected}` });
}

type Parts = Pick<OcpiServerOptions, 'pages' | 'clock'> & Pick<Exchange, 'reads'>;

function addRoute(app: FastifyInstance, hub: Hub, route: OcpiRoute, parts: Parts): void {
  app.route({
    method: servedMethods(route.method),
    url: route.path,
    config: { ocpi: route },
    // Returns no promise: for each one Fastify would create several of its own.
    handler: (request, reply) => {
      void answer(request, reply, () => {
        const handle = (body: JsonBody | null) => route.handle(hub, exchangeOf(hub, request, body, parts));
        const bytes = bytesOf(request);
        if (bytes === null) return handle(null);
        return request.ocpi?.pass?.parse(() => readingJson(bytes))?.then(handle) ?? handle(readJson(bytes));
      });
    },
  });
}

async function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Answer | Promise<Answer>,
): Promise<void> {
  try {
    const { pass, caller } = request.ocpi ?? {};
    const stale = caller?.isStale?.();
    if (stale && (await stale)) throw new HubError('unavailable', { retryAfterS: 1 });
    send(request, reply, await (pass ? pass.work(work) : work()));
  } catch (error) {
    reply.send(error);
  }
}

function bytesOf({ body, ocpi }: FastifyRequest): Buffer | null {
  const bytes = body as Buffer | HubError | null | undefined;
  if (bytes instanceof HubError) throw bytes;
  ocpi?.touch?.(bytes?.length ?? 0);
  return bytes ?? null;
}

function exchangeOf(
  hub: Hub,
  request: FastifyRequest,
  body: JsonBody | null,
  { pages, clock, reads }: Parts,
): Exchange {
  const { credential, caller, pass, touch } = request.ocpi ?? {};
  if (!credential || !caller || !pass || !touch) throw new Error('the request has no caller');
  // The bytes would be held until the answer has been sent; a refusal needs the text alone.
  request.body = body?.text;
  return {
    credential,
    caller,
    params: request.params as Record<string, string>,
    query: request.query as Record<string, unknown>,
    body,
    to: () => receiverNamed(hub, caller, request.headers),
    isToHub: () => namesHub(hub, request.headers),
    isFromOther: () => namesOther(credential.partner, request.headers),
    parties: () => partiesNamed(credential.partner, request.headers),
    pages: { hasPrev: caller.partner.settings.link_prev, ...pages },
    reads,
    arrivedAt: () => new Date(clock.wall()).toISOString(),
    async reserve(characters) {
      touch(characters);
      return pass.reserve(characters);
    },
    reading: (characters, read) => pass.reading(characters, read),
  };
}
