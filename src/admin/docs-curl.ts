/**
 * Generates the curl command of each operation for the API docs, with a small valid example body.
 */
import type { Parameter } from './openapi.ts';
import type { JsonSchema } from './openapi-schemas.ts';

/** A curl command for a POSIX shell; the token comes from the variable `HUB_ADMIN_TOKEN`. */
export function curl(
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
  identifier: 'sessions',
  url: 'https://example.com/ocpi/2.2.1/sessions',
  host: 'cpo.example:443',
  module: 'locations',
  object: 'NL-TNM/101',
};
