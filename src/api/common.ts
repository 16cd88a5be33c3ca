/**
 * Shapes that several answers of the admin API share. The schemas of `src/api` are its only description: hub, routes,
 * command line, console and OpenAPI infer their types from them.
 */
import { z } from 'zod';

export const instant = z.iso.datetime({ offset: true, error: 'expected an RFC 3339 date-time with Z or an offset' });

/** A network in CIDR form, or a single address. */
export const network = z.union([z.cidrv4(), z.cidrv6(), z.ipv4(), z.ipv6()], {
  error: 'expected a network such as 192.0.2.0/24',
});

export const role = z.enum(['CPO', 'EMSP']);

export const interfaceRole = z.enum(['SENDER', 'RECEIVER']);

export const quirkSource = z.enum(['learnt', 'operator']).meta({
  description: 'learnt = the hub found it out and makes up for it; operator = a setting that an operator chose does',
});

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
