/**
 * Chance from a seed, so that a run can be told to make the same choices again. (What processes and disks make of them is not
 * in the seed: a repeated run is alike, not the same.)
 */
export interface Random {
  /** From 0 up to, not including, 1. */
  next(): number;
  /** A whole number from 0 up to, not including, `end`. */
  below(end: number): number;
  /** Whether something of this share happens. */
  happens(share: number): boolean;
  pick<T>(items: readonly T[]): T;
}

/** Mulberry32: small, quick, good enough to choose faults by. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (end: number) => Math.floor(next() * end);
  return {
    ...{ next, below, happens: (share) => next() < share },
    pick(items) {
      const picked = items[below(items.length)];
      if (picked === undefined) throw new Error('nothing to pick from');
      return picked;
    },
  };
}

/** Deals items in an order by chance: each once before any comes again. */
export function dealt<T>(random: Random, items: readonly T[]): () => T {
  let left: T[] = [];
  return () => {
    if (left.length === 0) left = [...items];
    const item = random.pick(left);
    left.splice(left.indexOf(item), 1);
    return item;
  };
}
