/**
 * Power cuts behind a change of the engine's log. It closes a full log without a sync, so for a while the end of that log is on no
 * disk, and what was written later is. Every cut is made in that window.
 *
 * TEST-LOG-CHANGES-1  A window begins when a next log is there while a closed one holds what is not synced. It ends with the sync of the closed
 *     log, or with the first sync of a MANIFEST behind its beginning: that one may name the table that holds the same.
 * TEST-LOG-CHANGES-2  No cut comes while a MANIFEST holds what is not synced: LevelDB refuses one whose end is garbled, whatever its logs hold.
 * TEST-LOG-CHANGES-3  Every other cut comes when something in the next log is on the disk for certain, as long as there is such a moment.
 */
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { listen, look, type Problem, type Told, tell, work } from './cuts.ts';
import { Disk } from './disk.ts';
import { nothing, type Outcome, type Part, plus } from './part.ts';
import { type Random, seeded } from './random.ts';
import { type Step, whyNotTraced } from './trace.ts';

const child = join(import.meta.dirname, 'heavy-settles', 'child.js');

const characters = 200;
/** A round writes half a megabyte: the engine changes its log once, or twice where there are many cuts. */
const roundsFor = (cuts: number) => (cuts > 2 ? 80 : 40);
const cutsOfRun = 12;

interface Moment {
  readonly at: number;
  /** Something in the next log is on the disk for certain. */
  readonly isLate: boolean;
}

export const logChanges: Part = {
  name: 'power cuts at changes of the log',
  // The first run, with trims, has settles between commits as the others have.
  kinds: 2,
  unable: whyNotTraced,
  async run({ seed, count }, progress) {
    let total = nothing;
    for (let run = 0; total.done < count; run += 1) {
      const trims = run % 2 === 0;
      const wanted = Math.min(cutsOfRun, Math.max(2, Math.ceil(count / 2)), count - total.done);
      total = plus(total, await oneRun(seeded(seed + run), trims, wanted, `seed ${seed} run ${run}`));
      progress(total.done, total.findings.length);
    }
    return total;
  },
};

async function oneRun(random: Random, trims: boolean, wanted: number, name: string): Promise<Outcome> {
  const directory = mkdtempSync(join(tmpdir(), 'cut-log-'));
  const [store, trace, target] = [join(directory, 'store'), join(directory, 'trace'), join(directory, 'target')];
  try {
    mkdirSync(store);
    const run = (times: number) => [child, store, `${times}`, `${characters}`, `${trims}`];
    await work(run(5), null);
    const before = join(directory, 'before');
    cpSync(store, before, { recursive: true });
    const steps = await work(run(roundsFor(wanted)), trace);
    const { moments, changes } = windowsOf(steps, new Disk(store, before));
    const chosen = choose(random, moments, wanted);
    const disk = new Disk(store, before);
    const told: Told = { commits: new Map() };
    const found: { what: Problem['what']; text: string }[] = [];
    for (const [at, step] of steps.entries()) {
      tell(disk, step);
      listen(told, step);
      for (const moment of chosen.filter((one) => one.at === at)) {
        rmSync(target, { recursive: true, force: true });
        const lost = disk.cut(target, random);
        const problem = await look(target, told, characters);
        const where = `${name}, ${trims ? 'trims, ' : ''}cut at step ${at}${moment.isLate ? ', late' : ''}`;
        if (problem) found.push({ what: problem.what, text: `${where}: ${problem.said} [${lost.join('; ')}]` });
      }
    }
    const count = (what: Problem['what']) => found.filter((one) => one.what === what).length;
    const late = chosen.filter(({ isLate }) => isLate).length;
    const figures = { changes, late, quarantined: count('quarantined') };
    const forgotten = count('forgotten');
    const findings = found.map(({ text }) => text);
    return { ...nothing, done: chosen.length, lost: findings.length - forgotten, forgotten, findings, figures };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** TEST-LOG-CHANGES-1: every moment in a window, and how many windows there are. */
function windowsOf(steps: readonly Step[], disk: Disk): { moments: Moment[]; changes: number } {
  const moments: Moment[] = [];
  const windows = new Set<string>();
  const over = new Set<string>();
  /** By process: closed logs that its sync of a MANIFEST may make superfluous. */
  const syncing = new Map<string, readonly string[]>();
  for (const [at, step] of steps.entries()) {
    tell(disk, step);
    const logs = [...disk.files()].filter(({ path }) => path.endsWith('.log'));
    const [newest, ...closed] = logs.sort((one, other) => numberOf(other.path) - numberOf(one.path));
    const risky = closed.filter(({ path, isAtRisk }) => isAtRisk && !over.has(path)).map(({ path }) => path);
    const { call, ended } = step;
    if (call && /^f(data)?sync$/.test(call.name) && /MANIFEST/.test(call.path)) syncing.set(call.process, risky);
    if (ended !== null) for (const path of syncing.get(ended) ?? []) over.add(path);
    if (ended !== null) syncing.delete(ended);
    const isNaming = [...disk.files()].some(({ path, isAtRisk }) => isAtRisk && path.includes('MANIFEST'));
    if (isNaming || !risky.some((path) => !over.has(path))) continue;
    for (const path of risky) windows.add(path);
    moments.push({ at, isLate: newest?.isSynced ?? false });
  }
  return { moments, changes: windows.size };
}

const numberOf = (path: string): number => Number.parseInt(basename(path), 10);

/** TEST-LOG-CHANGES-3. The same moment may be chosen again: the cut leaves something else. */
function choose(random: Random, moments: readonly Moment[], wanted: number): Moment[] {
  const late = moments.filter(({ isLate }) => isLate);
  return Array.from({ length: wanted }, (_, i) => random.pick(i % 2 === 0 && late.length > 0 ? late : moments));
}
