/** Splicing JSON text against a naive model: parse, change, and look at every byte that should not have moved. */

import { isDeepStrictEqual } from 'node:util';
import {
  ambiguousName,
  appendItems,
  findItem,
  isUnambiguous,
  items,
  members,
  membersInPieces,
  pieceMax,
  setMembers,
  slice,
  splice,
  upsertItem,
} from '../../src/domain/json-text.ts';
import { aLeaf, anArray, anObject, aValue, keyNames, space } from '../support/json-written.ts';
import { fc } from '../support/property.ts';
import { isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

const fieldsOf = (text: string): Record<string, string> =>
  Object.fromEntries([...members(text)].map(([key, span]) => [key, slice(text, span)]));
const itemsOf = (text: string): string[] =>
  items(text, { start: 0, end: text.length }).map((span) => slice(text, span));

t.test('a string of any length ends at its quote, whatever precedes it [D17]', async (t) => {
  const runs = ['"'.repeat(150), '\\'.repeat(151), '\\"'.repeat(99)];
  for (const tail of ['', '\\', '"', '\\"', '"\\', '\\\\"}', '",', '{[', ...runs]) {
    for (let length = 58; length < 70; length++) {
      const long = `${'x'.repeat(length)}${tail}`.repeat(3);
      const text = JSON.stringify({ a: long, [long]: { b: long }, c: 1 });
      const [a, own, c] = [JSON.stringify(long), JSON.stringify({ b: long }), '1'];
      t.strictSame(fieldsOf(text), { a, [long]: own, c }, text);
    }
  }
});

t.test('the own fields of an object are found as their original text [D17]', async (t) => {
  const table: [string, string, Record<string, string>][] = [
    ['an empty object', '{}', {}],
    ['white space alone', ' \t\r\n{ \n }\n', {}],
    ['white space around every mark', '\n{ "a"\t:\r\n 1 , "b" :[ 2 ]\n}\n', { a: '1', b: '[ 2 ]' }],
    [
      'numbers keep their text',
      '{"a":1.10,"b":1E5,"c":-0,"d":12345678901234567890}',
      {
        ...{ a: '1.10', b: '1E5' },
        ...{ c: '-0', d: '12345678901234567890' },
      },
    ],
    ['words', '{"a":true,"b":false ,"c":null}', { a: 'true', b: 'false', c: 'null' }],
    ['empty values', '{"a":"","b":{},"c":[],"":0}', { a: '""', b: '{}', c: '[]', '': '0' }],
    ['marks inside strings are text', '{"a":"},{\\"b\\":[1]","c":":"}', { a: '"},{\\"b\\":[1]"', c: '":"' }],
    [
      'a backslash before the closing quote',
      '{"a":"\\\\","b":"\\\\\\"","c":1}',
      {
        ...{ a: '"\\\\"', b: '"\\\\\\""' },
        c: '1',
      },
    ],
    ['an escaped key is the key it spells', '{"\\u0061\\n":1}', { 'a\n': '1' }],
    ['unicode, plain and escaped', '{"é":"😀","x":"\\ud83d\\ude00"}', { é: '"😀"', x: '"\\ud83d\\ude00"' }],
    [
      'fields of nested objects are not its own',
      '{"a":{"b":{"c":1},"d":[{"e":2}]},"f":3}',
      {
        ...{ a: '{"b":{"c":1},"d":[{"e":2}]}' },
        f: '3',
      },
    ],
    ['of duplicates the last one counts [J2]', '{"a":1,"b":2,"a":3}', { a: '3', b: '2' }],
    ['what is no object has no fields', '["a","b"]', {}],
    ['nor has a string that looks like one', '"\\"a\\":1"', {}],
    ['nor an empty string', '""', {}],
  ];
  for (const [title, text, expected] of table) t.strictSame(fieldsOf(text), expected, title);
  t.ok(members('{"__proto__":1}').has('__proto__'), 'no key is magic');
});

t.test('the items of an array are found as their original text [D17]', async (t) => {
  const table: [string, string[]][] = [
    ['[]', []],
    ['[ \n ]', []],
    ['[1.10]', ['1.10']],
    ['[ 1 ,\t"a,]" , [ 2,3 ] ,{"b":[4]}, null\n]', ['1', '"a,]"', '[ 2,3 ]', '{"b":[4]}', 'null']],
    ['[[],[[]],{}]', ['[]', '[[]]', '{}']],
    ['["","\\""]', ['""', '"\\""']],
  ];
  for (const [text, expected] of table) t.strictSame(itemsOf(text), expected, text);
});

t.test('a field is replaced in place, a new one appended, and nothing else moves [D17]', async (t) => {
  const table: [string, string, Record<string, string>, string][] = [
    ['nothing to set', '{ "a" : 1.10 }', {}, '{ "a" : 1.10 }'],
    ['a field in place', '{ "a" : 1.10 , "b":2 }', { a: '1E5' }, '{ "a" : 1E5 , "b":2 }'],
    ['several, whatever their order', '{"a":1,"b":2,"c":3}', { c: '30', a: '10' }, '{"a":10,"b":2,"c":30}'],
    ['a new one', '{"a":1 }\n', { b: '2' }, '{"a":1 ,"b":2}\n'],
    ['new ones in an empty object', '{ }', { a: '1', b: '2' }, '{ "a":1,"b":2}'],
    ['a key that must be escaped', '{}', { 'a"\n': '1' }, '{"a\\"\\n":1}'],
    ['both at once', '{"a":{"z":"}"}}', { b: '"}"', a: '0' }, '{"a":0,"b":"}"}'],
    ['the duplicate that counts [J2]', '{"a":1,"a":2}', { a: '3' }, '{"a":1,"a":3}'],
    ['a field of the same name further in stays', '{"x":{"a":1},"a":2}', { a: '3' }, '{"x":{"a":1},"a":3}'],
  ];
  for (const [title, text, values, expected] of table) {
    t.equal(setMembers(text, new Map(Object.entries(values))), expected, title);
  }
});

t.test('items are appended at the end, each with its own text [D19]', async (t) => {
  const table: [string, string, string][] = [
    ['[]', '[]', '[]'],
    ['[ 1.10 ]', '[ ]', '[ 1.10 ]'],
    ['[]', '[1E5]', '[1E5]'],
    ['[ ]', '[1]', '[ 1]'],
    ['[1, 2 ]', '[ 3 ,4]', '[1, 2 , 3 ,4]'],
    ['["]"]', '["[",[5]]', '["]","[",[5]]'],
  ];
  for (const [array, more, expected] of table) t.equal(appendItems(array, more), expected, `${array} + ${more}`);
});

t.test('an item is found by its id in any case, and replaced in place or appended [D12]', async (t) => {
  const item = '{"id":"B","n":1.10}';
  const table: [string, string, string, string | null, string][] = [
    ['found', '{"l":[{"id":"A"}, {"id":"B"} ]}', 'B', '{"id":"B"}', `{"l":[{"id":"A"}, ${item} ]}`],
    ['found in another case', '{"l":[{"n":0,"id":"bX"}]}', 'Bx', '{"n":0,"id":"bX"}', `{"l":[${item}]}`],
    ['found by an escaped id', '{"l":[{"\\u0069d":"\\u0042"}]}', 'b', '{"\\u0069d":"\\u0042"}', `{"l":[${item}]}`],
    ['absent', '{"l":[{"id":"A"} ],"m":1}', 'B', null, `{"l":[{"id":"A"} ,${item}],"m":1}`],
    ['the array is empty', '{"l":[ ]}', 'B', null, `{"l":[ ${item}]}`],
    ['there is no array', '{"m":1}', 'B', null, `{"m":1,"l":[${item}]}`],
    ['null instead of an array', '{"l":null}', 'B', null, `{"l":[${item}]}`],
    ['a number is no id', '{"l":[{"id":1}]}', '1', null, `{"l":[{"id":1},${item}]}`],
    ['an id further in is not its own', '{"l":[{"c":{"id":"B"}}]}', 'B', null, `{"l":[{"c":{"id":"B"}},${item}]}`],
    ['an array is no item', '{"l":[["id","B"]]}', 'B', null, `{"l":[["id","B"],${item}]}`],
    ['an empty string is no item', '{"l":["",\n{"id":"B"}]}', 'B', '{"id":"B"}', `{"l":["",\n${item}]}`],
    ['of duplicate arrays the last [J2]', '{"l":[{"id":"B"}],"l":[]}', 'B', null, `{"l":[{"id":"B"}],"l":[${item}]}`],
  ];
  for (const [title, text, id, found, upserted] of table) {
    const span = findItem(text, 'l', 'id', id);
    t.equal(span && slice(text, span), found, `${title}: found`);
    t.equal(upsertItem(text, 'l', item, span), upserted, `${title}: set`);
  }
});

const anId = fc.constantFrom('A', 'a', 'B', 'b', 'ß', '');
const aDocument = fc.tuple(space, anObject, space).map((parts) => parts.join(''));
const parse = (text: string) => JSON.parse(text) as unknown;
const entriesOf = (text: string) => Object.entries(JSON.parse(text) as Record<string, unknown>);
const withField = fc
  .tuple(aDocument, fc.array(fc.tuple(anId, aDocument, fc.boolean()), { maxLength: 4 }), anArray, space)
  .map(([outer, list, others, gap]) => {
    const named = list.map(([id, text, isItem]) =>
      isItem ? setMembers(text, new Map([['id', JSON.stringify(id)]])) : text,
    );
    return setMembers(outer, new Map([['l', appendItems(`[${gap}${named.join(`${gap},`)}]`, others)]]));
  });
const aListed = fc.oneof(withField, aDocument);
const runs = { numRuns: isAtLength ? 400 : 100 };

t.test('fields and items equal those of JSON.parse for any text', async () => {
  fc.assert(
    fc.property(aDocument, (text) => {
      const found = [...members(text)].map(([key, span]) => [key, slice(text, span)] as const);
      const bare = found.every(([, value]) => value.trim() === value);
      const sorted = (entries: (readonly [string, unknown])[]) => new Map(entries);
      return (
        bare && isDeepStrictEqual(sorted(found.map(([key, value]) => [key, parse(value)])), sorted(entriesOf(text)))
      );
    }),
    runs,
  );
  fc.assert(
    fc.property(anArray, (text) => {
      const found = itemsOf(text);
      return found.every((value) => value.trim() === value) && isDeepStrictEqual(found.map(parse), parse(text));
    }),
    runs,
  );
  fc.assert(
    fc.property(fc.oneof(anArray, aLeaf), (text) => members(text).size === 0),
    runs,
  );
});

t.test('fields of a long text that is read in pieces are those of the text read at once', async (t) => {
  const long = ['[', '"]",{"a":"[\\""},'.repeat(pieceMax / 8), '0]'].join('');
  fc.assert(
    fc.property(anObject, space, fc.nat({ max: 40 }), (object, blanks, shift) => {
      const rest = object.slice(1).trimStart();
      const text = `{"${'k'.repeat(shift)}":${long},"n":{"n":${long}}${blanks}${rest === '}' ? '' : ','}${rest}`;
      const work = membersInPieces(text);
      let pieces = 0;
      for (;;) {
        const { done, value } = work.next();
        if (done) return pieces > 2 && isDeepStrictEqual([...value], [...members(text)]);
        pieces++;
      }
    }),
    { numRuns: 30 },
  );
  t.ok(JSON.parse(`{"a":${long}}`));
});

t.test('setting fields changes no byte of any other field [D17]', async () => {
  const someValues = fc.array(fc.tuple(fc.constantFrom(...keyNames, 'new'), aValue), { maxLength: 4 });
  fc.assert(
    fc.property(aDocument, someValues, (text, pairs) => {
      const values = new Map(pairs);
      const result = setMembers(text, values);
      const model = new Map([...entriesOf(text), ...[...values].map(([key, value]) => [key, parse(value)] as const)]);
      const present = members(text);
      const added = [...values]
        .filter(([key]) => !present.has(key))
        .map(([key, value]) => `${JSON.stringify(key)}:${value}`);
      const close = text.lastIndexOf('}');
      const glue = present.size > 0 && added.length > 0 ? ',' : '';
      const grown = `${text.slice(0, close)}${glue}${added.join(',')}${text.slice(close)}`;
      const touched = [...values.keys()].filter((key) => present.has(key));
      return (
        isDeepStrictEqual(new Map(entriesOf(result)), model) && without(result, touched) === without(grown, touched)
      );
    }),
    runs,
  );
});

/** The text with the values of some fields cut out. */
function without(text: string, keys: readonly string[]): string {
  const spans = [...members(text)].filter(([key]) => keys.includes(key)).map(([, span]) => ({ span, value: '' }));
  return splice(text, spans);
}

t.test('appended items follow the others, and both keep their bytes [D19]', async () => {
  fc.assert(
    fc.property(anArray, anArray, (array, more) => {
      const result = appendItems(array, more);
      const model = [...(parse(array) as unknown[]), ...(parse(more) as unknown[])];
      const kept = itemsOf(more).length === 0 ? result === array : result.endsWith(more.slice(1));
      return isDeepStrictEqual(parse(result), model) && result.startsWith(array.slice(0, -1)) && kept;
    }),
    runs,
  );
});

t.test('an item is found and replaced as in the parsed object, without changing another byte [D12, D17]', async () => {
  const isNamed = (id: string) => (item: unknown) => {
    const own =
      typeof item === 'object' && item !== null && !Array.isArray(item) ? (item as { id?: unknown }).id : null;
    return typeof own === 'string' && own.toLowerCase() === id.toLowerCase();
  };
  fc.assert(
    fc.property(aListed, anId, anObject, (text, id, item) => {
      const model = new Map(entriesOf(text));
      const list = model.get('l');
      const at = Array.isArray(list) ? list.findIndex(isNamed(id)) : -1;
      const span = findItem(text, 'l', 'id', id);
      if ((span !== null) !== at >= 0) return false;
      const result = upsertItem(text, 'l', item, span);
      if (span && Array.isArray(list)) {
        const isIt = isDeepStrictEqual(parse(slice(text, span)), list[at]);
        return isIt && result === text.slice(0, span.start) + item + text.slice(span.end);
      }
      model.set('l', [...(Array.isArray(list) ? list : []), parse(item)]);
      const [before, after] = [members(text).get('l'), members(result).get('l')];
      const isBehind = after !== undefined && slice(result, after).endsWith(`${item}]`);
      const others = before === undefined || without(text, ['l']) === without(result, ['l']);
      return isBehind && others && isDeepStrictEqual(new Map(entriesOf(result)), model);
    }),
    runs,
  );
});

t.test(
  'an object is called unambiguous only when the search of its text finds nothing, and always when its names are plain',
  async (t) => {
    const decisive = new Set(['id', 'status', 'party_id']);
    const name = fc.constantFrom(
      'id',
      'ID',
      'Id',
      '\u0131d',
      'status',
      'ſtatus',
      'party_id',
      'kwh',
      'x-y',
      '__proto__',
      '1',
    );
    const escaped = fc.constantFrom('"\\u0069d"', '"i\\u0064"');
    const written = fc.array(
      fc.oneof(
        name.map((plain) => JSON.stringify(plain)),
        escaped,
      ),
      { minLength: 1, maxLength: 6 },
    );
    const cases: [string, boolean][] = [];
    fc.assert(
      fc.property(written, (names) => {
        const text = `{${names.map((one) => `${one}:{"id":[1,2]}`).join(',')}}`;
        const found = ambiguousName(text, decisive);
        const isSaid = isUnambiguous(JSON.parse(text), names.length, decisive);
        cases.push([text, isSaid]);
        return (
          !(isSaid && found !== null) &&
          (isSaid || found !== null || new Set(names.map((one) => JSON.parse(one))).size < names.length)
        );
      }),
      { numRuns: isAtLength ? 2_000 : 400 },
    );
    t.ok(cases.some(([, isSaid]) => isSaid));
    t.ok(cases.some(([, isSaid]) => !isSaid));
  },
);
