/**
 * The one committer: everything that waits goes into the next batch.
 *
 * GROUP-COMMIT-1  One batch at a time, in order of arrival: concurrent synced batches land in any order.
 * GROUP-COMMIT-2  A batch holds whole jobs, at most `GROUP_JOBS` of them and about `GROUP_CHARACTERS`: longer ones stop paying.
 * GROUP-COMMIT-3  What waits is bounded; beyond it a job is refused at once, which tells the caller to slow down. A job
 *     without a size is the store's own and always taken.
 * GROUP-COMMIT-4  Callers are answered only by `write`, after its batch has ended well.
 */
import { nextTurn } from '../../src/kit/system-clock.ts';
import { StoreUnavailable } from '../contract.ts';
import type { NamedSeen } from '../keys.ts';
import type { Batch } from './leveldb.ts';
import type { Found } from './verify.ts';
import type { Versions } from './versions.ts';

/** 256 commits make a batch of about a thousand records; twice that gains nothing measurable. */
const GROUP_JOBS = 256;
const GROUP_CHARACTERS = 4 << 20;
/** What may wait: a second or two of work, and a bound on memory. */
const WAITING_JOBS_MAX = 16_384;
const WAITING_CHARACTERS_MAX = 64 << 20;

export interface Job {
  readonly size: number;
  /** Must the batch that holds it reach the disk before it is done? */
  readonly synced: boolean;
  /** It needs a batch of its own, because it reads what earlier ones wrote, or is long. */
  readonly alone?: boolean;
  /** Rows that it was decided on. */
  readonly seen?: readonly NamedSeen[];
  stage(batch: Batch, group: Group): void;
  /** The batch is written: remember what it changed and answer. */
  done(found: Found): void;
  /** The batch may be written or not: `found` is what the reopened database holds, null when it did not reopen yet. */
  recall(found: Found | null, error: Error): void;
  /** It was not written. */
  fail(error: Error): void;
}

/** What the members of one batch know of each other. */
export interface Group {
  /** Sequence of the next event. */
  next: number;
  /** Deliveries that earlier members open (true) or end (false). */
  readonly opened: Map<string, boolean>;
  readonly versions: Versions;
}

export class GroupCommit {
  readonly #write: (jobs: readonly Job[]) => Promise<void>;
  #waiting: Job[] = [];
  #characters = 0;
  #running: Promise<void> | null = null;

  /** `write` never rejects. */
  constructor(write: (jobs: readonly Job[]) => Promise<void>) {
    this.#write = write;
  }

  push(job: Job): void {
    const full = this.#waiting.length >= WAITING_JOBS_MAX || this.#characters >= WAITING_CHARACTERS_MAX;
    if (full && job.size > 0) {
      throw new StoreUnavailable(`too much waits to be written (${this.#waiting.length} commits)`);
    }
    this.#waiting.push(job);
    this.#characters += job.size;
    this.#running ??= this.#run();
  }

  /** Fails everything that waits. */
  refuse(error: Error): void {
    this.#characters = 0;
    for (const job of this.#waiting.splice(0)) job.fail(error);
  }

  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // One turn of the loop: requests that arrived together share the first batch too.
    await nextTurn();
    while (this.#waiting.length > 0) await this.#write(this.#take());
    this.#running = null;
  }

  #take(): Job[] {
    let count = 0;
    let size = 0;
    for (const job of this.#waiting) {
      if (count >= GROUP_JOBS || size >= GROUP_CHARACTERS || (job.alone && count > 0)) break;
      count += 1;
      size += job.size;
      if (job.alone) break;
    }
    this.#characters -= size;
    return this.#waiting.splice(0, count);
  }
}
