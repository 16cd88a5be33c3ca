/**
 * Server of the admin API, `/admin/v1`: JSON, bearer tokens, problem details. Each noun contributes a route table.
 *
 * ADMIN-SERVER-1  The token is checked before anything else, so that without one not even the existence of a path
 *     shows.
 * ADMIN-SERVER-2  Until recovery is complete everything below `/admin/v1` is answered 503.
 * ADMIN-SERVER-3  A viewer gets every answer, streamed or not, with the names of persons hidden, whatever the route.
 */
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import type { ClusterView } from '../api/cluster.ts';
import { masked } from '../domain/mask.ts';
import type { Trace } from '../domain/trace.ts';
import type { Hub } from '../hub/ports/hub.ts';
import type { Operations } from '../hub/ports/operator.ts';
import { correlationIdHeader, readId, requestIdHeader } from '../transport/headers.ts';
import { otherMethods, withHead } from '../transport/methods.ts';
import { AuditTrail } from './audit-trail.ts';
import { docs } from './docs.ts';
import { fileOf } from './list-files.ts';
import { audit } from './nouns/audit.ts';
import { backups } from './nouns/backups.ts';
import { checks } from './nouns/checks.ts';
import { cluster } from './nouns/cluster.ts';
import { commands } from './nouns/commands.ts';
import { deliveries } from './nouns/deliveries.ts';
import { events } from './nouns/events.ts';
import { history } from './nouns/history.ts';
import { orphans } from './nouns/orphans.ts';
import { overview } from './nouns/overview.ts';
import { parties } from './nouns/parties.ts';
import { persons } from './nouns/persons.ts';
import { pulls } from './nouns/pulls.ts';
import { reconciliation } from './nouns/reconciliation.ts';
import { redrives } from './nouns/redrives.ts';
import { routes } from './nouns/routes.ts';
import { status } from './nouns/status.ts';
import { storedNotForwarded } from './nouns/stored-not-forwarded.ts';
import { trace } from './nouns/trace.ts';
import { webhooks } from './nouns/webhooks.ts';
import type { ApiDocument } from './openapi.ts';
import { Problem, problemOf } from './problem.ts';
import type { AdminRoute, Caller } from './route.ts';
import { type AdminTokens, admitReader, type Gate, gate, requireRole } from './tokens.ts';

const nouns = [
  ...[parties, checks, routes, deliveries, redrives, trace, events, commands],
  ...[pulls, orphans, storedNotForwarded, reconciliation, history, status, overview, backups, persons, audit, webhooks],
];
const bodyBytesMax = 262_144;
const recoveringRetryS = 1;

/** All admin routes, in order of nouns. */
export function adminRoutes(operations: Operations, nodes: () => ClusterView = alone(operations)): AdminRoute[] {
  return [...nouns.flatMap((noun) => noun(operations)), ...cluster(nodes)];
}

/** The cluster view of a hub that is a single process. */
const alone = (operations: Operations) => (): ClusterView => {
  const { sequence: head } = operations.status();
  return { store: 'level', role: 'owner', lease_s: null, head, database: null, nodes: [] };
};

interface AdminLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface AdminOptions extends AdminTokens {
  readonly log?: AdminLog;
  /** Every change needs a reason (HUB_REQUIRE_REASON). */
  readonly isReasonRequired?: boolean;
  /** The answer of `/metrics`. */
  readonly metrics?: () => Promise<{ readonly contentType: string; readonly text: string }>;
  /** False while the hub recovers. */
  readonly isReady?: () => boolean;
  /** The nodes of the hub; absent for a single process. */
  readonly cluster?: () => ClusterView;
}

/** Registers `/admin/v1`, `/admin/docs` and `/metrics`; no prefix needed. */
export function adminServer(hub: Hub, options: AdminOptions): FastifyPluginAsync {
  return async (app) => {
    answerProblems(app, options.log);
    const table = adminRoutes(hub.operations, options.cluster);
    const trail = new AuditTrail(hub.operations, options);
    // Generated once, since it is served without a token; and on first request, since the public URL is not known
    // before, and a start need not load what most hubs are never asked for.
    let known: Promise<ApiDocument> | undefined;
    const describe = () => {
      known ??= import('./openapi.ts').then(({ openApi }) => openApi(table, hub.publicUrl));
      return known;
    };
    await app.register(docs(describe));
    await app.register(async (scope) => measures(scope, options));
    await app.register(async (admin) => serve(admin, table, describe, trail, options), { prefix: '/admin/v1' });
  };
}

/** `/metrics`, for callers that may read the admin API. */
async function measures(scope: FastifyInstance, { metrics, ...tokens }: AdminOptions): Promise<void> {
  if (!metrics) return;
  const allow = gate(tokens);
  scope.get('/metrics', {
    exposeHeadRoute: true,
    onRequest: async ({ raw }) => admitReader(allow, raw),
    handler: async (_request, reply) => {
      const { contentType, text } = await metrics();
      return reply.type(contentType).send(text);
    },
  });
}

async function serve(
  admin: FastifyInstance,
  table: readonly AdminRoute[],
  describe: () => Promise<object>,
  trail: AuditTrail,
  options: AdminOptions,
): Promise<void> {
  acceptJsonAlone(admin);
  admin.addHook('onRequest', async (request, reply) => {
    const { requestId, correlationId } = traceOf(request);
    reply.headers({ [requestIdHeader]: requestId, [correlationIdHeader]: correlationId });
  });
  const { isReady = () => true } = options;
  // [ADMIN-SERVER-2]
  admin.addHook('onRequest', async () => {
    if (isReady()) return;
    throw new Problem(503, 'the hub is recovering', { headers: { 'retry-after': String(recoveringRetryS) } });
  });
  admin.addHook('onResponse', async (request, reply) => {
    const { method } = request;
    // The gate logs refused tokens.
    if (reply.statusCode === 401 || reply.statusCode === 429) return;
    const line = { method, path: pathOf(request), status: reply.statusCode, durationMs: Math.round(reply.elapsedTime) };
    options.log?.info({ ...line, ...traceOf(request) }, 'admin request');
  });
  admin.get('/openapi.json', { exposeHeadRoute: true }, async () => describe());
  await admin.register(async (guarded) => guard(guarded, table, gate(options), trail));
}

/** Registers everything that needs a token, unknown paths included. */
function guard(guarded: FastifyInstance, table: readonly AdminRoute[], allow: Gate, trail: AuditTrail): void {
  const besides = ['/inspector', '/openapi.json'].map((path) => ({ method: 'GET', path }));
  const served = withHead([...table, ...besides].map(({ method, path }) => ({ method, path: fastifyPath(path) })));
  guarded.addHook('onRequest', async (request) => {
    const caller = admitReader(allow, request.raw);
    callers.set(request, caller);
    if (!request.is404) return;
    // Checked before the body is read: a refused method needs no valid body.
    const methods = otherMethods(served, pathOf(request).slice(guarded.prefix.length), request.method);
    if (methods.length > 0) throw methodRefused(request, methods);
  });
  for (const route of table) {
    guarded.route({
      method: route.method,
      url: fastifyPath(route.path),
      exposeHeadRoute: route.method === 'GET',
      bodyLimit: bodyBytesMax,
      onRequest: async (request) => requireRole(callerOf(request), route.role),
      preValidation: async (request) => trail.takeReason(route, request),
      onSend: async (request, reply) => {
        const caller = callers.get(request);
        if (caller) await trail.note(route, request, reply, caller, traceOf(request));
      },
      handler: (request, reply) => answer(route, request, reply, callerOf(request)),
    });
  }
  guarded.get('/inspector', { exposeHeadRoute: true }, async () => {
    throw new Problem(426, 'the inspector is a WebSocket', {
      headers: { upgrade: 'websocket', connection: 'upgrade' },
    });
  });
  refuseUnknownPaths(guarded);
}

async function answer(
  route: AdminRoute,
  request: FastifyRequest,
  reply: FastifyReply,
  caller: Caller,
): Promise<unknown> {
  const { params, query, body } = request;
  const raw = { params, query, body, trace: { ...traceOf(request), operator: caller.name }, caller };
  // [ADMIN-SERVER-3]
  const shown = caller.role === 'viewer' ? masked : (value: unknown) => value;
  const file = await fileOf(route, raw, request.headers.accept, shown);
  if (file) return reply.type(file.type).send(file.content);
  const result = await route.run(raw);
  return reply.code(route.statusOf?.(result) ?? route.status).send(shown(result));
}

/** Accepts only JSON bodies, regardless of parsers of the outer scope. An empty body counts as absent. */
function acceptJsonAlone(admin: FastifyInstance): void {
  admin.removeAllContentTypeParsers();
  admin.addContentTypeParser(
    'application/json',
    { parseAs: 'string' },
    async (_request: FastifyRequest, body: string) => {
      try {
        return body === '' ? undefined : JSON.parse(body);
      } catch (error) {
        throw new Problem(400, `the body is not JSON: ${(error as Error).message}`);
      }
    },
  );
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
      log?.error({ err: error, path: pathOf(request) }, 'admin request failed with an unexpected error');
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
function traceOf(request: FastifyRequest): Trace {
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

function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0] ?? '';
}
