/**
 * The contract between the hub and its store, so that an engine can be exchanged without a change outside `storage/`.
 * It covers bytes and order only: nothing here knows OCPI, HTTP or actors.
 *
 * Two stores implement it: an embedded engine for a single process, and a database shared by several nodes, one of
 * which holds the fence at a time. Every store must pass `test/storage/contract-suite.ts`.
 *
 * CONTRACT-1  `append` resolves only when the events, rows and due times of the commit are durable, all or none.
 * CONTRACT-2  Sequences are dense, 1, 2, 3 …; commit order is sequence order.
 * CONTRACT-3  Every commit carries an idempotency key: appending the same key twice writes once, and the second answer has `replayed` set.
 * CONTRACT-4  The store refuses a commit under a fence that is no longer held with `Fenced` and changes nothing. A commit without a fence may
 *     come from any node whose writes the store accepts, and only optimistic concurrency guards it (CONTRACT-11): a TypeError refuses it when
 *     it writes rows or sets timers with an empty `seen`.
 * CONTRACT-5  After any failed write the store acknowledges nothing until it has been reopened and verified.
 * CONTRACT-6  `settle` is lazily durable: it is ordered with appends, survives a killed process once it resolves, and a power cut loses at
 *     most about 1 s of it. A lost settle means that a delivery is sent again, never that it is forgotten: a store that goes on after
 *     the loss (its server crashed, the hub did not) writes no later settle without what was lost.
 * CONTRACT-7  Every read sees every append and every settle that resolved before the read began.
 * CONTRACT-8  The store never returns data that was damaged at rest: reading it throws `Damaged`, and `health()` names it.
 * CONTRACT-9  `trim` moves the horizon atomically: it removes the events at or below the new horizon, except those kept so that rows can be
 *     rebuilt. `read` begins above the horizon, `event` returns null at or below it, `history` and `correlated` also return the kept events.
 *     Sequences continue unchanged.
 * CONTRACT-10 A backup is a snapshot of one moment. A directory with the backup's final name is complete and verified, or does not exist.
 * CONTRACT-11 Optimistic concurrency: the store refuses a commit with `Conflict`, and changes nothing, when a row that the commit was decided
 *     on has been written or removed since. Other commits of the same batch go through. A commit whose idempotency key is already in the log
 *     is not checked again (CONTRACT-3).
 * CONTRACT-12 `rewrite` replaces text in records, all or none; sequences, lists, floors and verification hold as before.
 *
 * Names (stream, correlation id, kind, owner, id, shelf, `upd`, dest, key of a timer) must not contain U+0000 or an
 * unpaired surrogate, nor bodies an unpaired surrogate: a TypeError refuses them. All order is by code point (UTF-8).
 */

import type { BackupManifest, BackupOptions } from './backups.ts';

export type { BackupManifest, BackupOptions } from './backups.ts';

/** Position of an event in the log: dense, from 1. */
export type Seq = number;

/** Fencing token: proves which node may write. `token` grows with each change of writer (embedded: each process start). */
export interface Fence {
  readonly token: number;
  readonly node: string;
}

export interface NewEvent {
  /** The actor or object that the event belongs to, e.g. `partner:NL-CPO` or `sessions/NL-TNM/101`. */
  readonly stream: string;
  /** Past tense, dotted: `object.put`. */
  readonly type: string;
  /** RFC 3339, UTC, milliseconds. */
  readonly at: string;
  /** The party that caused the event, for filters. */
  readonly party: string | null;
  /** For filters. */
  readonly correlationId: string | null;
  /** Parties that are owed a delivery of this event; may be empty. */
  readonly to: readonly string[];
  /** JSON value. */
  readonly data: unknown;
  /** Text exactly as received, or null. Stored beside the JSON, never inside it. */
  readonly body: string | null;
}

export interface StoredEvent extends NewEvent {
  readonly seq: Seq;
  /** The rows that the event's commit wrote or removed, in its last event; only where asked for. */
  readonly touched?: readonly RowKey[];
}

/** Name of a row: the caller chooses `kind` and `owner`; `id` is unique within them. */
export interface RowKey {
  readonly kind: string;
  readonly owner: string;
  readonly id: string;
}

/** A projection: the present state of one thing, written in the same commit as the event that changed it. */
export interface Row extends RowKey {
  /** Lists read shelves. A row is on one shelf (its owner's or its viewer's); a row with null is unlisted. */
  readonly shelf: string | null;
  /** Sort key of lists, ascending; ties are ordered by owner, then id. */
  readonly upd: string;
  /** JSON value. */
  readonly data: unknown;
  /** Text as stored, or null. */
  readonly body: string | null;
  /** Sequence of the last event of the commit that wrote the row; set by the store. */
  readonly seq: Seq;
}

/**
 * Largest body, in characters, that callers read without asking for its size first. `size` may count such a body as 0;
 * a greater value makes the answers of `size` less exact.
 */
export const smallBody = 65_536;

/** A row to write, or to remove when `gone`. */
export type Put = (Omit<Row, 'seq'> & { readonly gone?: false }) | (RowKey & { readonly gone: true });

/** A row version that a decision read, for optimistic concurrency. */
export interface Seen extends RowKey {
  /** `Row.seq` as the decision read it; null when there was no such row. */
  readonly seq: Seq | null;
}

/** A durable timer. The store never fires it: the hub reads all timers at start and keeps them in one shared timer. */
export interface Due {
  readonly key: string;
  /** RFC 3339 instant; null removes it. */
  readonly at: string | null;
}

export interface Commit {
  /** Null: only `seen` guards the commit (CONTRACT-4). */
  readonly fence: Fence | null;
  /**
   * Idempotency key, unique per commit. The store remembers the keys of at least the last 65,536 events above the
   * horizon, also across a restart: enough for every retry after an unknown outcome, but not for ever.
   */
  readonly idem: string;
  /** At least one. */
  readonly events: readonly NewEvent[];
  /** Rows written with the events; the store sets their `seq` to that of the commit's last event. */
  readonly puts?: readonly Put[];
  readonly due?: readonly Due[];
  /** The row versions that the commit was decided on (CONTRACT-11). Absent: the store checks none. */
  readonly seen?: readonly Seen[];
}

export interface Appended {
  readonly first: Seq;
  readonly last: Seq;
  /** True when the idempotency key was already committed and this call wrote nothing. */
  readonly replayed: boolean;
}

/** This node no longer holds the fence: stop the actors, do not retry. */
export class Fenced extends Error {
  override readonly name = 'Fenced';
}

/** A row that the commit was decided on has changed (CONTRACT-11): decide again on what is stored now. */
export class Conflict extends Error {
  override readonly name = 'Conflict';
  /** Head of the log when the store found the conflict: the change is at or below it. */
  readonly head: Seq;

  /** `key`: one of the changed rows. */
  constructor({ kind, owner, id }: RowKey, head: Seq) {
    super(`${JSON.stringify([kind, owner, id])} has changed since it was read`);
    this.head = head;
  }
}

/** The store cannot take writes now (failed write, full disk, damage) and did not acknowledge the commit. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
}

/** The outcome is unknown (connection lost): retry with the same `idem` until it is known. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown';
}

/** A record fails its checksum. Writing a row again repairs it (`StoreHealth.damagedRows`). */
export class Damaged extends Error {
  override readonly name = 'Damaged';
  readonly key: string;

  constructor(key: string) {
    super(`the record ${JSON.stringify(key)} is damaged`);
    this.key = key;
  }
}

/** Cursor in a list: the last row of the previous page. */
export interface Position {
  readonly upd: string;
  readonly owner: string;
  readonly id: string;
}

/** A range of the log: `after` is exclusive, `upTo` inclusive. */
export interface Range {
  readonly after: Seq;
  readonly upTo: Seq;
}

export interface ListQuery {
  readonly kind: string;
  /** Shelves to merge; an unknown shelf is empty. */
  readonly shelves: readonly string[];
  /** Only rows of this owner. */
  readonly owner?: string;
  /** Inclusive lower and exclusive upper bound on `upd`. */
  readonly from?: string;
  readonly to?: string;
  /** Rows to skip; ignored when `after` is given, which is cheaper at any depth. */
  readonly offset: number;
  /** At most this many rows. */
  readonly limit: number;
  /** Stop at the row with which the bodies reach this many characters in total; a page has at least one row. */
  readonly size?: number;
  /** Only rows after this position. */
  readonly after?: Position;
  /** The caller needs only bodies: the store may return `data` as null, which saves reading it. */
  readonly bodiesOnly?: true;
}

export interface ListPage {
  readonly rows: Row[];
  /** Number of rows that match the query without `offset`, `limit` and `after`. */
  readonly total: number;
  /** Whether no matching row follows the page. */
  readonly isLast: boolean;
}

export interface EventQuery {
  /** Events with a greater sequence; 0 = from the start. */
  readonly after: Seq;
  /** At most this many. */
  readonly limit: number;
  /** Stop at the event with which the records reach about this many characters in total; returns at least one. */
  readonly size?: number;
  /** Only events owed to this party. */
  readonly to?: string;
  /** Also events that a trim kept at or below the horizon. */
  readonly kept?: true;
  /** Events with `touched`. */
  readonly withTouched?: true;
}

export type DeliveryState = 'PENDING' | 'DELIVERED' | 'DEAD' | 'DISCARDED';

/**
 * What the store remembers of one delivery: at most one row, the one settled last. The log is the outbox: a delivery
 * without a row counts as delivered when its sequence is at or below the receiver's floor (low watermark), and as
 * pending above it. A `PENDING` row is a delivery that waits for another attempt, a `DISCARDED` one a dead letter that
 * an operator has given up.
 */
export interface DeliveryRow {
  readonly dest: string;
  readonly seq: Seq;
  readonly state: DeliveryState;
  /** JSON value (attempts, due time, reason); opaque to the store. */
  readonly data: unknown;
}

/** Low watermark of a receiver: every delivery owed to `dest` at or below `seq` is delivered or has a row of its own. */
export interface Floor {
  readonly dest: string;
  readonly seq: Seq;
}

export interface DeliveryQuery {
  readonly dest: string;
  /** `open` = PENDING, DEAD and DISCARDED rows, `DELIVERED` = the remembered successes. */
  readonly rows: 'open' | 'DELIVERED';
  /** Inclusive bounds. */
  readonly fromSeq?: Seq;
  readonly toSeq?: Seq;
  readonly limit: number;
}

export interface Outbox {
  /** Floors of all receivers that have one. */
  floors(): Promise<Floor[]>;
  /** Records ends and retries of attempts (CONTRACT-6). A row replaces the earlier one of its delivery in any state. */
  settle(fence: Fence, rows: readonly DeliveryRow[], floors: readonly Floor[]): Promise<void>;
  /** Rows of one receiver in order of sequence. */
  deliveries(query: DeliveryQuery): Promise<DeliveryRow[]>;
  delivery(dest: string, seq: Seq): Promise<DeliveryRow | null>;
}

/**
 * An event that a trim keeps at or below the horizon: unchanged, or standing for the trimmed ones of its stream too.
 */
export interface Kept extends NewEvent {
  /** Sequence of an event of the same stream, above the present horizon; the kept event replaces it. */
  readonly seq: Seq;
  /** Rows that follow from the event and must exist. */
  readonly rows: readonly RowKey[];
}

/** Moves the horizon. A RangeError refuses an `upTo` outside the log, other events than those up to it, and a drop not kept. */
export interface Trim {
  readonly fence: Fence;
  /** The new horizon: the trim removes events at or below it, and everything remembered of their deliveries. */
  readonly upTo: Seq;
  /** Every event above the present horizon up to `upTo`, as `read` returns them; none was rewritten since. */
  readonly events: readonly StoredEvent[];
  readonly keeps: readonly Kept[];
  /** Events that an earlier trim kept and that are no longer needed, as `kept` returns them. */
  readonly drops: readonly StoredEvent[];
  /** Rows to remove as well; a row that an event above `upTo` wrote stays. */
  readonly rows: readonly RowKey[];
}

/** Replaces text in stored records, for the erasure of personal data. A record that does not exist is skipped. */
export interface Rewrite {
  readonly fence: Fence;
  /** Events above the horizon, and kept ones; what is remembered of their deliveries is rewritten too. */
  readonly events: readonly Seq[];
  /** Events of which only the names of rows in `touched` change. */
  readonly heads: readonly Seq[];
  /** Each keeps its sequence, shelf and place; `key` may change its owner and id. */
  readonly rows: readonly RowKey[];
  /** The name to store in place of this one: of a row, and in `touched`. Events and rows whose names change belong to one rewrite. Pure. */
  key(key: RowKey): RowKey;
  /** The text to store in place of this JSON (stream and correlation id of an event, data) or body. Pure. */
  text(text: string): string;
}

/** What a node observes of the shared database, besides its lease. */
export interface Sight {
  /** Clock skew: the database's clock minus this node's, ms; 0 when the round trip explains the difference. */
  readonly clockAheadMs: number;
  /** The transaction that has been open longest in this database; null when there is none. */
  readonly oldest: OpenTransaction | null;
}

export interface OpenTransaction {
  /** RFC 3339, by the database's clock. */
  readonly since: string;
  readonly ms: number;
  /** Program, user and process, or the name of a prepared transaction. */
  readonly who: string;
}

export interface StoreHealth {
  /** `open` takes writes; `failed` recovers by itself; `quarantined` has damage: it serves reads and refuses writes. */
  readonly state: 'open' | 'failed' | 'quarantined' | 'closed';
  /** What is wrong, as a sentence, with the exact range of any damage; a warning when `open`. */
  readonly reason: string | null;
  /**
   * Rows that are damaged or missing while the log is whole. No list contains them and `get` throws for them. The store
   * does not know how a row follows from events: the hub folds `history` and writes the row by an ordinary commit, so
   * that the repair is in the log too. Writing or removing the row takes it off this list.
   */
  readonly damagedRows: readonly RowKey[];
  readonly head: Seq;
  /** Present while a part of the log is verified in the background: every read is verified; trims and rewrites wait. */
  readonly verifying?: { readonly verified: number; readonly events: number };
}

export interface Store extends Outbox {
  /** The fence while this node may write, else null. */
  held(): Fence | null;

  append(commit: Commit): Promise<Appended>;
  event(seq: Seq): Promise<StoredEvent | null>;
  /** Events in order of sequence. */
  read(query: EventQuery): Promise<StoredEvent[]>;
  /** Events of several ranges in one call, without their bodies, in order of sequence. */
  ranges(ranges: readonly Range[]): Promise<StoredEvent[]>;
  /** Events of one stream, oldest first, with a sequence greater than `after`. */
  history(stream: string, after?: Seq, limit?: number): Promise<StoredEvent[]>;
  /** Events of these streams that earlier trims kept, oldest first within a stream. No trim or rewrite may run meanwhile. */
  kept(streams: readonly string[]): Promise<StoredEvent[]>;
  /** The newest events of one stream, without their bodies, oldest of them first. */
  recent(stream: string, limit: number): Promise<StoredEvent[]>;
  /** The newest events with this correlation id, likewise. */
  correlated(correlationId: string, limit?: number): Promise<StoredEvent[]>;
  head(): Seq;
  /** The sequence up to which the log was trimmed; 0 when nothing was. */
  horizon(): Seq;
  trim(trim: Trim): Promise<void>;
  /** Rejects with `Fenced` or `StoreUnavailable`; after the latter the rewrite may have happened, and is repeated. */
  rewrite(rewrite: Rewrite): Promise<void>;
  /**
   * Removes former versions of rewritten records from the store's files, where the store writes them itself. Resolves
   * with the names of files that still contain text for which `isLeft` holds, and lose it when the store opens next.
   */
  reclaim(isLeft: (text: string) => boolean): Promise<readonly string[]>;

  get(key: RowKey): Promise<Row | null>;
  /** What `get` would resolve with, where memory tells without a wait; else undefined. A store that never knows has no such method. */
  peek?(key: RowKey): Row | null | undefined;
  /** What `get` resolves with, unless `size` finds more than 0: then that, and it does not read the body. */
  getSmall(key: RowKey): Promise<Row | number | null>;
  /** An upper bound on the characters of these rows' bodies that exceed `smallBody`, without reading them: others may count as 0. */
  size(keys: readonly RowKey[]): Promise<number>;
  list(query: ListQuery): Promise<ListPage>;
  /** Every row of a kind (and of one owner, when given), listed or not, in order of owner and id. */
  scan(kind: string, owner?: string): AsyncIterable<Row>;
  /** How many rows a kind and owner have, listed or not; it reads none of them. */
  count(kind: string, owner: string): Promise<number>;
  /** Timers that are set, in order of instant. */
  due(): Promise<{ key: string; at: string }[]>;

  /** Writes a backup of one moment into an empty or missing directory. Rejects with a message for operators; then it leaves no such directory. */
  backup(directory: string, options?: BackupOptions): Promise<BackupManifest>;

  health(): StoreHealth;
  /** Called at every change of health. */
  onHealth(listener: (health: StoreHealth) => void): void;
  close(): Promise<void>;
}
