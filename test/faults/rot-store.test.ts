/** 270 corruptions of a store, each opened and read from end to end. */
import { t } from '../support/tap.ts';
import { storeRot } from './rot-store.ts';
import { shown } from './shown.ts';

t.test('270 corruptions of the store: refused, quarantined, mended or harmless, and never wrong data', async (t) => {
  const outcome = await shown(t, storeRot, 270);
  t.equal(outcome?.figures.wrongAnswers, 0);
});
