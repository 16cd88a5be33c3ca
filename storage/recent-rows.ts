/**
 * Rows that were written of late, kept as they were written: what is pushed is mostly what was pushed a moment ago, and is read before
 * each change of it.
 *
 * W1  Never another answer than the database's: a row stands here from when its batch is on the disk until it is written again,
 *     removed, or pushed out by others. Whoever reopens the database begins without.
 * W2  Bounded in number and in characters.
 */
import { getHeapStatistics } from 'node:v8';
import type { Row } from './contract.ts';

const rowsMax = 16_384;
/** That many of a thousand characters. A small process keeps less. */
const charactersMax = Math.min(16 << 20, getHeapStatistics().heap_size_limit / 64);

/** `data` as JSON text, so that each reader has its own. */
type Written = Omit<Row, 'data'> & { readonly data: string };

export class RecentRows {
  readonly #rows = new Map<string, Written>();
  /** Goes on from the row that it gave last: a new one would walk over all that have gone. */
  #oldest = this.#rows.keys();
  #characters = 0;

  get(name: string): Row | undefined {
    const row = this.#rows.get(name);
    return row && { ...row, data: JSON.parse(row.data) };
  }

  /** `name`: key of the row. */
  add(name: string, row: Written): void {
    this.delete(name);
    this.#rows.set(name, row);
    this.#characters += sizeOf(row);
    while (this.#rows.size > rowsMax || this.#characters > charactersMax) this.#dropOldest();
  }

  delete(name: string): void {
    const row = this.#rows.get(name);
    if (row === undefined) return;
    this.#rows.delete(name);
    this.#characters -= sizeOf(row);
  }

  #dropOldest(): void {
    const { value, done } = this.#oldest.next();
    if (done) this.#oldest = this.#rows.keys();
    else this.delete(value);
  }
}

const sizeOf = ({ data, body }: Written): number => data.length + (body?.length ?? 0);
