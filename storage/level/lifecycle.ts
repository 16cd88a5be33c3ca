/**
 * Opens, fails, reopens and closes the database of the embedded store, and decides whether it may be written.
 *
 * LIFECYCLE-1  After one failed write the open database is not trusted: it would go on acknowledging writes that are
 *     gone after a reopen. It is closed, reopened and verified as at the start, and only then written (CONTRACT-5).
 * LIFECYCLE-2  Opening and reopening take the same path: `#mount`, then `#resume`.
 * LIFECYCLE-3  Reopening writes, too, so the ballast is released before it, and writes resume only when the ballast is
 *     back. Reads are served as soon as the database is open.
 * LIFECYCLE-4  A quarantined store writes nothing, not even its own records.
 * LIFECYCLE-5  The fencing token grows at each start of a process and is durable before it is used.
 * LIFECYCLE-6  Damage can make the engine abort this process without an error that could be caught. After a use that
 *     ended early, the start therefore inspects the database in a child process, if that can find something, and opens
 *     it here only when the child survives. [DIRTY-FLAG-1, DIRTY-FLAG-2]
 * LIFECYCLE-7  A store with a seal serves once its end is verified, and verifies the rest in the background. It is verified
 *     whole first when the last use ended while it read, when it found damage, when the engine dropped a part of its
 *     log, or when a mark cannot be used. Damage that is found later is treated as a failed write, and the store is
 *     verified whole: it ends as it would have at a start. [VERIFY-RECENT-2, VERIFY-REST-4]
 * LIFECYCLE-8  A process opens no other store than the one that it opened first: when the volume is unmounted or the
 *     directory moved away, the store fails until it is back.
 */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { background, every, sleep } from '../../src/kit/clock.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import type { Seq, StoreHealth } from '../contract.ts';
import { Damaged, StoreUnavailable } from '../contract.ts';
import { FENCE_KEY, type FenceHead } from '../keys.ts';
import { encode } from '../records.ts';
import { DirtyFlag } from './dirty-flag.ts';
import { EventReader } from './event-log.ts';
import { outlive } from './inspect-isolated.ts';
import { type OnPoint, openDatabase, SYNCED } from './leveldb.ts';
import { judge, type Mark, MarkFiles, manifestOf, readMarks } from './marks.ts';
import { type Mounted, sentence } from './mounted.ts';
import { droppedAtOpen, Names, raiseBallast, releaseBallast, syncNames } from './side-files.ts';
import { opening } from './unopened.ts';
import { type Found, type Opening, RECENT_EVENTS, verify } from './verify.ts';
import { verifyRecent } from './verify-recent.ts';
import { Rest, WHOLE } from './verify-rest.ts';
import { lowerFloors, sealedFloors } from './watermark-repair.ts';

/** Interval of the mark, ms. When the end of the log is lost, the mark cannot reveal events newer than this. */
const MARK_MS = 1000;
/**
 * A use that lasts this long, ms, clears the dirty flag: the engine compacts within moments of an open, so a process
 * that is still alive survived it. [DIRTY-FLAG-1]
 */
const LASTED_MS = 10_000;
const REOPEN_MS_MIN = 100;
const REOPEN_MS_MAX = 5000;
/** Until damage that was found has closed the database, ms. */
const DOUBT_MS = 25;
/** Upper bound on remembered keys, so that rotted indexes cannot exhaust memory; the reported count stops here. */
const UNFOUND_MAX = 10_000;

export interface LifecycleOptions {
  readonly directory: string;
  readonly ballastBytes: number;
  readonly onPoint?: OnPoint;
  readonly progress?: (opening: Opening) => void;
  readonly verified?: (events: number) => void;
  /** Events at the end of the log that a start reads at once; only tests set it. */
  readonly recent?: number;
}

export class Lifecycle {
  readonly #database: string;
  readonly #ballast: string;
  readonly directory: string;
  readonly #ballastBytes: number;
  /** Test hook; other parts report points of their own through it. */
  readonly point: OnPoint;
  readonly #progress: (opening: Opening) => void;
  readonly #verified: (events: number) => void;
  readonly recent: number;
  readonly #markFiles: MarkFiles;
  readonly #opening: DirtyFlag;
  /** SIDE-FILES-2, for the database directory. */
  readonly names: Names;
  readonly #listeners: ((health: StoreHealth) => void)[] = [];
  readonly #ending = new AbortController();
  #state: StoreHealth['state'] = 'failed';
  #reason: string | null = 'not opened yet';
  #mounted: Mounted | null = null;
  #head: Seq = 0;
  #horizon: Seq = 0;
  #token = 0;
  #warning: string | null = null;
  /** One sentence for each mark that could not be used and was written again. */
  #renewed: readonly string[] = [];
  /** Keys that verification read but a look-up did not find. */
  readonly #unfound = new Set<string>();
  #mending: Promise<void> = Promise.resolve();
  #marking: Promise<void> = Promise.resolve();
  #stopMarks: () => void = () => {};
  #lasting: unknown;
  #marked: Mark = { head: 0, token: 0, manifest: null, clean: false, store: null };
  #manifest: Mark['manifest'] = null;
  /** The next mount verifies the store whole. */
  #isDoubted = false;
  #resting: Promise<void> = Promise.resolve();
  /** Set by the store: fails the next write with this error. */
  onDamage: (error: unknown) => void = () => {};

  constructor({ directory, ballastBytes, onPoint = () => {}, progress = () => {}, ...options }: LifecycleOptions) {
    const { verified = () => {}, recent = RECENT_EVENTS } = options;
    this.#verified = verified;
    this.recent = recent;
    this.directory = directory;
    this.#database = join(directory, 'db');
    this.#ballast = join(directory, 'ballast');
    this.#markFiles = new MarkFiles(directory);
    this.#opening = new DirtyFlag(directory);
    this.names = new Names(this.#database);
    this.#ballastBytes = ballastBytes;
    this.point = onPoint;
    this.#progress = progress;
  }

  get token(): number {
    return this.#token;
  }

  async start(): Promise<void> {
    const isUnfinished = existsSync(`${this.directory}.partial`) && !existsSync(this.directory);
    if (isUnfinished) throw new StoreUnavailable(`a restore into ${this.directory} did not end: run it again`);
    await mkdir(this.directory, { recursive: true });
    if (!existsSync(join(this.directory, 'mark'))) await syncNames(this.directory);
    this.#isDoubted = await outlive(this.directory, this.#opening, this.#progress);
    try {
      await this.#mount();
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      await releaseBallast(this.#ballast);
      await opening(this.directory, this.#mount());
    }
    this.#token += 1;
    await this.#resume().catch((error: unknown) => {
      this.#set('failed', sentence(error));
      this.#mending = this.#mend(() => {});
    });
    this.#stopMarks = every(systemClock, MARK_MS, () => this.#mark());
  }

  /** The database for reads; throws while there is none. */
  mounted(): Mounted {
    if (this.#mounted === null) throw new StoreUnavailable(this.#reason ?? this.#state);
    return this.#mounted;
  }

  /** The database for writes; throws unless the state is `open`. */
  writable(): Mounted {
    if (this.#state !== 'open') throw new StoreUnavailable(this.#reason ?? this.#state);
    return this.mounted();
  }

  /** LIFECYCLE-1. Calls `decide` once, with the reopened content, or with null when it did not reopen at once. */
  fail(error: unknown, decide: (found: Found | null) => void): void {
    this.#set('failed', `${error instanceof Damaged ? 'damage was found' : 'a write failed'}: ${sentence(error)}`);
    this.#mending = this.#dismount().then(() => this.#mend(decide));
  }

  /** Whether the present database must be closed and verified whole. */
  get isDoubted(): boolean {
    return this.#isDoubted;
  }

  /** [LIFECYCLE-7] Resolves when another database is mounted. */
  async doubt(mounted: Mounted, error: unknown): Promise<void> {
    this.#isDoubted = true;
    if (this.#mounted === mounted) await this.#opening.note({ damaged: true }).catch(() => {});
    while (this.#mounted === mounted || this.#mounted === null) {
      if (this.#state === 'closed') throw new StoreUnavailable('closed', { cause: error });
      if (this.#mounted !== null) this.onDamage(error);
      await sleep(systemClock, DOUBT_MS, this.#ending.signal);
    }
  }

  /** Resolves when the present database was verified whole. */
  async verifiedWhole(): Promise<void> {
    while (!this.mounted().verified.isWhole) {
      this.writable();
      await this.#resting;
      if (this.#state === 'closed') throw new StoreUnavailable('closed');
    }
  }

  /** Reports, once per key, a record that verification read but a look-up misses: an engine index has rotted. */
  unfound(key: string): void {
    if (this.#unfound.has(key) || this.#unfound.size >= UNFOUND_MAX) return;
    this.#unfound.add(key);
    if (this.#state === 'open') this.#set('open', this.#remark());
  }

  head(): Seq {
    return this.#mounted?.found.head ?? this.#head;
  }

  horizon(): Seq {
    return this.#mounted?.found.horizon.seq ?? this.#horizon;
  }

  health(): StoreHealth {
    const damagedRows = [...(this.#mounted?.found.damagedRows.values() ?? [])];
    const rest = this.#mounted?.verified;
    const { verified = 0, events = 0 } = rest instanceof Rest ? rest : {};
    const verifying = rest?.isWhole === false ? { verifying: { verified, events } } : {};
    return { state: this.#state, reason: this.#reason, head: this.head(), damagedRows, ...verifying };
  }

  onHealth(listener: (health: StoreHealth) => void): void {
    this.#listeners.push(listener);
  }

  async close(): Promise<void> {
    const wasOpen = this.#state === 'open';
    this.#set('closed', 'closed');
    this.#ending.abort();
    this.#stopMarks();
    await this.#mending;
    await this.#marking;
    const wasWhole = this.#mounted?.verified.isWhole === true;
    await this.#resting;
    await this.#dismount();
    if (wasOpen) {
      const manifest = await manifestOf(this.#database).catch(() => null);
      const mark = { ...this.#marked, head: this.#head, manifest, clean: true };
      await this.#markFiles.writeBoth(mark).catch(() => {});
      if (this.#lasting !== undefined || !(wasWhole || this.#isDoubted)) await this.#opening.end();
    }
    systemClock.clearTimeout(this.#lasting);
    await this.#markFiles.close();
    await this.names.close();
  }

  async #mend(decide: (found: Found | null) => void): Promise<void> {
    let undecided: ((found: Found | null) => void) | null = decide;
    for (let wait = REOPEN_MS_MIN; this.#state === 'failed'; wait = Math.min(2 * wait, REOPEN_MS_MAX)) {
      try {
        if (this.#mounted === null) {
          await releaseBallast(this.#ballast);
          const { found } = await this.#mount();
          undecided?.(found);
          undecided = null;
        }
        await this.#resume();
        return;
      } catch (error) {
        undecided?.(null);
        undecided = null;
        this.#set('failed', sentence(error));
      }
      await sleep(systemClock, wait, this.#ending.signal);
    }
    undecided?.(null);
  }

  /**
   * Opens and verifies the database. Besides the repairs of `verify` it writes only floors, where the log may have lost
   * the rows that they rely on.
   */
  async #mount(): Promise<Mounted> {
    const marks = await readMarks(this.directory).catch((error: unknown) => {
      throw new StoreUnavailable(sentence(error));
    });
    const own = this.#marked.store;
    if (own !== null && marks.isNew) throw new StoreUnavailable(`the store at ${this.directory} is gone`);
    const unended = await this.#opening.read();
    const isLost = unended?.lost || (unended?.isReading && (await droppedAtOpen(this.#database)) !== null);
    // A full disk can prevent this write: the store opens all the same, without this guard.
    await this.#opening.begin(isLost).catch(() => {});
    await this.#markFiles.guard(marks);
    const db = await openDatabase(this.#database, marks.isNew).catch(async (error: unknown) => {
      if (unended === null) await this.#opening.end();
      throw error;
    });
    try {
      this.#warning = await droppedAtOpen(this.#database);
      // The engine's diary of the use before: it may name records that have been erased since.
      await rm(join(this.#database, 'LOG.old'), { force: true });
      const isOwed = isLost || this.#warning !== null;
      const isTrusted = !(isOwed || this.#isDoubted || unended?.isReading || unended?.damaged);
      const options = { point: this.point, progress: this.#progress, recent: this.recent };
      const sealed = isTrusted ? await verifyRecent(db, marks, options) : null;
      const found = sealed ?? (await verify(db, marks, options));
      if (own !== null && found.store !== own) throw new StoreUnavailable(`another store is at ${this.directory}`);
      this.#isDoubted = false;
      const isWhole = found.faults.length === 0;
      const { isClean } = judge(marks, found);
      if (sealed === null && isWhole && (isOwed || !isClean))
        await lowerFloors(db, found, isTrusted ? await sealedFloors(db, found) : undefined);
      const damaged = !isWhole || !found.isSound;
      await this.#opening.note({ isReading: false, lost: !isWhole && isOwed, damaged }).catch(() => {});
      systemClock.clearTimeout(this.#lasting);
      this.#lasting = undefined;
      if (!damaged && sealed === null) this.#last();
      this.#token = Math.max(this.#token, found.token, ...marks.held.map(({ token }) => token));
      const tolerate = found.faults.length > 0 ? (): void => {} : null;
      const verified = sealed === null ? WHOLE : new Rest(db, sealed);
      this.#mounted = { db, reader: new EventReader(db, tolerate, verified), found, marks, tolerate, verified };
      return this.#mounted;
    } catch (error) {
      await db.close();
      throw error;
    }
  }

  /** [LIFECYCLE-7] Never rejects. */
  async #verifyRest(mounted: Mounted, rest: Rest): Promise<void> {
    try {
      await rest.runLater(this.recent < RECENT_EVENTS, this.#ending.signal);
      this.point('rest.verified');
      this.#verified(rest.events);
      this.#last();
    } catch (error) {
      // A database that closes ends it, too.
      if (mounted.db.status === 'open' && !this.#ending.signal.aborted)
        await this.doubt(mounted, error).catch(() => {});
    }
  }

  /** If the flag cannot be removed, the next start only inspects more than it needs to. */
  #last(): void {
    const last = () => void this.#opening.end().catch(() => {});
    this.#lasting = background(systemClock.setTimeout(last, LASTED_MS));
  }

  /** Accepts writes again, or throws. The first writes are a synced record and a mark. */
  async #resume(): Promise<void> {
    const { db, found, marks } = this.mounted();
    const { wrong } = judge(marks, found);
    if (found.faults.length > 0) {
      const remarks = [...wrong].map(([file, why]) => `${file} ${why}`);
      this.#set('quarantined', [...found.faults, ...remarks, this.#warning ?? []].flat().join('; '));
      return;
    }
    await raiseBallast(this.#ballast, this.#ballastBytes);
    const store = found.store ?? this.#marked.store ?? randomUUID();
    try {
      const fence = encode(FENCE_KEY, JSON.stringify([this.#token, store] satisfies FenceHead));
      const batch = db.batch().put(FENCE_KEY, fence);
      found.sealing.stage(batch, found);
      found.sealing.stageFloors(batch);
      await batch.write(SYNCED);
    } catch (error) {
      await this.#dismount();
      throw error;
    }
    this.#manifest = await manifestOf(this.#database);
    this.#marked = { head: found.head, token: this.#token, manifest: this.#manifest, clean: false, store };
    await this.#markFiles.renew(marks, wrong, this.#marked);
    this.#renewed = [...wrong].map(([file, why]) => `${file} ${why}: written again after every record was verified`);
    this.#set('open', this.#remark());
    const { verified } = this.mounted();
    if (verified instanceof Rest) this.#resting = this.#verifyRest(this.mounted(), verified);
  }

  #remark(): string | null {
    const [first] = this.#unfound;
    const remarks = [
      this.#warning ?? [],
      this.#renewed,
      first === undefined ? [] : `${this.#unfound.size} records cannot be looked up, ${JSON.stringify(first)} first`,
    ].flat();
    return remarks.length > 0 ? remarks.join('; ') : null;
  }

  async #dismount(): Promise<void> {
    const db = this.#mounted?.db;
    this.#head = this.head();
    this.#horizon = this.horizon();
    this.#mounted = null;
    await db?.close().catch(() => {});
  }

  #mark(): void {
    if (this.#state !== 'open' || this.head() === this.#marked.head) return;
    this.#marking = this.#marking
      .then(async () => {
        // The MANIFEST size read one interval ago is on the disk by now; one read during a write may not be.
        this.#marked = { ...this.#marked, head: this.head(), manifest: this.#manifest };
        this.#manifest = await manifestOf(this.#database);
        await this.#markFiles.write(this.#marked);
        // A failed write leaves the older mark in place, which promises less and is still true.
      })
      .catch(() => {});
  }

  #set(state: StoreHealth['state'], reason: string | null): void {
    if (this.#state === 'closed' || (this.#state === state && this.#reason === reason)) return;
    this.#state = state;
    this.#reason = reason;
    const health = this.health();
    // Deferred, so that a listener can neither re-enter this method nor throw into it.
    for (const listener of this.#listeners) queueMicrotask(() => listener(health));
  }
}
