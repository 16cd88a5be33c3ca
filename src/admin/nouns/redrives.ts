/**
 * Routes of re-drive and discard (one delivery, or all that match a filter, with a dry run) and resync (send a receiver
 * the present objects again).
 */
import * as z from 'zod';
import { delivery } from '../../api/deliveries.ts';
import { idParams, partnerParams } from '../../api/fields.ts';
import { discardFilter, discardPlan, job, redriveFilter, redrivePlan } from '../../api/jobs.ts';
import { moduleNames } from '../../domain/modules.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

const request = z.strictObject({
  filter: redriveFilter,
  dry_run: z.boolean().default(false),
  rate_per_s: z.number().min(0.1).max(1000).default(50).describe('deliveries re-driven per second at most'),
  force: z
    .boolean()
    .default(false)
    .describe('also where the receiver has a newer version, or may no longer have the object'),
  routing: z
    .enum(['then', 'now'])
    .optional()
    .describe(
      'the receivers of then, or of these those that are routed now; when absent, those of then, of which those that are not routed now are skipped as stale',
    ),
});

/** A dry run has a plan, anything else a job. */
const statusOf = (answer: unknown) => ('sample' in (answer as object) ? 200 : 202);

export function redrives(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'POST',
      path: '/deliveries/{id}/redrive',
      role: 'support',
      summary: 'Retry one delivery',
      status: 202,
      params: idParams,
      body: z.strictObject({ force: z.boolean().default(false) }).default({ force: false }),
      answer: delivery,
      run: ({ params: { id }, body: { force }, trace }) => operations.redriveOne(id, force, trace),
    }),
    route({
      method: 'POST',
      path: '/redrive',
      role: 'support',
      summary: 'Re-drive all deliveries that match a filter; with dry_run only count them',
      status: 202,
      statusOf,
      body: request,
      answer: z.union([redrivePlan, job]),
      run: ({ body: { filter: found, dry_run, rate_per_s: ratePerS, force, routing }, trace }) =>
        dry_run
          ? operations.planRedrive(found, { routing, force })
          : operations.redrive(found, { ratePerS, force, routing }, trace),
    }),
    route({
      method: 'POST',
      path: '/deliveries/{id}/discard',
      role: 'support',
      summary: 'Give up one dead letter; a re-drive sends it all the same',
      params: idParams,
      answer: delivery,
      run: ({ params: { id }, trace }) => operations.discardOne(id, trace),
    }),
    route({
      method: 'POST',
      path: '/discard',
      role: 'support',
      summary: 'Give up all dead letters that match a filter; with dry_run only count them',
      status: 202,
      statusOf,
      body: z.strictObject({ filter: discardFilter, dry_run: z.boolean().default(false) }),
      answer: z.union([discardPlan, job]),
      run: ({ body: { filter: found, dry_run }, trace }) =>
        dry_run ? operations.planDiscard(found) : operations.discard(found, trace),
    }),
    route({
      method: 'GET',
      path: '/redrives/{id}',
      summary: 'Show how a re-drive, resync or discard goes',
      params: idParams,
      answer: job,
      run: ({ params: { id } }) => operations.job(id),
    }),
    route({
      method: 'DELETE',
      path: '/redrives/{id}',
      role: 'support',
      summary: 'Cancel a re-drive, resync or discard; what was done stays done',
      params: idParams,
      answer: job,
      run: ({ params: { id }, trace }) => operations.cancelJob(id, trace),
    }),
    route({
      method: 'POST',
      path: '/parties/{id}/resync',
      summary: 'Send a partner the present objects of a module that it is entitled to; progress at /redrives/{id}',
      status: 202,
      params: partnerParams,
      body: z.strictObject({ module: z.enum(moduleNames) }),
      answer: job,
      run: ({ params: { id }, body: { module }, trace }) => operations.resync(id, module, trace),
    }),
  ];
}
