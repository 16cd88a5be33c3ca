/**
 * Which tier is run: `npm test` proves nearly every promise once and runs a slice of each campaign; `npm run campaign` runs all of it, and what is
 * too long for every change. `TEST_SHARE`: 0 < share ≤ 1, of kills, cuts, seeds, inputs.
 */
const slice = 0.01;
const share = Number(process.env.TEST_SHARE ?? slice);
if (!(share > 0 && share <= 1))
  throw new RangeError(`TEST_SHARE: ${process.env.TEST_SHARE} is not above 0 and up to 1`);

/** Whether everything is run. */
export const isAtLength = share === 1;

/** So many of what is asked for, at least one. */
export const partOf = (count: number): number => Math.ceil(count * share);

/** So many of a list as `partOf` says, at least `least`, spread evenly over it. */
export function someOf<T>(all: readonly T[], least = 1): T[] {
  const count = Math.min(all.length, Math.max(least, partOf(all.length)));
  return Array.from({ length: count }, (_, index) => all[Math.floor((index * all.length) / count)] as T);
}

/** Options of a test that is run in the campaign alone, which both reports say by name: `t.test(title, atLength, …)`. */
export const atLength: { readonly skip?: string; readonly isLeft?: true } = isAtLength
  ? { isLeft: true }
  : { skip: 'npm run campaign' };
