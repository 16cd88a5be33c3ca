/**
 * Definition of an admin route. Each noun has a table of routes with method, path, role and schemas; the server
 * registers them, validates requests by them and generates the OpenAPI document from them.
 *
 * ROUTE-1  Fields that are not in the schema are refused, so that an operator's typo does not act as "no filter" or "no
 *     change".
 * ROUTE-2  A viewer only reads: its role suffices for GET, and for nothing else. Unless a route says otherwise, a change
 *     needs the role operator.
 * ROUTE-3  Any change takes `reason`, in the query or the body, for the audit log.
 */
import * as z from 'zod';
import type { CallerRole, OperatorRole } from '../api/audit.ts';
import type { Frozen, Page } from '../api/common.ts';
import { HubError } from '../domain/errors.ts';
import type { Trace } from '../domain/events.ts';
import type { PageRequest } from '../hub/ports/operator.ts';
import { Problem } from './problem.ts';

/** Each role may do what those before it may, but for a partner, which has the doors of its portal alone. */
export const roleRank: Readonly<Record<CallerRole, number>> = {
  partner: -1,
  viewer: 0,
  support: 1,
  operator: 2,
  admin: 3,
};

/** Whose token a request has. */
export interface Caller {
  readonly name: string;
  readonly role: CallerRole;
}

export interface NamedOperator extends Caller {
  readonly role: OperatorRole;
}

export interface RawRequest {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
  readonly trace: Trace;
  readonly caller: Caller;
}

export interface AdminRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path below `/admin/v1`, parameters in braces. */
  readonly path: string;
  /** The lowest role that may call it. */
  readonly role: CallerRole;
  /** The answer holds bodies of partners, so that its reading is an entry of the audit log. */
  readonly showsBodies: boolean;
  readonly summary: string;
  readonly status: number;
  /** Chooses the status for a route with several kinds of answer. */
  readonly statusOf?: (answer: unknown) => number;
  readonly params: z.ZodType;
  readonly query: z.ZodType;
  readonly body: z.ZodType;
  readonly answer: z.ZodType;
  /** The field of an answer that is no page whose items are its file. */
  readonly rows?: string;
  run(request: RawRequest): Promise<unknown>;
}

const nothing = z.strictObject({});
const noBody = nothing.optional();
export const noAnswer = z.void();

interface Input<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> {
  readonly params: z.output<P>;
  readonly query: z.output<Q>;
  readonly body: z.output<B>;
  readonly trace: Trace;
  readonly caller: Caller;
}

interface Definition<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, A extends z.ZodType>
  extends Pick<AdminRoute, 'method' | 'path' | 'summary'> {
  readonly role?: CallerRole;
  readonly showsBodies?: true;
  readonly status?: number;
  readonly statusOf?: (answer: unknown) => number;
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  readonly answer: A;
  readonly rows?: string & keyof z.input<A>;
  run(input: Input<P, Q, B>): Frozen<z.input<A>> | Promise<Frozen<z.input<A>>>;
}

/**
 * Ties a definition's schemas to the types of its `run`. The route's `run` throws `Problem` for input that the schemas
 * refuse.
 */
export function route<
  A extends z.ZodType,
  P extends z.ZodType = typeof nothing,
  Q extends z.ZodType = typeof nothing,
  B extends z.ZodType = typeof noBody,
>(definition: Definition<P, Q, B, A>): AdminRoute {
  const { method, path, summary, status = 200, statusOf, answer, rows } = definition;
  const { role = method === 'GET' ? 'viewer' : 'operator', showsBodies = false } = definition;
  const schemas = {
    params: definition.params ?? nothing,
    query: definition.query ?? nothing,
    body: definition.body ?? noBody,
  };
  const inputOf = (raw: RawRequest) =>
    ({
      params: checked('path', schemas.params, raw.params),
      query: checked('query', schemas.query, raw.query),
      body: checked('body', schemas.body, raw.body),
      trace: raw.trace,
      caller: raw.caller,
    }) as Input<P, Q, B>;
  return {
    method,
    path,
    role,
    showsBodies,
    summary,
    status,
    answer,
    ...schemas,
    run: async (raw) => definition.run(inputOf(raw)),
    ...(statusOf ? { statusOf } : {}),
    ...(rows === undefined ? {} : { rows }),
  };
}

function checked(place: string, schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw Problem.validation(place, result.error);
}

/** A page of a list that the hub returns as a whole: sorted by key, after the cursor. */
export function pageOf<T>(items: readonly T[], keyOf: (item: T) => string, { limit, cursor }: PageRequest): Page<T> {
  const after = cursor === null ? '' : Buffer.from(cursor, 'base64url').toString('utf8');
  if (cursor !== null && cursorOf(after) !== cursor) {
    throw new HubError('invalid', { message: 'cursor: not one of ours' });
  }
  const left = items
    .map((item) => ({ item, key: keyOf(item) }))
    .filter(({ key }) => key > after)
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  const page = left.slice(0, limit);
  const last = left.length > limit ? page.at(-1) : undefined;
  return {
    items: page.map(({ item }) => item),
    next_cursor: last ? cursorOf(last.key) : null,
  };
}

const cursorOf = (key: string) => Buffer.from(key, 'utf8').toString('base64url');
