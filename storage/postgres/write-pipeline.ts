/**
 * The write pipeline: group commit on PostgreSQL. One statement carries everything that waits, and each job is answered
 * once its outcome is known.
 *
 * WRITE-PIPELINE-1  One statement at a time: two could overtake each other. [GROUP-COMMIT-1]
 * WRITE-PIPELINE-2  No statement is cancelled. A caller that waits too long gets `OutcomeUnknown`, and the statement goes
 *     on. A job that was not sent yet is withdrawn and never sent.
 * WRITE-PIPELINE-3  When a connection ends during a statement, the pipeline looks for its commits in the log. A commit
 *     that is there is made as durable as any other before it is acknowledged; an absent one is sent again. So a commit
 *     is in the log at most once.
 * WRITE-PIPELINE-4  Once a commit may have been written, it is refused only when it can no longer be in the log.
 * WRITE-PIPELINE-5  A settle waits for the disk unless all of its rows are DELIVERED: an owner goes on after a crash of the
 *     server, and its later floors pass a row that the crash lost. Without the row of an arrived delivery, or a floor, it is
 *     only sent again (CONTRACT-6).
 * WRITE-PIPELINE-6  Settles that may not be on the disk are written again, before any later one, once the sessions of their
 *     time have ended: what had arrived would be sent again at the next start, behind later changes that are not.
 * WRITE-PIPELINE-7  A settle that need not wait for the disk waits `GATHER_MS` for a commit, in whose statement it goes: a statement of
 *     its own costs the database two thirds of a commit. Whatever comes behind it, and `idle`, end its wait, so the order stays (CONTRACT-6).
 */
import type { Client } from 'pg';
import { type Clock, every, sleep } from '../../src/kit/clock.ts';
import type { Appended, Seen, Seq } from '../contract.ts';
import { Conflict, Fenced, OutcomeUnknown, StoreUnavailable } from '../contract.ts';
import { GroupCommit } from '../group-commit.ts';
import { rowKey } from '../keys.ts';
import { acknowledged, ask, type Durability, destroy, isAlive, kindOf, noticesOf, within, wordsOf } from './connect.ts';
import { CONFIRM, type Moved, parametersOf, RECALL, type Recalled, type Work, WRITE } from './write-parameters.ts';

/** Interval for asking whether an unanswered statement still executes, ms. Two no in a row end the connection. */
const LOOK_MS = 5000;
const RETRY_MS = 50;
/** After this time a session of their own is asked for settles again, ms. */
const ASK_AGAIN_MS = 10_000;

/** Longest wait of a settle for a commit, ms: after the death of this node what ended in that time is sent again. */
const GATHER_MS = 50;

/** Settles that may not be on the disk: with more the next statement waits for the disk, so that memory holds few. */
const UNFLUSHED_MAX = 64;

export interface Job extends Work {
  readonly size: number;
  /** The job may be in the log. [WRITE-PIPELINE-4] */
  sent: boolean;
  /** The caller got the answer that the job was not written. [WRITE-PIPELINE-2] */
  withdrawn: boolean;
  /** Null for a job without a commit. */
  done(appended: Appended | null): void;
  fail(error: Error): void;
}

export interface PipelineOptions {
  readonly clock: Clock;
  readonly connect: (durability: Durability) => Promise<Client>;
  /** Increases with each call. [WRITE-PARAMETERS-3] */
  readonly turn: () => number;
  /** Whether the server is executing a statement of the session. */
  readonly isWorking: (client: Client) => Promise<boolean>;
  readonly written: (head: Seq) => void;
  /** The server refused a statement for a reason other than its content. */
  readonly refused: (error: Error) => void;
  /** The connection ended or the log was taken over: check both. */
  readonly gone: () => void;
  /** Test hook: called before a statement is sent and after its answer. */
  readonly point: (name: string) => void;
}

export class WritePipeline {
  readonly #options: PipelineOptions;
  readonly #queue = new GroupCommit<Job>((jobs) => this.#writeGroup(jobs), newGroup);
  /** The settle that waits for a commit, and the timer that ends its wait. [WRITE-PIPELINE-7] */
  #gathered: { readonly job: Job; readonly timer: unknown } | null = null;
  readonly #clients: Partial<Record<Durability, Client>> = {};
  /** Sessions that are being opened: a confirmation and a write may need one at the same time. */
  readonly #opening = new Map<Durability, Promise<Client>>();
  /** Until when settles take the session of commits, because the server refused them one; monotonic, ms. */
  #settlesWithCommits = 0;
  /** Settles that may not be on the disk, and sessions that end when the server does. [WRITE-PIPELINE-6] */
  #unflushed: { readonly jobs: readonly Job[]; readonly since: ReadonlySet<Client> } = nothingUnflushed;
  /** Jobs of the present statement. */
  #writing: readonly Job[] = [];
  #stopped = false;

  constructor(options: PipelineOptions) {
    this.#options = options;
  }

  push(job: Job): void {
    this.#release();
    if (job.settle === null || mustBeFlushed(job)) return this.#queue.push(job);
    const timer = this.#options.clock.setTimeout(() => this.#release(), GATHER_MS);
    this.#gathered = { job, timer };
  }

  idle(): Promise<void> {
    this.#release();
    return this.#queue.idle();
  }

  #release(): void {
    if (this.#gathered === null) return;
    const { job, timer } = this.#gathered;
    this.#gathered = null;
    this.#options.clock.clearTimeout(timer);
    try {
      this.#queue.push(job);
    } catch (error) {
      job.fail(error as Error);
    }
  }

  /** Resolves when every job pushed before has its answer; sends nothing of its own. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      const mark = { fence: null, commit: null, settle: null, size: 0, sent: false, withdrawn: false };
      this.push({ ...mark, done: () => resolve(), fail: () => resolve() });
    });
  }

  /** A change of records by other sessions has flushed the settles, whose rows it may have changed. */
  flushed(): void {
    this.#unflushed = nothingUnflushed;
  }

  /** The server lacks what these jobs were decided on: none goes there any more. (SESSION-CHECKS-1) */
  abandon(error: StoreUnavailable): void {
    this.#unflushed = nothingUnflushed;
    for (const job of this.#writing) {
      job.withdrawn = true;
      job.fail(job.sent ? new OutcomeUnknown(error.message) : error);
    }
    this.#release();
    this.#queue.refuse(error);
  }

  /** Stops asking for the outcome of commits in doubt. */
  stop(): void {
    this.#stopped = true;
  }

  /**
   * Makes a test write within `timeoutMs` on the session of commits, which it opens if there is none: another session of
   * the node proves nothing, because the server may refuse further ones. Rejects with the cause.
   */
  async confirm(timeoutMs: number): Promise<void> {
    await this.#confirm((client, answer) => within(client, timeoutMs, answer));
  }

  /** Opens the session of commits before one needs it, so that a server which refuses it is found. Never rejects. */
  async open(): Promise<void> {
    await this.#session('flushed').catch((error: unknown) => {
      if (kindOf(error) === 'refused') this.#options.refused(error as Error);
    });
  }

  /** Never rejects. A mark of `drained` is answered behind the jobs of its group. */
  async #writeGroup(group: readonly Job[]): Promise<void> {
    const isMark = ({ commit, settle }: Job) => commit === null && settle === null;
    const jobs = group.filter((job) => !isMark(job));
    this.#writing = jobs;
    if (jobs.length > 0) await this.#write(jobs, false);
    this.#writing = [];
    for (const mark of group.filter(isMark)) mark.done(null);
  }

  /** Never rejects: answers every job. `inDoubt`: any of the jobs may already be in the log. */
  async #write(group: readonly Job[], inDoubt: boolean): Promise<void> {
    let jobs = group;
    let doubted = inDoubt;
    /** The server refused the jobs, since one of their commits is in the log under its key. */
    let isReplay = false;
    for (;;) {
      try {
        const client = await this.#client(jobs);
        if (doubted || isReplay) {
          const others = await this.#recall(client, jobs, !doubted);
          const isNone = others.length === jobs.length;
          if (isReplay && isNone && jobs.length > 1) return await this.#oneByOne(jobs, doubted);
          jobs = others;
          isReplay = false;
        }
        jobs = jobs.filter((job) => !job.withdrawn);
        if (jobs.length === 0) return;
        const moved = await this.#send(client, [...this.#lost(client, jobs), ...jobs]);
        if (moved !== null) return await this.#answer(client, jobs, moved, doubted);
        doubted = true;
      } catch (error) {
        const kind = kindOf(error);
        const wasSent = jobs.some((job) => job.sent);
        if (kind === 'gone' && wasSent && !this.#stopped) {
          doubted ||= !isReplay;
          this.#options.gone();
          await sleep(this.#options.clock, RETRY_MS);
        } else if (kind === 'data' && isSecond(error)) {
          isReplay = true;
        } else if (kind === 'data' && jobs.length > 1) {
          return await this.#oneByOne(jobs, doubted);
        } else if (kind !== 'again') return this.#refuse(jobs, error as Error, doubted || isReplay);
      }
    }
  }

  async #oneByOne(jobs: readonly Job[], doubted: boolean): Promise<void> {
    for (const job of jobs) await this.#write([job], doubted);
  }

  /** Resolves with the previous head, with nothing when the fence was not held, or with null: outcome unknown. */
  async #send(client: Client, jobs: readonly Job[]): Promise<readonly Moved[] | null> {
    const { clock, isWorking, point, turn } = this.#options;
    const parameters = parametersOf(jobs, turn());
    for (const job of jobs) job.sent = true;
    const notices = noticesOf(client);
    let idle = 0;
    const look = (working: boolean) => {
      idle = working ? 0 : idle + 1;
      if (idle > 1) destroy(client);
    };
    const stopWatch = every(clock, LOOK_MS, () => isWorking(client).then(look, () => {}));
    try {
      point('write.before');
      const moved = await ask<Moved>(client, 'write', WRITE, parameters);
      point('write.after');
      return notices.cancelled() ? null : moved;
    } finally {
      stopWatch();
      notices.end();
    }
  }

  async #answer(client: Client, jobs: readonly Job[], [moved]: readonly Moved[], doubted: boolean): Promise<void> {
    if (moved === undefined) return this.#fenced(client, jobs, doubted);
    let { head } = moved;
    if (moved.stale !== null) return this.#conflicting(client, jobs, moved, doubted);
    this.#written(client, jobs);
    for (const job of jobs) {
      const first = head + 1;
      head += job.commit?.events.length ?? 0;
      job.done(job.commit === null ? null : { first, last: head, replayed: false });
    }
    this.#options.written(head);
  }

  /** What may be lost, to be written with these jobs. [WRITE-PIPELINE-6] */
  #lost(client: Client, jobs: readonly Job[]): readonly Job[] {
    const { jobs: unflushed, since } = this.#unflushed;
    return since.has(client) || tokenOf(unflushed) !== tokenOf(jobs) ? [] : unflushed;
  }

  #written(client: Client, jobs: readonly Job[]): void {
    const { jobs: unflushed, since } = this.#unflushed;
    const isSame = tokenOf(unflushed) === tokenOf(jobs);
    if (client === this.#clients.lazy) {
      const { flushed = client } = this.#clients;
      this.#unflushed = { jobs: isSame ? [...unflushed, ...jobs] : jobs, since: new Set([client, flushed]) };
    } else if (since.has(client) || tokenOf(jobs) !== null) this.#unflushed = nothingUnflushed;
  }

  /** Nothing was written. Fails the jobs decided on a changed row and writes the others. [WRITE-PARAMETERS-7] */
  async #conflicting(client: Client, jobs: readonly Job[], { head, stale }: Moved, doubted: boolean): Promise<void> {
    const placed = (seen: Seen) => `${rowKey(seen)} ${seen.seq}`;
    const changed = new Set((JSON.parse(stale ?? '[]') as Seen[]).map(placed));
    const met = ({ commit }: Job) => commit?.seen.find((seen) => changed.has(placed(seen)));
    // A commit already in the log has changed these rows itself, and is acknowledged. (CONTRACT-3)
    for (const job of await this.#recall(client, jobs.filter(met), !doubted)) {
      job.fail(new Conflict(met(job) as Seen, head));
    }
    const others = jobs.filter((job) => !met(job));
    if (!doubted) for (const job of others) job.sent = false;
    if (others.length > 0) await this.#write(others, doubted);
  }

  async #fenced(client: Client, jobs: readonly Job[], doubted: boolean): Promise<void> {
    this.#options.gone();
    // A job in doubt may have been written before another node took the log. [WRITE-PIPELINE-4]
    const absent = doubted ? await this.#recall(client, jobs, false) : jobs;
    for (const { fence, fail } of absent) {
      fail(new Fenced(`the log is not held by ${fence?.node} with token ${fence?.token} any more`));
    }
  }

  /** Acknowledges the commits that are in the log and returns the other jobs. [WRITE-PIPELINE-3] */
  async #recall(client: Client, jobs: readonly Job[], replayed: boolean): Promise<Job[]> {
    const asked = jobs.flatMap(({ commit }) => commit?.idem ?? []);
    if (asked.length === 0) return [...jobs];
    const found = await ask<Recalled>(client, 'recall', RECALL, [asked]);
    if (found.length === 0) return [...jobs];
    await this.#confirm();
    const ends = new Map(found.map((each) => [each.idem, each]));
    return jobs.filter((job) => {
      const end = job.commit === null ? undefined : ends.get(job.commit.idem);
      if (end === undefined) return true;
      this.#options.written(end.last);
      job.done({ first: end.last - end.n + 1, last: end.last, replayed });
      return false;
    });
  }

  async #confirm(bounded = (_client: Client, answer: Promise<void>) => answer): Promise<void> {
    const client = await this.#session('flushed');
    await bounded(
      client,
      acknowledged(client, () => client.query(CONFIRM)),
    );
  }

  #refuse(jobs: readonly Job[], cause: Error, doubted: boolean): void {
    const kind = kindOf(cause);
    const words = `the database ${kind === 'gone' ? 'is away' : 'refused a write'}: ${wordsOf(cause)}`;
    for (const job of jobs) {
      const isUnknown = job.sent && (doubted || kind === 'gone');
      if (kind === 'data') job.fail(new TypeError(`the database cannot hold this: ${wordsOf(cause)}`, { cause }));
      else job.fail(new (isUnknown ? OutcomeUnknown : StoreUnavailable)(words, { cause }));
    }
    if (kind === 'data') return;
    this.#queue.refuse(new StoreUnavailable(words, { cause }));
    if (kind === 'gone') this.#options.gone();
    else this.#options.refused(cause);
  }

  /** What need not wait for the disk [WRITE-PIPELINE-5] may when the server grants no second session. */
  async #client(jobs: readonly Job[]): Promise<Client> {
    const { clock } = this.#options;
    const isMuch = this.#unflushed.jobs.length > UNFLUSHED_MAX;
    if (isMuch || jobs.some(mustBeFlushed) || clock.monotonic() < this.#settlesWithCommits)
      return this.#session('flushed');
    return this.#session('lazy').catch((error: unknown) => {
      if (kindOf(error) !== 'refused') throw error;
      this.#settlesWithCommits = clock.monotonic() + ASK_AGAIN_MS;
      return this.#session('flushed');
    });
  }

  async #session(durability: Durability): Promise<Client> {
    const present = this.#clients[durability];
    if (present !== undefined && isAlive(present)) return present;
    const opening = this.#opening.get(durability) ?? this.#open(durability);
    this.#opening.set(durability, opening);
    return opening;
  }

  async #open(durability: Durability): Promise<Client> {
    try {
      const client = await this.#options.connect(durability);
      this.#clients[durability] = client;
      return client;
    } finally {
      this.#opening.delete(durability);
    }
  }
}

const nothingUnflushed = { jobs: [], since: new Set<Client>() };

const tokenOf = ([job]: readonly Job[]): number | null => job?.fence?.token ?? null;

/** WRITE-PIPELINE-5. */
const mustBeFlushed = ({ commit, settle }: Job): boolean =>
  commit !== null || (settle?.rows.some(({ row }) => row.state !== 'DELIVERED') ?? false);

/** Jobs of one statement share a fence, and none was decided on what another writes. [WRITE-PARAMETERS-7] */
function newGroup(): (job: Job) => boolean {
  let first: Job | null = null;
  const written = new Set<string>();
  return (job) => {
    first ??= job;
    if (job.fence?.token !== first.fence?.token) return false;
    if (job.commit?.seen.some(({ name }) => written.has(name))) return false;
    for (const name of job.commit?.puts.keys() ?? []) written.add(name);
    return true;
  };
}

const isSecond = (error: unknown): boolean =>
  error instanceof Error && 'constraint' in error && error.constraint === 'events_idem';
