/**
 * Shapes that several answers of the admin API share. The schemas of `src/api` are its only description: hub, routes,
 * command line, console and OpenAPI infer their types from them.
 */
import * as z from 'zod';

export const instant = z.iso.datetime({ offset: true, error: 'expected an RFC 3339 date-time with Z or an offset' });

/** A network in CIDR form, or a single address. */
export const network = z.union([z.cidrv4(), z.cidrv6(), z.ipv4(), z.ipv6()], {
  error: 'expected a network such as 192.0.2.0/24',
});

export const role = z.enum(['CPO', 'EMSP']);

export const interfaceRole = z.enum(['SENDER', 'RECEIVER']);

export const quirkSource = z
  .enum(['learnt', 'operator'])
  .describe('learnt = the hub found it out and makes up for it; operator = a setting that an operator chose does');

/** Schema of a list: one page of items. */
export function listOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item), next_cursor: z.string().nullable() });
}

/** Read-only at every depth. */
export type Frozen<T> = T extends readonly (infer Item)[]
  ? readonly Frozen<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Frozen<T[Key]> }
    : T;

/** The type of an answer with this schema, read-only at every depth. */
export type View<Schema extends z.ZodType> = Frozen<z.output<Schema>>;

/** One page of a list; the route that answers it defines the order. */
export interface Page<T> {
  readonly items: readonly T[];
  /** Null on the last page. */
  readonly next_cursor: string | null;
}

// Answers about who takes care of a case or of a group of dead letters.

export const triage = z.object({
  assignee: z.string().nullable(),
  snoozed_until: instant.nullable().describe('until then it needs no attention; it may have passed'),
  remarks: z.array(z.object({ at: instant, by: z.string(), text: z.string() })).describe('the last 20, oldest first'),
});

export type TriageView = View<typeof triage>;

// Refusals of the admin API: problem details, RFC 9457.

const fieldError = z.object({
  field: z.string().describe('body, query or path, then the field: body.roles[0].party_id'),
  message: z.string(),
});

export const problemDetails = z
  .object({
    type: z.string().describe('urn:ocpi-hub:problem:…, one for each status'),
    title: z.string(),
    status: z.int().min(400).max(599),
    detail: z.string().describe('what is wrong with this request'),
    instance: z.string().describe('the path that was asked for'),
    errors: z.array(fieldError).exactOptional().describe('each field that was refused'),
  })
  .describe('Problem details, RFC 9457');

export type FieldError = View<typeof fieldError>;
export type ProblemDetails = View<typeof problemDetails>;
