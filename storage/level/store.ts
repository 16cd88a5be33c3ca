/**
 * The embedded store: implements `contract.ts` on one LevelDB database for a single process.
 *
 * LEVEL-STORE-1  A commit is answered only after its batch is durable (CONTRACT-1), which includes the directory entry
 *     of the log file that holds it and everything in the log files that the engine has closed (SIDE-FILES-2,
 *     SIDE-FILES-3). Memory is updated after the batch, in batch order.
 * LEVEL-STORE-2  After a failed write the store looks for each commit of the batch in the reopened log: a commit that
 *     is there succeeds, a commit that is absent is refused. When the database does not reopen at once, the caller gets
 *     `OutcomeUnknown` and retries with the same idempotency key.
 * LEVEL-STORE-3  A second call with a key that is in flight shares the outcome of the first. Later calls find the key
 *     in memory, which is filled from the log at open (CONTRACT-3).
 * LEVEL-STORE-4  A batch that contains only settles is not synced; a synced write follows within `FLUSH_MS`
 *     (CONTRACT-6).
 * LEVEL-STORE-5  A commit is rejected with `Conflict` only once its batch is durable, so that the conflicting commit is
 *     durable as well (CONTRACT-11).
 * LEVEL-STORE-6  A store that nobody writes syncs a record of its own every `PROBE_MS`: `health()` says that its disk is gone before a
 *     partner's push meets it.
 */
import { join } from 'node:path';
import { background, every } from '../../src/kit/clock.ts';
import { nextTurn, systemClock } from '../../src/kit/system-clock.ts';
import type * as contract from '../contract.ts';
import { Fenced, OutcomeUnknown, StoreUnavailable } from '../contract.ts';
import { GroupCommit } from '../group-commit.ts';
import * as keys from '../keys.ts';
import { encode } from '../records.ts';
import { writeBackup } from './backup.ts';
import type { Sealing } from './backup-keys.ts';
import { indexKeys, type Prepared, prepare, stage } from './event-log.ts';
import { type Group, type Job, newGroup, Versions } from './jobs.ts';
import { BALLAST_BYTES, type Batch, SYNCED } from './leveldb.ts';
import { Lifecycle, type LifecycleOptions } from './lifecycle.ts';
import type { Mounted } from './mounted.ts';
import * as outbox from './outbox.ts';
import { Reads } from './reads.ts';
import { applyRewrite, type Rewritten, reclaimRange, stageRewrite } from './rewrite.ts';
import { splitLarge } from './seal.ts';
import { filesWith } from './side-files.ts';
import { applyTrim, Compaction, prepareTrim, stageTrim } from './trim.ts';
import { type Found, RECENT_EVENTS } from './verify.ts';

/** How long a settle may stay unsynced, ms. CONTRACT-6 allows about 1 s. */
const FLUSH_MS = 500;
/** Shorter, and an idle hub syncs its disk more often; longer, and `/readyz` says later that the disk is gone. [LEVEL-STORE-6] */
const PROBE_MS = 5_000;

export interface LevelStoreOptions extends Omit<LifecycleOptions, 'ballastBytes'> {
  /** Name of this process in fences. */
  readonly node: string;
  /** Disk space reserved for reopening after the disk was full, bytes; 0 reserves none. */
  readonly ballastBytes?: number;
  /** Absent or null: backups are not sealed. */
  readonly sealing?: Sealing | null;
}

/**
 * Opens the store and creates it when missing. Rejects when it is in use, or when opening would destroy or hide data.
 */
export async function openLevelStore(options: LevelStoreOptions): Promise<contract.Store> {
  const { node, ballastBytes = BALLAST_BYTES } = options;
  const lifecycle = new Lifecycle({ ...options, ballastBytes });
  try {
    await lifecycle.start();
  } catch (error) {
    await lifecycle.close();
    throw error;
  }
  return new LevelStore(lifecycle, node, options.sealing ?? null);
}

class LevelStore extends Reads implements contract.Store {
  readonly #fence: contract.Fence;
  readonly #groupCommit = new GroupCommit<Job>((jobs) => this.#write(jobs), newGroup);
  /** LEVEL-STORE-3: commits in flight, by idempotency key. */
  readonly #flying = new Map<string, Promise<contract.Appended>>();
  readonly #compaction = new Compaction();
  readonly #sealing: Sealing | null;
  #trimming: Promise<void> = Promise.resolve();
  /** The backups that run. */
  #backingUp: Promise<unknown> = Promise.resolve();
  #flush: unknown = null;
  readonly #stopProbes: () => void;
  /** A batch was synced since the last probe. */
  #isProven = false;
  #isSealing = false;
  #closed = false;

  constructor(lifecycle: Lifecycle, node: string, sealing: Sealing | null) {
    super(lifecycle);
    this.#sealing = sealing;
    this.#fence = { token: lifecycle.token, node };
    lifecycle.onDamage = (error) =>
      this.#aside(() => {
        throw error;
      });
    this.#stopProbes = every(systemClock, PROBE_MS, () => {
      if (!this.#isProven) this.#schedule(false);
      this.#isProven = false;
    });
  }

  held(): contract.Fence | null {
    return this.#closed ? null : this.#fence;
  }

  async append(commit: contract.Commit): Promise<contract.Appended> {
    this.#checkFence(commit.fence);
    const known = this.lifecycle.mounted().found.commits.get(commit.idem);
    if (known !== undefined) return { first: known[0], last: known[1], replayed: true };
    const flying = this.#flying.get(commit.idem);
    if (flying !== undefined) return { ...(await flying), replayed: true };
    this.lifecycle.writable();
    const flight = this.#commit(prepare(commit));
    this.#flying.set(commit.idem, flight);
    try {
      return await flight;
    } finally {
      this.#flying.delete(commit.idem);
    }
  }

  async settle(
    fence: contract.Fence,
    rows: readonly contract.DeliveryRow[],
    floors: readonly contract.Floor[],
  ): Promise<void> {
    this.#checkFence(fence);
    this.lifecycle.writable();
    const settle = outbox.prepareSettle(rows, floors);
    return new Promise((resolve, reject) => {
      this.#groupCommit.push({
        size: settle.size,
        synced: false,
        stage: (batch, { opened }) => outbox.stageSettle(batch, settle, this.lifecycle.writable().found, opened),
        done: (found) => {
          outbox.applySettle(settle, found);
          resolve();
        },
        // Either outcome is safe: settling twice is harmless, and an unsettled delivery is sent again (CONTRACT-6).
        recall: (_found, error) => reject(error),
        fail: reject,
      });
    });
  }

  /** Trims run one after another: each is checked against the horizon that the previous one left. */
  trim(trim: contract.Trim): Promise<void> {
    const mine = this.#trimming.then(() => this.#trim(trim));
    this.#trimming = mine.catch(() => {});
    return mine;
  }

  async #trim(trim: contract.Trim): Promise<void> {
    this.#checkFence(trim.fence);
    await this.lifecycle.verifiedWhole();
    this.lifecycle.writable();
    const prepared = await this.reading((mounted) => prepareTrim(mounted, trim));
    let { db } = this.lifecycle.writable();
    let rows: readonly contract.RowKey[] | null = [];
    await this.#alone(
      (batch) => {
        const mounted = this.lifecycle.writable();
        db = mounted.db;
        // A database that was reopened meanwhile may not be verified whole yet. [VERIFY-REST-2]
        if (mounted.verified.isWhole) rows = stageTrim(batch, db, mounted.found, prepared);
        else rows = null;
        this.lifecycle.point('trim.before');
      },
      (found) => {
        this.lifecycle.point('trim.after');
        if (rows !== null) applyTrim(found, prepared, rows);
      },
    );
    if (rows === null) throw new StoreUnavailable('the store was reopened during a trim');
    this.lifecycle.point('trim.compact');
    await this.#compaction.after(db, prepared);
  }

  async rewrite(rewrite: contract.Rewrite): Promise<void> {
    this.#checkFence(rewrite.fence);
    await this.lifecycle.verifiedWhole();
    this.lifecycle.writable();
    let rewritten: Rewritten = { moved: [], unnamed: [] };
    await this.#alone(
      (batch) => {
        const { db, found } = this.lifecycle.writable();
        rewritten = stageRewrite(batch, db, found, rewrite);
      },
      (found) => applyRewrite(found, rewritten),
    );
  }

  async reclaim(isLeft: (text: string) => boolean): Promise<readonly string[]> {
    // A backup reads from a snapshot, which keeps former versions alive.
    await this.#backingUp;
    const { gte, lt } = keys.EVERYTHING;
    for (let from = gte; from !== lt; )
      from = await this.reading(({ db }) => reclaimRange(db, from, (stage) => this.#alone(stage)));
    return filesWith(join(this.lifecycle.directory, 'db'), isLeft);
  }

  backup(directory: string, options: contract.BackupOptions = {}): Promise<contract.BackupManifest> {
    const { db, found } = this.lifecycle.mounted();
    if (found.faults.length > 0) {
      return Promise.reject(new StoreUnavailable(`a damaged store is not backed up: ${found.faults.join('; ')}`));
    }
    const place = { directory, within: this.lifecycle.directory };
    const { token, point } = this.lifecycle;
    const source = { db, token, ...place, point, isRunning: true, clean: true, sealing: this.#sealing };
    const backup = writeBackup(source, options);
    this.#backingUp = Promise.allSettled([this.#backingUp, backup]);
    return backup;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stopProbes();
    // Pending settles are written first: the mark is about to say that everything is on the disk. [MARKS-5]
    await this.#groupCommit.idle();
    this.#flushNow();
    await this.#groupCommit.idle();
    await this.#compaction.idle();
    await this.lifecycle.close();
  }

  #checkFence(fence: contract.Fence | null): void {
    if (this.#closed) throw new StoreUnavailable('closed');
    if (fence === null) return;
    const { token, node } = fence;
    const held = this.#fence;
    if (token !== held.token || node !== held.node) {
      throw new Fenced(`the log is held by ${held.node} with token ${held.token}, not by ${node} with ${token}`);
    }
  }

  #commit(prepared: Prepared): Promise<contract.Appended> {
    return new Promise((resolve, reject) => {
      let first = 0;
      let last = 0;
      let refusal: Error | null = null;
      this.#groupCommit.push({
        size: prepared.size,
        synced: true,
        seen: prepared.seen,
        *stage(batch, group) {
          refusal = group.versions.refusal(prepared.seen, group.next - 1);
          if (refusal !== null) return;
          first = group.next;
          last = yield* stage(batch, prepared, first);
          group.next = last + 1;
          for (const { put, key } of prepared.puts) group.versions.written(key, put.gone ? null : last);
        },
        done: (found) => {
          if (refusal !== null) return void reject(refusal);
          remember(found, prepared, first, last);
          resolve({ first, last, replayed: false });
        },
        recall: (found, error) => {
          const at = found?.commits.get(prepared.idem);
          if (at !== undefined) resolve({ first: at[0], last: at[1], replayed: false });
          else reject(found === null ? new OutcomeUnknown(error.message, { cause: error }) : error);
        },
        fail: reject,
      });
    });
  }

  /** Writes one batch. Never rejects: every job is answered through its callbacks. */
  async #write(jobs: readonly Job[]): Promise<void> {
    const synced = jobs.some((job) => job.synced);
    let mounted: Mounted;
    try {
      mounted = this.lifecycle.writable();
    } catch (error) {
      for (const job of jobs) job.fail(error as Error);
      return;
    }
    const { db, found } = mounted;
    try {
      const batch = db.batch();
      const seen = jobs.flatMap((job) => job.seen ?? []);
      const versions = await Versions.of(seen, db, found);
      const group: Group = { next: found.head + 1, opened: new Map(), versions };
      for (const job of jobs) for (const _ of job.stage(batch, group) ?? []) await nextTurn();
      const what = synced ? 'commit' : 'settle';
      this.lifecycle.point(`${what}.before`);
      await batch.write(synced ? SYNCED : {});
      if (synced) await this.lifecycle.names.keep();
      this.lifecycle.point(`${what}.after`);
    } catch (cause) {
      const error = new StoreUnavailable('a write failed; the store is being reopened', { cause });
      this.lifecycle.fail(cause, (reopened) => {
        for (const job of jobs) job.recall(reopened, error);
      });
      this.#groupCommit.refuse(error);
      return;
    }
    for (const job of jobs) job.done(found);
    this.#schedule(synced);
    this.#seal(mounted);
  }

  #seal({ db, found }: Mounted): void {
    const { sealing } = found;
    void splitLarge(db, sealing.digest);
    if (this.#isSealing || !sealing.isDue(found.head, Math.min(this.lifecycle.recent, RECENT_EVENTS))) return;
    this.#isSealing = true;
    this.#aside(
      (batch) => {
        const present = this.lifecycle.writable().found;
        present.sealing.stage(batch, present);
        present.sealing.stageFloors(batch);
        this.lifecycle.point('seal.before');
      },
      (present) => {
        present.sealing.synced(present.floors);
        this.lifecycle.point('seal.after');
      },
      () => {
        this.#isSealing = false;
      },
    );
  }

  /**
   * Writes a synced batch of its own. Rejects also when it may have been written: the caller does it again, from what the
   * reopened store has. [TRIM-5, LEVEL-REWRITE-1]
   */
  #alone(stage: (batch: Batch) => void, done: (found: Found) => void = () => {}): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#groupCommit.push({
        size: 0,
        synced: true,
        alone: true,
        stage,
        done: (found) => {
          done(found);
          resolve();
        },
        recall: (_found, error) => reject(error),
        fail: reject,
      });
    });
  }

  /** Like `#alone`, for a batch that nobody waits for. */
  #aside(stage: (batch: Batch) => void, done: (found: Found) => void = () => {}, ended: () => void = () => {}): void {
    this.#alone(stage, done).then(ended, ended);
  }

  /** LEVEL-STORE-4. */
  #schedule(synced: boolean): void {
    this.#isProven ||= synced;
    if (synced && this.#flush !== null) {
      systemClock.clearTimeout(this.#flush);
      this.#flush = null;
    } else if (!synced && this.#flush === null) {
      this.#flush = background(systemClock.setTimeout(() => this.#flushNow(), FLUSH_MS));
    }
  }

  #flushNow(): void {
    if (this.#flush === null) return;
    systemClock.clearTimeout(this.#flush);
    this.#flush = null;
    this.#aside((batch) => void batch.put(keys.FLUSH_KEY, encode(keys.FLUSH_KEY, '[]')));
  }
}

/** LEVEL-STORE-1: updates memory after the commit's batch is written. */
function remember(found: Found, { idem, events, puts }: Prepared, first: contract.Seq, last: contract.Seq): void {
  found.head = last;
  for (const [i, { event }] of events.entries()) {
    for (const key of indexKeys(event.stream, event.correlationId, first + i)) found.sealing.digest.add(key);
  }
  found.commits.set(idem, [first, last]);
  for (const { put, key, data } of puts) {
    found.damagedRows.delete(key);
    if (put.gone) {
      found.order.remove(put);
      found.recent.delete(key);
    } else {
      const { kind, owner, id, shelf, upd, body } = put;
      found.order.place(put, shelf, upd, body?.length);
      found.recent.add(key, { kind, owner, id, shelf, upd, body, data, seq: last });
    }
  }
}
