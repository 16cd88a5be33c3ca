/**
 * Feeds call outcomes to a partner's circuit breakers. It batches the successes of a healthy circuit for 5 s, so that a
 * busy partner does not cost an actor event per call.
 *
 * BREAKER-FEED-1  Successes of a healthy circuit (closed, no failures in a row) are sent as one event with a count:
 *     sent one by one, they would change only that count. A batch that is older than the sample window of a circuit
 *     (`sampleMs`) is dropped.
 * BREAKER-FEED-2  The batch is sent before any outcome that may open the circuit. A circuit that is not healthy gets
 *     every outcome at once.
 */
import { type CircuitName, partnerMachine, sampleMs } from '../../../machines/partner.ts';
import type { Supervisor } from '../../../machines/supervisor.ts';
import { circuitSign, type Outcome } from '../../domain/errors.ts';

const signEvents = { failure: 'failed', reachable: 'reached', neutral: 'neutral' } as const;

/**
 * How long a batch of successes may be held back, ms. It must stay well below `sampleMs`, or the failure ratio of a
 * circuit is wrong.
 */
const toldAfterMs = 5_000;

interface Tally {
  calls: number;
  /** When the first call of the batch ended, epoch ms. */
  since: number;
}

export class BreakerFeed {
  readonly #supervisor: Supervisor;
  readonly #tallies: Readonly<Record<CircuitName, Map<string, Tally>>> = { sync: new Map(), async: new Map() };

  constructor(supervisor: Supervisor) {
    this.#supervisor = supervisor;
  }

  /** A call to the partner of this actor ended; `at` in epoch ms. */
  told(actor: string, circuit: CircuitName, outcome: Outcome, at: number): void {
    const sign = circuitSign(outcome);
    const tally = this.#tallyOf(actor, circuit);
    const isWell = this.#isWell(actor, circuit);
    if (tally.calls === 0) tally.since = at;
    if (isWell && sign === 'reachable' && at - tally.since < toldAfterMs) {
      tally.calls++;
      return;
    }
    const calls = at - tally.since > sampleMs ? 0 : tally.calls;
    tally.calls = 0;
    // A batch that began before the circuit opened is dropped: it says nothing about the partner's health now.
    if (isWell && calls > 0) this.#supervisor.send(actor, { type: `${circuit}.reached`, at, calls });
    this.#supervisor.send(actor, { type: `${circuit}.${signEvents[sign]}`, at });
  }

  #tallyOf(actor: string, circuit: CircuitName): Tally {
    const tallies = this.#tallies[circuit];
    let tally = tallies.get(actor);
    if (!tally) {
      tally = { calls: 0, since: 0 };
      tallies.set(actor, tally);
    }
    return tally;
  }

  #isWell(actor: string, circuit: CircuitName): boolean {
    const snapshot = this.#supervisor.snapshot(partnerMachine, actor);
    return snapshot?.value[circuit] === 'closed' && snapshot.context[circuit].failures === 0;
  }
}
