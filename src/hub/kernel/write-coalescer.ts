/**
 * Facts that nobody waits for, gathered: what came within a moment is written in one batch of the store instead of many.
 *
 * WRITE-COALESCER-1  A fact keeps the instant at which it came, and is handed to the store `gatherMs` later at most.
 * WRITE-COALESCER-2  `close` hands over what was gathered; whatever comes after it goes on at once.
 */
import type { Clock } from '../../kit/clock.ts';
import type { Recorder, Recording } from './recorder.ts';

const gatherMs = 20;
/** About as many as the store takes into one batch. */
const gatheredMax = 256;

export class WriteCoalescer {
  readonly #recorder: Pick<Recorder, 'note'>;
  readonly #clock: Clock;
  #gathered: Recording[] = [];
  #closed = false;

  constructor(recorder: Pick<Recorder, 'note'>, clock: Clock) {
    this.#recorder = recorder;
    this.#clock = clock;
  }

  add(recording: Recording): void {
    this.#gathered.push(recording);
    if (this.#closed || this.#gathered.length >= gatheredMax) this.#handOver();
    else if (this.#gathered.length === 1) this.#clock.setTimeout(() => this.#handOver(), gatherMs);
  }

  close(): void {
    this.#closed = true;
    this.#handOver();
  }

  /** What was gathered goes to the store now. */
  #handOver(): void {
    const gathered = this.#gathered;
    this.#gathered = [];
    for (const recording of gathered) this.#recorder.note(recording);
  }
}
