/**
 * Hands committed events on in order of sequence, without a gap, whoever wrote them. [recorder.ts R3]
 *
 * P1  An event of ours comes when its commit has ended. What others wrote in between, or before a sequence that is told, is read from the log.
 */
import type { Seq, Store, StoredEvent } from '../../storage/contract.ts';
import { type Clock, sleep } from '../kit/clock.ts';
import { nextTurn } from '../kit/system-clock.ts';
import type { Log } from './ports.ts';

const readAgainMs = 200;
/** A page that is read from the log: so many events, of so many characters. */
const readBatch = 500;
const readSize = 4 * 1024 * 1024;

export class Dispatch {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  #listener: (event: StoredEvent) => void = () => {};
  /** Sequence up to which events were handed on, and those that came before a gap was filled. */
  #upTo: Seq = 0;
  readonly #early = new Map<Seq, StoredEvent>();
  /** Up to where the log is known to go, and the reading that is under way. */
  #head: Seq = 0;
  #reading: Promise<void> | null = null;
  readonly #awaited = new Set<{ readonly seq: Seq; readonly resolve: () => void }>();

  constructor(store: Store, clock: Clock, log: Log) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
  }

  get upTo(): Seq {
    return this.#upTo;
  }

  /** It begins behind this sequence. */
  startAt(seq: Seq): void {
    this.#upTo = seq;
  }

  /** Called with every event, in order. Must not throw. */
  onCommitted(listener: (event: StoredEvent) => void): void {
    this.#listener = listener;
  }

  /** An event is in the log. */
  committed(event: StoredEvent): void {
    const { seq } = event;
    const next = this.#upTo + 1;
    if (seq < next) return;
    if (seq > next) {
      this.#early.set(seq, event);
      this.follow(seq);
      return;
    }
    this.#upTo = seq;
    this.#listener(event);
    this.#resolve();
    const waiting = this.#early.get(seq + 1);
    if (!waiting) return;
    this.#early.delete(seq + 1);
    this.committed(waiting);
  }

  /** The log goes up to this sequence. [P1] */
  follow(seq: Seq): void {
    this.#head = Math.max(this.#head, seq);
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null;
    });
  }

  /** Resolves when the event of this sequence, which is in the log, was handed on. */
  async reached(seq: Seq): Promise<void> {
    if (seq <= this.#upTo) return;
    const reached = new Promise<void>((resolve) => this.#awaited.add({ seq, resolve }));
    this.follow(seq);
    await reached;
  }

  /** Never rejects. */
  async #read(): Promise<void> {
    // Those of ours that end in this turn come by themselves.
    await nextTurn();
    while (this.#upTo < this.#head && this.#store.health().state !== 'closed') {
      try {
        const events = await this.#store.read({ after: this.#upTo, limit: readBatch, size: readSize });
        for (const event of events) this.committed(event);
        if (events.length > 0) continue;
      } catch (error) {
        this.#log.error({ err: error }, 'could not read what others wrote; trying again');
      }
      await sleep(this.#clock, readAgainMs);
    }
  }

  #resolve(): void {
    for (const awaited of this.#awaited) {
      if (awaited.seq > this.#upTo) continue;
      this.#awaited.delete(awaited);
      awaited.resolve();
    }
  }
}
