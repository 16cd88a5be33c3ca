/**
 * OpenAPI 3.1 document of the admin API, generated from the route tables that are served, so it matches what is
 * validated.
 */
import * as z from 'zod';
import { correlationIdHeader, requestIdHeader } from '../transport/headers.ts';
import { reasonMax } from './audit-trail.ts';
import { fileTypes, listIn } from './list-files.ts';
import { type AnswerSchemas, answerSchemas, asked, type JsonSchema } from './openapi-schemas.ts';
import type { AdminRoute } from './route.ts';

/** Description of each noun; nouns are the tags that group operations. */
const nouns: Readonly<Record<string, string>> = {
  parties: 'Partners with their parties: onboarding, settings, endpoints, suspension',
  routes: 'Routing rules of eMSP–CPO pairs',
  deliveries: 'What is and was owed to receivers, with every attempt',
  'dead-letters': 'Deliveries that ended without success, counted',
  redrive: 'Putting deliveries back',
  discard: 'Giving dead letters up',
  redrives: 'Re-drives, resyncs and discards under way',
  trace: 'The story of an object or a correlation id',
  events: 'The event log',
  commands: 'Commands of eMSPs and how far each has come',
  checks: "Checks of partners' endpoints",
  pulls: "Pulls of CPOs' own lists",
  quarantine: 'What pulls refused',
  orphans: 'Sessions that did not end as they should',
  history: 'What passed through the hub, by minute and by hour',
  reconciliation: 'Sessions compared with the CDRs that bill them',
  'stored-not-forwarded': 'Sessions and CDRs that are stored and not forwarded, with the reason',
  status: 'The hub at a glance',
  overview: 'All partners at a glance',
  caller: 'What a token may do',
  backup: 'Backing the store up while the hub runs',
  backups: 'Backups under way',
  erase: 'Erasing the data of a person',
  subject: 'Exporting the data of a person',
  audit: 'Who acted on the hub',
  webhooks: 'Telling operators what needs them, by webhook and by mail',
  views: 'Addresses of the console that operators keep under a name',
  cluster: 'The nodes that share a store',
};

interface Refusal {
  readonly name: string;
  readonly description: string;
  readonly header?: 'WWW-Authenticate' | 'Retry-After';
  readonly when: (route: AdminRoute) => boolean;
}

const changes = ({ method }: AdminRoute) => method !== 'GET';

/** The refusals, and the routes that may answer each. */
const refusals: Readonly<Record<number, Refusal>> = {
  400: { name: 'Unreadable', description: 'The body is not JSON', when: changes },
  401: { name: 'TokenRequired', description: 'No valid token', header: 'WWW-Authenticate', when: () => true },
  403: { name: 'NotPermitted', description: 'The role of the token is too low', when: ({ role }) => role !== 'viewer' },
  404: { name: 'NotFound', description: 'No such thing under this id', when: ({ path }) => path.includes('{') },
  409: { name: 'Conflict', description: 'Not in its present state', when: changes },
  413: { name: 'TooLarge', description: 'The body is too large', when: changes },
  415: { name: 'JsonRequired', description: 'The body is not sent as application/json', when: changes },
  422: { name: 'Invalid', description: 'A field is not known or not valid; errors names each', when: () => true },
  503: { name: 'Unavailable', description: 'Not now', header: 'Retry-After', when: () => true },
};

export type ApiDocument = ReturnType<typeof openApi>;
export type Operation = ReturnType<typeof operation>;

export interface Response {
  readonly description: string;
  readonly headers: Readonly<Record<string, object>>;
  readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
}

export interface Reference {
  readonly $ref: string;
}

export function openApi(routes: readonly AdminRoute[], publicUrl: string) {
  const schemas = answerSchemas(routes.flatMap((route) => answersOf(route).map(({ schema }) => schema)));
  const paths: Record<string, Record<string, Operation>> = {};
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation(route, schemas) };
  }
  const tags = [...new Set(routes.map(tagOf))].map((name) => ({ name, ...described(nouns[name]) }));
  return {
    openapi: '3.1.0',
    info: {
      title: 'ocpi-hub admin API',
      version: 'v1',
      summary: 'Onboarding, routing, deliveries and their repair',
      description:
        'JSON over HTTP. Lists answer `{items, next_cursor}`: send `next_cursor` as `cursor` for the next page; null means ' +
        'that there is none. With `Accept: application/x-ndjson` or `text/csv` a list answers every item, or the first `limit` of them. What a schema does not name is refused in requests; answers may grow fields. ' +
        'Beside it `GET /admin/v1/inspector` is a WebSocket that shows the running actors live, in the wire protocol of ' +
        '`@statelyai/inspect`; docs/INSPECTOR.md describes it.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: `${publicUrl}/admin/v1` }],
    security: [{ bearer: [] }],
    tags,
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'The token of an operator' },
      },
      schemas: schemas.components,
      responses: {
        Problem: refused({ description: 'Refused for another reason' }),
        ...Object.fromEntries(Object.values(refusals).map((refusal) => [refusal.name, refused(refusal)])),
      },
      headers: {
        RequestId: { description: 'As sent, or minted', schema: { type: 'string' } },
        CorrelationId: { description: 'As sent, or minted; log lines and events carry it', schema: { type: 'string' } },
      },
      parameters: {
        RequestId: traceParameter(requestIdHeader, 'names this request'),
        CorrelationId: traceParameter(correlationIdHeader, 'joins all that follows from one thing'),
        Reason: {
          name: 'reason',
          in: 'query',
          required: false,
          schema: { type: 'string', maxLength: reasonMax },
          description: 'Why, for the audit log; also taken as a field of the body',
        },
      },
    },
  };
}

const echoed = {
  [requestIdHeader]: { $ref: '#/components/headers/RequestId' },
  [correlationIdHeader]: { $ref: '#/components/headers/CorrelationId' },
};

function traceParameter(name: string, description: string): Parameter {
  return { name, in: 'header', required: false, description, schema: { type: 'string' } };
}

function refused({ description, header }: Pick<Refusal, 'description' | 'header'>): Response {
  const own = header ? { [header]: { schema: { type: 'string' } } } : {};
  return {
    description,
    headers: { ...echoed, ...own },
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  };
}

function operation(route: AdminRoute, schemas: AnswerSchemas) {
  const parameters: (Parameter | Reference)[] = [
    ...parametersIn('path', route),
    ...parametersIn('query', route),
    ...(changes(route) ? [{ $ref: '#/components/parameters/Reason' }] : []),
    { $ref: '#/components/parameters/RequestId' },
    { $ref: '#/components/parameters/CorrelationId' },
  ];
  return {
    tags: [tagOf(route)],
    summary: route.summary,
    operationId: operationId(route),
    description: `Needs the role ${route.role} or a higher one.`,
    security: [{ bearer: [route.role] }],
    parameters,
    ...requestBody(route),
    responses: { ...answers(route, schemas), ...problems(route) },
  };
}

const described = (description: string | undefined) => (description === undefined ? {} : { description });

/** `/parties/{id}/suspend` → `parties`. */
const tagOf = ({ path }: AdminRoute) => path.split('/')[1] ?? '';

/** `POST /parties/{id}/suspend` → `post-parties-id-suspend`. */
function operationId({ method, path }: AdminRoute): string {
  return (method.toLowerCase() + path).replaceAll(/[{}]/g, '').replaceAll('/', '-');
}

function requestBody({ body }: AdminRoute) {
  const schema = asked(body);
  if (Object.keys(schema.properties ?? {}).length === 0) return {};
  const required = !body.safeParse(undefined).success;
  return { requestBody: { required, content: { 'application/json': { schema } } } };
}

function parametersIn(place: 'path' | 'query', { params, query }: AdminRoute): Parameter[] {
  const { properties = {}, required = [] } = asked(place === 'path' ? params : query);
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: place,
    required: required.includes(name),
    ...described(description),
    schema,
  }));
}

/** The success answers of a route: one, or one per status when `statusOf` chooses among several. */
function answersOf({ status, statusOf, answer }: AdminRoute): { status: number; schema: z.core.$ZodType }[] {
  if (status === 204) return [];
  const options = statusOf && answer instanceof z.ZodUnion ? answer.options : [answer];
  // `statusOf` reads only which fields are present, so the fields of a schema yield the status of its answers.
  return options.map((schema) => ({
    status: (schema instanceof z.ZodObject && statusOf?.(schema.shape)) || status,
    schema,
  }));
}

function answers(route: AdminRoute, schemas: AnswerSchemas): Record<string, Response> {
  const found = answersOf(route).map(({ status, schema: answer }) => {
    const schema = schemas.of(answer);
    const content = { 'application/json': { schema }, ...filesOf(route, schema) };
    return [status, { description: descriptions[status] ?? 'Done', headers: echoed, content }] as const;
  });
  return found.length > 0 ? Object.fromEntries(found) : { 204: { description: 'Done', headers: echoed } };
}

const descriptions: Readonly<Record<number, string>> = { 201: 'Made', 202: 'Begun' };

function filesOf(route: AdminRoute, { properties }: JsonSchema): Record<string, { schema: JsonSchema }> {
  const list = listIn(route);
  if (list === null) return {};
  const described: Readonly<Record<string, JsonSchema>> = {
    'application/x-ndjson': { ...properties?.[list.field]?.items, description: 'every item, one a line' },
    'text/csv': { type: 'string', description: 'every item, one a row' },
  };
  return Object.fromEntries(fileTypes.map((type) => [type, { schema: described[type] ?? {} }]));
}

function problems(route: AdminRoute): Record<string, Reference> {
  const found = Object.entries(refusals).filter(([, refusal]) => refusal.when(route));
  const named = found.map(([status, { name }]) => [status, { $ref: `#/components/responses/${name}` }]);
  return { ...Object.fromEntries(named), default: { $ref: '#/components/responses/Problem' } };
}
