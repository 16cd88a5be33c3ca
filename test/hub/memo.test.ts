/** A memo answers as its function does, whatever it keeps; it keeps a bounded number of short texts, as a map its newest. */
import { keepNewest, memoized } from '../../src/kit/memo.ts';
import { t } from '../support/tap.ts';

t.test('a text is computed once, null included; a long text, or one that throws, each time', async (t) => {
  const worked: string[] = [];
  const memo = memoized((text) => {
    worked.push(text);
    if (text === 'bad') throw new Error('bad');
    return text === '' ? null : { text };
  });
  t.equal(memo('a'), memo('a'), 'the same object');
  t.equal(memo(''), null);
  t.equal(memo(''), null);
  for (const _ of [1, 2]) t.throws(() => memo('bad'), { message: 'bad' });
  const long = 'x'.repeat(1000);
  for (const _ of [1, 2]) t.match(memo(long), { text: long });
  t.strictSame(worked, ['a', '', 'bad', 'bad', long, long]);
});

t.test('[MEMO-1] a full memo forgets, and learns again', async (t) => {
  let worked = 0;
  const memo = memoized(() => ++worked);
  const texts = Array.from({ length: 50_000 }, (_, n) => `${n}`);
  for (const text of texts) memo(text);
  memo('49999');
  t.equal(worked, texts.length, 'the last is kept');
  memo('0');
  t.equal(worked, texts.length + 1, 'the first is not');
});

t.test('[MEMO-2] a map keeps the newest entries, and a key that is set again is new', async (t) => {
  const map = new Map<string, number>();
  for (const [n, key] of ['a', 'b', 'c', 'a', 'd'].entries()) keepNewest(map, key, n, 3);
  t.strictSame(
    [...map],
    [
      ['c', 2],
      ['a', 3],
      ['d', 4],
    ],
  );
});
