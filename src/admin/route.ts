/**
 * The form of an admin route. One table per noun says method, path, role and schemas; the server registers it, checks
 * requests by it and describes it as OpenAPI.
 *
 * ROUTE-1  What is not in a schema is refused: an operator's typo must not pass as "no filter" or "no change".
 */
import { z } from 'zod';
import type { Trace } from '../domain/trace.ts';
import type { Page, PageRequest } from '../hub/ports/operator.ts';
import { Problem } from './problem.ts';

export type AdminRole = 'admin' | 'viewer';

export interface RawRequest {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
  readonly trace: Trace;
  /** Whose token it is. */
  readonly caller: AdminRole;
}

export interface AdminRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below `/admin/v1`, parameters in braces. */
  readonly path: string;
  /** The least role; an admin may do all that a viewer may. */
  readonly role: AdminRole;
  readonly summary: string;
  readonly status: number;
  /** Where one route answers in two ways. */
  readonly statusOf?: (answer: unknown) => number;
  readonly params: z.ZodType;
  readonly query: z.ZodType;
  readonly body: z.ZodType;
  readonly answer: z.ZodType;
  run(request: RawRequest): Promise<unknown>;
  /** Items one by one, for `Accept: application/x-ndjson`. */
  readonly lines?: (request: RawRequest) => AsyncIterable<unknown>;
}

/** What may be answered under a schema: arrays and fields of the hub's views are read-only. */
type Shown<T> = T extends readonly (infer Item)[]
  ? readonly Shown<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Shown<T[Key]> }
    : T;

const nothing = z.strictObject({});
const noBody = nothing.optional();
export const noAnswer = z.void();

interface Input<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> {
  readonly params: z.output<P>;
  readonly query: z.output<Q>;
  readonly body: z.output<B>;
  readonly trace: Trace;
  readonly caller: AdminRole;
}

interface Definition<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, A extends z.ZodType>
  extends Pick<AdminRoute, 'method' | 'path' | 'role' | 'summary'> {
  readonly status?: number;
  readonly statusOf?: (answer: unknown) => number;
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  readonly answer: A;
  run(input: Input<P, Q, B>): Shown<z.input<A>> | Promise<Shown<z.input<A>>>;
  lines?(input: Input<P, Q, B>): AsyncIterable<unknown>;
}

/** Ties a definition's schemas to what its `run` gets and answers. `run` throws `Problem` for what the schemas refuse. */
export function route<
  A extends z.ZodType,
  P extends z.ZodType = typeof nothing,
  Q extends z.ZodType = typeof nothing,
  B extends z.ZodType = typeof noBody,
>(definition: Definition<P, Q, B, A>): AdminRoute {
  const { method, path, role, summary, status = 200, statusOf, answer, lines } = definition;
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
    ...{ method, path, role, summary, status, answer },
    ...schemas,
    run: async (raw) => definition.run(inputOf(raw)),
    ...(statusOf ? { statusOf } : {}),
    ...(lines ? { lines: (raw: RawRequest) => lines(inputOf(raw)) } : {}),
  };
}

function checked(place: string, schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw Problem.validation(place, result.error);
}

/** A page of a list that the hub gives whole: in order of key, behind the cursor. */
export function pageOf<T>(items: readonly T[], keyOf: (item: T) => string, { limit, cursor }: PageRequest): Page<T> {
  const after = cursor === null ? '' : Buffer.from(cursor, 'base64url').toString('utf8');
  const left = items
    .map((item) => ({ item, key: keyOf(item) }))
    .filter(({ key }) => key > after)
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  const page = left.slice(0, limit);
  const last = left.length > limit ? page.at(-1) : undefined;
  return {
    items: page.map(({ item }) => item),
    next_cursor: last ? Buffer.from(last.key, 'utf8').toString('base64url') : null,
  };
}
