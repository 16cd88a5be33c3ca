/** Row counts per shelf and hour of `upd` (table `listed`): counts a list and finds a page without walking there. */

/** Characters of an instant in `upd` up to its hour. Stored rows of `listed` depend on this length. */
export const HOUR = 13;
/** Adds `n` to the count of a shelf and hour. */
export const COUNT = 'on conflict (kind, shelf, hour) do update set n = listed.n + excluded.n';
