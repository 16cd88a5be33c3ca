/**
 * In-memory caches of rows, and a memory of what was set last (`TwoGenerations`). Most pushes change an object that was pushed a moment
 * ago, and each change reads its row first (`RowCache`); partners tend to ask for the same pages (`ListCache`, by entry in the order
 * index). They are separate, so that a walk through a whole list evicts no recently written row.
 *
 * CACHES-1  Each cache is bounded in number of rows and in characters, and evicts the oldest first. A row of more than `largestShare`
 *     of those characters is not cached: it would evict as much, and one in a small process all.
 * CACHES-2  The row cache never differs from the database: a row is cached from when its batch is on the disk until it
 *     is written again, removed or evicted; of a row that was read for its version, or that is large, the sequence is cached, likewise.
 *     Reopening the database starts with an empty cache.
 * CACHES-3  The list cache never returns an older version than the database: an entry is dropped when a row is written
 *     at it or leaves it. (A page that was cut before that may still ask for the entry, and reads the database.)
 * CACHES-4  A row that was read is cached only when nobody wrote it between the beginning and the end of the read.
 * CACHES-5  Of two rows of different kinds with the same entry the list cache keeps one.
 */
import { getHeapStatistics } from 'node:v8';
import { type Row, type Seq, smallBody } from '../contract.ts';

const countMax = 16_384;
/** 16 Mi characters (`countMax` entries of 1,024 each), or less in a process with a small heap. */
const charactersMax = Math.min(16 << 20, getHeapStatistics().heap_size_limit / 64);
/** The largest objects are locations of 4 MiB. */
const largestShare = 1 / 8;

/** Cache by name. [CACHES-1] */
export class FifoCache<T> {
  readonly #kept = new Map<string, T>();
  readonly #sizeOf: (value: T) => number;
  /**
   * Iterator over the oldest keys, reused between evictions: a new iterator would step over every deleted entry again.
   */
  #oldest = this.#kept.keys();
  /** Entries removed since `#oldest` was created. */
  #gone = 0;
  #characters = 0;

  /** `sizeOf`: characters of a value; must not change while the value is cached. */
  constructor(sizeOf: (value: T) => number) {
    this.#sizeOf = sizeOf;
  }

  get(name: string): T | undefined {
    return this.#kept.get(name);
  }

  /** Replaces an entry of the same name and makes it the newest; one that is too large is only removed. */
  add(name: string, value: T): void {
    this.delete(name);
    const size = this.#sizeOf(value);
    if (size > charactersMax * largestShare) return;
    this.#kept.set(name, value);
    this.#characters += size;
    while (this.#kept.size > countMax || this.#characters > charactersMax) this.#dropOldest();
  }

  delete(name: string): void {
    const value = this.#kept.get(name);
    if (value === undefined) return;
    this.#kept.delete(name);
    this.#characters -= this.#sizeOf(value);
    this.#gone += 1;
    // An idle iterator keeps alive every internal table that the map has had since, with its entries.
    if (this.#gone > this.#kept.size) this.#begin();
  }

  #begin(): void {
    this.#oldest = this.#kept.keys();
    this.#gone = 0;
  }

  #dropOldest(): void {
    const { value, done } = this.#oldest.next();
    if (done) this.#begin();
    else this.delete(value);
  }
}

/** `data` is JSON text, so that each reader gets its own object. */
type Written = Omit<Row, 'data'> & { readonly data: string };

/** [CACHES-2] */
export class RowCache {
  readonly #rows = new FifoCache<Written>(({ data, body }) => data.length + (body?.length ?? 0));
  /** Of rows that are not in `#rows`, and of large ones. */
  readonly #seqs = new FifoCache<Seq>(() => 0);

  get(name: string): Row | undefined {
    const row = this.#rows.get(name);
    return row && { ...row, data: JSON.parse(row.data) };
  }

  /** `Row.seq` of the cached row, or of one whose version was read. */
  seqOf(name: string): Seq | undefined {
    return this.#rows.get(name)?.seq ?? this.#seqs.get(name);
  }

  /** The version of a row was read while no batch was in progress. */
  addSeq(name: string, seq: Seq): void {
    this.#seqs.add(name, seq);
  }

  /** `name`: the row's key in the database. */
  add(name: string, row: Written): void {
    this.#rows.add(name, row);
    // It is evicted soon, and the next commit that was decided on it would read it whole for its version.
    if ((row.body?.length ?? 0) > smallBody) this.#seqs.add(name, row.seq);
    else this.#seqs.delete(name);
  }

  delete(name: string): void {
    this.#rows.delete(name);
    this.#seqs.delete(name);
  }
}

/** [CACHES-3, CACHES-5] */
export class ListCache {
  /** Rows without their `data`; a symbol marks an entry with a read in progress. [CACHES-4] */
  readonly #rows = new FifoCache<Row | symbol>((row) => (typeof row === 'symbol' ? 0 : (row.body?.length ?? 0)));

  get(kind: string, entry: string): Row | undefined {
    const row = this.#rows.get(entry);
    return typeof row === 'object' && row.kind === kind ? row : undefined;
  }

  /** Called before the rows at `entries` are read; the result caches the row of the n-th entry. [CACHES-4] */
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

/** A bounded memory of the entries set last. When the younger of its two generations is full, the older is dropped whole. */
export class TwoGenerations<V> {
  readonly #max: number;
  #young = new Map<string, V>();
  #old = new Map<string, V>();

  /** Keeps at least the last `max` entries, and at most twice as many. */
  constructor(max: number) {
    this.#max = max;
  }

  get(key: string): V | undefined {
    return this.#young.get(key) ?? this.#old.get(key);
  }

  set(key: string, value: V): void {
    if (this.#young.size >= this.#max) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, value);
  }

  clear(): void {
    this.#young = new Map();
    this.#old = new Map();
  }
}
