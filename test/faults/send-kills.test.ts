/** 80 kills when a receiver has a call that it has not answered: sent, and its end not recorded. */
import { t } from '../support/tap.ts';
import { sendKills } from './kills.ts';
import { shownKills } from './shown.ts';

t.test('80 kills after a send: nothing lost, nothing reordered, nothing twice but what was in flight', (t) =>
  shownKills(t, sendKills, 80),
);
