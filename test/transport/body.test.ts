/** What is refused before a body is a JSON value. */
import { excessOf, readJson } from '../../src/transport/body.ts';
import { depthMax, membersMax, valuesMax } from '../../src/transport/json-form.ts';
import { t } from '../support/tap.ts';

const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
const bytes = (text: string) => Buffer.from(text, 'utf8');
/** Whether objects and arrays are nested more than two levels deep. */
const isDeep = (text: string) => excessOf('['.repeat(depthMax - 2) + text + ']'.repeat(depthMax - 2)) !== null;

t.test('64 levels pass, 65 are too deep [D38, D49]', async (t) => {
  t.equal(readJson(bytes(nested(depthMax))).text, nested(depthMax));
  t.throws(() => readJson(bytes(nested(depthMax + 1))), { code: 'tooDeep' });
  t.throws(() => readJson(bytes(`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`)), { code: 'tooDeep' });
  t.throws(() => readJson(bytes(nested(1_000_000))), { code: 'tooDeep' });
});

t.test(
  'a body has at most a value for every eight bytes and 20,000 more; commas in strings do not count [BODY-4]',
  async (t) => {
    /** Zeros, and a string that fills the body. */
    const filled = (zeros: number, length: number) => {
      const list = `[${'0,'.repeat(zeros)}"`;
      return bytes(`${list}${'x'.repeat(length - list.length - 2)}"]`);
    };
    for (const length of [100_000, 1_000_000]) {
      const most = valuesMax(length) - 2; // The list and the string are values, too.
      t.equal(filled(most, length).length, length);
      t.doesNotThrow(() => readJson(filled(most, length)), `${most} zeros in ${length} bytes`);
      t.throws(() => readJson(filled(most + 1, length)), { code: 'tooLarge' }, 'and one more');
    }
    const deep = (count: number) => bytes(`[${Array(count).fill(nested(60)).join(',')}]`);
    t.throws(() => readJson(deep(500)), { code: 'tooLarge' }, 'with few commas');
    t.doesNotThrow(() => readJson(bytes(JSON.stringify([','.repeat(500_000)]))));
  },
);

t.test('one object has at most 2,000 members, whatever the total [BODY-4]', async (t) => {
  const object = (names: number) => `{${Array.from({ length: names }, (_, n) => `"_${n}":[0,{"a":0}]`).join(',')}}`;
  t.doesNotThrow(() => readJson(bytes(object(membersMax))));
  t.doesNotThrow(() => readJson(bytes(`[{"a":[${object(membersMax)},{"b":${object(membersMax)}}]},1,2]`)));
  t.doesNotThrow(() => readJson(bytes(JSON.stringify(Array(3 * membersMax).fill('zero')))), 'an array has more');
  for (const text of [object(membersMax + 1), `[{"a":[{},${object(membersMax + 1)}]}]`]) {
    t.throws(() => readJson(bytes(text)), { code: 'tooLarge' });
    t.match(excessOf(text), /^has an object of too many members: 2000 at most$/, 'nor in an answer');
  }
});

t.test('commas outside of every object are members of none, of however many texts [BODY-4]', async (t) => {
  const page = `<p>${','.repeat(membersMax * 2)}</p>`;
  t.throws(() => readJson(bytes(page)), { code: 'notJson' });
  t.equal(excessOf(page), null);
  t.throws(() => readJson(bytes('1,2')), { code: 'notJson' }, 'nor those of a text before');
});

t.test('a string of any length ends at its quote, whatever precedes it [D38, D49]', async (t) => {
  const runs = ['"'.repeat(150), '\\'.repeat(151), '\\"'.repeat(99)];
  const tails = ['', '\\', '"', '\\"', '"\\', '[[', '\\\\"[[', '"[[', ...runs];
  for (const tail of tails) {
    for (let length = 58; length < 70; length++) {
      const text = JSON.stringify([`${'x'.repeat(length)}${tail}`.repeat(3), [1]]);
      t.equal(isDeep(text), false, text);
      t.equal(isDeep(text.replace('[1]', '[[1]]')), true, text);
    }
  }
});

t.test('depth counts open brackets, never those in strings [D38]', async (t) => {
  const rows: [text: string, deeperThanTwo: boolean][] = [
    ['[[1],[2],[3],[4]]', false],
    ['[[{}]]', true],
    ['{"a":{"b":1}}', false],
    ['{"a":{"b":[]}}', true],
    ['["[[[[{{{{"]', false],
    ['["\\"[[[[", "\\\\", "]]"]', false],
    ['["\\\\", [[1]]]', true],
  ];
  for (const [text, deeper] of rows) {
    JSON.parse(text);
    t.equal(isDeep(text), deeper, text);
  }
});

t.test('bytes that are not UTF-8 and text that is not JSON are refused [D2, D49]', async (t) => {
  t.throws(() => readJson(Buffer.from([0x22, 0xff, 0x22])), { code: 'notJson', message: 'Body is not valid UTF-8' });
  t.throws(() => readJson(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])), { code: 'notJson' }, 'a surrogate by itself');
  for (const text of ['', ' ', '{', '{"a":1,}', "{'a':1}", 'undefined', '"open', '{"a":1}x', '\ufeff']) {
    t.throws(() => readJson(bytes(text)), { code: 'notJson' }, JSON.stringify(text));
  }
});

t.test('a byte order mark is removed and reported [D71]', async (t) => {
  t.match(readJson(bytes('\ufeff{"a":1}')), { text: '{"a":1}', value: { a: 1 }, hasMark: true });
  t.equal(readJson(bytes('{}')).hasMark, false);
});

t.test('the text is kept as received, and names of prototypes are ordinary fields [D17]', async (t) => {
  const text = '{ "kwh": 1.50, "__proto__": {"polluted": true}, "constructor": null, "name": "Zürich \\u00e9" }';
  const body = readJson(bytes(text));
  t.equal(body.text, text);
  t.ok(Object.hasOwn(body.value as object, '__proto__'));
  t.notOk('polluted' in {});
});

t.test('the names of the outermost object are counted in any notation', async (t) => {
  const rows: [text: string, names: number][] = [
    ['{"a":1}', 1],
    ['{"a":1,"a":2}', 2],
    ['{"a":{"b":1,"c":[1,2]},"d":[[],{}]}', 2],
    ['{"a,b":",\\",","c":"{,}"}', 2],
    [' { "é,": "😀," , "b" : [ 1 , 2 ] } ', 2],
  ];
  for (const [text, names] of rows) t.equal(readJson(bytes(text)).names, names, text);
});
