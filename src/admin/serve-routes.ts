/**
 * Serves a table of routes: bearer tokens and roles, JSON or files of lists, problem details, the audit log.
 *
 * SERVE-ROUTES-1  The token is checked before path, method and body, so that without one not even the existence of a path shows.
 * SERVE-ROUTES-2  While it is shut, as until recovery is complete, everything is answered 503.
 * SERVE-ROUTES-3  A viewer gets every answer, streamed or not, with the names of persons hidden, whatever the route.
 * SERVE-ROUTES-4  Where the requests of a caller are bounded, lists are no files: a file has no end that could be bounded.
 */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import type { CallerRole } from '../api/audit.ts';
import type { Trace } from '../domain/events.ts';
import { masking } from '../domain/mask.ts';
import { nextTurn } from '../kit/system-clock.ts';
import { outlastSilence } from '../transport/client-connection.ts';
import { correlationIdHeader, readId, requestIdHeader } from '../transport/headers.ts';
import { otherMethods, servedMethods, withHead } from '../transport/methods.ts';
import type { AuditTrail } from './audit-trail.ts';
import { acceptJsonAlone } from './json-bodies.ts';
import { fileOf, isFile } from './list-files.ts';
import { Problem, problemOf } from './problem.ts';
import type { AdminRoute, Caller } from './route.ts';
import { admitted, type Gate, requireRole } from './tokens.ts';

const bodyBytesMax = 262_144;

export interface AdminLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface ServedRoutes {
  readonly table: readonly AdminRoute[];
  readonly allow: Gate;
  /** The lowest role that is let in at all. */
  readonly least: CallerRole;
  readonly trail: AuditTrail;
  /** While everything is refused: the `Retry-After` of the refusal, seconds; null: nothing is. */
  readonly shutForS: () => number | null;
  readonly shutBecause: string;
  readonly log?: AdminLog | undefined;
  /** Adds what needs no token. */
  readonly open?: (scope: FastifyInstance) => void;
  /** Paths of `open` and `more`, which are not in the table. */
  readonly besides?: readonly { readonly method: string; readonly path: string }[];
  /** Bounds what one caller may have in progress. Absent: nothing does. [SERVE-ROUTES-4] */
  readonly bounds?: Bounds;
  /** Adds what is no route of the table, and needs the token. */
  readonly more?: (scope: FastifyInstance) => void;
}

export interface Bounds {
  /** Does the work of a request when it is its turn. */
  readonly inTurn: (caller: Caller, response: ServerResponse, work: () => Promise<unknown>) => Promise<unknown>;
  readonly bodyMax: number;
}

/** Register it under a prefix. */
export function serveRoutes(served: ServedRoutes): FastifyPluginAsync {
  const { shutForS, shutBecause, log, open } = served;
  return async (app) => {
    acceptJsonAlone(app);
    app.addHook('onRequest', async (request, reply) => {
      const { requestId, correlationId } = traceOf(request);
      reply.headers({ [requestIdHeader]: requestId, [correlationIdHeader]: correlationId });
    });
    // [SERVE-ROUTES-2]
    app.addHook('onRequest', async () => {
      const seconds = shutForS();
      if (seconds !== null) throw new Problem(503, shutBecause, { headers: { 'retry-after': String(seconds) } });
    });
    app.addHook('onResponse', async (request, reply) => {
      const { method } = request;
      // The gate logs refused tokens.
      if (reply.statusCode === 401 || reply.statusCode === 429) return;
      const line = {
        method,
        path: loggedPath(request),
        status: reply.statusCode,
        durationMs: Math.round(reply.elapsedTime),
      };
      log?.info({ ...line, ...traceOf(request) }, 'admin request');
    });
    open?.(app);
    await app.register(async (guarded) => guard(guarded, served));
  };
}

/** Registers everything that needs a token, unknown paths included. */
function guard(guarded: FastifyInstance, served: ServedRoutes): void {
  const { table, allow, least, trail, besides = [], bounds, more } = served;
  const known = withHead([...table, ...besides].map(({ method, path }) => ({ method, path: fastifyPath(path) })));
  guarded.addHook('onRequest', async (request) => {
    const caller = admitted(allow, request.raw, least);
    callers.set(request, caller);
    if (!request.is404 && request.routeOptions.url !== `${guarded.prefix}/*`) return;
    // Checked before the body is read: a refused method needs no valid body.
    const methods = otherMethods(known, pathOf(request).slice(guarded.prefix.length), request.method);
    if (methods.length > 0) throw methodRefused(request, methods);
  });
  for (const route of table) {
    guarded.route({
      method: servedMethods(route.method),
      url: fastifyPath(route.path),
      bodyLimit: bounds?.bodyMax ?? bodyBytesMax,
      onRequest: async (request) => requireRole(callerOf(request), route.role),
      preValidation: async (request) => trail.takeReason(route, request),
      onSend: async (request, reply) => {
        const caller = callers.get(request);
        if (caller) await trail.note(route, request, reply, caller, traceOf(request));
      },
      handler: (request, reply) => answer(route, request, reply, bounds),
    });
  }
  more?.(guarded);
  refuseUnknownPaths(guarded);
}

async function answer(
  route: AdminRoute,
  request: FastifyRequest,
  reply: FastifyReply,
  bounds: Bounds | undefined,
): Promise<unknown> {
  // An erasure, a plan or a file may read millions of events.
  outlastSilence(reply.raw);
  const { params, query, body } = request;
  const caller = callerOf(request);
  const raw = { params, query, body, trace: { ...traceOf(request), operator: caller.name }, caller };
  // [SERVE-ROUTES-3]
  const shown = caller.role === 'viewer' ? maskedInTurns : (value: unknown) => value;
  const { accept } = request.headers;
  if (bounds && isFile(accept)) throw new Problem(406, 'lists are answered as JSON pages alone here');
  const file = bounds ? null : await fileOf(route, raw, accept, shown);
  if (file) return reply.type(file.type).send(file.content);
  const run = () => route.run(raw);
  const result = await (bounds ? bounds.inTurn(caller, reply.raw, run) : run());
  return reply.code(route.statusOf?.(result) ?? route.status).send(await shown(result));
}

/** Other requests go on while a large answer is masked. [MASK-4] */
async function maskedInTurns(value: unknown): Promise<unknown> {
  for (const steps = masking(value); ; await nextTurn()) {
    const { done, value: shown } = steps.next();
    if (done === true) return shown;
  }
}

export function refuseUnknownPaths(scope: FastifyInstance): void {
  scope.setNotFoundHandler((request) => {
    throw new Problem(404, `there is no ${pathOf(request)}`);
  });
}

export function answerProblems(admin: FastifyInstance, log: AdminLog | undefined): void {
  admin.setErrorHandler((error, request, reply) => {
    const known = problemOf(error);
    if (known === null)
      log?.error({ err: error, path: loggedPath(request) }, 'admin request failed with an unexpected error');
    const problem = known ?? new Problem(500, 'the hub met an error of its own; its log says more');
    return reply
      .code(problem.status)
      .headers(problem.headers)
      .type('application/problem+json')
      .send(problem.toJson(pathOf(request)));
  });
}

function methodRefused(request: FastifyRequest, allowed: readonly string[]): Problem {
  return new Problem(405, `${request.method} is not a method of ${pathOf(request)}`, {
    headers: { allow: allowed.join(', ') },
  });
}

const callers = new WeakMap<FastifyRequest, Caller>();

/** Set by the first hook of the guarded scope. */
const callerOf = (request: FastifyRequest): Caller => callers.get(request) as Caller;

const traces = new WeakMap<FastifyRequest, Trace>();

/** Request and correlation id, generated once per request when absent. [D14] */
export function traceOf(request: FastifyRequest): Trace {
  const known = traces.get(request);
  if (known) return known;
  const trace = {
    requestId: readId(request.headers[requestIdHeader.toLowerCase()]),
    correlationId: readId(request.headers[correlationIdHeader.toLowerCase()]),
  };
  traces.set(request, trace);
  return trace;
}

/** `/parties/{id}` → `/parties/:id`. */
function fastifyPath(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ':$1');
}

/** Of a trace the pattern, also of one that no route has: its key may be a uid, which no log has. */
function loggedPath(request: FastifyRequest): string {
  const path = pathOf(request);
  return path.includes('/trace/') ? (request.routeOptions.url ?? '') : path;
}

function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0] ?? '';
}
