/**
 * The seal: records in the database that say what its log must hold up to a sequence, so that a start need not read it
 * all before it serves.
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
 */
import type { Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { encode, headOf, inspect } from '../records.ts';
import { IndexDigest } from './index-digest.ts';
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
