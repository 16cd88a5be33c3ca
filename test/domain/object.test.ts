/** What a push makes of a body, on every level, and the small rules beside it: keys, dates, sameness. */

import {
  type BodyChange,
  changedBody,
  objectKey,
  objectName,
  readWithin,
  replaceField,
  sameJson,
  sortableDate,
  streamOf,
} from '../../src/domain/object.ts';
import { fc } from '../support/property.ts';
import { t } from '../support/tap.ts';

const later = '2026-02-02T00:00:00Z';
const change = (fields: Partial<BodyChange>): BodyChange => ({
  ...{ module: 'locations', method: 'PUT', within: [], lastUpdated: later, body: '{}' },
  ...fields,
});

t.test('a PUT or POST stores exactly the received text, before or after another [D17, OBJECT-1]', async (t) => {
  const body = '{ "id":"X" ,"kwh":1.10,"big":12345678901234567890,"charging_periods":[ ],"unknown":{"\\u0061":1E5}}\n';
  for (const module of ['locations', 'tariffs', 'sessions', 'cdrs', 'tokens'] as const) {
    const method = module === 'cdrs' ? 'POST' : 'PUT';
    t.equal(changedBody(null, change({ module, method, body })), body, `${module}: the first`);
    const before = '{"id":"X","name":"old","charging_periods":[1]}';
    t.equal(
      changedBody(before, change({ module, method, body })),
      body,
      `${module}: the next, nothing of the old stays`,
    );
  }
});

t.test('a PATCH replaces the fields it carries as a whole, and never creates [D4, D17, D19, OBJECT-2]', async (t) => {
  const before = '{ "a" : 1.10, "o":{"x":1,"y":2}, "l":[1,2] , "last_updated":"old"}';
  const undated = changedBody('{"last_updated":"old"}', change({ method: 'PATCH', body: '{"last_updated":null}' }));
  t.equal(undated, `{"last_updated":"${later}"}`, 'without a date, the time of its arrival stands in');
  const table: [string, string, string][] = [
    ['a value', '{"a":2.50}', '{ "a" : 2.50, "o":{"x":1,"y":2}, "l":[1,2] , "last_updated":"old"}'],
    ['an object, whole', '{"o":{"x":3}}', '{ "a" : 1.10, "o":{"x":3}, "l":[1,2] , "last_updated":"old"}'],
    ['an array, whole', '{"l":[ 3 ]}', '{ "a" : 1.10, "o":{"x":1,"y":2}, "l":[ 3 ] , "last_updated":"old"}'],
    ['null', '{"a":null}', '{ "a" : null, "o":{"x":1,"y":2}, "l":[1,2] , "last_updated":"old"}'],
    ['a new field', '{"n":1E5}', '{ "a" : 1.10, "o":{"x":1,"y":2}, "l":[1,2] , "last_updated":"old","n":1E5}'],
    ['nothing', '{}', before],
    ['of duplicates the last', '{"a":2,"a":3}', before.replace('1.10', '3')],
  ];
  for (const module of ['locations', 'tariffs', 'sessions', 'tokens'] as const) {
    for (const [title, body, expected] of table) {
      t.equal(
        changedBody(before, change({ module, method: 'PATCH', lastUpdated: null, body })),
        expected,
        `${module}: ${title}`,
      );
    }
    t.equal(changedBody(null, change({ module, method: 'PATCH', body: '{"a":1}' })), null, `${module}: none to patch`);
  }
});

t.test('charging_periods are appended to those of a session, and only of a session [D19]', async (t) => {
  const periods = (text: string) => `{"id":"S","charging_periods":${text}}`;
  const patch = (body: string): BodyChange => change({ module: 'sessions', method: 'PATCH', lastUpdated: null, body });
  const table: [string, string, string, string][] = [
    ['behind the others', periods('[{"v":1.10} ]'), periods('[{"v":2.0}]'), periods('[{"v":1.10} ,{"v":2.0}]')],
    ['to an empty list', periods('[]'), periods('[1]').replace('"id":"S",', ''), periods('[1]')],
    ['nothing', periods('[1]'), periods('[]'), periods('[1]')],
    ['where there was none', '{"id":"S"}', '{"charging_periods":[1]}', periods('[1]')],
    ['where it was null', periods('null'), '{"charging_periods":[1]}', periods('[1]')],
    [
      'null takes none away',
      periods('[1]'),
      '{"kwh":2,"charging_periods":null}',
      `${periods('[1]').slice(0, -1)},"kwh":2}`,
    ],
    ['one without its list', periods('[{"v":1}]'), '{"charging_periods":{"v":2}}', periods('[{"v":1},{"v":2}]')],
    ['other arrays of a session are replaced', '{"l":[1]}', '{"l":[2]}', '{"l":[2]}'],
  ];
  for (const [title, before, body, expected] of table) t.equal(changedBody(before, patch(body)), expected, title);
  const again = changedBody(periods('[1]'), change({ module: 'sessions', body: periods('[2]') }));
  t.equal(again, periods('[2]'), 'a PUT replaces the list');
  for (const module of ['locations', 'tariffs', 'tokens'] as const) {
    const other = changedBody(
      periods('[1]'),
      change({ module, method: 'PATCH', lastUpdated: null, body: '{"charging_periods":[2]}' }),
    );
    t.equal(other, periods('[2]'), `${module}: replaced`);
  }
});

const connectorA = '{ "id":"1", "max_voltage":230.0 ,"last_updated":"c1"}';
const connectorB = '{"id":"Two","tariff_ids":[ "T1" ],"last_updated":"c2"}';
const evseA = (connectors = `[${connectorA}, ${connectorB}]`, updated = 'e1') =>
  `{ "uid":"EVSE1","capabilities":["A", "B"], "connectors":${connectors},"last_updated":"${updated}" }`;
const evseB = '{"uid":"evse2" ,"status":"AVAILABLE","connectors":[],"last_updated":"e2"}';
const location = (evses: string, updated = 'l1') =>
  `{"id":"LOC", "x":1.10,"evses": [${evses}] ,"last_updated":"${updated}" , "y":[ ]}\n`;
const stored = location(`${evseA()} , ${evseB}`);

t.test(
  'an EVSE or connector is put or patched in place; its parents’ dates move, its siblings’ do not [D12, D18, OBJECT-3]',
  async (t) => {
    const newEvse = '{"uid":"EVSE3","n":1E5,"last_updated":"n"}';
    const newConnector = '{"id":"3","n":1.10,"last_updated":"n"}';
    const withConnectors = (connectors: string) => location(`${evseA(connectors, later)} , ${evseB}`, later);
    const patchedB = '{"uid":"evse2" ,"status":"CHARGING","connectors":[],"last_updated":"n","new":[1]}';
    const patchedOne = '{ "id":"1", "max_voltage":400.0 ,"last_updated":"n"}';
    const patchedTwo = '{"id":"Two","tariff_ids":["T2"],"last_updated":"n"}';
    const table: [string, Partial<BodyChange>, string][] = [
      ['EVSE replaced', { within: ['EVSE1'], body: newEvse }, location(`${newEvse} , ${evseB}`, later)],
      ['EVSE added', { within: ['EVSE3'], body: newEvse }, location(`${evseA()} , ${evseB},${newEvse}`, later)],
      [
        'EVSE by its id in another case',
        { within: ['EVSE2'], body: newEvse },
        location(`${evseA()} , ${newEvse}`, later),
      ],
      [
        'EVSE without uid gets the one of the path',
        { within: ['E9'], body: '{"n":1}' },
        location(`${evseA()} , ${evseB},{"n":1,"uid":"E9"}`, later),
      ],
      [
        'EVSE whose uid is null, too',
        { within: ['E9'], body: '{"uid":null,"n":1}' },
        location(`${evseA()} , ${evseB},{"uid":"E9","n":1}`, later),
      ],
      [
        'EVSE patched with null as its uid, which stays',
        { method: 'PATCH', within: ['evse2'], body: '{"uid":null,"status":"CHARGING","last_updated":"n","new":[1]}' },
        location(`${evseA()} , ${patchedB}`, later),
      ],
      [
        'EVSE patched',
        { method: 'PATCH', within: ['Evse2'], body: '{"status":"CHARGING","last_updated":"n","new":[1]}' },
        location(`${evseA()} , ${patchedB}`, later),
      ],
      [
        'EVSE patched with connectors, replaced whole',
        { method: 'PATCH', within: ['evse1'], body: '{"connectors":[],"last_updated":"n"}' },
        location(`${evseA('[]', 'n')} , ${evseB}`, later),
      ],
      [
        'connector replaced',
        { within: ['EVSE1', 'two'], body: newConnector },
        withConnectors(`[${connectorA}, ${newConnector}]`),
      ],
      [
        'connector added',
        { within: ['evse1', '3'], body: newConnector },
        withConnectors(`[${connectorA}, ${connectorB},${newConnector}]`),
      ],
      [
        'connector without id gets the one of the path',
        { within: ['EVSE1', '3'], body: '{"n":1}' },
        withConnectors(`[${connectorA}, ${connectorB},{"n":1,"id":"3"}]`),
      ],
      [
        'connector patched',
        { method: 'PATCH', within: ['EVSE1', '1'], body: '{"max_voltage":400.0,"last_updated":"n"}' },
        withConnectors(`[${patchedOne}, ${connectorB}]`),
      ],
      [
        'array of a connector, replaced whole',
        { method: 'PATCH', within: ['EVSE1', 'TWO'], body: '{"tariff_ids":["T2"],"last_updated":"n"}' },
        withConnectors(`[${connectorA}, ${patchedTwo}]`),
      ],
    ];
    for (const [title, fields, expected] of table) t.equal(changedBody(stored, change(fields)), expected, title);
    const first = changedBody('{"id":"LOC","last_updated":"l"}', change({ within: ['E'], body: '{"uid":"E"}' }));
    t.equal(first, `{"id":"LOC","last_updated":"${later}","evses":[{"uid":"E"}]}`, 'the first EVSE of a location');
  },
);

t.test('a fragment of an unknown object creates nothing [D4, D46]', async (t) => {
  const table: [string, string | null, Partial<BodyChange>][] = [
    ['EVSE of an unknown location', null, { within: ['EVSE1'] }],
    ['connector of an unknown location', null, { within: ['EVSE1', '1'] }],
    ['connector of an unknown EVSE', stored, { within: ['NONE', '1'] }],
    ['PATCH of an unknown EVSE', stored, { method: 'PATCH', within: ['NONE'] }],
    ['PATCH of an unknown connector', stored, { method: 'PATCH', within: ['EVSE1', 'NONE'] }],
    ['PATCH of a connector of an unknown EVSE', stored, { method: 'PATCH', within: ['NONE', '1'] }],
  ];
  for (const [title, before, fields] of table) t.equal(changedBody(before, change(fields)), null, title);
});

t.test('each level of a location is read as it was stored, ids in any case [D12, D20]', async (t) => {
  const table: [string[], string | null][] = [
    [[], stored],
    [['evse1'], evseA()],
    [['EVSE2'], evseB],
    [['Evse1', 'TWO'], connectorB],
    [['EVSE1', '3'], null],
    [['EVSE2', '1'], null],
    [['NONE'], null],
    [['NONE', '1'], null],
    [['EVSE1', '1', 'deeper'], null],
  ];
  for (const [within, expected] of table) t.equal(readWithin(stored, within), expected, `/${within.join('/')}`);
});

t.test('replacing one field keeps the bytes of the rest [D17]', async (t) => {
  const url = 'https://hub/"1"';
  t.equal(replaceField('{ "n":1.10, "u" : "x" }', 'u', url), `{ "n":1.10, "u" : ${JSON.stringify(url)} }`);
  t.equal(replaceField('{"n":{"u":"x"}}', 'u', url), '{"n":{"u":"x"}}', 'absent: nothing is added');
});

t.test('keys ignore case, names do not; the type is part of the key of a token alone [D12, D24]', async (t) => {
  const table: [string, string][] = [
    [objectKey('sessions', 'AbC', {}), 'abc'],
    [objectKey('locations', 'AbC', { tokenType: 'RFID' }), 'abc'],
    [objectKey('tokens', 'AbC', {}), 'abc/RFID'],
    [objectKey('tokens', 'AbC', { tokenType: 'APP_USER' }), 'abc/APP_USER'],
    [objectKey('tokens', 'ABC', { tokenType: 'RFID' }), objectKey('tokens', 'abc', {})],
    [objectName({ owner: 'NL-CPO', id: 'AbC' }), 'NL-CPO/AbC'],
    [streamOf('tokens', 'NL-EMS', 'abc/RFID'), 'tokens/NL-EMS/abc/RFID'],
  ];
  for (const [actual, expected] of table) t.equal(actual, expected);
});

t.test('a date of RFC 3339, with or without designator, becomes sortable text; others are refused [D31]', async (t) => {
  const table: [string, string | undefined][] = [
    ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05.000000000'],
    ['2026-01-02T03:04:05', '2026-01-02T03:04:05.000000000'],
    ['2026-01-02t03:04:05z', '2026-01-02T03:04:05.000000000'],
    ['2026-01-02T03:04:05.1Z', '2026-01-02T03:04:05.100000000'],
    ['2026-01-02T03:04:05.123456789', '2026-01-02T03:04:05.123456789'],
    ['2026-01-02T03:04:05.1234567899Z', '2026-01-02T03:04:05.123456789'],
    ['2026-01-02T03:04:05+00:00', '2026-01-02T03:04:05.000000000'],
    ['2026-01-01T00:30:00+01:00', '2025-12-31T23:30:00.000000000'],
    ['2026-12-31T23:30:00.5-01:30', '2027-01-01T01:00:00.500000000'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000000000'],
    ['2024-02-29 00:00:00Z', '2024-02-29T00:00:00.000000000'],
    ['2024-02-29 01:00:00+01:00', '2024-02-29T00:00:00.000000000'],
    ...['2026-02-29T00:00:00Z', '2026-04-31T00:00:00Z', '2026-04-31T00:00:00+05:00', '2026-00-01T00:00:00Z'].map(
      refused,
    ),
    ...['2026-13-01T00:00:00Z', '2026-01-32T00:00:00Z', '2026-01-00T00:00:00Z', '2026-01-01T24:00:00Z'].map(refused),
    ...['2026-01-01T25:00:00Z', '2026-01-01T00:60:00Z', '2026-01-01T00:00:00+24:00', '2026-01-01T00:00:00+01:60'].map(
      refused,
    ),
    ['2026-01-02T03:04Z', '2026-01-02T03:04:00.000000000'],
    ['2026-01-02T03:04', '2026-01-02T03:04:00.000000000'],
    ['2026-01-02T03:04+01:00', '2026-01-02T02:04:00.000000000'],
    ['2026-01-02T03:04:05.678+0000', '2026-01-02T03:04:05.678000000'],
    ['2026-01-02T03:04:05-0130', '2026-01-02T04:34:05.000000000'],
    ['2026-01-02T03:04:05+01', '2026-01-02T02:04:05.000000000'],
    ['2026-01-02T03:04:05,5Z', '2026-01-02T03:04:05.500000000'],
    ...['', 'now', '2026-01-01', '2026-01-01T00Z', '2026-1-1T00:00:00Z', '1767225600', '20260101T000000Z'].map(refused),
    ...['2026-01-01T00:00:00.Z', '2026-01-01T00:00.5Z', '2026-01-01T00:00:00+1', ' 2026-01-01T00:00:00Z'].map(refused),
    ...['2026-01-01T00:00+0160', '2026-01-01T00:00+24', '2026-01-01T00:60Z', '2026-01-01T00:00:00 Z'].map(refused),
    ...[
      '2026-01-01T00:00:00Z ',
      '2026-01-01T00:00:00Z\n',
      '9999-12-31T23:59:59-01:00',
      '0000-01-01T00:00:00+01:00',
    ].map(refused),
  ];
  for (const [text, expected] of table) t.equal(sortableDate(text), expected, JSON.stringify(text));
});

function refused(text: string): [string, undefined] {
  return [text, undefined];
}

t.test('sortable text sorts like the instants, whatever offset they were written with [D31, D32]', async () => {
  const instant = fc.record({
    ms: fc
      .date({ min: new Date('1970-01-02'), max: new Date('2100-01-01'), noInvalidDate: true })
      .map((date) => date.getTime()),
    offset: fc.integer({ min: -14 * 60, max: 14 * 60 }),
  });
  const two = (value: number) => String(value).padStart(2, '0');
  const written = ({ ms, offset }: { ms: number; offset: number }) => {
    const zone = `${offset < 0 ? '-' : '+'}${two(Math.trunc(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
    return `${new Date(ms + offset * 60_000).toISOString().slice(0, -1)}${zone}`;
  };
  // Half of the pairs lie within a second of each other, where fractions decide.
  const pair = fc.oneof(
    fc.tuple(instant, instant),
    fc
      .tuple(instant, instant, fc.integer({ min: -1000, max: 1000 }))
      .map(([a, b, apart]) => [a, { ...b, ms: a.ms + apart }] as const),
  );
  fc.assert(
    fc.property(pair, ([a, b]) => {
      const [left, right] = [sortableDate(written(a)), sortableDate(written(b))];
      if (left === undefined || right === undefined) return false;
      return Math.sign(a.ms - b.ms) === (left < right ? -1 : left > right ? 1 : 0);
    }),
    { numRuns: 500 },
  );
});

t.test('two bodies are equal when their values are, in any order and notation [D22]', async (t) => {
  const table: [string, string, readonly string[], boolean][] = [
    ['{"a":1.10,"b":[1,{"c":null}]}', '{ "b":[1.0,{"c":null}],"a":1.1 }', [], true],
    ['{"a":1}', '{"a":2}', [], false],
    ['{"a":1}', '{"a":"1"}', [], false],
    ['{"a":1}', '{"a":1,"b":null}', [], true],
    ['{"a":1,"b":null}', '{"a":1,"c":null}', [], true],
    ['[null]', '[]', [], false],
    ['{"a":"2026-01-02T03:04:05Z"}', '{"a":"2026-01-02T04:04:05.000+01:00"}', [], true],
    ['{"a":"2026-01-02T03:04:05Z"}', '{"a":"2026-01-02T03:04:05.001Z"}', [], false],
    ['{"a":"x"}', '{"a":"X"}', [], false],
    ['[1,2]', '[2,1]', [], false],
    ['[1]', '[1,2]', [], false],
    ['[]', '{}', [], false],
    ['["x"]', '{"0":"x"}', [], false],
    ['null', '{}', [], false],
    ['{"a":{}}', '{"a":null}', [], false],
    ['{"a":""}', '{"a":null}', [], false],
    ['{"a":1,"b":[]}', '{"a":1}', [], true],
    ['{"a":1,"b":[null]}', '{"a":1}', [], false],
    ['{"id":"a","session_id":"S"}', '{"id":"A","session_id":"s"}', [], true],
    [
      '{"cdr_token":{"uid":"x1"},"tariffs":[{"id":"t"}]}',
      '{"cdr_token":{"uid":"X1"},"tariffs":[{"id":"T"}]}',
      [],
      true,
    ],
    ['{"x_own":{"id":"x1"}}', '{"x_own":{"id":"X1"}}', [], false],
    ['{"tariffs":[{"x_own":{"id":"t"}}]}', '{"tariffs":[{"x_own":{"id":"T"}}]}', [], false],
    ['{"id":["x"]}', '{"id":["X"]}', [], false],
    ['{"a":1,"x":1}', '{"a":1,"x":2}', ['x'], true],
    ['{"a":1,"x":1}', '{"a":1}', ['x'], true],
    ['{"a":1,"x":1}', '{"a":2,"x":1}', ['x'], false],
    ['{"a":{"x":1}}', '{"a":{"x":2}}', ['x'], false],
  ];
  for (const [a, b, except, expected] of table) {
    const title = `${a} and ${b}${except.length > 0 ? `, without ${except}` : ''}`;
    t.equal(sameJson(JSON.parse(a), JSON.parse(b), new Set(except)), expected, title);
    t.equal(sameJson(JSON.parse(b), JSON.parse(a), new Set(except)), expected, `${title}, the other way round`);
  }
});
