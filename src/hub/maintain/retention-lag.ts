/**
 * Tells operators when retention falls behind: by a figure for the metrics, and by warnings.
 *
 * RETENTION-LAG-1  The lag is by how long the oldest event of the log is older than events are kept. It is 0 while a
 *     partner holds that event, which `Retention.held` tells instead. Between two sweeps it grows to the interval of
 *     sweeps at most.
 * RETENTION-LAG-2  Every `measuredMs` of a sweep a warning tells that the lag exceeds `behindMs`, or that the log grew by
 *     more events than the sweep trimmed. A sweep that ends before it warned tells the lag alone.
 */
import type { Seq, Store } from '../../../storage/contract.ts';
import { type Clock, minuteMs } from '../../kit/clock.ts';
import type { Log } from '../ports/ports.ts';

/** Time over which what was trimmed is compared with what was written, ms. */
const measuredMs = 10 * minuteMs;
/** Twice the interval of sweeps: retention that keeps up is behind by one, and by the length of a sweep. Alerts have it too. */
const behindMs = 120 * minuteMs;

/** The log as it was at an instant of hub time. */
interface Measured {
  readonly at: number;
  readonly head: Seq;
  readonly horizon: Seq;
}

export class RetentionLag {
  readonly #store: Pick<Store, 'head' | 'horizon'>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #keepMs: number;
  /** Hub time of the oldest event that nobody holds; null when there is none, or before the first sweep. */
  #oldest: number | null = null;
  #since: Measured | null = null;
  #hasWarned = false;

  /** `keepMs`: for how long events are kept. */
  constructor(store: Pick<Store, 'head' | 'horizon'>, clock: Clock, log: Log, keepMs: number) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#keepMs = keepMs;
  }

  /** Seconds. [RETENTION-LAG-1] */
  lagS(): number {
    return this.#oldest === null ? 0 : Math.max(0, this.#clock.now() - this.#keepMs - this.#oldest) / 1000;
  }

  /** A sweep begins. */
  begin(): void {
    this.#since = this.#measure();
    this.#hasWarned = false;
  }

  /** Called after each piece; `oldest`: time of day of the oldest event of the log that nobody holds, RFC 3339, or null. */
  look(oldest: string | null): void {
    this.#oldest = oldest === null ? null : this.#clock.steady(Date.parse(oldest));
    if (this.#since !== null && this.#clock.now() - this.#since.at >= measuredMs) this.#tell(this.#since);
  }

  /** The sweep ended. */
  end(): void {
    if (this.#since !== null && !this.#hasWarned) this.#tell(this.#since, true);
    this.#since = null;
  }

  /** [RETENTION-LAG-2] */
  #tell(since: Measured, isEnd = false): void {
    const now = this.#measure();
    this.#since = now;
    const figures = {
      lag_s: Math.round(this.lagS()),
      trimmed: now.horizon - since.horizon,
      written: now.head - since.head,
      in_s: Math.round((now.at - since.at) / 1000),
    };
    const isSlower = !isEnd && figures.trimmed < figures.written;
    if (!isSlower && this.lagS() * 1000 <= behindMs) return;
    this.#hasWarned = true;
    this.#log.warn(figures, 'retention falls behind: the log grows; trimming goes on');
  }

  #measure(): Measured {
    return { at: this.#clock.now(), head: this.#store.head(), horizon: this.#store.horizon() };
  }
}
