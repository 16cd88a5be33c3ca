/**
 * Cache of recently written rows: most pushes change an object that was pushed a moment ago, and each change reads its
 * row first.
 *
 * ROW-CACHE-1  The cache never differs from the database: a row is cached from when its batch is on the disk until it
 *     is written again, removed or evicted. Reopening the database starts with an empty cache.
 * ROW-CACHE-2  Bounded in number of rows and in characters.
 */

import type { Row, Seq } from '../contract.ts';
import { FifoCache } from './fifo-cache.ts';

/** `data` is JSON text, so that each reader gets its own object. */
type Written = Omit<Row, 'data'> & { readonly data: string };

export class RowCache {
  readonly #rows = new FifoCache<Written>(({ data, body }) => data.length + (body?.length ?? 0));

  get(name: string): Row | undefined {
    const row = this.#rows.get(name);
    return row && { ...row, data: JSON.parse(row.data) };
  }

  /** `Row.seq` of the cached row. */
  seqOf(name: string): Seq | undefined {
    return this.#rows.get(name)?.seq;
  }

  /** `name`: the row's key in the database. */
  add(name: string, row: Written): void {
    this.#rows.add(name, row);
  }

  delete(name: string): void {
    this.#rows.delete(name);
  }
}
