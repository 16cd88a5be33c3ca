/**
 * Cache of rows recently read for lists, by their entry in the order index: partners tend to ask for the same pages. It
 * is separate from the row cache, so that a walk through a whole list evicts no recently written row.
 *
 * LIST-CACHE-1  The cache never returns an older version than the database: an entry is dropped when a row is written
 *     at it or leaves it. (A page that was cut before that may still ask for the entry, and reads the database.)
 * LIST-CACHE-2  A row that was read is cached only when nobody wrote it between the beginning and the end of the read.
 * LIST-CACHE-3  Bounded in number of rows and in characters. Of two rows of different kinds with the same entry it
 *     keeps one.
 */

import type { Row } from '../contract.ts';
import { FifoCache } from './fifo-cache.ts';

export class ListCache {
  /** Rows without their `data`; a symbol marks an entry with a read in progress. [LIST-CACHE-2] */
  readonly #rows = new FifoCache<Row | symbol>((row) => (typeof row === 'symbol' ? 0 : (row.body?.length ?? 0)));

  get(kind: string, entry: string): Row | undefined {
    const row = this.#rows.get(entry);
    return typeof row === 'object' && row.kind === kind ? row : undefined;
  }

  /** Called before the rows at `entries` are read; the result caches the row of the n-th entry. [LIST-CACHE-2] */
  reading(entries: readonly string[]): (n: number, row: Row) => void {
    const own = Symbol('a row that is being read');
    const marks = entries.map((entry) => {
      // Another read is in progress: as long as its mark remains, nobody has written the row.
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

  /** The order index reports that a row was written at this entry or left it. */
  delete(entry: string): void {
    this.#rows.delete(entry);
  }
}
