/**
 * Request lines and header fields that are bent out of valid ones. A text is bytes in latin1: what is sent is exactly that.
 */
import type { Random } from '../faults/random.ts';

/** A request before it is bytes. */
export interface Draft {
  method: string;
  target: string;
  /** In the order in which they are sent. */
  headers: [name: string, value: string][];
  body: Buffer | null;
  version: string;
}

const utf8 = (text: string) => Buffer.from(text, 'utf8').toString('latin1');

const segments = [
  ...[
    '%00',
    '%0d%0aX-Evil:%201',
    '%2f',
    '%2F%2f',
    '%5c',
    '%2e',
    '%2e%2e',
    '.',
    '..',
    '%252e%252e',
    '%c0%af',
    '%c0%ae%c0%ae',
  ],
  ...['%ff', '%e0%80%af', '%ed%a0%80', '%zz', '%', '%4', '%u0041', '', '__proto__', 'constructor', 'hasOwnProperty'],
  ...[
    'toString',
    '%5f%5fproto%5f%5f',
    'NL',
    'nl',
    'EMS',
    'ems',
    'XX',
    'HUB',
    '%20',
    '+',
    ';x=1',
    'a;b',
    '~',
    '*',
    '@',
    ':id',
  ],
  ...[
    '%C5%BF',
    '%E2%84%AA',
    'EM%C3%9F',
    '%EF%BC%AE%EF%BC%AC',
    '%F0%9F%94%8C',
    '%E2%80%AE',
    '%EF%BB%BF',
    utf8('é'),
    '\\',
  ],
  ...[
    'x'.repeat(36),
    'x'.repeat(37),
    'x'.repeat(300),
    'x'.repeat(5_000),
    'callback',
    'authorize',
    '0',
    '-1',
    '1e9',
    'null',
  ],
];

const queries = [
  ...[
    'limit=0',
    'limit=-1',
    'limit=1e9',
    'limit=99999999999999999999',
    'limit=',
    'limit=%00',
    'limit=1&limit=2',
    'limit=0x10',
  ],
  ...[
    'offset=-1',
    'offset=9007199254740993',
    'offset=1.5',
    'offset=Infinity',
    'offset[]=1',
    'offset[a]=1',
    'offset=%31',
  ],
  ...['date_from=yesterday', 'date_from=2026-02-30T00:00:00Z', 'date_from=2026-01-01T00:00:00+01:00', 'date_from='],
  ...[
    'date_from=9999-12-31T23:59:59-23:59',
    'date_to=0000-01-01T00:00:00Z',
    'date_to=2020-01-01T00:00:00Z&date_from=2030',
  ],
  ...[
    'cursor=',
    'cursor=%00',
    'cursor=e30',
    'cursor=bnVsbA',
    'cursor=W10',
    'cursor=__proto__',
    'cursor=1',
    'cursor=-1',
  ],
  ...[
    'cursor=999999999999999',
    'cursor=999999999999999.999999999999999',
    'cursor=1:2',
    'cursor=partners:1',
    'cursor=cdrs:x',
  ],
  ...[
    'cursor=eyJ1cGQiOiJcdWQ4MDAiLCJvd25lciI6IlwidTAwMDAiLCJpZCI6IiJ9',
    'cursor=eyJ1cGQiOiIiLCJvd25lciI6IiIsImlkIjoiIn0',
  ],
  ...[
    'type=',
    'type=rfid',
    'type=__proto__',
    'type=%00',
    'type=a%2fb',
    'type=RFID&type=OTHER',
    'state=dead',
    'state=DEAD',
  ],
  ...[
    'after=-1',
    'after=9007199254740991',
    'after=1e3',
    'after=x',
    'from=2026',
    'to=%F0%9F%94%8C',
    'receiver=NL-EM%C5%BF',
  ],
  ...[
    '__proto__=1',
    '__proto__[x]=1',
    'constructor=1',
    'hasOwnProperty=1',
    'constructor.prototype=1',
    'a=%zz',
    '%zz=1',
    '%',
  ],
  ...[
    '&&&&',
    '=',
    '=&=',
    '?',
    'a;b=c',
    utf8('é=ü'),
    '%C5%BF=1',
    `x=${'y'.repeat(6_000)}`,
    Array.from({ length: 900 }, (_, n) => `p${n}=`).join('&'),
  ],
];

const fields: readonly (readonly [name: string, value: string])[] = [
  ...[
    'text/plain',
    'text/json',
    '',
    ';',
    'application/json; charset=utf-16',
    'application/json\t',
    'application/json, text/xml',
  ].map((value) => ['Content-Type', value] as const),
  ...['gzip', 'br', 'identity', 'x-nothing', 'gzip, identity'].map((value) => ['Content-Encoding', value] as const),
  ...[
    'Token',
    'Token ',
    'token',
    'Bearer x',
    'Basic eDp5',
    'Token \u00ff',
    `Token ${'x'.repeat(3_000)}`,
    '=',
    'Token %00',
  ].map((value) => ['Authorization', value] as const),
  ...['', 'N', 'NL, NL', '__proto__', '\u00df', 'XX', ' ', '%4e', 'x'.repeat(500)].flatMap((value) => [
    ['OCPI-to-country-code', value] as const,
    ['OCPI-to-party-id', value] as const,
    ['OCPI-from-country-code', value] as const,
    ['OCPI-from-party-id', value] as const,
  ]),
  ...['', '\u00ff', 'x'.repeat(200), '__proto__', '"},{"', '%0d%0a'].flatMap((value) => [
    ['X-Request-ID', value] as const,
    ['X-Correlation-ID', value] as const,
  ]),
  ...[['Expect', '100-continue'] as const, ['Expect', 'a-miracle'] as const],
  ...[['Upgrade', 'websocket'] as const, ['Upgrade', 'h2c'] as const, ['HTTP2-Settings', 'AAMAAABk'] as const],
  ...[['Host', 'evil.example'] as const, ['Host', ''] as const, ['Host', 'a b'] as const, ['Host', '[::1'] as const],
  ...[
    ['Accept', 'application/x-ndjson'] as const,
    ['Accept', 'image/*;q=x'] as const,
    ['Accept-Encoding', '*'] as const,
  ],
  ...[
    ['X-Forwarded-Host', 'evil.example'] as const,
    ['X-Forwarded-Proto', 'x'] as const,
    ['Forwarded', 'for=x'] as const,
  ],
  ...[['X-HTTP-Method-Override', 'DELETE'] as const, ['X-Original-URL', '/admin/v1/status'] as const],
  ...[['Range', 'bytes=0-1'] as const, ['If-None-Match', '*'] as const, ['If-Modified-Since', 'x'] as const],
  ...[['__proto__', 'x'] as const, ['constructor', 'x'] as const, ['Cookie', '__proto__=1; a'] as const],
  ...[['Trailer', 'Authorization'] as const, ['TE', 'trailers'] as const, ['Origin', 'https://evil.example'] as const],
];

const methods = [
  ...[
    'HEAD',
    'OPTIONS',
    'TRACE',
    'PROPFIND',
    'QUERY',
    'MKCOL',
    'LINK',
    'M-SEARCH',
    'SOURCE',
    'PRI',
    'get',
    'Get',
    'GETT',
  ],
  ...['DELETE', 'POST', 'PUT', 'PATCH', 'GET', 'X'.repeat(300), '\u00ff', ''],
];

/** Bends the path, the query, a header field or the method of a draft. */
export function bendHead(chance: Random, draft: Draft): string {
  const [name, bend] = chance.pick(ways);
  bend(chance, draft);
  return name;
}

type Bend = (chance: Random, draft: Draft) => void;

const set =
  <Key extends 'method' | 'target' | 'version'>(key: Key, textOf: (chance: Random, draft: Draft) => string): Bend =>
  (chance, draft) => {
    draft[key] = textOf(chance, draft);
  };

const add =
  (fieldOf: (chance: Random) => readonly [name: string, value: string]): Bend =>
  (chance, draft) => {
    draft.headers.push([...fieldOf(chance)]);
  };

const rawValues = ['a\u0000b', 'a\rb', 'a\n b', 'a\r\n b', '\u007f', '\u0001'];
const rawNames = ['', ' x', 'x ', 'a b', 'a\u0000', '\u00ff', '(', 'a:'];
const versions = ['HTTP/1.0', 'HTTP/2.0', 'HTTP/0.9', 'http/1.1', 'HTTP/1.1 ', 'ICE/1.0', ''];
const floods = [
  [1_500, 1],
  [100, 300],
  [1, 20_000],
  [3_000, 3],
] as const;

const pathOf = ({ target }: Draft) => target.split('?')[0] ?? '';
const glueOf = ({ target }: Draft) => (target.includes('?') ? '&' : '?');

const ways: readonly (readonly [name: string, bend: Bend])[] = [
  ['segment', bendSegment],
  ['segment', bendSegment],
  ['segment', bendSegment],
  ['query', set('target', (chance, draft) => `${draft.target}${glueOf(draft)}${chance.pick(queries)}`)],
  ['query', set('target', (chance, draft) => `${draft.target}${glueOf(draft)}${chance.pick(queries)}`)],
  ['only query', set('target', (chance, draft) => `${pathOf(draft)}?${chance.pick(queries)}`)],
  ['field', (chance, draft) => setField(draft, ...chance.pick(fields))],
  ['field', (chance, draft) => setField(draft, ...chance.pick(fields))],
  ['field', (chance, draft) => setField(draft, ...chance.pick(fields))],
  ['field again', add((chance) => chance.pick(fields))],
  ['raw field', add((chance) => ['X-Raw', chance.pick(rawValues)])],
  ['field name', add((chance) => [chance.pick(rawNames), 'x'])],
  ['many fields', (chance, draft) => addMany(draft, chance.pick(floods))],
  ['method', set('method', (chance) => chance.pick(methods))],
  ['target', bendTarget],
  ['version', set('version', (chance) => chance.pick(versions))],
];

function setField(draft: Draft, name: string, value: string): void {
  draft.headers = draft.headers.filter(([other]) => other.toLowerCase() !== name.toLowerCase());
  draft.headers.push([name, value]);
}

function addMany(draft: Draft, [count, size]: readonly [count: number, size: number]): void {
  for (let n = 0; n < count; n++) draft.headers.push([`X-${n}`, 'v'.repeat(size)]);
}

function bendSegment(chance: Random, draft: Draft): void {
  const [path = '', query] = draft.target.split('?');
  const parts = path.split('/');
  const at = 1 + chance.below(parts.length - 1);
  const bent = chance.pick([
    chance.pick(segments),
    chance.pick(segments),
    (parts[at] ?? '').toLowerCase(),
    (parts[at] ?? '').toUpperCase(),
    `${parts[at]}${chance.pick(segments)}`,
    [...(parts[at] ?? '')].map((letter) => `%${letter.charCodeAt(0).toString(16).padStart(2, '0')}`).join(''),
  ]);
  parts.splice(at, chance.happens(0.15) ? 0 : 1, bent);
  draft.target = parts.join('/') + (query === undefined ? '' : `?${query}`);
}

function bendTarget(chance: Random, draft: Draft): void {
  const { target } = draft;
  draft.target = chance.pick([
    ...[
      `http://evil.example${target}`,
      `https://hub:99999${target}`,
      `//evil.example${target}`,
      `/${target}`,
      `${target}/`,
    ],
    ...[
      `${target}#x`,
      `${target}#/../admin`,
      '*',
      '/',
      '',
      'x',
      `/.${target}`,
      `/x/..${target}`,
      target.replaceAll('/', '\\'),
    ],
    ...[target.replaceAll('/', '//'), target.replaceAll('/', '%2f'), `/%6fcpi${target.slice(5)}`, target.toUpperCase()],
    ...[
      `${target}\u0000`,
      `${target} x`,
      `${target}\tx`,
      `${target}${'/a'.repeat(3_000)}`,
      'http://',
      '/ocpi',
      '/ocpi/',
      '/admin',
      '/admin/v1',
    ],
    ...[
      '/ocpi/undecodable',
      '/admin/v1/%zz',
      '/admin/docs/',
      '/console/',
      '/console/../../package.json',
      '/favicon.ico',
    ],
  ]);
}
