/**
 * The admin API as it describes itself: an OpenAPI 3.1 document that says what is so, and a page that shows all of it.
 */
import { createHash } from 'node:crypto';
import { Script } from 'node:vm';
import * as z from 'zod';
import { docsPage } from '../../src/admin/docs-page.ts';
import { adminRoutes } from '../../src/admin/server.ts';
import type { RunningHub } from '../../src/main.ts';
import { cdrBody, locationBody, sessionBody } from '../support/bodies.ts';
import { callOnce, type Said } from '../support/caller.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

type Schema = Readonly<Record<string, unknown>> & {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly default?: unknown;
};

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly schema: Schema;
}

interface Body {
  readonly description?: string;
  readonly required?: boolean;
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}

interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly security: readonly { readonly bearer: readonly string[] }[];
  readonly parameters: readonly Parameter[];
  readonly requestBody?: Body;
  readonly responses: Readonly<Record<string, Body>>;
}

interface Document {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly tags: readonly { readonly name: string; readonly description?: string }[];
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly securitySchemes: Readonly<Record<string, { readonly type: string; readonly scheme: string }>>;
  };
}

interface Described {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

async function documentOf(hub: { url: string }): Promise<{ raw: unknown; document: Document }> {
  const { status, text } = await callOnce('GET', `${hub.url}/admin/v1/openapi.json`);
  if (status !== 200) throw new Error(`openapi.json answered ${status}`);
  const raw: unknown = JSON.parse(text);
  return { raw, document: resolved(raw, raw) as Document };
}

/** With every `$ref` replaced by what it leads to; throws when one leads nowhere. What stands beside it is kept. */
function resolved(value: unknown, root: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => resolved(item, root));
  if (typeof value !== 'object' || value === null) return value;
  const { $ref, ...rest } = value as { $ref?: unknown };
  const own = Object.fromEntries(Object.entries(rest).map(([key, inner]) => [key, resolved(inner, root)]));
  return typeof $ref === 'string' ? { ...(resolved(led($ref, root), root) as object), ...own } : own;
}

function led(reference: string, root: unknown): unknown {
  const [start, ...keys] = reference.split('/');
  const found = keys.reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], root);
  if (start !== '#' || found === undefined) throw new Error(`${reference} leads nowhere`);
  return found;
}

function operationsOf({ paths }: Document): Described[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
}

/** Every object in a JSON value. */
function* objectsIn(value: unknown): Iterable<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield value as Record<string, unknown>;
  for (const inner of Object.values(value)) yield* objectsIn(inner);
}

const schemaOf = (body: Body | undefined, type = 'application/json') => body?.content?.[type]?.schema;

/** Refused fields of a value under a JSON Schema of the document; empty when it fits. */
function misfits(schema: Schema | undefined, value: unknown): string[] {
  if (!schema) return ['no schema'];
  const result = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]).safeParse(value);
  return result.error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? [];
}

t.test('the OpenAPI document is complete: references, ids, parameters, tags, security, answers', async (t) => {
  const hub = await hubFor(t);
  const { raw, document } = await documentOf(hub);
  t.match(document, {
    openapi: '3.1.0',
    info: { title: /./, version: /./ },
    servers: [{ url: `${hub.url}/admin/v1` }],
  });
  t.match(document.components.securitySchemes, { bearer: { type: 'http', scheme: 'bearer' } });
  const all = operationsOf(document);
  t.ok(all.length > 30, `${all.length} operations`);
  const ids = all.map(({ operation }) => operation.operationId);
  t.equal(new Set(ids).size, ids.length, 'every operation has an id of its own');
  const tags = document.tags.map(({ name }) => name);
  t.equal(new Set(tags).size, tags.length);
  for (const { name, description } of document.tags) t.ok(description, `noun ${name} is described`);
  for (const { method, path, operation } of all) {
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, key]) => key);
    const declared = operation.parameters.filter((one) => one.in === 'path');
    const unique = new Set(operation.parameters.map((one) => `${one.in} ${one.name}`));
    const statuses = Object.keys(operation.responses);
    const rules: Readonly<Record<string, boolean>> = {
      'all parameters of its path are required': declared.every(({ required }) => required),
      'no parameter is there twice': unique.size === operation.parameters.length,
      'each parameter has a type': operation.parameters.every(({ schema }) => schema.type ?? schema.anyOf),
      'it has one known noun': operation.tags.length === 1 && tags.includes(operation.tags[0] ?? ''),
      'it says what it does': operation.summary.length > 10,
      'it has an answer': statuses.some((status) => status.startsWith('2')),
      'it has refusals': ['401', '422', '503', 'default'].every((status) => statuses.includes(status)),
      'its answers are described': Object.values(operation.responses).every(({ description }) => description),
    };
    const broken = Object.entries(rules).flatMap(([rule, isKept]) => (isKept ? [] : [rule]));
    t.strictSame([declared.map((one) => one.name).sort(), broken], [inPath.sort(), []], `${method} ${path}`);
  }
  const dialects = [...objectsIn(raw)].filter((one) => '$schema' in one);
  t.strictSame(dialects, [], 'one dialect for the whole document');
});

t.test('a request body is required in the document exactly where the route requires it', async (t) => {
  const hub = await hubFor(t);
  const { document } = await documentOf(hub);
  for (const { method, path, body } of adminRoutes(hub.created.hub.operations)) {
    const described = document.paths[path]?.[method.toLowerCase()]?.requestBody;
    const isTaken = body.safeParse(undefined).success;
    if (described) t.equal(described.required, !isTaken, `${method} ${path}`);
    else t.ok(isTaken, `${method} ${path} takes none`);
  }
});

/** One party pair with a delivered, a dead and a stranded object, a command, a pull: every list has something. */
async function inhabited(t: Test): Promise<RunningHub> {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, {
    cpo: ({ path }) => (path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 30 } } : { body: [] }),
    emsp: ({ path }) => (path.includes('/locations/') ? { status: 404, text: '{}' } : {}),
  });
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S2', sessionBody('S2', { cdr_token: undefined }));
  await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'));
  await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', { response_url: `${emsp.url}/results/1`, session_id: 'S1' });
  await admin(hub, 'POST', '/parties/NL-CPO/pull/locations', {});
  await hub.settled();
  const { items } = await admin(hub, 'GET', '/deliveries?state=PENDING');
  t.strictSame(items, [], 'what is owed has ended');
  return hub;
}

t.test('answers match their description', async (t) => {
  const hub = await inhabited(t);
  const { document } = await documentOf(hub);
  const answered = async (path: string, asked: string, status = '200') => {
    const schema = schemaOf(document.paths[path]?.get?.responses[status]);
    const answer = await admin(hub, 'GET', asked);
    t.strictSame(misfits(schema, answer), [], `GET ${asked}`);
    return answer as { items?: Record<string, unknown>[] };
  };
  const idOf = (list: { items?: Record<string, unknown>[] }) => String(list.items?.[0]?.id);
  const lists = ['/parties', '/routes', '/deliveries', '/events', '/commands', '/pulls', '/orphans?state=GRACE'];
  for (const asked of lists) {
    const [path = ''] = asked.split('?');
    const list = await answered(path, asked);
    t.ok((list.items?.length ?? 0) > 0, `${path} has something`);
  }
  await answered('/parties/{id}', '/parties/NL-CPO');
  await answered('/deliveries/{id}', `/deliveries/${idOf(await answered('/deliveries', '/deliveries?state=DEAD'))}`);
  await answered('/commands/{id}', `/commands/${idOf(await answered('/commands', '/commands'))}`);
  await answered('/pulls/{id}', `/pulls/${idOf(await answered('/pulls', '/pulls'))}`);
  await answered('/trace/{party}/{id}', '/trace/NL-CPO/S1');
  await answered('/routes/explain', '/routes/explain?from=NL-CPO&to=NL-EMS&module=sessions');
  t.equal((await answered('/stored-not-forwarded', '/stored-not-forwarded')).items?.length, 1);
  await answered('/status', '/status');

  const redrive = document.paths['/redrive']?.post;
  const plan = await admin(hub, 'POST', '/redrive', { filter: {}, dry_run: true });
  t.strictSame(misfits(schemaOf(redrive?.responses[200]), plan), [], 'a dry run under its own status');
  const job = await admin(hub, 'POST', '/redrive', { filter: {} });
  t.strictSame(misfits(schemaOf(redrive?.responses[202]), job), [], 'a re-drive under its own');
  t.not(misfits(schemaOf(redrive?.responses[200]), job).length, 0, 'and they are not one another');
});

t.test('refusals are problems that match their description', async (t) => {
  const hub = await hubFor(t);
  const { document } = await documentOf(hub);
  const refusals = [
    [401, 'GET', '/parties', { authorization: 'Bearer wrong' }, undefined],
    [404, 'GET', '/parties/NL-NIL', {}, undefined],
    [400, 'POST', '/parties', { 'content-type': 'application/json' }, '{'],
    [415, 'POST', '/parties', { 'content-type': 'text/plain' }, 'x'],
    [422, 'POST', '/parties', { 'content-type': 'application/json' }, '{"roles": []}'],
    [422, 'GET', '/parties?typo=1', {}, undefined],
  ] as const;
  for (const [status, method, asked, headers, body] of refusals) {
    const response = await callOnce(method, `${hub.url}/admin/v1${asked}`, body, {
      authorization: `Bearer ${hub.adminToken}`,
      ...headers,
    });
    t.equal(response.status, status, `${method} ${asked}`);
    const path = asked.replace(/\?.*/, '').replace('NL-NIL', '{id}');
    const described = document.paths[path]?.[method.toLowerCase()]?.responses[status];
    t.strictSame(
      misfits(schemaOf(described, 'application/problem+json'), JSON.parse(response.text)),
      [],
      `its ${status}`,
    );
  }
});

async function pageOf(hub: { url: string }): Promise<{ response: Said; html: string }> {
  const response = await callOnce('GET', `${hub.url}/admin/docs`);
  return { response, html: response.text };
}

const plainText = (html: string) =>
  html
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');

t.test('/admin/docs needs no token and nothing from anywhere else [contract, 3]', async (t) => {
  const hub = await hubFor(t);
  const { response, html } = await pageOf(hub);
  t.equal(response.status, 200);
  t.match(response.headers.get('content-type'), /^text\/html; charset=utf-8/);
  const policy = response.headers.get('content-security-policy') ?? '';
  t.match(policy, /default-src 'none'/);
  t.notMatch(policy, /unsafe|https?:|\*/);
  for (const element of ['style', 'script']) {
    const blocks = [...html.matchAll(new RegExp(`<${element}[^>]*>([\\s\\S]*?)</${element}>`, 'g'))];
    t.equal(blocks.length, 1, `one ${element}`);
    const digest = createHash('sha256')
      .update(blocks[0]?.[1] ?? '')
      .digest('base64');
    t.ok(policy.includes(`${element}-src 'sha256-${digest}'`), `the policy lets its own ${element} through`);
  }
  t.notMatch(html, /\s(?:src|href|action)\s*=\s*"(?:https?:)?\/\//i, 'no address of another host');
  t.notMatch(html, /@import|url\(|\son\w+=|\sstyle=/i, 'nor one in the style, nor what the policy would refuse');
  const [, script = ''] = /<script>([\s\S]*?)<\/script>/.exec(html) ?? [];
  t.ok(new Script(script), 'the script can be read');
  t.match(html, /<meta name="viewport" content="width=device-width, initial-scale=1">/);
  t.match(html, /prefers-color-scheme: dark/);
  t.equal((await callOnce('HEAD', `${hub.url}/admin/docs`)).status, 200);
  const slash = await fetch(`${hub.url}/admin/docs/`);
  t.equal(slash.url, `${hub.url}/admin/docs`, 'with a slash at its end it is found as well');
  t.equal(slash.status, 200);
});

t.test('the page shows every operation under its noun, with parameters, schemas and refusals', async (t) => {
  const hub = await hubFor(t);
  const { document } = await documentOf(hub);
  const { html } = await pageOf(hub);
  for (const { name } of document.tags) {
    const [, section = ''] = new RegExp(`<section class="noun" id="${name}">([\\s\\S]*?)</section>`).exec(html) ?? [];
    const own = operationsOf(document).filter(({ operation }) => operation.tags[0] === name);
    t.equal(section.match(/<details class="operation"/g)?.length, own.length, `${name}: ${own.length} operations`);
    for (const { method, path, operation } of own) {
      const [, block = ''] =
        new RegExp(`<details [^>]*id="${operation.operationId}">([\\s\\S]*?)</details>`).exec(section) ?? [];
      const text = plainText(block);
      t.ok(text.includes(`>${method}</span> <code>${path}</code>`), `${method} ${path}`);
      t.ok(text.includes(operation.summary), 'its summary');
      const body = schemaOf(operation.requestBody)?.properties ?? {};
      const names = [
        ...operation.parameters.map((one) => one.name),
        ...Object.keys(body),
        ...Object.keys(operation.responses),
      ];
      for (const one of names) t.match(text, new RegExp(`<code class="name">${one}[ <]`), `${method} ${path}: ${one}`);
    }
  }
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    const [, block = ''] = new RegExp(`<details id="schema-${name}">([\\s\\S]*?)</details>`).exec(html) ?? [];
    for (const one of Object.keys(schema.properties ?? {})) t.ok(block.includes(`>${one}</code>`), `${name}.${one}`);
  }
  const targets = new Set([...html.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id));
  for (const [, id = ''] of html.matchAll(/href="#([^"]+)"/g)) t.ok(targets.has(id), `#${id} leads somewhere`);
});

t.test('text of the description is never markup on the page', async (t) => {
  const hub = await hubFor(t);
  const { raw } = await documentOf(hub);
  const html = docsPage(marked(raw) as Parameters<typeof docsPage>[0]);
  t.ok(html.includes('&lt;i&gt;'), 'it is there');
  t.notMatch(html, /<i>/);
});

/** The same with markup in every text for people and every name of a field. */
function marked(value: unknown, key = ''): unknown {
  if (Array.isArray(value)) return value.map((item) => marked(item));
  if (typeof value === 'string')
    return /^(title|summary|description|name|operationId)$/.test(key) ? `<i>${value}` : value;
  if (typeof value !== 'object' || value === null) return value;
  const name = (inner: string) => (key === 'properties' ? `<i>${inner}` : inner);
  return Object.fromEntries(Object.entries(value).map(([inner, of]) => [name(inner), marked(of, inner)]));
}

t.test('an example command names the variable of the token, and the route accepts its body', async (t) => {
  const hub = await hubFor(t);
  const { html } = await pageOf(hub);
  t.notOk(html.includes(hub.adminToken));
  for (const { method, path, body, query } of adminRoutes(hub.created.hub.operations)) {
    const id = (method.toLowerCase() + path).replaceAll(/[{}]/g, '').replaceAll('/', '-');
    const [, pre = ''] = new RegExp(`id="${id}">[\\s\\S]*?<pre>([\\s\\S]*?)</pre>`).exec(html) ?? [];
    const line = plainText(pre);
    const [, sent, url = ''] = /^curl -X (\w+) '([^']+)'/.exec(line) ?? [];
    t.equal(sent, method, `${method} ${path}`);
    const address = new URL(url);
    t.equal(address.origin, hub.url);
    t.match(line, /-H "Authorization: Bearer \$HUB_ADMIN_TOKEN"/);
    t.ok(query.safeParse(Object.fromEntries(address.searchParams)).success, 'its query');
    t.notMatch(address.pathname, /[{}]|%7B/i, 'its path is filled in');
    const [, example] = /-d '([^']+)'$/.exec(line) ?? [];
    const given = body.safeParse(example === undefined ? undefined : JSON.parse(example));
    t.ok(given.success, `${method} ${path}: ${example ?? 'no body'} ${given.error?.message ?? ''}`);
  }
});
