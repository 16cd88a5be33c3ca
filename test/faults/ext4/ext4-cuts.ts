/**
 * Power cuts of a store on a real file system: a process does all that a store is asked for (`upkeep/child.ts`) on ext4 on a disk whose writes are
 * logged; then, at the worst moments of each of these works, the disk is made as a power cut may have left it, mounted by the kernel, which
 * replays its journal, and the store is opened and compared with what the process had been told by then.
 *
 * TEST-EXT4-CUTS-1  Kinds of moments are dealt like cards: each comes once before any comes again.
 * TEST-EXT4-CUTS-2  A backup that has its name is whole, whether or not its end was told; one that was told is there. The same holds for a
 *     data directory that was restored.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdtempSync, openSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { verifyStore } from '../../../storage/level/restore.ts';
import { look, type Problem } from '../cuts.ts';
import { nothing, type Outcome, type Part, plus } from '../part.ts';
import { dealt, type Random, seeded } from '../random.ts';
import type { Entry } from './block-log.ts';
import { CutDisk, onCutDisk, onLoggedDisk, whyNoLoggedDisk } from './logged-disk.ts';

const child = join(import.meta.dirname, 'upkeep', 'child.js');
const mebibytes = 192;
const characters = 200;
/** Every work comes once in 24 rounds, and its worst moments twice in 48. */
const roundsFor = (cuts: number) => (cuts > kinds.length ? 48 : 24);
const cutsOfRun = 90;
/** How ext4 is mounted, by turns. */
const mounts = ['data=ordered', 'data=writeback', 'nodelalloc', 'data=journal'] as const;

interface Window {
  /** The lines between which a power cut is at its worst. */
  readonly from: RegExp;
  readonly to: RegExp;
  /** The first such lines behind this one. */
  readonly behind?: RegExp;
}

const commit = { from: /^p commit\.before/, to: /^p commit\.after/ };
/** Works of the store. */
const windows = {
  'a commit': commit,
  'settles at a change of the log': { ...commit, behind: /^p log/ },
  'a trim': { from: /^p trim\.before/, to: /^p trimmed/ },
  'a backup': { from: /^p backing up/, to: /^b / },
  'a backup just named': { from: /^b /, to: /^p commit\.after/ },
  'a restore': { from: /^p restoring/, to: /^r / },
  'a restore just ended': { from: /^r /, to: /^p commit\.after/ },
  closing: { from: /^p closing/, to: /^p closed/ },
  'closed and opening': { from: /^p closed/, to: /^p opened/ },
  'just opened': { from: /^p opened/, to: /^p settle\.after/ },
} as const satisfies Record<string, Window>;
type Kind = keyof typeof windows | 'any moment';
const kinds: readonly Kind[] = [...(Object.keys(windows) as Kind[]), 'any moment'];

interface Moment {
  readonly at: number;
  readonly kind: Kind;
}

/** What a process was told by a moment. */
interface Told {
  readonly commits: Map<number, string>;
  readonly backups: Set<string>;
  readonly restored: Set<string>;
}

export const ext4Cuts: Part = {
  name: 'power cuts on ext4',
  kinds: kinds.length,
  unable: whyNoLoggedDisk,
  async run({ seed, count }, progress) {
    let total = nothing;
    for (let round = 0; total.done < count; round += 1) {
      const wanted = Math.min(cutsOfRun, count - total.done);
      const options = mounts[round % mounts.length] ?? mounts[0];
      total = plus(total, await oneRun(seeded(seed + round), options, wanted, `seed ${seed} round ${round}`));
      progress(total.done, total.findings.length);
    }
    return total;
  },
};

async function oneRun(random: Random, options: string, wanted: number, name: string): Promise<Outcome> {
  const directory = mkdtempSync(join(tmpdir(), 'cut-ext4-'));
  try {
    const entries = await onLoggedDisk(directory, { mebibytes, options }, ({ path, told }) => work(path, told, wanted));
    const moments = choose(random, entries, wanted);
    const disk = new CutDisk(join(directory, 'image'));
    const told: Told = { commits: new Map(), backups: new Set(), restored: new Set() };
    const [image, mounted] = [join(directory, 'cut'), join(directory, 'mounted')];
    const findings: string[] = [];
    const count = { forgotten: 0, quarantined: 0, unsoundFileSystems: 0 };
    for (const [at, entry] of entries.entries()) {
      disk.take(entry);
      if (entry.kind === 'told') listen(told, entry);
      for (const { kind } of moments.filter((moment) => moment.at === at)) {
        const lost = disk.cut(image, random);
        const where = `${name}, ${options}, cut at entry ${at}, ${kind}, ${lost}`;
        const problems = await onCutDisk(image, mounted, (path) => problemsOf(path, told));
        if (!isSound(image)) count.unsoundFileSystems += 1;
        for (const { what, said } of problems) {
          if (what !== 'other') count[what] += 1;
          findings.push(`${where}: ${said}`);
        }
      }
    }
    const { forgotten, ...others } = count;
    const figures = { ...others, commitsTold: told.commits.size, backups: told.backups.size, writes: entries.length };
    const lost = findings.length - forgotten;
    return { ...nothing, done: moments.length, lost, forgotten, findings, figures };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Lets the process work until it ends itself. */
async function work(path: string, told: string, cuts: number): Promise<void> {
  const args = [child, path, `${roundsFor(cuts)}`, `${characters}`];
  const lines = openSync(told, 'a');
  const working = spawn(process.execPath, args, { stdio: ['ignore', lines, 'inherit'] });
  closeSync(lines);
  const [, signal] = (await once(working, 'close')) as [number | null, string | null];
  if (signal !== 'SIGKILL') throw new Error('the child ended before its work was done');
}

/** [TEST-EXT4-CUTS-1] */
function choose(random: Random, entries: readonly Entry[], wanted: number): Moment[] {
  const lines = entries.flatMap(({ kind, data }, at) =>
    kind === 'told' ? [{ at, line: data.toString('latin1') }] : [],
  );
  const first = lines.find(({ line }) => line.startsWith('c '))?.at ?? 0;
  const found = new Map<Kind, (readonly [from: number, to: number])[]>([['any moment', [[first, entries.length]]]]);
  const after = (from: number, pattern: RegExp) => lines.find(({ at, line }) => at > from && pattern.test(line))?.at;
  for (const [kind, { from, to, behind }] of Object.entries(windows) as [Kind, Window][]) {
    const begun = lines.filter(({ at, line }) => at >= first && (behind ?? from).test(line));
    const spans = begun.flatMap(({ at }) => {
      const begins = behind ? after(at, from) : at;
      const ends = begins && after(begins, to);
      return begins && ends ? [[begins, ends] as const] : [];
    });
    if (spans.length > 0) found.set(kind, spans);
  }
  const next = dealt(random, [...found.keys()]);
  return Array.from({ length: wanted }, () => {
    const kind = next();
    const [from, to] = random.pick(found.get(kind) ?? []);
    return { at: from + random.below(to - from), kind };
  });
}

function listen({ commits, backups, restored }: Told, { data }: Entry): void {
  const [what = '', name = '', number = ''] = data.toString('latin1').trim().split(' ');
  if (what === 'c') commits.set(Number(name), number);
  if (what === 'b') backups.add(name);
  if (what === 'r') restored.add(name);
}

async function problemsOf(path: string, told: Told): Promise<Problem[]> {
  const problem = await look(join(path, 'data', 'store'), told, characters);
  const others = await Promise.all([
    ...whole(path, /^backup-\d+$/, told.backups),
    ...whole(path, /^restored-\d+$/, told.restored),
  ]);
  return [problem, ...others].filter((one) => one !== null);
}

/** Whatever has its name is whole, and what was told has it; of several the newest is read, which the cut is nearest to. [TEST-EXT4-CUTS-2] */
function whole(path: string, pattern: RegExp, told: ReadonlySet<string>): Promise<Problem | null>[] {
  const hasName = (name: string) => pattern.test(name) && existsSync(join(path, name, 'store'));
  const names = readdirSync(path).filter(hasName);
  const missing = [...told].filter((name) => !names.includes(name));
  const problem = (said: string): Problem => ({ what: 'other', said });
  return [
    ...missing.map(async (name) => problem(`${name} was told and is not there`)),
    ...names
      .sort(byNumber)
      .slice(-1)
      .map(async (name) => {
        const told = verifyStore(join(path, name)).then(({ faults }) => faults);
        const faults = await told.catch((error: unknown) => [String(error)]);
        return faults.length === 0 ? null : problem(`${name}: ${faults.join('; ')}`);
      }),
  ];
}

/** Whether a file system whose journal was replayed is whole: else the cut was none that a disk may leave. */
const isSound = (image: string) => spawnSync('e2fsck', ['-fn', image]).status === 0;

const byNumber = (a: string, b: string) => Number(a.split('-')[1]) - Number(b.split('-')[1]);
