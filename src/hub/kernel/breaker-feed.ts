/**
 * What the ends of calls say of a partner, told to its circuits.
 *
 * BREAKER-FEED-1  Successes of a circuit that is well are told together: one by one they would change nothing but a count.
 *     Those from before the time over which a circuit counts are not told any more.
 * BREAKER-FEED-2  They are told before anything that may open the circuit, and of a circuit that is not well each end is told at once.
 */
import { type CircuitName, partnerMachine, sampleMs } from '../../../machines/partner.ts';
import type { Supervisor } from '../../../machines/supervisor.ts';
import { circuitSign, type Outcome } from '../../domain/errors.ts';

const signEvents = { failure: 'failed', reachable: 'reached', neutral: 'neutral' } as const;

/** How long successes wait to be told, milliseconds: little of the time over which a circuit counts its calls. */
const toldAfterMs = 5_000;

interface Tally {
  calls: number;
  /** Of the first of them, epoch ms. */
  since: number;
}

export class BreakerFeed {
  readonly #supervisor: Supervisor;
  readonly #tallies: Readonly<Record<CircuitName, Map<string, Tally>>> = { sync: new Map(), async: new Map() };

  constructor(supervisor: Supervisor) {
    this.#supervisor = supervisor;
  }

  /** A call of the partner with this actor ended; `at` epoch ms. */
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
    // Calls from before the circuit opened say nothing of how it is now.
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
