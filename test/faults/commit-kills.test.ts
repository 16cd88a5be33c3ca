/** 60 kills at named points of the store: before and after a commit or settle, in verification, in rebuilding. */
import { t } from '../support/tap.ts';
import { commitKills } from './points.ts';
import { shownKills } from './shown.ts';

t.test('60 kills at commits: nothing lost, nothing reordered, nothing twice but what was in flight', (t) =>
  shownKills(t, commitKills, 60),
);
