/** 100 kills at random moments: under load, and while the hub starts. */
import { t } from '../support/tap.ts';
import { kills } from './kills.ts';
import { shownKills } from './shown.ts';

t.test('100 kills at random: nothing lost, nothing reordered, nothing twice but what was in flight', (t) =>
  shownKills(t, kills, 100),
);
