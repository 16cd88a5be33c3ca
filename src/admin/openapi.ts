/**
 * OpenAPI 3.1 of the admin API, from the very tables that are served: what is described is what is checked.
 */
import { z } from 'zod';
import type { AdminRoute } from './route.ts';

interface JsonSchema {
  readonly [key: string]: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
}

const problem: JsonSchema = {
  type: 'object',
  description: 'RFC 9457',
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    instance: { type: 'string' },
    errors: {
      type: 'array',
      items: { type: 'object', properties: { field: { type: 'string' }, message: { type: 'string' } } },
    },
  },
  required: ['type', 'title', 'status', 'detail', 'instance'],
};

export function openApi(routes: readonly AdminRoute[], publicUrl: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'ocpi-hub admin API', version: 'v1' },
    servers: [{ url: `${publicUrl}/admin/v1` }],
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: 'admin or viewer token' } },
      schemas: { problem },
      responses: {
        problem: {
          description: 'Refused',
          content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/problem' } } },
        },
      },
    },
  };
}

function operation(route: AdminRoute): object {
  const body = asked(route.body);
  return {
    summary: route.summary,
    operationId: operationId(route),
    description: route.role === 'admin' ? 'Needs the admin token.' : 'The viewer token suffices.',
    parameters: [...parameters('path', asked(route.params)), ...parameters('query', asked(route.query))],
    ...(hasFields(body) ? { requestBody: { required: true, content: { 'application/json': { schema: body } } } } : {}),
    responses: { [route.status]: answer(route), default: { $ref: '#/components/responses/problem' } },
  };
}

/** `POST /parties/{id}/suspend` → `post-parties-id-suspend`. */
function operationId({ method, path }: AdminRoute): string {
  return (method.toLowerCase() + path).replaceAll(/[{}]/g, '').replaceAll('/', '-');
}

function asked(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, { io: 'input' }) as JsonSchema;
}

function hasFields(schema: JsonSchema): boolean {
  return Object.keys(schema.properties ?? {}).length > 0;
}

function parameters(place: 'path' | 'query', { properties = {}, required = [] }: JsonSchema): object[] {
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: place,
    required: required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema,
  }));
}

function answer({ status, answer, lines }: AdminRoute): object {
  if (status === 204) return { description: 'Done' };
  const schema = z.toJSONSchema(answer);
  const streamed = lines ? { 'application/x-ndjson': { schema: { description: 'items, one a line' } } } : {};
  return { description: 'Done', content: { 'application/json': { schema }, ...streamed } };
}
