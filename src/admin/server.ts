/** Server of the admin API, `/admin/v1`. Each noun contributes a route table. */
import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import type { ClusterView } from '../api/hub.ts';
import type { Hub } from '../hub/ports/hub.ts';
import type { Operations } from '../hub/ports/operator.ts';
import { AuditTrail } from './audit-trail.ts';
import { audit } from './nouns/audit.ts';
import { backups } from './nouns/backups.ts';
import { checks } from './nouns/checks.ts';
import { commands } from './nouns/commands.ts';
import { deliveries, storedNotForwarded } from './nouns/deliveries.ts';
import { events } from './nouns/events.ts';
import { history } from './nouns/history.ts';
import { orphans } from './nouns/orphans.ts';
import { parties } from './nouns/parties.ts';
import { persons } from './nouns/persons.ts';
import { pulls } from './nouns/pulls.ts';
import { reconciliation } from './nouns/reconciliation.ts';
import { redrives } from './nouns/redrives.ts';
import { routes } from './nouns/routes.ts';
import { savedViews } from './nouns/saved-views.ts';
import { cluster, status } from './nouns/status.ts';
import { trace } from './nouns/trace.ts';
import { webhooks } from './nouns/webhooks.ts';
import type { ApiDocument } from './openapi.ts';
import { Problem } from './problem.ts';
import type { AdminRoute } from './route.ts';
import { type AdminLog, answerProblems, serveRoutes } from './serve-routes.ts';
import { type AdminTokens, admitted, gate } from './tokens.ts';

const nouns = [
  ...[parties, checks, routes, deliveries, redrives, trace, events, commands],
  ...[pulls, orphans, storedNotForwarded, reconciliation, history, status, backups, persons, audit, webhooks],
  savedViews,
];

const recoveringRetryS = 1;

/** All admin routes, in order of nouns. `nodes`: the nodes of the hub; absent for a single process. */
export function adminRoutes(operations: Operations, nodes: () => ClusterView = alone(operations)): AdminRoute[] {
  return [...nouns.flatMap((noun) => noun(operations)), ...cluster(nodes)];
}

/** The cluster view of a hub that is a single process. */
const alone = (operations: Operations) => (): ClusterView => {
  const { sequence: head } = operations.status();
  return { store: 'level', role: 'owner', warning: null, lease_s: null, head, database: null, nodes: [] };
};

export interface AdminOptions extends AdminTokens {
  readonly table: readonly AdminRoute[];
  readonly log?: AdminLog;
  /** Every change needs a reason (HUB_REQUIRE_REASON). */
  readonly isReasonRequired?: boolean;
  readonly metrics?: () => Promise<{ readonly contentType: string; readonly text: string }>;
  /** False while the hub recovers. */
  readonly isReady?: () => boolean;
}

/** Registers `/admin/v1`, `/admin/docs` and `/metrics`; no prefix needed. */
export function adminServer(hub: Hub, options: AdminOptions): FastifyPluginAsync {
  return async (app) => {
    const { table, isReady = () => true, log } = options;
    answerProblems(app, log);
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
    const shutForS = () => (isReady() ? null : recoveringRetryS);
    await app.register(
      serveRoutes({
        table,
        allow: gate(options),
        least: 'viewer',
        trail,
        log,
        shutForS,
        shutBecause: 'the hub is recovering',
        open: (scope) => void scope.get('/openapi.json', { exposeHeadRoute: true }, async () => describe()),
        more: inspectorDoor,
        besides: ['/inspector', '/openapi.json'].map((path) => ({ method: 'GET', path })),
      }),
      { prefix: '/admin/v1' },
    );
  };
}

/**
 * `/admin/docs`, the documentation of the admin API as one page that needs no other host and no token. It is loaded and rendered
 * once, when it is first asked for.
 */
function docs(describe: () => Promise<ApiDocument>): FastifyPluginAsync {
  let page: Promise<{ readonly html: string; readonly policy: string }> | undefined;
  const render = async () => {
    const [{ docsPage, policy }, described] = await Promise.all([import('./docs-page.ts'), describe()]);
    return { html: docsPage(described), policy };
  };
  return async (app) => {
    app.get('/admin/docs/', { exposeHeadRoute: true }, async (_request, reply) => reply.redirect('../docs', 308));
    app.get('/admin/docs', { exposeHeadRoute: true }, async (_request, reply) => {
      page ??= render();
      const { html, policy } = await page;
      return reply
        .headers({
          'content-security-policy': policy,
          'x-content-type-options': 'nosniff',
          'referrer-policy': 'no-referrer',
          'cache-control': 'no-cache',
        })
        .type('text/html; charset=utf-8')
        .send(html);
    });
  };
}

/** `/metrics`, for callers that may read the admin API. */
async function measures(scope: FastifyInstance, { metrics, ...tokens }: AdminOptions): Promise<void> {
  if (!metrics) return;
  const allow = gate(tokens);
  scope.get('/metrics', {
    exposeHeadRoute: true,
    onRequest: async ({ raw }) => admitted(allow, raw),
    handler: async (_request, reply) => {
      const { contentType, text } = await metrics();
      return reply.type(contentType).send(text);
    },
  });
}

/** Who asks for it without an upgrade. */
function inspectorDoor(guarded: FastifyInstance): void {
  guarded.get('/inspector', { exposeHeadRoute: true }, async () => {
    throw new Problem(426, 'the inspector is a WebSocket', {
      headers: { upgrade: 'websocket', connection: 'upgrade' },
    });
  });
}
