/**
 * Feeds call outcomes to the circuits. It batches the successes of a healthy circuit for 5 s, so that a busy partner does
 * not cost an actor event per call.
 *
 * BREAKER-FEED-1  Successes of a healthy circuit (closed, no failures in a row, at full pace) are sent as one event with
 *     a count: sent one by one, they would change only that count. A batch that is older than the sample window of a
 *     circuit (`sampleMs`) is dropped.
 * BREAKER-FEED-2  The batch is sent before any outcome that may open the circuit. A circuit that is not healthy gets
 *     every outcome at once.
 * BREAKER-FEED-3  Successes alone start no circuit: the first failure does.
 */
import { sampleMs } from '../../../machines/circuit.ts';
import { circuitSign, type Outcome } from '../../domain/errors.ts';
import type { PartyId } from '../../domain/party.ts';
import type { CircuitName, Circuits } from './circuits.ts';

const signEvents = { failure: 'call.failed', reachable: 'call.reached', neutral: 'call.neutral' } as const;

/**
 * How long a batch of successes may be held back, ms. It must stay well below `sampleMs`, or the failure ratio of a
 * circuit is wrong.
 */
const toldAfterMs = 5_000;

interface Tally {
  calls: number;
  /** When the first call of the batch ended, hub time, ms. */
  since: number;
}

export class BreakerFeed {
  readonly #circuits: Pick<Circuits, 'has' | 'isWell' | 'tell'>;
  readonly #tallies = new Map<PartyId, Map<CircuitName, Tally>>();

  constructor(circuits: Pick<Circuits, 'has' | 'isWell' | 'tell'>) {
    this.#circuits = circuits;
  }

  /** A call to the partner ended; `at` in hub time, ms. `object`: what it was about, for deliveries. */
  told(partner: PartyId, circuit: CircuitName, outcome: Outcome, at: number, object?: string): void {
    const sign = circuitSign(outcome);
    const tally = this.#tallyOf(partner, circuit);
    const isWell = this.#circuits.isWell(partner, circuit);
    const exists = this.#circuits.has(partner, circuit);
    if (tally.calls === 0 || at - tally.since > sampleMs) Object.assign(tally, { calls: 0, since: at });
    if (isWell && sign === 'reachable' && (!exists || at - tally.since < toldAfterMs)) {
      tally.calls++;
      return;
    }
    if (!exists && sign === 'neutral') return;
    const { calls } = tally;
    tally.calls = 0;
    // A batch that began before the circuit opened is dropped: it says nothing about the partner's health now.
    if (isWell && calls > 0) this.#circuits.tell(partner, circuit, { type: 'call.reached', at, calls });
    const event = { type: signEvents[sign], at };
    this.#circuits.tell(partner, circuit, sign === 'failure' ? { ...event, type: 'call.failed', object } : event);
  }

  #tallyOf(partner: PartyId, circuit: CircuitName): Tally {
    const tallies = this.#tallies.get(partner) ?? new Map<CircuitName, Tally>();
    const tally = tallies.get(circuit) ?? { calls: 0, since: 0 };
    if (!tallies.has(circuit)) this.#tallies.set(partner, tallies.set(circuit, tally));
    return tally;
  }
}
