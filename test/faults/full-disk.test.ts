/** A disk that is full at the first, second, … fortieth commit, under one hub that is never restarted. */
import { t } from '../support/tap.ts';
import { fullDisk } from './full-disk.ts';
import { shown } from './shown.ts';

t.test('a disk full at 40 commits: nothing lost, and it takes writes again without a restart', async (t) => {
  const outcome = await shown(t, fullDisk, 40);
  if (outcome) t.equal(outcome.duplicated, 0, 'nothing came twice');
  if (outcome) t.ok((outcome.figures.refused ?? 0) >= outcome.done, `${outcome.figures.refused} pushes were refused`);
});
