/**
 * Every part of the faults: as many as stand here at length (`TEST_SHARE=1`), else a slice in which each kind of fault comes once, but those
 * that are left to the campaign, which makes thousands.
 */
import { join } from 'node:path';
import { directoryFor } from '../support/directory.ts';
import { atLength, partOf } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { cuts } from './cuts.ts';
import { ext4Cuts } from './ext4/ext4-cuts.ts';
import { fullDisk } from './full-disk.ts';
import { hubCuts } from './hub-cuts.ts';
import { kills, killsAt, sendKills, sendMoments, whileStarting } from './kills.ts';
import { logChanges } from './log-changes.ts';
import { type Filled, type Filling, type Outcome, type Part, summary } from './part.ts';
import { commitKills, pointMoments } from './points.ts';
import { seeded } from './random.ts';
import { filled, rot } from './rot.ts';
import { storeRot } from './rot-store.ts';
import { upkeepKills } from './upkeep.ts';

// At length minutes on an idle machine, more on one that runs other tests beside it.
t.setTimeout(3_600_000);

/**
 * One seed for every run of the tests, so that a red one tells of the change before it (as far as processes and disks repeat
 * themselves); the campaign tries others.
 */
const seed = Number(process.env.FAULTS_SEED ?? 55_018);

/** What must hold of a part besides, by what a report says of it. */
type Checks = (outcome: Outcome) => Readonly<Record<string, boolean>>;

/** Of kills and cuts of a hub: what came twice was in flight, and there was load. */
const underLoad: Checks = ({ done, duplicated, figures: { inFlight = 0, acknowledged = 0 } }) => ({
  [`${duplicated} came twice, ${inFlight} were in flight`]: duplicated <= inFlight,
  [`there was load: ${acknowledged} pushes acknowledged`]: acknowledged > 5 * done,
});

const upkeep: Checks = (outcome) => ({
  ...underLoad(outcome),
  [`${outcome.figures.missed} came before their point, as kills at random`]:
    (outcome.figures.missed ?? 0) <= outcome.done / 3,
});

const told: Checks = ({ done, figures: { commitsTold = 0 } }) => ({
  [`${commitsTold} commits were acknowledged`]: commitsTold > done,
});

const inTheWindow: Checks = ({ figures: { changes = 0, late = 0 } }) => ({
  [`the engine changed its log ${changes} times with something unsynced in the closed one`]: changes > 0,
  [`${late} cuts came when something in the next log was on the disk`]: late > 0,
});

const neverWrong: Checks = ({ figures: { wrongAnswers } }) => ({ 'no answer was wrong': wrongAnswers === 0 });

const refused: Checks = ({ done, duplicated, figures: { refused = 0 } }) => ({
  'nothing came twice': duplicated === 0,
  [`${refused} pushes were refused`]: refused >= done,
});

/** What a slice makes of all kills: worlds cost more than kills. The first hub of a world is killed at random under load. */
const everyKill = killsAt('kills of every kind', [whileStarting, ...sendMoments, ...pointMoments], { requestsMax: 30 });

interface Promised {
  readonly part: Part;
  /** How many at length. */
  readonly all: number;
  readonly checks: Checks;
  readonly title: string;
  /** Left to the campaign. */
  readonly isLong?: true;
}

const promises: readonly Promised[] = [
  {
    part: everyKill,
    all: everyKill.kinds,
    checks: underLoad,
    title:
      'kills from the start to the end of a delivery in one world: nothing lost, nothing reordered, nothing twice but what was in flight',
  },
  {
    part: kills,
    all: 100,
    checks: underLoad,
    title: 'kills at random: nothing lost, nothing reordered, nothing twice but what was in flight',
    isLong: true,
  },
  {
    part: sendKills,
    all: 80,
    checks: underLoad,
    title: 'kills after a send: nothing lost, nothing reordered, nothing twice but what was in flight',
    isLong: true,
  },
  {
    part: commitKills,
    all: 60,
    checks: underLoad,
    title: 'kills at commits: nothing lost, nothing reordered, nothing twice but what was in flight',
    isLong: true,
  },
  {
    part: upkeepKills,
    all: 30,
    checks: upkeep,
    title: 'kills at upkeep: nothing lost, nothing reordered, nothing twice but what was in flight',
    isLong: true,
  },
  {
    part: cuts,
    all: 285,
    checks: told,
    title: 'power cuts: every acknowledged commit is there, the log has no hole, no delivery is forgotten',
  },
  {
    part: logChanges,
    all: 12,
    checks: inTheWindow,
    title: 'power cuts at changes of the log: no delivery is forgotten, no store is quarantined, be it while trims run',
    isLong: true,
  },
  {
    part: ext4Cuts,
    all: 220,
    checks: told,
    title:
      'power cuts on ext4: nothing that was told is lost, no delivery is forgotten, no store is quarantined, backups and restores are whole or absent',
    isLong: true,
  },
  {
    part: hubCuts,
    all: 15,
    checks: underLoad,
    title: 'power cuts of a hub: nothing lost, nothing reordered, nothing twice but what was not noted yet',
    isLong: true,
  },
  {
    part: storeRot,
    all: 270,
    checks: neverWrong,
    title: 'corruptions of the store: refused, quarantined, mended or harmless, and never wrong data',
  },
  {
    part: rot,
    all: 30,
    checks: neverWrong,
    title: 'corruptions under a hub: refused, quarantined, mended or harmless, and never a wrong answer',
    isLong: true,
  },
  {
    part: fullDisk,
    all: 40,
    checks: refused,
    title: 'a disk full at a commit: nothing lost, and it takes writes again without a restart',
  },
];

let first: Promise<Filled> | undefined;
t.teardown(async () => (await first?.catch(() => undefined))?.world.close());
/** The first that was filled, for all: what differs is how it is spoilt. */
const filling: Filling = async (filledBy, corruptions, use) => {
  first ??= filled(join(directoryFor(t), 'data'), seeded(filledBy), corruptions);
  return use(await first);
};

for (const { part, all, checks, title, isLong } of promises) {
  t.test(title, isLong ? atLength : {}, async (t) => {
    const reason = part.unable?.() ?? null;
    if (reason !== null) return void t.plan(0, `${part.name}: not run: ${reason}`);
    const count = Math.max(partOf(all), part.kinds);
    t.comment(`${part.name}: ${count} of ${all}, seed ${seed}`);
    const outcome = await part.run({ seed, count, filling }, () => {});
    t.comment(summary(outcome));
    t.strictSame(outcome.findings.slice(0, 20), [], `findings of seed ${seed}`);
    const { done, lost, reordered, unexplained, forgotten } = outcome;
    const none = { lost: 0, reordered: 0, unexplained: 0, forgotten: 0 };
    t.strictSame({ done, lost, reordered, unexplained, forgotten }, { done: count, ...none });
    for (const [what, holds] of Object.entries(checks(outcome))) t.ok(holds, what);
  });
}
