/** Middle, tail and spread of what was measured. */

/** What several rounds gave. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

export const rounded = (value: number, digits = 2): number => Number(value.toFixed(digits));

/** Middle and both ends, rounded. */
export function spread(values: readonly number[], digits = 2): Spread {
  const ends = { min: Math.min(...values), max: Math.max(...values) };
  const of = { median: median(values), ...ends };
  return { median: rounded(of.median, digits), min: rounded(of.min, digits), max: rounded(of.max, digits) };
}

/** Of what took turns: the ratio within each round, so that what slows the machine for a while slows both. */
export function ratios(ones: readonly number[], others: readonly number[]): Spread {
  return spread(ones.map((one, round) => one / (others[round] ?? Number.NaN)));
}
