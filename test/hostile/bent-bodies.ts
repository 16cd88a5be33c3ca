/**
 * Bodies that are bent out of valid ones: wrong values, names and shapes inside JSON, and bytes that are no JSON at all.
 */
import { gzipSync } from 'node:zlib';
import type { Random } from '../faults/random.ts';

/** Names that mean something to the language, or that look like a name that means something to the hub. */
export const loadedNames = [
  ...['__proto__', 'constructor', 'prototype', 'hasOwnProperty', 'toString', 'valueOf', 'then', 'toJSON', 'length'],
  ...['', ' ', '.', '..', '\u0000', 'ID', 'Party_Id', 'COUNTRY_CODE', 'іd', 'ﬁeld', 'a.b', 'a[0]', '$ref', '🔌'],
];

const deep = (levels: number, open: string, close: string) => open.repeat(levels) + close.repeat(levels);

/** JSON values as text, so that they may be what no JavaScript value is. */
const values = [
  ...['null', 'true', 'false', '[]', '{}', '""', '0', '-0', '-1', '1.5', '[null]', '[[]]', '{"":""}', '[{}]'],
  ...['1e400', '-1e400', '1e-400', '9007199254740993', '123456789012345678901234567890', '0.1e-7', '1E5'],
  ...['"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"a\\u0000b"', '"\\r\\nX-Evil: 1"', '"\\u202eabc"', '"\\ufeff"'],
  ...['"__proto__"', '"constructor"', '".."', '"."', '"../../x"', '"a/b"', '"%2e%2e"', '"%00"', '"a?b#c"', '"\\\\"'],
  ...['"ＮＬ"', '"nl"', '"ſ"', '"K"', '"EMß"', '"İ"', '"CPO\\u200b"', '"CPO "', '" CPO"', '"ĊPO"', '"NL-CPO"'],
  ...['"2026-02-30T00:00:00Z"', '"2026-01-01"', '"0000-00-00T00:00:00Z"', '"9999-12-31T23:59:59.999999999Z"'],
  ...['"-271821-04-20T00:00:00Z"', '"+275760-09-13T00:00:00Z"', '"2026-01-01T24:00:00Z"', '"2026-01-01T00:00:60Z"'],
  ...[
    '"9999-12-31T23:59:59-23:59"',
    '"0000-01-01T00:00:00+23:59"',
    '"2026-01-01T00:00:00.1234567890123Z"',
    '1735689600',
  ],
  ...['"http://127.0.0.1:1/"', '"file:///etc/passwd"', '"javascript:alert(1)"', '"http://"', '"http://[::1"'],
  ...['{"__proto__":{"admin":true}}', '{"constructor":{"prototype":{"x":1}}}', '{"toJSON":1,"then":2}'],
  `"${'x'.repeat(70)}"`,
  `"${'x'.repeat(40_000)}"`,
  `"${'\\u0041'.repeat(3_000)}"`,
  `[${'0,'.repeat(20_000)}0]`,
  `[${'{},'.repeat(3_000)}{}]`,
  deep(60, '[', ']'),
  deep(62, '{"a":', '}').replace('}', '1}'),
  deep(70, '[', ']'),
  deep(5_000, '[', ']'),
];

type Fields = Record<string, unknown>;
type Spot = { readonly holder: Fields; readonly key: string };

/** Every field and item of a value, at any depth. */
function spotsOf(value: unknown): Spot[] {
  if (typeof value !== 'object' || value === null) return [];
  const holder = value as Fields;
  return Object.keys(holder).flatMap((key) => [{ holder, key }, ...spotsOf(holder[key])]);
}

/** Stands for raw text until the value has become text. */
const mark = (n: number) => `\u0001raw${n}\u0001`;

/** A body with one to three fields bent. */
export function bendFields(chance: Random, body: object): string {
  const value = structuredClone(body) as Fields;
  const raw: string[] = [];
  const put = (text: string) => mark(raw.push(text) - 1);
  for (let left = 1 + chance.below(3); left > 0; left--) {
    const spots = spotsOf(value);
    const spot: Spot = spots.length > 0 ? chance.pick(spots) : { holder: value, key: 'x' };
    bendField(chance, spot, put);
  }
  return JSON.stringify(value).replace(/"\\u0001raw(\d+)\\u0001"/g, (_, n: string) => raw[Number(n)] ?? '');
}

function bendField(chance: Random, { holder, key }: Spot, put: (text: string) => string): void {
  const rename = (name: string) => {
    const moved = holder[key];
    if (Array.isArray(holder)) return;
    delete holder[key];
    Object.defineProperty(holder, name, { value: moved, enumerable: true, configurable: true, writable: true });
  };
  const value = () => put(chance.pick(values));
  const again = (name: string) =>
    put(`${JSON.stringify(holder[key]) ?? 'null'},${JSON.stringify(name)}:${chance.pick(values)}`);
  const ways: (() => void)[] = [
    ...Array.from({ length: 4 }, () => () => {
      holder[key] = value();
    }),
    () => {
      delete holder[key];
    },
    () => rename(chance.pick(loadedNames)),
    () => rename(key.toUpperCase()),
    () => {
      holder[key] = [holder[key]];
    },
    () => {
      holder[key] = String(holder[key]);
    },
    // The same name twice: raw text that ends one field and begins another.
    () => {
      holder[key] = again(key);
    },
    () => {
      holder[key] = again('__proto__');
    },
  ];
  chance.pick(ways)();
}

/** Other bytes for a text: no JSON, no UTF-8, or JSON in a coat that it should not wear. */
export function bendBytes(chance: Random, text: string): Buffer {
  const bytes = Buffer.from(text, 'utf8');
  const at = chance.below(bytes.length + 1);
  const insert = (...more: number[]) => Buffer.concat([bytes.subarray(0, at), Buffer.from(more), bytes.subarray(at)]);
  const ways: (() => Buffer)[] = [
    () => Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytes]),
    () => Buffer.from(text, 'utf16le'),
    () => Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, 'utf16le')]),
    () => Buffer.from(text, 'utf16le').swap16(),
    () => gzipSync(bytes),
    () => insert(0xc0, 0xaf),
    () => insert(0xed, 0xa0, 0x80),
    () => insert(0xf4, 0x90, 0x80, 0x80),
    () => insert(0x00),
    () => insert(0xff),
    () => insert(chance.below(256)),
    () => bytes.subarray(0, at),
    () => Buffer.concat([bytes, bytes]),
    () => Buffer.concat([bytes, Buffer.from(chance.pick([',', '}', ']', '\u0000', '//', ' x']))]),
    () => Buffer.from(text.replaceAll('"', "'")),
    () => Buffer.from(text.replace(':', ':NaN,"x":')),
    () => Buffer.from(`/* */${text}`),
    () => Buffer.from(text.replace('{', '{"a":01,')),
    () =>
      Buffer.from(
        chance.pick(['', ' ', 'null', '0', '"x"', '[]', '{', '[', '{"', '{"a"', '{"a":', '"\\', '"\\u12', '\u2028']),
      ),
    () =>
      Buffer.from(chance.pick([deep(5_000, '[', ']'), '['.repeat(100_000), '{"a":'.repeat(10_000), '"'.repeat(9_999)])),
    () => Buffer.alloc(chance.pick([1, 100, 70_000]), chance.below(256)),
    () => Buffer.alloc(1_100_000, ' '),
  ];
  return chance.pick(ways)();
}
