/** Compared systems take turns, round by round, and each round's figures become rows. */
import { type Spread, spread } from './statistics.ts';

/** A row: what is measured with its unit, how a round says it, decimals. */
export type Column<Round> = readonly [what: string, value: (round: Round) => number, digits: number];

/** So many rounds of each, A B A B …; rounds in order. */
export async function inTurns<System, Round>(
  systems: readonly System[],
  turns: number,
  roundOf: (system: System, turn: number) => Promise<Round>,
): Promise<ReadonlyMap<System, readonly Round[]>> {
  const rounds = new Map<System, Round[]>(systems.map((system) => [system, []]));
  for (let turn = 1; turn <= turns; turn++) {
    for (const [system, done] of rounds) done.push(await roundOf(system, turn));
  }
  return rounds;
}

/** The rest is of helpers: the garbage collector, the compiler, file system and store. */
export const onMainThread: Column<{ readonly mainMicros: number }> = [
  'of it on the main thread, µs',
  ({ mainMicros }) => mainMicros,
  0,
];

/** Far below 100 on a machine that others use too: then rates say less than CPU does. */
export const shareOfCore: Column<{ readonly perS: number; readonly cpuMicros: number }> = [
  'had of its core, %',
  ({ perS, cpuMicros }) => (perS * cpuMicros) / 1e4,
  0,
];

/** One row for each column, headed by the name. */
export function rowsOf<Round>(
  name: string,
  rounds: readonly Round[],
  columns: readonly Column<Round>[],
): Record<string, Spread> {
  return Object.fromEntries(
    columns.map(([what, value, digits]) => [`${name}: ${what}`, spread(rounds.map(value), digits)]),
  );
}
