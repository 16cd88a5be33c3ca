/**
 * Writes the audit log for the admin API: each request that may change something, with its sender and its outcome, and
 * each reading of bodies. [AUDIT-1]
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Trace } from '../domain/events.ts';
import type { AuditVerbs, NotedAct, Operations } from '../hub/ports/operator.ts';
import type { Visitors } from '../transport/visitors.ts';
import { Problem } from './problem.ts';
import type { AdminRoute, Caller } from './route.ts';

interface ErrorLog {
  error(fields: object, message: string): void;
}

export interface AuditOptions {
  readonly visitors: Visitors;
  /** Every change needs a reason. */
  readonly isReasonRequired?: boolean | undefined;
  /** Whether an act is an entry; absent: each is. */
  readonly isNoted?: (act: NotedAct) => boolean;
  readonly log?: ErrorLog;
}

/** Writes an act into the audit log; where the store cannot write, the line in the hub's log is the only record of it. */
export async function noteAct(
  operations: Pick<AuditVerbs, 'noteAct'>,
  act: NotedAct,
  log?: ErrorLog,
  reading?: string,
): Promise<void> {
  try {
    await operations.noteAct(act, reading);
  } catch (error) {
    log?.error({ err: error, ...act }, 'an act of an operator could not be written into the audit log');
  }
}

/** Characters of a reason. */
export const reasonMax = 500;

export class AuditTrail {
  readonly #operations: Pick<Operations, 'noteAct'>;
  readonly #options: AuditOptions;
  readonly #reasons = new WeakMap<FastifyRequest, string>();

  constructor(operations: Pick<Operations, 'noteAct'>, options: AuditOptions) {
    this.#operations = operations;
    this.#options = options;
  }

  /** Takes the reason out of a request, before its schemas see it. Throws a 422 `Problem`. [ROUTE-3] */
  takeReason({ method }: AdminRoute, request: FastifyRequest): void {
    if (method === 'GET') return;
    const [inQuery, inBody] = [takenFrom(request.query), takenFrom(request.body)];
    const given = inQuery ?? inBody ?? '';
    if (typeof given === 'string' && given.trim() === '') {
      if (!this.#options.isReasonRequired) return;
      throw new Problem(422, 'reason: an act of an operator needs one here (HUB_REQUIRE_REASON)');
    }
    if (typeof given !== 'string' || given.length > reasonMax) {
      throw new Problem(422, `reason: expected text of up to ${reasonMax} characters`);
    }
    this.#reasons.set(request, given);
  }

  /** Before the answer is sent. */
  async note(
    { method, path, showsBodies }: AdminRoute,
    request: FastifyRequest,
    { statusCode: status }: FastifyReply,
    { name: operator, role }: Caller,
    { correlationId: correlation_id }: Trace,
  ): Promise<void> {
    if (request.method === 'HEAD' || (method === 'GET' && !showsBodies)) return;
    const { visitors, isNoted = () => true, log } = this.#options;
    const [about = ''] = request.url.replace(/^.*?\/(?:admin|portal)\/v1/, '').split('?', 1);
    const act: NotedAct = {
      operator,
      role,
      verb: `${method} ${path}`,
      about,
      reason: this.#reasons.get(request) ?? null,
      address: visitors.exact(request.raw),
      status,
      correlation_id,
    };
    if (isNoted(act)) await noteAct(this.#operations, act, log, method === 'GET' ? request.url : undefined);
  }
}

/** Removes `reason` from an object and returns it; undefined when there is none. */
function takenFrom(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('reason' in value)) return undefined;
  const { reason } = value;
  delete value.reason;
  return reason;
}
