/** Each goal of the campaign under attack, missed by one figure, is told as one sentence, and none is told when all are met. */
import { t } from '../support/tap.ts';
import { figuresOf, missed, percentile, type Under } from './goals.ts';

const mebibyte = 1024 * 1024;
const met: Under = {
  quiet: { authorizationsMs: [...Array.from({ length: 99 }, () => 2), 90] },
  attacked: {
    ...{ paths: 10, authorizationsMs: Array.from({ length: 100 }, () => 10), harm: [], lost: {}, circuits: [] },
    ...{ idle: 100 * mebibyte, peak: 263 * mebibyte },
  },
};

t.test('missed goals of isolation', async (t) => {
  t.strictSame(missed(met), []);
  const rows: readonly (readonly [Partial<Under['attacked']>, RegExp])[] = [
    [{ paths: 0 }, /walked no path/],
    [{ harm: ['PUT /2.2.1/sessions/NL/VCP/V1: 503/3000'] }, /^refused or not answered, 1 times: 1 × PUT /],
    [{ lost: { V1: ['PUT {}'] } }, /V1|in order/],
    [{ circuits: [{ parties: ['NL-VEM'] }] }, /^circuits opened: .*NL-VEM/],
    [{ peak: 264 * mebibyte }, /^memory 264 MiB, more than twice 100 MiB and 64 MiB/],
    [
      { authorizationsMs: Array.from({ length: 100 }, () => 10.1) },
      /p99 of authorize is 10\.1 ms, more than 5 times 2 ms/,
    ],
  ];
  for (const [worse, sentence] of rows) {
    const found = missed({ ...met, attacked: { ...met.attacked, ...worse } });
    t.match([found.length, found[0]], [1, sentence]);
  }
});

t.test('figures of isolation', async (t) => {
  const harm = ['POST a: 503/3000', 'POST b: 504/4003', 'POST c: Headers Timeout Error'];
  const figures = figuresOf({ ...met, attacked: { ...met.attacked, harm } });
  t.match(figures, { refusals: 1, 'time-outs': 2, 'quiet p99 ms': 2, 'p99 ms': 10, 'idle MiB': 100, 'most MiB': 263 });
  t.strictSame([percentile([3, 1, 2], 50), percentile([5], 99)], [2, 5]);
});
