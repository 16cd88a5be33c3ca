/** Paths that no route takes. */
import { shownPath } from '../../src/ocpi/unknown-path.ts';
import { growthMax, growthOf } from '../support/growth.ts';
import { t } from '../support/tap.ts';

t.test('a report shows no uid that was looked up, and a long path costs no more than its length', async (t) => {
  for (const [path, shown] of [
    ['/ocpi/2.2.1/tokens/ABC/authorize', '/ocpi/2.2.1/tokens/:uid/authorize'],
    ['/ocpi/2.2.1/tokens/NL/TNM/ABC/authorize//', '/ocpi/2.2.1/tokens/NL/TNM/:uid/authorize//'],
    ['/ocpi/2.2.1/tokens/ABC/authorized', '/ocpi/2.2.1/tokens/ABC/authorized'],
    ['/ocpi/2.2.1/authorize/x', '/ocpi/2.2.1/authorize/x'],
  ] as const)
    t.equal(shownPath(path), shown);
  for (const text of [
    (length: number) => 'a'.repeat(length),
    (length: number) => 'a/authorize//'.repeat(length / 13),
  ]) {
    const growth = growthOf((length) => `/ocpi/2.2.1/${text(length)}`, shownPath);
    t.ok(growth < growthMax, `${growth} times`);
  }
});
