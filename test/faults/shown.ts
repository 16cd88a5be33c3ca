/** A part as a test: what must hold of every one, and its figures in the report. */

import { partOf } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { type Outcome, type Part, summary } from './part.ts';

// Minutes on an idle machine, more on one that runs other tests beside it.
t.setTimeout(900_000);

/**
 * One seed for every run of the tests, so that a red one tells of the change before it (as far as processes and disks repeat
 * themselves); the campaign tries others.
 */
const everyRun = 55_018;

/** Null when it cannot run here, which the report says by name. */
export async function shown(t: Test, part: Part, all: number): Promise<Outcome | null> {
  const count = partOf(all);
  if (count < all) t.comment(`${count} of ${all}: TEST_SHARE`);
  const reason = part.unable?.() ?? null;
  if (reason !== null) {
    t.plan(0, `${part.name}: not run: ${reason}`);
    return null;
  }
  const seed = Number(process.env.FAULTS_SEED ?? everyRun);
  t.comment(`${part.name}: seed ${seed}`);
  const outcome = await part.run({ seed, count }, () => {});
  t.comment(summary(outcome));
  t.strictSame(outcome.findings.slice(0, 20), [], `findings of seed ${seed}`);
  const { done, lost, reordered, unexplained } = outcome;
  t.strictSame({ done, lost, reordered, unexplained }, { done: count, lost: 0, reordered: 0, unexplained: 0 });
  return outcome;
}

/** Of kills and cuts of a hub besides: what came twice was in flight, and there was load. */
export async function shownKills(t: Test, part: Part, all: number): Promise<Outcome | null> {
  const outcome = await shown(t, part, all);
  if (outcome === null) return null;
  const { done: count } = outcome;
  const { inFlight = 0, acknowledged = 0 } = outcome.figures;
  t.ok(outcome.duplicated <= inFlight, `${outcome.duplicated} came twice, ${inFlight} were in flight`);
  t.ok(acknowledged > 5 * count, `there was load: ${acknowledged} pushes acknowledged`);
  return outcome;
}
