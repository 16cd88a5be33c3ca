/** A text that is parsed in pieces, against `JSON.parse` of the whole. */
import { isDeepStrictEqual } from 'node:util';
import { HubError } from '../../src/domain/errors.ts';
import { atOnce } from '../../src/domain/json-text.ts';
import { readingJson } from '../../src/transport/body.ts';
import { depthMax, pieceBytes } from '../../src/transport/json-form.ts';
import { aValue, space } from '../support/json-written.ts';
import { fc } from '../support/property.ts';
import { isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

const runs = { numRuns: isAtLength ? 5_000 : 250 };

const wholeOf = (text: string): unknown => {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return 'notJson';
  }
};

const inPieces = (text: string, pieceMax: number): unknown => {
  try {
    const { value } = atOnce(readingJson(Buffer.from(text), pieceMax));
    return { value };
  } catch (error) {
    if (error instanceof HubError) return error.code;
    throw error;
  }
};

/** The order of names counts, too. */
const isSame = (text: string, pieceMax: number): boolean => {
  const [whole, pieces] = [wholeOf(text), inPieces(text, pieceMax)];
  return isDeepStrictEqual(pieces, whole) && JSON.stringify(pieces) === JSON.stringify(whole);
};

const aPieceMax = fc.integer({ min: 1, max: 30 });
const aText = fc.tuple(space, aValue, space).map((parts) => parts.join(''));

t.test('a text in pieces has the value of the whole [JSON-FORM-1]', async () => {
  fc.assert(
    fc.property(aText, aPieceMax, (text, pieceMax) => isSame(text, pieceMax)),
    runs,
  );
});

t.test('a text with a few marks more, fewer or others is refused when the whole is [JSON-FORM-1]', async () => {
  const aMark = fc.constantFrom(
    '',
    ',',
    ':',
    '[',
    ']',
    '{',
    '}',
    '"',
    '\\',
    ' ',
    '0',
    'null',
    '\n',
    '\u0001',
    '[]',
    '{}',
    'é',
  );
  const aChange = fc.record({ at: fc.nat(), gone: fc.nat({ max: 2 }), mark: aMark });
  const bent = (text: string, changes: readonly { at: number; gone: number; mark: string }[]) =>
    changes.reduce((now, { at, gone, mark }) => {
      const place = at % (now.length + 1);
      return now.slice(0, place) + mark + now.slice(place + gone);
    }, text);
  fc.assert(
    fc.property(aText, fc.array(aChange, { minLength: 1, maxLength: 3 }), aPieceMax, (text, changes, pieceMax) => {
      const changed = Buffer.from(bent(text, changes)).toString();
      return isSame(changed, pieceMax);
    }),
    { ...runs, numRuns: runs.numRuns * 2 },
  );
});

t.test('each text of a few marks [JSON-FORM-1]', async (t) => {
  const marks = ['[', ']', '{', '}', ',', '"a":', '1', '"bcd"', ' '];
  const longest = isAtLength ? 6 : 4;
  let texts = [''];
  const wrong: string[] = [];
  for (let length = 1; length <= longest; length++) {
    texts = texts.flatMap((text) => marks.map((mark) => text + mark));
    for (const text of texts) {
      const whole = JSON.stringify(wholeOf(text));
      for (const pieceMax of isAtLength ? [1, 2, 4] : [1])
        if (JSON.stringify(inPieces(text, pieceMax)) !== whole) wrong.push(text);
    }
  }
  t.strictSame(wrong, []);
});

t.test('what is cut at every level, and long strings [JSON-FORM-1, JSON-FORM-2]', async (t) => {
  const long = 'x'.repeat(100);
  const items = (count: number) => Array.from({ length: count }, (_, n) => `{"n":${n}}`).join(',');
  const texts = [
    `{"a":[${items(50)}],"b":{"c":[${items(50)}],"1":${JSON.stringify(long)}},"0":[]}`,
    `{"a":1,"a":[${items(50)}],"a":2}`,
    `{"a":1,"b":2,"a":[${items(50)}]}`,
    `{"__proto__":[${items(50)}],"__proto__":${JSON.stringify(long)}}`,
    `["${long}","${long}\\n","${long}\u0001"]`,
    `["${long}" "${long}"]`,
    `[[${items(50)}][${items(50)}]]`,
    `[[${items(50)}],]`,
    `[[${items(50)}]},1]`,
    `{"${long}":"${long}"}`,
    `{"${long}"}`,
    `["${long}":1]`,
    `["é${long}",[${items(50)}],"é"]`,
    `"${long}"`,
    `["${long}`,
    `[1[${items(50)}]]`,
    `{"a":1[${items(50)}]}`,
    `{"a":-[${items(50)}]}`,
    `[${items(50)}][${items(50)}]`,
    `[${items(50)}] x`,
    `x [${items(50)}]`,
    `${'['.repeat(depthMax - 1)}${items(50)}${']'.repeat(depthMax - 1)}`,
  ];
  for (const text of texts)
    for (const pieceMax of [1, 7, 20, 64, 99, 100, 101])
      t.ok(isSame(text, pieceMax), `${text.slice(0, 60)}… ${pieceMax}`);
});

t.test(
  'a piece of a long text is no longer than others, and a string of it takes no memory [JSON-FORM-2]',
  async (t) => {
    const { parse } = JSON;
    const lengths: number[] = [];
    t.teardown(() => {
      JSON.parse = parse;
    });
    const body = {
      padding: 'x'.repeat(1_000_000),
      list: Array(60_000).fill(0),
      last: { list: Array(30_000).fill([1]) },
    };
    const text = JSON.stringify(body);
    JSON.parse = (piece: string) => {
      lengths.push(piece.length);
      return parse(piece) as unknown;
    };
    const { value } = atOnce(readingJson(Buffer.from(text)));
    JSON.parse = parse;
    t.ok(isDeepStrictEqual(value, body));
    t.ok(
      Math.max(...lengths) < pieceBytes + 100,
      `${lengths.length} pieces of at most ${Math.max(...lengths)} characters`,
    );
  },
);
