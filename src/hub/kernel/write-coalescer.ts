/**
 * Coalesces facts that no caller waits for: the facts of 20 ms go to the store as one commit.
 *
 * WRITE-COALESCER-1  A fact keeps the instant at which it arrived, and goes to the store at most `gatherMs` later.
 * WRITE-COALESCER-2  `close` flushes the pending facts; a fact that arrives after `close` goes to the store at once.
 */
import type { Clock } from '../../kit/clock.ts';
import type { Noted } from './recorder.ts';

/** How long facts are gathered, ms: a crash loses the facts of this span. */
const gatherMs = 20;
/** Flush threshold, in facts: about the size of one batch of the store. */
const gatheredMax = 256;

/** [WRITE-COALESCER-1] */
type Timed = Noted['facts'][number] & { readonly at: string };

export class WriteCoalescer {
  readonly #recorder: { note(recording: Noted): void };
  readonly #clock: Clock;
  #gathered: Timed[] = [];
  #closed = false;

  constructor(recorder: { note(recording: Noted): void }, clock: Clock) {
    this.#recorder = recorder;
    this.#clock = clock;
  }

  add(fact: Timed): void {
    this.#gathered.push(fact);
    if (this.#closed || this.#gathered.length >= gatheredMax) this.#handOver();
    else if (this.#gathered.length === 1) this.#clock.setTimeout(() => this.#handOver(), gatherMs);
  }

  close(): void {
    this.#closed = true;
    this.#handOver();
  }

  #handOver(): void {
    const facts = this.#gathered;
    this.#gathered = [];
    if (facts.length > 0) this.#recorder.note({ facts, unfenced: true, trace: null });
  }
}
