/** What every part of the fault campaign is given and gives back. */
import type { World } from './world.ts';

export interface PartOptions {
  /** Chooses every fault; printed with the result, so that a run can be repeated. */
  readonly seed: number;
  /** How many kills, cuts, … this part is asked for. */
  readonly count: number;
  /** Where a directory comes from that a hub filled, for parts that spoil one; made anew when absent. */
  readonly filling?: Filling;
}

/** A directory that a hub filled. */
export interface Filled {
  readonly dataDir: string;
  /** Its partners, who still answer. */
  readonly world: World;
  /** What a hub on it serves for each object. */
  readonly truth: ReadonlyMap<string, string | null>;
}

/** Gives a directory that was filled for so many corruptions, and afterwards it is done with. */
export type Filling = <T>(seed: number, corruptions: number, use: (filled: Filled) => Promise<T>) => Promise<T>;

/** Called now and then: how far it has come, and what was found until then. */
export type Progress = (done: number, findings: number) => void;

export interface Outcome {
  /** Faults that were really made. */
  readonly done: number;
  readonly lost: number;
  readonly duplicated: number;
  readonly reordered: number;
  readonly unexplained: number;
  /** What waits for an instant, and nothing will wake it. */
  readonly forgotten: number;
  /** Whatever must not be, a sentence each: everything lost, reordered, unexplained or forgotten, with seed and round. */
  readonly findings: readonly string[];
  /** Further figures, by name. */
  readonly figures: Readonly<Record<string, number>>;
}

export interface Part {
  readonly name: string;
  /** So many faults, and each of its kinds has come. */
  readonly kinds: number;
  /** Why it cannot run on this machine; null, or absent, when it can. */
  readonly unable?: () => string | null;
  run(options: PartOptions, progress: Progress): Promise<Outcome>;
}

export const nothing: Outcome = {
  ...{ done: 0, lost: 0, duplicated: 0, reordered: 0, unexplained: 0, forgotten: 0, findings: [], figures: {} },
};

/** Figures named `…Max` are the larger of the two, all others add up. */
export function plus(one: Outcome, other: Outcome): Outcome {
  const figures: Record<string, number> = { ...one.figures };
  for (const [name, value] of Object.entries(other.figures)) {
    const before = figures[name] ?? 0;
    figures[name] = name.endsWith('Max') ? Math.max(before, value) : before + value;
  }
  return {
    done: one.done + other.done,
    lost: one.lost + other.lost,
    duplicated: one.duplicated + other.duplicated,
    reordered: one.reordered + other.reordered,
    unexplained: one.unexplained + other.unexplained,
    forgotten: one.forgotten + other.forgotten,
    findings: [...one.findings, ...other.findings],
    figures,
  };
}

/** The five figures first, then what was done. */
export function summary({ done, lost, duplicated, reordered, unexplained, forgotten, figures }: Outcome): string {
  const rest = Object.entries(figures).map(([name, value]) => `${name} ${value}`);
  const five = `lost ${lost}, duplicated ${duplicated}, reordered ${reordered}, unexplained ${unexplained}, forgotten ${forgotten}`;
  return [`${five}; faults ${done}`, ...rest].join(', ');
}
