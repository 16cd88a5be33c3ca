/**
 * Writes delivery state: a row for each delivery that is being retried, dead or done, and each receiver's floor (its
 * low watermark in the log). It writes lazily and in batches, never a synced write per attempt.
 *
 * OUTBOX-WRITER-1  A floor never passes a delivery that has neither ended nor a row of its own.
 * OUTBOX-WRITER-2  A floor is written with the rows that it relies on or after them; of more than `settledAtOnce` rows with the last.
 * OUTBOX-WRITER-3  A write that fails is repeated until it succeeds; once the hub closes, it refuses its waiting callers as `unavailable` instead.
 * OUTBOX-WRITER-4  While `rowsMax` rows are not written, `isFull` holds and the dispatcher begins no attempt: memory is bounded and a kill repeats no
 *     more than these and what was in flight, however long the store takes no writes.
 * OUTBOX-WRITER-5  Floors are written every `floorsEveryMs` at most, and the last ones when the hub closes: in a fan-out each delivery moves
 *     one, which costs as much as its row. What is sent again after a kill depends on the rows alone.
 */
import type { DeliveryQuery, DeliveryRow, DeliveryState, Floor, Seq, Store } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import { deliveryId } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';
import { background, type Clock, sleep, withTimeout } from '../../kit/clock.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Context } from '../kernel/context.ts';
import type { Log } from '../ports/ports.ts';
import type { Progress } from './progress.ts';

export interface DeliveryStanding {
  /** Null before the first attempt is settled, and for an old success of which only the floor tells. */
  readonly row: DeliveryRow | null;
  readonly state: DeliveryState;
}

const none: ReadonlyMap<string, DeliveryRow> = new Map();

const rowKey = ({ dest, seq }: Pick<DeliveryRow, 'dest' | 'seq'>) => `${dest}/${seq}`;

const retryWriteMs = 1_000;
/** Longest wait in `flushed`, ms: an operator waits for it, or changes of a partner or an object behind it in its turn. */
const flushMs = 5_000;
const rowsBatch = 500;
/** Rows of one settle. Those of a store that took none for long hold up the event loop, 1,000 of them for about 50 ms. */
const settledAtOnce = 1_000;
/** A longer time makes a start read more of the log, a shorter one costs a fan-out CPU. [OUTBOX-WRITER-5] */
const floorsEveryMs = 200;
/** Receivers whose first batch of rows is read concurrently. */
const readAtOnce = 16;

/** Rows of one receiver from a sequence on, read in batches of `rowsBatch` to bound memory. */
export async function* rowsOf(
  store: Store,
  query: Omit<DeliveryQuery, 'limit' | 'fromSeq'> & { fromSeq: Seq },
): AsyncIterable<DeliveryRow> {
  for (let fromSeq = query.fromSeq; ; ) {
    const rows = await store.deliveries({ ...query, fromSeq, limit: rowsBatch });
    yield* rows;
    const last = rows.at(-1);
    if (!last || rows.length < rowsBatch) return;
    fromSeq = last.seq + 1;
  }
}

/** Open rows (all but DELIVERED) of these receivers, up to a sequence and from one on, grouped by receiver. */
export async function* openRows(
  store: Store,
  receivers: Iterable<PartyId>,
  toSeq?: Seq,
  fromSeq: Seq = 0,
): AsyncIterable<DeliveryRow> {
  const query = { rows: 'open', ...(toSeq !== undefined && { toSeq }) } as const;
  const left = [...receivers];
  while (left.length > 0) {
    const some = left.splice(0, readAtOnce);
    const pages = await Promise.all(
      some.map((dest) => store.deliveries({ ...query, dest, fromSeq, limit: rowsBatch })),
    );
    for (const rows of pages) {
      yield* rows;
      const last = rows.at(-1);
      if (last && rows.length === rowsBatch) yield* rowsOf(store, { ...query, dest: last.dest, fromSeq: last.seq + 1 });
    }
  }
}

/** Dead letters of all receivers; a row that is not written yet supersedes the stored one. */
export async function* deadRows(
  { store, directory }: Pick<Context, 'store' | 'directory'>,
  unwritten: readonly DeliveryRow[],
): AsyncIterable<DeliveryRow> {
  const superseded = new Set(unwritten.map((row) => deliveryId(row.dest, row)));
  for await (const row of openRows(store, directory.parties())) {
    if (row.state === 'DEAD' && !superseded.has(deliveryId(row.dest, row))) yield row;
  }
  yield* unwritten.filter(({ state }) => state === 'DEAD');
}

export class OutboxWriter {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #dispatchedTo: () => Seq;
  readonly #rowsMax: number;
  readonly #hasRoom: () => void;
  /** Rows not written yet, by delivery; a later row replaces the earlier one. */
  #rows = new Map<string, DeliveryRow>();
  /** Rows of the write in progress. */
  #flying = none;
  #touched = new Set<Progress>();
  /** When floors may be written again, monotonic ms. */
  #floorsFrom = Number.NEGATIVE_INFINITY;
  #floorsTimer: unknown = null;
  #writing: Promise<void> | null = null;
  /** Callers of `written` that wait for the next write. */
  #waiting: { resolve: () => void; reject: (error: unknown) => void }[] = [];
  readonly #ending = new AbortController();

  /** `hasRoom` is called after each successful write: a failed one may have made room before it, where a delivery had two rows. */
  constructor(
    { store, clock, log, rowsMax }: { store: Store; clock: Clock; log: Log; rowsMax: number },
    dispatchedTo: () => Seq,
    hasRoom: () => void,
  ) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#rowsMax = rowsMax;
    this.#dispatchedTo = dispatchedTo;
    this.#hasRoom = hasRoom;
  }

  /** [OUTBOX-WRITER-4] */
  get isFull(): boolean {
    return this.#rows.size + this.#flying.size >= this.#rowsMax;
  }

  /** Has a row written, and the floor of its receiver, which it lets move. */
  remember(progress: Progress, row: DeliveryRow): void {
    progress.settle(row.seq);
    this.#rows.set(rowKey(row), row);
    this.touch(progress);
  }

  /** As `written`, for what an operator or a turn waits for: throws `unavailable` when the store takes none of it for `flushMs`. */
  async flushed(): Promise<void> {
    if (await withTimeout(this.#clock, flushMs, this.written())) return;
    throw new HubError('unavailable', { message: 'the state of deliveries cannot be written now', retryAfterS: 1 });
  }

  /** Resolves when every row remembered before this call survives a kill; later rows do not delay it. */
  written(): Promise<void> {
    const written = new Promise<void>((resolve, reject) => this.#waiting.push({ resolve, reject }));
    this.#writing ??= this.#drain();
    return written;
  }

  /** The row of a delivery if the store does not have it yet. */
  unwritten(dest: PartyId, seq: Seq): DeliveryRow | undefined {
    const key = rowKey({ dest, seq });
    return this.#rows.get(key) ?? this.#flying.get(key);
  }

  /** Rows that the store does not have yet, one for each delivery: its latest. */
  unwrittenRows(): readonly DeliveryRow[] {
    return [...new Map([...this.#flying, ...this.#rows]).values()];
  }

  /** Has the floor of a receiver written if it has moved. [OUTBOX-WRITER-5] */
  touch(progress: Progress): void {
    this.#touched.add(progress);
    this.#writing ??= this.#drain();
  }

  /** From now on a write that fails rejects its waiting callers and is not repeated. [OUTBOX-WRITER-3] */
  giveUp(): void {
    this.#ending.abort();
  }

  async close(): Promise<void> {
    this.giveUp();
    this.#clock.clearTimeout(this.#floorsTimer);
    if (this.#touched.size > 0) this.#writing ??= this.#drain();
    await this.#writing;
  }

  /** [OUTBOX-WRITER-5] */
  get #areFloorsDue(): boolean {
    return this.#touched.size > 0 && (this.#ending.signal.aborted || this.#clock.monotonic() >= this.#floorsFrom);
  }

  #armFloors(): void {
    const waitMs = this.#floorsFrom - this.#clock.monotonic();
    this.#floorsTimer ??= background(
      this.#clock.setTimeout(() => {
        this.#floorsTimer = null;
        this.#writing ??= this.#drain();
      }, waitMs),
    );
  }

  async #drain(): Promise<void> {
    // Group commit: whatever else is settled in this turn of the event loop goes into the same write.
    await nextTurn();
    while (this.#rows.size > 0 || this.#waiting.length > 0 || this.#areFloorsDue) {
      const rows = this.#rows;
      const touched = this.#areFloorsDue ? [...this.#touched] : [];
      const waiting = this.#waiting;
      this.#flying = rows;
      this.#rows = new Map();
      if (touched.length > 0) this.#touched = new Set();
      this.#waiting = [];
      try {
        await this.#write([...rows.values()], touched);
        this.#flying = none;
        for (const { resolve } of waiting) resolve();
        this.#hasRoom();
      } catch (error) {
        const level = this.#store.held() ? 'error' : 'warn';
        const isLast = this.#ending.signal.aborted;
        const next = isLast ? 'the hub closes without it' : 'next try in 1 s';
        this.#log[level]({ err: error, rows: rows.size }, `could not write delivery state; ${next}`);
        for (const [key, later] of this.#rows) rows.set(key, later);
        this.#rows = rows;
        this.#flying = none;
        // Those of this write first: a party may have gone to another partner meanwhile, and of two floors the store keeps the last.
        this.#touched = new Set([...touched, ...this.#touched]);
        this.#waiting.unshift(...waiting);
        if (isLast) {
          for (const { reject } of this.#waiting.splice(0)) reject(new HubError('unavailable', { retryAfterS: 1 }));
          break;
        }
        await sleep(this.#clock, retryWriteMs, this.#ending.signal);
      }
    }
    // No await since the loop found nothing left, so a row that comes later starts a new drain.
    this.#writing = null;
    if (this.#touched.size > 0 && !this.#ending.signal.aborted) this.#armFloors();
  }

  async #write(rows: readonly DeliveryRow[], touched: readonly Progress[]): Promise<void> {
    const fence = this.#store.held();
    // Another node holds the fence: the write fails, so that no caller takes its rows for durable.
    if (!fence) throw new Error('the log is not written here now');
    // Floors are computed before the first await: a delivery that ends during it has its row in the next write.
    // [OUTBOX-WRITER-2]
    const raised = touched
      .map((progress) => ({ progress, seq: progress.floor(this.#dispatchedTo()) }))
      .filter(({ progress, seq }) => progress.isRaisedTo(seq));
    const floors = raised.map(({ progress, seq }): Floor => ({ dest: progress.receiver, seq }));
    let from = 0;
    for (; rows.length - from > settledAtOnce; from += settledAtOnce)
      await this.#store.settle(fence, rows.slice(from, from + settledAtOnce), []);
    await this.#store.settle(fence, from === 0 ? rows : rows.slice(from), floors);
    for (const { progress, seq } of raised) progress.written(seq);
    if (touched.length > 0) this.#floorsFrom = this.#clock.monotonic() + floorsEveryMs;
  }
}
