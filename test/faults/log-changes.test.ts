/** Power cuts between a change of the engine's log and the sync of the closed one; the campaign makes more of them. */
import { t } from '../support/tap.ts';
import { logChanges } from './log-changes.ts';
import { shown } from './shown.ts';

t.test(
  '12 power cuts at changes of the log: no delivery is forgotten, no store is quarantined, half of it while trims run',
  async (t) => {
    const outcome = await shown(t, logChanges, 12);
    if (outcome === null) return;
    const { changes = 0, late = 0 } = outcome.figures;
    t.ok(changes > 0, `the engine changed its log ${changes} times with something unsynced in the closed one`);
    t.ok(late > 0, `${late} cuts came when something in the next log was on the disk`);
  },
);
