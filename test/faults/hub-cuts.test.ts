/** 15 power cuts of a whole hub under load, judged from outside. */
import { t } from '../support/tap.ts';
import { hubCuts } from './hub-cuts.ts';
import { shownKills } from './shown.ts';

t.test('15 power cuts of a hub: nothing lost, nothing reordered, nothing twice but what was not noted yet', (t) =>
  shownKills(t, hubCuts, 15),
);
