/**
 * The portal, `/portal/v1`: what a partner may do by itself, signed in by a link that an operator made. Its doors are some of the admin
 * API's, at the same paths and with the same answers, each for the partner of the session alone.
 *
 * PORTAL-1  A door answers what is another partner's as what is not there: 404.
 * PORTAL-2  What a partner does, and its sign-in, is an entry of the audit log, with the role `partner`; what it reads is not, nor
 *     an act that was refused and changed nothing, which is counted. [QUOTA-6]
 * PORTAL-3  A partner has a budget of requests here as at the OCPI door, of its own: the page uses up none of its pushes.
 * PORTAL-4  Requests of a partner have turns [PORTAL-TURNS-1], and what each may take is bounded: there are no files, a
 *     body has `bodyMax` bytes, and a report has `excerptMax` characters of each refused push.
 */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import * as z from 'zod';
import type { ReportView } from '../api/report.ts';
import { type ErrorCode, HubError } from '../domain/errors.ts';
import { readDeliveryId } from '../domain/events.ts';
import { keyOf, type PartyId } from '../domain/party.ts';
import type { NotedAct, Operations } from '../hub/ports/operator.ts';
import type { Visitors } from '../transport/visitors.ts';
import { AuditTrail, noteAct } from './audit-trail.ts';
import { Problem } from './problem.ts';
import type { AdminRoute, Caller, RawRequest } from './route.ts';
import { type AdminLog, serveRoutes, traceOf } from './serve-routes.ts';
import { type Gate, gateFor } from './tokens.ts';

/** [PORTAL-4] */
const bodyMax = 8192;
const excerptMax = 1024;

/** The partner of a session, and its parties. */
interface Own {
  readonly partner: PartyId;
  readonly parties: ReadonlySet<string>;
}

/** Makes a request one about the caller's own, or refuses it; `answered` takes others out of the answer. */
interface Door {
  readonly asked?: (request: RawRequest, own: Own) => RawRequest;
  readonly answered?: (answer: never, own: Own) => unknown;
}

function doorsOf(operations: Operations, isHostConfirmed: boolean): Readonly<Record<string, Door>> {
  const fields = (value: unknown) => (value ?? {}) as Readonly<Record<string, unknown>>;
  const ofPartner = (request: RawRequest, { partner }: Own) => {
    if (String(fields(request.params).id).toUpperCase() !== partner) throw new HubError('notFound');
    return request;
  };
  const ofDelivery = (request: RawRequest, { parties: own }: Own) => {
    const named = readDeliveryId(String(fields(request.params).id));
    if (!named || !own.has(named.receiver)) throw new HubError('notFound');
    return request;
  };
  return {
    'GET /caller': {},
    'GET /parties/{id}': { asked: ofPartner },
    'GET /parties/{id}/report': {
      asked: ofPartner,
      answered: ({ dead_letters, refused, ...report }: ReportView, { parties: own }) => ({
        ...report,
        refused: refused.map((push) => ({ ...push, body: push.body.slice(0, excerptMax) })),
        dead_letters: dead_letters.filter(({ receiver }) => own.has(receiver)),
      }),
    },
    'POST /parties/{id}/initial-token': {
      asked(request, own) {
        if (isHostConfirmed) throw new Problem(403, 'an admin issues initial tokens here (HUB_CONFIRM_HOST_CHANGE)');
        const checked = ofPartner(request, own);
        operations.portalToken(own.partner);
        return checked;
      },
    },
    'POST /parties/{id}/check': {
      asked(request, own) {
        if (fields(request.body).write === true) throw new Problem(403, 'a check from the portal only reads');
        return ofPartner(request, own);
      },
    },
    'GET /checks': { asked: (request, { partner }) => ({ ...request, query: { party: partner } }) },
    'GET /deliveries': {
      asked(request, { partner, parties: own }) {
        const query = fields(request.query);
        const { receiver = partner, partner: named = partner } = query;
        if (!own.has(String(receiver).toUpperCase()) || String(named).toUpperCase() !== partner)
          throw new HubError('notFound');
        return { ...request, query: { ...query, partner } };
      },
    },
    'GET /deliveries/{id}': { asked: ofDelivery },
    'POST /deliveries/{id}/redrive': {
      asked(request, own) {
        if (fields(request.body).force === true) throw new Problem(403, 'only an operator may force a re-drive');
        return ofDelivery(request, own);
      },
    },
  };
}

/** The routes of the portal: those of the admin API that have a door. */
export function portalRoutes(
  operations: Operations,
  { table, isHostConfirmed }: Pick<PortalOptions, 'table' | 'isHostConfirmed'>,
): AdminRoute[] {
  const doors = doorsOf(operations, isHostConfirmed);
  const ownOf = ({ name: partner }: Caller): Own => ({
    partner,
    parties: new Set(operations.party(partner).roles.map((role) => keyOf(role).toUpperCase())),
  });
  return table.flatMap((route): AdminRoute[] => {
    const door = doors[`${route.method} ${route.path}`];
    if (!door) return [];
    const { asked = (request) => request, answered = (answer: unknown) => answer } = door;
    const run = async (request: RawRequest) => {
      const own = ownOf(request.caller);
      if (route.method !== 'GET') operations.portalAct(own.partner);
      return answered((await route.run(asked(request, own))) as never, own);
    };
    // It sent these bodies itself, or got them. [PORTAL-2]
    return [{ ...route, role: 'partner', showsBodies: false, run }];
  });
}

export interface PortalOptions {
  /** The routes of the admin API. */
  readonly table: readonly AdminRoute[];
  /** Counts those of the portal apart from those of operators. */
  readonly visitors: Visitors;
  /** As for partners at the OCPI door. */
  readonly shutForS: () => number | null;
  /** Takes one request of a partner out of its budget; throws `rateLimited`. */
  readonly spend: (partner: PartyId) => void;
  /** Does the work of a request in the partner's turn; throws `rateLimited` when too many wait. [PORTAL-4] */
  readonly inTurn: <T>(partner: PartyId, response: ServerResponse, work: () => Promise<T>) => Promise<T>;
  /** Whether a change of host needs an operator: a new registration may be one. [D87] */
  readonly isHostConfirmed: boolean;
  readonly log: AdminLog;
}

const given = z.strictObject({ link: z.string().min(1).max(4096) });
const words = {
  expected: 'this session has ended, or was none: sign in with a link of the operator of the hub',
  realm: 'ocpi-hub portal',
  token: 'a token of the portal',
};

/** Code under which an act is counted that was refused with a status. */
const refusals: Readonly<Record<number, ErrorCode>> = { 404: 'notFound', 409: 'conflict', 429: 'quotaExceeded' };

/** The 429 of `rateLimited`, else the error. */
function tooMuch(error: unknown, detail: string): unknown {
  if (!(error instanceof HubError && error.code === 'rateLimited')) return error;
  return new Problem(429, detail, { headers: { 'retry-after': String(Math.ceil(error.detail.retryAfterS ?? 1)) } });
}

/** Register it under the prefix `/portal/v1`. */
export function portalServer(operations: Operations, options: PortalOptions): FastifyPluginAsync {
  const { visitors, log } = options;
  const callerOf = (token: string): Caller | null => {
    const name = operations.portalPartner(token);
    return name === null ? null : { name, role: 'partner' };
  };
  const known = gateFor(callerOf, options, words);
  const spend = (partner: PartyId) => {
    try {
      options.spend(partner);
    } catch (error) {
      throw tooMuch(error, `${partner} asked for too much within a minute`);
    }
  };
  const allow: Gate = (...request) => {
    const caller = known(...request);
    spend(caller.name);
    return caller;
  };

  /** [PORTAL-2] */
  const open = (scope: FastifyInstance) =>
    void scope.post('/session', { bodyLimit: bodyMax }, async (request, reply) => {
      const read = given.safeParse(request.body);
      const address = visitors.exact(request.raw);
      const session = read.success ? operations.openPortal(read.data.link) : null;
      if (session === null) {
        const from = visitors.of(request.raw);
        const count = visitors.refused(from);
        if (count > 0) log.warn({ address: from, count }, 'a link of the portal was refused');
        if (!visitors.failed(from)) throw new Problem(429, 'too many links that open nothing came from this address');
        throw new Problem(401, 'this link has expired, or is not complete: ask the operator of the hub for a new one');
      }
      const { partner } = session;
      spend(partner);
      const act = {
        operator: partner,
        role: 'partner' as const,
        verb: 'POST /session',
        about: '/session',
        reason: null,
        address,
        status: 201,
        correlation_id: traceOf(request).correlationId,
      };
      if (operations.portalNoted(partner, 0)) await noteAct(operations, act, log);
      log.info({ partner, address }, 'a partner signed in to its portal');
      return reply.code(201).header('cache-control', 'no-store').send(session);
    });
  const isNoted = ({ operator: partner, about, reason, status }: NotedAct): boolean => {
    const isRefused = status >= 400 && status < 500;
    if (isRefused) operations.portalRefused(partner, refusals[status] ?? 'invalid');
    else operations.portalNoted(partner, about.length + (reason?.length ?? 0));
    return !isRefused;
  };
  return serveRoutes({
    table: portalRoutes(operations, options),
    allow,
    least: 'partner',
    log,
    shutForS: options.shutForS,
    shutBecause: 'the hub serves no partners now',
    trail: new AuditTrail(operations, { visitors, isNoted, log }),
    open,
    bounds: {
      bodyMax,
      inTurn: ({ name: partner }, response, work) =>
        options.inTurn(partner, response, work).catch((error: unknown) => {
          throw tooMuch(error, `too many requests of ${partner} wait for their turn`);
        }),
    },
    // The pages beside it answer any other path.
    more: (scope) =>
      void scope.all('/*', async ({ url }) => {
        throw new Problem(404, `there is no ${url.split('?', 1)[0]}`);
      }),
    besides: [{ method: 'POST', path: '/session' }],
  });
}
