/**
 * What part of the faults and simulated worlds is run: all of them, unless the tests began long ago (`TEST_BEGAN`, epoch seconds, given by
 * `.ci/run`, which has to end in time on a slow machine, too) or `TEST_SHARE` says how many, 0 < share ≤ 1.
 */
const minutes = process.env.TEST_BEGAN ? (Date.now() / 1000 - Number(process.env.TEST_BEGAN)) / 60 : 0;
const share = Number(process.env.TEST_SHARE ?? (minutes < 10 ? 1 : minutes < 14 ? 0.25 : 0.1));
if (!(share > 0 && share <= 1))
  throw new RangeError(`TEST_SHARE: ${process.env.TEST_SHARE} is not above 0 and up to 1`);

/** So many of what is asked for, at least one. */
export const partOf = (count: number): number => Math.ceil(count * share);
