/**
 * Dispatches the committed events of all nodes in order of sequence, without a gap. [RECORDER-3]
 *
 * COMMIT-FEED-1  Events of this node arrive when their commit ends. Events of other nodes are read from the log: to
 *     fill a gap, and up to a sequence that `follow` announces.
 * COMMIT-FEED-2  No event is dispatched before `begin`. Recovery calls `begin` when it has read the owed deliveries up
 *     to the sequence of `startAt`.
 * COMMIT-FEED-3  A door needs only the changes of partners and routes, and reads no events while the row `directoryKey`
 *     shows that there are none.
 */
import type { Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import { type Clock, sleep, withTimeout } from '../../kit/clock.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Log } from '../ports/ports.ts';
import { directoryKey } from './directory.ts';
import { withoutWho } from './row-codecs.ts';

/** Back-off after a read of the log that failed or found nothing, ms. */
const readAgainMs = 200;
/**
 * How long `reached` waits, ms; then it throws `unavailable`, so that no request hangs while events of other nodes
 * cannot be read.
 */
const reachedMs = 5000;
/** Size of a page that is read from the log, in events and in characters. */
const readBatch = 500;
const readSize = 4 * 1024 * 1024;

interface Awaited {
  readonly seq: Seq;
  readonly reached: () => void;
}

/** Events after a sequence, in order, and the sequence up to which the log was read. */
interface Page {
  readonly events: readonly StoredEvent[];
  readonly upTo: Seq;
}

export class CommitFeed {
  readonly #store: Store;
  readonly #isDoor: boolean;
  readonly #clock: Clock;
  readonly #log: Log;
  #listener: (event: StoredEvent) => void = () => {};
  #read: (event: StoredEvent) => void = () => {};
  /** Sequence of the last event that was dispatched. */
  #upTo: Seq = 0;
  #hasBegun = false;
  #hasEnded = false;
  /** Events of this node that wait until a gap below them is filled. */
  readonly #early = new Map<Seq, StoredEvent>();
  /** Highest sequence that the log is known to hold, and the read in progress. */
  #head: Seq = 0;
  #reading: Promise<void> | null = null;
  readonly #awaited = new Set<Awaited>();
  /** The reading of the row `directoryKey` that has not begun, and the one before it. */
  #asked: Promise<Seq> | null = null;
  #asking: Promise<unknown> = Promise.resolve();

  constructor(store: Store, clock: Clock, log: Log, isDoor = false) {
    this.#store = store;
    this.#isDoor = isDoor;
    this.#clock = clock;
    this.#log = log;
  }

  get upTo(): Seq {
    return this.#upTo;
  }

  /** The first event to dispatch is the one after this sequence. */
  startAt(seq: Seq): void {
    this.#upTo = seq;
  }

  /** Starts dispatching. Events written since `startAt` are read from the log. [COMMIT-FEED-2] */
  begin(): void {
    this.#hasBegun = true;
    this.follow(0);
  }

  /** Dispatches nothing more: the hub has closed, and the next one takes the rest from the log. */
  end(): void {
    this.#hasEnded = true;
    this.#awaited.clear();
  }

  /** The listener gets every event, in order, and must not throw. */
  onCommitted(listener: (event: StoredEvent) => void): void {
    this.#listener = listener;
  }

  /**
   * The listener gets every event that came from the log, after its dispatch, and must not throw. An event of this node
   * may be among them: one that was read before the end of its commit arrived here.
   */
  onRead(listener: (event: StoredEvent) => void): void {
    this.#read = listener;
  }

  /** A commit of this node put this event into the log. [COMMIT-FEED-1, COMMIT-FEED-3] */
  committed(event: StoredEvent): void {
    if (this.#isDoor || this.#hasEnded) return;
    const { seq } = event;
    if (!this.#hasBegun) return this.follow(seq);
    if (seq <= this.#upTo) return;
    if (seq === this.#upTo + 1) return this.#next(event);
    this.#early.set(seq, event);
    this.follow(seq);
  }

  /** Announces that the log goes up to this sequence. [COMMIT-FEED-1] */
  follow(seq: Seq): void {
    this.#head = Math.max(this.#head, seq);
    if (!this.#hasBegun || this.#head <= this.#upTo || this.#isOver()) return;
    this.#reading ??= this.#readOn().finally(() => {
      this.#reading = null;
      // A sequence may have been announced after the last check of the read.
      this.follow(0);
    });
  }

  /**
   * Resolves when the event of this sequence, which is in the log, has been dispatched; throws `unavailable` after
   * `reachedMs`.
   */
  async reached(seq: Seq): Promise<void> {
    if (seq <= this.#upTo) return;
    let stop = () => {};
    const reached = new Promise<void>((resolve) => {
      stop = this.onReached(seq, resolve);
    });
    await this.#inTime(reached).catch((error: unknown) => {
      stop();
      throw error;
    });
  }

  /**
   * Resolves when every change of partners and routes that the log has by now is dispatched, to whether there was one;
   * throws `unavailable` as `reached` does, or when the log cannot be read.
   */
  async caughtUp(): Promise<boolean> {
    const last = await this.#inTime(this.#lastChange());
    if (last <= this.#upTo) return false;
    await this.reached(last);
    return true;
  }

  /** Sequence of the last change of partners or routes. Callers that come while it is read share the next reading. */
  #lastChange(): Promise<Seq> {
    this.#asked ??= this.#asking.then(async () => {
      this.#asked = null;
      return (await this.#inTime(this.#store.get(directoryKey)))?.seq ?? 0;
    });
    this.#asking = this.#asked.catch(() => {});
    return this.#asked;
  }

  /** Throws `unavailable` after `reachedMs`. */
  async #inTime<T>(work: Promise<T>): Promise<T> {
    if (await withTimeout(this.#clock, reachedMs, work)) return work;
    throw new HubError('unavailable', { retryAfterS: 1 });
  }

  /**
   * Calls `reached` when the event of this sequence, which is in the log, has been dispatched; the result ends that.
   * What it throws is logged.
   */
  onReached(seq: Seq, reached: () => void): () => void {
    const awaited: Awaited = { seq, reached };
    if (seq <= this.#upTo) this.#call(awaited);
    else {
      this.#awaited.add(awaited);
      this.follow(seq);
    }
    return () => void this.#awaited.delete(awaited);
  }

  /** Never rejects. */
  async #readOn(): Promise<void> {
    // Commits of this node that end in this turn of the event loop bring their events themselves.
    await nextTurn();
    while (this.#upTo < this.#head && !this.#isOver()) {
      try {
        const { events, upTo } = await (this.#isDoor ? this.#changes() : this.#page());
        if (this.#hasEnded) return;
        for (const event of events) {
          if (event.seq <= this.#upTo) continue;
          this.#next(event);
          this.#read(event);
        }
        if (this.#reachedTo(upTo)) continue;
      } catch (error) {
        this.#log.error({ err: error }, 'could not read events of other nodes from the log; retrying');
      }
      await sleep(this.#clock, readAgainMs);
    }
  }

  #isOver(): boolean {
    return this.#hasEnded || this.#store.health().state === 'closed';
  }

  async #page(): Promise<Page> {
    const read = await this.#store.read({ after: this.#upTo, limit: readBatch, size: readSize });
    const events = read.map(withoutWho);
    return { events, upTo: events.at(-1)?.seq ?? 0 };
  }

  /** The next events of the log up to the last change of partners or routes. [COMMIT-FEED-3] */
  async #changes(): Promise<Page> {
    const [after, head] = [this.#upTo, this.#head];
    const last = (await this.#store.get(directoryKey))?.seq ?? 0;
    if (last <= after) return { events: [], upTo: head };
    const upTo = Math.min(last, after + readBatch);
    return { events: (await this.#store.ranges([{ after, upTo }])).map(withoutWho), upTo };
  }

  #next(event: StoredEvent): void {
    for (let next: StoredEvent | undefined = event; next; next = this.#early.get(this.#upTo + 1)) {
      this.#early.delete(next.seq);
      this.#upTo = next.seq;
      this.#listener(next);
    }
    this.#resolve();
  }

  /** Moves to the end of a page; false when the page was empty, so that the caller waits before it reads again. */
  #reachedTo(seq: Seq): boolean {
    const before = this.#upTo;
    this.#upTo = Math.max(before, seq);
    this.#resolve();
    return seq > 0;
  }

  #resolve(): void {
    for (const awaited of this.#awaited) {
      if (awaited.seq > this.#upTo) continue;
      this.#awaited.delete(awaited);
      this.#call(awaited);
    }
  }

  #call({ reached }: Awaited): void {
    try {
      reached();
    } catch (error) {
      this.#log.error({ err: error }, 'what follows from a committed event failed; the next start makes up for it');
    }
  }
}
