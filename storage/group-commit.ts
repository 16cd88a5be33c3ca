/**
 * Group commit: a queue whose single writer puts everything that waits into its next write, so that many commits share
 * one disk sync or one round trip.
 *
 * GROUP-COMMIT-1  One write at a time, in order of arrival: concurrent writes could reach the log in any order.
 * GROUP-COMMIT-2  A write contains whole jobs, at most `GROUP_JOBS` of them and about `GROUP_CHARACTERS`: larger writes
 *     gain no throughput, and a write is encoded in one turn of the event loop, but for large records. [EVENT-LOG-5]
 * GROUP-COMMIT-3  Back-pressure: the queue is bounded, and a job beyond the bound is refused at once, so that callers
 *     slow down. A job of size 0 is the store's own and always accepted.
 * GROUP-COMMIT-4  Only the writer answers callers, when it knows the outcome of the write.
 */
import { nextTurn } from '../src/kit/system-clock.ts';
import { StoreUnavailable } from './contract.ts';

/** 256 commits make a batch of about 1,000 records; twice as many gain nothing measurable. */
const GROUP_JOBS = 256;
const GROUP_CHARACTERS = 1 << 20;
/** Bounds of the queue, 16,384 jobs and 64 Mi characters: 1 s to 2 s of work, and a limit on memory. */
const WAITING_JOBS_MAX = 16_384;
const WAITING_CHARACTERS_MAX = 64 << 20;

interface Queued {
  /** Characters. */
  readonly size: number;
  /** The job was not written. */
  fail(error: Error): void;
}

export class GroupCommit<Job extends Queued> {
  readonly #write: (jobs: readonly Job[]) => Promise<void>;
  readonly #newGroup: () => (job: Job) => boolean;
  #waiting: Job[] = [];
  #characters = 0;
  #running: Promise<void> | null = null;

  /**
   * `write` never rejects. `newGroup` is called for each write; the function that it returns says of one job after the
   * other whether it may join the write. It must take the first.
   */
  constructor(write: (jobs: readonly Job[]) => Promise<void>, newGroup: () => (job: Job) => boolean) {
    this.#write = write;
    this.#newGroup = newGroup;
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
    // Waits one turn of the event loop, so that requests that arrived together share the first write.
    await nextTurn();
    while (this.#waiting.length > 0) await this.#write(this.#take());
    this.#running = null;
  }

  #take(): Job[] {
    const mayJoin = this.#newGroup();
    let [count, size] = [0, 0];
    for (const job of this.#waiting) {
      if (count >= GROUP_JOBS || size >= GROUP_CHARACTERS || !mayJoin(job)) break;
      count += 1;
      size += job.size;
    }
    this.#characters -= size;
    return this.#waiting.splice(0, count);
  }
}
