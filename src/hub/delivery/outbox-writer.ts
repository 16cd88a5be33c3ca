/**
 * Remembers how deliveries went: rows of what is being retried, dead or done, and each receiver's floor. Written lazily and
 * together, never a synced write per attempt.
 *
 * OUTBOX-WRITER-1  A floor never passes a delivery that has neither ended nor a row of its own.
 * OUTBOX-WRITER-2  Rows and the floors that rely on them go in one write.
 */
import type { DeliveryQuery, DeliveryRow, Floor, Seq, Store } from '../../../storage/contract.ts';
import type { OutcomeClass } from '../../domain/errors.ts';
import type { Attempt } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import type { PartyId } from '../../domain/party.ts';
import { type Clock, sleep } from '../../kit/clock.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Log } from '../ports/ports.ts';
import type { Item } from './lanes.ts';

/** What a delivery's row remembers. */
export interface DeliveryMemory {
  readonly attempts: readonly Attempt[];
  /** RFC 3339; null when it has ended. */
  readonly due: string | null;
  /** Start of the retry window, RFC 3339. */
  readonly since: string;
  /** Attempts in this window. */
  readonly tries: number;
  readonly module: string;
  /** How it ended; null while it waits. */
  readonly class: OutcomeClass | null;
  /** Why it is dead. */
  readonly reason: string | null;
  /** Put back by an operator. */
  readonly redriven?: true;
  /** It went as a whole in place of a part. [D59] */
  readonly whole?: true;
}

/** Of an attempt: when the next is due, or how it all ended. */
export type Ending = Pick<DeliveryMemory, 'due' | 'class' | 'reason'>;

export function memoryOf(item: Item, { due, class: ended, reason }: Ending): DeliveryMemory {
  const { module, attempts, tries, isRedriven, asWhole } = item;
  const since = instantText(item.since);
  const marks = { ...(isRedriven && { redriven: true as const }), ...(asWhole && { whole: true as const }) };
  return { module, attempts, tries, since, due, class: ended, reason, ...marks };
}

/** How far one receiver has come in the log. */
export interface Progress {
  readonly receiver: PartyId;
  /** Everything owed up to here was taken into memory. */
  cursor: Seq;
  /** The log holds more than memory: it is read on when there is room. */
  behind: boolean;
  reading: boolean;
  /** Taken into memory and neither ended nor remembered by a row; ascending. */
  readonly outstanding: Set<Seq>;
  /** Sequences above the floor that have rows, so they are not taken again. */
  readonly known: Set<Seq>;
  flushed: Seq;
}

const rowKey = ({ dest, seq }: Pick<DeliveryRow, 'dest' | 'seq'>) => `${dest}/${seq}`;

const retryWriteMs = 1_000;
const rowsBatch = 500;
/** Receivers whose first rows are read together. */
const readAtOnce = 16;

/** Rows of one receiver from a sequence on, read in batches so that memory stays bounded. */
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

/** Open rows of these receivers up to a sequence, each receiver's together. */
export async function* openRows(store: Store, receivers: Iterable<PartyId>, toSeq?: Seq): AsyncIterable<DeliveryRow> {
  const query = { rows: 'open', ...(toSeq !== undefined && { toSeq }) } as const;
  const left = [...receivers];
  while (left.length > 0) {
    const some = left.splice(0, readAtOnce);
    const pages = await Promise.all(
      some.map((dest) => store.deliveries({ ...query, dest, fromSeq: 0, limit: rowsBatch })),
    );
    for (const rows of pages) {
      yield* rows;
      const last = rows.at(-1);
      if (last && rows.length === rowsBatch) yield* rowsOf(store, { ...query, dest: last.dest, fromSeq: last.seq + 1 });
    }
  }
}

export class OutboxWriter {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #dispatchedTo: () => Seq;
  /** Not written yet, by delivery; the later of two rows counts. */
  #rows = new Map<string, DeliveryRow>();
  /** Being written. */
  #flying: ReadonlyMap<string, DeliveryRow> = new Map();
  #touched = new Set<Progress>();
  #writing: Promise<void> | null = null;
  /** Who waits for the next write. */
  #waiting: { resolve: () => void; reject: (error: unknown) => void }[] = [];
  #wake: () => void = () => {};
  #closed = false;

  constructor(store: Store, clock: Clock, log: Log, dispatchedTo: () => Seq) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#dispatchedTo = dispatchedTo;
  }

  remember(progress: Progress, row: DeliveryRow): void {
    this.#rows.set(rowKey(row), row);
    this.touch(progress);
  }

  /** Resolves when what was remembered before this call is safe from a kill, whatever else is remembered meanwhile. */
  flushed(): Promise<void> {
    const written = new Promise<void>((resolve, reject) => this.#waiting.push({ resolve, reject }));
    this.#writing ??= this.#drain();
    return written;
  }

  /** A row that the store does not have yet. */
  unwritten(dest: PartyId, seq: Seq): DeliveryRow | undefined {
    const key = rowKey({ dest, seq });
    return this.#rows.get(key) ?? this.#flying.get(key);
  }

  /** Rows that the store does not have yet; of two for the same delivery the later one comes later. */
  unwrittenRows(): readonly DeliveryRow[] {
    return [...this.#flying.values(), ...this.#rows.values()];
  }

  /** Its floor may have moved. */
  touch(progress: Progress): void {
    this.#touched.add(progress);
    this.#writing ??= this.#drain();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#wake();
    await this.#writing;
  }

  floorOf(progress: Progress): Seq {
    const [first] = progress.outstanding;
    if (first !== undefined) return first - 1;
    return progress.behind ? progress.cursor : this.#dispatchedTo();
  }

  async #drain(): Promise<void> {
    // What else is settled in this turn of the event loop goes into the same write.
    await nextTurn();
    while (this.#rows.size > 0 || this.#touched.size > 0 || this.#waiting.length > 0) {
      const rows = this.#rows;
      const touched = [...this.#touched];
      const waiting = this.#waiting;
      this.#flying = rows;
      this.#rows = new Map();
      this.#touched = new Set();
      this.#waiting = [];
      try {
        await this.#write([...rows.values()], touched);
        this.#flying = new Map();
        for (const { resolve } of waiting) resolve();
      } catch (error) {
        const level = this.#store.held() ? 'error' : 'warn';
        this.#log[level]({ err: error, rows: rows.size }, 'could not remember how deliveries went; trying again');
        this.#rows = new Map([...rows, ...this.#rows]);
        for (const progress of touched) this.#touched.add(progress);
        this.#waiting.unshift(...waiting);
        if (this.#closed) {
          for (const { reject } of this.#waiting.splice(0)) reject(error);
          break;
        }
        await sleep(this.#clock, retryWriteMs, (wake) => {
          this.#wake = wake;
        });
      }
    }
    // In the same turn as the last look at what is left: whatever comes after it starts a new write.
    this.#writing = null;
  }

  async #write(rows: readonly DeliveryRow[], touched: readonly Progress[]): Promise<void> {
    const fence = this.#store.held();
    // Another node owns the log: the write fails, so that no caller takes its rows for durable.
    if (!fence) throw new Error('the log is not written here now');
    // All floors before the first wait: what ends meanwhile has its row in the next write. [OUTBOX-WRITER-2]
    const raised = touched
      .map((progress) => ({ progress, seq: this.floorOf(progress) }))
      .filter(({ progress, seq }) => seq > progress.flushed);
    const floors = raised.map(({ progress, seq }): Floor => ({ dest: progress.receiver, seq }));
    await this.#store.settle(fence, rows, floors);
    for (const { progress, seq } of raised) progress.flushed = seq;
  }
}
