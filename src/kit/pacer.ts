/**
 * Limits how often something may happen, by key: a second's worth (at least 1) at once, and `perS` a second from then
 * on (the generic cell rate algorithm, one number a key).
 *
 * PACER-1  Memory is bounded, because strangers choose keys: beyond `keysMax` keys in use, further ones share one.
 */

const keysMax = 10_000;
const spanMs = 1000;

export interface Pacer {
  /** Takes a turn and returns how long it is until then, ms. Null, and takes none, when that exceeds `waitMsMax`. */
  take(key: string, waitMsMax?: number): number | null;
  /** Whether `take` would return 0. */
  isFree(key: string): boolean;
}

/** `now` returns monotonic ms. */
export function pacer(perS: number, now: () => number): Pacer {
  const gapMs = spanMs / perS;
  const burstMs = Math.max(0, spanMs - gapMs);
  /** By key, when the turn after the one taken last would come at a steady pace. */
  const next = new Map<string, number>();

  const waitOf = (from: number, at: number) => Math.max(0, from - at - burstMs);

  function usable(key: string, at: number): string {
    if (next.has(key) || next.size < keysMax) return key;
    for (const [one, from] of next) if (from <= at) next.delete(one);
    return next.size < keysMax ? key : '';
  }

  return {
    take(key, waitMsMax = 0) {
      const at = now();
      const name = usable(key, at);
      const from = Math.max(next.get(name) ?? at, at);
      const waitMs = waitOf(from, at);
      if (waitMs > waitMsMax) return null;
      next.set(name, from + gapMs);
      return waitMs;
    },
    isFree(key) {
      const at = now();
      return waitOf(next.get(key) ?? at, at) === 0;
    },
  };
}
