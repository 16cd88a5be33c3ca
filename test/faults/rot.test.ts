/** 30 corruptions of a whole data directory, each with a hub started on it and everything read over HTTP. */
import { t } from '../support/tap.ts';
import { rot } from './rot.ts';
import { shown } from './shown.ts';

t.test('30 corruptions under a hub: refused, quarantined, mended or harmless, and never a wrong answer', async (t) => {
  const outcome = await shown(t, rot, 30);
  t.equal(outcome?.figures.wrongAnswers, 0);
});
