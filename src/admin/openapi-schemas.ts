/**
 * Converts the route tables' zod schemas to JSON Schemas for OpenAPI: drops keywords that only validation needs, and
 * names the shapes that several answers share.
 */
import { z } from 'zod';
import type { AdminRoute } from './route.ts';

export interface JsonSchema {
  readonly [key: string]: unknown;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
}

/** The schema of a request. */
export function asked(schema: z.ZodType): JsonSchema {
  return plain(z.toJSONSchema(schema, { io: 'input' })) as JsonSchema;
}

/** The schema of an answer. Answers may gain fields, so it does not forbid additional ones. */
export function answered(schema: z.ZodType): JsonSchema {
  return open(plain(z.toJSONSchema(schema))) as JsonSchema;
}

/** The schema of a query parameter, without null, which a query cannot express. */
export function ofQuery({ anyOf, default: preset, ...schema }: JsonSchema): JsonSchema {
  const [only, ...others] = anyOf?.filter(({ type }) => type !== 'null') ?? [];
  return {
    ...schema,
    ...(only && others.length === 0 ? only : anyOf && { anyOf }),
    ...(preset !== undefined && preset !== null && { default: preset }),
  };
}

/** Names of schemas by GET route: the name stands for the route's answer or, for a list, its items. */
const names: Readonly<Record<string, string>> = {
  '/parties/{id}': 'Party',
  '/routes': 'Route',
  '/routes/explain': 'Explanation',
  '/deliveries/{id}': 'Delivery',
  '/redrives/{id}': 'Job',
  '/backups/{id}': 'Backup',
  '/trace/{key}': 'Trace',
  '/events': 'Event',
  '/commands/{id}': 'Command',
  '/pulls/{id}': 'Pull',
  '/quarantine': 'RefusedObject',
  '/orphans': 'Orphan',
  '/stored-not-forwarded': 'StoredNotForwarded',
  '/status': 'Status',
  '/overview': 'Overview',
};

export interface NamedSchemas {
  readonly schemas: Readonly<Record<string, JsonSchema>>;
  /** The schema with every named shape replaced by a reference. */
  refer(schema: JsonSchema): JsonSchema;
}

export function namedSchemas(routes: readonly AdminRoute[]): NamedSchemas {
  const byShape = new Map<string, string>();
  const shapes: Record<string, JsonSchema> = {};
  for (const { method, path, answer } of routes) {
    const name = names[path];
    if (method !== 'GET' || name === undefined) continue;
    const whole = answered(answer);
    const shape = whole.properties?.next_cursor ? (whole.properties.items?.items ?? whole) : whole;
    shapes[name] = shape;
    byShape.set(JSON.stringify(shape), name);
  }
  const refer = (value: unknown, itself?: string): unknown =>
    mapped(value, (inner) => {
      const name = byShape.get(JSON.stringify(inner));
      return name === undefined || name === itself ? undefined : { $ref: `#/components/schemas/${name}` };
    });
  const schemas = Object.entries(shapes).map(([name, shape]) => [name, refer(shape, name) as JsonSchema]);
  return { schemas: Object.fromEntries(schemas), refer: (schema) => refer(schema) as JsonSchema };
}

/** A deep copy in which `replace` may substitute any object; undefined keeps it. */
function mapped(value: unknown, replace: (value: object) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => mapped(item, replace));
  if (typeof value !== 'object' || value === null) return value;
  const other = replace(value);
  if (other !== undefined) return other;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapped(inner, replace)]));
}

/** Drops `$schema`, which the document states, and patterns that only repeat the format. */
function plain(schema: unknown): unknown {
  return without(schema, (key, of) => key === '$schema' || key === 'propertyNames' || (key === 'pattern' && of.format));
}

function open(schema: unknown): unknown {
  return without(schema, (key, of) => key === 'additionalProperties' && of.additionalProperties === false);
}

function without(value: unknown, isOut: (key: string, of: JsonSchema) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => without(item, isOut));
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([key]) => !isOut(key, value as JsonSchema));
  return Object.fromEntries(kept.map(([key, inner]) => [key, without(inner, isOut)]));
}
