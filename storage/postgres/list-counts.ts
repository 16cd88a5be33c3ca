/** Counts of lists: how many rows of a shelf have an `upd` that begins so. */

/** Characters of an `upd` that name its hour, when it is an instant. */
export const HOUR = 13;
/** Adds `n` rows to a place in `listed`. */
export const COUNT = 'on conflict (kind, shelf, hour) do update set n = listed.n + excluded.n';
