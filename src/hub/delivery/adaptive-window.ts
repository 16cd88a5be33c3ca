/**
 * Adaptive concurrency limit of one module of a receiving partner: how many deliveries are worth having in flight at its
 * own pace,
 * which is three times its rate times its latency (Little's law, measured as TCP BBR does), below the setting.
 *
 * Attempts are measured in rounds of about as many as are in flight. The rate is the highest of the last rounds, the
 * latency the lowest since the last probe: a partner that takes more in parallel shows a higher rate and gets more; one
 * at which deliveries queue shows only a higher latency and gets no more.
 *
 * ADAPTIVE-WINDOW-1  The limit changes only in rounds that used at least half of it: an idle partner keeps its limit. Time in
 *     which nothing is in flight counts for no rate: between two bursts a partner does not become slower.
 * ADAPTIVE-WINDOW-2  It stays between `first` and the setting; only a probe lowers it further.
 * ADAPTIVE-WINDOW-3  While it is used, a probe now and then lowers it to `min` for one round of deliveries that began
 *     after it: this empties a queue at the partner, so that the lowest latency is one without a queue. A partner that
 *     seems to need less than half of its limit, or less than `first`, is probed at once: it may have become slower, and
 *     its lower rate times the latency that it had comes to less than it can take.
 */

/** Below this the time between an answer and the next delivery would leave a partner idle. */
const min = 4;
/** Deliveries in flight that a partner gets before anything is known of it, and at least. */
const first = 8;
/** Attempts of a round at least: the mean of fewer would follow single outliers. */
const roundMin = 16;
const ratesKept = 8;
/** Two would be exact; the lowest latency of a partner with jitter is below its mean, and would hold such a partner down. */
const gain = 3;
/** Time between probes, ms, and at least so many latencies: a probe takes about five. */
const probeMs = 10_000;
const probeLatencies = 100;

export class AdaptiveWindow {
  readonly #max: number;
  readonly #least: number;
  #limit: number;
  /** Attempts per ms, of the last rounds. */
  readonly #rates: number[] = [];
  /** The lowest latency since the last probe, ms: mean of a round. */
  #lowestMs = Number.POSITIVE_INFINITY;
  /** Start of the probe, ms; null between probes. */
  #probing: number | null = null;
  #probedAt: number | null = null;
  /** Of the present round: attempts, those that used half of the limit, sum of their durations, and its start, ms. */
  #count = 0;
  #used = 0;
  #sumMs = 0;
  #startedAt = 0;
  /** Since when nothing is in flight, ms; null while something is. */
  #idleSince: number | null = null;

  /** `max`: HUB_DELIVERY_CONCURRENCY. */
  constructor(max: number) {
    this.#max = max;
    this.#least = Math.min(first, max);
    this.#limit = this.#least;
  }

  /** Deliveries in flight at most. */
  get limit(): number {
    return this.#probing === null ? this.#limit : Math.min(min, this.#max);
  }

  /**
   * A delivery was taken, or timed out, at an instant (hub time). `inFlight`: deliveries in flight with it. A refusal does
   * not count: it is quick and says nothing of the pace.
   */
  attempted(durationMs: number, { inFlight, at }: { inFlight: number; at: number }): void {
    this.#probedAt ??= at;
    const begunAt = at - durationMs;
    if (this.#idleSince !== null) this.#startedAt += Math.max(0, begunAt - this.#idleSince);
    this.#idleSince = inFlight === 1 ? at : null;
    if (this.#probing !== null && begunAt < this.#probing) return;
    if (this.#count === 0) this.#startedAt = at;
    this.#count++;
    this.#sumMs += durationMs;
    if (inFlight * 2 >= this.limit) this.#used++;
    if (this.#count >= Math.max(roundMin, this.limit)) this.#endRound(at);
  }

  #endRound(at: number): void {
    const isUsed = this.#used * 2 >= this.#count;
    const rate = (this.#count - 1) / Math.max(at - this.#startedAt, 1);
    const latencyMs = Math.max(this.#sumMs / this.#count, 1);
    [this.#count, this.#used, this.#sumMs] = [0, 0, 0];
    if (this.#probing !== null) {
      [this.#probing, this.#probedAt, this.#lowestMs] = [null, at, latencyMs];
      return;
    }
    this.#lowestMs = Math.min(this.#lowestMs, latencyMs);
    // [ADAPTIVE-WINDOW-1]
    if (!isUsed) return;
    this.#rates.push(rate);
    if (this.#rates.length > ratesKept) this.#rates.shift();
    const wanted = Math.ceil(gain * Math.max(...this.#rates) * this.#lowestMs);
    // [ADAPTIVE-WINDOW-2]
    const isFalling = wanted < Math.max(this.#least, this.#limit / 2);
    this.#limit = Math.min(this.#max, Math.max(this.#least, wanted));
    // [ADAPTIVE-WINDOW-3]
    const untilProbeMs = Math.max(probeMs, probeLatencies * this.#lowestMs);
    if (isFalling || at - (this.#probedAt ?? at) >= untilProbeMs) this.#probing = at;
  }
}
