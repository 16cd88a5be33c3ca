/**
 * Whether the rows that a commit was decided on are still what they were (CONTRACT-11), of the commits of one batch.
 *
 * VERSIONS-1  The engine is asked while no other batch is under way, and members of the batch are compared in their order: so nothing comes between
 *     the comparison and the write.
 * VERSIONS-2  An index that has rotted may hide a row, or show an older one, as it may to reads (LEVEL-READS-4): the row is sought then.
 */
import { Conflict, type RowKey, type Seq, StoreUnavailable } from '../contract.ts';
import type { NamedSeen } from '../keys.ts';
import { headOf } from '../records.ts';
import type { RowHead } from './event-log.ts';
import { type Database, sought } from './leveldb.ts';
import type { Found } from './verify.ts';

export class Versions {
  readonly #known = new Map<string, Seq | null | Error>();

  /** Of all rows that some of a batch's commits were decided on. Never rejects. */
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

  /** The error of a commit that conflicts with the store or with an earlier member of its batch, which ends at `head` so far; else null. */
  refusal(seen: readonly NamedSeen[], head: Seq): Error | null {
    for (const each of seen) {
      const now = this.#known.get(each.name);
      if (now instanceof Error) {
        return new StoreUnavailable('what this was decided on cannot be read', { cause: now });
      }
      if (now !== each.seq) return new Conflict(each, head);
    }
    return null;
  }

  /** A member of the batch writes a row, or removes it. */
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

/** Null also where the engine shows an older one. [VERSIONS-2] */
function versionOf(db: Database, { recent, order }: Found, key: RowKey, name: string): Seq | null {
  const written = recent.seqOf(name);
  if (written !== undefined) return written;
  if (order.isAbsent(key)) return null;
  const value = db.getSync<Buffer, Buffer>(Buffer.from(name), { keyEncoding: 'buffer', valueEncoding: 'buffer' });
  // Of a large row the head alone is made text.
  const head = headIn(value?.toString('utf8', 0, value.indexOf('\n') + 1));
  const upd = order.updOf(key);
  return head === null || (upd !== undefined && upd !== head[2]) ? null : head[0];
}

function headIn(value: string | undefined | Error): RowHead | null {
  if (value instanceof Error) throw value;
  return value === undefined ? null : (headOf(value) as RowHead);
}
