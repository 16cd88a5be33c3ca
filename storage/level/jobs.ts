/**
 * Jobs of the embedded store: what waits for its turn in the next batch, and whether the rows that the commits of a batch were decided
 * on are unchanged (CONTRACT-11).
 *
 * LEVEL-JOBS-1  Row versions are read while no other batch is in progress, and the commits of the batch are compared in
 *     their order: no write can fall between the comparison and the batch.
 * LEVEL-JOBS-2  A rotted index may hide a row or return an older version (LEVEL-READS-4): `sought` then reads the row.
 */
import { Conflict, type RowKey, type Seq, StoreUnavailable } from '../contract.ts';
import type { NamedSeen } from '../keys.ts';
import { headOf } from '../records.ts';
import type { RowHead } from './event-log.ts';
import { type Batch, type Database, lookUp, sought } from './leveldb.ts';
import type { Found } from './verify.ts';

export interface Job {
  readonly size: number;
  /** Whether the batch must be synced to the disk before the job is done. */
  readonly synced: boolean;
  /** The job needs a batch of its own, because it reads what earlier jobs wrote or because it is long. */
  readonly alone?: boolean;
  /** Row versions that the commit was decided on. */
  readonly seen?: readonly NamedSeen[];
  /** What it yields separates pieces that are staged in different turns of the event loop. */
  stage(batch: Batch, group: Group): Iterable<void> | void;
  /** The batch is written: update memory and answer the caller. */
  done(found: Found): void;
  /** Unknown whether the batch was written: `found` is the reopened content, null when it did not reopen at once. */
  recall(found: Found | null, error: Error): void;
  /** The job was not written. */
  fail(error: Error): void;
}

/** State shared by the jobs of one batch. */
export interface Group {
  /** Sequence of the next event. */
  next: number;
  /** Deliveries that earlier jobs of the batch open (true) or end (false), by the key of their open row. */
  readonly opened: Map<string, boolean>;
  readonly versions: Versions;
}

/** A job that needs a batch of its own joins no other, and no other joins it. */
export function newGroup(): (job: Job) => boolean {
  let first: Job | null = null;
  return (job) => {
    const joins = first === null || !(first.alone || job.alone);
    first ??= job;
    return joins;
  };
}

/** The optimistic concurrency check of one batch. */
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

/** Also null when the engine returns an older version. [LEVEL-JOBS-2] */
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
