/**
 * Keeps the database open, and says whether it may be written: opening, failing, mending, closing.
 *
 * M1  After one failed write the handle is not believed again: it would go on acknowledging writes that are gone when it is
 *     reopened. The database is closed, reopened, verified as at the start, and only then written (S5).
 * M2  Opening and reopening are one road: `#mount`, then `#resume`.
 * M3  Reopening writes too, so the ballast is given back before it; writes resume only when it stands again. Reads are
 *     served as soon as the database is open.
 * M4  A quarantined store writes nothing, not even its own records.
 * M5  The fence token grows at each start of a process and is durable before it is used.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Seq, Shard, StoreHealth } from './contract.ts';
import { StoreUnavailable } from './contract.ts';
import { type Database, openDatabase, SYNCED, type Unreadable } from './engine.ts';
import { EventReader } from './event-log.ts';
import { FENCE_KEY } from './keys.ts';
import { encode } from './records.ts';
import {
  droppedAtOpen,
  type Mark,
  MarkFile,
  manifestOf,
  mustCreate,
  raiseBallast,
  releaseBallast,
} from './side-files.ts';
import { type Found, verify } from './verify.ts';

/** How far the mark may lag behind the log: what the loss of the log's end can hide. */
const MARK_MS = 1000;
const REOPEN_MS_MIN = 100;
const REOPEN_MS_MAX = 5000;
export interface Mounted {
  readonly db: Database;
  readonly reader: EventReader;
  readonly found: Found;
  /** Set when quarantined: the damage is known, what can be read is read. */
  readonly tolerate: Unreadable | null;
}

export interface KeeperOptions {
  readonly directory: string;
  readonly ballastBytes: number;
  readonly shard: Shard;
}

export class Keeper {
  readonly #database: string;
  readonly #ballast: string;
  readonly #directory: string;
  readonly #ballastBytes: number;
  readonly #shard: Shard;
  readonly #markFile: MarkFile;
  readonly #listeners: ((health: StoreHealth) => void)[] = [];
  readonly #closing = new AbortController();
  #state: StoreHealth['state'] = 'failed';
  #reason: string | null = 'not opened yet';
  #mounted: Mounted | null = null;
  #head: Seq = 0;
  #token = 0;
  #warning: string | null = null;
  #mending: Promise<void> = Promise.resolve();
  #marking: Promise<void> = Promise.resolve();
  #marker: NodeJS.Timeout | null = null;
  #marked: Mark = { head: 0, token: 0, manifest: null };
  #manifest: Mark['manifest'] = null;

  constructor({ directory, ballastBytes, shard }: KeeperOptions) {
    this.#directory = directory;
    this.#database = join(directory, 'db');
    this.#ballast = join(directory, 'ballast');
    this.#markFile = new MarkFile(join(directory, 'mark'));
    this.#ballastBytes = ballastBytes;
    this.#shard = shard;
  }

  get token(): number {
    return this.#token;
  }

  async start(): Promise<void> {
    await mkdir(this.#directory, { recursive: true });
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
    this.#marker = setInterval(() => this.#mark(), MARK_MS).unref();
  }

  /** The database, for reads. */
  mounted(): Mounted {
    if (this.#mounted === null) throw new StoreUnavailable(this.#reason ?? this.#state);
    return this.#mounted;
  }

  /** The database, for writes. */
  writable(): Mounted {
    if (this.#state !== 'open') throw new StoreUnavailable(this.#reason ?? this.#state);
    return this.mounted();
  }

  /** M1. `decide` is called once: with what the reopened database holds, or with null when it did not reopen at once. */
  fail(error: unknown, decide: (found: Found | null) => void): void {
    this.#set('failed', `a write failed: ${sentence(error)}`);
    this.#mending = this.#dismount().then(() => this.#mend(decide));
  }

  head(): Seq {
    return this.#mounted?.found.head ?? this.#head;
  }

  health(): StoreHealth {
    const damagedRows = [...(this.#mounted?.found.damagedRows.values() ?? [])];
    return { state: this.#state, reason: this.#reason, heads: { [this.#shard]: this.head() }, damagedRows };
  }

  onHealth(listener: (health: StoreHealth) => void): void {
    this.#listeners.push(listener);
  }

  async close(): Promise<void> {
    const wasOpen = this.#state === 'open';
    this.#set('closed', 'closed');
    this.#closing.abort();
    if (this.#marker !== null) clearInterval(this.#marker);
    await this.#mending;
    await this.#marking;
    await this.#dismount();
    if (wasOpen) {
      const manifest = await manifestOf(this.#database).catch(() => null);
      const mark = { head: this.#head, token: this.#token, manifest };
      await this.#markFile.write(mark, { durable: true }).catch(() => {});
    }
    await this.#markFile.close();
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
      await sleep(wait, undefined, { signal: this.#closing.signal }).catch(() => {});
    }
    undecided?.(null);
  }

  /** Opens and verifies; nothing of ours is written. */
  async #mount(): Promise<Mounted> {
    const mark = await this.#markFile.read();
    const createIfMissing = await mustCreate(this.#database, mark).catch((error: unknown) => {
      throw new StoreUnavailable(sentence(error));
    });
    const db = await openDatabase(this.#database, createIfMissing);
    try {
      this.#warning = await droppedAtOpen(this.#database);
      const found = await verify(db, this.#shard, mark);
      const markToken = mark === null || mark === 'damaged' ? 0 : mark.token;
      this.#token = Math.max(this.#token, found.token, markToken);
      const tolerate = found.faults.length > 0 ? (): void => {} : null;
      this.#mounted = { db, reader: new EventReader(db, tolerate), found, tolerate };
      return this.#mounted;
    } catch (error) {
      await db.close();
      throw error;
    }
  }

  /** Takes writes again, or throws: a synced write and a mark of our own are the first. */
  async #resume(): Promise<void> {
    const { db, found } = this.mounted();
    if (found.faults.length > 0) {
      this.#set('quarantined', [...found.faults, this.#warning ?? []].flat().join('; '));
      return;
    }
    await raiseBallast(this.#ballast, this.#ballastBytes);
    try {
      await db
        .batch()
        .put(FENCE_KEY, encode(FENCE_KEY, JSON.stringify([this.#token])))
        .write(SYNCED);
    } catch (error) {
      await this.#dismount();
      throw error;
    }
    this.#manifest = await manifestOf(this.#database);
    this.#marked = { head: found.head, token: this.#token, manifest: this.#manifest };
    await this.#markFile.write(this.#marked, { durable: true });
    this.#set('open', this.#warning);
  }

  async #dismount(): Promise<void> {
    const db = this.#mounted?.db;
    this.#head = this.head();
    this.#mounted = null;
    await db?.close().catch(() => {});
  }

  #mark(): void {
    if (this.#state !== 'open' || this.head() === this.#marked.head) return;
    this.#marking = this.#marking
      .then(async () => {
        // The size seen a tick ago: by now it is on the disk, which a size seen while the engine writes is not.
        this.#marked = { head: this.head(), token: this.#token, manifest: this.#manifest };
        this.#manifest = await manifestOf(this.#database);
        await this.#markFile.write(this.#marked, { durable: false });
        // A mark that cannot be written stays behind, which promises less and is never wrong.
      })
      .catch(() => {});
  }

  #set(state: StoreHealth['state'], reason: string | null): void {
    if (this.#state === 'closed' || (this.#state === state && this.#reason === reason)) return;
    this.#state = state;
    this.#reason = reason;
    const health = this.health();
    // Not within our own steps: what a listener does or throws is its own affair.
    for (const listener of this.#listeners) queueMicrotask(() => listener(health));
  }
}

const sentence = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
};
