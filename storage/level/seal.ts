/**
 * The seal: records in the database that say what its log must hold up to a sequence, so that a start need not read it
 * all before it serves. Of the two indexes of the log (`c/` by correlation id, `s/` by stream) they hold digests of parts.
 *
 * SEAL-1  The seal changes in the same atomic batch as what it covers: a trim writes it, a rewrite removes it. It covers
 *     the index entries of all events up to its sequence; those behind it are known from the log.
 * SEAL-2  Only synced batches change what it covers, each durable before the next one is written. So after a kill or a
 *     power cut the seal and what it covers are of one moment. When the engine drops a part of its log, they may not be:
 *     then the seal is not used, and the store is verified whole.
 * SEAL-3  The seal names the horizon. A seal that another build left behind, or an older version that a rotted table
 *     shows, names another one or other sums, and is not used.
 * SEAL-4  The sealed floors were durable before the record that holds them was written, with the rows of every delivery
 *     at or below them. Later such a row is only replaced or trimmed: a lost batch of settles cannot make one of these
 *     deliveries forgotten. After an unclean end floors and rows are therefore compared behind them only.
 * SEAL-5  The seal only adds to what verification demands. A store without one, or with one that cannot be used, is
 *     verified whole before it serves.
 * SEAL-6  A part is a range of keys; each index key belongs to exactly one. Its digest is the number of its
 *     entries and the sum of their keys' CRC-32, so entries are added and removed one by one, in any order.
 * SEAL-7  A boundary between parts is ASCII, so comparing it with any key gives the same result as UTF-16, in
 *     memory, and as UTF-8, in the database.
 * SEAL-8  A part that has grown too large is split, so that checking one stays cheap, unless its keys have no
 *     ASCII boundary. Trims empty parts, so small neighbours are joined when there are many: the number of parts is
 *     bounded.
 */

import { crc32 } from 'node:zlib';
import type { Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { type Range, under } from '../keys.ts';
import { encode, headOf, inspect } from '../records.ts';
import type { Batch, Database } from './leveldb.ts';
import type { Horizon } from './trim-point.ts';

type SealHead = [seq: Seq, horizon: Seq, version: number, counts: number[], sums: number[]];
type PartsHead = [version: number, starts: string[]];

export type Floors = ReadonlyMap<string, Seq>;

export interface Seal {
  readonly seq: Seq;
  readonly digest: IndexDigest;
  /** [SEAL-4] */
  readonly floors: Floors;
}

/** What is sealed of an open database, and what the next seal will say. */
export class Sealing {
  /** Must describe every index entry at any time. */
  readonly digest: IndexDigest;
  /** Sequence of the last seal. */
  seq: Seq = 0;
  /** Version of the boundaries in the database. */
  #version = 0;
  /** [SEAL-4] */
  #durable: Floors;
  #isDropped = false;

  constructor(digest: IndexDigest, floors: Floors) {
    this.digest = digest;
    this.#durable = new Map(floors);
  }

  /** `recent`: events that a start reads at once. The seal is never further behind. */
  isDue(head: Seq, recent: number): boolean {
    return !this.#isDropped && head - this.seq >= recent / 2;
  }

  /** Removes the seal until the database is opened again. */
  drop(batch: Batch): void {
    for (const key of [keys.SEAL_KEY, keys.SEAL_PARTS_KEY, keys.SEAL_FLOORS_KEY]) batch.del(key);
    this.#isDropped = true;
  }

  /** Adds the seal to a batch that holds no commit. */
  stage(batch: Batch, { head, horizon }: { readonly head: Seq; readonly horizon: Horizon }): void {
    if (this.#isDropped) return;
    const { version, starts, counts, sums } = this.digest;
    put(batch, keys.SEAL_KEY, [head, horizon.seq, version, counts, sums] satisfies SealHead);
    if (version !== this.#version) put(batch, keys.SEAL_PARTS_KEY, [version, starts] satisfies PartsHead);
    this.#version = version;
    this.seq = head;
  }

  /** Adds the floors that were durable at the last call of `synced`. */
  stageFloors(batch: Batch): void {
    if (!this.#isDropped) put(batch, keys.SEAL_FLOORS_KEY, [...this.#durable]);
  }

  /** Every settle that was applied so far is on the disk. */
  synced(floors: Floors): void {
    this.#durable = new Map(floors);
  }
}

/** Splits an index part that has grown too large, beside the writes. Called between two batches. */
export async function splitLarge(db: Database, digest: IndexDigest): Promise<void> {
  const part = digest.beginSplit();
  if (part === null) return;
  const snapshot = db.snapshot();
  try {
    digest.endSplit(await db.keys({ ...digest.rangeOf(part), snapshot }).all());
  } catch {
    // The database closes; or the part cannot be read, which the next check of it tells.
    digest.endSplit(null);
  } finally {
    await snapshot.close();
  }
}

const put = (batch: Batch, key: string, head: unknown): unknown => batch.put(key, encode(key, JSON.stringify(head)));

/** Null when there is no seal that can be used. [SEAL-3, SEAL-5] */
export async function readSeal(db: Database, horizon: Horizon): Promise<Seal | null> {
  const [head, parts, floors = []] = await Promise.all([
    soundHead<SealHead>(db, keys.SEAL_KEY),
    soundHead<PartsHead>(db, keys.SEAL_PARTS_KEY),
    soundHead<[string, Seq][]>(db, keys.SEAL_FLOORS_KEY),
  ]);
  if (head === undefined || parts === undefined) return null;
  const [seq, sealedHorizon, version, counts, sums] = head;
  if (sealedHorizon !== horizon.seq || seq < horizon.seq || parts[0] !== version) return null;
  const digest = IndexDigest.of(parts[1], counts, sums, version);
  return digest && { seq, digest, floors: new Map(floors) };
}

async function soundHead<T>(db: Database, key: string): Promise<T | undefined> {
  const value = await db.get(key).catch((error: unknown) => {
    if (db.status !== 'open') throw error;
  });
  return value !== undefined && inspect(key, value) === 'sound' ? (headOf(value) as T) : undefined;
}

// Digest of the two indexes of the log (`c/` by correlation id, `s/` by stream), in parts. The seal stores it, so that
// verification finds a part with a missing or surplus entry without reading the log.

/** Sums stay exact integers. */
const MODULUS = 2 ** 48;
/** Entries of a part after a cut; a part is split at twice as many. */
const PART_ENTRIES = 2048;
const PARTS_MAX = 1024;
/** Parts above which small neighbours are joined; a join leaves about half as many. */
const JOINED_ABOVE = 4 * PARTS_MAX + 16;
/** Where a part is cut, best first: a key beyond ASCII may have no boundary. */
const CUTS = [1 / 2, 1 / 4, 3 / 4, 1 / 8, 7 / 8];
const SPACES = ['c/', 's/'] as const;
const NOT_ASCII = /[^\0-\x7f]/;

const plus = (sum: number, crc: number): number => (sum + crc) % MODULUS;
const minus = (sum: number, crc: number): number => (sum - crc + MODULUS) % MODULUS;

/** [SEAL-7] */
function boundary(key: string): string {
  const at = key.search(NOT_ASCII);
  return at === -1 ? key : key.slice(0, at);
}

/** Number and sum of entries. */
export class Tally {
  count = 0;
  sum = 0;

  add(key: string): void {
    this.count += 1;
    this.sum = plus(this.sum, crc32(key));
  }

  equals({ count, sum }: Tally): boolean {
    return count === this.count && sum === this.sum;
  }
}

/** A split that goes on: the entries that were added to the part since it began. */
interface Splitting {
  readonly part: number;
  readonly added: string[];
  /** An entry of the part was removed meanwhile. */
  isStale: boolean;
}

export class IndexDigest {
  /** First key of each part. */
  readonly starts: string[];
  readonly counts: number[];
  readonly sums: number[];
  /** Grows with each change of the boundaries. */
  version: number;
  #splitting: Splitting | null = null;
  /** Starts of parts that have no boundary to split at. */
  readonly #solid = new Set<string>();

  constructor(starts: string[] = [...SPACES], counts = starts.map(() => 0), sums = starts.map(() => 0), version = 1) {
    this.starts = starts;
    this.counts = counts;
    this.sums = sums;
    this.version = version;
  }

  /** Null when these cannot be a digest. */
  static of(starts: string[], counts: number[], sums: number[], version: number): IndexDigest | null {
    const isOrdered = starts.every((start, i) => i === 0 || (starts[i - 1] ?? '') < start);
    const isWhole = counts.length === starts.length && sums.length === starts.length;
    const areNumbers = [...counts, ...sums].every((value) => Number.isSafeInteger(value) && value >= 0);
    const hasSpaces = starts[0] === SPACES[0] && starts.includes(SPACES[1]);
    return isOrdered && isWhole && areNumbers && hasSpaces ? new IndexDigest(starts, counts, sums, version) : null;
  }

  copy(): IndexDigest {
    return new IndexDigest([...this.starts], [...this.counts], [...this.sums], this.version);
  }

  add(key: string): void {
    const part = this.partOf(key);
    this.#change(part, 1, plus(this.sums[part] ?? 0, crc32(key)));
    if (this.#splitting?.part === part) this.#splitting.added.push(key);
  }

  remove(key: string): void {
    const part = this.partOf(key);
    this.#change(part, -1, minus(this.sums[part] ?? 0, crc32(key)));
    if (this.#splitting?.part === part) this.#splitting.isStale = true;
  }

  /** All parts together. */
  get whole(): Tally {
    const whole = new Tally();
    whole.count = this.counts.reduce((total, count) => total + count, 0);
    whole.sum = this.sums.reduce(plus, 0);
    return whole;
  }

  /** Entries of the index by stream: one for each event. */
  get events(): number {
    const first = this.starts.indexOf(SPACES[1]);
    return this.counts.slice(first).reduce((sum, count) => sum + count, 0);
  }

  partOf(key: string): number {
    let [low, high] = [0, this.starts.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((this.starts[middle] ?? '') <= key) low = middle;
      else high = middle;
    }
    return low;
  }

  /** The parts that hold keys of a range. */
  partsIn({ gte, lt }: Range): number[] {
    const parts: number[] = [];
    for (let part = this.partOf(gte); part < this.starts.length && (this.starts[part] ?? '') < lt; part += 1)
      parts.push(part);
    return parts;
  }

  rangeOf(part: number): Range {
    const start = this.starts[part] ?? '';
    const next = this.starts[part + 1];
    const { lt } = under(start.slice(0, 2));
    return { gte: start, lt: next?.startsWith(start.slice(0, 2)) ? next : lt };
  }

  /** Begins to split a part that has grown too large; null when there is none, or while another split goes on. */
  beginSplit(): number | null {
    if (this.#splitting !== null) return null;
    const most = this.#most();
    const part = this.counts.findIndex((count, i) => count > most && !this.#solid.has(this.starts[i] ?? ''));
    if (part === -1) return null;
    this.#splitting = { part, added: [], isStale: false };
    return part;
  }

  /** `keys`: all entries of the part when the split began, in order; null gives it up. */
  endSplit(keys: readonly string[] | null): void {
    const splitting = this.#splitting;
    this.#splitting = null;
    if (splitting === null || keys === null || splitting.isStale) return;
    const { part, added } = splitting;
    const start = this.starts[part] ?? '';
    const at = CUTS.map((cut) => boundary(keys[Math.floor(keys.length * cut)] ?? '')).find((key) => key > start);
    if (at === undefined) return void this.#solid.add(start);
    const right = new Tally();
    for (const key of [...keys, ...added]) if (key >= at) right.add(key);
    this.starts.splice(part + 1, 0, at);
    this.counts.splice(part, 1, (this.counts[part] ?? 0) - right.count, right.count);
    this.sums.splice(part, 1, minus(this.sums[part] ?? 0, right.sum), right.sum);
    this.version += 1;
    if (this.starts.length > JOINED_ABOVE) this.#join();
  }

  /** Entries of a part above which it is split. */
  #most(): number {
    const total = this.counts.reduce((sum, count) => sum + count, 0);
    return Math.max(2 * PART_ENTRIES, (2 * total) / PARTS_MAX);
  }

  /** Joins each part to the one before it when they are small together. [SEAL-8] */
  #join(): void {
    const most = this.#most() / 2;
    const [starts, counts, sums] = [this.starts, this.counts, this.sums].map((each) => each.splice(0)) as [
      string[],
      number[],
      number[],
    ];
    for (const [part, start] of starts.entries()) {
      const [count, sum, last] = [counts[part] ?? 0, sums[part] ?? 0, this.counts.length - 1];
      const joined = (this.counts[last] ?? 0) + count;
      if (last >= 0 && start !== SPACES[1] && joined <= most) {
        this.counts[last] = joined;
        this.sums[last] = plus(this.sums[last] ?? 0, sum);
      } else {
        this.starts.push(start);
        this.counts.push(count);
        this.sums.push(sum);
      }
    }
  }

  #change(part: number, by: 1 | -1, sum: number): void {
    this.counts[part] = (this.counts[part] ?? 0) + by;
    this.sums[part] = sum;
  }
}

/** Makes a digest of all index entries, which are given in order. */
export class DigestMaker {
  readonly #starts: string[] = [];
  readonly #tallies: Tally[] = [];

  add(key: string): void {
    const space = key.slice(0, 2);
    const isNew = this.#starts.at(-1)?.slice(0, 2) !== space;
    if (isNew) this.#cut(space);
    else if ((this.#tallies.at(-1)?.count ?? 0) >= PART_ENTRIES) {
      const at = boundary(key);
      if (at > (this.#starts.at(-1) ?? '')) this.#cut(at);
    }
    this.#tallies.at(-1)?.add(key);
  }

  made(): IndexDigest {
    for (const space of SPACES) {
      if (this.#starts.includes(space)) continue;
      if (space === SPACES[0]) {
        this.#starts.unshift(space);
        this.#tallies.unshift(new Tally());
      } else this.#cut(space);
    }
    while (this.#starts.length > PARTS_MAX) this.#merge();
    const [counts, sums] = [this.#tallies.map(({ count }) => count), this.#tallies.map(({ sum }) => sum)];
    return new IndexDigest(this.#starts, counts, sums, Date.now());
  }

  #cut(start: string): void {
    this.#starts.push(start);
    this.#tallies.push(new Tally());
  }

  /** Joins every second part to the one before it. */
  #merge(): void {
    for (let part = this.#starts.length - 1; part > 0; part -= 1) {
      const [start, into, from] = [this.#starts[part], this.#tallies[part - 1], this.#tallies[part]];
      if (part % 2 === 0 || start === SPACES[1] || into === undefined || from === undefined) continue;
      into.count += from.count;
      into.sum = plus(into.sum, from.sum);
      this.#starts.splice(part, 1);
      this.#tallies.splice(part, 1);
    }
  }
}
