/**
 * What any store promises to the hub. Bytes and order only: nothing here knows OCPI, HTTP or actors.
 *
 * The contract is met by an embedded engine, which one process has, and by a database that several nodes share, of which one at a time
 * holds the fence; nothing outside `storage/` changes when the engine does. `test/storage/contract-suite.ts` is the exam that every store
 * must pass.
 *
 * CONTRACT-1  `append` resolves only when the events, rows and due times of the commit are durable, all or none.
 * CONTRACT-2  Sequences are dense, 1, 2, 3 …; commit order is sequence order.
 * CONTRACT-3  A commit carries an idempotency key: the same key twice appends once (`replayed` says so).
 * CONTRACT-4  A commit under a fence that is no longer held is refused with `Fenced` and changes nothing. One without a fence may come from any node
 *     that the store takes writes of, and is judged by what it was decided on alone (CONTRACT-11): a TypeError refuses it where it writes rows or sets
 *     timers and has seen none.
 * CONTRACT-5  After any failed write the store acknowledges nothing until it has been reopened and verified.
 * CONTRACT-6  `settle` is lazily durable: ordered with appends, safe against a killed process once it resolves, and at most
 *     about a second of it is lost when the machine loses power. What is lost is sent again, never forgotten.
 * CONTRACT-7  Every read sees every append and every settle that resolved before it began.
 * CONTRACT-8  What was damaged at rest is never returned as data: a read of it throws `Damaged`, and `health()` names it.
 * CONTRACT-9  `trim` moves the horizon, all of it or nothing: the events at or below it are gone, but for those kept so that rows can
 *     be made again. `read` begins behind the horizon, `event` gives null up to it, `history` and `correlated` give what is
 *     kept. The sequence goes on as before.
 * CONTRACT-10 A backup is one moment of the store, whole and verified under its final name, or there is none of that name.
 * CONTRACT-11 A commit that was decided on a row which is not what it was, because it was written or removed since, is refused with `Conflict`
 *     and changes nothing; those that wait with it are not touched. A commit whose key is in the log already is not judged again (CONTRACT-3).
 *
 * Names (stream, correlation id, kind, owner, id, shelf, `upd`, dest, key of a timer) hold neither U+0000 nor an unpaired
 * surrogate, bodies no unpaired surrogate: a TypeError refuses them. Order is by code point (the order of UTF-8 bytes)
 * everywhere.
 */

/** Position of an event in the log: dense, from 1. */
export type Seq = number;

/** Proof of who may write. The token grows each time that this changes (embedded: at each process start). */
export interface Fence {
  readonly token: number;
  readonly node: string;
}

/** A fact to be appended. */
export interface NewEvent {
  /** Actor or object that it belongs to, e.g. `partner:NL-CPO` or `sessions/NL-TNM/101`. */
  readonly stream: string;
  /** Past tense, dotted: `object.put`. */
  readonly type: string;
  /** RFC 3339, UTC, milliseconds. */
  readonly at: string;
  /** Who caused it (a party), for filters. */
  readonly party: string | null;
  /** Correlation id, for filters. */
  readonly correlationId: string | null;
  /** Parties to whom a delivery of this event is owed; empty when nobody is. */
  readonly to: readonly string[];
  /** JSON value. */
  readonly data: unknown;
  /** Text exactly as received, or null. Stored beside the JSON, never inside it. */
  readonly body: string | null;
}

export interface StoredEvent extends NewEvent {
  readonly seq: Seq;
}

/** Name of a row: `kind` and `owner` are chosen by the caller, `id` is unique among them. */
export interface RowKey {
  readonly kind: string;
  readonly owner: string;
  readonly id: string;
}

/** A projection: the present state of one thing, written in the same commit as the event that changed it. */
export interface Row extends RowKey {
  /** Lists read shelves: one row stands on one shelf (its owner's, or its viewer's), or on none and is unlisted. */
  readonly shelf: string | null;
  /** Sort key of lists, ascending; then owner, then id. */
  readonly upd: string;
  /** JSON value. */
  readonly data: unknown;
  /** Text as stored, or null. */
  readonly body: string | null;
  /** Sequence of the event that wrote it; set by the store. */
  readonly seq: Seq;
}

/** Characters of a body up to which nobody asks how long it is before it is read. */
export const smallBody = 65_536;

/** A row to be written, or removed when `gone`. */
export type Put = (Omit<Row, 'seq'> & { readonly gone?: false }) | (RowKey & { readonly gone: true });

/** A row as a decision read it. */
export interface Seen extends RowKey {
  /** Sequence of the event that had written the row; null when it was not there. */
  readonly seq: Seq | null;
}

/** A durable timer: fires never by itself; the hub reads them at start and keeps them in one shared timer. */
export interface Due {
  readonly key: string;
  /** RFC 3339 instant; null removes it. */
  readonly at: string | null;
}

export interface Commit {
  /** Null: it is judged by `seen` alone (CONTRACT-4). */
  readonly fence: Fence | null;
  /**
   * Idempotency key, unique per commit. Remembered for the commits of at least the last 65,536 events behind the horizon,
   * also across a restart: long enough for every retry of a caller who was told nothing, not for ever.
   */
  readonly idem: string;
  /** At least one. */
  readonly events: readonly NewEvent[];
  /** Rows written with them; their `seq` becomes that of the commit's last event. */
  readonly puts?: readonly Put[];
  readonly due?: readonly Due[];
  /** What it was decided on (CONTRACT-11). Not asked of a store when absent. */
  readonly seen?: readonly Seen[];
}

export interface Appended {
  readonly first: Seq;
  readonly last: Seq;
  /** The idempotency key had been committed before; nothing was written now. */
  readonly replayed: boolean;
}

/** We may not write any more: stop the actors, do not retry. */
export class Fenced extends Error {
  override readonly name = 'Fenced';
}

/** What the commit was decided on has changed (CONTRACT-11): decide again on what is stored now. */
export class Conflict extends Error {
  override readonly name = 'Conflict';
  /** Where the log ended when this was found: what changed stands at or below it. */
  readonly head: Seq;

  /** `key`: one of the rows that changed. */
  constructor({ kind, owner, id }: RowKey, head: Seq) {
    super(`${JSON.stringify([kind, owner, id])} was written since`);
    this.head = head;
  }
}

/** The store cannot take writes now (a failed write, a full disk, damage); the commit was not acknowledged. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
}

/** The outcome is not known (connection lost): retry with the same `idem` until it is. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown';
}

/** A record fails its checksum. Rows are mended by writing them again (`StoreHealth.damagedRows`). */
export class Damaged extends Error {
  override readonly name = 'Damaged';
  readonly key: string;

  constructor(key: string) {
    super(`the record ${JSON.stringify(key)} is damaged`);
    this.key = key;
  }
}

/** Place in the order of a list: the row that stood last on the page before. */
export interface Position {
  readonly upd: string;
  readonly owner: string;
  readonly id: string;
}

/** A stretch of the log: behind which sequence, and up to which. */
export interface Range {
  readonly after: Seq;
  readonly upTo: Seq;
}

export interface ListQuery {
  readonly kind: string;
  /** Shelves to merge; an unknown shelf is empty. */
  readonly shelves: readonly string[];
  /** Inclusive lower and exclusive upper bound on `upd`. */
  readonly from?: string;
  readonly to?: string;
  /** Rows to skip; ignored when `after` is given. */
  readonly offset: number;
  /** At most this many rows. */
  readonly limit: number;
  /** No more once their bodies have so many characters together; at least one comes. */
  readonly size?: number;
  /** Only rows behind this position. */
  readonly after?: Position;
  /** Whoever asks reads bodies alone: the `data` of rows may come as null, which spares reading it. */
  readonly bodiesOnly?: true;
}

export interface ListPage {
  readonly rows: Row[];
  /** Rows that match under the same filters, `offset`, `limit` and `after` aside. */
  readonly total: number;
  /** Index of the first row of the page in the whole matching list (`offset`, or the rank of `after`). */
  readonly offset: number;
}

export interface EventQuery {
  /** Events with a greater sequence; 0 = from the start. */
  readonly after: Seq;
  /** At most this many. */
  readonly limit: number;
  /** No more once their records have about so many characters together; at least one comes. */
  readonly size?: number;
  /** Only events owed to this party. */
  readonly to?: string;
}

export type DeliveryState = 'PENDING' | 'DELIVERED' | 'DEAD';

/**
 * What is remembered of one delivery: at most one row, the last that was settled. The log is the outbox: a delivery without
 * a row is delivered when its sequence is at or below the receiver's floor, and pending when above. `PENDING` rows are those
 * that wait for another attempt.
 */
export interface DeliveryRow {
  readonly dest: string;
  readonly seq: Seq;
  readonly state: DeliveryState;
  /** JSON value: attempts, due time, reason; the store does not look inside. */
  readonly data: unknown;
}

/** Everything owed to `dest` at or below `seq` is delivered or has a row of its own. */
export interface Floor {
  readonly dest: string;
  readonly seq: Seq;
}

export interface DeliveryQuery {
  readonly dest: string;
  /** `open` = PENDING and DEAD rows, `DELIVERED` = the remembered successes. */
  readonly rows: 'open' | 'DELIVERED';
  /** Inclusive bounds. */
  readonly fromSeq?: Seq;
  readonly toSeq?: Seq;
  readonly limit: number;
}

export interface Outbox {
  /** Floors of every receiver that has one. */
  floors(): Promise<Floor[]>;
  /** Remember ends and retries of attempts (CONTRACT-6). A row replaces the one of the same delivery, whatever its state. */
  settle(fence: Fence, rows: readonly DeliveryRow[], floors: readonly Floor[]): Promise<void>;
  /** Rows of one receiver in order of sequence. */
  deliveries(query: DeliveryQuery): Promise<DeliveryRow[]>;
  delivery(dest: string, seq: Seq): Promise<DeliveryRow | null>;
}

/** An event that stays at or below the horizon: as it was, or standing for itself and those of its stream that go. */
export interface Kept extends NewEvent {
  /** Where an event of the same stream stood, behind the present horizon. */
  readonly seq: Seq;
  /** Rows that follow from it and must be there. */
  readonly rows: readonly RowKey[];
}

/** Moves the horizon. Refused with a RangeError when `upTo` is not between horizon and head. */
export interface Trim {
  readonly fence: Fence;
  /** The new horizon: events at or below it go, and all that is remembered of their deliveries. */
  readonly upTo: Seq;
  readonly keeps: readonly Kept[];
  /** Kept by an earlier trim, and not needed any more. */
  readonly drops: readonly Seq[];
  /** Rows that go too; one that an event behind `upTo` wrote stays. */
  readonly rows: readonly RowKey[];
}

/** What a backup holds, as its `manifest.json` says. */
export interface BackupManifest {
  readonly format: 2;
  /** RFC 3339. */
  readonly made_at: string;
  readonly head: Seq;
  readonly horizon: Seq;
  readonly events: number;
  readonly rows: number;
  /** Remembered deliveries: open ones and successes. */
  readonly deliveries: number;
  readonly timers: number;
  /** All of these and the store's own. */
  readonly records: number;
  /** Of keys and values, UTF-8. */
  readonly bytes: number;
  /** SHA-256 over every key and value in order, hexadecimal. */
  readonly digest: string;
}

export interface BackupOptions {
  /** Called now and then with the records that were copied, then verified. */
  readonly progress?: (step: 'copying' | 'verifying', records: number) => void;
  /** Ends it; nothing is left behind. */
  readonly signal?: AbortSignal;
}

/** What a node sees of the database that it shares, besides its lease. */
export interface Sight {
  /** The database's clock less ours, ms; 0 when no difference can be told. */
  readonly clockAheadMs: number;
  /** The transaction in this database that has been open for longest; null when there is none. */
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
  /** `open` takes writes; `failed` is mending itself; `quarantined` is damaged: reads go on, writes are refused. */
  readonly state: 'open' | 'failed' | 'quarantined' | 'closed';
  /** What is wrong, in a sentence, with the exact range when damaged; a warning when `open`. */
  readonly reason: string | null;
  /**
   * Rows that are damaged or missing while the log is whole. They stand on no list and `get` of them throws. The store
   * does not know how a row follows from events: the hub folds `history` and writes the row by an ordinary commit, so that
   * the repair is in the log too; writing (or removing) the row takes it off this list.
   */
  readonly damagedRows: readonly RowKey[];
  readonly head: Seq;
}

export interface Store extends Outbox {
  /** The fence while we may write, else null. */
  held(): Fence | null;

  append(commit: Commit): Promise<Appended>;

  event(seq: Seq): Promise<StoredEvent | null>;
  /** Events in order of sequence. */
  read(query: EventQuery): Promise<StoredEvent[]>;
  /** Events of several stretches at once, without their bodies, in order of sequence. */
  ranges(ranges: readonly Range[]): Promise<StoredEvent[]>;
  /** Events of one stream, oldest first, with a sequence greater than `after`. */
  history(stream: string, after?: Seq, limit?: number): Promise<StoredEvent[]>;
  /** Events that carry this correlation id, oldest first. */
  correlated(correlationId: string, limit?: number): Promise<StoredEvent[]>;
  head(): Seq;
  /** Sequence up to which the log was trimmed; 0 when all of it is there. */
  horizon(): Seq;
  trim(trim: Trim): Promise<void>;

  get(key: RowKey): Promise<Row | null>;
  /**
   * At least as many characters as the bodies of these rows have together, without reading them. A body of up to `smallBody` may count
   * nothing, and so does a row that is not there.
   */
  size(keys: readonly RowKey[]): Promise<number>;
  list(query: ListQuery): Promise<ListPage>;
  /** Every row of a kind (of one owner, when given), listed or not, in order of owner and id. */
  scan(kind: string, owner?: string): AsyncIterable<Row>;

  /** Timers that are still set, in order of instant. */
  due(): Promise<{ key: string; at: string }[]>;

  /**
   * Writes a backup into a directory that is empty or not there yet, from one moment of the store, while it is used. Rejects
   * with a sentence for people when it cannot; then nothing stands there.
   */
  backup(directory: string, options?: BackupOptions): Promise<BackupManifest>;

  health(): StoreHealth;
  /** Called at every change of health. */
  onHealth(listener: (health: StoreHealth) => void): void;
  close(): Promise<void>;
}
