/** Which items of one JSON array another has already, against a naive model: parse and compare. */

import { isDeepStrictEqual } from 'node:util';
import * as json from '../../src/domain/json-items.ts';
import { atOnce } from '../../src/domain/json-text.ts';
import { anArray, space } from '../support/json-written.ts';
import { fc } from '../support/property.ts';
import { isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

const runs = { numRuns: isAtLength ? 400 : 40 };
const parse = (text: string) => JSON.parse(text) as unknown;
const appendNewItems = (array: string, more: string) => atOnce(json.appendNewItems(array, more));
const itemsOf = (text: string) => parse(text) as unknown[];

t.test('items that are already there, in any notation, are not appended again [JSON-ITEMS-1]', async (t) => {
  const table: [array: string, more: string, expected: string][] = [
    ['[{"at":"1","v":1.0}]', '[{ "at": "1", "v": 1 }]', '[{"at":"1","v":1.0}]'],
    ['[{"at":"1","v":1}]', '[{"at":"1","v":2}]', '[{"at":"1","v":1},{"at":"1","v":2}]'],
    ['[{"at":"\\u0031"}]', '[{"at":"1"}]', '[{"at":"\\u0031"}]'],
    ['[{"at":"1"}]', '[{"at":"\\u0031"}]', '[{"at":"1"}]'],
    ['[{"a\\"t":"1"}]', '[{"a\\"t":"1"}]', '[{"a\\"t":"1"}]'],
    ['[{"a":"y"}]', '[{"a":"longer","a":"y"}]', '[{"a":"y"}]'],
    ['[1, 2]', '[2,3]', '[1, 2,3]'],
  ];
  for (const [array, more, expected] of table) t.equal(appendNewItems(array, more), expected, `${array} + ${more}`);
  fc.assert(
    fc.property(anArray, anArray, (array, more) => {
      const known = new Set((parse(array) as unknown[]).map((item) => JSON.stringify(item)));
      const fresh = (parse(more) as unknown[]).filter((item) => !known.has(JSON.stringify(item)));
      return isDeepStrictEqual(parse(appendNewItems(array, more)), [...(parse(array) as unknown[]), ...fresh]);
    }),
    runs,
  );
});

t.test('an array is parsed at most once, however many items are appended to it [JSON-ITEMS-1]', async (t) => {
  const periods = (from: number, count: number) =>
    JSON.stringify(Array.from({ length: count }, (_, n) => ({ at: `2026-01-01T00:00:00.${from + n}Z`, v: 1 })));
  const array = periods(0, 700);
  const { parse: parseOnce } = JSON;
  let read = 0;
  JSON.parse = (text: string) => {
    read += text.length;
    return parseOnce(text) as unknown;
  };
  t.teardown(() => {
    JSON.parse = parseOnce;
  });
  const readBy = (more: string, count: number) => {
    read = 0;
    const longer = appendNewItems(array, more);
    const once = read - more.length;
    t.equal(itemsOf(longer).length, count);
    return once;
  };
  t.equal(readBy(periods(700, 1), 701), 0, 'one new item: not at all');
  t.equal(readBy(periods(0, 701), 701), array.length, 'the whole list again with one more');
  t.equal(readBy(periods(5_000, 100), 800), array.length, 'nothing but new ones');
  t.equal(readBy(JSON.stringify(Array(700).fill(1)), 1_400), array.length, 'items without a string');
  const long = periods(0, 2_000);
  read = 0;
  const longer = appendNewItems(long, periods(1_000, 2_000));
  t.equal(read, 0, 'an array that takes long to parse: not at all');
  t.equal(itemsOf(longer).length, 3_000);
});

t.test('items of a long array that differ only in white space are equal [JSON-ITEMS-1]', async (t) => {
  const filler = `"${'x'.repeat(70_000)}"`;
  const table: [array: string, more: string, fresh: string][] = [
    ['{"at":"1","v":1}', '[ { "at" :"1",\n"v":1 } ]', ''],
    ['{ "at": "1" }', '[{"at":"1"}]', ''],
    ['{"at":"a b"}', '[{"at":"a  b"},{"at":"ab"}]', ',{"at":"a  b"},{"at":"ab"}'],
    ['"a\\" b"', '["a\\"  b", "a\\" b"]', ',"a\\"  b"'],
    ['"\\\\" , 2', '[2 ,3, "\\\\","4,5]"]', ',3,"4,5]"'],
    ['[1,[2]],{}', '[[1, [2]],[1,[2],3],{},[{}]]', ',[1,[2],3],[{}]'],
    ['1,2', '[]', ''],
    [
      `[${'1,'.repeat(10_000)}1]`,
      `[[${'1 , '.repeat(10_000)}1],[${'1, '.repeat(10_000)}2]]`,
      `,[${'1, '.repeat(10_000)}2]`,
    ],
    ['1.0', '[1,1.0]', ',1'],
  ];
  for (const [array, more, fresh] of table) {
    const long = `[${filler},${array}]`;
    const title = `${array} + ${more}`.slice(0, 80);
    t.equal(appendNewItems(long, more).slice(filler.length + 2), `${array}${fresh}]`, title);
  }
  t.equal(appendNewItems('[]', `[${filler}, 1]`), `[${filler}, 1]`);
});

t.test('white space between the tokens of a long array changes nothing [JSON-ITEMS-1, OBJECT-2]', async () => {
  const compact = (text: string) => JSON.stringify(parse(text));
  const filler = `"${'x'.repeat(70_000)}"`;
  const behind = (array: string) => (array === '[]' ? `[${filler}]` : `[${filler},${array.slice(1)}`);
  /** The same text with blanks between its marks. */
  const spaced = (text: string, blanks: string) =>
    text.replaceAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]/g, (mark) => `${blanks}${mark}${blanks}`);
  fc.assert(
    fc.property(anArray, anArray, space, space, (array, more, blanks, others) => {
      const [short, added] = [compact(array), compact(more)];
      const expected = behind(appendNewItems(short, added));
      const result = appendNewItems(spaced(behind(short), blanks), spaced(added, others));
      return appendNewItems(behind(short), added) === expected && compact(result) === expected;
    }),
    runs,
  );
});

t.test('appending a long list to a short one skips the items that are already there [JSON-ITEMS-1]', async (t) => {
  const more = Array.from({ length: 20_000 }, (_, n) => n);
  t.strictSame(itemsOf(appendNewItems('[7, 5 ]', JSON.stringify(more))), [
    7,
    5,
    ...more.filter((n) => n !== 7 && n !== 5),
  ]);
});
