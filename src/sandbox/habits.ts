/**
 * Habits of partners in the field, as behaviour of a simulated partner: how it answers, and how it sends. Each is a
 * change of one step of a well-behaved partner, so that several can be had together.
 */
import { gzipSync } from 'node:zlib';
import type { HubCall, PartyName } from './hub-line.ts';
import type { Knob } from './knobs.ts';
import { type Reply, refuse } from './reply.ts';

export interface OfferedEndpoint {
  readonly identifier: string;
  readonly role: 'SENDER' | 'RECEIVER';
  readonly url: string;
}

export interface Asked {
  readonly method: string;
  /** As received, with its query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

export interface Behaviour {
  /** Whether it is how the partner answers or how it sends. */
  readonly kind: 'answers' | 'sends';
  /** Who can have it; absent: both. */
  readonly only?: 'CPO' | 'EMSP';
  /** Its token is sent, and taken, only as it is. */
  readonly plainToken?: true;
  /** An answer in place of the usual one; null: the usual one. */
  readonly instead?: (asked: Asked) => Reply | null;
  /** The path, without query, as the routes know it. */
  readonly path?: (path: string) => string;
  /** Changes the usual answer. */
  readonly answer?: (reply: Reply, asked: Asked) => Reply;
  /** Changes the endpoints of the version details. */
  readonly endpoints?: (endpoints: readonly OfferedEndpoint[]) => readonly Partial<OfferedEndpoint>[];
  /** Changes the text of an object that it pushes or lists; a second time it changes nothing. */
  readonly object?: (text: string, module: string) => string;
  /** Changes a request to the hub. */
  readonly call?: (call: HubCall, hub: PartyName) => HubCall;
}

const fields = (body: unknown): Record<string, unknown> =>
  (typeof body === 'string' ? JSON.parse(body) : (body ?? {})) as Record<string, unknown>;

const pathOf = (path: string) => path.split('?', 1)[0] ?? '';
const bare = (path: string) => path.replace(/\/+$/, '');
const isModule = (path: string) => /^\/ocpi\/2\.2\.1\/\w+$/.test(path);
const isAuthorize = (url: string) => /\/authorize(\?|$)/.test(url);
const isResult = ({ method, body }: HubCall) => method === 'POST' && Object.hasOwn(fields(body), 'result');
const isAsked = (asked: Asked) =>
  asked.method === 'GET' || /\/(commands\/[A-Z_]+|[^/]+\/authorize)$/.test(pathOf(asked.path));

const withLink = (link: string | null) => (reply: Reply) => {
  if (reply.headers?.link === undefined) return reply;
  const { link: _, ...headers } = reply.headers;
  return { ...reply, headers: link === null ? headers : { ...headers, link } };
};

const refusing =
  (status: number) =>
  ({ method }: Asked) =>
    method === 'PATCH' ? refuse(status, 2000, 'No PATCH') : null;

/** Fields with a value of an enumeration, and with a list of them. */
const enums = new RegExp(
  `"(?:${[
    ...['auth_method', 'category', 'connector_format', 'connector_power_type', 'connector_standard', 'format'],
    ...['parking_type', 'power_type', 'source', 'standard', 'status', 'type', 'whitelist'],
  ].join('|')})"\\s*:\\s*"[A-Z_0-9]+"|"(?:${[
    ...['capabilities', 'day_of_week', 'facilities', 'parking_restrictions'],
  ].join('|')})"\\s*:\\s*\\[[^\\]]*\\]`,
  'g',
);

const ofKind = (kind: Behaviour['kind'], table: Readonly<Record<string, Omit<Behaviour, 'kind'>>>) =>
  Object.fromEntries(Object.entries(table).map(([name, one]) => [name, { kind, ...one }]));

/** Behaviours in the order in which they apply. */
export const behaviours: Readonly<Record<string, Behaviour>> = {
  ...ofKind('answers', {
    'trailing-slash': {
      endpoints: (all) => all.map((one) => ({ ...one, url: `${one.url}/` })),
      path: bare,
      instead: ({ path }) => (isModule(pathOf(path)) ? page(404) : null),
      answer({ headers: { link, ...headers } = {}, ...reply }) {
        return { ...reply, headers: link === undefined ? headers : { ...headers, link: link.replace('?', '/?') } };
      },
    },
    'redirect-slash': {
      path: bare,
      instead({ path }) {
        const [own = '', ...query] = path.split('?');
        if (own.endsWith('/')) return null;
        return { ...page(308), headers: { location: [`${own}/`, ...query].join('?') } };
      },
    },
    'plain-token': { plainToken: true },
    'needs-user-agent': {
      instead: ({ headers }) => (headers['user-agent'] === undefined ? page(403) : null),
    },
    'details-url': {},
    'no-role': {
      endpoints: (all) => all.map(({ role: _, ...one }) => one),
    },
    'not-subscribed': {
      only: 'EMSP',
      endpoints: (all) => all.filter(({ identifier }) => !/^(locations|tariffs)$/.test(identifier)),
    },
    'patch-404': { only: 'EMSP', instead: refusing(404) },
    'patch-405': { only: 'EMSP', instead: refusing(405) },
    'no-link': { answer: withLink(null) },
    'bad-link': { answer: withLink('<http://[next]/page>; rel="next"') },
    'foreign-link': { answer: withLink('<https://lists.example/ocpi/next?offset=1>; rel="next"') },
    array: {
      answer(reply) {
        const { data, ...envelope } = fields(reply.body);
        const isObject = typeof data === 'object' && data !== null && !Array.isArray(data);
        return isObject ? { ...reply, body: JSON.stringify({ ...envelope, data: [data] }) } : reply;
      },
    },
    'bare-response': {
      only: 'CPO',
      answer(reply, { path }) {
        if (!/\/commands\/[A-Z_]+$/.test(pathOf(path)) || reply.status !== 200) return reply;
        return { ...reply, body: JSON.stringify(fields(reply.body).data) };
      },
    },
    'text-status': {
      answer: (reply) => ({ ...reply, body: reply.body.replace(/"status_code":(\d+)/, '"status_code":"$1"') }),
    },
    'empty-2xx': {
      answer: (reply, asked) => (reply.status < 300 && !isAsked(asked) ? { ...reply, body: '' } : reply),
    },
  }),
  ...ofKind('sends', {
    'double-slash': {
      call: (call) => ({ ...call, url: call.url.replace(/\/(?=[^/?]+(?:\?|$))/, '//') }),
    },
    'cdr-path': {
      only: 'CPO',
      call(call) {
        if (call.method !== 'POST' || !call.url.endsWith('/cdrs')) return call;
        const { country_code, party_id, id } = fields(call.body);
        return { ...call, url: [call.url, country_code, party_id, id].join('/') };
      },
    },
    'foreign-sender': {
      only: 'CPO',
      call: (call, hub) => (isResult(call) ? { ...call, from: hub } : call),
    },
    'blank-date': {
      only: 'CPO',
      object: (text) => text.replace(/"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d[^"]*)"/g, '"$1 $2"'),
    },
    'iso-date': {
      only: 'CPO',
      object: (text) => text.replace(/"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)Z"/g, '"$1+0000"'),
    },
    'lower-case': {
      only: 'CPO',
      object: (text) => text.replace(enums, (field) => field.toLowerCase()),
    },
    nulls: { object: withNulls },
    'byte-order-mark': {
      answer: (reply) => (reply.body === '' ? reply : { ...reply, body: `\uFEFF${reply.body}` }),
      call: (call) =>
        call.body === undefined
          ? call
          : { ...call, body: `\uFEFF${typeof call.body === 'string' ? call.body : JSON.stringify(call.body)}` },
    },
    'early-cdr': { only: 'CPO' },
    'cdr-again': { only: 'CPO' },
    'enveloped-result': {
      only: 'CPO',
      call(call) {
        if (!isResult(call)) return call;
        return { ...call, body: { data: call.body, status_code: 1000, timestamp: new Date().toISOString() } };
      },
    },
    'patch-without-date': {
      only: 'CPO',
      call(call) {
        if (call.method !== 'PATCH') return call;
        const { last_updated: _, ...body } = fields(call.body);
        return { ...call, body };
      },
    },
    'to-hub': {
      call: (call, hub) => (call.unrouted || isAuthorize(call.url) ? call : { ...call, to: hub }),
    },
    'authorize-to-hub': {
      only: 'CPO',
      call: (call, hub) => (isAuthorize(call.url) ? { ...call, to: hub } : call),
    },
    'token-without-party': {
      only: 'EMSP',
      call(call) {
        const { token, ...body } = fields(call.body);
        if (!/\/commands\//.test(call.url) || typeof token !== 'object') return call;
        const { uid, type, contract_id } = token as Record<string, unknown>;
        return { ...call, body: { ...body, token: { uid, type, contract_id } } };
      },
    },
    'first-link': {},
    'strict-modules': {},
  }),
  ...ofKind('answers', {
    gzip: {
      answer: (reply) => ({
        ...reply,
        bytes: gzipSync(reply.body),
        headers: { ...reply.headers, 'content-encoding': 'gzip' },
      }),
    },
  }),
};

/** Faults: the partner registers first, and then has them in whatever it is asked. */
export const faults: Readonly<Record<string, (knob: Knob) => void>> = {
  '401': (knob) => knob.answer(401, { status_code: 2000, status_message: 'Invalid token', timestamp: 'now' }),
  '404': (knob) => knob.answer(404, 'Not found'),
  '429': (knob) => knob.answer(429, '', { headers: { 'retry-after': '5' } }),
  '500': (knob) => knob.answer(500, 'out of order'),
  '503': (knob) => knob.answer(503, ''),
  drop: (knob) => knob.drop(),
  garble: (knob) => knob.garble(),
  hang: (knob) => knob.hang(),
  slow: (knob) => knob.delay(5_000),
};

/** What a role can have of a kind, for messages: the names, in order. */
export function namesOf(kind: Behaviour['kind'], role: 'CPO' | 'EMSP'): string[] {
  const own = Object.entries(behaviours).filter(([, one]) => one.kind === kind && (one.only ?? role) === role);
  return [...own.map(([name]) => name), ...(kind === 'answers' ? Object.keys(faults) : [])].sort();
}

/** A page of a web server that is no OCPI. */
const page = (status: number): Reply => ({ status, body: '<html></html>', headers: { 'content-type': 'text/html' } });

// Writes null for every optional field that an object lacks, as serializers do that leave no field out.

const optional: Readonly<Record<string, readonly string[]>> = {
  locations: [
    ...['publish_allowed_to', 'name', 'postal_code', 'state', 'related_locations', 'parking_type', 'directions'],
    ...[
      'operator',
      'suboperator',
      'owner',
      'facilities',
      'opening_times',
      'charging_when_closed',
      'images',
      'energy_mix',
    ],
  ],
  tariffs: [
    ...['type', 'tariff_alt_text', 'tariff_alt_url', 'min_price', 'max_price', 'start_date_time', 'end_date_time'],
    'energy_mix',
  ],
  sessions: ['end_date_time', 'authorization_reference', 'meter_id', 'charging_periods', 'total_cost'],
  cdrs: [
    ...['session_id', 'authorization_reference', 'meter_id', 'tariffs', 'signed_data', 'total_fixed_cost'],
    ...['total_energy_cost', 'total_time_cost', 'total_parking_time', 'total_parking_cost', 'total_reservation_cost'],
    ...['remark', 'invoice_reference_id', 'credit', 'credit_reference_id', 'home_charging_compensation'],
  ],
  tokens: ['visual_number', 'group_id', 'language', 'default_profile_type', 'energy_contract'],
};

/** The text of a whole object or of a list of them; other texts as they are. */
function withNulls(text: string, module: string): string {
  const value: unknown = JSON.parse(text);
  return JSON.stringify(Array.isArray(value) ? value.map((one) => filled(one, module)) : filled(value, module));
}

function filled(value: unknown, module: string): unknown {
  if (typeof value !== 'object' || value === null || !isWhole(value)) return value;
  const nulls = (optional[module] ?? []).map((name) => [name, null]);
  return { ...Object.fromEntries(nulls), ...value };
}

const isWhole = (value: object) => 'country_code' in value && 'party_id' in value;
