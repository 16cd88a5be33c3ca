/** Slots that several users share fairly. */

/** Adds to the count of a key and drops the entry at 0, so the map stays small. */
export function addTo<K>(counts: Map<K, number>, key: K, more: number): void {
  const now = (counts.get(key) ?? 0) + more;
  if (now === 0) counts.delete(key);
  else counts.set(key, now);
}

/**
 * A semaphore with `most` slots, of which one user may use `ofOneMax`, by default half. Waiters of one user are served
 * first in, first out, and users round-robin. The promise resolves to the function that releases the slot.
 */
export function turnstile(most: number, ofOneMax = most / 2): (user: string) => Promise<() => void> {
  const waiting = new Map<string, (() => void)[]>();
  const runningOf = new Map<string, number>();
  let running = 0;
  const isFree = (user: string) => running < most && (runningOf.get(user) ?? 0) < ofOneMax;
  const begin = (user: string, more: number) => {
    running += more;
    addTo(runningOf, user, more);
  };
  const next = () => {
    for (const [user, [first, ...rest]] of waiting) {
      if (!isFree(user)) continue;
      waiting.delete(user);
      if (rest.length > 0) waiting.set(user, rest);
      begin(user, 1);
      first?.();
      return;
    }
  };
  return async (user) => {
    if (isFree(user)) begin(user, 1);
    else await new Promise<void>((go) => waiting.set(user, [...(waiting.get(user) ?? []), go]));
    return () => {
      begin(user, -1);
      next();
    };
  };
}
