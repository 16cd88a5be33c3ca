/**
 * Renders the OpenAPI document of the admin API as a page: operations by noun, their parameters and answers, and a curl
 * command for each. docs/ARCHITECTURE.md says why it is not a package.
 *
 * DOCS-PAGE-1  Every text from the OpenAPI document is escaped; the page contains no script but its own.
 * DOCS-PAGE-2  The page contains no data and no token: curl commands name the variable that holds the token.
 */
import { createHash } from 'node:crypto';
import { script, style } from './docs-look.ts';
import type { ApiDocument, Operation, Parameter, Reference, Response } from './openapi.ts';
import type { JsonSchema } from './openapi-schemas.ts';

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Content security policy: only the page's own style and script, by hash. */
export const policy = [
  "default-src 'none'",
  `style-src ${hashOf(style)}`,
  `script-src ${hashOf(script)}`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

export function docsPage(described: ApiDocument): string {
  const { info, tags, components } = described;
  const links = tags.map(({ name }) => `<li><a href="#${escaped(name)}">${escaped(name)}</a></li>`).join('');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(info.title)}</title>
<style>${style}</style>
</head>
<body>
<div class="page">
<header>
<h1>${escaped(info.title)}</h1>
<p>${codeMarked(info.description)}</p>
<p><a href="v1/openapi.json">openapi.json</a></p>
<nav aria-label="Nouns"><ul>${links}<li><a href="#schemas">schemas</a></li></ul></nav>
<label class="filter">Filter <input type="search" placeholder="method, path or word" autocomplete="off"></label>
</header>
<main>
${tags.map((tag) => noun(described, tag)).join('\n')}
<section id="schemas"><h2>Schemas</h2>
${Object.entries(components.schemas).map(namedSchema).join('\n')}
</section>
</main>
</div>
<script>${script}</script>
</body>
</html>
`;
}

function noun(described: ApiDocument, { name, description }: ApiDocument['tags'][number]): string {
  const found = Object.entries(described.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, operation]) => operation.tags.includes(name))
      .map(([method, operation]) => operationBlock(described, method, path, operation)),
  );
  const about = description === undefined ? '' : `<p class="quiet">${escaped(description)}</p>`;
  return `<section class="noun" id="${escaped(name)}"><h2>${escaped(name)}</h2>${about}\n${found.join('\n')}\n</section>`;
}

function operationBlock(described: ApiDocument, method: string, path: string, operation: Operation): string {
  const { operationId, summary, description, requestBody, responses } = operation;
  const parameters = operation.parameters.map((one) =>
    '$ref' in one ? resolved(described.components.parameters, one) : one,
  );
  const asked = parameters.map((one) =>
    field(
      `${escaped(one.name)} <span class="quiet">${escaped(one.in)}</span>`,
      { ...one.schema, ...about(one) },
      one.required,
      'asked',
    ),
  );
  const body = requestBody?.content['application/json']?.schema;
  const bodyTitle = requestBody?.required ? 'Body' : 'Body, may be left out';
  return `<details class="operation" id="${escaped(operationId)}">
<summary><span class="role">${escaped(operation.security[0]?.bearer.join() ?? '')}</span>
<span class="method ${method}">${method.toUpperCase()}</span> <code>${escaped(path)}</code>
<span class="what">${escaped(summary)}</span></summary>
<div class="inside">
<p class="quiet">${escaped(description)}</p>
<h3>Parameters</h3><ul class="fields">${asked.join('')}</ul>
${body ? `<h3>${bodyTitle}</h3>${shape(body, 'asked')}` : ''}
${Object.entries(responses).map(answerOf(described)).join('\n')}
<h3>Try it</h3>
<div class="curl"><pre>${escaped(curl(described.servers[0]?.url ?? '', method, path, parameters, body))}</pre>
<button type="button" hidden>Copy as curl</button></div>
</div>
</details>`;
}

const about = ({ description }: Parameter) => (description === undefined ? {} : { description });

/** Renders a shared refusal as one line, an answer with its schema. */
function answerOf(described: ApiDocument) {
  return ([status, given]: [string, Response | Reference]): string => {
    const response = '$ref' in given ? resolved(described.components.responses, given) : given;
    const says = `<code class="name">${status}</code> ${escaped(response.description)}`;
    if ('$ref' in given) return `<div>${says} <a href="#schema-Problem">Problem</a></div>`;
    const schema = response.content?.['application/json']?.schema;
    return `<h3>${says}</h3>${schema ? shape(schema, 'answered') : ''}`;
  };
}

function resolved<T>(among: Readonly<Record<string, T>>, { $ref }: Reference): T {
  const found = among[lastOf($ref)];
  if (found === undefined) throw new Error(`${$ref} leads nowhere`);
  return found;
}

const lastOf = (reference: string) => reference.slice(reference.lastIndexOf('/') + 1);

function namedSchema([name, schema]: [string, JsonSchema]): string {
  const says = schema.description === undefined ? '' : `<span class="what">${escaped(schema.description)}</span>`;
  return `<details id="schema-${escaped(name)}"><summary><code class="name">${escaped(name)}</code>${says}</summary>
<div class="inside">${shape(schema, 'answered')}</div></details>`;
}

/** Request schemas mark required fields; answer schemas mark fields that may be absent. */
type Side = 'asked' | 'answered';

function shape(schema: JsonSchema, side: Side): string {
  const fields = fieldsOf(schema, side);
  return fields === '' ? `<p>${typeText(schema)}</p>` : fields;
}

/** The fields of an object, or of the items of a list, as HTML; empty when it has none or is a reference. */
function fieldsOf(schema: JsonSchema, side: Side): string {
  const { properties = {}, required = [], items, anyOf } = schema;
  if (items) return fieldsOf(items, side);
  if (anyOf) return anyOf.map((one) => fieldsOf(one, side)).join('');
  const shown = Object.entries(properties).map(([name, inner]) =>
    field(escaped(name), inner, required.includes(name), side),
  );
  return shown.length === 0 ? '' : `<ul class="fields">${shown.join('')}</ul>`;
}

/** `name` is HTML. */
function field(name: string, schema: JsonSchema, isRequired: boolean, side: Side): string {
  const asked = isRequired ? ' <span class="must">required</span>' : '';
  const answered = isRequired ? '' : ' <span class="quiet">may be absent</span>';
  const says = schema.description === undefined ? '' : ` – ${escaped(schema.description)}`;
  const mark = side === 'asked' ? asked : answered;
  return `<li><code class="name">${name}</code> ${typeText(schema)}${mark}${says}${fieldsOf(schema, side)}</li>`;
}

/** A type in words, as HTML. */
function typeText(schema: JsonSchema): string {
  const { $ref, type, items, anyOf, enum: values, format, minimum, maximum, default: preset } = schema;
  if (typeof $ref === 'string') return `<a href="#schema-${escaped(lastOf($ref))}">${escaped(lastOf($ref))}</a>`;
  if (anyOf) return anyOf.map(typeText).join(' or ');
  if (items) return `list of ${typeText(items)}`;
  const base = Array.isArray(values)
    ? values.map((value) => JSON.stringify(value)).join(' | ')
    : [type ?? 'any'].flat().join(' or ');
  const isBounded = minimum !== undefined && maximum !== undefined && maximum !== Number.MAX_SAFE_INTEGER;
  const range = isBounded ? ` ${String(minimum)}…${String(maximum)}` : '';
  const given = preset === undefined ? '' : `, ${JSON.stringify(preset)} unless given`;
  return `<span class="quiet">${escaped(`${base}${format === undefined ? '' : ` (${String(format)})`}${range}${given}`)}</span>`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? character);
}

/** Escaped text, with backquoted parts as `<code>`. */
function codeMarked(text: string): string {
  return escaped(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>');
}

// Generates the curl command of each operation for the API docs, with a small valid example body.

/** A curl command for a POSIX shell; the token comes from the variable `HUB_ADMIN_TOKEN`. */
function curl(
  base: string,
  method: string,
  path: string,
  parameters: readonly Parameter[],
  body: JsonSchema | undefined,
): string {
  const query = parameters
    .filter((one) => one.in === 'query' && one.required)
    .map((one) => `${one.name}=${sampleOf(one)}`);
  const inPath = new Map(parameters.filter((one) => one.in === 'path').map((one) => [one.name, sampleOf(one)]));
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => inPath.get(name) ?? name);
  const url = `${base}${filled}${query.length > 0 ? `?${query.join('&')}` : ''}`;
  const lines = [
    `curl -X ${method.toUpperCase()} ${quoted(url)}`,
    '-H "Authorization: Bearer $HUB_ADMIN_TOKEN"',
    ...(body ? ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(exampleOf(body)))}`] : []),
  ];
  return lines.join(' \\\n  ');
}

const anInstant = '2026-01-31T12:00:00Z';

/** An example value of a URL parameter. Besides instants only party ids have a pattern. */
function sampleOf({ name, schema }: Parameter): string {
  if (schema.format === 'date-time') return anInstant;
  return schema.pattern ? 'NL-TNM' : (examples[name] ?? name.toUpperCase());
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** A small example of a schema: the required fields only, or all fields when none is required. */
function exampleOf(schema: JsonSchema): unknown {
  const { properties = {}, required = [], type, items, anyOf, enum: values, default: preset, format } = schema;
  if (preset !== undefined && preset !== null && typeof preset !== 'object') return preset;
  if (Array.isArray(values)) return values[0];
  if (anyOf) return exampleOf(anyOf[0] ?? {});
  if (items) return [exampleOf(items)];
  if (format === 'date-time') return anInstant;
  if (format === 'cidrv4') return '192.0.2.0/24';
  if (format === 'uri') return 'https://example.com/ocpi/2.2.1/sessions';
  if (type === 'object') {
    const shown = Object.entries(properties).filter(([name]) => required.length === 0 || required.includes(name));
    return Object.fromEntries(shown.map(([name, inner]) => [name, examples[name] ?? exampleOf(inner)]));
  }
  if (type === 'boolean') return true;
  return type === 'integer' || type === 'number' ? 1 : 'text';
}

/** Examples of fields that do not accept any text. */
const examples: Readonly<Record<string, string>> = {
  country_code: 'NL',
  party_id: 'TNM',
  path: '/deliveries?state=DEAD',
  party: 'NL-TNM',
  receiver: 'NL-TNM',
  sender: 'NL-TNM',
  identifier: 'sessions',
  url: 'https://example.com/ocpi/2.2.1/sessions',
  host: 'cpo.example:443',
  module: 'locations',
  object: 'NL-TNM/101',
};
