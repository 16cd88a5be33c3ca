/**
 * Sends one receiver what it is owed, in order of the log. The stream of notifications is the queue; the store's outbox
 * remembers how far the receiver is (its floor) and what it did not take (rows), as it does for partners.
 *
 * OUTLET-1  A receiver gets everything in order, one batch at a time, and at least once, across restarts and kills.
 * OUTLET-2  An attempt that fails is repeated after a back-off that doubles up to `waitMaxMs`.
 * OUTLET-3  What a receiver has not taken for `givenUpMs` is a dead letter when its next attempt fails. It stays until it is
 *     re-driven or its event leaves the log.
 * OUTLET-4  The hub starts no attempt while the receiver is not active, and none after `close`.
 */
import type { DeliveryRow, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { Notice } from '../../domain/notification.ts';
import { dayMs } from '../../kit/clock.ts';
import { Running } from '../../kit/concurrency.ts';
import type { Context } from '../kernel/context.ts';
import type { Receipt } from '../ports/ports.ts';
import { stream } from './watch.ts';

/** First back-off, ms; it doubles with each failure. */
const waitMs = 5_000;
/** Longest back-off, ms: how long a receiver that is back may wait for what it is owed. */
const waitMaxMs = 600_000;
/** Share of a back-off by which it varies both ways, so that receivers do not come in step. */
const jitter = 0.2;
/** Age at which a notification is given up, ms. [OUTLET-3] */
const givenUpMs = 3 * dayMs;
/** Events of one read of the log. */
const pageEvents = 200;
/** Rows of one read, and those that are shown at most. */
const rowsMax = 1000;

/** A notification as it is owed. */
export interface Owed {
  readonly seq: Seq;
  /** When it was recorded, RFC 3339. */
  readonly at: string;
  readonly notice: Notice;
}

export interface Recipient {
  /** Name of its queue in the outbox. */
  readonly dest: string;
  readonly isActive: boolean;
  /** Notifications of one call. */
  readonly batchMax: number;
  /** Least time between two calls, ms. */
  readonly gapMs: number;
  isFor(notice: Notice): boolean;
  /** Never throws. */
  tell(batch: readonly Owed[]): Promise<Receipt>;
}

export interface LastReceipt extends Receipt {
  /** RFC 3339. */
  readonly at: string;
}

/** A dead letter, as the outbox remembers it. */
export interface GivenUp extends Owed {
  readonly answer: string;
}

/** What a receiver is owed, at most `rowsMax`, and its dead letters. */
export interface Standing {
  readonly owed: number;
  readonly dead: readonly GivenUp[];
}

interface Batch {
  readonly items: readonly Owed[];
  /** The floor after it; null for a re-driven one, which lies below the floor. */
  readonly upTo: Seq | null;
  /** What is owed next, the batch included. */
  readonly ahead: readonly Owed[];
}

const owedBy = ({ seq, at, data }: StoredEvent): Owed => ({ seq, at, notice: data as Notice });

export class Outlet {
  recipient: Recipient;
  last: LastReceipt | null = null;
  readonly #context: Context;
  readonly #running = new Running();
  #floor: Seq;
  /** Rows of the outbox may wait below the floor. */
  #mayHaveRows = true;
  #failures = 0;
  /** Hub time before which no attempt is made. */
  #dueAt = Number.NEGATIVE_INFINITY;
  #isBusy = false;
  #isWoken = false;
  #isClosed = false;

  constructor(context: Context, recipient: Recipient, floor: Seq) {
    this.#context = context;
    this.recipient = recipient;
    this.#floor = floor;
  }

  /** Hub time of the next attempt after a failure; null when none failed. */
  get retryAt(): number | null {
    return this.#failures > 0 ? this.#dueAt : null;
  }

  /** Sends what is owed as soon as it may. */
  wake(): void {
    this.#isWoken = true;
    if (this.#isBusy || this.#isClosed) return;
    this.#isBusy = true;
    this.#running.add(
      this.#run()
        .catch((error: unknown) => {
          const { log, clock } = this.#context.ports;
          log.error({ err: error, receiver: this.recipient.dest }, 'could not send notifications; retrying');
          this.#failures += 1;
          this.#dueAt = clock.now() + waitMs;
          this.#isWoken = true;
        })
        .finally(() => {
          this.#isBusy = false;
          if (this.#isWoken) this.#arm();
        }),
    );
  }

  /** Forgets the back-off, for a receiver that was changed. */
  wakeNow(): void {
    this.#failures = 0;
    this.#dueAt = Number.NEGATIVE_INFINITY;
    this.wake();
  }

  /** What it is owed, at most `rowsMax`, and its dead letters. */
  async standing(): Promise<Standing> {
    return this.#standingOf(await this.#rows());
  }

  async #standingOf(rows: readonly DeliveryRow[]): Promise<Standing> {
    const { store } = this.#context;
    const events = await store.history(stream, this.#floor, rowsMax);
    const waiting = rows.filter(({ state }) => state === 'PENDING').length;
    const ahead = events.map(owedBy).filter(({ notice }) => this.recipient.isFor(notice));
    return {
      owed: Math.min(rowsMax, waiting + ahead.length),
      dead: rows.filter(({ state }) => state === 'DEAD').map(({ data }) => data as GivenUp),
    };
  }

  /** Owes the dead letters again, and sends what waits now; resolves with the number of both. */
  async redrive(): Promise<{ readonly queued: number; readonly owed: number }> {
    // Before the first change: where a read fails, the dead letters are as they were.
    const rows = await this.#rows();
    const { owed } = await this.#standingOf(rows);
    const since = this.#context.ports.clock.wall();
    const again = rows.flatMap((row): DeliveryRow[] =>
      row.state === 'DEAD' ? [{ ...row, state: 'PENDING', data: { ...(row.data as GivenUp), since } }] : [],
    );
    await this.#settle(again, null);
    this.#mayHaveRows = true;
    this.wakeNow();
    return { queued: again.length, owed: Math.min(rowsMax, owed + again.length) };
  }

  /** Resolves when the attempt under way has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#context.timers.disarm(this.#timer);
    await this.#running.ended();
  }

  get #timer(): string {
    return `notify:${this.recipient.dest}`;
  }

  #arm(): void {
    const { timers, ports } = this.#context;
    if (!this.#isClosed) timers.arm(this.#timer, Math.max(ports.clock.now(), this.#dueAt), () => this.wake());
  }

  async #run(): Promise<void> {
    const { clock } = this.#context.ports;
    while (this.#isWoken && !this.#isClosed && this.recipient.isActive) {
      if (clock.now() < this.#dueAt) return;
      this.#isWoken = false;
      for (let batch = await this.#next(); batch !== null; batch = await this.#next()) {
        if (this.#isClosed || !this.recipient.isActive) return;
        await this.#attempt(batch);
        if (clock.now() >= this.#dueAt) continue;
        this.#isWoken = true;
        return;
      }
    }
    if (!this.recipient.isActive) this.#isWoken = false;
  }

  /** What is to be sent next; null when nothing is owed. */
  async #next(): Promise<Batch | null> {
    const { store } = this.#context;
    const { batchMax } = this.recipient;
    if (this.#mayHaveRows) {
      const rows = (await this.#rows()).filter(({ state }) => state === 'PENDING');
      const ahead = rows.map(({ data }) => data as Owed);
      if (ahead.length > 0) return { items: ahead.slice(0, batchMax), upTo: null, ahead };
      this.#mayHaveRows = false;
    }
    for (;;) {
      const events = (await store.history(stream, this.#floor, pageEvents)).filter(({ seq }) => seq > this.#floor);
      const last = events.at(-1);
      if (!last) return null;
      const ahead = events.map(owedBy).filter(({ notice }) => this.recipient.isFor(notice));
      const items = ahead.slice(0, batchMax);
      const end = items.at(-1);
      if (end) return { items, upTo: end.seq, ahead };
      await this.#settle([], last.seq);
    }
  }

  /** [OUTLET-2, OUTLET-3] */
  async #attempt({ items, upTo, ahead }: Batch): Promise<void> {
    const { ports, recorder } = this.#context;
    const { clock, log, random } = ports;
    const { dest, gapMs } = this.recipient;
    const receipt = await this.recipient.tell(items);
    this.last = { ...receipt, at: recorder.instant() };
    const rowOf = (one: Owed, state: DeliveryRow['state']): DeliveryRow => {
      return { dest, seq: one.seq, state, data: { ...one, answer: receipt.answer } };
    };
    if (receipt.isTaken) {
      await this.#settle(upTo === null ? items.map((one) => rowOf(one, 'DELIVERED')) : [], upTo);
      this.#failures = 0;
      this.#dueAt = gapMs === 0 ? this.#dueAt : clock.now() + gapMs;
      return;
    }
    const wait = Math.min(waitMs * 2 ** this.#failures, waitMaxMs) * (1 + jitter * (2 * random() - 1));
    this.#failures += 1;
    this.#dueAt = clock.now() + Math.max(wait, gapMs);
    const { httpStatus, answer } = receipt;
    const next = { attempt: this.#failures, waitS: Math.round(wait / 1000) };
    log.warn({ receiver: dest, httpStatus, answer, ...next }, 'a receiver did not take a notification; retrying');
    const isOld = (one: Owed & { readonly since?: number }) =>
      clock.now() - clock.steady(one.since ?? Date.parse(one.at)) >= givenUpMs;
    const old = ahead.filter(isOld);
    const end = old.at(-1);
    if (!end) return;
    log.error({ receiver: dest, count: old.length, answer }, 'notifications are given up and stay as dead letters');
    await this.#settle(
      old.map((one) => rowOf(one, 'DEAD')),
      upTo === null ? null : end.seq,
    );
  }

  async #rows(): Promise<DeliveryRow[]> {
    const { store } = this.#context;
    return store.deliveries({ dest: this.recipient.dest, rows: 'open', fromSeq: 0, limit: rowsMax });
  }

  /** The rows and the floor are written together. Throws when the store cannot write: then it is sent again. */
  async #settle(rows: readonly DeliveryRow[], floor: Seq | null): Promise<void> {
    const { store } = this.#context;
    const { dest } = this.recipient;
    const fence = store.held();
    if (!fence) throw new Error('this node may not write');
    if (rows.length > 0 || floor !== null) {
      await store.settle(fence, rows, floor === null ? [] : [{ dest, seq: floor }]);
    }
    if (floor !== null) this.#floor = floor;
  }
}
