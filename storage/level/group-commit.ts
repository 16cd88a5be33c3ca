/**
 * Group commit: a single writer that puts everything in its queue into the next batch, so that many commits share one
 * disk sync.
 *
 * GROUP-COMMIT-1  One batch at a time, in order of arrival: concurrent synced batches could reach the log in any order.
 * GROUP-COMMIT-2  A batch contains whole jobs, at most `GROUP_JOBS` of them and about `GROUP_CHARACTERS`: larger
 *     batches gain no throughput.
 * GROUP-COMMIT-3  Back-pressure: the queue is bounded, and a job beyond the bound is refused at once, so that callers
 *     slow down. A job of size 0 is the store's own and always accepted.
 * GROUP-COMMIT-4  Only `write` answers callers, after the batch was written successfully.
 */
import { nextTurn } from '../../src/kit/system-clock.ts';
import { StoreUnavailable } from '../contract.ts';
import type { NamedSeen } from '../keys.ts';
import type { Batch } from './leveldb.ts';
import type { Found } from './verify.ts';
import type { Versions } from './versions.ts';

/** 256 commits make a batch of about 1,000 records; twice as many gain nothing measurable. */
const GROUP_JOBS = 256;
const GROUP_CHARACTERS = 4 << 20;
/** Bounds of the queue, 16,384 jobs and 64 Mi characters: 1 s to 2 s of work, and a limit on memory. */
const WAITING_JOBS_MAX = 16_384;
const WAITING_CHARACTERS_MAX = 64 << 20;

export interface Job {
  readonly size: number;
  /** Whether the batch must be synced to the disk before the job is done. */
  readonly synced: boolean;
  /** The job needs a batch of its own, because it reads what earlier jobs wrote or because it is long. */
  readonly alone?: boolean;
  /** Row versions that the commit was decided on. */
  readonly seen?: readonly NamedSeen[];
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

  /** Fails every job in the queue. */
  refuse(error: Error): void {
    this.#characters = 0;
    for (const job of this.#waiting.splice(0)) job.fail(error);
  }

  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // Waits one turn of the event loop, so that requests that arrived together share the first batch.
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
