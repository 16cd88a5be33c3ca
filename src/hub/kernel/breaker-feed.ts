/**
 * Feeds call outcomes to the circuits. It batches the successes of a healthy circuit for 5 s, so that a busy partner does
 * not cost an actor event per call, and knows on whose behalf the latest calls failed: the **source** of a call is the partner that asks,
 * sends the command or its result, or owns the object.
 *
 * BREAKER-FEED-1  Successes of a healthy circuit (closed, no failures in a row, at full pace) are sent as one event with
 *     a count: sent one by one, they would change only that count. A batch that is older than the sample window of a
 *     circuit (`sampleMs`) is dropped.
 * BREAKER-FEED-2  The batch is sent before any outcome that may open the circuit. A circuit that is not healthy gets
 *     every outcome at once.
 * BREAKER-FEED-3  Successes alone start no circuit: the first failure does.
 * BREAKER-FEED-4  A failure is neutral while, of the sources that called within `sampleMs`, at least as many were reached by their latest call as were
 *     not: what one partner sends makes a server fail, and the server answers the others. When it is really down, the next call of
 *     each source fails, and failures count.
 * BREAKER-FEED-5  A circuit that opened on failures of one source holds back that source alone, until a call of another one fails. A
 *     source whose latest call within `sampleMs` was reached may call as it likes, the others together `trialsMax` at a time.
 * BREAKER-FEED-6  It knows at most `sourcesMax` sources of a circuit; the one that called last longest ago goes first.
 */
import { sampleMs } from '../../../machines/circuit.ts';
import { circuitSign, type Outcome } from '../../domain/errors.ts';
import type { PartyId } from '../../domain/party.ts';
import type { CircuitName, Circuits } from './circuits.ts';

/**
 * How long a batch of successes may be held back, ms. It must stay well below `sampleMs`, or the failure ratio of a
 * circuit is wrong.
 */
const batchMs = 5_000;
/** More cost memory and the time of each failure, which looks at all of them. */
const sourcesMax = 64;
/** A larger number lets more callers wait for a server that is down for all. */
const trialsMax = 4;

/** The latest call on behalf of a partner. */
interface Source {
  isReached: boolean;
  /** When it ended, hub time, ms. */
  at: number;
}

interface Tally {
  calls: number;
  /** When the first call of the batch ended, hub time, ms. */
  since: number;
  readonly sources: Map<PartyId, Source>;
  /** Calls in flight while the circuit holds back another source. */
  trials: number;
}

type Breakers = Pick<Circuits, 'has' | 'isWell' | 'tell' | 'failingSource'>;

export class BreakerFeed {
  readonly #circuits: Breakers;
  readonly #tallies = new Map<PartyId, Map<CircuitName, Tally>>();

  constructor(circuits: Breakers) {
    this.#circuits = circuits;
  }

  /**
   * A call to the partner on behalf of `source` ended; `at` in hub time, ms. `object`: what it was about, for
   * deliveries.
   */
  report(partner: PartyId, circuit: CircuitName, outcome: Outcome, at: number, source: PartyId, object?: string): void {
    const tally = this.#tallyOf(partner, circuit);
    const sign = this.#signOf(tally, outcome, at, source);
    const isWell = this.#circuits.isWell(partner, circuit);
    const exists = this.#circuits.has(partner, circuit);
    if (tally.calls === 0 || at - tally.since > sampleMs) {
      tally.calls = 0;
      tally.since = at;
    }
    if (isWell && sign === 'reachable' && (!exists || at - tally.since < batchMs)) {
      tally.calls++;
      return;
    }
    if (!exists && sign === 'neutral') return;
    const { calls } = tally;
    tally.calls = 0;
    // A batch that began before the circuit opened is dropped: it says nothing about the partner's health now.
    if (isWell && calls > 0) this.#circuits.tell(partner, circuit, { type: 'call.reached', at, calls });
    if (sign === 'reachable') return this.#circuits.tell(partner, circuit, { type: 'call.reached', at });
    if (sign === 'neutral') return this.#circuits.tell(partner, circuit, { type: 'call.neutral', at });
    const onlySource = isFailing(tally, at, source) ? null : source;
    this.#circuits.tell(partner, circuit, { type: 'call.failed', at, object, onlySource });
  }

  /** The source that a circuit holds back alone; null: the circuit is closed, or holds back every call. [BREAKER-FEED-5] */
  heldBack(partner: PartyId, circuit: CircuitName, at: number): PartyId | null {
    const source = this.#circuits.failingSource(partner, circuit);
    return source === null || isFailing(this.#tallyOf(partner, circuit), at, source) ? null : source;
  }

  /** Begins a call although the circuit is not closed; false: it is held back. The caller ends it with `endPass`. [BREAKER-FEED-5] */
  beginPass(partner: PartyId, circuit: CircuitName, at: number, source: PartyId): boolean {
    const held = this.heldBack(partner, circuit, at);
    if (held === null || held === source) return false;
    const tally = this.#tallyOf(partner, circuit);
    const known = tally.sources.get(source);
    const isReached = known?.isReached && at - known.at <= sampleMs;
    if (!isReached && tally.trials >= trialsMax) return false;
    tally.trials++;
    return true;
  }

  endPass(partner: PartyId, circuit: CircuitName): void {
    this.#tallyOf(partner, circuit).trials--;
  }

  /** What the end of a call says of the partner, beside the latest calls of other sources. [BREAKER-FEED-4] */
  #signOf({ sources }: Tally, outcome: Outcome, at: number, source: PartyId) {
    const sign = circuitSign(outcome);
    if (sign === 'neutral') return sign;
    const known = sources.get(source) ?? entered(sources, source);
    known.isReached = sign === 'reachable';
    known.at = at;
    if (sign === 'reachable') return sign;
    let more = 0;
    for (const latest of sources.values()) if (at - latest.at <= sampleMs) more += latest.isReached ? 1 : -1;
    return more >= 0 ? 'neutral' : sign;
  }

  #tallyOf(partner: PartyId, circuit: CircuitName): Tally {
    const tallies = this.#tallies.get(partner) ?? new Map<CircuitName, Tally>();
    const tally = tallies.get(circuit) ?? { calls: 0, since: 0, sources: new Map(), trials: 0 };
    if (!tallies.has(circuit)) this.#tallies.set(partner, tallies.set(circuit, tally));
    return tally;
  }
}

/** Whether the latest call of another source failed within `sampleMs`. */
function isFailing({ sources }: Tally, now: number, except: PartyId): boolean {
  for (const [source, { isReached, at }] of sources)
    if (!isReached && source !== except && now - at <= sampleMs) return true;
  return false;
}

/** [BREAKER-FEED-6] */
function entered(sources: Map<PartyId, Source>, source: PartyId): Source {
  let gone: PartyId | null = null;
  let goneAt = Number.POSITIVE_INFINITY;
  if (sources.size >= sourcesMax) for (const [one, { at }] of sources) if (at < goneAt) [gone, goneAt] = [one, at];
  if (gone !== null) sources.delete(gone);
  const fresh = { isReached: true, at: 0 };
  sources.set(source, fresh);
  return fresh;
}
