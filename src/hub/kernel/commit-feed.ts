/**
 * Hands committed events of all nodes on in order of sequence, without a gap. [RECORDER-3]
 *
 * COMMIT-FEED-1  An event of this node comes with the end of its commit. Events of other nodes are read from the log: to fill a gap, and up to a sequence
 *     that `follow` announces.
 * COMMIT-FEED-2  Nothing is handed on before `begin`. Recovery calls it when it has read what is owed up to the sequence of `startAt`.
 * COMMIT-FEED-3  A door needs the changes of partners and routes alone, and reads nothing while there are none.
 */
import type { Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import { type Clock, sleep, withTimeout } from '../../kit/clock.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Log } from '../ports/ports.ts';
import { directoryKey } from './directory-row.ts';

const readAgainMs = 200;
/** Somebody who waits for an answer waits no longer for what others wrote. */
const reachedMs = 5000;
/** A page that is read from the log: so many events, of so many characters. */
const readBatch = 500;
const readSize = 4 * 1024 * 1024;

interface Awaited {
  readonly seq: Seq;
  readonly resolve: () => void;
}

/** What is read from behind a sequence, in order, and up to where the log was read. */
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
  /** Sequence up to which events were handed on, and those that came before a gap was filled. */
  #upTo: Seq = 0;
  #hasBegun = false;
  readonly #early = new Map<Seq, StoredEvent>();
  /** Up to where the log is known to go, and the reading that is under way. */
  #head: Seq = 0;
  #reading: Promise<void> | null = null;
  readonly #awaited = new Set<Awaited>();

  constructor(store: Store, clock: Clock, log: Log, isDoor = false) {
    this.#store = store;
    this.#isDoor = isDoor;
    this.#clock = clock;
    this.#log = log;
  }

  get upTo(): Seq {
    return this.#upTo;
  }

  /** It will begin behind this sequence. */
  startAt(seq: Seq): void {
    this.#upTo = seq;
  }

  /** What was written since is read from the log. [COMMIT-FEED-2] */
  begin(): void {
    this.#hasBegun = true;
    this.follow(0);
  }

  /** Called with every event, in order. Must not throw. */
  onCommitted(listener: (event: StoredEvent) => void): void {
    this.#listener = listener;
  }

  /** Called with every event that came from the log alone, when it was handed on. One of ours may be among them. Must not throw. */
  onRead(listener: (event: StoredEvent) => void): void {
    this.#read = listener;
  }

  /** An event of ours is in the log. [COMMIT-FEED-1, COMMIT-FEED-3] */
  committed(event: StoredEvent): void {
    if (this.#isDoor) return;
    const { seq } = event;
    if (!this.#hasBegun) return this.follow(seq);
    if (seq <= this.#upTo) return;
    if (seq === this.#upTo + 1) return this.#next(event);
    this.#early.set(seq, event);
    this.follow(seq);
  }

  /** The log goes up to this sequence. [COMMIT-FEED-1] */
  follow(seq: Seq): void {
    this.#head = Math.max(this.#head, seq);
    if (!this.#hasBegun || this.#head <= this.#upTo || this.#store.health().state === 'closed') return;
    this.#reading ??= this.#readOn().finally(() => {
      this.#reading = null;
      // It may have ended just before it was told of more.
      this.follow(0);
    });
  }

  /** Resolves when the event of this sequence, which is in the log, was handed on. Refuses with `unavailable` when that takes long. */
  async reached(seq: Seq): Promise<void> {
    if (seq <= this.#upTo) return;
    let resolve = () => {};
    const reached = new Promise<void>((done) => {
      resolve = done;
    });
    const awaited: Awaited = { seq, resolve };
    this.#awaited.add(awaited);
    this.follow(seq);
    if (await withTimeout(this.#clock, reachedMs, reached)) return;
    this.#awaited.delete(awaited);
    throw new HubError('unavailable', { retryAfterS: 1 });
  }

  /** Never rejects. */
  async #readOn(): Promise<void> {
    // Those of ours that end in this turn come by themselves.
    await nextTurn();
    while (this.#upTo < this.#head && this.#store.health().state !== 'closed') {
      try {
        const { events, upTo } = await (this.#isDoor ? this.#changes() : this.#page());
        for (const event of events) {
          if (event.seq <= this.#upTo) continue;
          this.#next(event);
          this.#read(event);
        }
        if (this.#reachedTo(upTo)) continue;
      } catch (error) {
        this.#log.error({ err: error }, 'could not read what others wrote; trying again');
      }
      await sleep(this.#clock, readAgainMs);
    }
  }

  async #page(): Promise<Page> {
    const events = await this.#store.read({ after: this.#upTo, limit: readBatch, size: readSize });
    return { events, upTo: events.at(-1)?.seq ?? 0 };
  }

  /** [COMMIT-FEED-3] */
  async #changes(): Promise<Page> {
    const [after, head] = [this.#upTo, this.#head];
    const last = (await this.#store.get(directoryKey))?.seq ?? 0;
    if (last <= after) return { events: [], upTo: head };
    const upTo = Math.min(last, after + readBatch);
    return { events: await this.#store.ranges([{ after, upTo }]), upTo };
  }

  #next(event: StoredEvent): void {
    for (let next: StoredEvent | undefined = event; next; next = this.#early.get(this.#upTo + 1)) {
      this.#early.delete(next.seq);
      this.#upTo = next.seq;
      this.#listener(next);
    }
    this.#resolve();
  }

  /** False when the log was read before up to there. */
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
      awaited.resolve();
    }
  }
}
