/**
 * Rows that were read for a list of late, by their entry in the order of lists: what one partner asked for is asked for by the next.
 * They have room of their own, so that whoever walks through a whole list pushes out nothing that was written.
 *
 * LIST-CACHE-1  Never an older answer than the database's: whatever is written at an entry, or leaves it, is taken from here. (A page that was
 *     cut before that may still ask, and reads the database.)
 * LIST-CACHE-2  A row that was read is kept only when nobody wrote it between the beginning of the read and its end.
 * LIST-CACHE-3  Bounded in number and in characters. Rows of two kinds may have the same entry; then one of them is kept.
 */

import type { Row } from '../contract.ts';
import { FifoCache } from './fifo-cache.ts';

export class ListCache {
  /** Without their `data`; a symbol stands for one that is being read. [LIST-CACHE-2] */
  readonly #rows = new FifoCache<Row | symbol>((row) => (typeof row === 'symbol' ? 0 : (row.body?.length ?? 0)));

  get(kind: string, entry: string): Row | undefined {
    const row = this.#rows.get(entry);
    return typeof row === 'object' && row.kind === kind ? row : undefined;
  }

  /** Asked for before rows are read; what it gives keeps the one that was found at the n-th of these entries. [LIST-CACHE-2] */
  reading(entries: readonly string[]): (n: number, row: Row) => void {
    const own = Symbol('a row that is being read');
    const marks = entries.map((entry) => {
      // Somebody else reads it: as long as that mark is there nobody has written it.
      const there = this.#rows.get(entry);
      if (typeof there === 'symbol') return there;
      this.#rows.add(entry, own);
      return own;
    });
    return (n, row) => {
      const entry = entries[n];
      if (entry !== undefined && this.#rows.get(entry) === marks[n]) this.#rows.add(entry, { ...row, data: null });
    };
  }

  /** The order of lists says that the row at an entry was written, or has left it. */
  delete(entry: string): void {
    this.#rows.delete(entry);
  }
}
