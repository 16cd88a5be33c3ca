/** 30 kills while the log is trimmed and while a backup is made, before and after it has its name. */
import { t } from '../support/tap.ts';
import { shownKills } from './shown.ts';
import { upkeepKills } from './upkeep.ts';

t.test('30 kills at upkeep: nothing lost, nothing reordered, nothing twice but what was in flight', async (t) => {
  const { figures, done = 0 } = (await shownKills(t, upkeepKills, 30)) ?? {};
  t.ok((figures?.missed ?? 0) <= done / 3, `${figures?.missed} of them came before their point, as kills at random`);
});
