/** Jobs of the embedded store: what waits for its turn in the next batch. */
import type * as keys from '../keys.ts';
import type { Batch } from './leveldb.ts';
import type { Found } from './verify.ts';
import type { Versions } from './versions.ts';

export interface Job {
  readonly size: number;
  /** Whether the batch must be synced to the disk before the job is done. */
  readonly synced: boolean;
  /** The job needs a batch of its own, because it reads what earlier jobs wrote or because it is long. */
  readonly alone?: boolean;
  /** Row versions that the commit was decided on. */
  readonly seen?: readonly keys.NamedSeen[];
  stage(batch: Batch, group: Group): void;
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
