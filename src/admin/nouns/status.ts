/**
 * Routes `/status` (state of the hub), `/caller` (role of the token), `/overview` (one row per partner, for pages that
 * poll: they send the revision that they have) and `/cluster` (the nodes). `health` serves the health checks, which need
 * no token.
 */
import type { FastifyPluginAsync } from 'fastify';
import * as z from 'zod';
import { callerRole } from '../../api/audit.ts';
import { type ClusterView, clusterView, type HubStatus, hubStatus } from '../../api/hub.ts';
import { overviewOfAll } from '../../api/overview.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

/** A step of the wall clock is warned of when it is at least so large, and for so long, seconds. */
const warnedStepS = 60;
const warnedForS = 3_600;

const after = z.string().min(1).max(64).exactOptional().describe('revision of the answer before');

export function status(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/status',
      summary: 'Show version, store, sequence, actors and backlog',
      answer: hubStatus,
      run: () => operations.status(),
    }),
    route({
      method: 'GET',
      path: '/caller',
      summary: 'Show whose token was sent, and what it may do',
      answer: z.object({ name: z.string(), role: callerRole }),
      run: ({ caller }) => caller,
    }),
    route({
      method: 'GET',
      path: '/overview',
      summary:
        'Show every partner in a row, or the rows that have changed since a revision, and what runs and is wrong',
      query: z.strictObject({ after }),
      answer: overviewOfAll,
      run: ({ query: { after } }) => operations.overview(after),
    }),
  ];
}

/** Every node answers it, even while no hub runs on it. */
export function cluster(view: () => ClusterView): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/cluster',
      summary: 'Show the nodes of the hub and which of them is the owner',
      answer: clusterView,
      run: view,
    }),
  ];
}

/**
 * `/healthz`: 200 while the process answers. `/readyz`: 200 while the hub takes work, even if the store has a
 * `warning` or the wall clock was moved; 503 during recovery or when the store has failed.
 */
export function health(operations: Operations): FastifyPluginAsync {
  return async (app) => {
    app.get('/healthz', { exposeHeadRoute: true }, async () => ({ status: 'alive' }));
    app.get('/readyz', { exposeHeadRoute: true }, async (_request, reply) => {
      const { ready, store, clock_step } = operations.status();
      if (ready) return { status: 'ready', ...warningOf(store.reason, clockWarning(clock_step)) };
      return reply
        .code(503)
        .header('retry-after', '1')
        .send({ status: 'not ready', store: store.state, reason: reasonOf(store) });
    });
  };
}

function warningOf(...warnings: readonly (string | null)[]): { warning?: string } {
  const warning = warnings.filter((one) => one !== null).join('; ');
  return warning === '' ? {} : { warning };
}

function clockWarning(step: HubStatus['clock_step']): string | null {
  if (step === null || Math.abs(step.seconds) < warnedStepS || step.ago_s > warnedForS) return null;
  return `the wall clock of this machine was moved by ${Math.round(step.seconds)} s`;
}

function reasonOf({ state, reason }: ReturnType<Operations['status']>['store']): string {
  if (state === 'open') return 'recovering';
  return `store ${state}${reason === null || reason === state ? '' : `: ${reason}`}`;
}
