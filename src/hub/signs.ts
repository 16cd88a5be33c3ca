/**
 * What the ends of calls say of a partner, told to its circuits.
 *
 * G1  Successes of a circuit that is well are told together: one by one they would change nothing but a count.
 * G2  They are told before anything that may open the circuit, and of a circuit that is not well each end is told at once.
 */
import { type CircuitName, partnerMachine } from '../../machines/partner.ts';
import type { Supervisor } from '../../machines/supervisor.ts';
import { circuitSign, type Outcome } from '../domain/errors.ts';

const signEvents = { failure: 'failed', reachable: 'reached', neutral: 'neutral' } as const;

const toldTogether = 50;
const toldAfterMs = 1_000;

interface Tally {
  calls: number;
  /** Of the first of them, epoch ms. */
  readonly since: number;
}

export class Signs {
  readonly #supervisor: Supervisor;
  readonly #tallies = new Map<string, Tally>();

  constructor(supervisor: Supervisor) {
    this.#supervisor = supervisor;
  }

  /** A call of the partner with this actor ended; `at` epoch ms. */
  told(actor: string, circuit: CircuitName, outcome: Outcome, at: number): void {
    const name = `${actor} ${circuit}`;
    const sign = circuitSign(outcome);
    const tally = this.#tallies.get(name) ?? { calls: 0, since: at };
    const isWell = this.#isWell(actor, circuit);
    if (isWell && sign === 'reachable' && tally.calls < toldTogether && at - tally.since < toldAfterMs) {
      tally.calls++;
      this.#tallies.set(name, tally);
      return;
    }
    this.#tallies.delete(name);
    // Calls from before the circuit opened say nothing of how it is now.
    if (isWell && tally.calls > 0) this.#supervisor.send(actor, { type: `${circuit}.reached`, at, calls: tally.calls });
    this.#supervisor.send(actor, { type: `${circuit}.${signEvents[sign]}`, at });
  }

  #isWell(actor: string, circuit: CircuitName): boolean {
    const snapshot = this.#supervisor.snapshot(partnerMachine, actor);
    return snapshot?.value[circuit] === 'closed' && snapshot.context[circuit].failures === 0;
  }
}
