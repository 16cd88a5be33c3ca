/**
 * JSON Schemas of the route tables as OpenAPI wants them: without what only the checker needs, and with one name for a shape
 * that stands in many answers.
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

/** What is asked of a caller. */
export function asked(schema: z.ZodType): JsonSchema {
  return plain(z.toJSONSchema(schema, { io: 'input' })) as JsonSchema;
}

/** What is answered. More may stand beside it, so nothing is said about further fields. */
export function answered(schema: z.ZodType): JsonSchema {
  return open(plain(z.toJSONSchema(schema))) as JsonSchema;
}

/** A query can carry no null: it is left out. */
export function ofQuery({ anyOf, default: preset, ...schema }: JsonSchema): JsonSchema {
  const [only, ...others] = anyOf?.filter(({ type }) => type !== 'null') ?? [];
  return {
    ...schema,
    ...(only && others.length === 0 ? only : anyOf && { anyOf }),
    ...(preset !== undefined && preset !== null && { default: preset }),
  };
}

/** Names of shapes, by the route that shows one: the answer itself or, of a list, its items. */
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
  /** The schema with every named shape in it as a reference. */
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

/** A copy in which `replace` may put something else for any object. */
function mapped(value: unknown, replace: (value: object) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => mapped(item, replace));
  if (typeof value !== 'object' || value === null) return value;
  const other = replace(value);
  if (other !== undefined) return other;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapped(inner, replace)]));
}

/** Without the dialect, which the document names, and without patterns that only spell out their format. */
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
