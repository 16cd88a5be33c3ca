/**
 * Optimistic concurrency check: whether the rows that the commits of a batch were decided on are unchanged
 * (CONTRACT-11).
 *
 * VERSIONS-1  Row versions are read while no other batch is in progress, and the commits of the batch are compared in
 *     their order: no write can fall between the comparison and the batch.
 * VERSIONS-2  A rotted index may hide a row or return an older version (LEVEL-READS-4): `sought` then reads the row.
 */
import { Conflict, type RowKey, type Seq, StoreUnavailable } from '../contract.ts';
import type { NamedSeen } from '../keys.ts';
import { headOf } from '../records.ts';
import type { RowHead } from './event-log.ts';
import { type Database, lookUp, sought } from './leveldb.ts';
import type { Found } from './verify.ts';

export class Versions {
  readonly #known = new Map<string, Seq | null | Error>();

  /** Reads the present version of every row that a commit of the batch was decided on. Never rejects. */
  static async of(seen: readonly NamedSeen[], db: Database, found: Found): Promise<Versions> {
    const versions = new Versions();
    const hidden = new Set<string>();
    for (const each of seen) {
      const { name } = each;
      if (!versions.#known.has(name)) versions.#know(name, () => versionOf(db, found, each, name));
      const isThere = each.seq !== null || found.order.has(each);
      if (isThere && versions.#known.get(name) === null) hidden.add(name);
    }
    for (const name of hidden) {
      const value = await sought(db, name).catch((error: Error) => error);
      versions.#know(name, () => headIn(value)?.[0] ?? null);
    }
    return versions;
  }

  /**
   * The error that refuses a commit because it conflicts with the store or with an earlier commit of its batch; null
   * when there is none. `head`: the sequence up to which the batch has been assigned so far.
   */
  refusal(seen: readonly NamedSeen[], head: Seq): Error | null {
    for (const each of seen) {
      const now = this.#known.get(each.name);
      if (now instanceof Error) {
        return new StoreUnavailable('a row that this commit was decided on cannot be read', { cause: now });
      }
      if (now !== each.seq) return new Conflict(each, head);
    }
    return null;
  }

  /** Records that an earlier commit of the batch writes or removes a row. */
  written(name: string, seq: Seq | null): void {
    if (this.#known.has(name)) this.#known.set(name, seq);
  }

  #know(name: string, look: () => Seq | null): void {
    try {
      this.#known.set(name, look());
    } catch (error) {
      this.#known.set(name, error as Error);
    }
  }
}

/** Also null when the engine returns an older version. [VERSIONS-2] */
function versionOf(db: Database, { recent, order }: Found, key: RowKey, name: string): Seq | null {
  const written = recent.seqOf(name);
  if (written !== undefined) return written;
  if (order.isAbsent(key)) return null;
  const value = db.getSync<Buffer, Buffer>(Buffer.from(name), lookUp('buffer', order.sizeOf(key) > 0));
  // Converts only the head to text: the row may be large.
  const head = headIn(value?.toString('utf8', 0, value.indexOf('\n') + 1));
  const upd = order.updOf(key);
  if (head === null || (upd !== undefined && upd !== head[2])) return null;
  // Each decision names the row of the directory, which is written seldom.
  recent.addSeq(name, head[0]);
  return head[0];
}

function headIn(value: string | undefined | Error): RowHead | null {
  if (value instanceof Error) throw value;
  return value === undefined ? null : (headOf(value) as RowHead);
}
