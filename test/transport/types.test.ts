/** What the building blocks refuse, what they note, and what they let pass. */
import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { chargeFields, tariff, token } from '../../src/transport/shapes.ts';
import {
  anyOf,
  type Checked,
  check,
  ciString,
  dateTime,
  filled,
  flag,
  foreign,
  fragment,
  httpUrl,
  identifier,
  integer,
  link,
  list,
  may,
  must,
  number,
  object,
  oneOf,
  pattern,
  should,
  snapshot,
  text,
  tokenText,
} from '../../src/transport/types.ts';
import { sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { fc } from '../support/property.ts';
import { partOf } from '../support/share.ts';
import { t } from '../support/tap.ts';

const connector = object({ id: must(identifier(36)), standard: should(oneOf('CHADEMO', 'IEC_62196_T2')) });
const evse = object({ uid: must(identifier(36)), connectors: should(list(connector)), floor: may(text(4)) });
const location = object({
  id: must(identifier(36)),
  publish: must(flag),
  name: may(text(10)),
  evses: may(list(evse)),
  last_updated: must(dateTime),
});
const good = { id: 'L1', publish: true, last_updated: '2024-05-01T00:00:00Z' };

t.test('a refusal names the first wrong field by its path and the expected form [D3]', async (t) => {
  const rows: [body: unknown, message: string][] = [
    [null, 'body: expected object'],
    [[], 'body: expected object'],
    ['text', 'body: expected object'],
    [{ ...good, id: undefined }, 'id: expected string'],
    [{ ...good, id: '' }, 'id: expected 1 to 36 printable ASCII characters'],
    [{ ...good, id: 'x'.repeat(37) }, 'id: expected 1 to 36 printable ASCII characters'],
    [{ ...good, id: 'é' }, 'id: expected 1 to 36 printable ASCII characters'],
    [{ ...good, publish: null }, 'publish: expected boolean'],
    [{ ...good, publish: 'true' }, 'publish: expected boolean'],
    [{ ...good, name: 5 }, 'name: expected string'],
    [{ ...good, evses: {} }, 'evses: expected array'],
    [
      { ...good, evses: [{ uid: 'E', connectors: [{ id: 'C' }, { id: 7 }] }] },
      'evses[0].connectors[1].id: expected string',
    ],
    [{ ...good, evses: ['E'] }, 'evses[0]: expected object'],
    [{ ...good, last_updated: '2024-05-01' }, 'last_updated: expected RFC 3339 date-time'],
  ];
  for (const [body, message] of rows) t.throws(() => check(location, body), { code: 'invalid', message }, message);
});

t.test('a list reads no item after the first one that it refuses [TYPES-5]', async (t) => {
  const items = [0, 0];
  Object.defineProperty(items, 1, { get: () => t.fail('the second item was read') });
  t.throws(() => check(list(flag), items), { message: '[0]: expected boolean' });
});

t.test('a list is read up to its first item that is refused [TYPES-5]', async (t) => {
  let read = 0;
  const schema = z.unknown().refine(() => ++read < 3, { error: 'expected less' });
  const counted: Checked<unknown> = { schema, isPlain: () => false };
  const items = Array.from({ length: 300_000 }, (_, n) => n);
  t.throws(() => check(list(counted), items), { code: 'invalid', message: '[2]: expected less' });
  t.equal(read, 3);
  const deep = object({ evses: must(list(object({ capabilities: may(list(text(10))) }))) });
  const message = 'evses[0].capabilities[0]: expected string';
  t.throws(() => check(deep, { evses: [{ capabilities: items }] }), { code: 'invalid', message });
  const { notes } = check(object({ l: may(snapshot(list(text(10)))) }), { l: items });
  t.same(notes, ['l[0]: expected string'], 'of a snapshot there is one note');
});

t.test('a known value in another case is noted as such; some values have lower-case letters [D17]', async (t) => {
  const standard = anyOf('CHADEMO', 'IEC_60309_2_single_16');
  const noted = (value: string) => check(object({ standard: may(standard) }), { standard: value }).notes;
  for (const usual of ['CHADEMO', 'IEC_60309_2_single_16', 'IEC_60309_2_SINGLE_16']) t.same(noted(usual), [], usual);
  for (const low of ['chademo', 'Chademo', 'iec_60309_2_single_16']) {
    t.same(noted(low), ['standard: expected upper case'], low);
  }
  for (const unknown of ['MCS', '']) t.same(noted(unknown), ['standard: value unknown to OCPI 2.2.1'], unknown);
});

t.test('null counts as absent, and unknown fields are ignored [D17]', async (t) => {
  const body = { ...good, name: null, evses: null, extra: { deep: [1] }, constructor: 1 };
  const { body: read, notes } = check(location, JSON.parse(JSON.stringify(body)));
  t.equal(read.publish, true);
  t.same(notes, []);
  t.doesNotThrow(() =>
    check(
      location,
      JSON.parse('{"id":"L1","publish":true,"last_updated":"2024-05-01T00:00:00Z","__proto__":{"id":5}}'),
    ),
  );
});

t.test('a deviation from the specification that the hub tolerates is noted, not refused [D17]', async (t) => {
  const body = {
    ...good,
    name: 'longer than ten',
    evses: [{ uid: 'E', connectors: [{ id: 'C' }, { id: 'D', standard: 'NEW' }] }, { uid: 'F' }],
  };
  t.same(check(location, body).notes, [
    'name: expected at most 10 characters',
    'evses[0].connectors[0].standard: missing',
    'evses[0].connectors[1].standard: value unknown to OCPI 2.2.1',
    'evses[1].connectors: missing',
  ]);
});

t.test('notes of one body are bounded', async (t) => {
  const evses = Array.from({ length: 500 }, (_, at) => ({ uid: `E${at}` }));
  t.equal(check(location, { ...good, evses }).notes.length, 20);
});

t.test('a fragment needs last_updated alone, and cannot remove a required field [D18]', async (t) => {
  const part = fragment(location);
  t.same(check(part, { last_updated: good.last_updated }).notes, []);
  t.throws(() => check(part, { publish: false }), { code: 'invalid', message: 'last_updated: expected string' });
  t.throws(() => check(part, { last_updated: good.last_updated, publish: null }), {
    message: 'publish: expected boolean',
  });
  t.doesNotThrow(() => check(part, { last_updated: good.last_updated, name: null }));
});

t.test('each type accepts its own values and no others', async (t) => {
  const rows: [name: string, type: Checked<unknown>, takes: unknown[], refuses: unknown[]][] = [
    ['ciString', ciString(3), ['', 'abc', 'abcd', '~ !'], ['x'.repeat(1025), 'ä', 5, null]],
    ['text', text(3), ['', 'abcd', 'ä😀'], [5, null, {}]],
    ['oneOf', oneOf('A'), ['A', 'B'], ['', 1, null]],
    ['number', number, [0, -1.5, 1e10], ['1', null, Number.POSITIVE_INFINITY]],
    ['integer', integer, [0, 30, -1], [1.5, '1', null]],
    ['flag', flag, [true, false], ['true', 0, null]],
    ['link', link, ['https://a.example/x', 'www.example.com'], [1, null]],
    [
      'httpUrl',
      httpUrl,
      ['http://a', 'https://a.example:8080/x?y=1'],
      ['', 'www.example.com', 'ftp://a', 'javascript:0', 5],
    ],
    ['tokenText', tokenText, ['a', 'x'.repeat(64), '~!{'], ['', 'a b', 'x'.repeat(65), 'ü', 5]],
  ];
  for (const [name, type, takes, refuses] of rows) {
    for (const value of takes) t.doesNotThrow(() => check(type, value), `${name} takes ${JSON.stringify(value)}`);
    for (const value of refuses)
      t.throws(() => check(type, value), { code: 'invalid' }, `${name} refuses ${JSON.stringify(value)}`);
  }
});

t.test('dates are RFC 3339, with or without designator, and of days that exist [D31]', async (t) => {
  const takes = [
    '2015-06-29T20:39:09Z',
    '2015-06-29T20:39:09',
    '2015-06-29 20:39:09',
    '2016-12-29T17:45:09.2Z',
    '2024-02-29T00:00:00Z',
    '2023-01-31T00:00:00Z',
    '2023-11-30T00:00:00Z',
    '2024-05-31T00:00:00+02:00',
  ];
  const refuses = [
    '2015-06-29',
    '29.06.2015',
    '2023-02-29T00:00:00Z',
    '2024-04-31T00:00:00Z',
    '2024-05-01T24:61:00Z',
    '',
    1718000000,
  ];
  for (const date of takes) t.doesNotThrow(() => check(dateTime, date), date);
  for (const date of refuses) t.throws(() => check(dateTime, date), { code: 'invalid' }, String(date));
});

type Put = <T>(type: Checked<T>) => Checked<T>;

/** A type that has every building block; those that contain no other are given to `put`. */
function everyBlock(put: Put) {
  const part = object({ id: must(put(identifier(3))), name: should(put(text(2))), flag: may(put(flag)) });
  return object({
    identifier: must(put(identifier(3))),
    ciString: should(put(ciString(3))),
    text: may(put(text(3))),
    oneOf: should(put(oneOf('A', 'b'))),
    anyOf: may(put(anyOf('A', 'b'))),
    pattern: may(put(pattern(/^\d$/, 'expected digit'))),
    link: may(put(link)),
    httpUrl: must(put(httpUrl)),
    tokenText: must(put(tokenText)),
    number: should(put(number)),
    integer: may(put(integer)),
    foreign: may(put(foreign((value) => value === 'YES', 'expected no'))),
    names: may(list(put(ciString(3)))),
    parts: should(list(part)),
    filled: should(filled(list(part))),
    snapshot: should(snapshot(filled(list(part)))),
    last_updated: must(put(dateTime)),
  });
}

const plainPart: Readonly<Record<string, unknown>> = { id: '~', name: 'en', flag: true };
const plainBody: Readonly<Record<string, unknown>> = {
  ...{ identifier: 'abc', ciString: 'abc', text: 'é', oneOf: 'b', anyOf: 'A', pattern: '7', tokenText: 't' },
  ...{
    link: 'https://a.example/x',
    httpUrl: 'https://a.example/x',
    number: -1.5,
    integer: 7,
    foreign: 'NO',
  },
  ...{ names: ['a', ''], parts: [plainPart], filled: [plainPart], snapshot: [plainPart, plainPart] },
  last_updated: '2024-05-01T00:00:00.123Z',
};
const oddValues: readonly unknown[] = [
  ...[null, undefined, '', 'a', 'A', 'b', 'B', 'ABCD', 'é', ' ', '5', 'x'.repeat(1025), 'YES', 5, 1.5, 1e300, true],
  ...['2024-05-01T00:00:00', '2024-05-01 00:00:00Z', '2024-02-30T00:00:00Z', '2024-05-01t00:00:00+02:00'],
  ...['ftp://a', 'https://a.example', [], {}, [null], ['a'], [{}], [{ id: 'a' }], { id: 'a', name: 'b' }],
];

/** One plain object with each field in turn odd in each way. */
const oddOnes = (plain: Readonly<Record<string, unknown>>): Record<string, unknown>[] =>
  Object.keys(plain).flatMap((name) => oddValues.map((value) => ({ ...plain, [name]: value })));

/** Most fields are plain. */
const someBody = fc.record(
  Object.fromEntries(
    Object.entries(plainBody).map(([name, plain]) => [
      name,
      fc.oneof({ weight: 20, arbitrary: fc.constant(plain) }, { weight: 1, arbitrary: fc.constantFrom(...oddValues) }),
    ]),
  ),
);

/** As JSON: what is undefined is absent. */
const written = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

/** The checked view with its notes, or the sentence of the refusal. */
function checked(type: Checked<unknown>, value: unknown): unknown {
  try {
    return written(check(type, value));
  } catch (error) {
    return (error as Error).message;
  }
}

t.test('a plain value equals what the schema makes of it, and has no note [TYPES-6]', async (t) => {
  const quick = everyBlock((type) => type);
  const slow = everyBlock((type) => ({ ...type, isPlain: () => false }));
  const [quickPart, slowPart] = [fragment(quick), fragment(slow)];
  const isSame = (of: unknown): boolean => {
    const body = written(of);
    return (
      isDeepStrictEqual(checked(quick, body), checked(slow, body)) &&
      isDeepStrictEqual(checked(quickPart, body), checked(slowPart, body))
    );
  };
  t.ok(quick.isPlain(plainBody));
  const withParts = oddOnes(plainPart).flatMap((part) =>
    ['parts', 'filled', 'snapshot'].map((name) => ({ ...plainBody, [name]: [plainPart, part] })),
  );
  t.strictSame(
    [...oddOnes(plainBody), ...withParts].filter((body) => !isSame(body)),
    [],
  );
  fc.assert(fc.property(someBody, isSame), { numRuns: partOf(20_000) });
});

t.test('no schema reads a plain body, nor the plain parts of another [TYPES-6]', async (t) => {
  let read = 0;
  const schema = z.unknown().refine(() => ++read > 0);
  const counted: Checked<unknown> = { schema, isPlain: (value) => value === 'plain' };
  const type = object({ one: must(counted), all: may(list(counted)), copy: may(snapshot(list(counted))) });
  const body = { one: 'plain', all: Array(5).fill('plain'), copy: Array(5).fill('plain'), other: 1 };
  t.equal(check(type, body).body, body);
  t.equal(read, 0);
  t.same(check(type, { ...body, all: ['plain', 'odd', 'plain'] }).notes, []);
  t.equal(read, 2, 'the fields that are no list, and the odd item');
});

t.test('a plain view keeps its unknown fields, and one that a schema made has none [TYPES-6]', async (t) => {
  const plain = { id: 'C', standard: 'CHADEMO', uid: 5 };
  t.strictSame(check(connector, plain).body, plain);
  t.strictSame(check(connector, { ...plain, standard: 'NEW' }).body, { id: 'C', standard: 'NEW' });
});

t.test('the bodies that partners usually send are plain [TYPES-6]', async (t) => {
  const period = { start_date_time: '2026-01-02T03:00:00Z', dimensions: [{ type: 'ENERGY', volume: 1.25 }] };
  const session = sessionBody('S1', { charging_periods: Array(5).fill(period), meter_id: 'meter-0001' });
  t.ok(object(chargeFields).isPlain(session));
  t.ok(tariff.isPlain(tariffBody('T1')));
  t.ok(token.isPlain(tokenBody('CARD1')));
  t.notOk(object(chargeFields).isPlain({ ...session, charging_periods: [{ ...period, dimensions: null }] }));
});
