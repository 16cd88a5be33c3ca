/**
 * Up to where in the log all follow-ups of sessions are done, kept as a floor in the outbox: an owner that follows one
 * that died reads on from there, however long there was none.
 *
 * FOLLOW-UP-FLOOR-1  The floor passes an event only when a whole interval has gone by since it was dispatched in which no
 *     follow-up failed, and at its end none is under way: the follow-up of an event begins at the latest moments after it.
 */
import type { Seq } from '../../../storage/contract.ts';
import type { Context } from '../kernel/context.ts';

const dest = 'orphan-follow-ups';
/** A longer one makes the next owner read more of the log. */
const intervalMs = 10_000;

export class FollowUpFloor {
  readonly #context: Context;
  /** Follow-ups under way. */
  #under = 0;
  /** What was dispatched when the interval began; null after a failure. */
  #upTo: Seq | null = null;
  #written: Seq = 0;

  constructor(context: Context) {
    this.#context = context;
  }

  /** Null for a store in which none was written yet. */
  async read(): Promise<Seq | null> {
    return (await this.#context.store.floors()).find((floor) => floor.dest === dest)?.seq ?? null;
  }

  /** Counts a follow-up until it has ended. */
  during<T>(followUp: Promise<T>): Promise<T> {
    this.#under++;
    return followUp
      .catch((error: unknown) => {
        this.#upTo = null;
        throw error;
      })
      .finally(() => void this.#under--);
  }

  /** Writes the floor from now on. */
  keep(): void {
    const { timers, ports } = this.#context;
    timers.arm(dest, ports.clock.now() + intervalMs, () => {
      this.#step();
      this.keep();
    });
  }

  /** [FOLLOW-UP-FLOOR-1] */
  #step(): void {
    const { store, recorder, ports } = this.#context;
    const seq = this.#upTo;
    this.#upTo = recorder.feed.upTo;
    const fence = store.held();
    if (seq === null || seq <= this.#written || this.#under > 0 || !fence) return;
    this.#written = seq;
    store.settle(fence, [], [{ dest, seq }]).catch((error: unknown) => {
      this.#written = 0;
      ports.log.warn({ err: error }, 'could not note which events were followed; next try in 10 s');
    });
  }
}
