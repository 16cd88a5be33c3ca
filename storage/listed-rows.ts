/**
 * Rows that were read for a list of late, by their entry in the order of lists: what one partner asked for is asked for by the next.
 * They have room of their own, so that whoever walks through a whole list pushes out nothing that was written.
 *
 * Y1  Never an older answer than the database's at the instant at which a page was cut. Whoever writes a row at an entry takes
 *     it from here; a row that has moved has another entry, and nobody asks by the one before any more.
 * Y2  A row that was read is kept only when nobody wrote it between the beginning of the read and its end.
 * Y3  Bounded in number and in characters. Rows of two kinds may have the same entry; then one of them is kept.
 */
import { Bounded } from './bounded.ts';
import type { Row } from './contract.ts';

export class ListedRows {
  /** Without their `data`; a symbol stands for one that is being read. [Y2] */
  readonly #rows = new Bounded<Row | symbol>((row) => (typeof row === 'symbol' ? 0 : (row.body?.length ?? 0)));

  get(kind: string, entry: string): Row | undefined {
    const row = this.#rows.get(entry);
    return typeof row === 'object' && row.kind === kind ? row : undefined;
  }

  /** Asked for before rows are read; what it gives keeps one that was found. [Y2] */
  reading(entries: readonly string[]): (entry: string, row: Row) => void {
    const reading = Symbol('a row that is being read');
    for (const entry of entries) this.#rows.add(entry, reading);
    return (entry, row) => {
      if (this.#rows.get(entry) === reading) this.#rows.add(entry, row);
    };
  }

  delete(entry: string): void {
    this.#rows.delete(entry);
  }
}
