/**
 * A sorted set in memory with ranks: finds the entry at place n, and the place of a value.
 *
 * SORTED-LIST-1  Entries are in blocks of at most `BLOCK_MAX`, so that a change moves few entries, whatever the length
 *     of the list.
 * SORTED-LIST-2  Finding a place takes two binary searches. The counts before each block are summed again on the first
 *     read after a change: a few microseconds for 1 million entries.
 */

/** Entries per block: more make an insertion move more, fewer make more blocks to sum. */
const BLOCK_MAX = 512;

function lowerBound<T extends string | number>(sorted: readonly T[], value: T): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as T) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class SortedList<T extends string | number> {
  #blocks: T[][] = [];
  /** Number of entries before each block; null when stale (SORTED-LIST-2). */
  #starts: number[] | null = null;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(value: T): boolean {
    const at = this.#blockOf(value);
    const block = this.#blocks[at];
    if (block === undefined) {
      this.#blocks.push([value]);
    } else {
      const index = lowerBound(block, value);
      if (block[index] === value) return false;
      block.splice(index, 0, value);
      if (block.length > BLOCK_MAX) {
        // Most entries arrive at the end: a split there leaves a full block behind, elsewhere two halves.
        const atEnd = at === this.#blocks.length - 1 && index === BLOCK_MAX;
        this.#blocks.splice(at + 1, 0, block.splice(atEnd ? BLOCK_MAX : BLOCK_MAX / 2));
      }
    }
    this.#starts = null;
    this.#size += 1;
    return true;
  }

  remove(value: T): boolean {
    const at = this.#blockOf(value);
    const block = this.#blocks[at];
    const index = block === undefined ? 0 : lowerBound(block, value);
    if (block === undefined || block[index] !== value) return false;
    block.splice(index, 1);
    const next = this.#blocks[at + 1];
    if (block.length === 0) this.#blocks.splice(at, 1);
    else if (next !== undefined && block.length + next.length <= BLOCK_MAX / 2) {
      block.push(...next);
      this.#blocks.splice(at + 1, 1);
    }
    this.#starts = null;
    this.#size -= 1;
    return true;
  }

  has(value: T): boolean {
    const block = this.#blocks[this.#blockOf(value)];
    return block !== undefined && block[lowerBound(block, value)] === value;
  }

  /** Number of entries below `value`. */
  rank(value: T): number {
    const at = this.#blockOf(value);
    const block = this.#blocks[at];
    return block === undefined ? 0 : (this.#counted()[at] as number) + lowerBound(block, value);
  }

  /** The entry at place n; undefined past the end. */
  at(n: number): T | undefined {
    const starts = this.#counted();
    const at = Math.max(0, lowerBound(starts, n + 1) - 1);
    return this.#blocks[at]?.[n - (starts[at] ?? 0)];
  }

  /** Entries at the places `low` (inclusive) to `high` (exclusive). */
  slice(low: number, high: number): T[] {
    const found: T[] = [];
    const starts = this.#counted();
    let at = Math.max(0, lowerBound(starts, low + 1) - 1);
    let from = low - (starts[at] ?? 0);
    while (found.length < high - low) {
      const block = this.#blocks[at];
      if (block === undefined) break;
      found.push(...block.slice(from, from + high - low - found.length));
      at += 1;
      from = 0;
    }
    return found;
  }

  /** The last block whose first entry is at or below `value`; 0 when there is none. */
  #blockOf(value: T): number {
    let low = 0;
    let high = this.#blocks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (((this.#blocks[middle] as T[])[0] as T) <= value) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  #counted(): number[] {
    if (this.#starts === null) {
      let before = 0;
      this.#starts = this.#blocks.map((block) => {
        const start = before;
        before += block.length;
        return start;
      });
    }
    return this.#starts;
  }
}
