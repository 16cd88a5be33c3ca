/** JSON as text, with white space, escapes and duplicate keys wherever JSON allows them: arbitraries of fast-check. */
import { fc } from './property.ts';

export const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\r', '\t'), maxLength: 2 });
const escaped = (text: string) =>
  `"${[...text].map((c) => `\\u${`000${c.charCodeAt(0).toString(16)}`.slice(-4)}`).join('')}"`;
const aString = fc.oneof(
  fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
  fc
    .string({ unit: fc.constantFrom('"', '\\', '{', '}', '[', ']', ',', ':', ' ', '\n') })
    .map((s) => JSON.stringify(s)),
  fc.string({ unit: 'grapheme-ascii', maxLength: 4 }).map(escaped),
);
export const keyNames = ['a', 'b', 'l', 'id', '', '__proto__', 'é', 'a"b', '\\'];
const aKey = fc.oneof(
  fc.constantFrom(...keyNames).map((key) => JSON.stringify(key)),
  fc.constant(escaped('id')),
);
export const aLeaf = fc.oneof(
  fc.constantFrom('1.10', '1E5', '-0', '0.000', '12345678901234567890', '1e-7', 'true', 'false', 'null', '""'),
  aString,
);
export const { anObject, anArray, aValue } = fc.letrec<{ aValue: string; anObject: string; anArray: string }>(
  (tie) => ({
    aValue: fc.oneof({ depthSize: 'small', withCrossShrink: true }, aLeaf, tie('anObject'), tie('anArray')),
    anObject: fc
      .tuple(space, fc.array(fc.tuple(space, aKey, space, space, tie('aValue'), space), { maxLength: 6 }))
      .map(([empty, fields]) => {
        const texts = fields.map(
          ([before, key, colon, after, value, end]) => `${before}${key}${colon}:${after}${value}${end}`,
        );
        return `{${texts.join(',') || empty}}`;
      }),
    anArray: fc
      .tuple(space, fc.array(fc.tuple(space, tie('aValue'), space), { maxLength: 5 }))
      .map(([empty, list]) => `[${list.map((parts) => parts.join('')).join(',') || empty}]`),
  }),
);
