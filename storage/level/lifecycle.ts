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
 */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { background, every, sleep } from '../../src/kit/clock.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import type { Seq, StoreHealth } from '../contract.ts';
import { StoreUnavailable } from '../contract.ts';
import { FENCE_KEY, type FenceHead } from '../keys.ts';
import { encode } from '../records.ts';
import { DirtyFlag, isSuspect } from './dirty-flag.ts';
import { EventReader } from './event-log.ts';
import { EngineDied, inspectIsolated } from './inspect-isolated.ts';
import { type Database, type OnPoint, openDatabase, SYNCED, type Unreadable } from './leveldb.ts';
import { judge, type Mark, MarkFiles, type Marks, manifestOf, readMarks } from './marks.ts';
import type { Opening } from './progress.ts';
import { droppedAtOpen, Names, raiseBallast, releaseBallast, syncNames } from './side-files.ts';
import { type Found, verify } from './verify.ts';
import { lowerFloors } from './watermark-repair.ts';

/** Interval of the mark, ms. When the end of the log is lost, the mark cannot reveal events newer than this. */
const MARK_MS = 1000;
/**
 * A use that lasts this long, ms, clears the dirty flag: the engine compacts within moments of an open, so a process
 * that is still alive survived it. [DIRTY-FLAG-1]
 */
const LASTED_MS = 10_000;
const REOPEN_MS_MIN = 100;
const REOPEN_MS_MAX = 5000;
/** Upper bound on remembered keys, so that rotted indexes cannot exhaust memory; the reported count stops here. */
const UNFOUND_MAX = 10_000;
export interface Mounted {
  readonly db: Database;
  readonly reader: EventReader;
  readonly found: Found;
  readonly marks: Marks;
  /** Set when quarantined: reads skip blocks that cannot be read, because the damage is already reported. */
  readonly tolerate: Unreadable | null;
}

export interface LifecycleOptions {
  readonly directory: string;
  readonly ballastBytes: number;
  readonly onPoint?: OnPoint;
  readonly progress?: (opening: Opening) => void;
}

export class Lifecycle {
  readonly #database: string;
  readonly #ballast: string;
  readonly directory: string;
  readonly #ballastBytes: number;
  /** Test hook; other parts report points of their own through it. */
  readonly point: OnPoint;
  readonly #progress: (opening: Opening) => void;
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
  /** One sentence for each mark that could not be used and was written anew. */
  #renewed: readonly string[] = [];
  /** Keys that verification read but a look-up did not find. */
  readonly #unfound = new Set<string>();
  #mending: Promise<void> = Promise.resolve();
  #marking: Promise<void> = Promise.resolve();
  #stopMarks: () => void = () => {};
  #lasting: unknown;
  #marked: Mark = { head: 0, token: 0, manifest: null, clean: false, store: null };
  #manifest: Mark['manifest'] = null;

  constructor({ directory, ballastBytes, onPoint = () => {}, progress = () => {} }: LifecycleOptions) {
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
    await this.#outlive();
    try {
      await this.#mount();
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      await releaseBallast(this.#ballast);
      await this.#mount();
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
    this.#set('failed', `a write failed: ${sentence(error)}`);
    this.#mending = this.#dismount().then(() => this.#mend(decide));
  }

  /** Reports, once per key, a record that verification read but a look-up misses: an engine index has rotted. */
  unfound(key: string): void {
    if (this.#unfound.has(key) || this.#unfound.size >= UNFOUND_MAX) return;
    this.#unfound.add(key);
    if (this.#state === 'open') this.#set('open', this.#remark());
  }

  /** Names of the engine's own files, besides tables and logs, with such text. */
  async filesWith(isLeft: (text: string) => boolean): Promise<string[]> {
    const names = (await readdir(this.#database)).filter((name) => /^(MANIFEST-|LOG)/.test(name));
    const texts = await Promise.all(names.map((name) => readFile(join(this.#database, name), 'latin1')));
    return names.filter((_, i) => isLeft(texts[i] ?? ''));
  }

  head(): Seq {
    return this.#mounted?.found.head ?? this.#head;
  }

  horizon(): Seq {
    return this.#mounted?.found.horizon.seq ?? this.#horizon;
  }

  health(): StoreHealth {
    const damagedRows = [...(this.#mounted?.found.damagedRows.values() ?? [])];
    return { state: this.#state, reason: this.#reason, head: this.head(), damagedRows };
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
    await this.#dismount();
    if (wasOpen) {
      const manifest = await manifestOf(this.#database).catch(() => null);
      const mark = { ...this.#marked, head: this.#head, manifest, clean: true };
      await this.#markFiles.writeBoth(mark).catch(() => {});
      if (this.#lasting !== undefined) await this.#opening.end();
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

  /** LIFECYCLE-6: throws when opening the database would end this process. */
  async #outlive(): Promise<void> {
    const unended = await this.#opening.read();
    if (unended === null || !isSuspect(unended)) return;
    try {
      const step = 'a separate process inspects every record of the store, because its last use ended early';
      await inspectIsolated(this.directory, (records) => this.#progress({ step, verified: records, events: null }));
      await this.#opening.note({ attempts: 0, damaged: false });
    } catch (error) {
      if (!(error instanceof EngineDied)) throw error;
      const { since, attempts } = await this.#opening.begin().catch(() => unended);
      throw new StoreUnavailable(
        `${this.directory} is damaged, the hub does not start on it: ${error.message} ` +
          `(${attempts} attempts to open it since ${since}). Restore a backup: ocpi-hub store restore --help`,
      );
    }
  }

  /**
   * Opens and verifies the database. Besides the repairs of `verify` it writes only floors, where the log may have lost
   * the rows that they rely on.
   */
  async #mount(): Promise<Mounted> {
    const marks = await readMarks(this.directory).catch((error: unknown) => {
      throw new StoreUnavailable(sentence(error));
    });
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
      const found = await verify(db, marks, { point: this.point, progress: this.#progress });
      const isWhole = found.faults.length === 0;
      const isOwed = isLost || this.#warning !== null;
      const { isClean } = judge(marks, found);
      if (isWhole && (isOwed || !isClean)) await lowerFloors(db, found);
      const damaged = !isWhole || !found.isSound;
      await this.#opening.note({ isReading: false, lost: !isWhole && isOwed, damaged }).catch(() => {});
      systemClock.clearTimeout(this.#lasting);
      // If the flag cannot be removed, the next start only inspects more than it needs to.
      const last = () => void this.#opening.end().catch(() => {});
      this.#lasting = damaged ? undefined : background(systemClock.setTimeout(last, LASTED_MS));
      this.#token = Math.max(this.#token, found.token, ...marks.held.map(({ token }) => token));
      const tolerate = found.faults.length > 0 ? (): void => {} : null;
      this.#mounted = { db, reader: new EventReader(db, tolerate), found, marks, tolerate };
      return this.#mounted;
    } catch (error) {
      await db.close();
      throw error;
    }
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
      await db
        .batch()
        .put(FENCE_KEY, encode(FENCE_KEY, JSON.stringify([this.#token, store] satisfies FenceHead)))
        .write(SYNCED);
    } catch (error) {
      await this.#dismount();
      throw error;
    }
    this.#manifest = await manifestOf(this.#database);
    this.#marked = { head: found.head, token: this.#token, manifest: this.#manifest, clean: false, store };
    await this.#markFiles.renew(marks, wrong, this.#marked);
    this.#renewed = [...wrong].map(([file, why]) => `${file} ${why}: written anew after every record was verified`);
    this.#set('open', this.#remark());
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

const sentence = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
};
