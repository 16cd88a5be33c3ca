/** 285 power cuts at moments all over the work of a store, from a trace of its system calls. */
import { t } from '../support/tap.ts';
import { cuts } from './cuts.ts';
import { shown } from './shown.ts';

t.test(
  '285 power cuts: every acknowledged commit is there, the log has no hole, no delivery is forgotten',
  async (t) => {
    const outcome = await shown(t, cuts, 285);
    if (outcome)
      t.ok(
        (outcome.figures.commitsTold ?? 0) > outcome.done,
        `${outcome.figures.commitsTold} commits were acknowledged`,
      );
  },
);
