/**
 * Rows that were written of late, kept as they were written: what is pushed is mostly what was pushed a moment ago, and is read before
 * each change of it.
 *
 * ROW-CACHE-1  Never another answer than the database's: a row stands here from when its batch is on the disk until it is written again,
 *     removed, or pushed out by others. Whoever reopens the database begins without.
 * ROW-CACHE-2  Bounded in number and in characters.
 */

import type { Row, Seq } from '../contract.ts';
import { FifoCache } from './fifo-cache.ts';

/** `data` as JSON text, so that each reader has its own. */
type Written = Omit<Row, 'data'> & { readonly data: string };

export class RowCache {
  readonly #rows = new FifoCache<Written>(({ data, body }) => data.length + (body?.length ?? 0));

  get(name: string): Row | undefined {
    const row = this.#rows.get(name);
    return row && { ...row, data: JSON.parse(row.data) };
  }

  /** Sequence of the event that wrote it. */
  seqOf(name: string): Seq | undefined {
    return this.#rows.get(name)?.seq;
  }

  /** `name`: key of the row. */
  add(name: string, row: Written): void {
    this.#rows.add(name, row);
  }

  delete(name: string): void {
    this.#rows.delete(name);
  }
}
